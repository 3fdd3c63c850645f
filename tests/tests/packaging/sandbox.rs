//! What the service sees of the machine from inside the sandbox of its unit.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use vcpi_tests::harness::{Test, test};
use vcpi_tests::needs::{as_root, bpf, gcc};
use vcpi_tests::programs::Programs;
use vcpi_tests::rows::Rows;

use crate::busy_program;
use crate::manager::{Manager, systemd};

/// How long samples are waited for.
const PATIENCE: Duration = Duration::from_secs(90);
/// A user that nobody has.
const USER: u32 = 54_321;
/// Profiles that are enough to say that values of a program are known.
const ENOUGH: i64 = 10;

/// A program that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) const ALL_PROGRAMS: Test = test(
    "in the sandbox, programs in homes, deleted ones and those of containers have values and names",
    all_programs,
    &[as_root, gcc, systemd, bpf],
);
/// A program in another user's home that nobody else may even enter, one in `/tmp`, one that was
/// deleted, and one in a root folder of its own in a mount namespace of its own: of each, values
/// are known and the function has its name. The kernel's functions have theirs.
fn all_programs() -> Result<()> {
    let programs = Programs::find()?;
    let home = tempfile::tempdir_in("/home")?;
    let folder = tempfile::tempdir_in("/tmp")?;
    let _running = start_all(home.path(), folder.path())?;
    let manager = Manager::start()?;
    manager.control(&["start", "vcpid.service"])?;
    let names = ["busy-home", "busy-tmp", "busy-deleted", "busy-container"];
    let deadline = Instant::now() + PATIENCE;
    while !names
        .iter()
        .all(|name| profiles(&manager, name).is_ok_and(|n| n >= ENOUGH))
    {
        // On a machine that is overloaded it may answer late; what counts is what is found.
        let _ = manager.ctl("flush");
        ensure!(
            Instant::now() < deadline,
            "{:?}",
            names.map(|name| (name, profiles(&manager, name).ok()))
        );
    }
    for name in ["busy-deleted", "busy-container"] {
        let named = count(
            &manager,
            "SELECT count(*) FROM symbol JOIN image ON image.id = symbol.image
             WHERE image.path LIKE '%' || ?1 || '%' AND symbol.name = 'busy_function'",
            name,
        )?;
        ensure!(named == 1, "{name}: its function has no name");
    }
    let kernel = count(
        &manager,
        "SELECT count(*) FROM symbol JOIN image ON image.id = symbol.image WHERE image.kind = ?1",
        "kernel",
    )?;
    ensure!(kernel > 0, "the kernel's functions have no names");
    let engine = count(
        &manager,
        "SELECT count(*) FROM epoch WHERE engine = ?1",
        "bpf",
    )?;
    ensure!(engine == 1, "not with BPF");
    let top = programs.report(&manager.databases(), &["top"])?;
    for name in names {
        ensure!(is_named(&top, name), "{name} is not named in {top}");
    }
    manager.control(&["stop", "vcpid.service"])?;
    Ok(())
}

/// Whether the report has the program's function by its name.
fn is_named(top: &Value, image: &str) -> bool {
    match top {
        Value::Array(items) => items.iter().any(|item| is_named(item, image)),
        Value::Object(fields) => {
            let text =
                |value: &Value, part: &str| value.as_str().is_some_and(|text| text.contains(part));
            let own = fields.values().any(|value| text(value, "busy_function"))
                && fields.values().any(|value| text(value, image));
            own || fields.values().any(|value| is_named(value, image))
        }
        _ => false,
    }
}

fn start_all(home: &Path, folder: &Path) -> Result<Vec<Running>> {
    let program = busy_program(folder)?;
    let in_home = home.join("busy-home");
    fs::copy(&program, &in_home)?;
    for path in [home, &in_home] {
        fs::set_permissions(path, Permissions::from_mode(0o700))?;
        chown(path, Some(USER), Some(USER))?;
    }
    let in_tmp = folder.join("busy-tmp");
    fs::copy(&program, &in_tmp)?;
    let deleted = folder.join("busy-deleted");
    fs::copy(&program, &deleted)?;
    let root = folder.join("root");
    fs::create_dir(&root)?;
    fs::copy(&program, folder.join("busy-container"))?;
    let user = USER.to_string();
    let mut as_user = Command::new("setpriv");
    as_user.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
    // The mount is seen by nobody else; the folder under it stays empty.
    let mut contained = Command::new("unshare");
    contained
        .args(["--mount", "--propagation=private", "sh", "-ec"])
        .arg(
            "mount -t tmpfs tmpfs \"$1\" && cp \"$2\" \"$1\" && exec chroot \"$1\" /busy-container",
        )
        .arg("sh")
        .arg(&root)
        .arg(folder.join("busy-container"));
    let running = vec![
        spawn(as_user.arg(&in_home))?,
        spawn(&mut Command::new(&in_tmp))?,
        spawn(&mut Command::new(&deleted))?,
        spawn(&mut contained)?,
    ];
    fs::remove_file(&deleted)?;
    Ok(running)
}

fn spawn(command: &mut Command) -> Result<Running> {
    Ok(Running(command.stdin(Stdio::null()).spawn()?))
}

/// Value profiles of a program.
fn profiles(manager: &Manager, name: &str) -> Result<i64> {
    count(
        manager,
        "SELECT count(*) FROM hotlist JOIN pc ON pc.id = hotlist.pc JOIN image ON image.id = pc.image
         WHERE image.path LIKE '%' || ?1 || '%' AND hotlist.reached > hotlist.unknown",
        name,
    )
}

/// What a query about a name gives of the running epoch.
fn count(manager: &Manager, sql: &str, name: &str) -> Result<i64> {
    let mut files: Vec<_> = fs::read_dir(manager.databases())?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_, std::io::Error>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "db"));
    files.sort();
    let file = files.last().context("there is no database")?;
    let rows = Rows::of(file)?;
    let connection = Connection::open_with_flags(rows.path(), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    Ok(connection.query_row(sql, [name], |row| row.get(0))?)
}
