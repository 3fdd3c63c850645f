//! A window along prepared instructions.

use super::form::{Kind, Op};
use super::store::Traces;
use super::work::Places;
use crate::exec::muldiv::multiplied;
use crate::exec::shape::Binary;
use crate::exec::shift_rotate::{SHIFT, shifted};
use crate::machine::{Flow, Machine, RAX, check_canonical};
use crate::parameter::{Capture, Parameter};
use crate::rflags::Flags;
use crate::stop::StopReason;
use crate::window::{
    Call, Code, End, Fetched, Memory, Sink, State, Window, call, execute, follow_stubs, go_on,
};
use crate::word::{Width, Word};

impl Window {
    /// As [`run_on`](Self::run_on), through instructions that windows before it left prepared, and
    /// with the host's memory and sink called directly. What is told, and what is left in the state,
    /// is the same. Allocates nothing.
    #[inline(never)]
    pub fn run_traced<C: Code, M: Memory, S: Sink>(
        &self,
        state: &mut State,
        traces: &mut Traces,
        code: &mut C,
        memory: &mut M,
        sink: &mut S,
    ) -> End {
        let registers = &state.registers;
        if registers.single_step || registers.alignment_checked {
            return self.run_on(state, code, memory, sink);
        }
        traces.begin(code.epoch(), self.capture);
        let mut machine = Machine::new(state, memory, sink, self.capture);
        let (mut instructions, mut likely) = (0, 0);
        let stop = loop {
            if instructions >= self.max_instructions {
                break StopReason::Complete;
            }
            let found = traces.find(machine.registers.rip, likely);
            let op = found.and_then(|index| Some((index, traces.get(index)?)));
            let done = match op {
                Some((index, op)) if op.kind != Kind::General => {
                    let op = *op;
                    match machine.run_prepared(&op) {
                        Ok(None) => {
                            likely = index + 1;
                            Ok(())
                        }
                        Ok(Some(flow)) => {
                            let done = machine.depart(&op, &flow, traces, code);
                            let to = machine.registers.rip;
                            likely = index + 1;
                            if done.is_ok() && to != op.next() {
                                likely = op.link as usize;
                                if let Some(at) = traces.find(to, likely).filter(|at| *at != likely)
                                {
                                    traces.link(index, at);
                                    likely = at;
                                }
                            }
                            done
                        }
                        Err(reason) => Err(reason),
                    }
                }
                _ => {
                    likely = found.map_or(traces.len(), |index| index) + 1;
                    machine.lend(|machine| general(machine, traces, code, found.is_none()))
                }
            };
            match done {
                Ok(()) => instructions += 1,
                Err(reason) => break reason,
            }
        };
        End { instructions, stop }
    }
}

/// One instruction that is fetched and interpreted by its handler. `is_new`: it is to be prepared.
#[inline(never)]
fn general<C: Code>(
    machine: &mut Machine<'_>,
    traces: &mut Traces,
    code: &mut C,
    is_new: bool,
) -> Result<(), StopReason> {
    let pc = machine.registers.rip;
    let fetched = code.fetch(pc);
    let Fetched {
        instruction,
        bias,
        mark,
    } = match fetched {
        Ok(fetched) => fetched,
        Err(reason) => return Err(reason),
    };
    let prepared = is_new.then(|| Op::new(instruction, (pc, bias, mark), machine.capture));
    let next = pc.wrapping_add(instruction.len() as u64);
    let done = execute(machine, instruction, (pc, bias, mark));
    traces.check(code.epoch());
    if let Some(op) = prepared
        && code.keeps()
    {
        traces.add(op);
    }
    let done = go_on(machine, code, next, done);
    traces.check(code.epoch());
    done
}

impl<M: Memory, S: Sink> Machine<'_, M, S> {
    /// Runs a prepared instruction and tells its values; where it leads, if not to the next one.
    #[inline(always)]
    fn run_prepared(&mut self, op: &Op) -> Result<Option<Flow>, StopReason> {
        self.pc = op.pc;
        self.sink.reached(op.pc, op.mark);
        if self.has_written(op.pc, usize::from(op.len)) {
            return Err(StopReason::PageWritten);
        }
        self.address = if op.has_address { self.sum(op) } else { None };
        if op.kind as u8 >= Kind::Jcc as u8 {
            return self.transfer(op).map(Some);
        }
        self.compute(op)?;
        match (op.tells_address, op.tells_written) {
            (false, false) => {}
            (true, false) => self.tell(op, &[(Parameter::Ea, self.address)]),
            (false, true) => self.tell(op, &[self.written(op)]),
            (true, true) => self.tell(op, &[(Parameter::Ea, self.address), self.written(op)]),
        }
        self.registers.rip = op.next();
        Ok(None)
    }

    #[inline(always)]
    fn tell(&mut self, op: &Op, events: &[(Parameter, Option<u64>)]) {
        self.sink.values(op.pc, events);
    }

    #[inline(always)]
    fn written(&self, op: &Op) -> (Parameter, Option<u64>) {
        let value = self.part(usize::from(op.a), op.width).all();
        (Parameter::Dest(op.written), value)
    }

    /// Instructions that the next one follows.
    #[inline(always)]
    fn compute(&mut self, op: &Op) -> Result<(), StopReason> {
        use Kind as K;
        use Places::{MX, RM, RX};
        let add = |flags: &mut Flags, width, a, b| flags.add(width, a, b, Some(false));
        let sub = |flags: &mut Flags, width, a, b| flags.sub(width, a, b, Some(false));
        match op.kind {
            K::Nop => Ok(()),
            K::MovRX => self.moving(op, RX, |value| value),
            K::MovRM => self.moving(op, RM, |value| value),
            K::MovMX => self.moving(op, MX, |value| value),
            K::MovzxRX => self.moving(op, RX, |value| value),
            K::MovzxRM => self.moving(op, RM, |value| value),
            K::MovsxRX => self.moving(op, RX, |value| value.sign_extend(op.from, op.width)),
            K::MovsxRM => self.moving(op, RM, |value| value.sign_extend(op.from, op.width)),
            K::Lea => {
                let offset = match self.address {
                    Some(address) => Word::known(address),
                    None => self.partial_sum(op),
                };
                self.put(op, offset.truncate(op.width));
                Ok(())
            }
            K::AddRX => self.binary(op, RX, Binary::PLAIN, add),
            K::AddRM => self.binary(op, RM, Binary::PLAIN, add),
            K::AddMX => self.binary(op, MX, Binary::PLAIN, add),
            K::SubRX => self.binary(op, RX, Binary::SELF_CANCELS, sub),
            K::SubRM => self.binary(op, RM, Binary::SELF_CANCELS, sub),
            K::SubMX => self.binary(op, MX, Binary::SELF_CANCELS, sub),
            K::CmpRX => self.binary(op, RX, Binary::COMPARES, sub),
            K::CmpRM => self.binary(op, RM, Binary::COMPARES, sub),
            K::CmpMX => self.binary(op, MX, Binary::COMPARES, sub),
            K::AndRX => self.logic(op, RX, Binary::PLAIN, |a, b| a & b),
            K::AndRM => self.logic(op, RM, Binary::PLAIN, |a, b| a & b),
            K::AndMX => self.logic(op, MX, Binary::PLAIN, |a, b| a & b),
            K::OrRX => self.logic(op, RX, Binary::PLAIN, |a, b| a | b),
            K::OrRM => self.logic(op, RM, Binary::PLAIN, |a, b| a | b),
            K::OrMX => self.logic(op, MX, Binary::PLAIN, |a, b| a | b),
            K::XorRX => self.logic(op, RX, Binary::SELF_CANCELS, |a, b| a ^ b),
            K::XorRM => self.logic(op, RM, Binary::SELF_CANCELS, |a, b| a ^ b),
            K::XorMX => self.logic(op, MX, Binary::SELF_CANCELS, |a, b| a ^ b),
            K::TestRX => self.logic(op, RX, Binary::TESTS, |a, b| a & b),
            K::TestMX => self.logic(op, MX, Binary::TESTS, |a, b| a & b),
            K::Shl => self.shift(op, Flags::shl),
            K::Shr => self.shift(op, Flags::shr),
            K::Sar => self.shift(op, Flags::sar),
            K::Inc => self.unary(op, Flags::inc),
            K::Dec => self.unary(op, Flags::dec),
            K::Neg => self.unary(op, Flags::neg),
            K::Not => self.unary(op, |_, width, a| (!a).truncate(width)),
            K::ImulRX => self.binary(op, RX, Binary::PLAIN, multiplied),
            K::ImulRM => self.binary(op, RM, Binary::PLAIN, multiplied),
            K::CmovRX => self.moving_if(op, RX),
            K::CmovRM => self.moving_if(op, RM),
            K::Setcc => {
                let holds = self.registers.rflags.condition(op.condition);
                self.put(op, Word::of(Width::B8, holds.map(u64::from)));
                Ok(())
            }
            K::Push => {
                let value = self.source(op, Width::B64);
                self.push(Width::B64, value)
            }
            K::Pop => {
                let value = self.pop(Width::B64)?;
                self.put(op, value);
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

    #[inline(always)]
    fn shift(
        &mut self,
        op: &Op,
        apply: impl FnOnce(&mut Flags, Width, Word, u32) -> Word,
    ) -> Result<(), StopReason> {
        let (width, value) = (op.width, self.part(usize::from(op.a), op.width));
        let count = self.source(op, Width::B8).all();
        let result = shifted(self.flags(), width, &SHIFT, value, count, apply);
        self.put(op, result);
        Ok(())
    }

    /// Instructions that lead elsewhere.
    #[inline(always)]
    fn transfer(&mut self, op: &Op) -> Result<Flow, StopReason> {
        match op.kind {
            Kind::Jcc => {
                let taken = self.registers.rflags.condition(op.condition);
                if self.capture.meets(Capture::BRANCH) {
                    self.tell(op, &[(Parameter::Taken, taken.map(u64::from))]);
                }
                let target = op.immediate;
                Ok(Flow::Branch { taken, target })
            }
            Kind::Jmp => Ok(Flow::Jump(op.immediate)),
            _ => self.transfer_far(op),
        }
    }

    /// Calls, returns, and indirect jumps.
    #[inline(never)]
    fn transfer_far(&mut self, op: &Op) -> Result<Flow, StopReason> {
        let flow = match op.kind {
            Kind::Ret => {
                let to = self.pop(Width::B64)?.all();
                to.map_or(Ok(()), check_canonical)?;
                self.tell_returned(op);
                return Ok(Flow::Return(to));
            }
            Kind::Call => {
                self.push(Width::B64, Word::known(op.next()))?;
                return Ok(Flow::Call {
                    target: Some(op.immediate),
                    indirect: false,
                });
            }
            _ => {
                let target = match op.kind {
                    Kind::JmpM | Kind::CallM => self.load(self.address, Width::B64)?.all(),
                    _ => self.part(usize::from(op.a), Width::B64).all(),
                };
                target.map_or(Ok(()), check_canonical)?;
                match op.kind {
                    Kind::CallM | Kind::CallR => {
                        self.push(Width::B64, Word::known(op.next()))?;
                        Flow::Call {
                            target,
                            indirect: true,
                        }
                    }
                    _ => Flow::JumpIndirect(target),
                }
            }
        };
        let target = match flow {
            Flow::Call { target, .. } | Flow::JumpIndirect(target) => target,
            _ => None,
        };
        let ea = (Parameter::Ea, self.address);
        let to = (Parameter::Target, target);
        match (op.tells_address, self.capture.meets(Capture::TARGET)) {
            (true, true) => self.tell(op, &[ea, to]),
            (true, false) => self.tell(op, &[ea]),
            (false, true) => self.tell(op, &[to]),
            (false, false) => {}
        }
        Ok(flow)
    }

    fn tell_returned(&mut self, op: &Op) {
        let value = (Parameter::Ret, self.registers.gpr[RAX].all());
        let vector = self.registers.vectors[0].word(0).all();
        let vector = (Parameter::VectorRet, vector);
        let wanted = [Capture::RET, Capture::VECTOR].map(|kind| self.capture.meets(kind));
        match wanted {
            [true, true] => self.tell(op, &[value, vector]),
            [true, false] => self.tell(op, &[value]),
            [false, true] => self.tell(op, &[vector]),
            [false, false] => {}
        }
    }

    /// Goes where a prepared instruction leads, and tells that.
    #[inline(always)]
    fn depart<C: Code>(
        &mut self,
        op: &Op,
        flow: &Flow,
        traces: &Traces,
        code: &mut C,
    ) -> Result<(), StopReason> {
        self.registers.rip = match *flow {
            Flow::Branch { taken, target } => {
                self.sink.branch(op.pc, taken);
                match taken.ok_or(StopReason::UnknownBranch)? {
                    true => target,
                    false => op.next(),
                }
            }
            _ => self.depart_far(op, flow, traces, code)?,
        };
        Ok(())
    }

    #[inline(never)]
    fn depart_far<C: Code>(
        &mut self,
        op: &Op,
        flow: &Flow,
        traces: &Traces,
        code: &mut C,
    ) -> Result<u64, StopReason> {
        let unknown = StopReason::UnknownTarget;
        let to = match *flow {
            Flow::Next | Flow::Branch { .. } => op.next(),
            Flow::Jump(target) => {
                let jump = self.call_of(op, Some(target), false);
                self.sink.jump(&jump);
                target
            }
            Flow::JumpIndirect(target) => {
                let target = target.ok_or(unknown)?;
                self.sink.went(op.pc, target);
                let jump = self.call_of(op, Some(target), true);
                self.sink.jump(&jump);
                target
            }
            Flow::Call { target, indirect } => {
                let end = target.map(|target| match traces.is_no_stub(target) {
                    true => target,
                    false => self.lend(|machine| follow_stubs(machine, code, target)),
                });
                let call = self.call_of(op, end, indirect);
                self.sink.call(&call);
                let target = target.ok_or(unknown)?;
                if indirect {
                    self.sink.went(op.pc, target);
                }
                target
            }
            Flow::Return(target) => {
                let target = target.ok_or(unknown)?;
                self.sink.returned(op.pc);
                self.sink.went(op.pc, target);
                target
            }
        };
        Ok(to)
    }

    #[inline(always)]
    fn call_of(&self, op: &Op, target: Option<u64>, indirect: bool) -> Call {
        call(self.registers, self.capture, op.pc, target, indirect)
    }
}
