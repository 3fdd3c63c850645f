//! `vcpid record` from outside: exit statuses, refusals, signals, faults, and losses.
//!
//! Needs the release build of both programs and root (for the whole machine, a file system of
//! its own, and other users); all of it runs on the software clock.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use vcpi_tests::programs::Programs;

use common::{ensure, text};

type TestResult = Result<Completion, Failed>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tests = vec![
        Trial::ignorable_test("the command's status is vcpid's", statuses),
        Trial::ignorable_test(
            "a command that does not exist is 127 and leaves no file",
            no_command,
        ),
        Trial::ignorable_test(
            "a file that is no vcpi database is refused untouched",
            foreign_files,
        ),
        Trial::ignorable_test("a second recording is a second epoch", appends),
        Trial::ignorable_test("SIGINT, SIGTERM and SIGHUP flush, then end", signals),
        Trial::ignorable_test(
            "a process that exits in the middle ends -p",
            attached_process,
        ),
        Trial::ignorable_test(
            "descendants are profiled, each under its own name",
            descendants,
        ),
        Trial::ignorable_test(
            "a truncated and a foreign ELF are profiled without harm",
            broken_elf,
        ),
        Trial::ignorable_test("a full disk is said, and is 125 at the end", full_disk),
        Trial::ignorable_test(
            "a disk that is full for a while loses nothing",
            full_disk_mended,
        ),
        Trial::ignorable_test("an unprivileged user records an own command", unprivileged),
        Trial::ignorable_test(
            "without permission the message says what would do",
            no_permission,
        ),
        Trial::ignorable_test("a report into a closed pipe ends quietly", closed_pipe),
        Trial::ignorable_test(
            "the whole machine: every loss is in the status",
            whole_machine,
        ),
        Trial::ignorable_test(
            "RELRO, written and remapped pages give no values",
            written_pages,
        ),
        Trial::ignorable_test("hardware cycles count", hardware_cycles),
        Trial::ignorable_test("what looks like an option is no command", options),
        Trial::ignorable_test("-a goes on for as long as a command beside it", beside),
        Trial::ignorable_test("nothing is written where sampling is refused", refused),
        Trial::ignorable_test(
            "an exec in a loop attributes each sample to its program",
            exec_loop,
        ),
        Trial::ignorable_test("check says what works, as text and JSON", check),
    ];
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// A folder of its own, and the programs.
struct Bench {
    folder: tempfile::TempDir,
    programs: Programs,
}

impl Bench {
    fn new() -> Result<Self, Failed> {
        let programs = Programs::find().map_err(|error| format!("{error:#}"))?;
        Ok(Self {
            folder: tempfile::tempdir()?,
            programs,
        })
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn record(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.programs.vcpid);
        command
            .arg("record")
            .args(["--clock", "cpu-clock", "-o"])
            .arg(self.path("db"))
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn status(&self) -> Result<Value, Failed> {
        let status = self.programs.report(&self.path("db"), &["status"]);
        Ok(status.map_err(|error| format!("{error:#}"))?)
    }

    fn query<T: rusqlite::types::FromSql>(&self, sql: &str) -> Result<T, Failed> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let connection = Connection::open_with_flags(self.path("db"), flags)?;
        Ok(connection.query_row(sql, [], |row| row.get(0))?)
    }

    /// Compiles a C program.
    fn compile(&self, name: &str, source: &str) -> Result<std::path::PathBuf, Failed> {
        let (code, program) = (self.path(&format!("{name}.c")), self.path(name));
        fs::write(&code, source)?;
        let output = Command::new("gcc")
            .args(["-O1", "-g", "-o"])
            .arg(&program)
            .arg(&code)
            .output()?;
        ensure(output.status.success(), || text(&output))?;
        Ok(program)
    }
}

fn done() -> TestResult {
    Ok(Completion::Completed)
}

/// Lines that burn about this much processor time in a shell-free way.
const BURN: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

fn statuses() -> TestResult {
    for (script, expected) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("kill -TERM $$", 143),
        ("kill -9 $$", 137),
    ] {
        let bench = Bench::new()?;
        let output = bench.record(&["--", "sh", "-c", script]).output()?;
        ensure(output.status.code() == Some(expected), || {
            format!("{script}: {}", text(&output))
        })?;
    }
    done()
}

fn no_command() -> TestResult {
    let bench = Bench::new()?;
    for name in ["no-such-command-anywhere", "/no/such/file"] {
        let output = bench.record(&["--", name]).output()?;
        ensure(output.status.code() == Some(127), || text(&output))?;
        ensure(text(&output).contains(name), || text(&output))?;
        ensure(!bench.path("db").exists(), || {
            "a database was made".to_owned()
        })?;
    }
    done()
}

fn foreign_files() -> TestResult {
    let bench = Bench::new()?;
    let other = {
        let connection = Connection::open(bench.path("other"))?;
        connection.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES (1);")?;
        drop(connection);
        fs::read(bench.path("other"))?
    };
    let marker = bench.path("ran");
    for contents in [b"just some text\n".to_vec(), vec![0; 5000], other] {
        fs::write(bench.path("db"), &contents)?;
        let output = bench.record(&["--", "touch"]).arg(&marker).output()?;
        ensure(output.status.code() == Some(125), || text(&output))?;
        ensure(fs::read(bench.path("db"))? == contents, || {
            "the file was changed".to_owned()
        })?;
        ensure(!marker.exists(), || {
            "the command was run all the same".to_owned()
        })?;
    }
    done()
}

fn appends() -> TestResult {
    let bench = Bench::new()?;
    for _ in 0..2 {
        let output = bench.record(&["--", "sh", "-c", BURN]).output()?;
        ensure(output.status.success(), || text(&output))?;
    }
    ensure(
        bench.query::<i64>("SELECT count(*) FROM epoch WHERE ended IS NOT NULL")? == 2,
        || "not two closed epochs".to_owned(),
    )?;
    ensure(!bench.path("db-wal").exists(), || {
        "a write-ahead log was left".to_owned()
    })?;
    let mode = fs::metadata(bench.path("db"))?.permissions().mode() & 0o777;
    ensure(mode == 0o600, || {
        format!("others may read the file: mode {mode:o}")
    })?;
    done()
}

/// Waits until the recorded command has said something, so that it certainly runs.
fn wait_for_output(child: &mut Child) -> Result<(), Failed> {
    use std::io::Read;
    let mut byte = [0; 1];
    let out = child.stdout.as_mut().ok_or("no standard output")?;
    Ok(out.read_exact(&mut byte)?)
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

fn signals() -> TestResult {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let bench = Bench::new()?;
        let script = format!("{BURN}; echo ready; while :; do :; done");
        let mut child = bench.record(&["--", "sh", "-c", &script]).spawn()?;
        wait_for_output(&mut child)?;
        kill(pid_of(&child), signal)?;
        let output = child.wait_with_output()?;
        // The command was asked to end, and its status is passed on.
        ensure(output.status.code() == Some(143), || text(&output))?;
        let samples: i64 = bench.query("SELECT coalesce(sum(samples), 0) FROM cycles")?;
        ensure(samples > 10, || format!("{samples} samples"))?;
    }
    done()
}

fn attached_process() -> TestResult {
    let bench = Bench::new()?;
    let mut target = Command::new("sh")
        .args([
            "-c",
            "read x; i=0; while [ $i -lt 2000000 ]; do i=$((i+1)); done",
        ])
        .stdin(Stdio::piped())
        .spawn()?;
    let recorder = bench.record(&["-p", &target.id().to_string()]).spawn()?;
    // The epoch is written before sampling starts; the shell burns long enough for both.
    drop(target.stdin.take());
    let output = recorder.wait_with_output()?;
    target.wait()?;
    ensure(output.status.success(), || text(&output))?;
    let output = bench.record(&["-p", "4194303"]).output()?;
    ensure(output.status.code() == Some(125), || text(&output))?;
    ensure(text(&output).contains("4194303"), || text(&output))?;
    done()
}

fn descendants() -> TestResult {
    let bench = Bench::new()?;
    let script = "for i in 1 2 3; do xz -9 --stdout /usr/bin/gcc >/dev/null & done; wait; \
                  gzip -9 -c /usr/bin/gcc /usr/bin/python3* >/dev/null";
    let output = bench.record(&["--", "sh", "-c", script]).output()?;
    ensure(output.status.success(), || text(&output))?;
    let count = |comm: &str| {
        bench.query::<i64>(&format!(
            "SELECT count(*) FROM process WHERE comm = '{comm}'"
        ))
    };
    ensure(count("xz")? == 3, || "not three xz".to_owned())?;
    ensure(count("gzip")? == 1, || "not one gzip".to_owned())?;
    let wrong: i64 = bench.query(
        "SELECT count(*) FROM cycles JOIN pc ON pc.id = cycles.pc JOIN image ON image.id = pc.image \
         JOIN process ON process.id = cycles.process \
         WHERE process.comm = 'gzip' AND image.path LIKE '%xz%'",
    )?;
    ensure(wrong == 0, || {
        format!("{wrong} rows of gzip in an image of xz")
    })?;
    done()
}

fn broken_elf() -> TestResult {
    let bench = Bench::new()?;
    let burner = bench.compile(
        "burner",
        "#include <stdio.h>\n#include <unistd.h>\nint main(int c, char **v) { if (c > 1 && truncate(v[1], 600)) return 9; \
         volatile unsigned long n = 0; while (n < 300000000ul) n++; return 0; }",
    )?;
    // The file is cut while the program runs: `vcpid` finds 600 bytes where an image was.
    let copy = bench.path("copy");
    fs::copy(&burner, &copy)?;
    let script = format!(
        "{0} & sleep 0.3; cp {0} {0}.new; truncate -s 600 {0}.new; mv {0}.new {0}; wait",
        copy.display()
    );
    let output = bench.record(&["--", "sh", "-c", &script]).output()?;
    ensure(output.status.success(), || text(&output))?;
    let output = Command::new(&bench.programs.vcpi)
        .arg("top")
        .arg("-i")
        .arg(bench.path("db"))
        .output()?;
    ensure(output.status.success(), || text(&output))?;
    // A file that the kernel cannot execute goes to the shell, as from a shell, and fails there.
    let nonsense = bench.path("nonsense");
    fs::write(&nonsense, b"\x7fELF but nothing more\n")?;
    fs::set_permissions(&nonsense, fs::Permissions::from_mode(0o755))?;
    let output = bench.record(&["--"]).arg(&nonsense).output()?;
    ensure(matches!(output.status.code(), Some(126 | 127)), || {
        text(&output)
    })?;
    done()
}

/// A file system of its own, a few hundred KiB large, unmounted at the end.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path) -> Result<Self, Failed> {
        fs::create_dir(at)?;
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(at)
            .output()?;
        ensure(output.status.success(), || text(&output))?;
        Ok(Self(at))
    }

    fn fill(&self) -> Result<(), Failed> {
        // Ends with an error when the disk is full, which is meant.
        let _ = fs::write(self.0.join("ballast"), vec![1; 8 << 20]);
        Ok(())
    }

    fn empty(&self) -> Result<(), Failed> {
        Ok(fs::remove_file(self.0.join("ballast"))?)
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // Nothing can be done about a failure here; the folder is then left behind.
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

fn record_on(bench: &Bench, disk: &Path, script: &str) -> Command {
    let mut command = Command::new(&bench.programs.vcpid);
    command
        .args(["record", "--clock", "cpu-clock", "--flush", "0.2", "-o"])
        .arg(disk.join("db"))
        .args(["--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn full_disk() -> TestResult {
    let bench = Bench::new()?;
    let at = bench.path("disk");
    let disk = SmallDisk::mount(&at)?;
    let script = format!(
        "head -c 10000000 /dev/zero > {}/ballast; {BURN}; {BURN}; {BURN}",
        at.display()
    );
    let output = record_on(&bench, &at, &script).output()?;
    ensure(output.status.code() == Some(125), || text(&output))?;
    let said = text(&output);
    ensure(
        said.contains("no space left") && said.contains("could not be saved"),
        || said.clone(),
    )?;
    disk.empty()?;
    // What did get in is a whole database.
    let connection = Connection::open(at.join("db"))?;
    let intact: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    ensure(intact == "ok", || intact.clone())?;
    done()
}

fn full_disk_mended() -> TestResult {
    let bench = Bench::new()?;
    let at = bench.path("disk");
    let disk = SmallDisk::mount(&at)?;
    disk.fill()?;
    disk.empty()?;
    let script = format!(
        "head -c 10000000 /dev/zero > {0}/ballast; {BURN}; {BURN}; rm {0}/ballast; {BURN}",
        at.display()
    );
    let output = record_on(&bench, &at, &script).output()?;
    ensure(output.status.success(), || text(&output))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure(said.contains("kept in memory"), || said.clone())?;
    let connection = Connection::open(at.join("db"))?;
    let samples: i64 =
        connection.query_row("SELECT sum(samples) FROM cycles", [], |row| row.get(0))?;
    let counted: i64 = connection.query_row(
        "SELECT sum(value) FROM counter WHERE kind = 'run' AND name = 'samples'",
        [],
        |row| row.get(0),
    )?;
    ensure(
        samples == counted && said.contains(&format!("{samples} samples")),
        || format!("{samples} samples in the file, {counted} counted; said: {said}"),
    )?;
    done()
}

/// `command` as the user `nobody`, who has no privileges at all.
fn as_nobody(command: &Command) -> Command {
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    other.arg(command.get_program()).args(command.get_args());
    other
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    other
}

/// The program where anybody may execute it, and a folder where anybody may write.
fn open_to_all(bench: &mut Bench) -> Result<(), Failed> {
    fs::set_permissions(bench.folder.path(), fs::Permissions::from_mode(0o777))?;
    let copy = bench.path("vcpid");
    fs::copy(&bench.programs.vcpid, &copy)?;
    bench.programs.vcpid = copy;
    Ok(())
}

fn unprivileged() -> TestResult {
    let mut bench = Bench::new()?;
    open_to_all(&mut bench)?;
    let output =
        as_nobody(&bench.record(&["--", "xz", "-9", "--stdout", "/usr/bin/gcc"])).output()?;
    ensure(output.status.success(), || text(&output))?;
    let status = bench.status()?;
    ensure(status["samples"].as_u64() > Some(20), || status.to_string())?;
    ensure(status["value_events"].as_u64() > Some(20), || {
        status.to_string()
    })?;
    let kernel: i64 = bench.query(
        "SELECT count(*) FROM cycles JOIN subject ON subject.id = cycles.subject WHERE subject.kernel",
    )?;
    ensure(kernel == 0, || format!("{kernel} rows of the kernel"))?;
    let others: i64 = bench.query("SELECT count(*) FROM subject WHERE uid IS NOT 65534")?;
    ensure(others == 0, || "rows of another user".to_owned())?;
    done()
}

fn no_permission() -> TestResult {
    let mut bench = Bench::new()?;
    open_to_all(&mut bench)?;
    let output = as_nobody(&bench.record(&["-a", "-d", "1"])).output()?;
    ensure(output.status.code() == Some(125), || text(&output))?;
    let said = text(&output);
    for word in ["perf_event_paranoid", "CAP_PERFMON"] {
        ensure(said.contains(word), || said.clone())?;
    }
    done()
}

fn closed_pipe() -> TestResult {
    let bench = Bench::new()?;
    let output = bench.record(&["--", "sh", "-c", BURN]).output()?;
    ensure(output.status.success(), || text(&output))?;
    for report in ["top --by instruction", "status", "branches"] {
        let script = format!(
            "{} {report} -i {} | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}",
            bench.programs.vcpi.display(),
            bench.path("db").display()
        );
        let output = Command::new("bash").args(["-c", &script]).output()?;
        let quiet = !text(&output).contains("panicked");
        let ended =
            matches!(output.status.code(), Some(0 | 141)) || output.status.signal() == Some(13);
        ensure(quiet && ended, || text(&output))?;
    }
    done()
}

fn whole_machine() -> TestResult {
    let bench = Bench::new()?;
    // Busy: two burners, and processes coming and going.
    let busy = "xz -9 -T2 --stdout /usr/bin/gcc /usr/bin/python3* >/dev/null & \
                for i in $(seq 300); do ls /proc >/dev/null; done; wait";
    let mut load = Command::new("sh").args(["-c", busy]).spawn()?;
    let output = bench.record(&["-a", "-d", "3"]).output()?;
    load.wait()?;
    ensure(output.status.success(), || text(&output))?;
    let status = bench.status()?;
    // What the closing line says was lost is what the status adds up to.
    let lost: u64 = status["lost"]
        .as_object()
        .map(|lost| lost.values().filter_map(Value::as_u64).sum())
        .unwrap_or_default();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure(said.contains(&format!("{lost} lost")), || {
        format!("{lost} in the status; said: {said}")
    })?;
    // Every sample has a row: cycles are never dropped silently.
    let rows: i64 = bench.query("SELECT sum(samples) FROM cycles")?;
    ensure(status["samples"].as_i64() == Some(rows), || {
        format!("{rows} rows, {status}")
    })?;
    // Every user sample came to a window, was thinned, or has a reason.
    let accounted: i64 = bench.query(
        "SELECT sum(value) FROM counter WHERE (kind = 'stop') OR (kind = 'run' AND name = 'windows_thinned')",
    )?;
    ensure(accounted == rows, || {
        format!("{accounted} of {rows} samples accounted for")
    })?;
    done()
}

fn written_pages() -> TestResult {
    let bench = Bench::new()?;
    // `table` is RELRO: the file holds another address than memory. `patched` is constant data
    // that the program makes writable, changes, and makes read-only again; `quiet` is changed
    // through /proc/self/mem, which asks for no permission. Each is loaded in a hot loop.
    let program = bench.compile(
        "written",
        r#"
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#define LOAD(table) (*(const volatile uint64_t *)&(table)[0])
extern char __executable_start;
static int a, b;
int *const volatile table[2] = {&a, &b};
__attribute__((aligned(4096))) const uint64_t patched[512] = {1111};
__attribute__((aligned(4096))) const uint64_t quiet[512] = {2222};
__attribute__((aligned(4096))) const uint64_t pristine[512] = {3333};
__attribute__((noipa)) uint64_t relro(uint64_t x) { return x * 3 + (uint64_t)table[1]; }
__attribute__((noipa)) uint64_t load_patched(uint64_t x) { return x * 3 + LOAD(patched); }
__attribute__((noipa)) uint64_t load_quiet(uint64_t x) { return x * 3 + LOAD(quiet); }
__attribute__((noipa)) uint64_t load_pristine(uint64_t x) { return x * 3 + LOAD(pristine); }
int main(void) {
    mprotect((void *)patched, 4096, PROT_READ | PROT_WRITE);
    *(uint64_t *)patched = 5555;
    mprotect((void *)patched, 4096, PROT_READ);
    uint64_t changed = 6666;
    int mem = open("/proc/self/mem", O_RDWR);
    if (mem < 0 || pwrite(mem, &changed, 8, (off_t)quiet) != 8) return 3;
    uint64_t x = 1;
    for (long i = 0; i < 120000000; i++)
        x = relro(x) + load_patched(x) + load_quiet(x) + load_pristine(x);
    // What the file holds in table[1], before relocation.
    printf("%lu\n", (uint64_t)&b - (uint64_t)&__executable_start);
    return x == 42;
}
"#,
    )?;
    let output = bench.record(&["--"]).arg(&program).output()?;
    ensure(output.status.success(), || text(&output))?;
    let values = |wrong: &str| {
        bench.query::<i64>(&format!(
            "SELECT count(*) FROM tuple JOIN hotlist ON hotlist.id = tuple.hotlist WHERE value IN ({wrong})"
        ))
    };
    // What the file holds is not what the program loads; a stale value may appear nowhere. (The
    // new ones may: they are seen in registers.)
    ensure(values("1111")? == 0, || {
        "the file's value of a page that was made writable".to_owned()
    })?;
    ensure(values("2222")? == 0, || {
        "the file's value of a page that was written".to_owned()
    })?;
    let unrelocated = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    ensure(values(&unrelocated)? == 0, || {
        format!("the file's value of RELRO, {unrelocated}")
    })?;
    let loads = "SELECT count(*) FROM tuple JOIN hotlist ON hotlist.id = tuple.hotlist \
                 WHERE value = 3333 AND parameter IN ('rax', 'rdi', 'rdx', 'rcx', 'rsi')";
    ensure(bench.query::<i64>(loads)? > 0, || {
        "no value of a page that was never written".to_owned()
    })?;
    done()
}

fn options() -> TestResult {
    let bench = Bench::new()?;
    for wrong in [
        &["--seeds", "3", "--", "true"][..],
        &["-F", "99", "true"],
        &["--rate", "0", "true"],
    ] {
        let output = bench.record(wrong).output()?;
        ensure(output.status.code() == Some(2), || text(&output))?;
        ensure(!bench.path("db").exists(), || {
            "a database was made".to_owned()
        })?;
    }
    // Behind two dashes anything is a command, and a command's own options are its own.
    let output = bench.record(&["--", "-x"]).output()?;
    ensure(output.status.code() == Some(127), || text(&output))?;
    let output = bench.record(&["sh", "-c", "exit 5"]).output()?;
    ensure(output.status.code() == Some(5), || text(&output))?;
    for (impossible, why) in [
        (&["--bounce"][..], "this version"),
        (
            &["--clock", "timer", "--engine", "ring"][..],
            "needs the engine bpf",
        ),
    ] {
        let output = Command::new(&bench.programs.vcpid)
            .arg("record")
            .args(impossible)
            .arg("true")
            .output()?;
        let said = text(&output);
        ensure(
            output.status.code() == Some(2) && said.contains(why),
            || said.clone(),
        )?;
    }
    done()
}

fn beside() -> TestResult {
    let bench = Bench::new()?;
    let output = bench.record(&["-a", "--", "sh", "-c", BURN]).output()?;
    ensure(output.status.success(), || text(&output))?;
    let others: i64 = bench.query("SELECT count(DISTINCT comm) FROM process")?;
    ensure(others > 1, || "only the command was profiled".to_owned())?;
    done()
}

fn refused() -> TestResult {
    let mut bench = Bench::new()?;
    open_to_all(&mut bench)?;
    let output = as_nobody(&bench.record(&["-a", "-d", "1"])).output()?;
    ensure(output.status.code() == Some(125), || text(&output))?;
    ensure(!bench.path("db").exists(), || {
        "a database was made".to_owned()
    })?;
    done()
}

fn exec_loop() -> TestResult {
    let bench = Bench::new()?;
    // Each program burns in a function of its own, then becomes the other, under one pid.
    let source = |own: &str, other: &str| {
        format!(
            r#"
#include <stdlib.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((noipa)) unsigned long burn_{own}(unsigned long x) {{
    for (int i = 0; i < 4000000; i++) x = x * 3 + 1;
    return x;
}}
int main(int argc, char **argv) {{
    int left = atoi(argv[1]);
    volatile unsigned long sink = burn_{own}(left);
    (void)sink;
    if (left == 0) return 0;
    char text[16];
    snprintf(text, sizeof text, "%d", left - 1);
    execl("{folder}/{other}", "{other}", text, (char *)0);
    return 1;
}}
"#,
            folder = bench.folder.path().display()
        )
    };
    let ping = bench.compile("ping", &source("ping", "pong"))?;
    bench.compile("pong", &source("pong", "ping"))?;
    let output = bench.record(&["--"]).arg(&ping).arg("60").output()?;
    ensure(output.status.success(), || text(&output))?;
    let rows: i64 = bench.query(
        "SELECT sum(samples) FROM cycles JOIN pc ON pc.id = cycles.pc JOIN image ON image.id = pc.image \
         JOIN process ON process.id = cycles.process \
         WHERE process.comm IN ('ping', 'pong') AND image.path LIKE '%/p_ng'",
    )?;
    ensure(rows > 50, || format!("{rows} samples"))?;
    let wrong: i64 = bench.query(
        "SELECT coalesce(sum(samples), 0) FROM cycles JOIN pc ON pc.id = cycles.pc \
         JOIN image ON image.id = pc.image JOIN process ON process.id = cycles.process \
         WHERE (process.comm = 'ping' AND image.path LIKE '%/pong') \
            OR (process.comm = 'pong' AND image.path LIKE '%/ping')",
    )?;
    ensure(wrong == 0, || {
        format!("{wrong} samples of one program in the other's image")
    })?;
    done()
}

fn hardware_cycles() -> TestResult {
    let bench = Bench::new()?;
    let check = Command::new(&bench.programs.vcpid)
        .args(["check", "--format", "json"])
        .output()?;
    let found: Value = serde_json::from_slice(&check.stdout).map_err(|error| error.to_string())?;
    let cycles = found["clocks"]
        .as_array()
        .and_then(|clocks| clocks.iter().find(|clock| clock["name"] == "cycles"));
    if cycles.and_then(|cycles| cycles["works"].as_bool()) != Some(true) {
        return Ok(Completion::ignored_with("needs the hardware cycle counter"));
    }
    let output = Command::new(&bench.programs.vcpid)
        .args(["record", "--clock", "cycles", "-o"])
        .arg(bench.path("db"))
        .args(["--", "sh", "-c", BURN])
        .output()?;
    ensure(output.status.success(), || text(&output))?;
    let status = bench.status()?;
    ensure(
        status["clock"] == "cycles" && status["samples"].as_u64() > Some(20),
        || status.to_string(),
    )?;
    done()
}

fn check() -> TestResult {
    let bench = Bench::new()?;
    let json = Command::new(&bench.programs.vcpid)
        .args(["check", "--format", "json"])
        .output()?;
    let found: Value = serde_json::from_slice(&json.stdout).map_err(|error| error.to_string())?;
    for kind in ["engines", "clocks", "targets", "reports"] {
        let findings = found[kind].as_array().ok_or("not an array")?;
        for finding in findings {
            let mended =
                finding["works"] == true || finding["mend"].as_str().is_some_and(|m| !m.is_empty());
            ensure(mended, || finding.to_string())?;
        }
    }
    let clocks = found["clocks"].as_array().ok_or("not an array")?;
    let named = |name: &str| clocks.iter().find(|clock| clock["name"] == name);
    // What an interrupt of a working clock costs, and which one is taken and why.
    for clock in clocks.iter().filter(|clock| clock["works"] == true) {
        ensure(clock["interrupt_ns"].is_u64(), || clock.to_string())?;
    }
    let auto = &found["auto_clock"];
    let taken = auto["clock"].as_str().and_then(named);
    ensure(
        taken.is_some_and(|clock| clock["works"] == true)
            && auto["why"].as_str().is_some_and(|why| !why.is_empty()),
        || auto.to_string(),
    )?;
    let plain = Command::new(&bench.programs.vcpid).arg("check").output()?;
    ensure(
        plain.status.success() && text(&plain).contains("cpu-clock"),
        || text(&plain),
    )?;
    done()
}
