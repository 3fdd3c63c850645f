//! The file in which a runtime names the code that it makes: `/tmp/perf-PID.map` of its process.
//!
//! The file is a stranger's. It is looked for in the process's own mount namespace and is never
//! followed out of it; it must be a regular file with one name, of the process's user or of root;
//! and no more of it is read than has room.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use sampler::Pid;

use crate::system::procfs;

/// Bytes of the file that are read at most.
const MAX_FILE: u64 = 128 << 20;
/// Longest line.
const MAX_LINE: usize = 4096;
/// Longest piece of code that has one name.
pub(super) const MAX_CODE: u64 = 64 << 20;
/// Longest name that is kept, in bytes.
const MAX_NAME: usize = 1024;
/// Looks that found no file, after which it is looked for seldom.
const PATIENCE: u32 = 50;
/// One of so many looks then counts, and looks whether the file is still the same one.
const SELDOM: u32 = 16;

/// A line: code has a name from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) name: String,
}

/// The file of a process, as far as it was read.
#[derive(Debug, Default)]
pub(crate) struct PerfMap {
    file: Option<File>,
    read: u64,
    /// The beginning of a line that was not whole.
    partial: Vec<u8>,
    looks: u32,
}

impl PerfMap {
    /// The lines that have come since the last look.
    pub(crate) fn look(&mut self, pid: Pid) -> Vec<Line> {
        self.looks = self.looks.saturating_add(1);
        let seldom = self.looks.is_multiple_of(SELDOM);
        if self.file.is_none() && (self.looks < PATIENCE || seldom) {
            self.file = open(pid);
        } else if seldom && let Some(there) = open(pid) {
            // Written anew under its name.
            let inode =
                |file: &File| Some((file.metadata().ok()?.dev(), file.metadata().ok()?.ino()));
            if self.file.as_ref().and_then(inode) != inode(&there) {
                *self = Self {
                    file: Some(there),
                    looks: self.looks,
                    ..Self::default()
                };
            }
        }
        let Some(file) = &self.file else {
            return Vec::new();
        };
        let Ok(length) = file.metadata().map(|metadata| metadata.len()) else {
            return Vec::new();
        };
        if length < self.read {
            // Cut short, to be written anew.
            self.read = 0;
            self.partial.clear();
        }
        let length = length.min(MAX_FILE).saturating_sub(self.read);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        let Ok(read) = file.read_at(&mut bytes, self.read) else {
            return Vec::new();
        };
        bytes.truncate(read);
        self.read += read as u64;
        self.take(&bytes)
    }

    /// The lines that end in these bytes, which come behind those before.
    fn take(&mut self, bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.partial.len() + piece.len() <= MAX_LINE {
                self.partial.extend(piece);
            } else {
                // Too long to be one: what is kept of it must not look like one, either.
                self.partial = vec![b'!'];
            }
            if piece.ends_with(b"\n") {
                lines.extend(parse(&self.partial));
                self.partial.clear();
            }
        }
        lines
    }
}

/// `START SIZE NAME`, both numbers in hex, the name with all its blanks.
fn parse(line: &[u8]) -> Option<Line> {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches(['\n', '\r']);
    let (start, rest) = text.trim_start().split_once(' ')?;
    let (size, name) = rest.trim_start().split_once(' ')?;
    let number = |text: &str| {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        // `from_str_radix` would take a sign as well.
        let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        plain.then(|| u64::from_str_radix(digits, 16).ok())?
    };
    let (start, size) = (number(start)?, number(size)?);
    let end = start.checked_add(size)?;
    let name = shown(name)?;
    (1..=MAX_CODE)
        .contains(&size)
        .then_some(Line { start, end, name })
}

/// A name as it is kept: of a bounded length; `None`: it is none.
pub(super) fn shown(name: &str) -> Option<String> {
    let name = name.trim();
    let mut length = name.len().min(MAX_NAME);
    while !name.is_char_boundary(length) {
        length -= 1;
    }
    let name = name.get(..length)?;
    (!name.is_empty()).then(|| name.to_owned())
}

fn open(pid: Pid) -> Option<File> {
    let inside = procfs::pid_inside(pid)?;
    open_inside(pid, Path::new(&format!("/tmp/perf-{inside}.map")))
}

/// Opens a file by its path as a process sees it, if it is a regular one with one name that is the
/// process's user's or root's.
pub(super) fn open_inside(pid: Pid, path: &Path) -> Option<File> {
    // Its root folder, in its mount namespace.
    let root = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_PATH | OFlag::O_DIRECTORY).bits())
        .open(format!("/proc/{pid}/root"))
        .ok()?;
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let how = OpenHow::new()
        .flags(flags)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let inside = path.strip_prefix("/").unwrap_or(path);
    let file = File::from(openat2(&root, inside, how).ok()?);
    let metadata = file.metadata().ok()?;
    let owner = metadata.uid();
    let ids = procfs::credentials(pid)?;
    let is_theirs = owner == 0 || owner == ids.uid || owner == ids.euid;
    (metadata.is_file() && metadata.nlink() <= 1 && is_theirs).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(start: u64, end: u64, name: &str) -> Line {
        Line {
            start,
            end,
            name: name.to_owned(),
        }
    }

    /// Lines are taken when they are whole, names with their blanks; what is none is passed over.
    #[test]
    fn lines() {
        let mut map = PerfMap::default();
        assert_eq!(
            map.take(b"1000 20 f(int)\n2000 10 a \"b\" c"),
            [line(0x1000, 0x1020, "f(int)")]
        );
        assert_eq!(map.take(b" d\n"), [line(0x2000, 0x2010, "a \"b\" c d")]);
        let odd: &[u8] = b"\n1000\n1000 10\n1000 0 f\nzz 10 f\n+10 10 f\nffffffffffffffff 2 f\n\
            1000 ffffffffff f\n0x10 0x8 g\n";
        assert_eq!(map.take(odd), [line(0x10, 0x18, "g")]);
        let mut long = vec![b'1'; 3 * MAX_LINE];
        long.extend(b" 10 f\n30 8 h\n");
        let found: Vec<Line> = long
            .chunks(1000)
            .flat_map(|piece| map.take(piece))
            .collect();
        assert_eq!(found, [line(0x30, 0x38, "h")]);
        assert_eq!(
            parse(b"10 8 \xff\xfe").map(|line| line.name),
            Some("\u{fffd}\u{fffd}".into())
        );
    }

    /// The file of a process is read where it lies; a link, a pipe, and one with two names are not.
    #[test]
    fn only_plain_files() {
        let own = Pid(std::process::id());
        let path = format!("/tmp/perf-{own}.map");
        let _ = std::fs::remove_file(&path);
        assert!(open(own).is_none());
        std::fs::write(&path, "10 8 f\n").expect("written");
        let mut map = PerfMap::default();
        assert_eq!(map.look(own), [line(0x10, 0x18, "f")]);
        assert_eq!(map.look(own), []);
        let folder = tempfile::tempdir_in("/tmp").expect("a folder");
        let other = folder.path().join("other");
        std::fs::hard_link(&path, &other).expect("another name");
        assert!(open(own).is_none());
        std::fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink(&other, &path).expect("a link");
        assert!(open(own).is_none());
        std::fs::remove_file(&path).expect("removed");
        nix::unistd::mkfifo(path.as_str(), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        assert!(open(own).is_none());
        std::fs::remove_file(&path).expect("removed");
    }
}
