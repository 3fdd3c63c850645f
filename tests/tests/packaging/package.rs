//! What is in the Debian package.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;
use vcpi_tests::harness::{Test, test};
use vcpi_tests::programs::Programs;

use crate::{package_file, run};

/// The package's files, and its scripts in the folder `DEBIAN`.
fn unpacked() -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    run(Command::new("dpkg-deb")
        .arg("-R")
        .arg(package_file()?)
        .arg(folder.path()))?;
    Ok(folder)
}

pub(crate) const CONTENTS: Test = test(
    "the package has what it should, and nothing is writable",
    contents,
    &[],
);
/// Programs, units, configuration, and a licence; only the programs can be executed.
fn contents() -> Result<()> {
    let folder = unpacked()?;
    let modes = [
        ("usr/bin/vcpid", 0o755),
        ("usr/bin/vcpi", 0o755),
        ("usr/lib/x86_64-linux-gnu/vcpi/libvcpi_sqlite.so", 0o644),
        ("etc/vcpi/vcpid.toml", 0o644),
        ("usr/lib/systemd/system/vcpid.service", 0o644),
        ("usr/lib/systemd/system/vcpid.socket", 0o644),
        ("usr/lib/sysusers.d/vcpi.conf", 0o644),
        ("usr/lib/tmpfiles.d/vcpi.conf", 0o644),
        ("usr/share/doc/vcpi/copyright", 0o644),
        ("usr/share/doc/vcpi/changelog.Debian.gz", 0o644),
        ("DEBIAN/postinst", 0o755),
        ("DEBIAN/prerm", 0o755),
        ("DEBIAN/postrm", 0o755),
    ];
    for (path, mode) in modes {
        let metadata = folder.path().join(path).metadata();
        let metadata = metadata.context(path)?;
        let found = metadata.permissions().mode() & 0o7777;
        ensure!(found == mode, "{path}: mode {found:o}");
    }
    for script in ["postinst", "prerm", "postrm"] {
        run(Command::new("sh")
            .arg("-n")
            .arg(folder.path().join("DEBIAN").join(script)))?;
    }
    let control = fs::read_to_string(folder.path().join("DEBIAN/control"))?;
    for needed in ["Package: vcpi\n", "libc6", "libelf1", "systemd"] {
        ensure!(control.contains(needed), "no {needed:?} in\n{control}");
    }
    Ok(())
}

pub(crate) const CHECKED: Test = test("lintian finds no error in the package", checked, &[]);
/// Debian's own check of packages finds no error.
fn checked() -> Result<()> {
    let mut lintian = Command::new("lintian");
    run(lintian
        .args(["--allow-root", "--fail-on", "error"])
        .arg(package_file()?))?;
    Ok(())
}

pub(crate) const MANUAL: Test = test("each command has its manual page", manual, &[]);
/// A page for each program, each of its commands and each of theirs, and none for what is hidden.
fn manual() -> Result<()> {
    let folder = unpacked()?;
    let mut pages = BTreeSet::new();
    for entry in fs::read_dir(folder.path().join("usr/share/man/man1"))? {
        pages.insert(entry?.file_name().to_string_lossy().into_owned());
    }
    let programs = Programs::find()?;
    for (name, program) in [("vcpid", programs.vcpid), ("vcpi", programs.vcpi)] {
        let help = run(Command::new(&program).arg("--help"))?;
        let mut expected = vec![format!("{name}.1.gz")];
        for command in commands(&help) {
            let of_command = run(Command::new(&program).args([command, "--help"]))?;
            for kind in commands(&of_command) {
                expected.push(format!("{name}-{command}-{kind}.1.gz"));
            }
            expected.push(format!("{name}-{command}.1.gz"));
        }
        ensure!(expected.len() > 4, "{help}");
        for page in expected {
            ensure!(pages.remove(&page), "no {page}");
        }
    }
    ensure!(pages.is_empty(), "more pages: {pages:?}");
    Ok(())
}

/// The commands that a program's help lists.
fn commands(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    lines
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .collect()
}

pub(crate) const CONFIGURATION: Test = test(
    "the configuration is the default one, and kept",
    configuration,
    &[],
);
/// What an administrator changes stays, and what is installed first is what the program says.
fn configuration() -> Result<()> {
    let folder = unpacked()?;
    let kept = fs::read_to_string(folder.path().join("DEBIAN/conffiles"))?;
    ensure!(kept.trim() == "/etc/vcpi/vcpid.toml", "{kept}");
    let printed = run(Command::new(Programs::find()?.vcpid).args(["serve", "--print-config"]))?;
    let installed = fs::read_to_string(folder.path().join("etc/vcpi/vcpid.toml"))?;
    ensure!(
        printed == installed,
        "the installed configuration is another than the default"
    );
    Ok(())
}

pub(crate) const COMPLETIONS: Test = test("completions are good shell", completions, &[]);
/// The completions are there for three shells; bash, which is on every machine, can read its own.
fn completions() -> Result<()> {
    let folder = unpacked()?;
    let shares = [
        "bash-completion/completions/vcpid",
        "bash-completion/completions/vcpi",
        "zsh/vendor-completions/_vcpid",
        "zsh/vendor-completions/_vcpi",
        "fish/vendor_completions.d/vcpid.fish",
        "fish/vendor_completions.d/vcpi.fish",
    ];
    for share in shares {
        let path = folder.path().join("usr/share").join(share);
        let text = fs::read_to_string(&path).context(share)?;
        let hidden = text.contains("__document") || text.contains("__exec");
        ensure!(text.contains("status") && !hidden, "{share}:\n{text}");
        if share.starts_with("bash") {
            run(Command::new("bash").arg("-n").arg(Path::new(&path)))?;
        }
    }
    Ok(())
}
