//! Loads and stores of chosen lanes, and gathers.

use iced_x86::{Mnemonic, OpKind};

use super::sparse::LaneAddresses;
use super::{Done, number, read, size, write};
use crate::decode::{Decoded, Handler};
use crate::machine::{Flow, Machine, RDI};
use crate::stop::StopReason;
use crate::vector::{Lane, Vector};
use crate::word::{Width, Word};

/// Whether the sign of a lane chooses it.
fn chosen<L: Lane>(mask: &Vector, lane: usize) -> Option<bool> {
    mask.byte(lane * L::BYTES + L::BYTES - 1)
        .map(|byte| byte >= 0x80)
}

fn width<L: Lane>() -> Result<Width, StopReason> {
    Width::from_bytes(L::BYTES).ok_or(StopReason::Unsupported)
}

/// `vmaskmov*`: where the mask's sign is clear a load yields zero and a store does nothing.
fn move_lanes<L: Lane>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    if d.instruction().op0_kind() == OpKind::Memory {
        store_lanes::<L>(m, d)
    } else {
        load_lanes::<L>(m, d)
    }
}

fn load_lanes<L: Lane>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let mask = read(m, d, 1)?;
    let width = width::<L>()?;
    let mut result = Vector::ZERO;
    for i in 0..size(d, 0) / L::BYTES {
        let at = m.address().map(|a| a.wrapping_add((i * L::BYTES) as u64));
        match chosen::<L>(&mask, i) {
            Some(false) => {}
            Some(true) => result.set_lane(i, Vector::from_word(m.load(at, width)?).lane::<L>(0)),
            None => {
                m.accesses_more();
                m.check_unknown()?;
                result.set_lane::<L>(i, None);
            }
        }
    }
    write(m, d, 0, &result)
}

fn store_lanes<L: Lane>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let mask = read(m, d, 1)?;
    let source = read(m, d, 2)?;
    let width = width::<L>()?;
    for i in 0..size(d, 1) / L::BYTES {
        let at = m.address().map(|a| a.wrapping_add((i * L::BYTES) as u64));
        let lane = Vector::arrange(L::BYTES, |k| source.byte(i * L::BYTES + k));
        match chosen::<L>(&mask, i) {
            Some(false) => {}
            Some(true) => m.store(at, width, lane.word(0))?,
            None => m.store(at, width, Word::unknown(width))?,
        }
    }
    Ok(Flow::Next)
}

/// `maskmovdqu`: chosen bytes, to where rdi points. Processors may raise an exception for the bytes
/// that are not chosen, too, and even where none is.
fn store_bytes(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let instruction = d.instruction();
    let address = match instruction.op0_kind() {
        OpKind::MemorySegRDI => Width::B64,
        OpKind::MemorySegEDI => Width::B32,
        _ => return Err(StopReason::Unsupported),
    };
    let base = m.segment_base(instruction.memory_segment());
    let start = m.part(RDI, address).all().zip(base);
    let start = start.map(|(offset, base)| offset.wrapping_add(base));
    match start {
        Some(start) => m.check_stores(start, size(d, 1) as u64)?,
        None => m.check_unknown()?,
    }
    let source = read(m, d, 1)?;
    let mask = read(m, d, 2)?;
    for i in 0..size(d, 1) {
        let at = start.map(|start| start.wrapping_add(i as u64));
        let byte = Word::of(Width::B8, source.byte(i).map(u64::from));
        match chosen::<u8>(&mask, i) {
            Some(false) => {}
            Some(true) => m.store(at, Width::B8, byte)?,
            None => m.store(at, Width::B8, Word::unknown(Width::B8))?,
        }
    }
    Ok(Flow::Next)
}

/// Loads of lanes from a base and an index each, where the mask's sign is set; the mask is clear
/// when all is loaded. `I` is the type of the indices, sign-extended.
fn gather<L: Lane, I: Lane + Into<i64>>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let instruction = d.instruction();
    let mask = read(m, d, 2)?;
    let old = read(m, d, 0)?;
    let count = (size(d, 0) / L::BYTES).min(instruction.memory_index().size() / I::BYTES);
    let (width, places) = (width::<L>()?, LaneAddresses::of(m, instruction));
    // Some lanes may have been loaded before the window began.
    m.accesses_more();
    let mut result = Vector::ZERO;
    for i in 0..count {
        let lane = match chosen::<L>(&mask, i) {
            Some(false) => old.lane::<L>(i),
            Some(true) => Vector::from_word(m.load(places.at::<I>(i), width)?).lane(0),
            None => {
                m.check_unknown()?;
                None
            }
        };
        result.set_lane(i, lane);
    }
    m.registers.vectors[number(instruction.op_register(2))] = Vector::ZERO;
    write(m, d, 0, &result)
}

pub(super) fn handler(mnemonic: Mnemonic) -> Option<Handler> {
    use Mnemonic as M;
    let handler: Handler = match mnemonic {
        M::Vmaskmovps | M::Vpmaskmovd => move_lanes::<u32>,
        M::Vmaskmovpd | M::Vpmaskmovq => move_lanes::<u64>,
        M::Maskmovdqu | M::Vmaskmovdqu => store_bytes,
        M::Vgatherdps | M::Vpgatherdd => gather::<u32, i32>,
        M::Vgatherdpd | M::Vpgatherdq => gather::<u64, i32>,
        M::Vgatherqps | M::Vpgatherqd => gather::<u32, i64>,
        M::Vgatherqpd | M::Vpgatherqq => gather::<u64, i64>,
        _ => return None,
    };
    Some(handler)
}
