//! The compiled C code, asked through pipes; layouts as in `host.c`.

use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// Rows that a case has at most.
const MOST_ROWS: usize = 16;
/// Words of a tail at most.
const TAIL_WORDS: usize = 1024;
/// Reads that a result reports.
const MOST_READS: usize = 256;
/// Addresses that a case has at most.
pub(crate) const MOST_ADDRESSES: usize = 32;
/// Bytes of a result.
const RESULT: usize = 16 + 8 * TAIL_WORDS + 16 * MOST_READS;

/// What may be read of the kernel in these tests.
pub(crate) const KERNEL: std::ops::Range<u64> = 0xffff_8880_0000_0400..0xffff_8880_0000_f00c;

/// An unwind row, with numbers that need not mean anything.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row {
    pub(crate) kind: u8,
    pub(crate) register: u8,
    pub(crate) rbp: u8,
    pub(crate) cfa_offset: i32,
    pub(crate) rbp_offset: i32,
}

/// What the code is asked.
pub(crate) struct Case(Vec<u8>);

impl Case {
    fn new(
        words: impl IntoIterator<Item = u64>,
        flags: [u32; 4],
        addresses: &[u64],
        rows: &[Row],
    ) -> Self {
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        bytes.extend(flags.into_iter().flat_map(u32::to_ne_bytes));
        let range = [KERNEL.start, KERNEL.end];
        bytes.extend(range.into_iter().flat_map(u64::to_ne_bytes));
        for index in 0..MOST_ADDRESSES {
            let address = addresses.get(index).copied().unwrap_or_default();
            bytes.extend(address.to_ne_bytes());
        }
        for index in 0..MOST_ROWS {
            let row = rows.get(index).copied().unwrap_or_default();
            bytes.extend([row.kind, row.register, row.rbp, 0]);
            bytes.extend(row.cfa_offset.to_ne_bytes());
            bytes.extend(row.rbp_offset.to_ne_bytes());
        }
        Self(bytes)
    }

    /// Lines of a process, or of the kernel, in memory made up from `salt`; and, if `again`, a
    /// second look: others have [written](is_written) meanwhile.
    pub(crate) fn lines(salt: u64, kernel: bool, addresses: &[u64], again: bool) -> Self {
        let words = std::iter::once(salt).chain([0; 20]);
        // There are few.
        let count = addresses.len().min(MOST_ADDRESSES) as u32;
        let flags = [count, u32::from(kernel), 0, u32::from(again)];
        Self::new(words, flags, addresses, &[])
    }

    /// A walk over at most `frames` frames from 20 registers, with 16 rows that lie anywhere.
    pub(crate) fn walk(salt: u64, registers: &[u64; 20], rows: &[Row], frames: u32) -> Self {
        let mut words = vec![salt];
        words.extend(registers);
        Self::new(words, [0, 0, 1, frames], &[], rows)
    }
}

/// One read of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) address: u64,
    pub(crate) size: u32,
    pub(crate) kernel: bool,
}

/// What the code answered.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Lines that could not be read, those that were tried as two.
    pub(crate) failures: u32,
    /// How many lines, or how many frames there are.
    pub(crate) count: u32,
    pub(crate) tail: Vec<u64>,
    pub(crate) reads: Vec<Read>,
    /// Pieces that have changed: their number, and which of their words.
    pub(crate) changes: Vec<(usize, u16)>,
}

impl Answer {
    /// The tail as pieces.
    pub(crate) fn pieces(&self) -> Vec<(u64, Vec<u8>)> {
        let mut words = self.tail.iter().copied();
        let mut pieces = Vec::new();
        while let Some(head) = words.next() {
            let len = (head >> 57) as usize + 1;
            let mut bytes: Vec<u8> = words
                .by_ref()
                .take(len.div_ceil(8))
                .flat_map(u64::to_ne_bytes)
                .collect();
            bytes.truncate(len);
            pieces.push((((head << 7) as i64 >> 7) as u64, bytes));
        }
        pieces
    }
}

/// Compiles a file of this folder together with the code under test; returns the program, and the
/// folder that it is in.
pub(crate) fn compile(source: &str) -> Result<(tempfile::TempDir, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("host");
    let output = Command::new("gcc")
        .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"])
        .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"])
        .arg("-I")
        .arg(root.join("../sampler/bpf"))
        .arg(root.join("tests/handler").join(source))
        .arg("-o")
        .arg(&program)
        .output()
        .context("running gcc")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok((folder, program))
}

/// Code that was compiled, and answers each question on its input on its output.
pub(crate) struct Pipes {
    child: RefCell<(Child, ChildStdin, ChildStdout)>,
    _folder: tempfile::TempDir,
}

impl Pipes {
    /// Compiles a file of this folder, and starts it.
    pub(crate) fn start(source: &str) -> Result<Self> {
        let (folder, program) = compile(source)?;
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("no input")?;
        let output = child.stdout.take().context("no output")?;
        Ok(Self {
            child: RefCell::new((child, input, output)),
            _folder: folder,
        })
    }

    /// Tells it something that it does not answer to.
    pub(crate) fn tell(&self, bytes: &[u8]) -> Result<()> {
        let (_, input, _) = &mut *self.child.borrow_mut();
        Ok(input.write_all(bytes)?)
    }

    /// Its answer, of so many bytes.
    pub(crate) fn ask(&self, question: &[u8], answer: usize) -> Result<Vec<u8>> {
        let (_, input, output) = &mut *self.child.borrow_mut();
        input.write_all(question)?;
        let mut bytes = vec![0; answer];
        output.read_exact(&mut bytes).context("no answer")?;
        Ok(bytes)
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        let (child, ..) = self.child.get_mut();
        // It may have ended by itself; then there is nothing to do.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// The running code.
pub(crate) struct Host(Pipes);

impl Host {
    /// Compiles the code and starts it.
    pub(crate) fn start() -> Result<Self> {
        Ok(Self(Pipes::start("host.c")?))
    }

    /// Asks one case.
    pub(crate) fn ask(&self, case: &Case) -> Result<Answer> {
        let bytes = self.0.ask(&case.0, RESULT)?;
        let half = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        let (tail, reads) = (half(8) as usize, half(12) as usize);
        ensure!(
            tail <= TAIL_WORDS && reads <= MOST_READS,
            "{tail} words, {reads} reads"
        );
        let at = 16 + 8 * TAIL_WORDS;
        let mut tail: Vec<u64> = (0..tail).map(|index| word(16 + 8 * index)).collect();
        let changed = (half(0) >> 16) as usize;
        ensure!(changed <= tail.len(), "{changed} of {} words", tail.len());
        let changes = tail.split_off(tail.len() - changed);
        let change = |word: u64| ((word >> 32) as usize, (word & 0xffff) as u16);
        Ok(Answer {
            failures: half(0) & 0xffff,
            count: half(4),
            changes: changes.into_iter().map(change).collect(),
            tail,
            reads: (0..reads)
                .map(|index| Read {
                    address: word(at + 16 * index),
                    size: half(at + 16 * index + 8),
                    kernel: half(at + 16 * index + 12) != 0,
                })
                .collect(),
        })
    }
}

pub(crate) const fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word ^ word >> 32
}

/// The memory that `host.c` makes up; false where it has none.
pub(crate) fn read_made_up(salt: u64, address: u64, into: &mut [u8]) -> bool {
    let at = |index: usize| address.wrapping_add(index as u64);
    if (0..into.len()).any(|index| mixed(at(index) >> 12 ^ salt) & 7 == 0) {
        return false;
    }
    for (index, byte) in into.iter_mut().enumerate() {
        let mut word = mixed(at(index) >> 3 ^ salt);
        if word & 0x700 != 0 {
            word = (address & !0xfff).wrapping_add(word & 0x3ff8);
        }
        *byte = (word >> (8 * (at(index) & 7))) as u8;
    }
    true
}

/// Whether others write the byte at an address before the second look.
pub(crate) fn is_written(salt: u64, address: u64) -> bool {
    mixed(address ^ !salt) & 31 == 0
}
