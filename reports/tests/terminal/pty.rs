//! A pseudo terminal, what runs on it, and the screen as a person sees it.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::common::Fixture;

/// Whoever says nothing for so long hangs. It only ends a test that has failed.
const PATIENCE_MS: u16 = 60_000;

/// A program on a terminal of its own.
pub(crate) struct Terminal {
    ours: File,
    parser: vt100::Parser,
    /// All that was written to it.
    written: Vec<u8>,
    child: Child,
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

fn some(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).expect("a terminal has some size")
}

impl Terminal {
    /// Runs `vcpi` on a terminal of this size, with these variables. What it says beside its report
    /// does not show.
    pub(crate) fn start(
        fixture: &Fixture,
        args: &[&str],
        (columns, rows): (u16, u16),
        variables: &[(&str, &str)],
    ) -> Terminal {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("there are pseudo terminals");
        grantpt(&ours).expect("is ours");
        unlockpt(&ours).expect("is ours");
        tcsetwinsize(&ours, size(columns, rows)).expect("has a size");
        let name = ptsname(&ours, Vec::new()).expect("has a name");
        let path = std::ffi::OsStr::from_bytes(name.to_bytes());
        let theirs = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .expect("opens");
        // It is the program's own terminal, which hears of another size and sends interrupts.
        // Whoever runs the tests may ignore these.
        let mut command = Command::new("setsid");
        command
            .args(["--ctty", "--wait", "env", "--default-signal=INT"])
            .arg(env!("CARGO_BIN_EXE_vcpi"))
            .args(args)
            .current_dir(fixture.dir())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("TZ", "UTC")
            .env("TERM", "xterm")
            .stdin(Stdio::from(theirs.try_clone().expect("is open")))
            .stdout(Stdio::from(theirs))
            .stderr(Stdio::null());
        for (name, value) in variables {
            command.env(name, value);
        }
        Terminal {
            ours: File::from(ours),
            parser: vt100::Parser::new(some(rows), some(columns), 1000),
            written: Vec::new(),
            child: command.spawn().expect("setsid is part of every Linux"),
        }
    }

    /// Waits until the screen is as expected.
    pub(crate) fn until(&mut self, what: &str, is_there: impl Fn(&str) -> bool) {
        while !is_there(&self.screen()) {
            assert!(self.read(), "no {what}:\n{}", self.screen());
        }
    }

    /// Waits until some text is on the screen.
    pub(crate) fn shows(&mut self, text: &str) {
        self.until(text, |screen| screen.contains(text));
    }

    /// What is on the screen.
    pub(crate) fn screen(&self) -> String {
        self.parser.screen().contents()
    }

    /// Whether the screen is the one that was there before.
    pub(crate) fn is_restored(&self) -> bool {
        !self.parser.screen().alternate_screen()
    }

    /// Types.
    pub(crate) fn press(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).expect("takes keys");
    }

    /// Makes the terminal another size.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.parser.set_size(some(rows), some(columns));
        tcsetwinsize(&self.ours, size(columns, rows)).expect("has a size");
    }

    /// Reads to the end: how the program ended, and all that it wrote.
    pub(crate) fn end(&mut self) -> (ExitStatus, String) {
        while self.read() {}
        let status = self.child.wait().expect("ends");
        (status, String::from_utf8_lossy(&self.written).into_owned())
    }

    /// Goes away, as a window that is closed does: how the program ended.
    pub(crate) fn hang_up(mut self) -> ExitStatus {
        self.ours = File::open("/dev/null").expect("opens");
        self.child.wait().expect("ends")
    }

    /// Reads what there is, or waits for it; `false`: there is no more.
    fn read(&mut self) -> bool {
        let mut ready = [PollFd::new(self.ours.as_fd(), PollFlags::POLLIN)];
        let count = poll(&mut ready, PollTimeout::from(PATIENCE_MS)).expect("waits");
        assert!(count > 0, "nothing comes:\n{}", self.screen());
        let mut bytes = [0; 4096];
        // When the last of the program's ends is closed, reading fails.
        match self.ours.read(&mut bytes) {
            Ok(0) | Err(_) => false,
            Ok(length) => {
                self.parser.process(&bytes[..length]);
                self.written.extend_from_slice(&bytes[..length]);
                true
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
