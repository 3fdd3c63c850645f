//! What a plan brings back, and the evaluation of plans that the handler's is measured by.

use super::pieces::rest;
use super::wire::{MAX_STEP_BYTES, Plan, Source, is_nowhere};
use crate::window::Memory;

/// Bytes that a snapshot can hold.
pub const MAX_SNAPSHOT_BYTES: usize = 1024;
/// Pieces that a snapshot can hold: those of a plan, and a few that the handler adds itself.
pub const MAX_PIECES: usize = MAX_LINES + 4;
/// Lines of memory that the handler brings of a way that it follows.
const MAX_LINES: usize = 96;

#[derive(Clone, Copy, Debug)]
struct Record {
    address: u64,
    /// Where its bytes start in the snapshot.
    offset: u16,
    size: u16,
}

/// Pieces of memory as they were at the interrupt, each an address and bytes.
///
/// As [`Memory`] it serves what lies within one piece and nothing else: the window computes each
/// address itself, so that pieces from a plan that no longer fits are never used.
#[derive(Clone, Debug)]
pub struct Snapshot {
    records: [Record; MAX_PIECES],
    count: usize,
    bytes: [u8; MAX_SNAPSHOT_BYTES],
    used: usize,
}

impl Default for Snapshot {
    fn default() -> Self {
        Self {
            records: [Record {
                address: 0,
                offset: 0,
                size: 0,
            }; MAX_PIECES],
            count: 0,
            bytes: [0; MAX_SNAPSHOT_BYTES],
            used: 0,
        }
    }
}

impl Snapshot {
    /// Adds a piece. False, and nothing is added, if there is no room or it has no bytes.
    pub fn push(&mut self, address: u64, bytes: &[u8]) -> bool {
        let end = self.used.saturating_add(bytes.len());
        let (Some(record), Some(place)) = (
            self.records.get_mut(self.count),
            self.bytes.get_mut(self.used..end),
        ) else {
            return false;
        };
        if bytes.is_empty() || address.checked_add(bytes.len() as u64 - 1).is_none() {
            return false;
        }
        place.copy_from_slice(bytes);
        // Both are at most MAX_SNAPSHOT_BYTES.
        *record = Record {
            address,
            offset: self.used as u16,
            size: bytes.len() as u16,
        };
        self.count += 1;
        self.used = end;
        true
    }

    /// Forgets all pieces.
    pub fn clear(&mut self) {
        self.count = 0;
        self.used = 0;
    }

    /// The pieces in order.
    pub fn pieces(&self) -> impl ExactSizeIterator<Item = (u64, &[u8])> {
        self.records[..self.count].iter().map(|record| {
            let from = usize::from(record.offset);
            (
                record.address,
                &self.bytes[from..from + usize::from(record.size)],
            )
        })
    }

    /// The bytes from an address on, as far as one piece has them: of the piece that goes on
    /// longest. Empty if none has any.
    pub fn from_address(&self, address: u64) -> &[u8] {
        let rests = self.rests(address);
        rests.max_by_key(|rest| rest.len()).unwrap_or_default()
    }

    /// What each piece has from an address on.
    fn rests(&self, address: u64) -> impl Iterator<Item = &[u8]> {
        self.pieces().filter_map(move |piece| rest(&piece, address))
    }
}

impl Memory for Snapshot {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        let held = self.rests(address).find_map(|rest| rest.get(..bytes.len()));
        held.inspect(|held| bytes.copy_from_slice(held)).is_some()
    }
}

/// What a plan is evaluated from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sources {
    /// The general registers: rax rcx rdx rbx rsp rbp rsi rdi r8 to r15.
    pub gpr: [u64; 16],
    /// Process address less image address, of the image that the PC lies in.
    pub bias: u64,
    /// Base of FS, if it can be had.
    pub fs_base: Option<u64>,
    /// Base of GS, if it can be had.
    pub gs_base: Option<u64>,
}

/// How an evaluation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evaluated {
    /// Every step was done.
    Done,
    /// The plan needs the base of a segment that cannot be had: nothing was done.
    NoSegmentBase,
    /// The memory of this step could not be read; nothing more was done.
    Unreadable(usize),
    /// There was no room for what this step read; nothing more was done.
    Full(usize),
}

/// Evaluates a plan: adds what its steps read to `snapshot`, up to the first that fails.
///
/// `read` fills the bytes from a process address on and says whether it could. The sources and
/// steps are as the layout says, so that a handler in another language does the same.
pub fn evaluate(
    plan: &Plan,
    sources: &Sources,
    read: &mut dyn FnMut(u64, &mut [u8]) -> bool,
    snapshot: &mut Snapshot,
) -> Evaluated {
    let lacks = |bit: u8, base: Option<u64>| plan.needs() & bit != 0 && base.is_none();
    if lacks(Plan::NEEDS_FS_BASE, sources.fs_base) || lacks(Plan::NEEDS_GS_BASE, sources.gs_base) {
        return Evaluated::NoSegmentBase;
    }
    let mut words = [0; 64];
    words[..16].copy_from_slice(&sources.gpr);
    words[Source::BIAS.number()] = sources.bias;
    words[Source::FS_BASE.number()] = sources.fs_base.unwrap_or(0);
    words[Source::GS_BASE.number()] = sources.gs_base.unwrap_or(0);
    for (index, step) in plan.steps().iter().enumerate() {
        let address = step.joined(&words);
        let mut buffer = [0; MAX_STEP_BYTES];
        let result = if step.size == 0 {
            address
        } else if is_nowhere(address) {
            0
        } else {
            let bytes = &mut buffer[..usize::from(step.size).min(MAX_STEP_BYTES)];
            if !read(address, bytes) {
                return Evaluated::Unreadable(index);
            }
            if !snapshot.push(address, bytes) {
                return Evaluated::Full(index);
            }
            let [b0, b1, b2, b3, b4, b5, b6, b7, ..] = buffer;
            u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7])
        };
        // The source of a step is below 64 for every index below 32.
        words[Source::step(index as u8).number()] = step.keep.of(result);
    }
    Evaluated::Done
}

#[cfg(test)]
mod tests {
    use super::{Evaluated, MAX_PIECES, MAX_SNAPSHOT_BYTES, Snapshot, Sources, evaluate};
    use crate::Memory as _;
    use crate::plan::wire::{Part, Plan, Source, Step};

    /// A snapshot serves what lies within one piece, and nothing that is not wholly there.
    #[test]
    fn only_what_was_read() {
        let mut snapshot = Snapshot::default();
        assert!(snapshot.push(0x1000, &[1, 2, 3, 4]));
        assert!(snapshot.push(0x1004, &[5, 6, 7, 8]));
        let mut read = |address, bytes: &mut [u8]| snapshot.read(address, bytes);
        let mut two = [0; 2];
        assert!(read(0x1001, &mut two) && two == [2, 3]);
        assert!(read(0x1006, &mut two) && two == [7, 8]);
        // Across two pieces, which were read one after the other.
        assert!(!read(0x1003, &mut two));
        assert!(!read(0xfff, &mut two));
        assert!(!read(0x1007, &mut two));
        assert!(!read(u64::MAX, &mut two));
        assert!(!read(0x1000, &mut [0; 5]));
    }

    /// Code is served as far as a piece goes, from the one that goes on longest.
    #[test]
    fn rests() {
        let mut snapshot = Snapshot::default();
        assert!(snapshot.push(0x1000, &[1, 2, 3, 4]));
        assert!(snapshot.push(0x1002, &[3, 4, 5, 6]));
        assert_eq!(snapshot.from_address(0x1001), [2, 3, 4]);
        assert_eq!(snapshot.from_address(0x1003), [4, 5, 6]);
        assert_eq!(snapshot.from_address(0x1006), []);
        assert_eq!(snapshot.from_address(0xfff), []);
    }

    /// A snapshot holds so much and no more, and nothing that runs around the end of memory.
    #[test]
    fn snapshots_are_bounded() {
        let mut snapshot = Snapshot::default();
        assert!(!snapshot.push(0, &[]));
        assert!(!snapshot.push(u64::MAX, &[0; 2]));
        assert!(snapshot.push(u64::MAX, &[1]));
        assert!(!snapshot.push(0, &[0; MAX_SNAPSHOT_BYTES]));
        assert!(snapshot.push(0, &[0; MAX_SNAPSHOT_BYTES - 1]));
        assert!(!snapshot.push(0, &[0]));
        snapshot.clear();
        assert!((0..MAX_PIECES).all(|_| snapshot.push(0, &[0])));
        assert!(!snapshot.push(0, &[0]));
        assert_eq!(snapshot.pieces().len(), MAX_PIECES);
    }

    const SOURCES: Sources = Sources {
        gpr: [3; 16],
        bias: 0x7000,
        fs_base: None,
        gs_base: Some(0x1100),
    };

    /// A chain: the pointer that one load finds, cut and scaled, leads to the next.
    #[test]
    fn steps_build_on_each_other() {
        let mut first = Step::new(0x10, 4);
        (first.base, first.keep) = (Source::BIAS, Part::signed(4));
        let mut second = Step::new(1, 0);
        (second.base, second.index, second.scale) = (Source::step(0), Source::register(2), 4);
        let mut third = Step::new(0, 16);
        third.index = Source::step(1);
        (third.base, third.base_part) = (Source::GS_BASE, Part::low(2));
        let plan = Plan::new(&[first, second, third]);
        let mut asked = Vec::new();
        let mut read = |address, bytes: &mut [u8]| {
            asked.push((address, bytes.len()));
            bytes.fill(0xff);
            true
        };
        let mut snapshot = Snapshot::default();
        let done = evaluate(&plan, &SOURCES, &mut read, &mut snapshot);
        assert_eq!(done, Evaluated::Done);
        // -1 + 3 * 16 + 1 + 0x1100
        assert_eq!(asked, [(0x7010, 4), (0x1130, 16)]);
        assert_eq!(snapshot.pieces().len(), 2);
    }

    /// A null pointer, or what is no address, is passed over; the plan goes on.
    #[test]
    fn null_pointers() {
        let mut chase = Step::new(8, 8);
        chase.base = Source::step(0);
        let steps = [
            Step::new(0x10, 8),
            chase,
            Step::new(1 << 60, 8),
            Step::new(0x5000, 8),
        ];
        let mut snapshot = Snapshot::default();
        let mut read = |_, _: &mut [u8]| true;
        let done = evaluate(&Plan::new(&steps), &SOURCES, &mut read, &mut snapshot);
        assert_eq!(done, Evaluated::Done);
        assert_eq!(
            snapshot.pieces().map(|(at, _)| at).collect::<Vec<_>>(),
            [0x5000]
        );
    }

    /// The first failure ends a plan; what came before it stays.
    #[test]
    fn failures_end() {
        let steps = [Step::new(0x1001, 8), Step::new(0x1002, 8), Step::new(3, 8)];
        let mut snapshot = Snapshot::default();
        let mut read = |address, _: &mut [u8]| address != 0x1002;
        let plan = Plan::new(&steps);
        assert_eq!(
            evaluate(&plan, &SOURCES, &mut read, &mut snapshot),
            Evaluated::Unreadable(1)
        );
        assert_eq!(
            snapshot.pieces().map(|(at, _)| at).collect::<Vec<_>>(),
            [0x1001]
        );
        let mut local = Step::new(0, 8);
        local.base = Source::FS_BASE;
        let done = evaluate(&Plan::new(&[local]), &SOURCES, &mut read, &mut snapshot);
        assert_eq!(done, Evaluated::NoSegmentBase);
        let many = [Step::new(0x1004, 64); 32];
        let done = evaluate(&Plan::new(&many), &SOURCES, &mut read, &mut snapshot);
        assert_eq!(done, Evaluated::Full(15));
    }
}
