//! What the collector asks the machine about processes: answered by `/proc`, or, when a recording
//! is replayed, as it was answered then.

mod looks;

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use sampler::{Pid, SignalHandlers};
use serde::{Deserialize, Serialize};

pub(crate) use self::looks::Look;
pub use self::looks::{Marks, PageLook, Region};
use crate::system::procfs::{self, Credentials, MapsLine, PageState};

/// A question about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Question {
    /// The name of the process.
    Comm,
    /// When it started.
    StartTime,
    /// What it has mapped.
    Maps,
    /// Its user and group ids.
    Credentials,
    /// The state of the page at this address.
    Page(u64),
    /// What lies around this address.
    Region(u64),
    /// Which exceptions it handles.
    Handlers,
    /// The code in the page at this address.
    Code(u64),
    /// Its pages that may raise exceptions.
    Guards,
    /// How many threads it has.
    Threads,
    /// When an access raised an exception last.
    Raised,
    /// The same around this address.
    RaisedAt(u64),
    /// Whether another process uses its memory.
    Sharers,
}

/// What was answered; `None`: there was no such process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The name of the process.
    Comm(Option<String>),
    /// When it started, in clock ticks from the boot on.
    StartTime(Option<u64>),
    /// The lines of its `maps`.
    Maps(Option<Vec<MapsLine>>),
    /// Its user and group ids.
    Credentials(Option<Credentials>),
    /// The address, and the state of its page.
    Page(u64, PageState),
    /// The address, and what lies around it, if that can be told.
    Region(u64, Option<Look>),
    /// The handlers of exceptions, and the time before they were looked at.
    Handlers(Option<(SignalHandlers, u64)>),
    /// The page, and the code that lay in it.
    Code(u64, Option<PageLook>),
    /// Pages that may raise exceptions, the time before they were looked for, and that of the next
    /// look.
    Guards(Option<(Marks, u64, u64)>),
    /// How many threads it has, and the times before and behind the look.
    Threads(Option<(u32, u64, u64)>),
    /// When an access raised an exception last, and the time before that was asked; `None`: nobody
    /// notes that.
    Raised(Option<(u64, u64)>),
    /// The address, and the same around it.
    RaisedAt(u64, Option<u64>),
    /// Whether another process uses its memory, and the times before and behind the look.
    Sharers(Option<(bool, u64, u64)>),
}

/// Where answers come from.
#[derive(Debug, Default)]
pub enum Host {
    /// From this machine, now.
    #[default]
    Live,
    /// From this machine, and kept to be written down.
    Noted(Vec<(Pid, Answer)>),
    /// From a recording: to each question in the order in which it was asked then.
    Replayed(FxHashMap<(Pid, Question), VecDeque<Answer>>),
}

impl Host {
    /// Whether it is this machine, as it is now.
    pub fn is_live(&self) -> bool {
        !matches!(self, Host::Replayed(_))
    }

    /// Name of a process.
    pub(crate) fn comm(&mut self, pid: Pid) -> Option<String> {
        match self.ask(pid, Question::Comm, || Answer::Comm(procfs::comm(pid))) {
            Some(Answer::Comm(comm)) => comm,
            _ => None,
        }
    }

    /// Start of a process in nanoseconds since boot, to the grain of a clock tick.
    pub(crate) fn start_time(&mut self, pid: Pid) -> Option<u64> {
        let live = || Answer::StartTime(procfs::start_time(pid));
        match self.ask(pid, Question::StartTime, live) {
            Some(Answer::StartTime(time)) => time,
            _ => None,
        }
    }

    /// Mappings of a process.
    pub(crate) fn maps(&mut self, pid: Pid) -> Option<Vec<MapsLine>> {
        match self.ask(pid, Question::Maps, || Answer::Maps(procfs::maps(pid))) {
            Some(Answer::Maps(maps)) => maps,
            _ => None,
        }
    }

    /// Credentials of a process.
    pub(crate) fn credentials(&mut self, pid: Pid) -> Option<Credentials> {
        let live = || Answer::Credentials(procfs::credentials(pid));
        match self.ask(pid, Question::Credentials, live) {
            Some(Answer::Credentials(credentials)) => credentials,
            _ => None,
        }
    }

    /// State of a page of a process; `live` looks at it.
    pub(crate) fn page(
        &mut self,
        pid: Pid,
        page: u64,
        live: impl FnOnce() -> PageState,
    ) -> PageState {
        let live = || Answer::Page(page, live());
        match self.ask(pid, Question::Page(page), live) {
            Some(Answer::Page(_, state)) => state,
            _ => PageState::Unknown,
        }
    }

    /// What lies around an address of a process; `live` looks at it.
    pub(crate) fn region(
        &mut self,
        pid: Pid,
        address: u64,
        live: impl FnOnce() -> Option<Look>,
    ) -> Option<Look> {
        let live = || Answer::Region(address, live());
        match self.ask(pid, Question::Region(address), live) {
            Some(Answer::Region(_, look)) => look,
            _ => None,
        }
    }

    /// The handlers of a process; `live` looks at them.
    pub(crate) fn handlers(
        &mut self,
        pid: Pid,
        live: impl FnOnce() -> Option<(SignalHandlers, u64)>,
    ) -> Option<(SignalHandlers, u64)> {
        let live = || Answer::Handlers(live());
        match self.ask(pid, Question::Handlers, live) {
            Some(Answer::Handlers(found)) => found,
            _ => None,
        }
    }

    /// The code in a page of a process; `live` looks at it.
    pub(crate) fn code(
        &mut self,
        pid: Pid,
        page: u64,
        live: impl FnOnce() -> Option<PageLook>,
    ) -> Option<PageLook> {
        let live = || Answer::Code(page, live());
        match self.ask(pid, Question::Code(page), live) {
            Some(Answer::Code(_, seen)) => seen,
            _ => None,
        }
    }

    /// Pages of a process that may raise exceptions; `live` looks for them.
    pub(crate) fn guards(
        &mut self,
        pid: Pid,
        live: impl FnOnce() -> Option<(Marks, u64, u64)>,
    ) -> Option<(Marks, u64, u64)> {
        let live = || Answer::Guards(live());
        match self.ask(pid, Question::Guards, live) {
            Some(Answer::Guards(found)) => found,
            _ => None,
        }
    }

    /// How many threads a process has, and the times before and behind the look; `live` counts.
    pub(crate) fn threads(
        &mut self,
        pid: Pid,
        live: impl FnOnce() -> Option<(u32, u64, u64)>,
    ) -> Option<(u32, u64, u64)> {
        let live = || Answer::Threads(live());
        match self.ask(pid, Question::Threads, live) {
            Some(Answer::Threads(found)) => found,
            _ => None,
        }
    }

    /// When an access of a process raised an exception last, and the time before that was asked;
    /// `live` asks.
    pub(crate) fn raised(
        &mut self,
        pid: Pid,
        live: impl FnOnce() -> Option<(u64, u64)>,
    ) -> Option<(u64, u64)> {
        let live = || Answer::Raised(live());
        match self.ask(pid, Question::Raised, live) {
            Some(Answer::Raised(found)) => found,
            _ => None,
        }
    }

    /// When one to the page around an address did; `live` asks.
    pub(crate) fn raised_at(
        &mut self,
        pid: Pid,
        address: u64,
        live: impl FnOnce() -> Option<u64>,
    ) -> Option<u64> {
        let live = || Answer::RaisedAt(address, live());
        match self.ask(pid, Question::RaisedAt(address), live) {
            Some(Answer::RaisedAt(_, found)) => found,
            _ => None,
        }
    }

    /// Whether another process uses the memory of one, and the times before and behind the look;
    /// `live` looks.
    pub(crate) fn sharers(
        &mut self,
        pid: Pid,
        live: impl FnOnce() -> Option<(bool, u64, u64)>,
    ) -> Option<(bool, u64, u64)> {
        let live = || Answer::Sharers(live());
        match self.ask(pid, Question::Sharers, live) {
            Some(Answer::Sharers(found)) => found,
            _ => None,
        }
    }

    /// What was answered since the last time, if that is kept.
    pub fn take_noted(&mut self) -> Vec<(Pid, Answer)> {
        match self {
            Host::Noted(answers) => std::mem::take(answers),
            Host::Live | Host::Replayed(_) => Vec::new(),
        }
    }

    /// Adds an answer of a recording.
    pub fn replay(&mut self, pid: Pid, answer: Answer) {
        if let Host::Replayed(answers) = self {
            let queue = answers.entry((pid, answer.question())).or_default();
            queue.push_back(answer);
        }
    }

    fn ask(
        &mut self,
        pid: Pid,
        question: Question,
        live: impl FnOnce() -> Answer,
    ) -> Option<Answer> {
        match self {
            Host::Live => Some(live()),
            Host::Noted(answers) => {
                let answer = live();
                answers.push((pid, answer.clone()));
                Some(answer)
            }
            Host::Replayed(answers) => answers.get_mut(&(pid, question))?.pop_front(),
        }
    }
}

impl Answer {
    fn question(&self) -> Question {
        match self {
            Answer::Comm(_) => Question::Comm,
            Answer::StartTime(_) => Question::StartTime,
            Answer::Maps(_) => Question::Maps,
            Answer::Credentials(_) => Question::Credentials,
            Answer::Page(page, _) => Question::Page(*page),
            Answer::Region(address, _) => Question::Region(*address),
            Answer::Handlers(_) => Question::Handlers,
            Answer::Code(page, _) => Question::Code(*page),
            Answer::Guards(_) => Question::Guards,
            Answer::Threads(_) => Question::Threads,
            Answer::Raised(_) => Question::Raised,
            Answer::RaisedAt(address, _) => Question::RaisedAt(*address),
            Answer::Sharers(_) => Question::Sharers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was noted is answered again in its order, and nothing else is.
    #[test]
    fn replays_what_was_noted() {
        let own = Pid(std::process::id());
        let mut noted = Host::Noted(Vec::new());
        let (comm, start) = (noted.comm(own), noted.start_time(own));
        let nobody = noted.comm(Pid(u32::MAX));
        assert!(comm.is_some() && start.is_some() && nobody.is_none());
        let mut replayed = Host::Replayed(FxHashMap::default());
        for (pid, answer) in noted.take_noted() {
            replayed.replay(pid, answer);
        }
        assert_eq!(replayed.start_time(own), start);
        assert_eq!(replayed.comm(own), comm);
        assert_eq!(replayed.comm(own), None);
        assert_eq!(replayed.maps(own), None);
        assert!(noted.take_noted().is_empty());
    }
}
