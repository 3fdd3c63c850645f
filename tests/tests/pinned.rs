//! Replays of recordings that lie beside this test say what they always said.
//!
//! Needs the release build of both programs. What a replay says follows from the recording, its
//! seed and the program alone: no privilege, no clock and no kernel.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Result, ensure};
use libtest_mimic::Arguments;
use vcpi_tests::digest::digest;
use vcpi_tests::harness::{Test, run, test, text};
use vcpi_tests::programs::{Programs, root};

/// Where the program lay when it was recorded.
const FOLDER: &str = "/tmp/vcpi-pinned";

/// Rows of each kind, and the sum of their hashes.
type Pinned = [(&'static str, (u64, u64)); 6];

/// What the recordings say, one of each engine.
///
/// A change that makes windows know more, or counts another thing, changes these. Then the test
/// prints what it found; whoever changes them says in the commit why they are right.
const RECORDINGS: [(&str, Pinned); 2] = [
    (
        "ring",
        [
            ("branches", (5, 0x3677_8888_7bc3_ecb3)),
            ("calls", (14, 0x28a0_0fea_ecda_87e0)),
            ("counters", (65, 0x8a35_e22b_57ae_061d)),
            ("cycles", (18, 0x577d_40a2_073e_dce0)),
            ("hotlists", (147, 0xd08a_4dee_6dfa_2d82)),
            ("tuples", (579, 0xa72b_a588_4796_b076)),
        ],
    ),
    (
        "bpf",
        [
            ("branches", (5, 0xe2a9_1a13_9461_5f3d)),
            ("calls", (20, 0xfc94_6543_4513_595a)),
            ("counters", (63, 0x3e36_70f3_e521_25a1)),
            ("cycles", (21, 0xaf46_c6fa_d265_5a66)),
            ("hotlists", (363, 0x8cf7_80cf_daac_921f)),
            ("tuples", (1448, 0x653f_709e_a6da_0fdb)),
        ],
    ),
];

fn main() -> ExitCode {
    run(&Arguments::from_args(), [PINNED]).exit_code()
}

const PINNED: Test = test("recordings say what they always said", pinned, &[]);
/// Cycles, hotlists, branches, calls and counters of each recording are what they were.
fn pinned() -> Result<()> {
    let programs = Programs::find()?;
    let fixtures = root().join("tests/fixtures/pinned");
    let program = Path::new(FOLDER).join("program");
    fs::create_dir_all(FOLDER)?;
    fs::copy(fixtures.join("program"), &program)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let mut wrong = Vec::new();
    for (engine, expected) in RECORDINGS {
        let folder = tempfile::tempdir()?;
        let database = folder.path().join("again.db");
        let output = Command::new(&programs.vcpid)
            .arg("replay")
            .arg(fixtures.join(engine).with_extension("raw"))
            .arg("-o")
            .arg(&database)
            .stdin(Stdio::null())
            .output()?;
        ensure!(output.status.success(), text(&output));
        let found = digest(&database)?;
        if found != expected.into_iter().collect() {
            let found: Vec<_> = found.into_iter().collect();
            wrong.push(format!("(\"{engine}\", {found:#x?})"));
        }
    }
    fs::remove_dir_all(FOLDER)?;
    ensure!(wrong.is_empty(), wrong.join(",\n"));
    Ok(())
}
