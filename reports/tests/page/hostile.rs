//! Names that try to be more than names.

use crate::common::Fixture;
use crate::open;

/// A name that ends the element of data, begins a comment, is markup, controls terminals and
/// directions, and is long.
fn name() -> String {
    let mut name = String::from("</script><script>window.evil = 1</script><!--<img src=x ");
    name.push_str("onerror=window.evil=1><svg onload=window.evil=1>\u{2028}\u{2029}\u{1b}[2J\r\n");
    name.push_str("\u{202e}evil ${window.evil = 1} &lt;b&gt; \"'` javascript:window.evil=1 ");
    name.push_str("__proto__ ");
    name.push_str(&"long".repeat(2_500));
    name
}

/// Such a name is text, in every view, and nothing else.
#[test]
fn names() {
    let fixture = Fixture::with_hot(&name());
    let mut browser = open(&fixture);
    for view in [
        "#summary",
        "#functions",
        "#function/0",
        "#flame",
        "#calls",
        "#reports",
    ] {
        browser.go(view);
        browser.value(
            "[...document.querySelectorAll('main details')].forEach((one) => { one.open = true; })",
        );
        let shown = browser.shown();
        assert!(shown.contains("</script>"), "{view}: {shown}");
        let inside = browser.value(
            "[typeof window.evil, document.scripts.length, \
             document.querySelectorAll('img, svg, iframe, b').length, \
             /[\\u0000-\\u0008\\u000b-\\u001f\\u2028-\\u202e]/.test(document.body.innerText)]",
        );
        assert_eq!(inside.to_string(), "[\"undefined\",2,0,false]", "{view}");
        let wide = browser
            .value("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(wide, 0, "{view}");
    }
    assert_eq!(browser.complaints(), [""; 0]);
}

/// Names of objects of the script's own are names.
#[test]
fn names_of_the_script() {
    for name in ["__proto__", "constructor", "toString", "@DATA@", "@SCRIPT@"] {
        let fixture = Fixture::with_hot(name);
        let mut browser = open(&fixture);
        browser.go("#function/0");
        assert_eq!(
            browser.text("document.querySelector('h1').textContent"),
            name
        );
        assert_eq!(browser.complaints(), [""; 0]);
    }
}
