//! Who reads without a mouse, without sight, in the dark, on a small screen, or enlarged.

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::common::Fixture;
use crate::open;

const VIEWS: [&str; 6] = [
    "#summary",
    "#functions",
    "#function/0",
    "#flame",
    "#calls",
    "#reports",
];

/// Opens what can be opened.
fn unfold(browser: &mut Browser) {
    browser.value(
        "[...document.querySelectorAll('main details')].forEach((one) => { one.open = true; })",
    );
}

/// No view is wider than the screen: at a desktop's, a tablet's and a phone's width, and enlarged
/// to twice and four times the size.
#[test]
fn widths() {
    let fixture = Fixture::new();
    let mut browser = open(&fixture);
    for width in [1280, 768, 640, 360, 320] {
        browser.width(width);
        for view in VIEWS {
            browser.go(view);
            unfold(&mut browser);
            let wide = browser.value("document.documentElement.scrollWidth");
            assert!(
                wide.as_u64() <= Some(width.into()),
                "{view} at {width}: {wide}"
            );
        }
    }
}

/// Text stands out from what is behind it by 4.5 to 1, in both themes.
#[test]
fn contrast() {
    let fixture = Fixture::new();
    let mut browser = open(&fixture);
    for theme in ["light", "dark"] {
        browser.prefer(theme);
        assert_eq!(
            browser.text("document.documentElement.dataset.theme"),
            theme
        );
        for view in VIEWS {
            browser.go(view);
            unfold(&mut browser);
            let faint = browser.value(include_str!("contrast.js"));
            assert_eq!(faint, json!([]), "{view} {theme}");
        }
    }
}

/// What can be used has a name for those who cannot see it, and every view one first heading, whose
/// levels leave none out.
#[test]
fn names_and_headings() {
    let fixture = Fixture::new();
    let mut browser = open(&fixture);
    for view in VIEWS {
        browser.go(view);
        unfold(&mut browser);
        let tree = browser.ask("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().expect("nodes");
        let nameless: Vec<&Value> = nodes.iter().filter(|node| is_nameless(node)).collect();
        assert_eq!(nameless, [&json!(null); 0], "{view}");
        let levels = browser.value(
            "[...document.querySelectorAll('h1, h2, h3')].map((one) => Number(one.tagName[1]))",
        );
        let levels: Vec<u64> = serde_json::from_value(levels).expect("numbers");
        assert_eq!(
            levels.iter().filter(|level| **level == 1).count(),
            1,
            "{view}"
        );
        assert!(levels.windows(2).all(|two| two[1] <= two[0] + 1), "{view}");
        let doubled = browser.value(
            "(() => { const ids = [...document.querySelectorAll('[id]')].map((one) => one.id); \
             return ids.length - new Set(ids).size; })()",
        );
        assert_eq!(doubled, 0, "{view}");
    }
    assert_eq!(browser.text("document.documentElement.lang"), "en");
}

/// Whether something can have the focus, and no name.
fn is_nameless(node: &Value) -> bool {
    let has_focus = node["properties"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|property| property["name"] == "focusable" && property["value"]["value"] == true);
    let role = node["role"]["value"].as_str().unwrap_or_default();
    let is_text = ["RootWebArea", "heading", "main"].contains(&role);
    let name = node["name"]["value"].as_str().unwrap_or_default();
    has_focus && !is_text && node["ignored"] != true && name.trim().is_empty()
}

/// The first key leads to a link past the views, the next ones through them; where the focus is can
/// be seen, and a view that is chosen has it.
#[test]
fn keyboard() {
    let fixture = Fixture::new();
    let mut browser = open(&fixture);
    browser.press("Tab");
    let focused = "document.activeElement.textContent";
    assert_eq!(browser.text(focused), "Skip to the content");
    let outline = "getComputedStyle(document.activeElement).outlineStyle";
    assert_eq!(browser.text(outline), "solid");
    browser.press("Enter");
    assert_eq!(browser.text("document.activeElement.id"), "content");
    browser.go("#summary");
    browser.value("document.querySelector('nav a').focus()");
    browser.press("Tab");
    assert_eq!(browser.text(focused), "Functions");
    browser.press("Enter");
    assert_eq!(browser.text("document.activeElement.tagName"), "H1");
    assert_eq!(browser.text(focused), "Functions");
}

/// The switch changes the theme, and says so.
#[test]
fn theme() {
    let fixture = Fixture::new();
    let mut browser = open(&fixture);
    let pressed = "document.getElementById('theme').getAttribute('aria-pressed')";
    assert_eq!(browser.text(pressed), "false");
    browser.click("#theme", "Dark");
    assert_eq!(browser.text(pressed), "true");
    assert_eq!(
        browser.text("document.documentElement.dataset.theme"),
        "dark"
    );
}
