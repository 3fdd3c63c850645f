//! Which exceptions a process has handlers for, where no interrupt told: the engine `ring`.
//!
//! `/proc/PID/status` tells of now. An answer is good for samples before it: a handler that was
//! there once is taken to be there until the program ends. One that comes and goes between two
//! looks is not seen. Of a process that is gone nothing is known.

use interpreter::Handlers;
use sampler::{Pid, SignalHandlers};

use crate::host::Host;
use crate::system::procfs::{self, Pagemap};

/// What was seen of the handlers of one process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signals {
    /// All that were seen, and the time before the last look.
    seen: Option<(SignalHandlers, u64)>,
}

impl Signals {
    /// The handlers of a process at a sample of that time. `stack` is the stack pointer of a sample
    /// whose stack could be read.
    pub(crate) fn at(
        &mut self,
        pid: Pid,
        time: u64,
        stack: Option<u64>,
        host: &mut Host,
    ) -> Handlers {
        if let Some((seen, looked)) = self.seen
            && looked >= time
        {
            return of_program(seen);
        }
        let Some((new, looked)) = host.handlers(pid, || look(pid, stack?)) else {
            return Handlers::UNKNOWN;
        };
        let before = self
            .seen
            .map_or_else(SignalHandlers::default, |seen| seen.0);
        let all = SignalHandlers {
            access: before.access || new.access,
            float: before.float || new.float,
            keys: before.keys || new.keys,
        };
        self.seen = Some((all, looked));
        of_program(all)
    }
}

/// What the interpreter is to know of them.
pub fn of_program(of: SignalHandlers) -> Handlers {
    let SignalHandlers {
        access,
        float,
        keys,
    } = of;
    Handlers {
        access,
        float,
        keys: access && keys,
    }
}

/// Looks now, if the process is still the sampled program: each exec draws another place for the
/// stack, so the stack is looked for behind the handlers.
fn look(pid: Pid, stack: u64) -> Option<(SignalHandlers, u64)> {
    let now = sampler::clock_now();
    let found = procfs::handlers(pid)?;
    Pagemap::open(pid)?.has_stack(stack).then_some((found, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This very process can be looked at; another program's stack is not in it. What was seen once
    /// stays, and serves earlier samples without a look.
    #[test]
    fn own_handlers() {
        let pid = Pid(std::process::id());
        let local = 0_u64;
        let stack = Some(&raw const local as u64);
        let mut signals = Signals::default();
        let unknown = signals.at(pid, 1, Some(0x1000), &mut Host::Live);
        assert_eq!(unknown, Handlers::UNKNOWN);
        assert_eq!(signals.at(pid, 1, None, &mut Host::Live), Handlers::UNKNOWN);
        let found = signals.at(pid, 1, stack, &mut Host::Live);
        let mut nobody = Host::Replayed(rustc_hash::FxHashMap::default());
        assert_eq!(signals.at(pid, 1, None, &mut nobody), found);
        assert_eq!(
            signals.at(pid, u64::MAX, None, &mut nobody),
            Handlers::UNKNOWN
        );
        let float = SignalHandlers {
            float: true,
            ..SignalHandlers::default()
        };
        signals.seen = Some((float, 0));
        assert!(signals.at(pid, 1, stack, &mut Host::Live).float);
    }
}
