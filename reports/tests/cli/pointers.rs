//! What values point to, and what they do over time.

use profiledb::{Mapped, Region, Text};
use serde_json::Value;

use crate::common::{Fixture, Rows, write_epoch};
use crate::json;

const HEAP: u64 = 0x5555_6000_0000;
const STACK: u64 = 0x7ffc_0000_0000;
const ANON: u64 = 0x7f00_0000_0000;
const IMAGE: u64 = 0x5555_5555_4000;

/// Two flushes: `hot` gets a pointer to the heap in most calls of the first, and one to the stack
/// in most of the second; and it loads what the pointers lead to in some calls.
fn database(fixture: &Fixture, with_regions: bool) {
    let mut flushes = 0;
    write_epoch(&fixture.dir().join("p.db"), |flush| {
        let mut rows = Rows::new(flush, &fixture.image());
        rows.write_symbols("hot");
        rows.cycles(0x1020, Some(0x100a), 10);
        flushes += 1;
        let (heap, stack) = if flushes == 1 { (800, 100) } else { (100, 800) };
        let pointers = [
            (HEAP + 0x2a0, heap),
            (STACK + 0x10, stack),
            (ANON + 8, 50),
            (IMAGE + 0x1044, 40),
            (7, 10),
        ];
        rows.values_from(0x1020, Some(0x100a), "arg1", 0, &pointers);
        let text = |bytes: &[u8]| Text::of(bytes).expect("some bytes").value();
        let texts = [(text(b"GET /index"), 300), (text(b"\0"), 100)];
        rows.values_from(0x1020, Some(0x100a), "text1", 0, &texts);
        let small = [(0x1234, 100)];
        rows.values(0x1024, "rax", 0, &small);
        let image = rows.fixture;
        let regions = [
            (HEAP, 0x1000, Mapped::Heap),
            (STACK, 0x1000, Mapped::Stack),
            (ANON, 0x1000, Mapped::Anon),
            (0x1000, 0x1000, Mapped::Heap),
            (IMAGE, 0x2000, Mapped::Image { image, address: 0 }),
        ];
        for (start, size, what) in regions.into_iter().filter(|_| with_regions) {
            let end = start + size;
            let region = Region { start, end, what };
            let (process, subject) = (rows.process, rows.user);
            let added = rows.flush.region(process, subject, &region);
            added.expect("a region");
        }
        rows.flush.commit().expect("commits");
    });
}

/// The values of an argument in all calls of `hot`: their numbers, places and trends.
fn values(rows: &Value) -> Vec<(String, String, String)> {
    let rows = rows.as_array().expect("rows").iter();
    let mut all = rows.filter(|row| row["call_site"].is_null());
    let args = all.next().expect("a function")["args"].as_array();
    let mut args = args.expect("arguments").iter();
    let one = args.find(|arg| arg["arg"] == 1).expect("the second");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let values = one["values"].as_array().expect("values").iter();
    let parts = values.map(|of| (text(&of["value"]), text(&of["place"]), text(&of["trend"])));
    parts.collect()
}

/// A value goes by what it points to; small numbers do not; bare numbers are to be had.
#[test]
fn places() {
    let fixture = Fixture::new();
    database(&fixture, true);
    let args = ["args", "hot", "-i", "p.db"];
    let found = values(&json(&fixture, &args));
    let places: Vec<&str> = found.iter().map(|(_, place, _)| place.as_str()).collect();
    let expected = [
        "heap+0x2a0",
        "stack 0x7ffc00000010",
        "anon+0x8",
        "fixture:helper+0x4",
        "",
    ];
    assert_eq!(places, expected);
    let text = fixture.report(&args);
    assert!(text.contains("heap+0x2a0"), "{text}");
    let raw = fixture.report(&[&args[..], &["--raw"]].concat());
    assert!(
        raw.contains("0x5555600002a0") && !raw.contains("heap"),
        "{raw}"
    );
    let listed = fixture.report(&["list", "hot", "-i", "p.db"]);
    let has = |text: &str| assert!(listed.contains(text), "{text}: {listed}");
    has("heap+0x2a0");
    has("stack 0x7ffc00000010");
    has("rax: (100.0% 0x1234)");
    let raw = fixture.report(&["list", "hot", "-i", "p.db", "--raw"]);
    assert!(!raw.contains("heap"), "{raw}");
}

/// Without regions, as older collectors wrote it, a profile has numbers.
#[test]
fn nothing_is_known() {
    let fixture = Fixture::new();
    database(&fixture, false);
    let found = values(&json(&fixture, &["args", "hot", "-i", "p.db"]));
    assert!(
        found.iter().all(|(_, place, _)| place.is_empty()),
        "{found:?}"
    );
}

/// What grows is told to rise and what shrinks to fall, where one function is asked for.
#[test]
fn trends() {
    let fixture = Fixture::new();
    database(&fixture, true);
    let found = values(&json(&fixture, &["args", "hot", "-i", "p.db"]));
    let trends: Vec<&str> = found.iter().map(|(.., trend)| trend.as_str()).collect();
    assert_eq!(trends, ["falling", "rising", "", "", ""]);
    let text = fixture.report(&["list", "hot", "-i", "p.db"]);
    assert!(text.contains("stack 0x7ffc00000010, rising)"), "{text}");
    let found = values(&json(&fixture, &["args", "-i", "p.db"]));
    assert!(
        found.iter().all(|(.., trend)| trend.is_empty()),
        "{found:?}"
    );
}

/// What arguments point to is text with bounds, since windows loaded it in some of the calls.
#[test]
fn strings() {
    let fixture = Fixture::new();
    database(&fixture, true);
    let text = fixture.report(&["args", "hot", "-i", "p.db"]);
    assert!(text.contains("% \"GET /in...\")"), "{text}");
    assert!(text.contains(".."), "{text}");
    let raw = fixture.report(&["args", "hot", "-i", "p.db", "--raw"]);
    assert!(!raw.contains("GET"), "{raw}");
    let rows = json(&fixture, &["args", "hot", "-i", "p.db"]);
    let rows = rows.as_array().expect("rows").iter();
    let texts: Vec<&Value> = rows
        .flat_map(|row| row["args"].as_array().expect("arguments"))
        .filter_map(|arg| arg.get("text"))
        .collect();
    let first = texts.first().expect("a text");
    assert_eq!(
        (&first["reached"], &first["samples"]),
        (&2000.into(), &800.into())
    );
    assert_eq!(first["values"][0]["text"], "\"GET /in...\"");
    assert_eq!(first["values"][1]["text"], "\"\"");
    let listed = fixture.report(&["list", "hot", "-i", "p.db"]);
    assert!(listed.contains("text1: ("), "{listed}");
}
