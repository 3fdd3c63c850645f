//! Databases whose writers have a budget.

use std::fs;

use crate::common::{epoch, process, program, user};
use hotlist::{Config, Estimates, Generator, Hotlist};
use profiledb::{NewHotlist, Writer};
use tempfile::tempdir;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A minute, in nanoseconds.
const MINUTE: i64 = 60_000_000_000;

/// A file grows by what its writer may spend, whatever lists bring besides: each minute's thousand
/// processes take more room than their lists.
#[test]
fn files_grow_by_the_budget() -> Outcome {
    const A_MINUTE: u64 = 200_000;
    const MINUTES: i64 = 30;
    let dir = tempdir()?;
    let path = dir.path().join("busy.db");
    let mut coins = Generator::new(5);
    let mut writer = Writer::create_epoch(&path, &epoch("demo"))?;
    writer.set_budget(Some(A_MINUTE * 60), 5);
    let begin = fs::metadata(&path)?.len();
    for minute in 0..MINUTES {
        let mut flush = writer.begin(minute * MINUTE, (minute + 1) * MINUTE)?;
        let image = flush.image(&program())?;
        let subject = flush.subject(&user(0))?;
        for number in 0..1_000_u32 {
            let process = flush.process(&process(2_000 * minute as u32 + number))?;
            for place in 0..30 {
                let pc = flush.pc(image, 0x1000 + 16 * place, None)?;
                let mut list = Hotlist::new(&Config::default().precise());
                for time in 0..8 {
                    list.update(coins.next_u64(), time, &mut coins);
                }
                flush.hotlist(NewHotlist {
                    process,
                    subject,
                    pc,
                    caller: None,
                    parameter: "rax",
                    reached: 8.0,
                    unknown: 0.0,
                    windows: 8,
                    even: None,
                    list: Estimates::from(&list),
                })?;
            }
        }
        flush.commit()?;
    }
    writer.close()?;
    let grown = fs::metadata(&path)?.len() - begin;
    let allowed = A_MINUTE * MINUTES as u64;
    // The first minute is there at the begin, and the last may be off by what it did not know of.
    let most = allowed + 3 * A_MINUTE;
    assert!(
        (allowed / 2..=most).contains(&grown),
        "{grown} bytes, of {allowed}"
    );
    Ok(())
}
