//! From what the interpreter says of a window to events of the program.
//!
//! The interpreter knows instructions and process addresses. Here they get their place in an image,
//! and calls their sense: which call a function runs for, whether a jump stays in its function,
//! calls another one in place of a return, or only leads through a stub to where a call goes.

mod accesses;
mod loaded;

use addresses::ProcessAddress;
use interpreter::{Parameter, Sink, ValueKinds};

pub(crate) use self::accesses::Accesses;
use consumers::events::{
    Arguments, At, Call, Consumer, Context, Ending, Event, Load, PcId, Shared, SiteId, Store,
    Target,
};
use machine::address_space::AddressSpace;
use machine::place::Pc;

/// Makes the events of one window.
#[derive(Debug)]
pub(crate) struct Stage<'a, 'v, C> {
    space: &'a AddressSpace<'v>,
    shared: &'a mut Shared,
    consumers: &'a mut C,
    window: Context,
    /// The kinds of values that are wanted.
    capture: ValueKinds,
    /// Instructions reached.
    depth: u32,
    /// The instruction that the window is at, with its site.
    current: Option<(u64, SiteId)>,
    /// Call sites of the frames of this window, the innermost last; `None`: not known.
    callers: &'a mut Vec<Option<PcId>>,
    /// Loads and stores, the instruction that did the last of them, and the call site of the
    /// function that this is in.
    accesses: &'a mut Accesses,
    accessor: (u64, Option<PcId>),
    /// Where the last call ends up: a jump there is its stub's.
    called: Option<u64>,
    /// The last jump, if it led to no function: it may have led to a stub.
    front: Option<Front>,
    /// An indirect transfer at this PC, which is a jump unless a call is reported next.
    transfer: Option<(u64, Option<u64>)>,
    /// What depends on vector registers is left out.
    leaves_vectors: bool,
    /// The instruction that the window is at depends on vector registers.
    reads_vectors: bool,
    /// So does the one before it, or the last one before branches: a branch here goes by what that
    /// made of them.
    behind_vectors: bool,
    /// The instruction that the window is at is a conditional branch.
    branches: bool,
    /// Values that no consumer was told of.
    left_out: u64,
}

/// A jump that led to no function's entry.
#[derive(Debug, Clone, Copy)]
struct Front {
    /// Process address of the jump.
    site: u64,
    /// Where it led.
    target: u64,
}

impl Front {
    /// Whether a jump at this address is the first that runs behind this one, as the jump of a stub
    /// is, which may have a landing pad of four bytes.
    fn leads_to(self, jump: u64) -> bool {
        matches!(jump.wrapping_sub(self.target), 0 | 4)
    }
}

impl<'a, 'v, C: Consumer> Stage<'a, 'v, C> {
    /// Begins a window in the function that was called from `caller`. The first of `room` is for
    /// the call sites of the window, the second for its loads and stores.
    pub(crate) fn begin(
        space: &'a AddressSpace<'v>,
        (shared, consumers): (&'a mut Shared, &'a mut C),
        (callers, accesses): (&'a mut Vec<Option<PcId>>, &'a mut Accesses),
        caller: Option<PcId>,
        capture: ValueKinds,
        window: Context,
    ) -> Self {
        accesses.begin(capture);
        callers.clear();
        callers.push(caller);
        consumers.begins(shared, &window);
        Self {
            space,
            shared,
            consumers,
            window,
            capture,
            depth: 0,
            current: None,
            callers,
            accesses,
            accessor: (0, caller),
            called: None,
            front: None,
            transfer: None,
            leaves_vectors: false,
            reads_vectors: false,
            behind_vectors: false,
            branches: false,
            left_out: 0,
        }
    }

    /// Leaves out what depends on vector registers: the sample is none of those that tell it.
    pub(crate) fn leave_vectors_out(&mut self) {
        self.leaves_vectors = true;
    }

    /// Ends the window; how many values were left out because they depend on vector registers.
    pub(crate) fn end(mut self, ending: &Ending) -> u64 {
        if self.accesses.is_on() && ending.instructions >= self.depth {
            self.settle_accesses();
        }
        self.settle_jump();
        self.consumers.ends(self.shared, &self.window, ending);
        self.left_out
    }

    /// Tells of those of an instruction's values that depend on no vector register.
    #[cold]
    fn leave_out(&mut self, site: Option<SiteId>, events: &[Event]) {
        for event in events {
            if self.is_left_out(event.0) {
                self.left_out += 1;
                continue;
            }
            self.tell(site, |consumers, shared, at| {
                consumers.values(shared, at, std::slice::from_ref(event));
            });
        }
    }

    /// Whether a value of the present instruction is left out.
    fn is_left_out(&self, parameter: Parameter) -> bool {
        self.leaves_vectors
            && match parameter {
                Parameter::Ea | Parameter::Base => false,
                Parameter::Stride | Parameter::Line | Parameter::Reload => false,
                Parameter::VectorRet => true,
                Parameter::Taken => self.behind_vectors,
                _ => self.reads_vectors,
            }
    }

    /// Where a word of the interpreter's leads.
    fn place(&self, word: u64) -> Option<Pc> {
        self.space.place(ProcessAddress(word))
    }

    fn site(&mut self, address: u64) -> Option<SiteId> {
        if let Some((known, site)) = self.current
            && known == address
        {
            return Some(site);
        }
        let pc = self.place(address)?;
        self.shared.site(self.window.owner, pc)
    }

    fn target(&mut self, place: Option<Pc>) -> Target {
        match place {
            None => Target::Unknown,
            Some(place) => self.shared.pc(place).map_or(Target::NoRoom, Target::Known),
        }
    }

    /// Tells consumers of an event at an instruction.
    #[inline(always)]
    fn tell(&mut self, site: Option<SiteId>, event: impl FnOnce(&mut C, &mut Shared, &At<'_>)) {
        let at = At {
            window: &self.window,
            site,
            depth: self.depth,
            caller: self.callers.last().copied().flatten(),
        };
        event(self.consumers, self.shared, &at);
    }

    /// Tells what the accesses of the last instruction say, which is done. The window may be in
    /// another function by now.
    #[cold]
    fn settle_accesses(&mut self) {
        let (pc, caller) = self.accessor;
        let found = self.accesses.settle(pc);
        let at = At {
            window: &self.window,
            site: self.current_site(pc),
            depth: self.depth,
            caller,
        };
        for event in found.events() {
            if self.is_left_out(event.0) {
                self.left_out += 1;
                continue;
            }
            let event = std::slice::from_ref(event);
            self.consumers.values(self.shared, &at, event);
        }
    }

    /// Tells of the last indirect transfer as a jump, if no call was reported for it.
    fn settle_jump(&mut self) {
        let Some((pc, target)) = self.transfer.take() else {
            return;
        };
        let target = target.and_then(|target| self.place(target));
        let at = self.site(pc);
        if let Some(site) = at.and_then(|at| self.shared.pc_of(at)) {
            let target = self.target(target);
            self.tell(at, |consumers, shared, at| {
                consumers.jump(shared, at, site, target);
            });
        }
    }

    /// Tells of a call; the index of its site.
    fn tell_call(
        &mut self,
        at: Option<SiteId>,
        callee: Option<Pc>,
        call: &interpreter::Call,
        is_tail_call: bool,
    ) -> Option<PcId> {
        let site = self.shared.pc_of(at?)?;
        // What is handed to a denied image is as secret as what it makes of it.
        let wanted = self.capture.contains(ValueKinds::ARGS)
            && callee.is_none_or(|pc| !self.space.is_denied(pc));
        let others = callee.map(|pc| self.space.other_arguments(pc));
        let wants_vectors = wanted && self.capture.contains(ValueKinds::VECTOR);
        if wants_vectors && callee.is_some() && self.leaves_vectors {
            self.left_out += call.vector_arguments.len() as u64;
        }
        let event = Call {
            site,
            callee: self.target(callee),
            is_tail_call,
            arguments: wanted.then_some(Arguments {
                registers: call,
                others,
                vectors: (wants_vectors && !self.leaves_vectors).then_some(&call.vector_arguments),
                with_strings: self.capture.contains(ValueKinds::STRING),
            }),
        };
        self.tell(at, |consumers, shared, at| {
            consumers.call(shared, at, &event);
        });
        Some(site)
    }
}

impl<C: Consumer> Sink for Stage<'_, '_, C> {
    fn reached(&mut self, pc: u64, mark: u32) {
        if self.accesses.is_on() {
            self.settle_accesses();
            self.accessor = (pc, self.callers.last().copied().flatten());
            self.accesses.reached(self.depth + 1);
        }
        if self.transfer.is_some() {
            self.settle_jump();
        }
        self.depth += 1;
        if !self.branches {
            self.behind_vectors = self.reads_vectors;
        }
        (self.reads_vectors, self.branches) = (false, false);
        let place = self.place(pc);
        let owner = self.window.owner;
        let site = place.and_then(|place| self.shared.marked_site(owner, place, mark));
        self.current = site.map(|site| (pc, site));
        self.tell(site, |consumers, shared, at| {
            consumers.instruction(shared, at);
        });
    }

    fn reads_vectors(&mut self) {
        self.reads_vectors = true;
    }

    fn value(&mut self, pc: u64, parameter: Parameter, value: Option<u64>) {
        self.values(pc, &[(parameter, value)]);
    }

    fn values(&mut self, pc: u64, events: &[Event]) {
        for &(parameter, value) in events {
            match parameter {
                Parameter::Target => self.transfer = Some((pc, value)),
                Parameter::Taken => self.branches = true,
                _ => {}
            }
        }
        let site = self.site(pc);
        if self.leaves_vectors && events.iter().any(|event| self.is_left_out(event.0)) {
            return self.leave_out(site, events);
        }
        self.tell(site, |consumers, shared, at| {
            consumers.values(shared, at, events);
        });
    }

    fn branch(&mut self, pc: u64, taken: Option<bool>) {
        let site = self.site(pc);
        self.tell(site, |consumers, shared, at| {
            consumers.branch(shared, at, taken);
        });
    }

    fn call(&mut self, call: &interpreter::Call) {
        (self.transfer, self.front) = (None, None);
        self.called = call.target;
        let site = self.site(call.site);
        let callee = call.target.and_then(|target| self.place(target));
        let site = self.tell_call(site, callee, call, false);
        self.callers.push(site);
    }

    fn jump(&mut self, jump: &interpreter::Call) {
        let front = self.front.take();
        if self.called == jump.target {
            return;
        }
        let Some((to, from)) = jump
            .target
            .and_then(|target| Some((self.place(target)?, self.place(jump.site)?)))
        else {
            return;
        };
        // A jump to the entry of another function is a call that returns to the caller's caller.
        if self.space.is_entry(to) && !self.space.is_same_function(from, to) {
            // A stub only leads on: who jumped to it calls.
            let front = front.filter(|front| jump.indirect && front.leads_to(jump.site));
            let front = front.and_then(|front| self.place(front.site));
            let front = front.filter(|front| !self.space.is_same_function(*front, from));
            if front.is_none() {
                self.transfer = None;
            }
            let site = self.shared.site(self.window.owner, front.unwrap_or(from));
            self.tell_call(site, Some(to), jump, true);
            return;
        }
        self.front = jump.target.map(|target| Front {
            site: jump.site,
            target,
        });
    }

    fn returned(&mut self, pc: u64) {
        self.tell(self.current_site(pc), |consumers, shared, at| {
            consumers.returns(shared, at);
        });
        self.callers.pop();
    }

    fn went(&mut self, pc: u64, destination: u64) {
        self.tell(self.current_site(pc), |consumers, shared, at| {
            consumers.leads(shared, at, ProcessAddress(destination));
        });
    }

    fn load(&mut self, pc: u64, address: Option<u64>, bytes: u32, value: Option<u64>) {
        if self.accesses.is_on() {
            self.accesses.load(address, bytes);
        }
        let load = Load {
            address,
            bytes,
            value,
        };
        self.tell(self.current_site(pc), |consumers, shared, at| {
            consumers.load(shared, at, &load);
        });
    }

    fn store(&mut self, pc: u64, address: Option<u64>, bytes: u32, value: Option<u64>) {
        if self.accesses.is_on() {
            self.accesses.store(address, bytes, value.is_some());
        }
        let store = Store {
            address,
            bytes,
            value,
        };
        self.tell(self.current_site(pc), |consumers, shared, at| {
            consumers.store(shared, at, &store);
        });
    }

    fn stored_over(&mut self, _: u64, is_same: Option<bool>) {
        self.accesses.stored_over(is_same);
    }

    fn accesses_more(&mut self, _: u64) {
        if self.accesses.is_on() {
            self.accesses.more();
        }
    }

    fn system_call(&mut self, pc: u64, values: &[Event; 7]) {
        self.tell(self.current_site(pc), |consumers, shared, at| {
            consumers.system_call(shared, at, values);
        });
    }
}

impl<C> Stage<'_, '_, C> {
    /// The site of the instruction that the window is at.
    #[inline]
    fn current_site(&self, pc: u64) -> Option<SiteId> {
        let (known, site) = self.current?;
        (known == pc).then_some(site)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stub's jump is the first instruction behind the jump to it, or the second one.
    #[test]
    fn jumps_of_stubs() {
        let front = Front {
            site: 0x1000,
            target: 0x2000,
        };
        let of = [0x1fff, 0x2000, 0x2001, 0x2004, 0x2008];
        let leads = of.map(|jump| front.leads_to(jump));
        assert_eq!(leads, [false, true, false, true, false]);
    }
}
