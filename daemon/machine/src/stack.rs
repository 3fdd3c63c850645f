//! The call stack of a sample: every frame is right, or the stack is cut before it.
//!
//! The handler walks by unwind rows that the collector gave it, and brings return addresses. Where
//! it has no row for the interrupted instruction yet, and with the engine `ring`, the copy of the
//! stack tells as much by the same rules. What a frame pointer alone leads to is no frame.

use addresses::ReturnAddress;
use profiledb::StackEnd;
use rustc_hash::FxHashMap;
use sampler::{CallerRbp, CapturedMemory, FrameSource, FramesEnd, UnwindRow};

use crate::address_space::AddressSpace;
use crate::callsite::call_before;
use crate::place::Pc;
use crate::system::memory::{of_map, of_vec};
use crate::window::SampleMemory;

/// Rows kept; all are forgotten when there are more.
const MAX_ROWS: usize = 1 << 15;
/// How far frames are believed to lie apart, in bytes.
const FARTHEST: u64 = 1 << 30;
/// Number of rsp among the general registers.
const RSP: u8 = 4;
/// Number of rbp.
const RBP: u8 = 5;

/// A sample, as far as its call stack depends on it.
pub struct Walked<'a, 'm, 'v> {
    /// The sampled process.
    pub space: &'a AddressSpace<'v>,
    /// Its memory as of the interrupt.
    pub memory: &'a SampleMemory<'m, 'v>,
    /// Its registers as of the interrupt.
    pub registers: &'a sampler::Registers,
    /// What the interrupt read besides the stack.
    pub capture: Option<&'a CapturedMemory>,
    /// The interrupted instruction.
    pub pc: Pc,
    /// The call site of its function, as it was found there.
    pub caller: Option<Pc>,
}

/// Finds call stacks.
#[derive(Debug)]
pub struct Walker {
    /// Callers of a stack, at most.
    most: usize,
    /// Unwind rows by the instruction that they hold at.
    rows: FxHashMap<Pc, Option<UnwindRow>>,
    /// The frames of the stack that was found last, the innermost first.
    frames: Vec<Pc>,
    /// Where they return to, as far as the copy of the stack told it.
    returns: Vec<ReturnAddress>,
}

impl Walker {
    /// One that finds so many callers at most.
    pub fn new(most: u32) -> Self {
        Self {
            most: most as usize,
            rows: FxHashMap::default(),
            frames: Vec::new(),
            returns: Vec::new(),
        }
    }

    /// Whether call stacks are wanted: one caller comes with each sample anyhow.
    pub fn is_on(&self) -> bool {
        self.most > 1
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        of_map(&self.rows) + of_vec(&self.frames) + of_vec(&self.returns)
    }

    /// Forgets what was read of files, which have changed.
    pub fn forget(&mut self) {
        self.rows.clear();
    }

    /// The frames that were found last, the innermost first.
    pub fn frames(&self) -> &[Pc] {
        &self.frames
    }

    /// Where they return to, if the handler did not find them: it may have rows for that.
    pub fn returns(&self) -> &[ReturnAddress] {
        &self.returns
    }

    /// Finds the [frames](Self::frames) of a sample; why there are no more.
    pub fn walk(&mut self, sample: &Walked<'_, '_, '_>) -> StackEnd {
        self.returns.clear();
        self.begin(sample);
        let first = sample.capture.and_then(|capture| capture.frames().next());
        match (sample.capture, first) {
            (Some(capture), Some(first)) if first.source == FrameSource::Row => {
                let end = self.by_handler(sample, capture);
                let has_copy = sample.memory.stack_word(sample.registers.sp()).is_some();
                if end != StackEnd::NoRules || !has_copy {
                    return end;
                }
                // The copy came because of that, and by it there is a row for each frame.
                let found = self.frames.len();
                self.begin(sample);
                let end_of_copy = self.by_copy(sample);
                if self.frames.len() >= found {
                    return end_of_copy;
                }
                // It ends before that.
                self.begin(sample);
                self.by_handler(sample, capture)
            }
            (Some(capture), None) if capture.frames_end == FramesEnd::Outermost => StackEnd::Whole,
            _ => self.by_copy(sample),
        }
    }

    fn begin(&mut self, sample: &Walked<'_, '_, '_>) {
        self.frames.clear();
        self.frames.push(sample.pc);
    }

    /// Notes a caller; why it is none, otherwise.
    fn push(&mut self, sample: &Walked<'_, '_, '_>, to: ReturnAddress) -> Result<(), StackEnd> {
        let call = call_before(sample.space, to).ok_or(StackEnd::NoCall)?;
        // What is known of the first is more than that some call stands there.
        if self.frames.len() == 1 && sample.caller != Some(call.site) {
            return Err(StackEnd::NoCall);
        }
        self.frames.push(call.site);
        Ok(())
    }

    fn by_handler(&mut self, sample: &Walked<'_, '_, '_>, capture: &CapturedMemory) -> StackEnd {
        for frame in capture.frames() {
            if self.frames.len() > self.most {
                return StackEnd::Depth;
            }
            if frame.source != FrameSource::Row {
                return StackEnd::NoRules;
            }
            if let Err(end) = self.push(sample, frame.return_address) {
                return end;
            }
        }
        match capture.frames_end {
            FramesEnd::Outermost => StackEnd::Whole,
            FramesEnd::Most => StackEnd::Depth,
            FramesEnd::NoRow => StackEnd::NoRules,
            FramesEnd::UnknownRegister => StackEnd::UnknownRegister,
            FramesEnd::None | FramesEnd::Unreadable => StackEnd::Unreadable,
        }
    }

    fn row(&mut self, space: &AddressSpace<'_>, pc: Pc) -> Option<UnwindRow> {
        if let Some(row) = self.rows.get(&pc) {
            return *row;
        }
        let mut images = space.images.borrow_mut();
        let row = images
            .unwind(pc.image)
            .and_then(|rules| rules.row(pc.address));
        if self.rows.len() >= MAX_ROWS {
            self.rows.clear();
        }
        self.rows.insert(pc, row);
        row
    }

    fn by_copy(&mut self, sample: &Walked<'_, '_, '_>) -> StackEnd {
        let gpr = &sample.registers.gpr;
        let word = |address| {
            sample
                .memory
                .stack_word(address)
                .ok_or(StackEnd::Unreadable)
        };
        let mut at = Some(sample.pc);
        let mut state = FrameRegisters {
            sp: gpr[usize::from(RSP)],
            bp: Some(gpr[usize::from(RBP)]),
        };
        loop {
            if self.frames.len() > self.most {
                return StackEnd::Depth;
            }
            let is_first = self.frames.len() == 1;
            let row = at.and_then(|pc| self.row(sample.space, pc));
            let others = is_first.then_some(gpr);
            let return_address = match (row, sample.caller) {
                (Some(row), _) => state.step(row, others, word),
                // The code told it.
                (None, Some(site)) if is_first => {
                    self.frames.push(site);
                    return StackEnd::NoRules;
                }
                (None, _) => return StackEnd::NoRules,
            };
            let pushed = return_address.and_then(|to| self.push(sample, to).map(|()| to));
            match pushed {
                // The row of the call, not of what follows: that may be another function.
                Ok(to) => {
                    self.returns.push(to);
                    at = sample.space.place(to.within_call());
                }
                Err(end) => return end,
            }
        }
    }
}

/// What is known of the registers of a frame.
struct FrameRegisters {
    sp: u64,
    bp: Option<u64>,
}

impl FrameRegisters {
    /// Goes on to the caller: where it is returned to. `others` are the registers of the innermost
    /// frame, in which all are known.
    fn step(
        &mut self,
        row: UnwindRow,
        others: Option<&[u64; 16]>,
        word: impl Fn(u64) -> Result<u64, StackEnd>,
    ) -> Result<ReturnAddress, StackEnd> {
        let register = |number: u8| match (number, others) {
            (RSP, _) => Ok(self.sp),
            (RBP, _) => self.bp.ok_or(StackEnd::UnknownRegister),
            (_, Some(gpr)) => Ok(gpr[usize::from(number & 15)]),
            (_, None) => Err(StackEnd::UnknownRegister),
        };
        let (cfa, rbp) = match row {
            UnwindRow::Outermost => return Err(StackEnd::Whole),
            UnwindRow::Frame {
                register: base,
                offset,
                rbp,
            } => (register(base)?.wrapping_add_signed(offset.into()), rbp),
            UnwindRow::Behind {
                register: base,
                offset,
                words,
                rbp,
            } => {
                let held = word(register(base)?.wrapping_add_signed(offset.into()))?;
                (held.wrapping_add_signed(8 * i64::from(words)), rbp)
            }
        };
        if cfa <= self.sp || cfa - self.sp > FARTHEST {
            return Err(StackEnd::Unreadable);
        }
        let return_address = word(cfa.wrapping_sub(8))?;
        match rbp {
            CallerRbp::Same => {}
            CallerRbp::Saved(offset) => {
                self.bp = word(cfa.wrapping_add_signed(offset.into())).ok();
            }
            CallerRbp::Unknown => self.bp = None,
        }
        self.sp = cfa;
        match return_address {
            0 => Err(StackEnd::Whole),
            to => Ok(ReturnAddress::of_word(to)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(words: &[(u64, u64)]) -> impl Fn(u64) -> Result<u64, StackEnd> + '_ {
        |address| {
            let found = words.iter().find(|(at, _)| *at == address);
            found.map(|(_, word)| *word).ok_or(StackEnd::Unreadable)
        }
    }

    fn frame(register: u8, offset: i32, rbp: CallerRbp) -> UnwindRow {
        UnwindRow::Frame {
            register,
            offset,
            rbp,
        }
    }

    /// A step finds the return address below the frame's address, and the caller's registers.
    #[test]
    fn steps() {
        let words = [
            (0x1010, 0x7000),
            (0x1018, 0xaaa),
            (0x1028, 0xbbb),
            (0x7008, 0),
        ];
        let mut state = FrameRegisters {
            sp: 0x1000,
            bp: Some(5),
        };
        let row = frame(RSP, 0x20, CallerRbp::Saved(-16));
        assert_eq!(
            state.step(row, None, stack(&words)),
            Ok(ReturnAddress::of_word(0xaaa))
        );
        assert_eq!((state.sp, state.bp), (0x1020, Some(0x7000)));
        let row = frame(RSP, 0x10, CallerRbp::Same);
        assert_eq!(
            state.step(row, None, stack(&words)),
            Ok(ReturnAddress::of_word(0xbbb))
        );
        let row = frame(RBP, 0x10, CallerRbp::Unknown);
        assert_eq!(state.step(row, None, stack(&words)), Err(StackEnd::Whole));
        assert_eq!(state.bp, None);
    }

    /// What is not known ends a walk with its reason: registers, memory, frames that do not lie
    /// above their callees.
    #[test]
    fn ends() {
        let state = || FrameRegisters {
            sp: 0x1000,
            bp: None,
        };
        let words = [(0x0ff8, 0xaaa)];
        let step = |row, others| state().step(row, others, stack(&words));
        let of_rbx = frame(3, 8, CallerRbp::Same);
        assert_eq!(step(of_rbx, None), Err(StackEnd::UnknownRegister));
        assert_eq!(step(of_rbx, Some(&[0x2000; 16])), Err(StackEnd::Unreadable));
        let of_rbp = frame(RBP, 8, CallerRbp::Same);
        assert_eq!(step(of_rbp, None), Err(StackEnd::UnknownRegister));
        let downwards = frame(RSP, 0, CallerRbp::Same);
        assert_eq!(step(downwards, None), Err(StackEnd::Unreadable));
        assert_eq!(step(UnwindRow::Outermost, None), Err(StackEnd::Whole));
    }
}
