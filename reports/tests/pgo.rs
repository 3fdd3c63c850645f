//! `vcpi pgo`: the plain commands that it stands for, and what is missing for them.

use std::path::Path;
use std::process::{Command, Output};

/// Runs `vcpi pgo` in a folder, with these folders to find programs in.
fn pgo(dir: &Path, path: &str, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vcpi"))
        .arg("pgo")
        .args(args)
        .current_dir(dir)
        .env("PATH", path)
        .env_remove("RUSTFLAGS")
        .output()
        .expect("vcpi runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The commands that a dry run prints, with the places of this test taken out.
fn dry(args: &[&str]) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path().canonicalize().expect("it is there");
    let output = pgo(&dir, "/nowhere", args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let out = text(&output.stdout).replace(dir.to_str().expect("is UTF-8"), "/here");
    out.lines()
        .map(|line| line.replace(env!("CARGO_BIN_EXE_vcpi"), "vcpi"))
        .collect()
}

/// A build with a profile is an export, llvm-profgen, and the build itself with clang's flags.
#[test]
fn build_is_three_commands() {
    let args = [
        "build",
        "--dry-run",
        "-i",
        "lua.db",
        "--image",
        "./lua",
        "--",
        "make",
        "-j2",
    ];
    let flags = "-g1 -fdebug-info-for-profiling -funique-internal-linkage-names \
                 -fprofile-sample-use=/here/lua.prof";
    assert_eq!(
        dry(&args),
        [
            "vcpi export profgen -i lua.db --image ./lua -o /here/lua.profgen".to_owned(),
            "llvm-profgen --unsymbolized-profile=/here/lua.profgen --binary=./lua --use-offset=0 \
             --format=text --output=/here/lua.prof"
                .to_owned(),
            format!("make -j2 'CC=clang {flags}' 'CXX=clang++ {flags}'"),
        ]
    );
}

/// Counts for each caller are an option of the recording and of the export.
#[test]
fn contexts() {
    let args = [
        "record",
        "--dry-run",
        "--frames",
        "16",
        "--",
        "./lua",
        "bench.lua",
    ];
    let record = dry(&args).concat();
    assert!(
        record.ends_with("--rate 1000 --frames 16 -- ./lua bench.lua"),
        "{record}"
    );
    let args = [
        "build",
        "--dry-run",
        "--image",
        "./lua",
        "--contexts",
        "--",
        "make",
    ];
    let export = "vcpi export profgen --image ./lua -o /here/lua.profgen --contexts";
    assert_eq!(dry(&args).first().map(String::as_str), Some(export));
}

/// Each other route has its exports and its reader before the build, in the order of their files.
#[test]
fn routes() {
    let build = |more: &[&str]| {
        let start = ["build", "--dry-run", "-i", "lua.db", "--image", "./lua"];
        dry(&[&start[..], more, &["--", "make"]].concat())
    };
    let flags = "-g1 -fdebug-info-for-profiling -Wno-unused-command-line-argument -mllvm \
                 -pgo-instr-select=false -fprofile-use=/here/lua.profdata";
    assert_eq!(
        build(&["--by", "proftext", "--skeleton", "skeleton"]),
        [
            "vcpi export proftext -i lua.db --image ./lua -o /here/lua.proftext --skeleton \
             /here/skeleton"
                .to_owned(),
            "llvm-profdata merge -o /here/lua.profdata /here/lua.proftext".to_owned(),
            format!("make 'CC=clang {flags}' 'CXX=clang++ {flags}'"),
        ]
    );
    let flags = "-g1 -funique-internal-linkage-names -fuse-ld=lld \
                 -Wno-unused-command-line-argument -fbasic-block-sections=list=/here/lua.blocks \
                 -Wl,--no-warn-symbol-ordering -Wl,--symbol-ordering-file=/here/lua.order";
    assert_eq!(
        build(&["--by", "propeller"]),
        [
            "vcpi export propeller -i lua.db --image ./lua -o /here/lua.blocks".to_owned(),
            "vcpi export propeller -i lua.db --image ./lua -o /here/lua.order --order".to_owned(),
            format!("make 'CC=clang {flags}' 'CXX=clang++ {flags}'"),
        ]
    );
    let flags = "-g -fno-unroll-loops -fno-tracer --param=max-early-inliner-iterations=3 \
                 -fauto-profile=/here/lua.afdo";
    assert_eq!(
        build(&["--by", "gcov"]),
        [
            "vcpi export gcov -i lua.db --image ./lua -o /here/lua.afdo".to_owned(),
            format!("make 'CC=gcc {flags}' 'CXX=g++ {flags}'"),
        ]
    );
}

/// Options that do not fit a route are refused with what does, and nothing runs.
#[test]
fn wrong_options() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (args, why) in [
        (
            &["--by", "proftext", "--image", "p", "--", "make"][..],
            "needs --skeleton FOLDER",
        ),
        (&["--skeleton", "s", "--", "make"], "of --by proftext alone"),
        (&["--by", "gcov", "--", "cargo", "build"], "cargo builds by"),
        (&["--by", "propeller", "--", "cargo"], "cargo builds by"),
        (
            &["--by", "gcov", "--hot", "--image", "p", "--", "make"],
            "--hot is of --by profgen and proftext",
        ),
        (&["--hot", "--", "make"], "name its program with --image"),
        (
            &["--contexts", "--", "make"],
            "name its program with --image",
        ),
        (
            &["--by", "gcov", "--contexts", "--image", "p", "--", "make"],
            "--contexts is of --by profgen alone",
        ),
    ] {
        let output = pgo(dir.path(), "/nowhere", &[&["build"], args].concat());
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(why), "{args:?}: {errors}");
    }
}

/// Without a program, a build is one to be recorded.
#[test]
fn first_build() {
    let commands = dry(&["build", "--dry-run", "--", "cargo", "build", "--release"]);
    assert_eq!(
        commands,
        [
            "RUSTC_BOOTSTRAP=1 RUSTFLAGS='-Cdebuginfo=1 -Cstrip=none -Zdebug-info-for-profiling' \
          cargo build --release"
        ]
    );
}

/// A new layout is an export, perf2bolt and llvm-bolt; a recording is `vcpid record`.
#[test]
fn other_steps() {
    let commands = dry(&["bolt", "--dry-run", "-i", "lua.db", "./lua"]);
    assert_eq!(
        commands[0],
        "vcpi export bolt -i lua.db --image ./lua -o /here/lua.preagg"
    );
    assert_eq!(
        commands[1],
        "perf2bolt ./lua --pa -p /here/lua.preagg -o /here/lua.fdata"
    );
    assert!(commands[2].starts_with("llvm-bolt ./lua -o ./lua.bolt -data /here/lua.fdata "));
    let commands = dry(&[
        "record",
        "--dry-run",
        "-o",
        "x.db",
        "--",
        "./lua",
        "--a",
        "b c",
    ]);
    let [command] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    assert!(
        command.ends_with("vcpid record -o x.db --rate 1000 -- ./lua --a 'b c'"),
        "{command}"
    );
}

/// Missing programs are named with their packages before anything runs.
#[test]
fn missing_programs() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let output = pgo(
        dir.path(),
        "/nowhere",
        &["build", "--image", "p", "--", "make"],
    );
    assert_eq!(output.status.code(), Some(5));
    let errors = text(&output.stderr);
    assert!(
        errors.contains("clang (Debian: clang-22), llvm-profgen (Debian: llvm-22)"),
        "{errors}"
    );
    assert!(!errors.contains("$ "), "{errors}");
}

/// Two builds are compared on what they are told; that they print other things is said.
#[test]
fn compare() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let args = [
        "compare",
        "/bin/echo",
        "/bin/true",
        "--rounds",
        "5",
        "--",
        "word",
    ];
    let output = pgo(dir.path(), "/usr/bin:/bin", &args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(errors.contains("$ /bin/echo word"), "{errors}");
    assert!(
        out.contains("5 rounds in turn") && out.contains("printed differs"),
        "{out}"
    );
}
