//! Prepared transfers of control: where they lead, and what they tell.

use super::{Op, PreparedKind, Traces};
use crate::code::Code;
use crate::host::{Call, Memory, Sink};
use crate::machine::{Flow, Machine, RAX, check_canonical};
use crate::stop::StopReason;
use crate::window::{call, follow_stubs};
use crate::word::{Width, Word};
use parameters::{Parameter, ValueKinds};

impl<M: Memory, S: Sink> Machine<'_, M, S> {
    /// A conditional branch.
    #[inline(always)]
    pub(super) fn branch(&mut self, op: &Op) -> Result<Option<u64>, StopReason> {
        let taken = self.registers.rflags.condition(op.condition);
        if self.capture.meets(ValueKinds::BRANCH) {
            self.tell(op, &[(Parameter::Taken, taken.map(u64::from))]);
        }
        self.sink.branch(op.pc, taken);
        let taken = taken.ok_or(StopReason::UnknownBranch)?;
        Ok(taken.then_some(op.immediate))
    }

    /// Jumps, calls and returns.
    #[inline(never)]
    pub(super) fn transfer(&mut self, op: &Op) -> Result<Flow, StopReason> {
        let flow = match op.kind {
            PreparedKind::Jmp => return Ok(Flow::Jump(op.immediate)),
            PreparedKind::Ret => {
                let to = self.pop(Width::B64)?.all();
                to.map_or(Ok(()), check_canonical)?;
                self.tell_returned(op);
                return Ok(Flow::Return(to));
            }
            PreparedKind::Call => {
                self.push(Width::B64, Word::known(op.next()))?;
                return Ok(Flow::Call {
                    target: Some(op.immediate),
                    indirect: false,
                });
            }
            _ => {
                let target = match op.kind {
                    PreparedKind::JmpM | PreparedKind::CallM => {
                        self.address = self.sum(op);
                        self.load(self.address, Width::B64)?.all()
                    }
                    _ => self.part(usize::from(op.a), Width::B64).all(),
                };
                target.map_or(Ok(()), check_canonical)?;
                match op.kind {
                    PreparedKind::CallM | PreparedKind::CallR => {
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
        match (op.tells_address, self.capture.meets(ValueKinds::TARGET)) {
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
        let wanted = [ValueKinds::RET, ValueKinds::VECTOR].map(|kind| self.capture.meets(kind));
        match wanted {
            [true, true] => self.tell(op, &[value, vector]),
            [true, false] => self.tell(op, &[value]),
            [false, true] => self.tell(op, &[vector]),
            [false, false] => {}
        }
    }

    /// Goes where a prepared instruction leads, and tells that.
    #[inline(never)]
    pub(super) fn depart<C: Code>(
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
                let end = target.map(|target| match traces.is_no_stub(target, code) {
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
