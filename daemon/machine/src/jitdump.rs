//! The file in which a runtime tells of the code that it makes, piece by piece and with times:
//! `jit-PID.dump`, as perf's jitdump-specification has it. A runtime says where the file is by
//! mapping a page of it as code.
//!
//! The file is a stranger's. It is looked for in the process's own mount namespace and is never
//! followed out of it; it must be a regular file with one name, of the process's user or of root;
//! and no more of it is read than has room. Names and places are taken from it, no code.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use sampler::Pid;

use crate::perfmap::{Line, MAX_CODE, open_inside, shown};

/// "JiTD", as a file of this machine begins.
const MAGIC: u32 = 0x4a69_5444;
/// Bytes of the head that are looked at.
const HEAD: usize = 40;
/// The times are those of the processor's counter, and not the samples'.
const ARCH_TIMES: u64 = 1;
/// Bytes of the file that are gone through at most.
const MAX_FILE: u64 = 4 << 30;
/// Bytes of it that are looked at in one go; code in it is passed over.
const MAX_LOOK: usize = 16 << 20;
/// Bytes of a record that are looked at: what stands before the code.
const MAX_RECORD: usize = 56 + 4096;
/// A record's kind, its length and its time.
const PREFIX: usize = 16;
/// Bytes of names that are remembered.
const MAX_MOVABLE: usize = 1 << 20;
/// What a name takes beside its text.
const ONE: usize = 64;
/// Kinds of records: code that is new, and code that was moved.
const LOAD: u64 = 0;
const MOVE: u64 = 1;

/// Code that has a name from a moment on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loaded {
    /// By the samples' clock.
    pub(crate) time: u64,
    pub(crate) line: Line,
}

/// Whether a file's name is that of such a file.
pub(crate) fn is_dump(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    let number = |name: &str| {
        let number = name.strip_prefix("jit-")?.strip_suffix(".dump")?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then_some(())
    };
    name.is_some_and(|name| number(&name).is_some())
}

/// The file of a process, as far as it was read.
#[derive(Debug)]
pub(crate) struct JitDump {
    path: PathBuf,
    file: Opened,
    read: u64,
    names: Names,
}

/// Names by the number of a piece of code, should that be moved.
#[derive(Debug, Default)]
struct Names {
    names: HashMap<u64, String>,
    bytes: usize,
}

#[derive(Debug)]
enum Opened {
    Not,
    Open(File),
    /// It is none, or of no use.
    Refused,
}

impl JitDump {
    /// The file at this path, as the process sees it.
    pub(crate) fn new(path: PathBuf) -> JitDump {
        JitDump {
            path,
            file: Opened::Not,
            read: 0,
            names: Names::default(),
        }
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.names.bytes
    }

    /// What has come since the last look.
    pub(crate) fn look(&mut self, pid: Pid) -> Vec<Loaded> {
        if let Opened::Not = self.file {
            self.file = match open_inside(pid, &self.path) {
                Some(file) => Opened::Open(file),
                None => Opened::Refused,
            };
        }
        let Opened::Open(file) = &self.file else {
            return Vec::new();
        };
        if self.read == 0 {
            let mut head = [0; HEAD];
            if file.read_exact_at(&mut head, 0).is_err() {
                // Not written yet.
                return Vec::new();
            }
            let Some(length) = head_length(&head) else {
                self.file = Opened::Refused;
                return Vec::new();
            };
            self.read = length;
        }
        let mut loaded = Vec::new();
        let mut looked = 0;
        while looked < MAX_LOOK && self.read < MAX_FILE {
            let mut record = vec![0; MAX_RECORD];
            let Ok(length) = file.read_at(&mut record, self.read) else {
                break;
            };
            record.truncate(length);
            looked += length.max(1);
            let Some(whole) = number(&record, 4, 4) else {
                break;
            };
            // What is not whole yet is looked at again.
            let is_whole = file
                .metadata()
                .is_ok_and(|metadata| metadata.len().saturating_sub(self.read) >= whole);
            if whole < PREFIX as u64 || !is_whole {
                break;
            }
            record.truncate(usize::try_from(whole).unwrap_or(usize::MAX));
            self.read += whole;
            loaded.extend(self.names.take(&record));
        }
        loaded
    }
}

impl Names {
    /// What a record tells of code.
    fn take(&mut self, record: &[u8]) -> Option<Loaded> {
        let time = number(record, 8, 8)?;
        let (start, size, name) = match number(record, 0, 4)? {
            LOAD => {
                let text = record.get(PREFIX + 40..)?;
                let end = text.iter().position(|byte| *byte == 0)?;
                let name = shown(&String::from_utf8_lossy(text.get(..end)?))?;
                let index = number(record, PREFIX + 32, 8)?;
                if self.bytes + ONE + name.len() <= MAX_MOVABLE {
                    self.bytes += ONE + name.len();
                    self.names.insert(index, name.clone());
                }
                let start = number(record, PREFIX + 16, 8)?;
                (start, number(record, PREFIX + 24, 8)?, name)
            }
            MOVE => {
                let index = number(record, PREFIX + 40, 8)?;
                let name = self.names.get(&index)?.clone();
                let start = number(record, PREFIX + 24, 8)?;
                (start, number(record, PREFIX + 32, 8)?, name)
            }
            _ => return None,
        };
        let end = start.checked_add(size)?;
        (1..=MAX_CODE).contains(&size).then_some(Loaded {
            time,
            line: Line { start, end, name },
        })
    }
}

/// Where the first record begins; `None`: not such a file, or one whose times say nothing.
fn head_length(head: &[u8]) -> Option<u64> {
    let is_such = number(head, 0, 4)? == u64::from(MAGIC) && number(head, 4, 4)? == 1;
    let length = number(head, 8, 4)?;
    let flags = number(head, 32, 8)?;
    (is_such && length >= HEAD as u64 && flags & ARCH_TIMES == 0).then_some(length)
}

/// A number of so many bytes, lowest first.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)),
    )
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn head(flags: u64) -> Vec<u8> {
        let mut head = Vec::new();
        for word in [MAGIC, 1, 40, 62, 0, std::process::id()] {
            head.extend(word.to_le_bytes());
        }
        head.extend(1_u64.to_le_bytes());
        head.extend(flags.to_le_bytes());
        head
    }

    fn record(kind: u32, time: u64, numbers: &[u64], rest: &[u8]) -> Vec<u8> {
        let length = PREFIX + 8 + 8 * numbers.len() + rest.len();
        let mut record = Vec::new();
        record.extend(kind.to_le_bytes());
        record.extend(u32::try_from(length).expect("fits").to_le_bytes());
        record.extend(time.to_le_bytes());
        record.extend([0; 8]);
        for number in numbers {
            record.extend(number.to_le_bytes());
        }
        record.extend(rest);
        record
    }

    /// A dump of this process in a folder of its own.
    fn dump(bytes: &[u8]) -> (tempfile::TempDir, JitDump) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder
            .path()
            .join(format!("jit-{}.dump", std::process::id()));
        std::fs::write(&path, bytes).expect("written");
        assert!(is_dump(&path));
        (folder, JitDump::new(path))
    }

    fn loaded(time: u64, start: u64, end: u64, name: &str) -> Loaded {
        let name = name.to_owned();
        let line = Line { start, end, name };
        Loaded { time, line }
    }

    /// Pieces of code have their names from their times on, also where they are moved to; a record
    /// is taken when it is whole, and those of other kinds are passed over.
    #[test]
    fn records() {
        let mut bytes = head(0);
        let code = [0x90; 9000];
        let rest = [b"f(int)\0".as_slice(), &code].concat();
        bytes.extend(record(0, 70, &[0x1000, 0x1000, 9000, 1], &rest));
        bytes.extend(record(2, 75, &[0x1000, 0], b""));
        bytes.extend(record(1, 80, &[0x8000, 0x1000, 0x8000, 9000, 1], b""));
        let last = record(0, 90, &[0x1000, 0x1000, 16, 2], b"g\0abcdefghijklmnop");
        let (half, other) = last.split_at(40);
        bytes.extend(half);
        let (folder, mut dump) = dump(&bytes);
        let own = Pid(std::process::id());
        assert_eq!(
            dump.look(own),
            [
                loaded(70, 0x1000, 0x1000 + 9000, "f(int)"),
                loaded(80, 0x8000, 0x8000 + 9000, "f(int)"),
            ]
        );
        assert_eq!(dump.look(own), []);
        let path = folder.path().join(format!("jit-{}.dump", own.0));
        let mut file = File::options().append(true).open(path).expect("a dump");
        file.write_all(other).expect("written");
        assert_eq!(dump.look(own), [loaded(90, 0x1000, 0x1010, "g")]);
    }

    /// What is no dump, is of another clock, or is broken names nothing, and ends.
    #[test]
    fn bad_dumps() {
        let own = Pid(std::process::id());
        let mut short = head(0);
        short.extend(record(0, 1, &[0, 1, 2], b"f\0"));
        let mut empty = head(0);
        empty.extend([0; 64]);
        let mut sizes = head(0);
        sizes.extend(record(0, 1, &[0, 1, 0, 1], b"f\0"));
        sizes.extend(record(0, 1, &[0, u64::MAX, 2, 1], b"f\0"));
        sizes.extend(record(0, 1, &[0, 1, 2, 1], b"f"));
        sizes.extend(record(1, 1, &[0, 1, 2, 3, 77], b""));
        for bytes in [vec![], vec![0; 100], head(ARCH_TIMES), short, empty, sizes] {
            let (_folder, mut dump) = dump(&bytes);
            assert_eq!(dump.look(own), []);
        }
        for name in ["jit-1.dump.x", "jit-.dump", "jit-a.dump", "x/jit-1.dump/y"] {
            assert!(!is_dump(Path::new(name)), "{name}");
        }
    }
}
