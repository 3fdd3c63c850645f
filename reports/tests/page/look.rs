//! For people: pictures of pages, and what other checkers say. Each needs what it names:
//! `PICTURES=folder cargo test -p vcpi --features look --test page look::pictures`.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::browser::Browser;
use crate::common::Fixture;
use crate::page;

const VIEWS: [&str; 6] = [
    "summary",
    "functions",
    "function/0",
    "flame",
    "calls",
    "reports",
];

/// The page named by `PAGE`, else that of a fixture.
fn file(fixture: &Fixture) -> PathBuf {
    std::env::var_os("PAGE").map_or_else(|| page(fixture, &[]), PathBuf::from)
}

/// Pictures of all views at three widths in both themes, in the folder that `PICTURES` names; of
/// the page that `PAGE` names, if any.
#[test]
fn pictures() {
    let folder = std::env::var_os("PICTURES").expect("PICTURES names a folder");
    let fixture = Fixture::new();
    let mut browser = Browser::open(&file(&fixture));
    for theme in ["light", "dark"] {
        browser.prefer(theme);
        for width in [1280, 768, 360] {
            browser.width(width);
            for view in VIEWS {
                browser.go(&format!("#{view}"));
                let open = "[...document.querySelectorAll('#arguments details, #code details')]\
                    .slice(0, 2).forEach((one) => { one.open = true; })";
                browser.value(open);
                let picture = browser.ask("Page.captureScreenshot", json!({}));
                let name = format!("{}-{width}-{theme}.png", view.replace('/', "-"));
                let data = picture["data"].as_str().expect("a picture");
                write(&Path::new(&folder).join(name), data);
            }
        }
    }
}

fn write(path: &Path, base64: &str) {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u8> = base64.bytes().filter_map(value).collect();
    let mut bytes = Vec::new();
    for four in digits.chunks(4) {
        let bits = four
            .iter()
            .fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit));
        let bits = bits << (6 * (4 - four.len()));
        let three = bits.to_be_bytes();
        bytes.extend(&three[1..four.len()]);
    }
    std::fs::write(path, bytes).expect("written");
}

/// The file that `AXE` names (axe.min.js of the package axe-core) finds nothing in any view.
#[test]
fn axe() {
    let axe = std::env::var_os("AXE").expect("AXE names axe.min.js");
    let axe = std::fs::read_to_string(axe).expect("can be read");
    let fixture = Fixture::new();
    let mut browser = Browser::open(&file(&fixture));
    browser.ask("Runtime.evaluate", json!({ "expression": axe }));
    let mut found = Vec::new();
    for theme in ["light", "dark"] {
        browser.prefer(theme);
        for (view, width) in VIEWS.iter().flat_map(|view| [(view, 1280), (view, 360)]) {
            browser.width(width);
            browser.go(&format!("#{view}"));
            let all = browser.value(
                "axe.run(document).then((all) => all.violations.map((one) => [one.impact, one.id, \
                 one.nodes.length, one.nodes[0].html.slice(0, 200), \
                 one.nodes[0].failureSummary]))",
            );
            for one in all.as_array().expect("a list") {
                found.push(format!("{theme} {view} {width}: {one}"));
            }
        }
    }
    assert_eq!(found, [""; 0]);
}

/// How long a page takes to open, and each of its views, in milliseconds.
#[test]
fn times() {
    let fixture = Fixture::new();
    let file = file(&fixture);
    let begun = std::time::Instant::now();
    let mut browser = Browser::open(&file);
    println!("browser and page: {:?}", begun.elapsed());
    let opened = "performance.getEntriesByType('navigation')[0].loadEventEnd";
    println!("page: {} ms", browser.text(opened));
    for view in VIEWS {
        // From the key to what is painted.
        let took = browser.text(&format!(
            "(async () => {{ const begun = performance.now(); location.hash = '#{view}'; \
             await new Promise((done) => requestAnimationFrame(() => setTimeout(done))); \
             return performance.now() - begun; }})()"
        ));
        println!("{view}: {took} ms");
    }
    for (view, word) in [("functions", "#word"), ("flame", "#flame-word")] {
        browser.go(&format!("#{view}"));
        let took = browser.text(&format!(
            "(async () => {{ const begun = performance.now(); \
             const field = document.querySelector('{word}'); field.value = 'a'; \
             field.dispatchEvent(new Event('input')); \
             await new Promise((done) => requestAnimationFrame(() => setTimeout(done))); \
             return performance.now() - begun; }})()"
        ));
        println!("search in {view}: {took} ms");
    }
}
