//! The file that a page is.

use std::os::unix::fs::PermissionsExt as _;

use crate::common::Fixture;
use crate::page;

/// The owner alone may read a new page, which is whole in one file.
#[test]
fn file() {
    let fixture = Fixture::new();
    let file = page(&fixture, &[]);
    let mode = std::fs::metadata(&file)
        .expect("is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).expect("is UTF-8");
    assert!(text.starts_with("<!doctype html>") && text.ends_with("</html>\n"));
    assert!(text.contains("default-src 'none'; script-src 'sha256-"));
    let output = fixture.run(&["html", "-o", "-"]);
    assert_eq!(String::from_utf8(output.stdout).expect("is UTF-8"), text);
}

/// What makes no sense for a page is refused, and what finds nothing writes no file.
#[test]
fn refused() {
    let fixture = Fixture::new();
    let code = |args: &[&str]| fixture.run(args).status.code();
    assert_eq!(code(&["html"]), Some(2));
    assert_eq!(code(&["html", "-o", "x.html", "--format", "json"]), Some(2));
    assert_eq!(code(&["html", "-o", "x.html", "-n", "3"]), Some(2));
    assert_eq!(code(&["html", "-o", "x.html", "--pid", "4711"]), Some(1));
    assert!(!fixture.dir().join("x.html").exists());
}

/// Without room there are no instructions, and the page says so.
#[test]
fn room() {
    let fixture = Fixture::new();
    let with = std::fs::read_to_string(page(&fixture, &[])).expect("is UTF-8");
    let without = std::fs::read_to_string(page(&fixture, &["--room", "0"])).expect("is UTF-8");
    // What a listing has and no other answer.
    let listing = "\"files\":[";
    assert!(with.contains(listing) && !without.contains(listing));
    assert!(with.contains("\"more\":0},\"arguments\""));
    assert!(!without.contains("\"more\":0},\"arguments\""));
}
