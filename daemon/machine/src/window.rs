//! What a window sees of the memory of its process.

use std::cell::OnceCell;

use addresses::ProcessAddress;
use interpreter::{Access, CodeMemory, Memory, Pieces, Verdict};

use crate::access::MappedBy;
use crate::address_space::AddressSpace;

/// What was read at the interrupt: code, and what it loads. It is looked at when it is first
/// wanted: most samples are no beginning of a window that counts.
#[derive(Debug)]
pub struct Captured<'a> {
    pc: ProcessAddress,
    capture: &'a sampler::CapturedMemory,
    copies_whole: bool,
    pieces: OnceCell<Pieces<'a>>,
}

impl<'a> Captured<'a> {
    /// What came with a sample at this PC.
    ///
    /// `copies_whole` says whether the kernel of the sample copies a few bytes of a process by one
    /// instruction, which takes aligned words whole. Without, the kernel copies less than a word
    /// byte by byte. Its own memory the kernel copies by parts of words.
    pub fn new(
        pc: ProcessAddress,
        capture: &'a sampler::CapturedMemory,
        copies_whole: bool,
    ) -> Self {
        Self {
            pc,
            capture,
            copies_whole,
            pieces: OnceCell::new(),
        }
    }

    /// The pieces that the interrupt read, the code at the PC last.
    pub fn pieces(&self) -> &Pieces<'a> {
        self.pieces.get_or_init(|| {
            let mut pieces = Pieces::default();
            let mut changes = self.capture.changes().peekable();
            for (number, (address, bytes)) in self.capture.pieces().enumerate() {
                let change = changes.next_if(|change| change.piece == number);
                // What does not fit is not known.
                pieces.push_changing(address, bytes, change.map_or(0, |change| change.words));
            }
            if self.pc.0 >> 63 != 0 || self.copies_whole {
                pieces.read_whole();
            }
            // The code was read behind all that.
            pieces.push(self.pc.0, self.capture.code());
            pieces
        })
    }
}

/// Memory as of the interrupt: what was read on the way, else the stack copy of the sample, and
/// pristine image pages.
#[derive(Debug)]
pub struct SampleMemory<'a, 'v> {
    /// The sampled process.
    pub space: &'a AddressSpace<'v>,
    /// Address of the first byte of `stack`.
    pub stack_start: u64,
    /// What the interrupt copied of the stack.
    pub stack: &'a [u8],
    /// The stack serves callers and no loads. Where the way was followed, what it loads was read in
    /// the order of its loads, and the stack behind all of it. Where nothing else was read and
    /// other threads run, nobody knows in which order it was copied, or what changed meanwhile.
    pub stack_is_for_callers: bool,
    /// What the interrupt read besides.
    pub captured: Option<&'a Captured<'a>>,
    /// Memory that others may write was read but once.
    pub seen_once: bool,
}

impl SampleMemory<'_, '_> {
    /// What was read in the interrupt besides the stack.
    fn captured(&mut self, address: u64, len: usize) -> Option<&[u8]> {
        let captured = self.captured?;
        if self.is_seen_once(captured, address, len) {
            self.seen_once = true;
            return captured.pieces().bytes_seen_once(address, len);
        }
        captured.pieces().bytes(address, len)
    }

    /// What was read in two pieces.
    fn across(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        let Some(captured) = self.captured else {
            return false;
        };
        Pieces::are_apart(address, bytes.len())
            && !self.is_seen_once(captured, address, bytes.len())
            && captured.pieces().across(address, bytes)
    }

    /// Whether others may write some of these bytes, and nobody has looked a second time.
    fn is_seen_once(&self, captured: &Captured<'_>, address: u64, len: usize) -> bool {
        !captured.capture.second_look && self.are_exposed(address, len)
    }

    /// Whether others may write some of these bytes.
    fn are_exposed(&self, address: u64, len: usize) -> bool {
        let last = address.saturating_add((len as u64).saturating_sub(1));
        let is_exposed = |address| self.space.may_be_exposed(ProcessAddress(address));
        is_exposed(address) || last / 4096 != address / 4096 && is_exposed(last)
    }

    /// The copy of the stack, which was made behind all pieces. What others may write of it was
    /// seen at several moments, unless it was looked at a second time.
    fn copied(&mut self, address: u64, len: usize) -> Option<&[u8]> {
        if self.stack_is_for_callers {
            return None;
        }
        let start = usize::try_from(address.checked_sub(self.stack_start)?).ok()?;
        let copied = self.stack.get(start..start.checked_add(len)?)?;
        match self.captured {
            Some(captured) if self.is_seen_once(captured, address, len) => {
                self.seen_once = true;
                return None;
            }
            Some(captured) => captured.pieces().close(),
            // A stack may lie in memory that is shared.
            None if self.are_exposed(address, len) => return None,
            None => {}
        }
        Some(copied)
    }
}

impl SampleMemory<'_, '_> {
    /// A word of the stack as of the interrupt, if it was copied.
    pub(crate) fn stack_word(&self, address: u64) -> Option<u64> {
        let start = usize::try_from(address.checked_sub(self.stack_start)?).ok()?;
        let word = self.stack.get(start..start.checked_add(8)?)?;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    }
}

impl Memory for SampleMemory<'_, '_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        if let Some(held) = self.captured(address, bytes.len()) {
            bytes.copy_from_slice(held);
            return true;
        }
        if self.across(address, bytes) {
            return true;
        }
        if let Some(held) = self.copied(address, bytes.len()) {
            bytes.copy_from_slice(held);
            return true;
        }
        self.space.read_image(address, bytes)
    }

    fn fence(&mut self) {
        if let Some(captured) = self.captured {
            captured.pieces().close();
        }
    }

    fn may_alias(&mut self, first: u64, last: u64, other: u64) -> bool {
        self.space.may_alias(first, last, other)
    }

    fn check(&mut self, address: u64, bytes: u64, access: Access) -> Verdict {
        let evidence = |page: u64| self.evidence(page);
        self.space.check(address, bytes, access, evidence)
    }

    fn code_memory(&mut self, address: u64) -> CodeMemory {
        self.space.code_memory(ProcessAddress(address))
    }
}

impl SampleMemory<'_, '_> {
    /// How it is known that a page was mapped at the interrupt.
    pub fn evidence(&self, page: u64) -> Option<MappedBy> {
        let meets = |start: u64, len: usize| {
            let end = start.saturating_add(len as u64);
            len > 0 && start <= page | 0xfff && end > page
        };
        if meets(self.stack_start, self.stack.len()) {
            return Some(MappedBy::Stack);
        }
        let pieces = self.captured?.pieces();
        let mut all = (0..).map_while(|number| pieces.piece(number));
        all.any(|(start, bytes)| meets(start, bytes.len()))
            .then_some(MappedBy::Read)
    }
}
