//! Exact counts of a run, by a simulator: what callgrind writes, read into directions of branches
//! and targets of calls.

use std::collections::HashMap;
use std::io::BufRead;
use std::path::Path;

use anyhow::{Context, Result};

/// An instruction: the path of its object, and its address there.
pub type At = (String, u64);

/// What was executed.
#[derive(Debug, Default)]
pub struct Exact {
    /// How often instructions were executed.
    pub executed: HashMap<At, u64>,
    /// How often conditional branches were taken.
    pub taken: HashMap<At, u64>,
    /// Where calls and jumps went, and how often.
    pub targets: HashMap<At, HashMap<At, u64>>,
}

impl Exact {
    /// Reads one of callgrind's files, written with `--dump-instr=yes --collect-jumps=yes
    /// --compress-pos=no --compress-strings=no`, and adds it to what is there.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn add(&mut self, file: &Path) -> Result<()> {
        let opened = std::fs::File::open(file);
        let opened = opened.with_context(|| format!("opening {}", file.display()))?;
        self.add_lines(std::io::BufReader::new(opened))
            .with_context(|| format!("reading {}", file.display()))
    }

    fn add_lines(&mut self, lines: impl BufRead) -> Result<()> {
        let mut object = String::new();
        let mut callee = None;
        // What the next line is the place of.
        let mut pending = None;
        for line in lines.split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            if let Some(pending) = pending.take() {
                let at = line.split(' ').next().and_then(address);
                if let Some(at) = at {
                    self.take((object.clone(), at), pending);
                }
            } else if let Some(path) = line.strip_prefix("ob=") {
                path.clone_into(&mut object);
            } else if let Some(path) = line.strip_prefix("cob=") {
                callee = Some(path.to_owned());
            } else if let Some(rest) = line.strip_prefix("calls=") {
                let to = callee.take().unwrap_or_else(|| object.clone());
                pending = counts(rest).map(|(n, target)| Event::Went(n, (to, target)));
            } else if let Some(rest) = line.strip_prefix("jump=") {
                let to = |target| (object.clone(), target);
                pending = counts(rest).map(|(n, target)| Event::Went(n, to(target)));
            } else if let Some(rest) = line.strip_prefix("jcnd=") {
                // How often it was executed is told only where it was taken: the costs tell it.
                pending = counts(rest).map(|(taken, _)| Event::Taken(taken));
            } else if line.starts_with("0x") {
                let mut words = line.split(' ');
                let at = words.next().and_then(address);
                let cost = words.nth(1).and_then(|cost| cost.parse().ok());
                if let Some((at, cost)) = at.zip(cost) {
                    self.take((object.clone(), at), Event::Executed(cost));
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, at: At, event: Event) {
        if is_other_there(&at.0) {
            return;
        }
        match event {
            Event::Executed(n) => *self.executed.entry(at).or_default() += n,
            Event::Taken(n) => *self.taken.entry(at).or_default() += n,
            Event::Went(n, to) => {
                *self.targets.entry(at).or_default().entry(to).or_default() += n;
            }
        }
    }
}

/// Whether an object does other things under the simulator: its processor has fewer instructions,
/// so the C library takes other variants of its functions, and the loader picks them.
fn is_other_there(object: &str) -> bool {
    let name = object.rsplit('/').next().unwrap_or(object);
    name.starts_with("libc.so") || name.starts_with("ld-linux")
}

/// What is said of an instruction.
enum Event {
    Executed(u64),
    Taken(u64),
    Went(u64, At),
}

/// `N TARGET` or `N/M TARGET`.
fn counts(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split(' ');
    let (n, target) = (words.next()?, words.next()?);
    let n = n.split('/').next()?;
    Some((n.parse().ok()?, address(target)?))
}

fn address(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

/// What kind of instruction stands somewhere, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstructionKind {
    /// A conditional branch.
    Conditional,
    /// A call or jump through a register or memory; not through a fixed address, as stubs of other
    /// libraries' functions have it.
    Indirect,
    /// Anything else.
    Other,
}

/// The code of ELF files.
#[derive(Debug, Default)]
pub struct Files(HashMap<String, Vec<(u64, Vec<u8>)>>);

impl Files {
    /// The kind of an instruction; of files that cannot be read all are others.
    pub fn kind(&mut self, at: &At) -> InstructionKind {
        let file = self.0.entry(at.0.clone());
        let segments = file.or_insert_with(|| segments(Path::new(&at.0)).unwrap_or_default());
        let holds = |(start, code): &&(u64, Vec<u8>)| {
            at.1.checked_sub(*start)
                .is_some_and(|offset| offset < code.len() as u64)
        };
        let code = segments
            .iter()
            .find(holds)
            .and_then(|(start, code)| code.get(usize::try_from(at.1 - start).ok()?..));
        code.map_or(InstructionKind::Other, kind_of)
    }
}

fn kind_of(code: &[u8]) -> InstructionKind {
    let prefixes = [0x2e, 0x3e, 0xf2, 0x66];
    let is_prefix = |byte: &u8| prefixes.contains(byte) || byte >> 4 == 4;
    let skipped = code
        .iter()
        .take(4)
        .take_while(|byte| is_prefix(byte))
        .count();
    match code.get(skipped..) {
        Some([0x70..=0x7f | 0xe0..=0xe3, ..] | [0x0f, 0x80..=0x8f, ..]) => {
            InstructionKind::Conditional
        }
        Some([0xff, modrm, ..]) if matches!(modrm >> 3 & 7, 2 | 4) && modrm & 0xc7 != 5 => {
            InstructionKind::Indirect
        }
        _ => InstructionKind::Other,
    }
}

/// The loaded code of an ELF file of 64 bits, by address.
fn segments(path: &Path) -> Option<Vec<(u64, Vec<u8>)>> {
    let bytes = std::fs::read(path).ok()?;
    let number = |at: u64, len: usize| -> Option<u64> {
        let at = usize::try_from(at).ok()?;
        let mut word = [0; 8];
        word.get_mut(..len)?
            .copy_from_slice(bytes.get(at..at.checked_add(len)?)?);
        Some(u64::from_le_bytes(word))
    };
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let mut all = Vec::new();
    for header in (0..count).map(|i| table + i * size) {
        // PT_LOAD that may be executed.
        if number(header, 4)? == 1 && number(header + 4, 4)? & 1 == 1 {
            let (offset, len) = (number(header + 8, 8)?, number(header + 32, 8)?);
            let start = usize::try_from(offset).ok()?;
            let end = usize::try_from(offset.checked_add(len)?).ok()?;
            all.push((number(header + 16, 8)?, bytes.get(start..end)?.to_vec()));
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directions and targets are those of the line behind; costs of callees are passed over.
    #[test]
    fn counts_of_a_run() {
        let text = "ob=/a\nfn=f\n0x10 0 5\n0x12 0 5\njcnd=3/4 0x20 0 \n0x12 0 \n\
                    cob=/b\ncfn=g\ncalls=7 0x30 0 \n0x14 0 70\ncfn=h\ncalls=1 0x40 0 \n0x14 0 9\n\
                    jump=2 0x10 0 \n0x16 0 \njcnd=1/1 0x20 0 \n0x12 0 \n";
        let mut exact = Exact::default();
        exact.add_lines(text.as_bytes()).unwrap();
        let at = |object: &str, address| (object.to_owned(), address);
        assert_eq!(exact.taken[&at("/a", 0x12)], 4);
        assert_eq!(exact.executed[&at("/a", 0x12)], 5);
        assert!(!exact.executed.contains_key(&at("/a", 0x14)));
        let called = &exact.targets[&at("/a", 0x14)];
        assert_eq!((called[&at("/b", 0x30)], called[&at("/a", 0x40)]), (7, 1));
        assert_eq!(exact.targets[&at("/a", 0x16)][&at("/a", 0x10)], 2);
    }

    /// Branches and indirect calls are told from others, prefixes or not.
    #[test]
    fn kinds() {
        assert_eq!(kind_of(&[0x74, 5]), InstructionKind::Conditional);
        assert_eq!(
            kind_of(&[0x0f, 0x8f, 0, 0, 0, 0]),
            InstructionKind::Conditional
        );
        assert_eq!(kind_of(&[0xff, 0xd0]), InstructionKind::Indirect);
        assert_eq!(kind_of(&[0x41, 0xff, 0xe3]), InstructionKind::Indirect);
        assert_eq!(kind_of(&[0xff, 0x50, 8]), InstructionKind::Indirect);
        assert_eq!(kind_of(&[0xff, 0x25, 0, 0, 0, 0]), InstructionKind::Other);
        assert_eq!(kind_of(&[0xff, 0xc0]), InstructionKind::Other);
        assert_eq!(kind_of(&[0xe8, 0, 0, 0, 0]), InstructionKind::Other);
    }
}
