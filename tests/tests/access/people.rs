//! Programs of several users, each with a key of its own.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use profiledb::Profile;
use protocol::{Client, Selection};
use vcpi_tests::harness::text;

use crate::reader::{Reader, profile_of};
use crate::service::Service;

/// How long samples may take to arrive.
const PATIENCE: Duration = Duration::from_secs(240);

/// What the library's key is masked with.
pub(crate) const MASK: u64 = 0x3c3c_a5a5_3c3c_a5a5;

/// A program that ran.
pub(crate) struct Person {
    /// Its file, by which its rows are known.
    pub(crate) name: String,
    /// The key it worked with.
    pub(crate) key: u64,
    child: Child,
}

impl Person {
    /// Waits until it has done what it was asked to.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let output = self.child.stdout.take().context("no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line == "done\n" {
            Ok(())
        } else {
            bail!("{}: {:?}", self.name, self.child.wait()?)
        }
    }
}

/// The names of those whose keys are among the values of a profile.
pub(crate) fn keys<'p>(
    profile: &Profile,
    people: impl IntoIterator<Item = &'p Person>,
) -> BTreeSet<&'p str> {
    let lists = profile.hotlists.iter();
    let values: BTreeSet<u64> = lists
        .flat_map(|row| row.list.tuples())
        .map(|tuple| tuple.value)
        .collect();
    let people = people.into_iter();
    people
        .filter(|person| values.contains(&person.key))
        .map(|person| person.name.as_str())
        .collect()
}

impl Drop for Person {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The programs of a test, built from one source.
pub(crate) struct People<'s> {
    service: &'s Service,
    next_key: u64,
}

impl<'s> People<'s> {
    /// Builds the program and its library.
    pub(crate) fn new(service: &'s Service) -> Result<People<'s>> {
        let source = |name: &str| {
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/access")
                .join(name)
        };
        let library = service.path("libcrypto-of-the-test.so");
        compile(
            Command::new("gcc")
                .args([
                    "-O1",
                    "-shared",
                    "-fPIC",
                    &format!("-DMASK={MASK:#x}ul"),
                    "-o",
                ])
                .arg(&library)
                .arg(source("library.c")),
        )?;
        compile(
            Command::new("gcc")
                .args(["-O1", "-o"])
                .arg(service.path("person"))
                .arg(source("person.c"))
                .arg(&library)
                .arg(format!("-Wl,-rpath,{}", service.path("").display())),
        )?;
        Ok(People {
            service,
            // Nothing else has such numbers, and they take eight bytes in a database.
            next_key: 0x5ec2_e7a1_b0b5_0001 ^ u64::from(std::process::id()) << 16,
        })
    }

    /// A copy of the program under a name of its own, with a mode.
    pub(crate) fn program(&self, name: &str, mode: u32) -> Result<PathBuf> {
        let path = self.service.path(name);
        fs::copy(self.service.path("person"), &path)?;
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        Ok(path)
    }

    /// As [`People::program`], belonging to `uid`.
    pub(crate) fn program_of(&self, name: &str, mode: u32, uid: u32) -> Result<PathBuf> {
        let path = self.program(name, 0o600)?;
        chown(&path, Some(uid), Some(uid))?;
        // A change of the owner takes the set-uid bit away.
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        Ok(path)
    }

    /// Waits until everything that was sampled up to now is in the database. Samples are taken in
    /// by their time, so this is so when one is there of a program that started only now.
    pub(crate) fn settle(&mut self) -> Result<()> {
        let program = self.program("marker", 0o755)?;
        let mut marker = self.start(&program, 0, &["burn=100"])?;
        marker.finish()?;
        let deadline = Instant::now() + PATIENCE;
        let of_marker = Selection {
            pids: vec![marker.child.id()],
            ..Selection::default()
        };
        while Instant::now() < deadline {
            self.service.flush()?;
            let mut view = Vec::new();
            let client = Client::connect(&self.service.socket())?;
            client.view(of_marker.clone(), &mut view)?;
            if !profile_of(&view)?.cycles.is_empty() {
                return Ok(());
            }
        }
        bail!("samples do not arrive: {}", self.service.journal())
    }

    /// Has the service write until the keys of these are among the values. Values come with
    /// windows, of which short ones behind stalls are refused.
    pub(crate) fn until_known(&self, all: &[&Person]) -> Result<()> {
        let of_theirs = Selection {
            images: all.iter().map(|person| person.name.clone()).collect(),
            ..Selection::default()
        };
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            self.service.flush()?;
            let profile = Reader::user(0).profile(self.service, of_theirs.clone())?;
            if keys(&profile, all.iter().copied()).len() == all.len() {
                return Ok(());
            }
        }
        bail!("values do not arrive: {}", self.service.journal())
    }

    /// Starts a program as a user with a new key; `steps` follow it.
    pub(crate) fn start(&mut self, program: &Path, uid: u32, steps: &[&str]) -> Result<Person> {
        let key = self.next_key;
        self.next_key += 1;
        let mut command = match uid {
            0 => Command::new(program),
            uid => Reader::user(uid).command(program),
        };
        let child = command
            .arg(format!("key={key:x}"))
            .args(steps)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let name = program.file_name().unwrap_or_default();
        Ok(Person {
            name: name.to_string_lossy().into_owned(),
            key,
            child,
        })
    }
}

fn compile(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    if output.status.success() {
        Ok(())
    } else {
        bail!(text(&output))
    }
}
