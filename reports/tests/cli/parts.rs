//! Of many functions the values are read some functions at a time: the answer is that of each.

use hotlist::{Config, Estimates, Generator, Hotlist};
use profiledb::{Image, ImageKind, NewHotlist, Process, Subject};
use serde_json::Value;

use crate::common::{Fixture, Rows, write_epoch};
use crate::{errors, json};

/// More instructions than are read at a time, several times over.
const FUNCTIONS: u64 = 48;
const INSTRUCTIONS: u64 = 256;
/// Samples of an instruction, in both flushes together.
const SAMPLES: u64 = 40;

const BEGIN: u64 = 0xffff_ffff_8100_0000;
/// `mov eax, imm32`.
const LENGTH: u64 = 5;

fn kernel() -> Image {
    Image {
        kind: ImageKind::Kernel,
        identity: "kernel".into(),
        path: "[kernel]".into(),
        build_id: None,
    }
}

fn name(function: u64) -> String {
    format!("part_{function:02}")
}

/// A kernel of many functions, each of which is one run of instructions with constant results, no
/// two equally hot.
fn write(fixture: &Fixture) {
    let path = fixture.dir().join("parts.db");
    let mut list = Hotlist::new(&Config::default());
    let mut coins = Generator::new(1);
    for time in 1..=SAMPLES / 2 {
        list.update(7_u64, time, &mut coins);
    }
    write_epoch(&path, |mut flush| {
        let image = flush.image(&kernel()).expect("image");
        let process = Process {
            pid: 1,
            started: 1,
            execs: 0,
            comm: "parts".into(),
        };
        let process = flush.process(&process).expect("process");
        let subject = Subject {
            kernel: true,
            ..Subject::default()
        };
        let subject = flush.subject(&subject).expect("subject");
        for function in 0..FUNCTIONS {
            let start = BEGIN + function * LENGTH * INSTRUCTIONS;
            flush
                .symbol(image, start, LENGTH * INSTRUCTIONS, &name(function))
                .expect("symbol");
            for address in (0..INSTRUCTIONS).map(|index| start + LENGTH * index) {
                let pc = flush.pc(image, address, Some(&[0xb8, 7, 0, 0, 0]));
                let pc = pc.expect("pc");
                let weight = (1 + function) * SAMPLES * 50_000;
                flush
                    .cycles(process, subject, pc, None, SAMPLES / 2, weight)
                    .expect("cycles");
                let list = NewHotlist {
                    process,
                    subject,
                    pc,
                    caller: None,
                    parameter: "eax",
                    reached: (SAMPLES / 2) as f64,
                    unknown: 0.0,
                    windows: SAMPLES / 2,
                    even: None,
                    list: Estimates::from(&list),
                };
                flush.hotlist(list).expect("list");
            }
        }
        flush.commit().expect("commits");
    });
}

/// What calls an instruction that locks is told also where no value was seen at it.
#[test]
fn callers_of_locks() {
    let fixture = Fixture::new();
    let path = fixture.dir().join("locks.db");
    write_epoch(&path, |flush| {
        let mut rows = Rows::new(flush, &fixture.image());
        let (process, subject) = (rows.process, rows.user);
        let flush = &mut rows.flush;
        let image = flush.image(&kernel()).expect("image");
        // lock inc dword [rdi], called from two places.
        let pc = flush.pc(image, BEGIN, Some(&[0xf0, 0xff, 0x07]));
        let pc = pc.expect("pc");
        for (site, samples) in [(BEGIN + 0x100, 30), (BEGIN + 0x200, 70)] {
            let site = flush.pc(image, site, None).expect("pc");
            flush
                .cycles(process, subject, pc, Some(site), samples, samples * 1_000)
                .expect("cycles");
        }
        rows.flush.commit().expect("commits");
    });
    let rows = json(&fixture, &["locks", "-i", "locks.db"]);
    let site = &rows[0]["caller"]["address"];
    assert!(
        site.as_str().is_some_and(|site| site.ends_with("200")),
        "{rows}"
    );
}

fn blks(fixture: &Fixture, more: &[&str]) -> Vec<Value> {
    let Value::Array(rows) = json(fixture, &[&["blks", "-i", "parts.db"], more].concat()) else {
        panic!("not rows");
    };
    rows
}

/// The runs of all functions are those of each by itself, the hottest first; what is left out of
/// them is said, and nothing twice.
#[test]
fn runs_are_those_of_each() {
    let fixture = Fixture::new();
    write(&fixture);
    let mut each = Vec::new();
    for function in (0..FUNCTIONS).rev() {
        each.extend(blks(&fixture, &["--function", &name(function)]));
    }
    assert_eq!(each.len() as u64, FUNCTIONS);
    assert_eq!(blks(&fixture, &[]), each);
    assert_eq!(blks(&fixture, &["-n", "3"]), each[..3]);
    let few = fixture.run(&["blks", "-i", "parts.db", "--min-samples", "1000000"]);
    let said = errors(&few);
    assert_eq!(said.matches("left out").count(), 1, "{said}");
}

/// A page has the instructions of all functions, the hottest first, each once, and their runs.
#[test]
fn a_page_has_those_of_each() {
    let fixture = Fixture::new();
    write(&fixture);
    let printed = fixture.run(&["html", "-i", "parts.db", "-o", "-"]);
    assert!(printed.status.success(), "{}", errors(&printed));
    let page = String::from_utf8_lossy(&printed.stdout);
    let begin = page.find("{\"version\"").expect("data");
    let mut data = serde_json::Deserializer::from_str(&page[begin..]).into_iter::<Value>();
    let data = data.next().expect("data").expect("JSON");
    let listed = data["code"]["rows"].as_array().expect("functions");
    let listed: Vec<&str> = listed
        .iter()
        .filter_map(|of| of["function"].as_str())
        .collect();
    let all: Vec<String> = (0..FUNCTIONS).rev().map(name).collect();
    assert_eq!(listed, all);
    assert_eq!(data["code"]["more"], 0);
    let text = data["reports"].to_string();
    for function in all {
        assert_eq!(
            text.matches(&format!("{function} 0x")).count(),
            1,
            "{function}"
        );
    }
}
