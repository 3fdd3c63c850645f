//! What the handler was given for a PC, and when another plan is worth making.

use sampler::{PlanFailure, PlanOutcome, Share};

use super::Lacked;

/// The plan that the handler has for a PC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    pub(super) tag: u32,
    /// The share of samples that it is for.
    pub(super) share: Share,
    /// When it was given, on the clock of the samples.
    pub(super) since: u64,
    /// Whether it may use the bases of FS and GS.
    pub(super) bases: [bool; 2],
    /// What it reads is looked at a second time.
    pub(super) looks_again: bool,
    /// It ends at code that was not at hand, which it has brought for the next one to follow.
    pub(super) open: bool,
    /// Plans made for this PC so far.
    made: u8,
    /// Windows that had it since it was given, and those in which it failed.
    windows: u16,
    failures: u16,
    /// How often its steps were put into another order, or left out.
    arranged: u8,
    /// Windows that lacked code or memory since it was made.
    lacks: u16,
    /// The tag of the last one that was made, whether it was given or came out the same.
    as_of: u32,
    /// The last one came out as it was before.
    settled: bool,
    /// A hash of what was given.
    print: u64,
}

/// Plans made for one PC, after which it keeps the last.
const MAX_MADE: u8 = 3;
/// Windows that lack memory, or code if the last plan came out as it was before, until one is made
/// anew: after the first plan twice as many, and twice as many again after each that follows.
const FIRST_LACKS: u16 = 2;
/// After so many failures, each time, something is done about the step that failed.
const FAILURES: u16 = 3;
/// Times that the steps of a plan are arranged anew.
const MAX_ARRANGED: u8 = 16;
/// How much larger the share of samples is for which a plan is evaluated than that of the windows
/// that are accepted, so that the one need not follow the other at every sample.
const SPARE: f64 = 1.15;
/// The share is set anew when it is this many times what it should be, below or above.
const RAISED_FROM: f64 = 0.93;
const LOWERED_FROM: f64 = 1.1;

impl Given {
    /// Before the first one is made.
    pub(super) fn new(tag: u32, bases: [bool; 2]) -> Self {
        Self {
            tag,
            share: Share::ALL,
            since: 0,
            bases,
            looks_again: false,
            open: false,
            made: 0,
            windows: 0,
            failures: 0,
            arranged: 0,
            lacks: 0,
            as_of: tag,
            settled: false,
            print: 0,
        }
    }

    /// One is made that would have this tag.
    pub(super) fn begin(&mut self, tag: u32) {
        self.as_of = tag;
        self.made = self.made.saturating_add(1);
        self.lacks = 0;
    }

    /// Whether the one that was made, of this hash, is the one that there was.
    pub(super) fn came_out_as(&mut self, print: u64) -> bool {
        self.settled = self.print == print;
        self.print = print;
        self.settled
    }

    /// Another one was given, which has this tag.
    pub(super) fn replace(&mut self, tag: u32) {
        (self.tag, self.windows, self.failures) = (tag, 0, 0);
    }

    /// Takes note of a window that had it.
    pub(super) fn took(&mut self) {
        if self.windows == u16::MAX {
            (self.windows, self.failures) = (self.windows / 2, self.failures / 2);
        }
        self.windows += 1;
    }

    /// Takes note that a step failed in the last one, and says whether something is to be done about it.
    pub(super) fn failed(&mut self) -> bool {
        self.failures += 1;
        self.failures.is_multiple_of(FAILURES) && self.arranged < MAX_ARRANGED
    }

    /// Takes note that its steps are put into another order.
    pub(super) fn arranged(&mut self) {
        self.arranged += 1;
    }

    /// Whether it fails in most windows.
    pub(super) fn fails_mostly(&self) -> bool {
        self.failures > self.windows / 2
    }

    /// Whether another plan may do better, after a window that had this one. `learned` says which plan
    /// was the last that knew nothing of a way that the window went.
    pub(super) fn is_outdone(
        &mut self,
        outcome: PlanOutcome,
        lacked: Lacked,
        learned: Option<u32>,
    ) -> bool {
        if self.made >= MAX_MADE {
            return false;
        }
        if let PlanOutcome::Failed { cause, .. } = outcome {
            let is_new = cause == PlanFailure::NoSegmentBase && self.bases != [false; 2];
            if is_new {
                self.bases = [false; 2];
            }
            return is_new;
        }
        if !lacked.code && !lacked.memory {
            return false;
        }
        self.lacks = self.lacks.saturating_add(1);
        // The last one did not go by where this branch led.
        if learned.is_some_and(|last| last >= self.as_of) {
            return true;
        }
        // What a plan has brought of code that it could not follow, its successor can. And by then
        // more is known of where branches go, unless the last one was no better for that.
        let hopeful = !self.settled && (lacked.code || self.open);
        hopeful || self.lacks >= FIRST_LACKS << self.made
    }

    /// The share that it should have where windows are accepted with this probability, if that is
    /// another.
    pub(super) fn other_share(&self, probability: f64) -> Option<Share> {
        let wanted = share_for(probability);
        let ratio = self.share.part() / wanted.part();
        (!(RAISED_FROM..LOWERED_FROM).contains(&ratio)).then_some(wanted)
    }
}

/// The share of samples that a plan is for where windows are accepted with this probability.
pub(super) fn share_for(probability: f64) -> Share {
    Share::new((SPARE * probability).min(1.0))
}

/// Destinations kept of an indirect branch; the oldest gives way.
const DESTINATIONS: usize = 4;

/// Where the indirect branch at a PC was seen to lead.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Destinations {
    addresses: [u64; DESTINATIONS],
    /// The tag of the last plan that was made when each was learned.
    tags: [u32; DESTINATIONS],
}

impl Destinations {
    /// Takes note of one, `tag` being the last plan that was made, and says which plan was the last one
    /// without knowing it.
    pub(super) fn learn(&mut self, destination: u64, tag: u32) -> u32 {
        if let Some(place) = self.addresses.iter().position(|at| *at == destination) {
            return self.tags[place];
        }
        self.addresses.rotate_right(1);
        self.tags.rotate_right(1);
        (self.addresses[0], self.tags[0]) = (destination, tag);
        tag
    }

    /// The latest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.addresses.into_iter().filter(|address| *address != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LACKS_CODE: Lacked = Lacked {
        code: true,
        memory: false,
        second_look: false,
    };
    const DONE: PlanOutcome = PlanOutcome::Complete { tag: 1 };

    /// A plan that came out as before is left alone until many windows lacked something, or a branch
    /// has led elsewhere since.
    #[test]
    fn settled_plans() {
        let mut given = Given::new(1, [false; 2]);
        given.begin(1);
        assert!(!given.came_out_as(7));
        assert!(given.is_outdone(DONE, LACKS_CODE, None));
        given.begin(2);
        assert!(given.came_out_as(7));
        assert!(!given.is_outdone(DONE, LACKS_CODE, None));
        assert!(!given.is_outdone(DONE, LACKS_CODE, Some(1)));
        assert!(given.is_outdone(DONE, LACKS_CODE, Some(2)));
        let asked = (0..100).find(|_| given.is_outdone(DONE, LACKS_CODE, None));
        assert_eq!(asked, Some(4));
    }

    /// A step that fails is looked at again and again, but not for ever; what came of an arrangement is told
    /// by its own windows.
    #[test]
    fn failing_steps() {
        let mut given = Given::new(1, [false; 2]);
        let fail = |given: &mut Given| {
            given.took();
            given.failed()
        };
        assert_eq!([0; 3].map(|_| fail(&mut given)), [false, false, true]);
        assert!(given.fails_mostly());
        given.arranged();
        given.replace(2);
        (0..6).for_each(|_| given.took());
        assert_eq!([0; 3].map(|_| fail(&mut given)), [false, false, true]);
        assert!(!given.fails_mostly());
        let arranged = (3..1000).filter(|tag| {
            let is_time = fail(&mut given);
            if is_time {
                given.arranged();
                given.replace(*tag);
            }
            is_time
        });
        assert_eq!(arranged.count() + 1, usize::from(MAX_ARRANGED));
    }

    /// However much is lacking, plans for one PC come to an end.
    #[test]
    fn plans_end() {
        let mut given = Given::new(1, [false; 2]);
        let made = (1..100).take_while(|&tag| {
            given.begin(tag);
            given.is_outdone(DONE, LACKS_CODE, Some(tag))
        });
        assert_eq!(made.count() + 1, usize::from(MAX_MADE));
    }

    /// Destinations are kept, the latest ones, with the plan that came before each.
    #[test]
    fn destinations() {
        let mut known = Destinations::default();
        let tags = (0..5).map(|n| known.learn(0x1000 + n, n as u32));
        assert_eq!(tags.collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(known.learn(0x1003, 9), 3);
        let kept: Vec<u64> = known.iter().collect();
        assert_eq!(kept, [0x1004, 0x1003, 0x1002, 0x1001]);
    }
}
