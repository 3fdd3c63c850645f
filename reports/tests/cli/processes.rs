//! Shares of executions of several processes.

use hotlist::{Config, Estimates, Generator, Hotlist};
use profiledb::NewHotlist;

use crate::common::{Fixture, Rows, write_epoch};
use crate::json;

const WINDOWS: u64 = 500;
const EACH: u64 = 4;

/// Executions of which such a part has the value 7.
fn list(part: f64) -> Estimates<u64> {
    let mut list = Hotlist::new(&Config::default().precise());
    let mut coins = Generator::new(1);
    for at in 0..WINDOWS * EACH {
        let value = if coins.uniform() < part { 7 } else { 3 };
        list.update_in_window(value, at, at % EACH == 0, &mut coins);
    }
    Estimates::from(&list)
}

/// The shares of 7 at an instruction, in percent, by their base, where two processes have these
/// parts.
fn told(parts: [f64; 2], pid: Option<&str>) -> Vec<(String, f64)> {
    told_of(["rax", "x:rax"], parts, pid)
}

fn told_of(parameters: [&str; 2], parts: [f64; 2], pid: Option<&str>) -> Vec<(String, f64)> {
    let fixture = Fixture::new();
    write_epoch(&fixture.dir().join("p.db"), |flush| {
        let mut rows = Rows::new(flush, &fixture.image());
        rows.write_symbols("hot");
        rows.cycles(0x1020, None, 100);
        for (process, part) in [rows.process, rows.other].into_iter().zip(parts) {
            for parameter in parameters {
                let row = NewHotlist {
                    process,
                    subject: rows.user,
                    pc: rows.pc(0x1020),
                    caller: None,
                    parameter,
                    reached: (WINDOWS * EACH) as f64,
                    unknown: 0.0,
                    windows: WINDOWS,
                    even: None,
                    list: list(part),
                };
                rows.flush.hotlist(row).expect("hotlist");
            }
        }
        rows.flush.commit().expect("commits");
    });
    let mut args = vec!["list", "hot", "-i", "p.db"];
    args.extend(pid.into_iter().flat_map(|pid| ["--pid", pid]));
    let report = json(&fixture, &args);
    let rows = report.as_array().into_iter().flatten();
    let profiles = rows.flat_map(|row| row["profiles"].as_array().into_iter().flatten());
    let share = |profile: &serde_json::Value| {
        let values = profile["values"].as_array()?;
        let seven = values.iter().find(|of| of["value"] == "0x7")?;
        let base = profile["base"].as_str()?.to_owned();
        Some((base, seven["percent"].as_f64()?))
    };
    profiles.filter_map(share).collect()
}

/// How many of a process's executions a window stands for is not known. So where processes differ,
/// there are no shares of executions of both; of each there are.
#[test]
fn differ() {
    let base = |told: &[(String, f64)], of: &str| told.iter().any(|(base, _)| base == of);
    let both = told([0.1, 0.9], None);
    assert!(
        base(&both, "windows") && !base(&both, "executions"),
        "{both:?}"
    );
    for (pid, share) in [("100", 10.0), ("101", 90.0)] {
        let one = told([0.1, 0.9], Some(pid));
        let executions = one.iter().find(|(base, _)| base == "executions");
        let (_, percent) = executions.expect("executions of one process");
        assert!((percent - share).abs() < 2.0, "{one:?}");
    }
    let alike = told([0.4, 0.4], None);
    assert!(base(&alike, "executions"), "{alike:?}");
}

/// Of calls that breakpoints at entries show it is the same: how often they are watched does not
/// depend on how often they are made.
#[test]
fn by_entries() {
    let told = |parts, pid| told_of(["arg0", "entry.arg0"], parts, pid);
    let base = |told: &[(String, f64)], of: &str| told.iter().any(|(base, _)| base == of);
    let both = told([0.1, 0.9], None);
    assert!(
        base(&both, "windows") && !base(&both, "entries"),
        "{both:?}"
    );
    let (one, alike) = (told([0.1, 0.9], Some("100")), told([0.4, 0.4], None));
    assert!(base(&one, "entries") && base(&alike, "entries"), "{one:?}");
}
