//! From the code of an image to micro-operations: along the ways that lead on from an instruction.

use std::collections::VecDeque;

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind};
use rustc_hash::FxHashMap;

use super::emit::{Address, Emitter, RSP, T0, T1};
use super::operations::{condition, translate};
use super::wire::Uop;
use crate::decode::{Decoded, Support};

/// Code that was translated at one go.
#[derive(Clone, Debug, Default)]
pub struct Translation {
    /// The micro-operations, the first of which has the number that was asked for.
    pub uops: Vec<Uop>,
    /// Image addresses of the instructions, and the numbers that they begin with.
    pub starts: Vec<(u64, u32)>,
}

/// Bytes that the handler reads at once, from a multiple of them on.
const LINE: u64 = 64;

/// Translates code. What it makes depends on nothing but what it is given; it only keeps its
/// allocations.
pub struct Translator {
    factory: InstructionInfoFactory,
}

impl Default for Translator {
    fn default() -> Self {
        Self {
            factory: InstructionInfoFactory::new(),
        }
    }
}

/// Where code is wanted, and where it is.
struct Walk<'a> {
    first: u32,
    emitter: Emitter,
    starts: FxHashMap<u64, u32>,
    order: Vec<(u64, u32)>,
    /// Image addresses that ways lead to, the function's own before those of calls.
    near: VecDeque<u64>,
    far: VecDeque<u64>,
    /// Jumps whose targets are not translated yet: the micro-operation, and where to.
    open: Vec<(usize, u64)>,
    known: &'a dyn Fn(u64) -> Option<u32>,
}

impl Translator {
    /// Translates from an image address on, along all ways, up to about `most` instructions.
    ///
    /// `first` is the number of the first micro-operation; `known` says with which number an
    /// instruction begins that is translated already; `fetch` decodes the one at an image address.
    pub fn translate(
        &mut self,
        start: u64,
        first: u32,
        most: usize,
        known: &dyn Fn(u64) -> Option<u32>,
        fetch: &mut dyn FnMut(u64) -> Option<Decoded>,
    ) -> Translation {
        let mut walk = Walk {
            first,
            emitter: Emitter::default(),
            starts: FxHashMap::default(),
            order: Vec::new(),
            near: VecDeque::from([start]),
            far: VecDeque::new(),
            open: Vec::new(),
            known,
        };
        while walk.order.len() < most {
            let Some(at) = walk.near.pop_front().or_else(|| walk.far.pop_front()) else {
                break;
            };
            if walk.number(at).is_none() {
                self.run(&mut walk, at, most, fetch);
            }
        }
        walk.close();
        Translation {
            uops: walk.emitter.uops,
            starts: walk.order,
        }
    }

    /// A straight run of code, to where it ends or is translated already.
    fn run(
        &mut self,
        walk: &mut Walk<'_>,
        start: u64,
        most: usize,
        fetch: &mut dyn FnMut(u64) -> Option<Decoded>,
    ) {
        walk.emitter.flags = None;
        let mut at = start;
        loop {
            if let Some(number) = walk.number(at) {
                return walk.jump(at, number);
            }
            // A run that is begun may go on a bit: it mostly ends soon.
            if walk.order.len() >= 2 * most {
                return walk.go(at);
            }
            let begins = walk.next_number();
            let Some(decoded) = fetch(at) else {
                return walk.emitter.end();
            };
            let i = *decoded.instruction();
            walk.starts.insert(at, begins);
            walk.order.push((at, begins));
            if let Support::Stops(_) = decoded.support() {
                return walk.emitter.end();
            }
            let next = at.wrapping_add(i.len() as u64);
            walk.bring(at, next - 1);
            match i.flow_control() {
                FlowControl::Next => {
                    translate(&mut walk.emitter, &i, &mut self.factory);
                    at = next;
                }
                _ => match walk.leave(&i, next) {
                    Some(to) => at = to,
                    None => return,
                },
            }
        }
    }
}

impl Walk<'_> {
    fn next_number(&self) -> u32 {
        // There are at most a few thousand.
        self.first.wrapping_add(self.emitter.uops.len() as u32)
    }

    fn number(&self, at: u64) -> Option<u32> {
        self.starts.get(&at).copied().or_else(|| (self.known)(at))
    }

    /// Has the code of an instruction brought along, with the line that it begins, or goes on in.
    /// Whoever comes to it has brought the line before.
    fn bring(&mut self, first: u64, last: u64) {
        let line = last / LINE * LINE;
        if (first.is_multiple_of(LINE) || first / LINE != last / LINE)
            && let Ok(value) = i32::try_from(line)
        {
            self.emitter.touch(Address::at(Uop::BIAS, value), 1);
        }
    }

    /// A jump to an image address whose translation has that number.
    fn jump(&mut self, to: u64, target: u32) {
        match i32::try_from(to) {
            Ok(value) => self.emitter.push(Uop {
                code: Uop::JUMP,
                value,
                target,
                ..Uop::default()
            }),
            Err(_) => self.emitter.end(),
        }
    }

    /// Goes on at an image address that may be translated by then.
    fn go(&mut self, at: u64) {
        match i32::try_from(at) {
            Ok(value) => self.emitter.push(Uop {
                code: Uop::GO,
                value,
                ..Uop::default()
            }),
            Err(_) => self.emitter.end(),
        }
    }

    /// A jump of that form to an image address.
    fn jump_to(&mut self, uop: Uop, to: u64) {
        let Ok(value) = i32::try_from(to) else {
            return self.emitter.end();
        };
        let uop = Uop { value, ..uop };
        match self.number(to) {
            Some(target) => self.emitter.push(Uop { target, ..uop }),
            None => {
                self.open.push((self.emitter.uops.len(), to));
                self.emitter.push(uop);
            }
        }
    }

    /// An instruction behind which the next one need not come; where the run goes on, if it does.
    fn leave(&mut self, i: &Instruction, next: u64) -> Option<u64> {
        let near =
            (i.op_count() > 0 && i.op0_kind() == OpKind::NearBranch64).then(|| i.near_branch64());
        match i.flow_control() {
            FlowControl::ConditionalBranch => {
                let to = near?;
                let uop = match condition(i) {
                    Some(condition) => {
                        self.emitter.carry_is_wanted(condition);
                        Uop {
                            code: Uop::JUMP_IF,
                            scale: condition,
                            ..Uop::default()
                        }
                    }
                    None if i.mnemonic() == Mnemonic::Jrcxz => Uop {
                        code: Uop::JUMP_IF_ZERO,
                        a: 1,
                        ..Uop::default()
                    },
                    None => {
                        self.emitter.end();
                        return None;
                    }
                };
                self.jump_to(uop, to);
                self.near.push_back(to);
                Some(next)
            }
            FlowControl::UnconditionalBranch => near.or_else(|| {
                self.emitter.end();
                None
            }),
            FlowControl::IndirectBranch => {
                let target = self.emitter.source(i, 0, T0);
                self.go_to(target);
                None
            }
            FlowControl::Call => {
                let Some(to) = near else {
                    self.emitter.end();
                    return None;
                };
                self.call(next);
                self.near.push_back(next);
                self.jump_to(
                    Uop {
                        code: Uop::JUMP,
                        ..Uop::default()
                    },
                    to,
                );
                self.far.push_back(to);
                None
            }
            FlowControl::IndirectCall => {
                let target = self.emitter.source(i, 0, T1);
                self.call(next);
                self.near.push_back(next);
                self.go_to(target);
                None
            }
            FlowControl::Return => {
                let beyond = match i.op_count() {
                    0 => 0,
                    _ => i32::from(i.immediate16()),
                };
                self.emitter.load(T0, Address::at(RSP, 0), 8, 8, Uop::WHOLE);
                self.emitter.move_stack(8 + beyond);
                self.go_to(Some((T0, 8)));
                None
            }
            _ => {
                self.emitter.end();
                None
            }
        }
    }

    fn call(&mut self, next: u64) {
        let Ok(value) = i32::try_from(next) else {
            return self.emitter.end();
        };
        self.emitter.lea(T0, Address::at(Uop::BIAS, value), 8);
        self.emitter.store(T0, Address::at(RSP, -8), 8);
        self.emitter.move_stack(-8);
    }

    fn go_to(&mut self, target: Option<(u8, u8)>) {
        match target {
            Some((a, 8)) => self.emitter.push(Uop {
                code: Uop::GO_TO,
                a,
                ..Uop::default()
            }),
            _ => self.emitter.end(),
        }
    }

    /// Jumps that wait for their targets lead there, or to where it is looked for them.
    fn close(&mut self) {
        let mut elsewhere = FxHashMap::default();
        for (uop, to) in std::mem::take(&mut self.open) {
            let target = match self.number(to) {
                Some(number) => number,
                None => *elsewhere.entry(to).or_insert_with(|| {
                    let number = self.first.wrapping_add(self.emitter.uops.len() as u32);
                    let uop = match i32::try_from(to) {
                        Ok(value) => Uop {
                            code: Uop::GO,
                            value,
                            ..Uop::default()
                        },
                        Err(_) => Uop::default(),
                    };
                    self.emitter.uops.push(uop);
                    number
                }),
            };
            if let Some(uop) = self.emitter.uops.get_mut(uop) {
                uop.target = target;
            }
        }
    }
}
