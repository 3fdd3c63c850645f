//! Of which arguments is told.

use serde_json::Value;

use crate::common::Fixture;
use crate::{errors, json};

/// Where a function's code cannot be read, it is not known which of its arguments are live: that is
/// `null`, all that were collected are shown, and it is said.
#[test]
fn unreadable_code() {
    let fixture = Fixture::new();
    let of_fixture = |rows: &Value| -> Vec<Value> {
        let rows = rows.as_array().expect("rows").iter();
        let is_in_it = |row: &&Value| {
            let image = row["image"].as_str();
            image.is_some_and(|path| path.ends_with("/fixture"))
        };
        let rows = rows.filter(is_in_it);
        rows.cloned().collect()
    };
    let known = of_fixture(&json(&fixture, &["args"]));
    assert!(!known.is_empty());
    assert!(known.iter().all(|row| row["live"].is_array()), "{known:?}");
    std::fs::remove_file(fixture.image()).expect("removes");
    let output = fixture.run(&["args", "--format", "json"]);
    let unknown = of_fixture(&serde_json::from_slice(&output.stdout).expect("is JSON"));
    assert!(unknown.len() >= known.len(), "{unknown:?}");
    assert!(
        unknown.iter().all(|row| row["live"].is_null()),
        "{unknown:?}"
    );
    let arguments = |rows: &[Value]| -> usize {
        rows.iter()
            .filter_map(|row| Some(row["args"].as_array()?.len()))
            .sum()
    };
    assert!(arguments(&unknown) >= arguments(&known), "{unknown:?}");
    let said = errors(&output);
    assert!(
        said.contains("cannot be read: all six argument registers"),
        "{said}"
    );
}
