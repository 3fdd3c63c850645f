//! What the views of a page show, by clicking and typing.

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::common::Fixture;
use crate::{open, page};

/// From the summary, two clicks lead to the values of the hottest function's argument.
#[test]
fn summary_to_values() {
    let fixture = Fixture::new();
    let mut browser = open(&fixture);
    let shown = browser.shown();
    for text in [
        "992",
        "hot",
        "Where the time is",
        "What is not known",
        "records 6",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    browser.click("main a", "hot");
    assert_eq!(
        browser.text("document.querySelector('h1').textContent"),
        "hot"
    );
    let shown = browser.shown();
    for text in ["Arguments by call site", "0x100a", "shl rax, 0x30", "rax"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    browser.click("#arguments summary", "argument 1");
    let chart = browser.text("document.querySelector('#arguments .chart').innerText");
    assert!(
        chart.contains("0x4") && chart.contains("95 % interval"),
        "{chart}"
    );
    browser.click("#code summary", "rax");
    assert!(browser.value("document.querySelectorAll('#code .chart').length") == 1);
    assert_eq!(browser.complaints(), [""; 0]);
}

/// The table of functions is searched and sorted.
#[test]
fn table_of_functions() {
    let fixture = Fixture::new();
    let mut browser = open(&fixture);
    browser.click("nav a", "Functions");
    let names = "[...document.querySelectorAll('#all-functions td a')]\
        .map((one) => one.textContent).join(' ')";
    let first = browser.text(names);
    assert!(first.starts_with("hot "), "{first}");
    browser.click("#all-functions th button", "Function");
    let sorted = browser.text(names);
    assert!(sorted.starts_with("[libgone.so] copy_page "), "{sorted}");
    let order = "document.querySelector('th[aria-sort]').textContent";
    assert_eq!(browser.text(order), "Function");
    browser.click("label", "Search");
    browser.type_in("hot");
    let mut found: Vec<String> = browser.text(names).split(' ').map(str::to_owned).collect();
    found.sort();
    assert_eq!(found, ["hot", "hotter"]);
    assert_eq!(browser.complaints(), [""; 0]);
}

/// The functions of the page are those of `vcpi top`, with as many samples, in their order.
#[test]
fn functions_of_top() {
    let fixture = Fixture::new();
    let mut browser = open(&fixture);
    browser.go("#functions");
    let shown = browser.value(
        "[...document.querySelectorAll('#all-functions tbody tr')].map((row) => \
         [row.cells[3].textContent, Number(row.cells[2].textContent)])",
    );
    let top = fixture.report(&["top", "--format", "json"]);
    let top: Vec<Value> = serde_json::from_str(&top).expect("reports are JSON");
    let top: Vec<Value> = top
        .iter()
        .map(|row| json!([row["key"], row["samples"]]))
        .collect();
    assert_eq!(shown, Value::from(top));
}

/// The flame graph has the stacks that were kept; a box can be shown alone, by mouse and keyboard.
#[test]
fn flame_graph() {
    let fixture = Fixture::new();
    let mut browser = open(&fixture);
    browser.click("nav a", "Flame graph");
    let boxes = "document.querySelectorAll('.flame [role=treeitem]').length";
    let all = browser.value(boxes).as_u64().expect("a number");
    assert!(all > 5, "{all}");
    browser.click(".flame div", "helper");
    let few = browser.value(boxes).as_u64().expect("a number");
    assert!(few < all);
    let told = browser.text("document.getElementById('told').textContent");
    assert!(told.starts_with("helper: "), "{told}");
    browser.press("ArrowUp");
    let focused = "document.activeElement.getAttribute('aria-label')";
    assert!(!browser.text(focused).starts_with("helper"));
    browser.press("ArrowDown");
    assert!(browser.text(focused).starts_with("helper"));
    browser.press("Escape");
    assert_eq!(browser.value(boxes).as_u64(), Some(all));
    browser.click("label", "Mark functions");
    browser.type_in("helper");
    assert!(browser.value("document.querySelectorAll('.flame .found').length") != 0);
    assert_eq!(browser.complaints(), [""; 0]);
}

/// The tree of calls opens downwards and upwards.
#[test]
fn call_tree() {
    let fixture = Fixture::new();
    let mut browser = open(&fixture);
    browser.click("nav a", "Call tree");
    assert!(browser.shown().contains("main"));
    browser.value(
        "(() => { const select = document.getElementById('direction'); select.value = 'up'; \
         select.dispatchEvent(new Event('change')); })()",
    );
    browser.click(".tree summary", "hot");
    let inside = browser.text("document.querySelector('.tree details[open] ul').innerText");
    assert!(inside.contains("main"), "{inside}");
    assert_eq!(browser.complaints(), [""; 0]);
}

/// The reports of the command line are in the page, as it prints them.
#[test]
fn reports() {
    let fixture = Fixture::new();
    let mut browser = open(&fixture);
    browser.click("nav a", "Reports");
    for report in [
        "args",
        "copies",
        "targets",
        "branches",
        "blks",
        "top --by image",
        "top --by process",
        "status",
    ] {
        browser.click("details.report > summary", &format!("vcpi {report}"));
    }
    let shown = browser.shown();
    for text in ["shl rax, 0x30", "fixture[100]", "unknown_branch"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    assert_eq!(browser.complaints(), [""; 0]);
}

/// An argument that hardly varies is said once, by its shares of calls, with its name and what its
/// value is called or points to.
#[test]
fn arguments_that_hardly_vary() {
    let argument = |base: &str, samples: u64, values: Value| {
        json!({
            "arg": 0, "name": "length", "register": "rdi", "bits": 64, "base": base,
            "reached": samples, "unknown": 0, "samples": samples, "distinct": 1, "values": values,
        })
    };
    let value = |low: f64, more: Value| {
        let mut value = json!({"value": "0x55d0", "percent": low, "low": low, "high": 100.0});
        let more = more.as_object().cloned().unwrap_or_default();
        value.as_object_mut().expect("an object").extend(more);
        json!([value])
    };
    let row = |site: &str, arguments: Value| {
        json!({
            "function": "hot", "image": null, "caller": "main", "call_site": site, "calls": 90,
            "live": [0], "args": arguments,
        })
    };
    let place = json!({"place": "sites:to+0x1"});
    let both = |low: f64| {
        let time = argument("time", 40, value(100.0, place.clone()));
        let calls = argument("executions", 50, value(low, place.clone()));
        json!([time, calls])
    };
    // Too little is known of calls.
    let few = argument("executions", 5, value(100.0, json!({})));
    let time = argument("time", 40, value(97.0, json!({"text": "\"name\""})));
    let rows = json!([
        row("0x10", both(99.0)),
        row("0x20", both(50.0)),
        row("0x30", json!([time, few])),
    ]);
    let fixture = Fixture::new();
    let path = page(&fixture, &[]);
    let whole = std::fs::read_to_string(&path).expect("a page");
    let opening = "<script type=\"application/json\" id=\"data\">";
    let (head, rest) = whole.split_once(opening).expect("data");
    let (data, tail) = rest.split_once("</script>").expect("an end");
    let mut data: Value = serde_json::from_str(data).expect("JSON");
    data["arguments"]["rows"] = rows;
    let data = data.to_string().replace('<', "\\u003c");
    std::fs::write(&path, format!("{head}{opening}{data}</script>{tail}")).expect("is written");
    let mut browser = Browser::open(&path);
    let table = "[...document.querySelectorAll('table')]\
        .find((one) => one.caption?.textContent.includes('hardly vary'))";
    let shown = browser.text(&format!("{table}.tBodies[0].innerText"));
    let lines: Vec<String> = shown
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        lines,
        [
            "hot main 0x10 length (1, rdi) sites:to+0x1 99.0 % 90",
            "hot main 0x30 length (1, rdi) \"name\" 97.0 % 90",
        ]
    );
    assert_eq!(browser.complaints(), [""; 0]);
}
