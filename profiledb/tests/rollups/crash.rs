//! A process that rolls up is killed again and again.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use hotlist::Generator;
use profiledb::Directory;
use profiledb::rollup::RollUpStep;

use super::days::{Days, sums};
use super::{ALL, LATER, directory, files};

/// Names the folder to the process that is to be killed.
const FOLDER: &str = "VCPI_TEST_ROLL_UP";

/// What the process that is to be killed runs; in the other one this shows nothing.
#[test]
fn a_process_that_rolls_up() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let mut rollups = directory(Path::new(&folder));
    while rollups.step(LATER, None, &ALL).unwrap() != RollUpStep::Idle {
        println!("a piece is done");
    }
    println!("all is done");
}

/// Whenever a process that rolls up is killed, every event is told once, and the next one goes on.
#[test]
fn killed() {
    let folder = tempfile::tempdir().unwrap();
    Days {
        days: 8,
        ..Days::default()
    }
    .write(folder.path());
    let before = sums(folder.path());
    let mut coins = Generator::new(7);
    let mut kills = 0;
    loop {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "crash::a_process_that_rolls_up", "--nocapture"]);
        command.env(FOLDER, folder.path()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut is_done = false;
        for _ in 0..coins.next_u64() % 60 {
            match lines.next() {
                Some(line) => is_done |= line.unwrap().contains("all is done"),
                None => break,
            }
        }
        // Somewhere in the next piece.
        let until =
            std::time::Instant::now() + std::time::Duration::from_micros(coins.next_u64() % 1_000);
        while std::time::Instant::now() < until {}
        child.kill().unwrap();
        child.wait().unwrap();
        // What the next start does first. A file that was just being opened is left out until then.
        let directory = Directory::new(folder.path()).unwrap();
        directory.recover(|_| false, |_| {}).unwrap();
        assert_eq!(sums(folder.path()), before, "after {kills} kills");
        kills += 1;
        if is_done {
            break;
        }
        assert!(kills < 500);
    }
    assert!(kills > 5, "{kills} kills");
    assert_eq!(files(folder.path()).len(), 2);
}
