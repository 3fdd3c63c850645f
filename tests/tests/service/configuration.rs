//! Configurations.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Result, ensure};
use serde_json::Value;
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::as_root;

use crate::bench::Bench;

/// Runs a command of vcpid with a configuration.
fn run(bench: &Bench, command: &str, configuration: &Path) -> io::Result<Output> {
    Command::new(&bench.programs.vcpid)
        .args([command, "--config"])
        .arg(configuration)
        .output()
}

pub(crate) const DEFAULT_FILE: Test = test(
    "the default configuration is printed, and good",
    default_file,
    &[],
);
/// What is printed as the default can be used as it is.
fn default_file() -> Result<()> {
    let bench = Bench::new()?;
    let printed = Command::new(&bench.programs.vcpid)
        .args(["serve", "--print-config"])
        .output()?;
    ensure!(printed.status.success(), text(&printed));
    fs::write(bench.path("default"), &printed.stdout)?;
    let checked = run(&bench, "check", &bench.path("default"))?;
    ensure!(checked.status.success(), text(&checked));
    Ok(())
}

pub(crate) const WRONG: Test = test("a wrong configuration is refused with its line", wrong, &[]);
/// `check --config` and `serve` name the line and the reason; `serve` ends with the status by which
/// a service manager knows that a restart mends nothing.
fn wrong() -> Result<()> {
    let bench = Bench::new()?;
    let path = bench.path("vcpid.toml");
    for (contents, complaint) in [
        ("[sampling]\n\nrte = 5\n", ":3:1: unknown field `rte`"),
        (
            "[sampling]\nrate = 0\n",
            ":2:8: 0 is not between 1 and 100000",
        ),
        (
            "[sampling]\nengine = \"ring\"\nclock = \"timer\"\n",
            ":3:9: the clock timer needs the engine bpf",
        ),
        (
            "[sampling]\nbounce = \"step\"\n",
            ":2:10: the service does not step programs",
        ),
        (
            "[database]\ndirectory = \"x\"\n",
            ":2:13: \"x\" does not begin with '/'",
        ),
    ] {
        fs::write(&path, contents)?;
        for (command, status) in [("check", 1), ("serve", 78)] {
            let output = run(&bench, command, &path)?;
            ensure!(output.status.code() == Some(status), text(&output));
            ensure!(text(&output).contains(complaint), text(&output));
        }
    }
    for (command, status) in [("check", 1), ("serve", 78)] {
        let missing = run(&bench, command, &bench.path("missing"))?;
        ensure!(missing.status.code() == Some(status), text(&missing));
        let reasons = text(&missing).matches("os error 2").count();
        ensure!(reasons == 1, text(&missing));
    }
    Ok(())
}

pub(crate) const WRONG_PLACES: Test = test(
    "a configuration whose places are wrong is said to be",
    wrong_places,
    &[as_root],
);
/// `check --config` and `serve` say of a directory that cannot be used what it is and what would
/// mend it; what the service makes, or does without, is only said.
fn wrong_places() -> Result<()> {
    let bench = Bench::new()?;
    let file = bench.path("file");
    fs::write(&file, "mine")?;
    let anothers = bench.path("another's");
    fs::create_dir(&anothers)?;
    fs::set_permissions(&anothers, fs::Permissions::from_mode(0o700))?;
    std::os::unix::fs::chown(&anothers, Some(65_534), None)?;
    for (place, parts) in [
        (&file, ["is a file", "directory of their own"]),
        (&anothers, ["belongs to nobody", "`chown "]),
    ] {
        let configuration = bench.configure_in(place, "")?;
        for (command, status) in [("check", 1), ("serve", 125)] {
            let output = run(&bench, command, &configuration)?;
            ensure!(output.status.code() == Some(status), text(&output));
            for part in parts {
                ensure!(text(&output).contains(part), text(&output));
            }
        }
    }
    ensure!(fs::read(&file)? == b"mine", "it was written to");
    for place in ["/proc/x", "/sys/x/y"] {
        let configuration = bench.configure_in(Path::new(place), "")?;
        for (command, status) in [("check", 1), ("serve", 125)] {
            let output = run(&bench, command, &configuration)?;
            ensure!(output.status.code() == Some(status), text(&output));
            ensure!(
                text(&output).contains("file system of the kernel's own"),
                text(&output)
            );
        }
        let output = run(&bench, "check", &configuration)?;
        ensure!(text(&output).contains("vcpid.toml:3:22: /"), text(&output));
    }
    let configuration = bench.configure("access.group = \"no-such-group\"")?;
    let output = run(&bench, "check", &configuration)?;
    ensure!(output.status.success(), text(&output));
    for part in ["is not there yet", "no group no-such-group", "good"] {
        ensure!(text(&output).contains(part), text(&output));
    }
    Ok(())
}

pub(crate) const WRONG_SOCKETS: Test = test(
    "a place where no socket can be is refused",
    wrong_sockets,
    &[],
);
/// `check --config` and `serve` say that no socket can be where one is wanted.
fn wrong_sockets() -> Result<()> {
    let bench = Bench::new()?;
    let file = bench.path("file");
    fs::write(&file, "mine")?;
    let configuration = bench.path("vcpid.toml");
    for (socket, part) in [(file, "file"), (bench.path(&"x".repeat(200)), "SUN_LEN")] {
        let text_of = format!(
            "database.directory = {:?}\naccess.socket = {socket:?}\n",
            bench.directory()
        );
        fs::write(&configuration, text_of)?;
        for (command, status) in [("check", 1), ("serve", 125)] {
            let output = run(&bench, command, &configuration)?;
            ensure!(output.status.code() == Some(status), text(&output));
            ensure!(text(&output).contains(part), text(&output));
        }
    }
    Ok(())
}

pub(crate) const REFUSED_DIRECTORIES: Test =
    test("another's directory is refused", refused_directories, &[]);
/// A directory that others may get into is left as it is.
fn refused_directories() -> Result<()> {
    let bench = Bench::new()?;
    let open = bench.path("open");
    fs::create_dir(&open)?;
    fs::set_permissions(&open, fs::Permissions::from_mode(0o1777))?;
    let configuration = bench.configure_in(&open, "")?;
    let output = run(&bench, "serve", &configuration)?;
    ensure!(output.status.code() == Some(125), text(&output));
    ensure!(
        text(&output).contains("others may get into it"),
        text(&output)
    );
    ensure!(fs::read_dir(&open)?.next().is_none(), "it was written to");
    let mode = fs::metadata(&open)?.permissions().mode();
    ensure!(mode & 0o7777 == 0o1777, "mode {mode:o}");
    Ok(())
}

pub(crate) const AS_JSON: Test = test("a configuration is judged for programs, too", as_json, &[]);
/// `check --config` says the same as JSON: what is good with what is to be said of it, and what is
/// wrong with its reason, which is said to people, too.
fn as_json() -> Result<()> {
    let bench = Bench::new()?;
    let check = |configuration: &Path| -> Result<(Output, Value)> {
        let output = Command::new(&bench.programs.vcpid)
            .args(["check", "--format", "json", "--config"])
            .arg(configuration)
            .output()?;
        let said = serde_json::from_slice(&output.stdout)?;
        Ok((output, said))
    };
    let (output, said) = check(&bench.configure("access.group = \"no-such-group\"")?)?;
    let warnings = said["warnings"].as_array().map_or(0, Vec::len);
    ensure!(
        output.status.success() && said["good"] == true && warnings == 2,
        text(&output)
    );
    for (more, part) in [
        ("sampling.rate = -1", ":5:17:"),
        ("rte = 1", ":5:1:"),
        ("access.socket = \"/a/b\"", ": duplicate key"),
    ] {
        let configuration = bench.configure(more)?;
        let (output, said) = check(&configuration)?;
        ensure!(
            output.status.code() == Some(1)
                && said["good"] == false
                && said["error"].as_str().is_some_and(|why| why.contains(part))
                && String::from_utf8_lossy(&output.stderr).contains(part),
            text(&output)
        );
    }
    Ok(())
}

pub(crate) const EXPOSED_SOCKETS: Test = test(
    "a place where others could put a socket is refused",
    exposed_sockets,
    &[as_root],
);
/// A socket in a directory in which others could put one of theirs is refused, sticky or not, and
/// so is one that is reached through another user's directory; one below a sticky directory is not.
fn exposed_sockets() -> Result<()> {
    let bench = Bench::new()?;
    let make = |name: &str, mode: u32, owner: u32| -> Result<PathBuf> {
        let folder = bench.path(name);
        fs::create_dir(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode))?;
        std::os::unix::fs::chown(&folder, Some(owner), None)?;
        Ok(folder)
    };
    let open = make("open", 0o777, 0)?;
    let group = make("group", 0o775, 0)?;
    let sticky = make("sticky", 0o1777, 0)?;
    let anothers = make("another's", 0o755, 65_534)?;
    let link = bench.path("link");
    std::os::unix::fs::symlink(&anothers, &link)?;
    let configuration = bench.path("vcpid.toml");
    let configure = |socket: &Path| {
        let directory = bench.directory();
        let text = format!("database.directory = {directory:?}\naccess.socket = {socket:?}\n");
        fs::write(&configuration, text)
    };
    for (socket, part) in [
        (open.join("socket"), "has mode 777"),
        (group.join("socket"), "has mode 775"),
        (sticky.join("socket"), "has mode 1777"),
        (open.join("new/socket"), "has mode 777"),
        (anothers.join("socket"), "belongs to nobody"),
        (link.join("new/socket"), "belongs to nobody"),
    ] {
        configure(&socket)?;
        for (command, status) in [("check", 1), ("serve", 125)] {
            let output = run(&bench, command, &configuration)?;
            ensure!(output.status.code() == Some(status), text(&output));
            ensure!(text(&output).contains(part), text(&output));
        }
    }
    ensure!(!open.join("new").exists(), "it was made");
    configure(&sticky.join("new/socket"))?;
    let output = run(&bench, "check", &configuration)?;
    ensure!(output.status.success(), text(&output));
    Ok(())
}

pub(crate) const AS_NOBODY: Test = test(
    "who may not sample the machine is told what to do",
    as_nobody,
    &[as_root],
);
/// Whoever may not sample the machine is told so before anything else, with what is to be done.
fn as_nobody() -> Result<()> {
    let bench = Bench::new()?;
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(bench.path(""), open)?;
    let configuration = bench.configure("")?;
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&bench.programs.vcpid)
        .args(["serve", "--config"])
        .arg(&configuration)
        .output()?;
    ensure!(output.status.code() == Some(125), text(&output));
    for part in ["needs root or CAP_PERFMON", "systemctl start vcpid"] {
        ensure!(text(&output).contains(part), text(&output));
    }
    ensure!(!text(&output).contains("chown"), text(&output));
    Ok(())
}
