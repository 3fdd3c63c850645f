//! Vector registers, from the form in which the processor saves them.

use std::sync::LazyLock;

use crate::sys;

/// What a sample says of vector registers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Vectors {
    /// Nothing: it is not one of those that were chosen to, or was refused.
    #[default]
    None,
    /// It was chosen, and its way lacks none of them.
    Complete,
    /// It was chosen, and a second record is to bring them.
    Awaited,
    /// These, by a second record.
    Here(Box<VectorState>),
}

/// The registers of a thread beyond the general ones.
#[derive(Clone, PartialEq, Eq)]
pub struct VectorState {
    /// `zmm0` to `zmm31`; what the processor does not have is zero.
    pub vectors: [[u8; 64]; 32],
    /// `k0` to `k7`.
    pub masks: [u64; 8],
    /// The modes of floating point instructions, and their exceptions.
    pub mxcsr: u32,
    /// The registers of x87 instructions.
    pub x87: X87,
}

/// The registers of x87 instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct X87 {
    /// The control word.
    pub control: u16,
    /// The status word, which has the number of the register at the stack's top.
    pub status: u16,
    /// A bit for each register that is not empty, by its number.
    pub used: u8,
    /// From the stack's top on.
    pub stack: [[u8; 10]; 8],
}

impl std::fmt::Debug for VectorState {
    /// Without values: debug output goes to logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VectorState").finish_non_exhaustive()
    }
}

/// Where the saved state has what, in bytes.
const X87_STACK: usize = 32;
const MXCSR: usize = 24;
const SSE: usize = 160;
const IN_USE: usize = 512;
const FORM: usize = 520;
const HEADER_REST: std::ops::Range<usize> = 528..576;
/// The first component beyond those that every form has in the same place.
const EXTENDED: usize = 576;

/// Numbers of components, and what those that are not in use hold.
const HAS_X87: u64 = 1;
const HAS_SSE: u64 = 1 << 1;
const AVX: usize = 2;
const MASKS: usize = 5;
const UPPER: usize = 6;
const MORE: usize = 7;
const FIRST_MXCSR: u32 = 0x1f80;
const FIRST_CONTROL: u16 = 0x37f;
/// Says that components lie one behind the other.
const IS_COMPACT: u64 = 1 << 63;

/// Bytes of components 2 to 7, which the architecture has fixed.
const SIZES: [usize; 6] = [256, 64, 64, 64, 512, 1024];

/// Where components 2 to 7 lie if each has its own place, by the processor; 0: it does not have it.
pub(crate) type Places = [usize; 6];

/// Those of this processor.
static PLACES: LazyLock<Places> = LazyLock::new(sys::state_places);

impl VectorState {
    /// From what this machine's processor saved. `None` where it is not known where what is in use
    /// lies.
    pub fn saved(bytes: &[u8]) -> Option<Box<Self>> {
        Self::decode(bytes, &PLACES)
    }

    fn decode(bytes: &[u8], places: &Places) -> Option<Box<Self>> {
        let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let half = |at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let (in_use, form) = (word(IN_USE)?, word(FORM)?);
        if bytes.get(HEADER_REST)?.iter().any(|byte| *byte != 0) {
            return None;
        }
        let component = |number: usize| {
            if in_use >> number & 1 == 0 {
                return Some(None);
            }
            let at = place(number, form, places)?;
            bytes.get(at..at + SIZES[number - AVX]).map(Some)
        };
        let mut state = Box::new(Self {
            vectors: [[0; 64]; 32],
            masks: [0; 8],
            mxcsr: FIRST_MXCSR,
            x87: X87 {
                control: FIRST_CONTROL,
                status: 0,
                used: 0,
                stack: [[0; 10]; 8],
            },
        });
        if in_use & HAS_X87 != 0 {
            let stack = |i: usize| bytes.get(X87_STACK + 16 * i..)?.first_chunk().copied();
            state.x87.control = half(0)?;
            state.x87.status = half(2)?;
            state.x87.used = *bytes.get(4)?;
            for (i, register) in state.x87.stack.iter_mut().enumerate() {
                *register = stack(i)?;
            }
        }
        // In the other form it is there whether the registers are in use or not.
        if in_use & HAS_SSE != 0 || form & IS_COMPACT == 0 {
            state.mxcsr = u32::from_le_bytes(*bytes.get(MXCSR..)?.first_chunk()?);
        }
        let (low, more) = state.vectors.split_at_mut(16);
        if in_use & HAS_SSE != 0 {
            put(low, 0, bytes.get(SSE..SSE + 256)?, 16);
        }
        if let Some(avx) = component(AVX)? {
            put(low, 16, avx, 16);
        }
        if let Some(upper) = component(UPPER)? {
            put(low, 32, upper, 32);
        }
        if let Some(all) = component(MORE)? {
            put(more, 0, all, 64);
        }
        if let Some(masks) = component(MASKS)? {
            for (mask, bytes) in state.masks.iter_mut().zip(masks.as_chunks().0) {
                *mask = u64::from_le_bytes(*bytes);
            }
        }
        Some(state)
    }
}

/// Puts so many bytes for each register into it, from a byte on.
fn put(registers: &mut [[u8; 64]], from: usize, bytes: &[u8], each: usize) {
    for (register, bytes) in registers.iter_mut().zip(bytes.chunks_exact(each)) {
        register[from..from + each].copy_from_slice(bytes);
    }
}

/// Where a component lies in a state of this form.
fn place(number: usize, form: u64, places: &Places) -> Option<usize> {
    if form & IS_COMPACT == 0 {
        return places
            .get(number - AVX)
            .copied()
            .filter(|at| *at >= EXTENDED);
    }
    if form >> number & 1 == 0 {
        return None;
    }
    // All sizes are multiples of what components may be aligned to.
    let before = (AVX..number).filter(|other| form >> other & 1 != 0);
    Some(EXTENDED + before.map(|other| SIZES[other - AVX]).sum::<usize>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places that processors of Intel have.
    const APART: Places = [576, 960, 1024, 1088, 1152, 1664];

    fn state(len: usize, in_use: u64, form: u64) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len).map(|at| (at * 7 + at / 256) as u8).collect();
        bytes[IN_USE..EXTENDED].fill(0);
        bytes[IN_USE..FORM].copy_from_slice(&in_use.to_le_bytes());
        bytes[FORM..528].copy_from_slice(&form.to_le_bytes());
        bytes
    }

    /// What is not in use is what a new program finds, whatever bytes lie there.
    #[test]
    fn what_is_not_in_use() {
        for form in [0, IS_COMPACT | 0xe7] {
            let state = VectorState::decode(&state(832, 0, form), &APART).unwrap();
            assert_eq!(state.vectors, [[0; 64]; 32]);
            assert_eq!(state.masks, [0; 8]);
            assert_eq!((state.x87.control, state.x87.used), (FIRST_CONTROL, 0));
            // There it is in memory always.
            assert_eq!(state.mxcsr == FIRST_MXCSR, form != 0);
        }
    }

    /// Each register is put together from where the form has its parts.
    #[test]
    fn both_forms() {
        let masks =
            |bytes: &[u8], at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().unwrap());
        for (form, places) in [
            (0, APART),
            (IS_COMPACT | 0xe7, [576, 0, 0, 832, 896, 1408]),
            (IS_COMPACT | 0xff, [576, 832, 896, 960, 1024, 1536]),
        ] {
            let bytes = state(2816, 0xe7, form);
            let state = VectorState::decode(&bytes, &APART).unwrap();
            for (i, vector) in state.vectors.iter().enumerate().take(16) {
                assert_eq!(vector[..16], bytes[160 + 16 * i..][..16]);
                assert_eq!(vector[16..32], bytes[places[0] + 16 * i..][..16]);
                assert_eq!(vector[32..], bytes[places[4] + 32 * i..][..32]);
                assert_eq!(state.vectors[16 + i][..], bytes[places[5] + 64 * i..][..64]);
            }
            for (i, mask) in state.masks.iter().enumerate() {
                assert_eq!(*mask, masks(&bytes, places[3] + 8 * i));
            }
            assert_eq!(state.x87.stack[1], bytes[48..58]);
        }
    }

    /// What lies nowhere that is known, or is cut off, is refused.
    #[test]
    fn refused() {
        let nowhere: Places = [0; 6];
        assert_eq!(VectorState::decode(&state(832, 4, 0), &nowhere), None);
        assert_eq!(VectorState::decode(&state(832, 0xe7, 0), &APART), None);
        assert_eq!(
            VectorState::decode(&state(832, 4, IS_COMPACT | 3), &APART),
            None
        );
        let mut other = state(832, 2, 0);
        other[530] = 1;
        assert_eq!(VectorState::decode(&other, &APART), None);
        assert_eq!(VectorState::decode(&[0; 500], &APART), None);
    }
}
