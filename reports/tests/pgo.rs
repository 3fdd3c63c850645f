//! `vcpi pgo`: the plain commands that it stands for, and what is missing for them.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Runs `vcpi pgo` in a folder, with these folders to find programs in.
fn pgo(dir: &Path, path: &str, args: &[&str]) -> Output {
    command(dir, path, args).output().expect("vcpi runs")
}

fn command(dir: &Path, path: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vcpi"));
    command
        .arg("pgo")
        .args(args)
        .current_dir(dir)
        .env("PATH", path)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CC")
        .env_remove("CXX");
    command
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

/// A script that anybody may run. Another program writes it: what this one has open, children of
/// other tests have open as well until they execute something, and nobody can run it meanwhile.
fn script(path: &Path, text: &str) {
    let write = "printf '#!/bin/sh\n%s\n' \"$2\" > \"$1\" && chmod 755 \"$1\"";
    let mut writer = Command::new("sh");
    writer.args(["-c", write, "sh"]).arg(path).arg(text);
    assert!(writer.status().expect("sh runs").success());
}

/// A name without a folder is a build of this folder, where it has one. Equal commands that print
/// something else each time are not called different.
#[test]
fn compare_builds_of_here() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    script(&dir.path().join("one"), "date +%N");
    let args = ["compare", "one", "one", "--rounds", "5"];
    let output = pgo(dir.path(), "/usr/bin:/bin", &args);
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success() && errors.contains("$ ./one"),
        "{errors}"
    );
    assert!(
        out.contains("changes from run to run") && !out.contains("do not do the same"),
        "{out}"
    );
    let output = pgo(dir.path(), "/usr/bin:/bin", &["compare", "true", "none"]);
    let errors = text(&output.stderr);
    assert!(
        errors.contains("$ true") && errors.contains("$ none"),
        "{errors}"
    );
}

/// Options of reports that a step makes nothing of are refused.
#[test]
fn options_without_meaning() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let compare = ["compare", "true", "true"];
    for (args, option) in [
        (
            &[&compare[..], &["-i", "x.db"]].concat()[..],
            "-i (--input)",
        ),
        (&[&compare[..], &["--image", "x"]].concat(), "--image"),
        (&[&compare[..], &["--function", "x"]].concat(), "--function"),
        (&[&compare[..], &["-n", "1"]].concat(), "-n (--lines)"),
        (&["record", "-i", "x.db", "--", "true"], "-i (--input)"),
        (&["build", "-i", "x.db", "--", "make"], "-i (--input)"),
        (
            &["build", "--image", "x", "--function", "x", "--", "make"],
            "--function",
        ),
        (&["bolt", "x", "--min-samples", "1"], "--min-samples"),
    ] {
        let output = pgo(dir.path(), "/nowhere", args);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
        let said = format!("{option} means nothing here");
        assert!(errors.contains(&said), "{args:?}: {errors}");
    }
}

/// BOLT is not told to write over the program that it reads, by whatever name.
#[test]
fn new_program_is_another_file() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = dir.path().join("lua");
    fs::write(&program, "program").expect("is written");
    fs::hard_link(&program, dir.path().join("linked")).expect("links");
    symlink("lua", dir.path().join("lua.bolt")).expect("links");
    for output in [&["-o", "./lua"][..], &["-o", "lua"], &["-o", "linked"], &[]] {
        let args = [&["bolt", "--dry-run", "./lua"], output].concat();
        let output = pgo(dir.path(), "/nowhere", &args);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
        assert!(errors.contains("is the program itself"), "{errors}");
    }
    assert_eq!(fs::read(&program).expect("is there"), b"program");
}

/// A builder that is not there is named with its package before anything runs.
#[test]
fn missing_builder() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    script(&dir.path().join("clang"), "");
    let path = dir.path().to_str().expect("is UTF-8");
    for (program, said) in [
        ("cmake", "has a program cmake (Debian: cmake)"),
        ("no-such-builder", "has a program no-such-builder"),
    ] {
        let output = pgo(dir.path(), path, &["build", "--", program]);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{errors}");
        assert!(errors.contains(said) && !errors.contains("$ "), "{errors}");
    }
}

/// Runs `vcpi pgo record` with a collector that does this. Half a second later, both may be
/// interrupted as by Ctrl-C.
fn recording(collector: &str, is_interrupted: bool) -> Output {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // The collector beside the program is the one that is run.
    let vcpi = dir.path().join("vcpi");
    fs::copy(env!("CARGO_BIN_EXE_vcpi"), &vcpi).expect("is copied");
    script(&dir.path().join("vcpid"), collector);
    let child = Command::new(&vcpi)
        .args(["pgo", "record", "-o", "a b.db", "--", "true"])
        .current_dir(dir.path())
        .process_group(0)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("vcpi runs");
    if is_interrupted {
        thread::sleep(Duration::from_millis(500));
        let group = Pid::from_raw(child.id().try_into().expect("is small"));
        killpg(group, Signal::SIGINT).expect("it is there");
    }
    child.wait_with_output().expect("it ends")
}

/// How the command ended is passed on, and what comes next is said where the recording was saved;
/// also behind Ctrl-C, for which the collector has to be waited.
#[test]
fn recordings_that_fail() {
    let next = "next: vcpi pgo build -i 'a b.db' ";
    for (collector, is_interrupted, status, is_saved) in [
        ("echo saved > \"$3\"", false, 0, true),
        ("echo saved > \"$3\"; exit 7", false, 7, true),
        ("exit 125", false, 5, false),
        (
            "trap 'sleep 0.5; echo saved > \"$3\"; exit 130' INT; while :; do sleep 0.1; done",
            true,
            130,
            true,
        ),
    ] {
        let output = recording(collector, is_interrupted);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{collector}: {errors}");
        assert_eq!(errors.contains(next), is_saved, "{collector}: {errors}");
        assert_eq!(errors.contains("step"), !is_saved, "{collector}: {errors}");
    }
}

/// Flags of rustc in cargo's configuration stay, for all targets or for some.
#[test]
fn flags_of_cargo() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("is made");
        fs::write(path, text).expect("is written");
    };
    let manifest =
        "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
    write("Cargo.toml", manifest);
    write(
        "src/main.rs",
        "fn main() { println!(\"{} {}\", cfg!(of_all), cfg!(of_some)); }",
    );
    let path = std::env::var("PATH").expect("there are programs");
    let of_all = "[build]\nrustflags = [\"--cfg\", \"of_all\"]\n";
    let of_some = "[target.\"cfg(unix)\"]\nrustflags = [\"--cfg\", \"of_some\"]\n";
    let of_others = "[target.riscv64gc-unknown-none-elf]\nrustflags = [\"--cfg\", \"other\"]\n";
    for (configuration, printed, how) in [
        (
            of_all,
            "true false",
            "CARGO_BUILD_RUSTFLAGS='-Cdebuginfo=1 ",
        ),
        (
            &[of_all, of_others].concat(),
            "true false",
            "CARGO_BUILD_RUSTFLAGS=",
        ),
        (
            &[of_all, of_some].concat(),
            "false true",
            "cargo --config 'target.",
        ),
    ] {
        write(".cargo/config.toml", configuration);
        let args = [
            "build",
            "--",
            "cargo",
            "run",
            "--offline",
            "--target-dir",
            "t",
        ];
        let output = pgo(dir.path(), &path, &args);
        let errors = text(&output.stderr);
        assert_eq!(text(&output.stdout).trim(), printed, "{errors}");
        assert!(errors.contains(how), "{errors}");
    }
    let args = ["build", "--dry-run", "--", "cargo", "build"];
    let output = pgo(dir.path(), "/nowhere", &args);
    let errors = text(&output.stderr);
    assert!(
        errors.contains("does not tell whether its configuration"),
        "{errors}"
    );
}

/// What a makefile has beside its compiler is named, with a way to keep it; what the command has
/// there is kept.
#[test]
fn flags_of_make() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let below = dir.path().join("src");
    fs::create_dir(&below).expect("is made");
    fs::write(dir.path().join("Makefile"), "all:\n\tcd src && $(MAKE)\n").expect("is written");
    let makefile = "CC= gcc -std=gnu99\nCXX = g++\nall:\n\tCC='gcc -m32' true\n";
    fs::write(below.join("Makefile"), makefile).expect("is written");
    let start = ["build", "--dry-run", "--", "make"];
    for more in [&[][..], &["-C", "src"], &["-f", "src/Makefile"]] {
        let output = pgo(dir.path(), "/nowhere", &[&start, more].concat());
        let errors = text(&output.stderr);
        for part in [
            "src/Makefile:1 has CC = gcc -std=gnu99",
            "without -std=gnu99",
        ] {
            assert!(errors.contains(part), "{errors}");
        }
        assert!(errors.contains("'CC=gcc -std=gnu99'"), "{errors}");
        assert!(
            !errors.contains("-m32") && !errors.contains("CXX"),
            "{errors}"
        );
    }
    let output = pgo(
        dir.path(),
        "/nowhere",
        &[&start[..], &["CC=ccache gcc -std=gnu99"]].concat(),
    );
    let (commands, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(
        commands.starts_with("make 'CC=ccache clang -std=gnu99 -g1 "),
        "{commands}"
    );
    assert!(!errors.contains("std=gnu99"), "{errors}");
}

/// The environment's compiler counts for make where the makefile sets none.
#[test]
fn environment_of_make() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (makefile, starts) in [
        ("CC ?= gcc\nall:\n", "make 'CC=ccache clang -m32 -g1 "),
        ("CC = gcc\nall:\n", "make 'CC=clang -g1 "),
    ] {
        fs::write(dir.path().join("Makefile"), makefile).expect("is written");
        let args = ["build", "--dry-run", "--", "make"];
        let mut command = command(dir.path(), "/nowhere", &args);
        let output = command.env("CC", "ccache gcc -m32").output();
        let commands = text(&output.expect("vcpi runs").stdout);
        assert!(commands.starts_with(starts), "{makefile}: {commands}");
    }
}

/// A compiler that is the command is given the flags itself; one that does not take them is
/// refused.
#[test]
fn compilers() {
    let flags = "-g1 -fdebug-info-for-profiling -funique-internal-linkage-names";
    let commands = dry(&["build", "--dry-run", "--", "clang-22", "-O2", "e.c"]);
    assert_eq!(commands, [format!("clang-22 {flags} -O2 e.c")]);
    let commands = dry(&["build", "--dry-run", "--", "ccache", "clang-22", "e.c"]);
    assert_eq!(commands, [format!("ccache clang-22 {flags} e.c")]);
    let commands = dry(&["build", "--dry-run", "--by", "gcov", "--", "g++-12", "e.cc"]);
    assert_eq!(commands, ["g++-12 -g e.cc"]);
    let commands = dry(&["build", "--dry-run", "--", "rustc", "-O", "e.rs"]);
    let flags = "-Cdebuginfo=1 -Cstrip=none -Zdebug-info-for-profiling";
    assert_eq!(
        commands,
        [format!("RUSTC_BOOTSTRAP=1 rustc {flags} -O e.rs")]
    );
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (args, why) in [
        (&["--", "gcc", "e.c"][..], "builds by --by gcov alone"),
        (
            &["--by", "gcov", "--", "clang", "e.c"],
            "leave out --by gcov",
        ),
        (&["--", "cc", "e.c"], "may be clang or gcc"),
    ] {
        let output = pgo(dir.path(), "/nowhere", &[&["build"], args].concat());
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(why), "{args:?}: {errors}");
    }
}

/// An option that there is not is named, and is no part of the command.
#[test]
fn unknown_options() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (args, option) in [
        (&["record", "-q", "-o", "g.db", "--", "true"][..], "'-q'"),
        (
            &["record", "--dry-run", "--rounds", "3", "--", "true"],
            "'--rounds'",
        ),
        (
            &["build", "--dry-run", "--rounds", "3", "--", "make"],
            "'--rounds'",
        ),
    ] {
        let output = pgo(dir.path(), "/nowhere", args);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
        assert!(errors.contains(option), "{args:?}: {errors}");
    }
    let commands = dry(&["record", "--dry-run", "./lua", "-q", "--rate", "3"]);
    assert!(
        commands.concat().ends_with(" -- ./lua -q --rate 3"),
        "{commands:?}"
    );
}
