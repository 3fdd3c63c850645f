//! Exports for optimisers: what their programs must have, and the commands that use them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use object::{Object as _, ObjectSymbol as _};
use profiledb::{Image, ImageKind, Process, Subject, Writer};
use tempfile::TempDir;

use crate::common::epoch;

/// A function that takes all the time.
const SOURCE: &str = "\
__attribute__((noinline)) int hot(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += i % 3 ? i : n;
    return sum;
}
int main(int count, char **words) {
    (void)words;
    return hot(count * 1000) & 1;
}
";
/// Exports of a program's code.
const KINDS: [&str; 4] = ["profgen", "bolt", "propeller", "gcov"];

/// A folder with a program and its profile.
struct Recorded(TempDir);

impl Recorded {
    /// A program that is linked with these flags.
    fn new(flags: &[&str]) -> Recorded {
        let of = Recorded(tempfile::tempdir().expect("a temporary directory"));
        fs::write(of.path("prog.c"), SOURCE).expect("is written");
        let always = ["-O1", "-g", "-o", "prog", "prog.c"];
        of.tool("gcc", &[&always, flags].concat());
        of.record();
        of
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn tool(&self, program: &str, args: &[&str]) {
        let mut command = Command::new(program);
        let output = command.args(args).current_dir(self.0.path()).output();
        let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(output.status.success(), "{program} {args:?}: {output:?}");
    }

    /// Writes a profile in which the function was interrupted often enough.
    fn record(&self) {
        let bytes = fs::read(self.path("prog")).expect("is built");
        let file = object::File::parse(&*bytes).expect("is ELF");
        let id = file.build_id().expect("it can be read");
        let id = id.map(|id| {
            id.iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        });
        let mut symbols = file.symbols();
        let hot = symbols.find(|symbol| symbol.name() == Ok("hot"));
        let hot = hot.expect("it has the function").address();
        let path = self.path("prog").display().to_string();
        let database = self.path("vcpi.db");
        let mut writer =
            Writer::create_epoch(&database, &epoch(0, "prog", "bpf")).expect("creates");
        let mut flush = writer.begin(0, 1_000_000_000).expect("begins");
        let image = Image {
            kind: ImageKind::File,
            identity: id.clone().unwrap_or_else(|| path.clone()),
            path,
            build_id: id,
        };
        let image = flush.image(&image).expect("image");
        let process = Process {
            pid: 7,
            started: 1,
            execs: 0,
            comm: "prog".into(),
        };
        let process = flush.process(&process).expect("process");
        let subject = flush.subject(&Subject::default()).expect("subject");
        let pc = flush.pc(image, hot, None).expect("pc");
        flush
            .cycles(process, subject, pc, None, 3000, 30_000)
            .expect("cycles");
        flush.commit().expect("commits");
        writer.end_epoch(1_000_000_000).expect("ends");
        writer.close().expect("closes");
    }

    /// Runs `vcpi`, with these folders to find programs in.
    fn vcpi(&self, path: &str, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_vcpi"))
            .args(args)
            .current_dir(self.0.path())
            .env("PATH", path)
            .output()
            .expect("vcpi runs")
    }

    /// What an export that succeeds says.
    fn said(&self, args: &[&str]) -> String {
        let output = self.vcpi("/nowhere", &[&["export"], args].concat());
        assert_eq!(
            output.status.code(),
            Some(0),
            "{args:?}: {}",
            errors(&output)
        );
        errors(&output)
    }

    /// What an export that is refused says. It leaves no file.
    fn refused(&self, args: &[&str]) -> String {
        let words = [&["export"], args, &["-o", "none"]].concat();
        let output = self.vcpi("/nowhere", &words);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{args:?}: {}",
            errors(&output)
        );
        assert!(!self.path("none").exists(), "{args:?}");
        assert!(!errors(&output).contains("next:"), "{}", errors(&output));
        errors(&output)
    }

    /// Makes a program of this name that does nothing.
    fn program(&self, name: &str) {
        fs::write(self.path(name), "#!/bin/sh\n").expect("is written");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.path(name), mode).expect("is ours");
    }

    fn folder(&self) -> &str {
        self.0.path().to_str().expect("is UTF-8")
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A program without symbols is refused by each kind with the flags that its reader needs, and one
/// without debug information by those that need lines.
#[test]
fn what_programs_lack() {
    let of = Recorded::new(&["-Wl,--build-id", "-Wl,--emit-relocs"]);
    of.tool("strip", &["prog", "-o", "bare"]);
    for (kind, flag) in KINDS.into_iter().zip([
        "-fdebug-info-for-profiling",
        "-Wl,--emit-relocs",
        "-fbasic-block-address-map",
        "-O2 -g",
    ]) {
        let said = of.refused(&[kind, "--image", "./bare"]);
        let is_right = said.contains("has no symbols") && said.contains(flag);
        assert!(is_right, "{kind}: {said}");
    }
    of.tool("strip", &["-g", "prog", "-o", "bare"]);
    for (kind, flag) in [
        ("profgen", "build it with -g1 -fdebug-info-for-profiling"),
        ("gcov", "build it with -O2 -g"),
    ] {
        let said = of.refused(&[kind, "--image", "./bare"]);
        assert!(said.contains(flag), "{kind}: {said}");
    }
}

/// BOLT lays out blocks of a program without relocations, and moves functions with them alone: the
/// commands ask for no more.
#[test]
fn relocations() {
    let functions = "-reorder-functions=";
    let of = Recorded::new(&["-Wl,--build-id", "-Wl,--emit-relocs"]);
    let said = of.said(&["bolt", "--image", "./prog", "-o", "out"]);
    assert!(
        said.contains(functions) && !said.contains("emit-relocs"),
        "{said}"
    );
    let of = Recorded::new(&["-Wl,--build-id"]);
    let said = of.said(&["bolt", "--image", "./prog", "-o", "out"]);
    let asks = said.contains("-reorder-blocks=") && !said.contains(functions);
    assert!(
        asks && said.contains("link it with -Wl,--emit-relocs"),
        "{said}"
    );
    let output = of.vcpi("/nowhere", &["pgo", "bolt", "--dry-run", "./prog"]);
    let steps = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        steps.contains("-reorder-blocks=") && !steps.contains(functions),
        "{steps}"
    );
}

/// llvm-profgen takes probes in place of lines, and lines of a debug file if it is told where that
/// is.
#[test]
fn places_of_the_source() {
    let of = Recorded::new(&["-Wl,--build-id"]);
    of.tool("objcopy", &["--only-keep-debug", "prog", "prog.debug"]);
    let debug = [
        "--strip-debug",
        "--add-gnu-debuglink=prog.debug",
        "prog",
        "apart",
    ];
    of.tool("objcopy", &debug);
    let told = "--debug-binary=./prog.debug ";
    let said = of.said(&["profgen", "--image", "./apart", "-o", "out"]);
    assert!(said.contains(told), "{said}");
    let words = [
        "pgo",
        "build",
        "--dry-run",
        "--image",
        "./apart",
        "--",
        "make",
    ];
    let steps = of.vcpi("/nowhere", &words).stdout;
    assert!(String::from_utf8_lossy(&steps).contains(told));
    let probes = [
        "--strip-debug",
        "--add-section",
        ".pseudo_probe=prog.c",
        "prog",
        "probes",
    ];
    of.tool("objcopy", &probes);
    let said = of.said(&["profgen", "--image", "./probes", "-o", "out"]);
    assert!(
        said.contains("clang -O2 -fpseudo-probe-for-profiling"),
        "{said}"
    );
}

/// What comes next is said once the file is there, by the names of the newest tools, and as a shell
/// takes it.
#[test]
fn next_commands() {
    let of = Recorded::new(&["-Wl,--build-id"]);
    let said = of.said(&["profgen", "--image", "./prog", "-o", "a b"]);
    let next = "next: llvm-profgen '--unsymbolized-profile=a b' --binary=./prog ";
    assert!(said.contains(next), "{said}");
    let said = of.said(&["profgen", "--image", "./prog", "-o", "-"]);
    assert!(said.contains("--unsymbolized-profile=FILE "), "{said}");
    for kind in ["profgen", "bolt", "gcov"] {
        for output in [".", "no/folder", "/dev/full"] {
            let words = ["export", kind, "--image", "./prog", "-o", output];
            let output = of.vcpi("/nowhere", &words);
            assert_eq!(output.status.code(), Some(1));
            let said = errors(&output);
            assert!(
                !said.contains("next:") && said.contains("cannot write"),
                "{said}"
            );
            assert!(!said.contains(".vcpi-export-"), "{said}");
        }
    }
    for name in [
        "llvm-profgen",
        "llvm-profgen-21",
        "llvm-profgen-22",
        "clang-22",
    ] {
        of.program(name);
    }
    let words = ["export", "profgen", "--image", "./prog", "-o", "out"];
    let said = errors(&of.vcpi(of.folder(), &words));
    assert!(said.contains("next: llvm-profgen-22 "), "{said}");
    assert!(said.contains("then build with: clang-22 "), "{said}");
}

/// A step of `vcpi pgo` leaves to the other steps what comes next.
#[test]
fn steps_go_on_by_themselves() {
    let of = Recorded::new(&["-Wl,--build-id"]);
    of.program("perf2bolt-22");
    of.program("llvm-bolt-22");
    let output = of.vcpi(of.folder(), &["pgo", "bolt", "./prog"]);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let is_right = said.contains("$ llvm-bolt-22 ") && said.contains("3000 samples");
    assert!(
        is_right && !said.contains("next:") && !said.contains("then:"),
        "{said}"
    );
}

/// A file of this folder goes by its build id, with a folder in front of it or not. One without a
/// build id is told how to get one.
#[test]
fn files_that_were_moved() {
    let of = Recorded::new(&["-Wl,--build-id"]);
    fs::copy(of.path("prog"), of.path("renamed")).expect("is copied");
    for name in ["renamed", "./renamed"] {
        of.said(&["profgen", "--image", name, "-o", "out"]);
        let top = of.vcpi("/nowhere", &["top", "--image", name]);
        assert_eq!(top.status.code(), Some(0), "{}", errors(&top));
    }
    // Where it ran is another build by now, or nothing.
    of.tool("gcc", &["-O1", "-Wl,--build-id", "-o", "prog", "prog.c"]);
    for is_there in [true, false] {
        if !is_there {
            fs::remove_file(of.path("prog")).expect("is removed");
        }
        let said = of.said(&["profgen", "--image", "renamed", "-o", "out"]);
        assert!(!said.contains("shown as addresses"), "{said}");
        let top = of.vcpi("/nowhere", &["top", "--image", "renamed"]);
        let shown = String::from_utf8_lossy(&top.stdout).into_owned();
        assert!(shown.contains(" hot"), "{shown}{}", errors(&top));
    }
    let of = Recorded::new(&["-Wl,--build-id=none"]);
    fs::copy(of.path("prog"), of.path("moved")).expect("is copied");
    for name in ["moved", "./moved"] {
        let said = of.refused(&["profgen", "--image", name]);
        let is_right = said.contains("no build id") && said.contains("-Wl,--build-id");
        assert!(is_right, "{said}");
    }
}

/// Neither the profile nor the program is replaced by what is made of them.
#[test]
fn what_is_read_stays() {
    let of = Recorded::new(&["-Wl,--build-id"]);
    fs::hard_link(of.path("prog"), of.path("linked")).expect("links");
    for output in ["vcpi.db", "./prog", "linked"] {
        let before = fs::read(of.path(output)).expect("is there");
        let words = ["export", "profgen", "--image", "./prog"];
        let output_to = ["-o", output];
        let refused = of.vcpi("/nowhere", &[&words[..], &output_to].concat());
        assert_eq!(refused.status.code(), Some(2), "{}", errors(&refused));
        assert!(errors(&refused).contains("name another file"));
        assert_eq!(fs::read(of.path(output)).expect("is there"), before);
    }
}
