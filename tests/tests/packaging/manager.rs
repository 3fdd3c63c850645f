//! A systemd of the test's own that gives the service the sandbox of its unit, on this very
//! machine: in a container there would be no BPF, and the machine's own need not be systemd.
//!
//! It runs in a mount namespace where `/run`, the control groups and the table of users are its
//! own; the processes are the machine's.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Result, anyhow};
use tempfile::TempDir;
use vcpi_tests::harness::text;
use vcpi_tests::needs::Missing;
use vcpi_tests::programs::Programs;

use crate::{run, systemd_file};

const SYSTEMD: &str = "/lib/systemd/systemd";
const SOCKET: &str = "/run/manager/vcpi/vcpid.sock";

/// What stands before the manager. `$1`: a folder with the program and its configuration; `$2`: one
/// with the unit, where the service's databases will be; `$3`: the name of the control group.
const SETUP: &str = "
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/systemd/system /run/systemd/inaccessible /run/manager
cd /run/systemd/inaccessible
mkdir -m 000 dir
mkfifo -m 000 fifo sock
touch reg && chmod 000 reg
mknod -m 000 chr c 0 0
mknod -m 000 blk b 0 0
cd /
cp -r \"$1\" /run/programs
for table in passwd group; do
    grep -v ^vcpi: /etc/$table > /run/$table
done
echo 'vcpi:x:64321:64321::/:/usr/sbin/nologin' >> /run/passwd
echo 'vcpi:x:64321:' >> /run/group
mount --bind /run/passwd /etc/passwd
mount --bind /run/group /etc/group
mount -t cgroup2 none /sys/fs/cgroup
mkdir /sys/fs/cgroup/$3
echo $$ > /sys/fs/cgroup/$3/cgroup.procs
export XDG_RUNTIME_DIR=/run/manager XDG_CONFIG_HOME=\"$2\" XDG_STATE_HOME=\"$2\"
exec /lib/systemd/systemd --user --unit=basic.target
";

/// Removes the control group with all that is in it. `$1`: its name.
const CLEANUP: &str = "
mount -t cgroup2 none /sys/fs/cgroup
cd /sys/fs/cgroup/$1
echo 1 > cgroup.kill
for try in 1 2 3 4 5 6 7 8 9; do
    find . -depth -mindepth 1 -type d -exec rmdir {} + && cd .. && rmdir $1 && exit
done
";

/// A running manager.
pub(crate) struct Manager {
    systemd: Child,
    group: String,
    /// Its units, and the service's databases.
    state: TempDir,
}

/// What a manager needs.
pub(crate) fn systemd() -> Result<(), Missing> {
    let cgroups = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !Path::new(SYSTEMD).exists() || !cgroups.contains("cgroup2") {
        return Err(Missing::new("needs systemd and control groups"));
    }
    Ok(())
}

impl Manager {
    /// Starts it, with the service as it would be installed but for paths.
    pub(crate) fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let given = folder.path().join("given");
        // Not in `/tmp`, of which the service has another.
        let state = tempfile::Builder::new()
            .prefix("vcpi-test-")
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in("/var/lib")?;
        prepare(&given, state.path())?;
        let socket = folder.path().join("notify");
        let notified = UnixDatagram::bind(&socket)?;
        notified.set_read_timeout(Some(Duration::from_secs(60)))?;
        let group = format!("vcpi-test-{}", std::process::id());
        let systemd = Command::new("unshare")
            .args(["--mount", "--propagation=private", "sh", "-ec", SETUP, "sh"])
            .arg(&given)
            .arg(state.path())
            .arg(&group)
            .env("NOTIFY_SOCKET", &socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let manager = Self {
            systemd,
            group,
            state,
        };
        let mut message = [0; 4096];
        loop {
            let length = notified.recv(&mut message)?;
            if String::from_utf8_lossy(&message[..length]).contains("READY=1") {
                break;
            }
        }
        // A manager of users takes notifications of its own user only.
        manager.inside(&["chmod", "666", "/run/manager/systemd/notify"])?;
        Ok(manager)
    }

    /// A command that sees the manager's files.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command
            .args(["90", "nsenter", "--mount", "--wd=/", "--target"])
            .arg(self.systemd.id().to_string())
            .arg("--")
            .args(words)
            .env("XDG_RUNTIME_DIR", "/run/manager");
        command
    }

    pub(crate) fn inside(&self, words: &[&str]) -> Result<String> {
        run(&mut self.command(words)).map_err(|error| anyhow!("{error:#}\n{}", self.said()))
    }

    /// `systemctl`
    pub(crate) fn control(&self, words: &[&str]) -> Result<String> {
        self.inside(&[&["systemctl", "--user"], words].concat())
    }

    /// Has the service do something.
    pub(crate) fn ctl(&self, what: &str) -> Result<String> {
        self.inside(&["/run/programs/vcpid", "ctl", what, "--socket", SOCKET])
    }

    /// Where the service's databases are.
    pub(crate) fn databases(&self) -> PathBuf {
        self.state.path().join("vcpi")
    }

    /// What the service has said.
    fn said(&self) -> String {
        let path = format!("/proc/{}/root/run/vcpid.log", self.systemd.id());
        fs::read_to_string(path).unwrap_or_default()
    }
}

/// Puts program and configuration into one folder, the unit into the other.
fn prepare(given: &Path, state: &Path) -> Result<()> {
    fs::create_dir(given)?;
    let programs = Programs::find()?;
    fs::copy(programs.vcpid, given.join("vcpid"))?;
    let unit = fs::read_to_string(systemd_file("vcpid.service"))?;
    let mut lines = Vec::new();
    for line in unit.lines() {
        match line {
            "ExecStart=/usr/bin/vcpid serve" => lines.extend([
                "ExecStart=/run/programs/vcpid serve --config /run/programs/vcpid.toml",
                "StandardError=append:/run/vcpid.log",
            ]),
            // Readers are not what is tested, and only the installed program can be told to reload.
            "Wants=vcpid.socket" | "After=vcpid.socket" | "Also=vcpid.socket" => {}
            line if line.starts_with("ExecReload=") => {}
            line => lines.push(line),
        }
    }
    let units = state.join("systemd/user");
    fs::create_dir_all(&units)?;
    fs::write(units.join("vcpid.service"), lines.join("\n"))?;
    let configuration = format!(
        "access.socket = {SOCKET:?}\ndatabase.directory = {:?}\n\
         sampling.clock = \"cpu-clock\"\n",
        state.join("vcpi")
    );
    fs::write(given.join("vcpid.toml"), configuration)?;
    Ok(())
}

impl Drop for Manager {
    fn drop(&mut self) {
        // Nothing can be done about failures here but to say them.
        let _ = self.control(&["stop", "vcpid.service"]);
        let _ = self.systemd.kill();
        let _ = self.systemd.wait();
        let output = Command::new("unshare")
            .args([
                "--mount",
                "--propagation=private",
                "sh",
                "-c",
                CLEANUP,
                "sh",
            ])
            .arg(&self.group)
            .stdin(Stdio::null())
            .output();
        if let Ok(output) = output
            && !output.status.success()
        {
            eprintln!("control group {} is left: {}", self.group, text(&output));
        }
    }
}
