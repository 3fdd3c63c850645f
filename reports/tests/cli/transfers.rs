//! Where indirect calls lead.

use hotlist::{Config, Estimates, Generator, Hotlist};
use profiledb::{Mapped, NewHotlist, Region};
use serde_json::Value;

use crate::common::{Fixture, Rows, write_epoch};
use crate::json;

/// Where the image lies in each of two processes.
const PLACES: [u64; 2] = [0x5555_5555_4000, 0x5655_0000_0000];
/// Where memory lies that is of no image.
const HEAP: u64 = 0x5555_6000_0000;
/// Windows that come back, and executions in each.
const WINDOWS: u64 = 500;
const EACH: u64 = 4;

/// The list of executions whose values do not depend on each other.
fn list(values: &[(u64, f64)]) -> Estimates<u64> {
    let mut list = Hotlist::new(&Config::default().precise());
    let mut coins = Generator::new(1);
    for at in 0..WINDOWS * EACH {
        let mut left = coins.uniform();
        let drawn = values.iter().find(|(_, part)| {
            left -= part;
            left <= 0.0
        });
        let (value, _) = drawn.or(values.last()).expect("values");
        list.update_in_window(*value, at, at % EACH == 0, &mut coins);
    }
    Estimates::from(&list)
}

/// An indirect call that windows meet as often on its way to `hot` as to `helper`, and whose
/// executions go to `hot` in nine of ten cases, in either process.
fn database(fixture: &Fixture, unknown: u64, elsewhere: f64) {
    write_epoch(&fixture.dir().join("t.db"), |flush| {
        let mut rows = Rows::new(flush, &fixture.image());
        rows.write_symbols("hot");
        rows.cycles(0x100f, None, 100);
        let (hot, helper) = (0x1020, 0x1040);
        for callee in [hot, helper] {
            let (site, callee) = (rows.pc(0x100f), rows.pc(callee));
            let (process, user) = (rows.process, rows.user);
            let called = rows.flush.call(process, user, site, Some(callee), 50_u64);
            called.expect("calls");
        }
        let [one, other] = PLACES;
        let targets = [
            (HEAP + 0x10, elsewhere),
            (one + hot, 0.45),
            (other + hot, 0.45),
            (one + helper, 0.06),
            (other + helper, 0.04),
        ];
        let known = WINDOWS * EACH;
        let row = NewHotlist {
            process: rows.process,
            subject: rows.user,
            pc: rows.pc(0x100f),
            caller: None,
            parameter: "x:target",
            reached: (known + unknown) as f64,
            unknown: unknown as f64,
            windows: WINDOWS,
            even: None,
            list: list(&targets),
        };
        rows.flush.hotlist(row).expect("hotlist");
        let image = rows.fixture;
        let code = PLACES.map(|start| (start, Mapped::Image { image, address: 0 }));
        for (start, what) in code.into_iter().chain([(HEAP, Mapped::Heap)]) {
            let end = start + 0x2000;
            let region = Region { start, end, what };
            let added = rows.flush.region(rows.process, rows.user, &region);
            added.expect("a region");
        }
        rows.flush.commit().expect("commits");
    });
}

/// What is said of the call: the base, and the targets with their percentages.
fn targets(fixture: &Fixture) -> (String, Vec<(String, f64)>) {
    let rows = json(fixture, &["targets", "-i", "t.db"]);
    let row = &rows.as_array().expect("rows")[0];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let share = |of: &Value| {
        (
            text(&of["target"]),
            of["percent"].as_f64().expect("a share"),
        )
    };
    let targets = row["targets"].as_array().expect("targets");
    (text(&row["base"]), targets.iter().map(share).collect())
}

/// Executions are told where they are known, the addresses of both processes as one place.
#[test]
fn by_executions() {
    let fixture = Fixture::new();
    database(&fixture, 0, 0.0);
    let (base, shares) = targets(&fixture);
    assert_eq!(base, "executions");
    let [(first, most), (second, rest)] = shares.as_slice() else {
        panic!("{shares:?}");
    };
    assert_eq!([first.as_str(), second.as_str()], ["hot", "helper"]);
    assert!((most - 90.0).abs() < 2.0, "{shares:?}");
    assert!((most + rest - 100.0).abs() < 0.2, "{shares:?}");
    let text = fixture.report(&["targets", "-i", "t.db"]);
    let says = |what: &str| assert!(text.contains(what), "{text}");
    says("by executions, 4000 known, 0 unknown");
}

/// Windows tell the shares where too many executions are unknown, and where one leads to what is no
/// place of an image.
#[test]
fn by_windows() {
    for (unknown, elsewhere) in [(500, 0.0), (0, 0.05)] {
        let fixture = Fixture::new();
        database(&fixture, unknown, elsewhere);
        let (base, shares) = targets(&fixture);
        assert_eq!(base, "windows");
        let shares: Vec<f64> = shares.iter().map(|(_, percent)| *percent).collect();
        assert_eq!(shares, [50.0, 50.0], "{unknown} {elsewhere}");
    }
}
