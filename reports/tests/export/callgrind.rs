//! `callgrind`, by callgrind_annotate.

use crate::common::Fixture;
use crate::{export, read_by, total};

/// Numbers with thousands apart, as callgrind_annotate prints them.
fn apart(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Functions have their costs, and callers those of what they call.
#[test]
fn costs() {
    let fixture = Fixture::new();
    let file = export(&fixture, &["callgrind"]);
    let own = read_by("callgrind_annotate", &["--threshold=100"], &file);
    let (samples, cycles) = total(&fixture);
    let totals = format!("{} (100.0%)", apart(cycles));
    assert!(own.contains(&totals), "{own}");
    assert!(own.contains(&apart(samples)), "{own}");
    let line = |text: &str, name: &str| {
        let found = text.lines().find(|line| line.contains(name));
        found
            .unwrap_or_else(|| panic!("{name} in {text}"))
            .to_owned()
    };
    assert!(line(&own, ":hot [").contains("77,000,000"), "{own}");
    assert!(line(&own, ":main [").contains("6,000,000"), "{own}");
    let with_callees = read_by(
        "callgrind_annotate",
        &["--inclusive=yes", "--threshold=100"],
        &file,
    );
    // 6,000,000 itself, and 74,000,000 in what it calls: more than that is in no stack.
    assert!(
        line(&with_callees, ":main [").contains("80,000,000"),
        "{with_callees}"
    );
}
