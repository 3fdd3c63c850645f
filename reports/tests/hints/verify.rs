//! `--verify`.

use serde_json::Value;

use super::{run, text};

/// `--verify` needs no profile. It tells a difference with an interval, or that there is none, and
/// what failed.
#[test]
fn verification() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let count = |to: u32| format!("i=0; while [ $i -lt {to} ]; do i=$((i+1)); done");
    let (slow, fast) = (count(60_000), count(6_000));
    let verify = |a: &str, b: &str| {
        let args = [
            "hints", "--verify", a, b, "--rounds", "5", "--format", "json",
        ];
        run(dir.path(), &args)
    };
    let output = verify(&slow, &fast);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let trial: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&trial["differs"], &trial["rounds"]),
        (&true.into(), &5.into())
    );
    assert!(trial["saving_low"].as_f64() > Some(0.0), "{trial}");
    let output = verify("true", "exit 7");
    assert_eq!(output.status.code(), Some(5));
    assert!(text(&output.stderr).contains("exit 7"));
    let too_few = run(
        dir.path(),
        &["hints", "--verify", "true", "true", "--rounds", "2"],
    );
    assert_eq!(too_few.status.code(), Some(2));
}
