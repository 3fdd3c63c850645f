//! Hints of divisors that need all bits of a register, or whose upper bit may be a sign.

use profiledb::{Mapped, Region};

use super::*;

/// The functions, by address, with their sizes and names.
const FUNCTIONS: [(u64, u64, &str); 3] = [
    (0x1080, 9, "wide"),
    (0x1090, 6, "negative"),
    (0x10a0, 12, "tested"),
];

/// The hints where the functions have these arguments in all calls, and something is mapped in
/// this place. All time is spent behind their divisions or tests.
fn hints_of_arguments(arguments: &[(u64, &str, u64)], mapped: (u64, u64)) -> Vec<Value> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("prog");
    std::fs::write(&path, image()).expect("image is written");
    let database = dir.path().join("vcpi.db");
    let mut writer = Writer::create_epoch(&database, &epoch()).expect("creates");
    let flush = writer.begin(0, 1_000_000_000).expect("begins");
    write(Rows::new(flush, &path, false), arguments, mapped);
    writer.end_epoch(1_000_000_000).expect("ends");
    writer.close().expect("closes");
    let output = run(dir.path(), &["hints", "--format", "json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

fn write(mut rows: Rows<'_>, arguments: &[(u64, &str, u64)], mapped: (u64, u64)) {
    for (address, size, name) in FUNCTIONS {
        let symbol = rows.flush.symbol(rows.image, address, size, name);
        symbol.expect("symbol");
    }
    for address in [0x1088, 0x1095, 0x10a5, 0x10a9] {
        rows.cycles(address, 100);
    }
    for (address, parameter, value) in arguments {
        rows.values(*address, parameter, *value, [200, 0]);
    }
    let region = Region {
        start: mapped.0,
        end: mapped.1,
        what: Mapped::Heap,
    };
    let told = rows.flush.region(rows.process, rows.subject, &region);
    told.expect("region");
    rows.flush.commit().expect("commits");
}

/// A number beyond 32 bits that divides is no address, whatever its upper bits are.
#[test]
fn large_divisors() {
    for value in [10_000_000_019, 0x8000_0000_0000_0001, 1 << 63] {
        let hints = hints_of_arguments(&[(0x1080, "arg1", value)], (0x5000, 0x6000));
        let [hint] = hints.as_slice() else {
            panic!("one hint: {hints:?}");
        };
        assert_eq!(hint["divisions"], serde_json::json!(["0x1085"]), "{hint}");
    }
}

/// What is compared with a number is one, and where memory cannot be there are no addresses. What
/// points to memory is an address, whatever is done with it.
#[test]
fn large_numbers_and_addresses() {
    let hints = |value, mapped| hints_of_arguments(&[(0x10a0, "arg0", value)], mapped);
    let elsewhere = (0x5000, 0x6000);
    assert_eq!(hints(10_000_000_019, elsewhere).len(), 1);
    assert_eq!(hints(0x8080_8080_8080_8080, elsewhere).len(), 1);
    let around = (0x7fff_0000_0000, 0x7fff_0001_0000);
    assert!(hints(0x7fff_0000_1000, around).is_empty());
    assert!(hints_of_arguments(&[(0x1080, "arg1", 0x7fff_0000_1000)], around).is_empty());
}

/// Where nothing but the division tells whether the upper bit is a sign, it does.
#[test]
fn signs_of_divisors() {
    let minus_five = u64::from(5_u32.wrapping_neg());
    let hints = hints_of_arguments(&[(0x1090, "arg1", minus_five)], (0x5000, 0x6000));
    let [hint] = hints.as_slice() else {
        panic!("one hint: {hints:?}");
    };
    assert_eq!(hint["value"], "-5");
    assert_eq!(
        hint["patch"][0],
        "__builtin_expect(... == -5, 1) ? ... / -5 : ... / ..."
    );
}
