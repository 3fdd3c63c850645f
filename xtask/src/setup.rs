//! Set-up of a fresh machine: installs the Debian packages of tools that are
//! missing. A tool counts as there if its program or header is, whoever
//! installed it, so that other distributions are served by a clear message.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process::{progress, run as run_command};

/// What is going to be done, from little to much: each needs what comes before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// Building, and what the demo profiles.
    Demo,
    /// Testing and measuring, against perf among others.
    Test,
    /// Recording real programs, and counting exactly what they do.
    Yield,
    /// Trying other kernels under emulation.
    Kernels,
}

/// How to tell that a tool is there.
#[derive(Debug, Clone, Copy)]
enum ToolEvidence {
    /// A program on the search path.
    Program(&'static str),
    /// A header that the C compiler finds.
    Header(&'static str),
    /// A file.
    File(&'static str),
}

/// A tool and the Debian package that holds it.
#[derive(Debug, Clone, Copy)]
struct Tool {
    package: &'static str,
    evidence: ToolEvidence,
    need: Need,
}

const fn tool(package: &'static str, evidence: ToolEvidence, need: Need) -> Tool {
    Tool {
        package,
        evidence,
        need,
    }
}

const TOOLS: &[Tool] = &[
    tool("gcc", ToolEvidence::Program("gcc"), Need::Demo),
    tool("libc6-dev", ToolEvidence::Header("stdio.h"), Need::Demo),
    tool("clang", ToolEvidence::Program("clang"), Need::Demo),
    tool("make", ToolEvidence::Program("make"), Need::Demo),
    tool(
        "pkg-config",
        ToolEvidence::Program("pkg-config"),
        Need::Demo,
    ),
    tool("libelf-dev", ToolEvidence::Header("libelf.h"), Need::Demo),
    tool("zlib1g-dev", ToolEvidence::Header("zlib.h"), Need::Demo),
    tool("binutils", ToolEvidence::Program("ld"), Need::Demo),
    tool("xz-utils", ToolEvidence::Program("xz"), Need::Demo),
    tool("python3", ToolEvidence::Program("python3"), Need::Demo),
    tool("perl-base", ToolEvidence::Program("perl"), Need::Demo),
    tool("sqlite3", ToolEvidence::Program("sqlite3"), Need::Demo),
    tool("openssl", ToolEvidence::Program("openssl"), Need::Demo),
    tool("nodejs", ToolEvidence::Program("node"), Need::Demo),
    tool("util-linux", ToolEvidence::Program("setpriv"), Need::Demo),
    tool("procps", ToolEvidence::Program("ps"), Need::Demo),
    tool("libcap2-bin", ToolEvidence::Program("setcap"), Need::Test),
    tool("linux-perf", ToolEvidence::Program("perf"), Need::Test),
    tool(
        "dpkg-dev",
        ToolEvidence::Program("dpkg-shlibdeps"),
        Need::Test,
    ),
    tool("lintian", ToolEvidence::Program("lintian"), Need::Test),
    tool(
        "systemd-container",
        ToolEvidence::Program("systemd-nspawn"),
        Need::Test,
    ),
    tool(
        "debootstrap",
        ToolEvidence::Program("debootstrap"),
        Need::Test,
    ),
    tool("golang-go", ToolEvidence::Program("go"), Need::Test),
    tool("valgrind", ToolEvidence::Program("valgrind"), Need::Test),
    tool(
        "chromium-headless-shell",
        ToolEvidence::Program("chromium-headless-shell"),
        Need::Test,
    ),
    // The compiler and the tools that profiles are exported for, in one version.
    tool("clang-22", ToolEvidence::Program("clang-22"), Need::Test),
    tool(
        "llvm-22",
        ToolEvidence::Program("llvm-profgen-22"),
        Need::Test,
    ),
    tool("lld-22", ToolEvidence::Program("ld.lld-22"), Need::Test),
    tool("bolt-22", ToolEvidence::Program("llvm-bolt-22"), Need::Test),
    tool(
        "libclang-rt-22-dev",
        ToolEvidence::File("/usr/lib/llvm-22/lib/clang/22/lib/linux/libclang_rt.profile-x86_64.a"),
        Need::Test,
    ),
    tool("git", ToolEvidence::Program("git"), Need::Yield),
    tool("lua5.4", ToolEvidence::Program("lua5.4"), Need::Yield),
    tool("tcc", ToolEvidence::Program("tcc"), Need::Yield),
    tool("povray", ToolEvidence::Program("povray"), Need::Yield),
    tool("tcl", ToolEvidence::Program("tclsh"), Need::Yield),
    tool(
        "qemu-system-x86",
        ToolEvidence::Program("qemu-system-x86_64"),
        Need::Kernels,
    ),
    tool(
        "busybox-static",
        ToolEvidence::Program("busybox"),
        Need::Kernels,
    ),
    tool("cpio", ToolEvidence::Program("cpio"), Need::Kernels),
];

/// Installs what is missing for `need`; prints what it does.
///
/// # Errors
/// If something is missing and cannot be installed; the message names the
/// packages and the command that would install them.
pub(crate) fn run(need: Need) -> Result<()> {
    progress("checking that the needed tools are there");
    let packages = missing(need, is_there);
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    progress(&format!("missing: {list}"));
    if !on_path("apt-get") {
        bail!(
            "missing tools; this machine has no apt-get: please install what your \
             distribution calls {list}, then try again"
        );
    }
    let prefix = privilege().with_context(|| {
        format!(
            "missing packages: {list}\nThis user may not install them. As root, run\n    \
             apt-get update && apt-get install -y --no-install-recommends {list}\nthen try again"
        )
    })?;
    update()?;
    let mut args = vec!["install", "-y", "-q", "--no-install-recommends"];
    args.extend(&packages);
    run_command(&mut apt_get(prefix, &args))?;
    let still = missing(need, is_there);
    if !still.is_empty() {
        bail!(
            "still missing after their packages were installed: {}",
            still.join(" ")
        );
    }
    Ok(())
}

/// Has apt learn what packages there are.
///
/// # Errors
/// What fails.
pub(crate) fn update() -> Result<()> {
    let prefix = privilege().context("apt-get update cannot be run")?;
    run_command(&mut apt_get(prefix, &["update", "-q"]))
}

/// The packages of the tools that `is_there` does not find.
fn missing(need: Need, is_there: impl Fn(ToolEvidence) -> bool) -> Vec<&'static str> {
    TOOLS
        .iter()
        .filter(|tool| tool.need <= need && !is_there(tool.evidence))
        .map(|tool| tool.package)
        .collect()
}

fn is_there(evidence: ToolEvidence) -> bool {
    match evidence {
        ToolEvidence::Program(name) => on_path(name),
        ToolEvidence::File(path) => Path::new(path).is_file(),
        ToolEvidence::Header(name) => {
            let folders = [
                "/usr/include",
                "/usr/local/include",
                "/usr/include/x86_64-linux-gnu",
            ];
            folders
                .iter()
                .any(|folder| Path::new(folder).join(name).is_file())
        }
    }
}

/// Whether a program is on the search path, or where only root has a search path to.
fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(Into::into))
        .any(|folder| folder.join(name).is_file())
}

/// What to put before a command that needs root: nothing for root, `sudo` where
/// it asks for no password.
fn privilege() -> Result<&'static [&'static str]> {
    if nix::unistd::geteuid().is_root() {
        return Ok(&[]);
    }
    let sudo = Command::new("sudo")
        .args(["-n", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match sudo {
        Ok(status) if status.success() => Ok(&["sudo", "-n"]),
        Ok(_) => bail!("sudo asks for a password"),
        Err(_) => bail!("not root, and no sudo here"),
    }
}

/// `apt-get` that asks no questions, as root where that may be.
///
/// # Errors
/// If it may not.
pub(crate) fn apt(args: &[&str]) -> Result<Command> {
    let prefix = privilege().context("apt-get cannot be run as root")?;
    Ok(apt_get(prefix, args))
}

/// `apt-get` that asks no questions.
fn apt_get(prefix: &[&str], args: &[&str]) -> Command {
    let words: Vec<&str> = prefix
        .iter()
        .chain(&["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"])
        .chain(args)
        .copied()
        .collect();
    let mut command = Command::new(words.first().copied().unwrap_or("env"));
    command
        .args(words.get(1..).unwrap_or_default())
        .stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The demo does without perf; nothing is asked for twice.
    #[test]
    fn packages_by_need() {
        let nothing_there = |_: ToolEvidence| false;
        let demo = missing(Need::Demo, nothing_there);
        let test = missing(Need::Test, nothing_there);
        assert!(demo.contains(&"gcc") && !demo.contains(&"linux-perf"));
        assert!(demo.iter().all(|package| test.contains(package)));
        assert!(test.contains(&"linux-perf") && test.contains(&"debootstrap"));
        let distinct: std::collections::BTreeSet<_> = test.iter().collect();
        assert_eq!(distinct.len(), test.len());
    }

    /// A tool that is there is not asked for, whichever package it came with.
    #[test]
    fn present_tools_are_left_alone() {
        let all_but_headers = |evidence| !matches!(evidence, ToolEvidence::Header(_));
        assert_eq!(
            missing(Need::Test, all_but_headers),
            ["libc6-dev", "libelf-dev", "zlib1g-dev"]
        );
        assert!(missing(Need::Test, |_| true).is_empty());
    }

    /// The command that installs asks nothing, and goes through sudo only where told.
    #[test]
    fn apt_get_command() {
        let plain = apt_get(&[], &["update"]);
        assert_eq!(plain.get_program(), "env");
        let through_sudo = apt_get(&["sudo", "-n"], &["update"]);
        assert_eq!(through_sudo.get_program(), "sudo");
        assert_eq!(
            crate::process::shown(&through_sudo),
            "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get update"
        );
    }
}
