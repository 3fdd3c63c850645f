//! The instructions of a function, from its image or from what the profile holds; and which
//! functions are the hottest.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::Instruction;
use profiledb::Places;

use crate::code::decode_in;
use crate::symbols::{Function, FunctionId};
use crate::view::{Heat, View};

/// Functions longer than this, in bytes, are cut off.
const MAX_FUNCTION: u64 = 4 << 20;
/// The hottest functions are so many at most.
const MOST: usize = 500;
/// Bytes of code that the hottest functions have at most.
const MOST_BYTES: u64 = 1 << 20;

/// An instruction of a function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FunctionInstruction {
    /// Its address in the image.
    pub(crate) address: u64,
    /// What it is, where its bytes are known.
    pub(crate) instruction: Option<Instruction>,
    /// Its index in the profile, if it was ever seen.
    pub(crate) pc: Option<usize>,
}

/// All instructions of a function by address if its image can be read, else those
/// that the profile saw. A PC of the profile that the disassembly does not meet
/// (code after data, or a jump into an instruction) is listed as well.
pub(crate) fn lines(view: &View<'_>, id: FunctionId) -> Vec<FunctionInstruction> {
    let seen = view.pcs_of(id);
    let mut lines: Vec<FunctionInstruction> = Vec::new();
    let Some(function) = view.symbols.function(id) else {
        return lines;
    };
    let mode = view.symbols.mode(function.image);
    if let Function {
        image,
        start: Some(start),
        end: Some(end),
        ..
    } = function
        && let Some(elf) = view.symbols.elf(*image)
    {
        let end = (*end).min(start.saturating_add(MAX_FUNCTION));
        let mut address = *start;
        while address < end {
            let Some(bytes) = elf.bytes(address) else {
                break;
            };
            let instruction = decode_in(mode, bytes, address);
            // Bytes that are no instruction are passed over one by one, in silence.
            if instruction.is_some() {
                lines.push(FunctionInstruction {
                    address,
                    instruction,
                    pc: seen.get(&address).copied(),
                });
            }
            let length = instruction.map_or(1, |instruction| instruction.len() as u64);
            address = address.saturating_add(length);
        }
    }
    let met: BTreeSet<u64> = lines.iter().map(|line| line.address).collect();
    for (address, index) in seen {
        if !met.contains(&address) {
            let pc = view.profile.pcs.get(index);
            let bytes = pc.and_then(|pc| pc.bytes.as_deref()).unwrap_or_default();
            lines.push(FunctionInstruction {
                address,
                instruction: decode_in(mode, bytes, address),
                pc: Some(index),
            });
        }
    }
    lines.sort_by_key(|line| line.address);
    lines
}

/// Where the instructions of some functions are.
pub(crate) fn places(view: &View<'_>, functions: &[FunctionId]) -> Places {
    let mut places = Places::default();
    for id in functions {
        let Some(function) = view.symbols.function(*id) else {
            continue;
        };
        let Some(image) = view.profile.images.get(function.image) else {
            continue;
        };
        match (function.start, function.end) {
            (Some(start), Some(end)) => places.add(image, start, end),
            // How far it reaches depends on which instructions are known.
            _ => places.add_all(image),
        }
    }
    places
}

/// The time in each function that a view asks for.
pub(crate) fn heat_of_functions(view: &View<'_>) -> BTreeMap<FunctionId, Heat> {
    let mut functions: BTreeMap<FunctionId, Heat> = BTreeMap::new();
    for (pc, heat) in view.heat.iter().enumerate() {
        if let Some(function) = view.symbols.function_of(pc).filter(|_| view.wants(pc)) {
            functions.entry(function).or_default().add(*heat);
        }
    }
    functions
}

/// The functions whose instructions a page or a bundle has at most: those with most cycles.
pub(crate) fn hottest(view: &View<'_>) -> Vec<FunctionId> {
    let mut order: Vec<(FunctionId, Heat)> = heat_of_functions(view).into_iter().collect();
    order.retain(|(_, heat)| heat.samples > 0);
    order.sort_by(|a, b| b.1.cycles.total_cmp(&a.1.cycles).then(a.0.cmp(&b.0)));
    let mut bytes = 0_u64;
    let mut hottest = Vec::new();
    for (id, _) in order.into_iter().take(MOST) {
        let function = view.symbols.function(id);
        let bounds = function.and_then(|function| function.start.zip(function.end));
        let size = bounds.map_or(0, |(start, end)| end.saturating_sub(start));
        bytes = bytes.saturating_add(size);
        if bytes > MOST_BYTES && !hottest.is_empty() {
            break;
        }
        hottest.push(id);
    }
    hottest
}
