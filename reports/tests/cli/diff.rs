//! Two profiles: which they are, and what is said where they do not differ.

use serde_json::Value;

use crate::after::write_after;
use crate::common::{Fixture, Rows, write_epoch_as};
use crate::{code, errors, json};

/// Databases, and epochs of them and of what is read, are sides.
#[test]
fn sides() {
    let fixture = Fixture::new();
    write_after(&fixture);
    let whole = json(&fixture, &["diff", "vcpi.db", "after.db"]);
    for (before, after) in [
        ("vcpi.db@1", "after.db@1"),
        ("@1", "after.db"),
        ("./vcpi.db", "after.db@1"),
    ] {
        assert_eq!(json(&fixture, &["diff", before, after]), whole, "{before}");
    }
    let there = json(&fixture, &["-i", "after.db", "diff", "vcpi.db", "@1"]);
    assert_eq!(there, whole);
    let missing = "No such file or directory";
    for (word, why) in [
        ("no.db", format!("no.db: {missing}")),
        ("@x", format!("@x: {missing}")),
        ("no.db@1", format!("no.db: {missing}")),
        ("vcpi.db/x", "vcpi.db/x: Not a directory".to_owned()),
    ] {
        let output = fixture.run(&["diff", "vcpi.db", word]);
        assert_eq!(code(&output), 3, "{word}: {}", errors(&output));
        for said in [why.as_str(), "FILE@EPOCH"] {
            assert!(errors(&output).contains(said), "{}", errors(&output));
        }
    }
    let output = fixture.run(&["diff", "vcpi.db", "after.db@7"]);
    assert_eq!(code(&output), 1, "{}", errors(&output));
    assert!(errors(&output).contains("there is no epoch 7"));
}

/// A profile does not differ from itself, nor does a copy: that is said, with what was compared.
#[test]
fn nothing_changed() {
    let fixture = Fixture::new();
    std::fs::copy(fixture.database(), fixture.dir().join("copy.db")).expect("copies");
    for other in ["vcpi.db", "copy.db", "@1"] {
        let output = fixture.run(&["diff", "vcpi.db", other, "--format", "json"]);
        assert_eq!(code(&output), 1, "{other}");
        assert_eq!(output.stdout, b"[]\n", "{other}");
        let said = errors(&output);
        assert!(
            said.contains("6 functions and 10 parameters were compared"),
            "{said}"
        );
    }
    let all = json(&fixture, &["diff", "vcpi.db", "copy.db", "--all"]);
    let rows = all.as_array().expect("rows");
    assert!(
        rows.iter()
            .all(|row| row["change"] == 0.0 && row["p"] == 1.0)
    );
}

/// A function may be in one of the two profiles alone; a name that neither has is told.
#[test]
fn one_function() {
    let fixture = Fixture::new();
    write_after(&fixture);
    let keys = |args: &[&str]| -> Vec<Value> {
        let rows = json(&fixture, &[&["diff", "vcpi.db", "after.db"], args].concat());
        let rows = rows.as_array().expect("rows");
        rows.iter().map(|row| row["key"].clone()).collect()
    };
    assert_eq!(keys(&["--function", "hot"]), ["hot"]);
    assert_eq!(keys(&["--function", "copy_page"]), ["copy_page"]);
    assert_eq!(keys(&["--image", "libgone.so"]).len(), 1);
    for absent in [["--function", "no such one"], ["--image", "no such one"]] {
        let output = fixture.run(&[&["diff", "vcpi.db", "after.db"][..], &absent].concat());
        assert_eq!(code(&output), 1, "{}", errors(&output));
    }
}

/// An epoch whose rows are damaged is there, and cannot be read; one of a file that is damaged
/// altogether may be there.
#[test]
fn damaged_epochs() {
    let fixture = Fixture::new();
    let folder = fixture.dir().join("days");
    std::fs::create_dir(&folder).expect("creates");
    for id in 1..=3 {
        let path = folder.join(format!("{id}.db"));
        write_epoch_as(&path, Some(id), |flush| {
            let mut rows = Rows::new(flush, &fixture.image());
            rows.cycles(0x1020, None, 30);
            rows.flush.commit().expect("commits");
        });
    }
    // A page that reports need, and a look at what there is does not.
    let path = folder.join("2.db");
    let whole = std::fs::read(&path).expect("reads");
    let status = |report| code(&fixture.run(&["-i", "days/2.db", report]));
    let is_damaged = (1..whole.len() / 4096).any(|page| {
        let mut bytes = whole.clone();
        bytes[page * 4096..][..4096].fill(0);
        std::fs::write(&path, bytes).expect("writes");
        [status("top"), status("status")] == [3, 0]
    });
    assert!(is_damaged);
    std::fs::write(folder.join("3.db"), [7; 5000]).expect("writes");
    for (id, said) in [
        ("@2", "epoch 2 cannot be read: "),
        ("@3", "there is no epoch 3 in what can be read; there is"),
    ] {
        let output = fixture.run(&["-i", "days", "diff", "@1", id]);
        assert_eq!(code(&output), 3, "{id}: {}", errors(&output));
        assert!(errors(&output).contains(said), "{id}: {}", errors(&output));
    }
}
