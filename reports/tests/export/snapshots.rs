//! The forms that are text, against their snapshots.

use crate::common::Fixture;
use crate::exported;

/// Each form that is text stays as it is.
#[test]
fn forms() {
    let fixture = Fixture::new();
    for kind in ["folded", "callgrind"] {
        insta::assert_snapshot!(kind, text(&fixture, kind));
    }
    for kind in ["speedscope", "firefox"] {
        let json: serde_json::Value =
            serde_json::from_str(&text(&fixture, kind)).expect("this export is JSON");
        let pretty = serde_json::to_string_pretty(&json).expect("is JSON");
        insta::assert_snapshot!(kind, pretty);
    }
}

/// An export, with the name of the folder and the version taken out of it.
fn text(fixture: &Fixture, kind: &str) -> String {
    let text = String::from_utf8(exported(fixture, &[kind])).expect("is UTF-8");
    let text = text.replace(fixture.dir().to_str().expect("is UTF-8"), "/fixture");
    text.replace(concat!("vcpi ", env!("CARGO_PKG_VERSION")), "vcpi VERSION")
}
