//! The page that `vcpi html` writes, in a browser.
//!
//! Needs what `cargo xtask setup` installs: `chromium-headless-shell`.

mod access;
mod browser;
#[path = "../common/mod.rs"]
mod common;
mod hostile;
#[cfg(feature = "look")]
mod look;
mod output;
mod views;

use std::path::PathBuf;

use browser::Browser;
use common::Fixture;

/// Writes a page into the fixture's folder.
fn page(fixture: &Fixture, args: &[&str]) -> PathBuf {
    let file = fixture.dir().join("page.html");
    let name = file.to_str().expect("is UTF-8");
    let output = fixture.run(&[&["html", "-o", name], args].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    assert!(output.stdout.is_empty());
    file
}

/// Opens the page of a fixture.
fn open(fixture: &Fixture) -> Browser {
    Browser::open(&page(fixture, &[]))
}
