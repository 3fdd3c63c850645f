//! The call site of an interrupted function: where its return address lies, and what calls there.
//!
//! Unwind rules say where the return address lies. Where a PC has none, its code does (`flow`).
//! The frame pointer alone is no evidence: a function without a frame of its own has that of its
//! caller in rbp, and code that was compiled without frame pointers has anything there. Either
//! way a call stands before a return address; where there are no rules, the call must also be one
//! that can have led to the PC.

use addresses::{Bias, ImageAddress, ReturnAddress};
use sampler::{CapturedFrame, FrameSource};

use crate::address_space::AddressSpace;
use crate::flow::CallProof;
use crate::images::Call;
use crate::place::Pc;
use crate::unwind::Slot;
use crate::window::SampleMemory;

/// The longest call instruction: prefixes, opcode, ModRM, SIB, displacement.
const MAX_CALL: usize = 9;
/// Words at the top of the stack that are tried where the code does not say where the return
/// address lies.
const TOP_WORDS: u64 = 4;
/// Bytes of code at a PC that are compared with what is known.
const MOST_SEEN: usize = 64;
/// Number of rsp among the general registers.
const RSP: usize = 4;
/// Number of rbp.
const RBP: usize = 5;

/// A sample, as far as its call site depends on it.
pub struct Interrupted<'a, 'm, 'v> {
    /// The sampled process.
    pub space: &'a AddressSpace<'v>,
    /// Its memory as of the interrupt.
    pub memory: &'a SampleMemory<'m, 'v>,
    /// Its registers as of the interrupt.
    pub registers: &'a sampler::Registers,
    /// The interrupted instruction.
    pub pc: Pc,
    /// How its image lies in the process.
    pub bias: Bias,
    /// The caller that the handler found.
    pub frame: Option<CapturedFrame>,
}

/// What a slot of the stack holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// A word, which may be a return address.
    Word(ReturnAddress),
    /// It lies above what was copied of the stack.
    Beyond,
    Unknown,
}

impl Interrupted<'_, '_, '_> {
    /// The call site, if it is known. The flag says that what is needed lies above what was
    /// copied of the stack.
    pub fn call_site(self) -> (Option<Pc>, bool) {
        let slot = match self.slot() {
            Slot::NoRules => return self.by_code(),
            Slot::NoCaller => return (None, false),
            Slot::At(slot) => Some(slot),
            Slot::Beyond => None,
        };
        let held = match self.by_row() {
            Some(to) => Held::Word(to),
            None => slot.map_or(Held::Beyond, |slot| self.word(slot)),
        };
        match held {
            Held::Word(to) => (self.call_before(to), false),
            Held::Beyond => (None, true),
            Held::Unknown => (None, false),
        }
    }

    /// Where the unwind rules say that the return address lies.
    fn slot(&self) -> Slot {
        let mut images = self.space.images.borrow_mut();
        // Rules may name the PC.
        let process_address = self.bias.in_process(self.pc.address);
        let gpr = &self.registers.gpr;
        let memory = self.memory;
        let read = |address, bytes| match bytes {
            8 => memory.stack_word(address),
            _ => None,
        };
        if let Some(rules) = images.unwind(self.pc.image) {
            return rules.return_slot(self.pc.address, process_address, gpr, read);
        }
        match images.lacks_rules(self.pc.image) {
            // Where there may be rules, all else would be a guess.
            true => Slot::NoCaller,
            false => Slot::NoRules,
        }
    }

    /// The return address that the handler found by a row, which follows from the same rules.
    fn by_row(&self) -> Option<ReturnAddress> {
        let frame = self.frame.filter(|frame| frame.source == FrameSource::Row);
        frame.map(|frame| frame.return_address)
    }

    /// What a slot of the stack holds, by the copy of the stack, or by the handler where it
    /// followed the frame pointer to this very slot.
    fn word(&self, slot: u64) -> Held {
        if let Some(word) = self.memory.stack_word(slot) {
            return Held::Word(ReturnAddress::of_word(word));
        }
        let frame = self
            .frame
            .filter(|frame| frame.source == FrameSource::FramePointer);
        match frame {
            Some(frame) if slot == self.registers.gpr[RBP].wrapping_add(8) => {
                Held::Word(frame.return_address)
            }
            // Only from the stack: a return address is nowhere else.
            _ if slot >= self.memory.stack_start => Held::Beyond,
            _ => Held::Unknown,
        }
    }

    fn call_before(&self, to: ReturnAddress) -> Option<Pc> {
        call_before(self.space, to).map(|call| call.site)
    }

    /// Whether code that the process makes is what the interrupt met at the PC, as far as it
    /// brought that.
    fn is_as_seen(&self) -> bool {
        let Some(captured) = self
            .memory
            .captured
            .filter(|_| self.space.is_generated_code(self.pc.image))
        else {
            return true;
        };
        let (_, code) = captured.pieces().numbered_code(self.registers.ip);
        let mut known = [0; MOST_SEEN];
        let known = &mut known[..code.len().min(MOST_SEEN)];
        let read = self.space.read_made(self.registers.pc(), known);
        known[..read] == code[..read]
    }

    /// The call site by the code at the PC.
    fn by_code(&self) -> (Option<Pc>, bool) {
        if !self.is_as_seen() {
            return (None, false);
        }
        let exits = self.space.exits(self.pc);
        let mut beyond = false;
        let mut possible = Vec::new();
        for exit in &exits {
            let slot = exit.slot(&self.registers.gpr);
            let held = match self.by_row() {
                Some(to) if exits.len() == 1 && self.space.was_told(self.pc, exit) => {
                    Held::Word(to)
                }
                _ => self.word(slot),
            };
            match held {
                Held::Word(to) => {
                    let candidate = self.candidate(slot, to);
                    // Two exits may name one slot.
                    possible.extend(candidate.filter(|found| !possible.contains(found)));
                }
                Held::Beyond => beyond = true,
                Held::Unknown => {}
            }
        }
        // Ways to a return that contradict each other lead behind calls that never come back.
        if exits.is_empty() {
            possible.extend(self.proven_tops());
        }
        let proven: Vec<&(Pc, CallProof)> = possible
            .iter()
            .filter(|(_, verdict)| *verdict == CallProof::Proven)
            .collect();
        let site = match (proven.as_slice(), possible.as_slice()) {
            ([(site, _)], _) => Some(*site),
            ([], [(site, _)]) if !beyond => Some(*site),
            _ => None,
        };
        (site, beyond && site.is_none())
    }

    /// The call that a word in a slot may be the return address of, unless it cannot have led to
    /// the PC.
    fn candidate(&self, slot: u64, to: ReturnAddress) -> Option<(Pc, CallProof)> {
        let call = call_before(self.space, to)?;
        let verdict = match call.target() {
            None => CallProof::Possible,
            Some(target) => {
                let leads = self.space.leads(target, self.pc);
                leads.verdict(slot, &self.registers.gpr)
            }
        };
        (verdict != CallProof::Disproved).then_some((call.site, verdict))
    }

    /// Where no way leads to a return: what the frame pointer and the top of the stack show, as
    /// far as the call proves it.
    fn proven_tops(&self) -> Vec<(Pc, CallProof)> {
        let gpr = &self.registers.gpr;
        let tops = (0..TOP_WORDS).map(|word| gpr[RSP].wrapping_add(8 * word));
        let framed = gpr[RBP].wrapping_add(8);
        let slots = tops.filter(|slot| *slot != framed).chain([framed]);
        let mut found = Vec::new();
        for slot in slots {
            if let Held::Word(to) = self.word(slot)
                && let Some(candidate) = self.candidate(slot, to)
                && candidate.1 == CallProof::Proven
            {
                found.push(candidate);
            }
        }
        found
    }
}

/// The call instruction before a return address, if there is one.
pub fn call_before(space: &AddressSpace<'_>, to: ReturnAddress) -> Option<Call> {
    let located = space.locate(to.within_call())?;
    if !located.mapping.executable {
        return None;
    }
    let (image, bias) = (located.pc.image, located.bias);
    let behind = bias.in_image(to.landing());
    let start = ImageAddress(behind.0.wrapping_sub(MAX_CALL as u64));
    let mut code = [0; MAX_CALL];
    let call_in = |code| {
        let (address, target) = call_at_end(code, start.0)?;
        let address = ImageAddress(address);
        Some(Call {
            site: Pc { image, address },
            names: target.map(ImageAddress),
        })
    };
    if located.mapping.is_anon() {
        let is_known = space.is_generated_code(image)
            && space.read_made(bias.in_process(start), &mut code) == MAX_CALL;
        return is_known.then(|| call_in(&code)).flatten();
    }
    let mut images = space.images.borrow_mut();
    if let Some(known) = images.calls.get(image, behind) {
        return known;
    }
    if images.read(image, start, &mut code) != MAX_CALL {
        return None;
    }
    let call = call_in(&code);
    images.calls.put(image, behind, call);
    call
}

/// The call instruction that ends where `code` ends: its address, and the target that it names.
fn call_at_end(code: &[u8; MAX_CALL], start: u64) -> Option<(u64, Option<u64>)> {
    use iced_x86::{Decoder, DecoderOptions, FlowControl};

    let ends = |length: usize| {
        let at = MAX_CALL - length;
        let address = start.wrapping_add(at as u64);
        let mut decoder = Decoder::with_ip(64, &code[at..], address, DecoderOptions::NONE);
        let instruction = decoder.decode();
        if instruction.len() != length {
            return None;
        }
        match instruction.flow_control() {
            FlowControl::Call if instruction.is_call_near() => {
                Some((address, Some(instruction.near_branch_target())))
            }
            FlowControl::IndirectCall => Some((address, None)),
            _ => None,
        }
    };
    // The near relative call first: by far the most frequent.
    const NEAR: usize = 5;
    if code[MAX_CALL - NEAR] == 0xe8 {
        return ends(NEAR);
    }
    // Of the indirect ones the longest that fits: a shorter one is often the longer without its
    // prefix.
    (2..=MAX_CALL).rev().find_map(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length_of(call: &[u8]) -> Option<u64> {
        let mut code = [0x90; MAX_CALL];
        code[MAX_CALL - call.len()..].copy_from_slice(call);
        let (address, _) = call_at_end(&code, 0x1000)?;
        Some(0x1000 + MAX_CALL as u64 - address)
    }

    /// The call before a return address is found whatever its form; what is no call is none.
    #[test]
    fn calls_before_a_return_address() {
        assert_eq!(length_of(&[0xe8, 1, 2, 3, 4]), Some(5));
        assert_eq!(length_of(&[0xff, 0xd0]), Some(2)); // call rax
        assert_eq!(length_of(&[0x41, 0xff, 0xd4]), Some(3)); // call r12
        assert_eq!(length_of(&[0xff, 0x15, 1, 2, 3, 4]), Some(6)); // call [rip+x]
        assert_eq!(length_of(&[0xff, 0x54, 0x24, 0x08]), Some(4)); // call [rsp+8]
        assert_eq!(length_of(&[0x48, 0x89, 0xc3]), None);
        assert_eq!(length_of(&[0x0f, 0x05]), None); // syscall
        assert_eq!(length_of(&[]), None);
    }

    /// A direct call names its target, an indirect one does not.
    #[test]
    fn targets_of_calls() {
        let target_of = |call: &[u8]| {
            let mut code = [0x90; MAX_CALL];
            code[MAX_CALL - call.len()..].copy_from_slice(call);
            call_at_end(&code, 0x1000)?.1
        };
        assert_eq!(target_of(&[0xe8, 0x10, 0, 0, 0]), Some(0x1019));
        assert_eq!(target_of(&[0xff, 0xd0]), None);
    }
}
