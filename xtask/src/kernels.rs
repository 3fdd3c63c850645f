//! `cargo xtask kernels`: whether the handler loads and samples on other kernels than this
//! machine's.
//!
//! A kernel is booted under emulation, with both programs and `xz` in its initial file system and
//! nothing else: `xz` is recorded by each clock. What the guest has to say comes back over the
//! serial line.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use vcpi_tests::programs::{Programs, target_dir};

use crate::process::{progress, run as run_command};
use crate::setup::{self, Need};
use crate::test::build;

/// The package that stands for Debian's newest kernel for virtual machines.
const NEWEST: &str = "linux-image-cloud-amd64";
/// What is profiled, and on what it works.
const PROFILED: &str = "/usr/bin/xz";
const DATA: &str = "/usr/bin/perl";
const CLOCKS: [&str; 2] = ["cpu-clock", "timer"];
/// What the guest puts before each line that is meant for us.
const MARK: &str = "vcpi-guest ";
/// Seconds until the guest is given up.
const PATIENCE: &str = "300";
/// Share of user samples whose caller must be known.
const CALLERS: f64 = 0.9;

/// Boots each of these kernels (files as of /boot/vmlinuz), or Debian's newest for this release.
///
/// # Errors
/// What fails, and a kernel on which the engine `bpf` does not load or brings nothing.
pub(crate) fn run(images: &[PathBuf]) -> Result<()> {
    setup::run(Need::Kernels)?;
    let images = match images {
        [] => vec![newest(&folder()?)?],
        images => images.to_vec(),
    };
    try_each(&images)
}

/// The same for Debian's newest, where it and an emulator can be had; else says why it is skipped.
///
/// # Errors
/// As there.
pub(crate) fn run_where_possible() -> Result<()> {
    match setup::run(Need::Kernels).and_then(|()| newest(&folder()?)) {
        Ok(image) => try_each(&[image]),
        Err(error) => {
            println!("skipped: the handler on another kernel: {error:#}");
            Ok(())
        }
    }
}

fn folder() -> Result<PathBuf> {
    let folder = target_dir()?.join("kernels");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}

fn try_each(images: &[PathBuf]) -> Result<()> {
    build()?;
    let initial = initial_files(&folder()?)?;
    for image in images {
        progress(&format!("booting {}", image.display()));
        let said = boot(image, &initial)?;
        judge(&said).with_context(|| format!("{} says:\n{said}", image.display()))?;
    }
    Ok(())
}

/// The kernel of Debian's newest package, which is not installed for that.
fn newest(folder: &Path) -> Result<PathBuf> {
    let package = match newest_version()? {
        Some(package) => package,
        // A machine may be without the lists of what there is.
        None => {
            setup::update()?;
            newest_version()?.with_context(|| {
                format!(
                    "there is no package {NEWEST} here: name kernels (as /boot/vmlinuz) to be tried"
                )
            })?
        }
    };
    let name = format!("linux-image-{package}");
    let unpacked = folder.join(&name);
    let image = unpacked.join("boot").join(format!("vmlinuz-{package}"));
    if image.is_file() {
        return Ok(image);
    }
    let mut download = Command::new("apt-get");
    run_command(download.args(["download", "-q", &name]).current_dir(folder))?;
    let archive = fs::read_dir(folder)
        .with_context(|| format!("reading {}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            file.starts_with(&format!("{name}_")) && file.ends_with(".deb")
        })
        .with_context(|| format!("apt-get left no {name} in {}", folder.display()))?;
    let mut unpack = Command::new("dpkg-deb");
    run_command(unpack.arg("-x").arg(&archive).arg(&unpacked))?;
    Ok(image)
}

/// What the newest one is called behind `linux-image-`, as far as this machine knows.
fn newest_version() -> Result<Option<String>> {
    let depends = Command::new("apt-cache")
        .args(["depends", NEWEST])
        .output()
        .context("running apt-cache")?;
    let depends = String::from_utf8_lossy(&depends.stdout);
    let mut lines = depends.lines();
    let version = lines.find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
    Ok(version.map(str::to_owned))
}

/// An archive of all that a guest needs.
fn initial_files(folder: &Path) -> Result<PathBuf> {
    let root = folder.join("root");
    if root.is_dir() {
        fs::remove_dir_all(&root).with_context(|| format!("removing {}", root.display()))?;
    }
    for name in ["bin", "proc", "sys", "dev", "tmp"] {
        let path = root.join(name);
        fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
    }
    let programs = Programs::find()?;
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].map(Path::new);
    let busybox = busybox.into_iter().find(|path| path.is_file());
    put(
        busybox.context("there is no busybox")?,
        &root,
        "bin/busybox",
    )?;
    put(&programs.vcpid, &root, "bin/vcpid")?;
    put(&programs.vcpi, &root, "bin/vcpi")?;
    put(Path::new(PROFILED), &root, "bin/xz")?;
    put(Path::new(DATA), &root, "data")?;
    for program in [&programs.vcpid, &programs.vcpi, Path::new(PROFILED)] {
        for library in libraries(program)? {
            let within = library.trim_start_matches('/');
            put(Path::new(&library), &root, within)?;
        }
    }
    let init = root.join("init");
    fs::write(&init, guest()).context("writing the guest's script")?;
    fs::set_permissions(&init, Permissions::from_mode(0o755)).context("naming it a program")?;
    let archive = folder.join("initial.cpio");
    let output = File::create(&archive).context("creating the archive")?;
    let mut names = Command::new("find");
    let mut names = names
        .arg(".")
        .current_dir(&root)
        .stdout(Stdio::piped())
        .spawn()
        .context("running find")?;
    let mut pack = Command::new("cpio");
    pack.args(["--quiet", "-o", "-H", "newc"])
        .current_dir(&root)
        .stdin(names.stdout.take().context("find has no output")?)
        .stdout(output);
    run_command(&mut pack)?;
    names.wait().context("waiting for find")?;
    Ok(archive)
}

fn put(file: &Path, root: &Path, name: &str) -> Result<()> {
    let to = root.join(name);
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    }
    fs::copy(file, &to)
        .map(drop)
        .with_context(|| format!("copying {}", file.display()))
}

/// What the program is linked against, and its loader.
fn libraries(program: &Path) -> Result<Vec<String>> {
    let output = Command::new("ldd")
        .arg(program)
        .output()
        .context("running ldd")?;
    Ok(paths(&String::from_utf8_lossy(&output.stdout)))
}

/// The files that ldd names.
fn paths(ldd: &str) -> Vec<String> {
    let words = ldd.lines().filter_map(|line| {
        line.split_ascii_whitespace()
            .find(|word| word.starts_with('/'))
    });
    words.map(str::to_owned).collect()
}

/// The guest's first and only program.
fn guest() -> String {
    let mut script = format!(
        "#!/bin/busybox sh\n\
         export PATH=/bin\n\
         busybox mount -t proc proc /proc; busybox mount -t sysfs sys /sys\n\
         busybox mount -t devtmpfs dev /dev; busybox mount -t tmpfs tmp /tmp\n\
         say() {{ echo \"{MARK}$1 $(busybox tr -d '\\n')\"; }}\n\
         busybox uname -r | say kernel\n"
    );
    for clock in CLOCKS {
        script += &format!(
            "vcpid record -q --engine bpf --clock {clock} --rate 1000 -d 8 -o /tmp/{clock} \
             -- xz -9kc /data 2>&1 >/dev/null | say said-{clock}\n\
             vcpi status -i /tmp/{clock} --format json 2>/dev/null | say {clock}\n"
        );
    }
    script + "busybox poweroff -f\n"
}

/// What the guest said. One processor is emulated at a time, since emulated ones do not see each
/// other's changes of code in time: kernels die of it.
fn boot(image: &Path, initial: &Path) -> Result<String> {
    let mut guest = Command::new("timeout");
    guest.args([
        PATIENCE,
        "qemu-system-x86_64",
        "-accel",
        "tcg,thread=single",
    ]);
    guest.args([
        "-cpu",
        "max,la57=off",
        "-smp",
        "2",
        "-m",
        "2G",
        "-nographic",
        "-no-reboot",
    ]);
    guest.args([
        "-append",
        "console=ttyS0 quiet loglevel=1 panic=-1 rdinit=/init",
    ]);
    guest.arg("-kernel").arg(image).arg("-initrd").arg(initial);
    guest.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = guest.output().context("running qemu-system-x86_64")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let said = text.lines().filter_map(|line| line.split_once(MARK));
    Ok(said
        .map(|(_, said)| format!("{}\n", said.trim_end()))
        .collect())
}

/// Prints what was seen.
fn judge(said: &str) -> Result<()> {
    let of = |name: &str| {
        said.lines()
            .map(|line| line.split_once(' ').unwrap_or((line, "")))
            .find(|(of, _)| *of == name)
            .map(|(_, text)| text)
            .with_context(|| format!("the guest ended before its {name}"))
    };
    println!("Linux {}", of("kernel")?);
    for clock in CLOCKS {
        let complaint = of(&format!("said-{clock}"))?;
        let status: Value = serde_json::from_str(of(clock)?)
            .with_context(|| format!("nothing was recorded by {clock}: {complaint}"))?;
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let coverage = &status["coverage"]["counts"];
        let user = number(&coverage["user_samples"]);
        let callers = number(&coverage["user_samples_with_caller"]) / user;
        let destinations = number(&coverage["user_destinations_known"]) / user;
        let loads = number(&coverage["loads_captured"]) / number(&coverage["loads_reached"]);
        let lost = status["lost"].as_object().context("no losses")?;
        println!(
            "{clock}: {} samples, {} values; of user samples {:.1} % with a caller, {destinations:.1} \
             destinations each; {:.1} % of loads captured; {} lost",
            status["samples"],
            status["value_events"],
            100.0 * callers,
            100.0 * loads,
            lost.values().map(number).sum::<f64>(),
        );
        let is_enough = callers >= CALLERS && loads > 0.0;
        if !is_enough {
            bail!("too little by {clock}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of what ldd says, the files, whether or not they are found by a name.
    #[test]
    fn files_of_ldd() {
        let ldd = "\tlinux-vdso.so.1 (0x00007f21424e1000)\n\
                   \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f21418d9000)\n\
                   \t/lib64/ld-linux-x86-64.so.2 (0x00007f21424e3000)\n";
        let files = [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/ld-linux-x86-64.so.2",
        ];
        assert_eq!(paths(ldd), files);
    }

    /// A guest that died says what it lacks.
    #[test]
    fn guest_that_died() {
        let error = judge("kernel 6.1.0\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the guest ended before its said-cpu-clock"
        );
    }
}
