//! Lanes that a mask register picks: side by side, or each at an address of its own.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::{Done, in_memory, masks, read, set_register, size, vector_register};
use crate::decode::{Decoded, Handler};
use crate::machine::{Flow, Machine};
use crate::stop::StopReason;
use crate::vector::{Lane, Vector};
use crate::word::{Width, Word};

/// Whether lane `i` is picked: every lane is, where the instruction names no mask.
fn is_picked(m: &Machine<'_>, d: &Decoded, i: usize) -> Option<bool> {
    match d.instruction().op_mask() {
        Register::None => Some(true),
        register => u32::try_from(i)
            .ok()
            .and_then(|i| masks::mask(m, register).bit(i)),
    }
}

/// What the lanes of the destination hold that are not picked.
fn others(m: &Machine<'_>, d: &Decoded) -> Vector {
    match d.instruction().zeroing_masking() {
        true => Vector::ZERO,
        false => vector_register(m, d.instruction().op0_register()),
    }
}

fn width<L: Lane>() -> Result<Width, StopReason> {
    Width::from_bytes(L::BYTES).ok_or(StopReason::Unsupported)
}

/// A lane of a vector as a word, of which some bytes may be unknown.
fn word<L: Lane>(vector: &Vector, i: usize) -> Word {
    Vector::arrange(L::BYTES, |k| vector.byte(i * L::BYTES + k)).word(0)
}

/// Sets a lane byte by byte.
fn set<L: Lane>(vector: &mut Vector, i: usize, from: &Vector, lane: usize) {
    for k in 0..L::BYTES {
        vector.set_byte(i * L::BYTES + k, from.byte(lane * L::BYTES + k));
    }
}

/// The address of a lane that lies side by side with others.
fn beside<L: Lane>(m: &Machine<'_>, lane: usize) -> Option<u64> {
    let offset = (lane * L::BYTES) as u64;
    m.address().map(|address| address.wrapping_add(offset))
}

/// `vpcompress*`: the picked lanes of the source side by side.
fn compress<L: Lane>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let source = read(m, d, 1)?;
    let count = size(d, 1) / L::BYTES;
    if in_memory(d, 0) {
        return compress_to_memory::<L>(m, d, &source, count);
    }
    let mut result = others(m, d);
    let mut to = 0;
    for i in 0..count {
        match is_picked(m, d, i) {
            Some(true) => {
                set::<L>(&mut result, to, &source, i);
                to += 1;
            }
            Some(false) => {}
            // From here on nobody knows which lane goes where.
            None => {
                (to..count).for_each(|to| result.set_lane::<L>(to, None));
                break;
            }
        }
    }
    set_register(m, d, d.instruction().op0_register(), &result);
    Ok(Flow::Next)
}

fn compress_to_memory<L: Lane>(
    m: &mut Machine<'_>,
    d: &Decoded,
    source: &Vector,
    count: usize,
) -> Done {
    let width = width::<L>()?;
    let mut to = 0;
    for i in 0..count {
        match is_picked(m, d, i) {
            Some(true) => {
                let at = beside::<L>(m, to);
                m.store(at, width, word::<L>(source, i))?;
                to += 1;
            }
            Some(false) => {}
            None => {
                m.check_unknown()?;
                let at = beside::<L>(m, to);
                m.store_unknown(at, ((count - to) * L::BYTES) as u64)?;
                break;
            }
        }
    }
    Ok(Flow::Next)
}

/// `vpexpand*`: what lies side by side in the source, to the picked lanes.
fn expand<L: Lane>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = width::<L>()?;
    let from_memory = in_memory(d, 1);
    let source = match from_memory {
        true => Vector::ZERO,
        false => read(m, d, 1)?,
    };
    let mut result = others(m, d);
    let count = size(d, 0) / L::BYTES;
    let mut from = 0;
    for i in 0..count {
        match is_picked(m, d, i) {
            Some(true) => {
                let lane = match from_memory {
                    true => {
                        let at = beside::<L>(m, from);
                        Vector::from_word(m.load(at, width)?)
                    }
                    false => Vector::from_word(word::<L>(&source, from)),
                };
                set::<L>(&mut result, i, &lane, 0);
                from += 1;
            }
            Some(false) => {}
            None => {
                if from_memory {
                    m.accesses_more();
                    m.check_unknown()?;
                }
                // A lane that is not picked keeps what it holds.
                for i in i..count {
                    if is_picked(m, d, i) != Some(false) {
                        result.set_lane::<L>(i, None);
                    }
                }
                break;
            }
        }
    }
    set_register(m, d, d.instruction().op0_register(), &result);
    Ok(Flow::Next)
}

/// Addresses of lanes: a base, and an index each.
pub(super) struct LaneAddresses {
    base: Option<u64>,
    segment: Option<u64>,
    indices: Vector,
    scale: u64,
    displacement: u64,
    /// The address size is 32 bits.
    is_narrow: bool,
}

impl LaneAddresses {
    pub(super) fn of(m: &Machine<'_>, instruction: &Instruction) -> Self {
        let register = instruction.memory_base();
        let (base, is_narrow) = match register {
            // Without a base the decoder tells the address size by that of the displacement.
            Register::None => (Some(0), instruction.memory_displ_size() == 4),
            register => (m.register(register).all(), register.is_gpr32()),
        };
        Self {
            base,
            segment: m.segment_base(instruction.memory_segment()),
            indices: vector_register(m, instruction.memory_index()),
            scale: instruction.memory_index_scale().into(),
            displacement: instruction.memory_displacement64(),
            is_narrow,
        }
    }

    /// Where lane `i` lies; `I` is the type of the indices, sign-extended.
    pub(super) fn at<I: Lane + Into<i64>>(&self, i: usize) -> Option<u64> {
        let index: i64 = self.indices.lane::<I>(i)?.into();
        let scaled = index.cast_unsigned().wrapping_mul(self.scale);
        let offset = self.base?.wrapping_add(scaled);
        let offset = offset.wrapping_add(self.displacement);
        let offset = match self.is_narrow {
            true => offset & Width::B32.mask(),
            false => offset,
        };
        Some(offset.wrapping_add(self.segment?))
    }
}

/// Lanes of an instruction whose indices are of type `I`.
fn lanes_at<L: Lane, I: Lane>(instruction: &Instruction, bytes: usize) -> usize {
    (bytes / L::BYTES).min(instruction.memory_index().size() / I::BYTES)
}

/// Clears the mask: all that it picked is done.
fn clear_mask(m: &mut Machine<'_>, d: &Decoded) {
    m.registers.masks[d.instruction().op_mask().number() & 7] = Word::ZERO;
}

/// `vpgather*` with a mask register: loads of the picked lanes.
fn gather<L: Lane, I: Lane + Into<i64>>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let instruction = d.instruction();
    if instruction.op1_kind() != OpKind::Memory || instruction.op_mask() == Register::None {
        return Err(StopReason::Unsupported);
    }
    let (width, places) = (width::<L>()?, LaneAddresses::of(m, instruction));
    let old = others(m, d);
    // Some lanes may have been loaded before the window began.
    m.accesses_more();
    let mut result = Vector::ZERO;
    for i in 0..lanes_at::<L, I>(instruction, size(d, 0)) {
        match is_picked(m, d, i) {
            Some(false) => set::<L>(&mut result, i, &old, i),
            Some(true) => {
                let lane = Vector::from_word(m.load(places.at::<I>(i), width)?);
                set::<L>(&mut result, i, &lane, 0);
            }
            None => {
                m.check_unknown()?;
                result.set_lane::<L>(i, None);
            }
        }
    }
    clear_mask(m, d);
    set_register(m, d, instruction.op0_register(), &result);
    Ok(Flow::Next)
}

/// `vpscatter*`: stores of the picked lanes, the lowest first.
fn scatter<L: Lane, I: Lane + Into<i64>>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let instruction = d.instruction();
    let source = vector_register(m, instruction.op1_register());
    let (width, places) = (width::<L>()?, LaneAddresses::of(m, instruction));
    // Some lanes may have been stored before the window began.
    m.accesses_more();
    for i in 0..lanes_at::<L, I>(instruction, size(d, 1)) {
        match is_picked(m, d, i) {
            Some(false) => {}
            Some(true) => m.store(places.at::<I>(i), width, word::<L>(&source, i))?,
            None => {
                m.check_unknown()?;
                m.store(places.at::<I>(i), width, Word::unknown(width))?;
            }
        }
    }
    clear_mask(m, d);
    Ok(Flow::Next)
}

/// `vpconflict*`: of each lane, which lanes below it are its like.
pub(super) fn conflict<L: Lane + PartialEq>(
    source: &Vector,
    bytes: usize,
    bits: impl Fn(u64) -> L,
) -> Vector {
    let mut result = Vector::ZERO;
    for i in 0..bytes / L::BYTES {
        let own = source.lane::<L>(i);
        let likes = (0..i).try_fold(0_u64, |likes, below| {
            let is_like = source.lane::<L>(below)? == own?;
            Some(likes | u64::from(is_like) << below)
        });
        result.set_lane(i, likes.map(&bits));
    }
    result
}

/// The handler of an instruction with a mask register.
pub(super) fn handler(mnemonic: Mnemonic) -> Option<Handler> {
    use Mnemonic as M;
    let handler: Handler = match mnemonic {
        M::Vpcompressb => compress::<u8>,
        M::Vpcompressw => compress::<u16>,
        M::Vpcompressd | M::Vcompressps => compress::<u32>,
        M::Vpcompressq | M::Vcompresspd => compress::<u64>,
        M::Vpexpandb => expand::<u8>,
        M::Vpexpandw => expand::<u16>,
        M::Vpexpandd | M::Vexpandps => expand::<u32>,
        M::Vpexpandq | M::Vexpandpd => expand::<u64>,
        M::Vgatherdps | M::Vpgatherdd => gather::<u32, i32>,
        M::Vgatherdpd | M::Vpgatherdq => gather::<u64, i32>,
        M::Vgatherqps | M::Vpgatherqd => gather::<u32, i64>,
        M::Vgatherqpd | M::Vpgatherqq => gather::<u64, i64>,
        M::Vscatterdps | M::Vpscatterdd => scatter::<u32, i32>,
        M::Vscatterdpd | M::Vpscatterdq => scatter::<u64, i32>,
        M::Vscatterqps | M::Vpscatterqd => scatter::<u32, i64>,
        M::Vscatterqpd | M::Vpscatterqq => scatter::<u64, i64>,
        _ => return None,
    };
    Some(handler)
}
