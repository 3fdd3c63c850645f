//! The plan as the handler gets it: plain integers in a fixed layout.
//!
//! In C, little-endian:
//!
//! ```c
//! struct step {
//!     u64 displacement;
//!     u8 base, base_part, index, index_part;
//!     u8 scale, size, keep, operation;
//! };
//! struct plan {
//!     u16 version;
//!     u8 steps, needs;
//!     u16 bytes, reserved;
//!     struct step step[32];
//! };
//! ```
//!
//! Sources are numbers into one array of 64 words: 0 to 15 the general registers in the
//! processor's order, 16 the load bias, 17 and 18 the bases of FS and GS, 19 to 31 zero, 32 + `i`
//! what step `i` left. A step joins `a = part(v[base])` and
//! `b = (part(v[index]) << scale) + displacement` as [`Operation`] says. If `size` is 0, that is
//! left in `v[32 + i]`. Else the operation is an addition and the result an address: `size` bytes
//! are read there and the first 8 of them (fewer: zero-extended) are left; where no memory can be
//! ([`is_nowhere`]), nothing is read and 0 is left. `keep` says which part is left. A part is the
//! number of low bytes that count, zero-extended, or sign-extended if bit 7 is set; 0: all eight.
//! Bits of `needs`: 0 and 1 the bases of FS and GS occur; 2 all is to be read a second time.

/// Steps that a plan can have.
pub const MAX_STEPS: usize = 32;
/// Bytes that one step can read.
pub const MAX_STEP_BYTES: usize = 128;
/// What [`Plan::to_bytes`] writes first.
pub const PLAN_VERSION: u16 = 1;

/// Where a word of an address comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Source(u8);

impl Source {
    /// The load bias of the image that the plan's first instruction lies in.
    pub const BIAS: Self = Self(16);
    /// Base of the FS segment.
    pub const FS_BASE: Self = Self(17);
    /// Base of the GS segment.
    pub const GS_BASE: Self = Self(18);
    /// Zero.
    pub const NONE: Self = Self(19);

    /// Number of the first step's source.
    const FIRST_STEP: u8 = 32;

    /// A general register by number; only the low four bits count.
    pub const fn register(number: u8) -> Self {
        Self(number & 15)
    }

    /// What a step left; only the low five bits count.
    pub const fn step(index: u8) -> Self {
        Self(Self::FIRST_STEP + (index & 31))
    }

    /// Number in the array of words; below 64.
    pub const fn number(self) -> usize {
        self.0 as usize & 63
    }

    /// The step that it is the result of.
    pub(super) const fn of_step(self) -> Option<usize> {
        self.number().checked_sub(Self::FIRST_STEP as usize)
    }
}

/// Which bytes of a word count, and how they are extended to 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Part(u8);

impl Part {
    /// The whole word.
    pub const WHOLE: Self = Self(0);
    /// The low four bytes, zero-extended.
    pub const LOW_32: Self = Self(4);

    /// The low bytes of an operand of that size, zero-extended; whole from 8 bytes on.
    pub const fn low(bytes: u8) -> Self {
        if bytes >= 8 { Self::WHOLE } else { Self(bytes) }
    }

    /// The low bytes of an operand of that size, sign-extended; whole from 8 bytes on.
    pub const fn signed(bytes: u8) -> Self {
        if bytes >= 8 {
            Self::WHOLE
        } else {
            Self(bytes | 0x80)
        }
    }

    /// Bytes that count: 1 to 8.
    pub const fn bytes(self) -> u8 {
        match self.0 & 7 {
            0 => 8,
            bytes => bytes,
        }
    }

    /// As it is written.
    pub(super) const fn number(self) -> u8 {
        self.0
    }

    /// Whether it is sign-extended.
    pub const fn is_signed(self) -> bool {
        self.0 & 0x80 != 0
    }

    /// This part of a word.
    pub const fn of(self, word: u64) -> u64 {
        let unused = 64 - 8 * self.bytes() as u32;
        if self.is_signed() {
            ((word << unused) as i64 >> unused) as u64
        } else {
            word << unused >> unused
        }
    }

    const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 | 1 | 2 | 4 | 0x81 | 0x82 | 0x84 => Some(Self(byte)),
            _ => None,
        }
    }
}

/// How the two words of a step are joined.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Operation {
    /// `a + b`
    Add = 0,
    /// `a - b`
    Sub = 1,
    /// `a & b`
    And = 2,
    /// `a | b`
    Or = 3,
    /// `a ^ b`
    Xor = 4,
    /// `a >> (b & 63)`, zeros coming in.
    Shr = 5,
    /// `a >> (b & 63)`, the sign coming in.
    Sar = 6,
    /// `a * b`
    Mul = 7,
}

impl Operation {
    const ALL: [Self; 8] = [
        Self::Add,
        Self::Sub,
        Self::And,
        Self::Or,
        Self::Xor,
        Self::Shr,
        Self::Sar,
        Self::Mul,
    ];

    /// The result, modulo 2^64.
    pub const fn of(self, a: u64, b: u64) -> u64 {
        match self {
            Self::Add => a.wrapping_add(b),
            Self::Sub => a.wrapping_sub(b),
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
            Self::Shr => a >> (b & 63),
            Self::Sar => (a as i64 >> (b & 63)) as u64,
            Self::Mul => a.wrapping_mul(b),
        }
    }
}

/// Whether no memory can be at an address: the lowest page is kept free of it, for null pointers
/// to be found out, and what is not canonical is no address. A plan that covers both arms of a
/// check for null comes by such addresses, which must not end it.
pub const fn is_nowhere(address: u64) -> bool {
    let top = address as i64 >> 56;
    address < 0x1000 || (top != 0 && top != -1)
}

/// One load, or arithmetic that later addresses are made of.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Added to the index (modulo 2^64).
    pub displacement: u64,
    /// The first word.
    pub base: Source,
    /// What of `base` counts.
    pub base_part: Part,
    /// The second word, shifted up by `scale`.
    pub index: Source,
    /// What of `index` counts.
    pub index_part: Part,
    /// Bits; below 64.
    pub scale: u8,
    /// Bytes to read, at most [`MAX_STEP_BYTES`]; 0: the joined words are the result.
    pub size: u8,
    /// What of the result counts for later steps.
    pub keep: Part,
    /// How base and index are joined; for a load an addition.
    pub operation: Operation,
}

/// Bytes of a step.
const STEP_BYTES: usize = 16;
const _: () = assert!(size_of::<Step>() == STEP_BYTES);

impl Step {
    /// A step that is not used.
    const UNUSED: Self = Self::new(0, 0);

    /// A step of that size and displacement, without base and index.
    pub(super) const fn new(displacement: u64, size: u8) -> Self {
        Self {
            displacement,
            base: Source::NONE,
            base_part: Part::WHOLE,
            index: Source::NONE,
            index_part: Part::WHOLE,
            scale: 0,
            size,
            keep: Part::WHOLE,
            operation: Operation::Add,
        }
    }

    /// The two words joined: the address of a load.
    pub(super) fn joined(&self, words: &[u64; 64]) -> u64 {
        let base = self.base_part.of(words[self.base.number()]);
        let index = self.index_part.of(words[self.index.number()]);
        let second = (index << (self.scale & 63)).wrapping_add(self.displacement);
        self.operation.of(base, second)
    }

    fn to_bytes(self) -> [u8; STEP_BYTES] {
        let mut bytes = [0; STEP_BYTES];
        bytes[..8].copy_from_slice(&self.displacement.to_le_bytes());
        bytes[8..].copy_from_slice(&[
            self.base.0,
            self.base_part.0,
            self.index.0,
            self.index_part.0,
            self.scale,
            self.size,
            self.keep.0,
            self.operation as u8,
        ]);
        bytes
    }

    /// `None`: no step of that index is written so.
    fn from_bytes(bytes: &[u8; STEP_BYTES], index: usize) -> Option<Self> {
        let [d0, d1, d2, d3, d4, d5, d6, d7, rest @ ..] = *bytes;
        let [
            base,
            base_part,
            index_source,
            index_part,
            scale,
            size,
            keep,
            operation,
        ] = rest;
        let source = |number: u8| {
            let source = Source(number);
            let earlier = number < 64 && source.of_step().is_some_and(|step| step < index);
            (number <= Source::NONE.0 || earlier).then_some(source)
        };
        let operation = *Operation::ALL.get(usize::from(operation))?;
        let loads = size > 0;
        if scale > 63 || usize::from(size) > MAX_STEP_BYTES || loads && operation != Operation::Add
        {
            return None;
        }
        Some(Self {
            displacement: u64::from_le_bytes([d0, d1, d2, d3, d4, d5, d6, d7]),
            base: source(base)?,
            base_part: Part::from_byte(base_part)?,
            index: source(index_source)?,
            index_part: Part::from_byte(index_part)?,
            scale,
            size,
            keep: Part::from_byte(keep)?,
            operation,
        })
    }
}

/// Why bytes are no plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlanError {
    /// Not [`Plan::BYTES`] of them.
    #[error("plans have another length than {0} bytes")]
    Length(usize),
    /// Of another version.
    #[error("version {0} of plans is not known")]
    Version(u16),
    /// The head does not agree with the steps.
    #[error("the head of the plan does not agree with its steps")]
    Head,
    /// A step that no plan has: an unknown source or part, a source that comes later, too great a
    /// size or scale, or anything behind the last step.
    #[error("step {0} of the plan is not valid")]
    Step(usize),
}

/// The loads of a window, as the handler of an interrupt evaluates them.
#[repr(C)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    version: u16,
    count: u8,
    needs: u8,
    bytes: u16,
    reserved: u16,
    steps: [Step; MAX_STEPS],
}

const _: () = assert!(size_of::<Plan>() == Plan::BYTES);

impl Plan {
    /// Size in bytes, in memory and as written.
    pub const BYTES: usize = 8 + MAX_STEPS * STEP_BYTES;
    /// Bit of [`needs`](Self::needs): the base of FS.
    pub const NEEDS_FS_BASE: u8 = 1;
    /// Bit of [`needs`](Self::needs): the base of GS.
    pub const NEEDS_GS_BASE: u8 = 2;
    /// Bit of [`needs`](Self::needs): a second look at all that is read, even if only one thread
    /// uses the address space.
    pub const NEEDS_SECOND_LOOK: u8 = 4;

    /// A plan of the first [`MAX_STEPS`] steps.
    pub(super) fn new(from: &[Step]) -> Self {
        let mut steps = [Step::UNUSED; MAX_STEPS];
        let count = from.len().min(MAX_STEPS);
        steps[..count].copy_from_slice(&from[..count]);
        let used = &steps[..count];
        let needs = |source, bit| {
            let needed = used.iter().any(|s| s.base == source || s.index == source);
            if needed { bit } else { 0 }
        };
        Self {
            version: PLAN_VERSION,
            count: count as u8,
            needs: needs(Source::FS_BASE, Self::NEEDS_FS_BASE)
                | needs(Source::GS_BASE, Self::NEEDS_GS_BASE),
            bytes: used.iter().map(|step| u16::from(step.size)).sum(),
            reserved: 0,
            steps,
        }
    }

    /// The steps in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps[..usize::from(self.count).min(MAX_STEPS)]
    }

    /// Whether there is nothing to load.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Bytes that all steps read.
    pub fn load_bytes(&self) -> usize {
        usize::from(self.bytes)
    }

    /// Which segment bases occur: [`NEEDS_FS_BASE`](Self::NEEDS_FS_BASE),
    /// [`NEEDS_GS_BASE`](Self::NEEDS_GS_BASE); and [`NEEDS_SECOND_LOOK`](Self::NEEDS_SECOND_LOOK).
    pub fn needs(&self) -> u8 {
        self.needs
    }

    /// This plan, with a second look at what it reads.
    pub fn looking_again(mut self) -> Self {
        self.needs |= Self::NEEDS_SECOND_LOOK;
        self
    }

    /// This plan with a step behind the others, and all that need what it leaves; `None` if they are
    /// there already, or there is no such step. Should the step fail, the others are done by then.
    pub fn deferring(&self, step: u8) -> Option<Self> {
        let deferred = self.needing(step)?;
        let (kept, last): (Vec<_>, Vec<_>) =
            (0..self.steps().len()).partition(|index| !deferred[*index]);
        let is_new = kept.last() > last.first();
        is_new.then(|| self.of(kept.into_iter().chain(last)))
    }

    /// This plan without a step, and without all that need what it leaves; `None` if there is no such
    /// step.
    pub fn without(&self, step: u8) -> Option<Self> {
        let left_out = self.needing(step)?;
        Some(self.of((0..self.steps().len()).filter(|index| !left_out[*index])))
    }

    /// Which steps need what one leaves: itself, and others that come later.
    fn needing(&self, step: u8) -> Option<[bool; MAX_STEPS]> {
        let mut needing = [false; MAX_STEPS];
        *needing[..self.steps().len()].get_mut(usize::from(step))? = true;
        for (index, other) in self.steps().iter().enumerate() {
            let mut sources = [other.base, other.index].into_iter();
            needing[index] |= sources.any(|source| source.of_step().is_some_and(|of| needing[of]));
        }
        Some(needing)
    }

    /// Of these steps in this order, in which each comes behind those that it needs.
    fn of(&self, order: impl Iterator<Item = usize>) -> Self {
        let mut moved_to = [0; MAX_STEPS];
        let mut steps = Vec::with_capacity(MAX_STEPS);
        for (place, index) in (0..).zip(order) {
            let mut step = self.steps[index];
            for source in [&mut step.base, &mut step.index] {
                if let Some(of) = source.of_step() {
                    *source = Source::step(moved_to[of]);
                }
            }
            moved_to[index] = place;
            steps.push(step);
        }
        let mut plan = Self::new(&steps);
        plan.needs |= self.needs & Self::NEEDS_SECOND_LOOK;
        plan
    }

    /// The fixed layout that this module's text shows.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (head, rest) = bytes.split_at_mut(8);
        let [v0, v1] = self.version.to_le_bytes();
        let [b0, b1] = self.bytes.to_le_bytes();
        head.copy_from_slice(&[v0, v1, self.count, self.needs, b0, b1, 0, 0]);
        for (step, place) in self.steps.iter().zip(rest.chunks_exact_mut(STEP_BYTES)) {
            place.copy_from_slice(&step.to_bytes());
        }
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) writes.
    ///
    /// # Errors
    /// If the bytes are no plan that could have been written.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PlanError> {
        let whole: &[u8; Self::BYTES] = bytes
            .try_into()
            .map_err(|_| PlanError::Length(bytes.len()))?;
        let [v0, v1, count, needs, b0, b1, r0, r1, rest @ ..] = whole;
        let version = u16::from_le_bytes([*v0, *v1]);
        if version != PLAN_VERSION {
            return Err(PlanError::Version(version));
        }
        let (places, _) = rest.as_chunks::<STEP_BYTES>();
        let mut steps = [Step::UNUSED; MAX_STEPS];
        for (index, (step, place)) in steps.iter_mut().zip(places).enumerate() {
            let read = Step::from_bytes(place, index).ok_or(PlanError::Step(index))?;
            if index >= usize::from(*count) && read != Step::UNUSED {
                return Err(PlanError::Step(index));
            }
            *step = read;
        }
        let mut plan = Self::new(steps.get(..usize::from(*count)).ok_or(PlanError::Head)?);
        plan.needs |= needs & Self::NEEDS_SECOND_LOOK;
        let agrees = plan.needs == *needs
            && plan.bytes == u16::from_le_bytes([*b0, *b1])
            && [*r0, *r1] == [0, 0];
        if agrees {
            Ok(plan)
        } else {
            Err(PlanError::Head)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Operation, Part, Plan, PlanError, Source, Step};

    /// Parts are cut and extended as the processor does it.
    #[test]
    fn parts() {
        let word = 0x0123_4567_89ab_cdef;
        assert_eq!(Part::WHOLE.of(word), word);
        assert_eq!(Part::low(4).of(word), 0x89ab_cdef);
        assert_eq!(Part::signed(4).of(word), 0xffff_ffff_89ab_cdef);
        assert_eq!(Part::signed(2).of(0x7fff), 0x7fff);
        assert_eq!(Part::low(1).of(word), 0xef);
        assert_eq!(Part::signed(8), Part::WHOLE);
    }

    fn step(index: u8) -> impl Strategy<Value = Step> {
        let source = || (0..20 + index).prop_map(|i| Source(if i < 20 { i } else { i + 12 }));
        let part = || prop::sample::select(vec![0, 1, 2, 4, 0x81, 0x82, 0x84]).prop_map(Part);
        (
            any::<u64>(),
            (source(), part()),
            (source(), part()),
            0u8..64,
            0u8..=64,
            part(),
        )
            .prop_map(|(displacement, base, index, scale, size, keep)| Step {
                displacement,
                base: base.0,
                base_part: base.1,
                index: index.0,
                index_part: index.1,
                scale,
                size,
                keep,
                operation: if size > 0 {
                    Operation::Add
                } else {
                    Operation::ALL[scale as usize & 7]
                },
            })
    }

    fn plan() -> impl Strategy<Value = Plan> {
        (0u8..=32)
            .prop_flat_map(|count| (0..count).map(step).collect::<Vec<_>>())
            .prop_flat_map(|steps| (Just(steps), any::<bool>()))
            .prop_map(|(steps, again)| {
                let plan = Plan::new(&steps);
                if again { plan.looking_again() } else { plan }
            })
    }

    proptest! {
        /// Every plan comes back from its bytes.
        #[test]
        fn round_trip(plan in plan()) {
            prop_assert_eq!(Plan::from_bytes(&plan.to_bytes()), Ok(plan));
        }

        /// Whatever a plan's bytes are changed to, they are refused or mean what they say.
        #[test]
        fn hostile_bytes(plan in plan(), at in 0..Plan::BYTES, byte in any::<u8>()) {
            let mut bytes = plan.to_bytes();
            bytes[at] = byte;
            if let Ok(read) = Plan::from_bytes(&bytes) {
                prop_assert_eq!(read.to_bytes(), bytes);
            }
        }
    }

    /// A step that is put off goes last, with those that need it and no others; nothing else changes, and
    /// there is nothing to do a second time. One that is left out takes the same along.
    #[test]
    fn steps_that_fail() {
        let load = |displacement, base| Step {
            base,
            ..Step::new(displacement, 8)
        };
        let [rax, rbx] = [0, 3].map(Source::register);
        let plan = Plan::new(&[
            load(1, rax),
            load(2, Source::step(0)),
            load(3, rbx),
            Step {
                index: Source::step(1),
                ..load(4, rbx)
            },
            load(5, Source::step(2)),
        ]);
        let others = [load(3, rbx), load(5, Source::step(0))];
        let put_off = plan.deferring(0).unwrap();
        let last = [
            load(1, rax),
            load(2, Source::step(2)),
            Step {
                index: Source::step(3),
                ..load(4, rbx)
            },
        ];
        assert_eq!(put_off.steps(), [&others[..], &last].concat());
        assert_eq!(put_off.deferring(2), None);
        assert_eq!(put_off.without(2).unwrap().steps(), others);
        assert_eq!(plan.without(0).unwrap().steps(), others);
        assert_eq!(plan.deferring(4), None);
        assert_eq!(plan.deferring(5), None);
        assert_eq!(plan.without(5), None);
        assert_eq!(plan.without(4).unwrap().steps(), &plan.steps()[..4]);
    }

    proptest! {
        /// Whatever step is put off or left out, what is left is a plan.
        #[test]
        fn changed_plans(plan in plan(), step in any::<u8>()) {
            for changed in plan.deferring(step).into_iter().chain(plan.without(step)) {
                prop_assert_eq!(Plan::from_bytes(&changed.to_bytes()), Ok(changed));
            }
        }
    }

    /// Each kind of damage has its error.
    #[test]
    fn damage() {
        let bytes = Plan::new(&[Step::new(0x10, 8)]).to_bytes();
        let with = |at: usize, byte: u8| {
            let mut bytes = bytes;
            bytes[at] = byte;
            Plan::from_bytes(&bytes).map(|_| ())
        };
        assert_eq!(with(0, 1), Ok(()));
        assert_eq!(Plan::from_bytes(&bytes[1..]), Err(PlanError::Length(519)));
        assert_eq!(with(0, 2), Err(PlanError::Version(2)));
        assert_eq!(with(2, 0), Err(PlanError::Step(0)));
        assert_eq!(with(2, 200), Err(PlanError::Head));
        assert_eq!(with(3, 1), Err(PlanError::Head));
        assert_eq!(with(4, 9), Err(PlanError::Head));
        assert_eq!(with(7, 1), Err(PlanError::Head));
        // The first step cannot use what it leaves itself.
        assert_eq!(with(16, 32), Err(PlanError::Step(0)));
        assert_eq!(with(16, 20), Err(PlanError::Step(0)));
        assert_eq!(with(17, 3), Err(PlanError::Step(0)));
        assert_eq!(with(20, 64), Err(PlanError::Step(0)));
        assert_eq!(with(21, 129), Err(PlanError::Step(0)));
        // A load's address is a sum, and there are eight operations.
        assert_eq!(with(23, 1), Err(PlanError::Step(0)));
        assert_eq!(with(39, 8), Err(PlanError::Step(1)));
        assert_eq!(with(24, 1), Err(PlanError::Step(1)));
    }
}
