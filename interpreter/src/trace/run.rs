//! A window along prepared instructions.

mod transfers;

use super::form::{BY_HANDLERS, Op};
use super::store::Traces;
use super::work::width;
use crate::code::{Code, Fetched};
use crate::exec::muldiv::multiplied;
use crate::exec::shape::Binary;
use crate::host::{Memory, Sink};
use crate::machine::Machine;
use crate::overlay::page_tag;
use crate::prepared_kind::{OperandPlaces, PreparedKind};
use crate::rflags::{Flag, Flags};
use crate::state::WindowState;
use crate::stop::StopReason;
use crate::window::{End, Window, execute, go_on};
use crate::word::{Width, Word};
use parameters::Parameter;

impl Window {
    /// As [`run_on`](Self::run_on), through instructions that windows before it left prepared.
    /// Calls the host's memory and sink directly. Tells the same, and leaves the same in the
    /// state. Allocates nothing.
    #[inline(never)]
    pub fn run_traced<C: Code, M: Memory, S: Sink>(
        &self,
        state: &mut WindowState,
        traces: &mut Traces,
        code: &mut C,
        memory: &mut M,
        sink: &mut S,
    ) -> End {
        let registers = &state.registers;
        let watched = registers.single_step || registers.alignment_checked;
        if watched || BY_HANDLERS.meets(self.capture) {
            return self.run_on(state, code, memory, sink);
        }
        traces.begin(code.epoch(), self.capture);
        if traces.is_empty() && !code.repeats() {
            return self.run_on(state, code, memory, sink);
        }
        let mut machine = Machine::new(state, memory, sink, self.capture);
        let (mut instructions, mut likely) = (0, 0);
        let stop = loop {
            if instructions >= self.max_instructions {
                break StopReason::Complete;
            }
            let found = traces.find(machine.registers.rip, likely);
            let done = match found {
                Some((index, op))
                    if op.kind != PreparedKind::General && traces.holds(index, op, code) =>
                {
                    let most = self.max_instructions - instructions;
                    let row = machine.follow(traces, code, index, most);
                    instructions += row.instructions;
                    likely = row.last + 1;
                    if row.strayed
                        && let Some(to) = traces.link(row.last, machine.registers.rip)
                    {
                        likely = to;
                    }
                    row.done
                }
                _ => {
                    let place = match found {
                        Some((index, op)) if op.kind == PreparedKind::General => {
                            OpPlace::Kept(index)
                        }
                        Some((index, _)) => OpPlace::Stale(index),
                        None => OpPlace::None,
                    };
                    likely = match place {
                        OpPlace::Kept(index) | OpPlace::Stale(index) => index + 1,
                        OpPlace::None => traces.len() + 1,
                    };
                    let done = machine.lend(|machine| general(machine, traces, code, place));
                    instructions += u32::from(done.is_ok());
                    done
                }
            };
            if let Err(reason) = done {
                break reason;
            }
        };
        End { instructions, stop }
    }
}

/// How far a row of prepared instructions was followed.
struct Followed {
    /// Instructions that were interpreted to their end.
    instructions: u32,
    /// Where the op of the last instruction is.
    last: usize,
    /// The last instruction led to another place than the last time.
    strayed: bool,
    done: Result<(), StopReason>,
}

/// Where the op of an instruction is that is its handler's.
#[derive(Clone, Copy)]
enum OpPlace {
    /// The op says so.
    Kept(usize),
    /// The op is of other code.
    Stale(usize),
    /// The instruction has no op.
    None,
}

/// One instruction that is fetched and interpreted by its handler; it is prepared where that is to
/// be done.
#[inline(never)]
fn general<C: Code>(
    machine: &mut Machine<'_>,
    traces: &mut Traces,
    code: &mut C,
    place: OpPlace,
) -> Result<(), StopReason> {
    let pc = machine.registers.rip;
    let is_new = !matches!(place, OpPlace::Kept(_)) && code.repeats();
    let Fetched {
        instruction,
        bias,
        mark,
    } = code.fetch(pc)?;
    let prepared = is_new.then(|| Op::new(instruction, (pc, bias, mark), machine.capture));
    let next = pc.wrapping_add(instruction.len() as u64);
    let done = execute(machine, instruction, (pc, bias, mark));
    traces.check(code.epoch());
    if let Some(op) = prepared
        && code.keeps()
    {
        let instead = match place {
            OpPlace::Kept(index) | OpPlace::Stale(index) => Some(index),
            OpPlace::None => None,
        };
        traces.keep(op, code.code(), instead);
    }
    let done = go_on(machine, code, next, done);
    traces.check(code.epoch());
    done
}

impl<M: Memory, S: Sink> Machine<'_, M, S> {
    /// Runs the instructions of the row from an index on: to one that is its handler's, that no op
    /// is known behind, or that ends the window; at most so many.
    #[inline(always)]
    fn follow<C: Code>(
        &mut self,
        traces: &Traces,
        code: &mut C,
        index: usize,
        most: u32,
    ) -> Followed {
        let ops = traces.row();
        let (mut at, mut last, mut instructions) = (index, index, 0);
        let (mut strayed, mut done) = (false, Ok(()));
        while let Some(op) = ops.get(at) {
            if instructions == most
                || op.kind == PreparedKind::General
                || !traces.holds(at, op, code)
            {
                self.registers.rip = op.pc;
                break;
            }
            last = at;
            let went = match self.run_prepared(op, traces, code) {
                Ok(went) => went,
                Err(reason) => {
                    self.registers.rip = op.pc;
                    done = Err(reason);
                    break;
                }
            };
            instructions += 1;
            let to = match went {
                None if op.continues => {
                    at += 1;
                    continue;
                }
                None if op.kind == PreparedKind::Jcc => {
                    self.registers.rip = op.next();
                    break;
                }
                None => op.next(),
                Some(to) => to,
            };
            at = op.link as usize;
            strayed = ops.get(at).is_none_or(|op| !traces.is_of(op, to));
            if strayed {
                self.registers.rip = to;
                break;
            }
        }
        Followed {
            instructions,
            last,
            strayed,
            done,
        }
    }

    /// Runs a prepared instruction and tells its values; where it leads, if not to the next one.
    #[inline(always)]
    fn run_prepared<C: Code>(
        &mut self,
        op: &Op,
        traces: &Traces,
        code: &mut C,
    ) -> Result<Option<u64>, StopReason> {
        self.pc = op.pc;
        self.sink.reached(op.pc, op.mark);
        if !self.overlay.is_clear_page(page_tag(op.pc))
            && self.has_written(op.pc, usize::from(op.len))
        {
            return Err(StopReason::PageWritten);
        }
        if op.kind < PreparedKind::Jcc {
            match op.width {
                Width::B64 => self.run_plain::<8>(op)?,
                Width::B32 => self.run_plain::<4>(op)?,
                _ => self.run_plain::<0>(op)?,
            }
            return Ok(None);
        }
        if op.kind == PreparedKind::Jcc {
            return self.branch(op);
        }
        let flow = self.transfer(op)?;
        self.depart(op, &flow, traces, code).map(Some)
    }

    /// Runs an instruction that the next one follows. `W` is the width of its operation in bytes;
    /// 0: the record says it.
    #[inline(always)]
    fn run_plain<const W: usize>(&mut self, op: &Op) -> Result<(), StopReason> {
        self.address = if op.has_address { self.sum(op) } else { None };
        let loaded = match op.loads {
            true => self.fetch_operand::<W>(op)?,
            false => Word::ZERO,
        };
        self.compute::<W>(op, loaded)?;
        match (op.tells_address, op.tells_written) {
            (false, false) => {}
            (true, false) => self.tell(op, &[(Parameter::Ea, self.address)]),
            (false, true) => self.tell(op, &[self.written::<W>(op)]),
            (true, true) => {
                self.tell(op, &[(Parameter::Ea, self.address), self.written::<W>(op)]);
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn tell(&mut self, op: &Op, events: &[(Parameter, Option<u64>)]) {
        self.sink.values(op.pc, events);
    }

    #[inline(always)]
    fn written<const W: usize>(&self, op: &Op) -> (Parameter, Option<u64>) {
        let value = self.part(usize::from(op.a), width::<W>(op)).all();
        (Parameter::Dest(op.written), value)
    }

    /// Instructions that the next one follows.
    #[inline(always)]
    fn compute<const W: usize>(&mut self, op: &Op, loaded: Word) -> Result<(), StopReason> {
        use PreparedKind as K;
        let [rx, rm, mx] = [OperandPlaces::RX, OperandPlaces::RM, OperandPlaces::MX]
            .map(|places| (places, loaded));
        let add = |flags: &mut Flags, width, a, b| flags.add(width, a, b, Some(false));
        let sub = |flags: &mut Flags, width, a, b| flags.sub(width, a, b, Some(false));
        match op.kind {
            K::Nop => Ok(()),
            K::MovRX => self.moving::<W>(op, rx, |value| value),
            K::MovRM => self.moving::<W>(op, rm, |value| value),
            K::MovMX => self.moving::<W>(op, mx, |value| value),
            K::MovzxRX => self.moving::<W>(op, rx, |value| value),
            K::MovzxRM => self.moving::<W>(op, rm, |value| value),
            K::MovsxRX => {
                self.moving::<W>(op, rx, |value| value.sign_extend(op.from, width::<W>(op)))
            }
            K::MovsxRM => {
                self.moving::<W>(op, rm, |value| value.sign_extend(op.from, width::<W>(op)))
            }
            K::Lea => {
                let offset = match self.address {
                    Some(address) => Word::known(address),
                    None => self.partial_sum(op),
                };
                self.put::<W>(op, offset.truncate(width::<W>(op)));
                Ok(())
            }
            K::AddRX => self.binary::<W>(op, rx, Binary::PLAIN, add),
            K::AddRM => self.binary::<W>(op, rm, Binary::PLAIN, add),
            K::AddMX => self.binary::<W>(op, mx, Binary::PLAIN, add),
            K::SubRX => self.binary::<W>(op, rx, Binary::SELF_CANCELS, sub),
            K::SubRM => self.binary::<W>(op, rm, Binary::SELF_CANCELS, sub),
            K::SubMX => self.binary::<W>(op, mx, Binary::SELF_CANCELS, sub),
            K::AdcRX => self.binary::<W>(op, rx, Binary::PLAIN, with_carry(Flags::add)),
            K::AdcRM => self.binary::<W>(op, rm, Binary::PLAIN, with_carry(Flags::add)),
            K::SbbRX => self.binary::<W>(op, rx, Binary::SELF_CANCELS, with_carry(Flags::sub)),
            K::SbbRM => self.binary::<W>(op, rm, Binary::SELF_CANCELS, with_carry(Flags::sub)),
            K::CmpRX => self.binary::<W>(op, rx, Binary::COMPARES, sub),
            K::CmpRM => self.binary::<W>(op, rm, Binary::COMPARES, sub),
            K::CmpMX => self.binary::<W>(op, mx, Binary::COMPARES, sub),
            K::AndRX => self.logic::<W>(op, rx, Binary::PLAIN, |a, b| a & b),
            K::AndRM => self.logic::<W>(op, rm, Binary::PLAIN, |a, b| a & b),
            K::AndMX => self.logic::<W>(op, mx, Binary::PLAIN, |a, b| a & b),
            K::OrRX => self.logic::<W>(op, rx, Binary::PLAIN, |a, b| a | b),
            K::OrRM => self.logic::<W>(op, rm, Binary::PLAIN, |a, b| a | b),
            K::OrMX => self.logic::<W>(op, mx, Binary::PLAIN, |a, b| a | b),
            K::XorRX => self.logic::<W>(op, rx, Binary::SELF_CANCELS, |a, b| a ^ b),
            K::XorRM => self.logic::<W>(op, rm, Binary::SELF_CANCELS, |a, b| a ^ b),
            K::XorMX => self.logic::<W>(op, mx, Binary::SELF_CANCELS, |a, b| a ^ b),
            K::TestRX => self.logic::<W>(op, rx, Binary::TESTS, |a, b| a & b),
            K::TestMX => self.logic::<W>(op, mx, Binary::TESTS, |a, b| a & b),
            K::Shl => self.shift::<W>(op, Flags::shl),
            K::Shr => self.shift::<W>(op, Flags::shr),
            K::Sar => self.shift::<W>(op, Flags::sar),
            K::Inc => self.unary::<W>(op, Flags::inc),
            K::Dec => self.unary::<W>(op, Flags::dec),
            K::Neg => self.unary::<W>(op, Flags::neg),
            K::Not => self.unary::<W>(op, |_, width, a| (!a).truncate(width)),
            K::ImulRX => self.binary::<W>(op, rx, Binary::PLAIN, multiplied),
            K::ImulRM => self.binary::<W>(op, rm, Binary::PLAIN, multiplied),
            K::ImulRRI => self.multiply::<W>(op, rx),
            K::ImulRMI => self.multiply::<W>(op, rm),
            K::CmovRX => self.moving_if::<W>(op, rx),
            K::CmovRM => self.moving_if::<W>(op, rm),
            K::Setcc => {
                let holds = self.registers.rflags.condition(op.condition);
                self.put::<W>(op, Word::of(Width::B8, holds.map(u64::from)));
                Ok(())
            }
            K::VectorRM => self.load_vector(op),
            K::VectorMR => self.store_vector(op),
            K::VectorRR => {
                let from = &self.registers.vectors[usize::from(op.b & 15)];
                let halves = [from.word(0), from.word(1)];
                self.put_vector(op, halves);
                Ok(())
            }
            K::VectorZero => {
                self.put_vector(op, [Word::ZERO; 2]);
                Ok(())
            }
            K::Push => {
                let value = self.source(op, Width::B64);
                self.push(Width::B64, value)
            }
            K::Pop => {
                let value = self.pop(Width::B64)?;
                self.put::<W>(op, value);
                Ok(())
            }
            K::General
            | K::Jcc
            | K::Jmp
            | K::JmpR
            | K::JmpM
            | K::Call
            | K::CallR
            | K::CallM
            | K::Ret => Err(StopReason::Unsupported),
        }
    }
}

/// An operation that takes the carry in, too.
#[inline(always)]
fn with_carry(
    apply: impl Fn(&mut Flags, Width, Word, Word, Option<bool>) -> Word,
) -> impl FnOnce(&mut Flags, Width, Word, Word) -> Word {
    move |flags, width, a, b| {
        let carry = flags.get(Flag::Cf);
        apply(flags, width, a, b, carry)
    }
}
