//! The compiled C code, asked through pipes.

use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::abi::{self, OneRead, Plain as _, Range, Row, TestCase};

/// Addresses that a case has at most.
pub(crate) const MOST_ADDRESSES: usize = abi::MOST_ADDRESSES as usize;

/// What may be read of the kernel in these tests.
pub(crate) const KERNEL: std::ops::Range<u64> = 0xffff_8880_0000_0400..0xffff_8880_0000_f00c;

/// What the code is asked.
pub(crate) struct Case(TestCase);

impl Case {
    fn new(given: TestCase) -> Self {
        let allowed = Range {
            start: KERNEL.start,
            end: KERNEL.end,
        };
        Self(TestCase { allowed, ..given })
    }

    /// Lines of a process, or of the kernel, in memory made up from `salt`; and, if `again`, a
    /// second look: others have [written](is_written) meanwhile.
    pub(crate) fn lines(salt: u64, kernel: bool, addresses: &[u64], again: bool) -> Self {
        let mut address = [0; MOST_ADDRESSES];
        let count = addresses.len().min(MOST_ADDRESSES);
        address[..count].copy_from_slice(&addresses[..count]);
        Self::new(TestCase {
            salt,
            // There are few.
            addresses: count as u32,
            kernel: kernel.into(),
            frames: again.into(),
            address,
            ..TestCase::default()
        })
    }

    /// A walk over at most `frames` frames from 20 registers, with 16 rows that lie anywhere, whose
    /// numbers need not mean anything.
    pub(crate) fn walk(salt: u64, registers: &[u64; 20], rows: &[Row], frames: u32) -> Self {
        let mut own = [Row::default(); abi::MOST_ROWS as usize];
        for (own, row) in own.iter_mut().zip(rows) {
            *own = *row;
        }
        Self::new(TestCase {
            salt,
            registers: *registers,
            walks: 1,
            frames,
            rows: own,
            ..TestCase::default()
        })
    }
}

/// What the code answered.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Lines that could not be read, those that were tried as two.
    pub(crate) failures: u32,
    /// How many lines, or how many frames there are.
    pub(crate) count: u32,
    pub(crate) tail: Vec<u64>,
    pub(crate) reads: Vec<OneRead>,
    /// Pieces that have changed: their number, and which of their words.
    pub(crate) changes: Vec<(usize, u16)>,
}

impl Answer {
    /// The tail as pieces.
    pub(crate) fn pieces(&self) -> Vec<(u64, Vec<u8>)> {
        let mut words = self.tail.iter().copied();
        let mut pieces = Vec::new();
        while let Some(head) = words.next() {
            let len = (head >> abi::HEAD_ADDRESS_BITS) as usize + 1;
            let mut bytes: Vec<u8> = words
                .by_ref()
                .take(len.div_ceil(8))
                .flat_map(u64::to_ne_bytes)
                .collect();
            bytes.truncate(len);
            let unused = 64 - abi::HEAD_ADDRESS_BITS;
            let address = (head << unused).cast_signed() >> unused;
            pieces.push((address.cast_unsigned(), bytes));
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
        .arg(root.join("../../sampler/bpf"))
        .arg(root.join("src").join(source))
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
        let bytes = self.0.ask(&case.0.to_bytes(), size_of::<abi::Result>())?;
        let result = abi::Result::get(&bytes);
        let (tail, reads) = (result.tail_words as usize, result.reads as usize);
        ensure!(
            tail <= result.tail.len() && reads <= result.read.len(),
            "{tail} words, {reads} reads"
        );
        let mut tail = result.tail[..tail].to_vec();
        let changed = (result.outcome >> 16) as usize;
        ensure!(changed <= tail.len(), "{changed} of {} words", tail.len());
        let changes = tail.split_off(tail.len() - changed);
        let change = |word: u64| {
            let piece = word >> abi::CHANGE_PIECE_SHIFT;
            (piece as usize, (word & 0xffff) as u16)
        };
        Ok(Answer {
            failures: result.outcome & 0xffff,
            count: result.step,
            changes: changes.into_iter().map(change).collect(),
            tail,
            reads: result.read[..reads].to_vec(),
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
