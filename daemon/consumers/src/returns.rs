//! What a window sees of an instruction when it comes back to it: executions.
//!
//! A window begins where time is spent. The stretch of the program that it begins in, up to the
//! first event of an instruction, is one that takes long: a stretch is met in proportion to its
//! time (the inspection paradox; W. Feller, An Introduction to Probability Theory and Its
//! Applications, volume II, chapter I.4). So first events are shares of time. The stretch from
//! there to the next event is met because it is the next one, however long it takes: later events
//! are shares of executions. Both are kept apart where windows are long enough for it. All such
//! windows count for both. Refusing those behind stalls would make shares of time wrong by up to
//! 35 points; later events have forgotten where the window began
//! (`docs/decisions/059-which-windows-count.md`).
//!
//! Two things must be undone or told:
//!
//! - A window ends after so many instructions, W. A stretch of l instructions is seen whole only
//!   where it begins W - l instructions before that, so long ones are seen less often. The event
//!   at its end is accepted with a probability proportional to 1 / (W - l): this is how
//!   structures are counted that a frame cuts off (R. E. Miles, On the elimination of edge effects
//!   in planar sampling, in: Stochastic Geometry, 1974). Of stretches longer than three quarters
//!   of a window too few are seen.
//! - An instruction that is left for long is not met again in the window. How many executions have
//!   no other one near is counted at the beginnings and ends of windows ([`Apart`]); these count
//!   as unknown.
//!
//! Later events must not depend on the first: where one value comes again and again, and takes
//! longer, the next stretch is as long as the first. So it is counted how often a later event has
//! the value of the first one of its window, and how often it would by chance ([`Alike`]). Where
//! that differs, all are unknown, and shares of time are all that is told.

use hotlist::{Generator, Hotlist};

use super::alike::{self, Alike, IsInTurns, Sequence, share};
use super::stretches::{Stretches, Where};

mod apart;

pub(super) use apart::Apart;

/// The shortest window that counts them apart. In shorter ones little comes back but tight loops.
const LONG: u32 = 64;

/// The instructions of a window, if that is long enough; else 0.
pub(super) fn long(window: u32) -> u32 {
    if window >= LONG { window } else { 0 }
}

/// The later events of a profile.
#[derive(Clone, Debug)]
pub struct Returns {
    /// Events accepted, and those of them without a known value.
    reached: u64,
    unknown: u64,
    /// Windows that have one with a known value.
    pub windows: u64,
    last_window: u32,
    /// How many have no other one near.
    apart: Apart,
    /// The value of the first event of the present window, which is one of time.
    first_value: Option<u64>,
    /// That of the event before.
    value_before: Option<u64>,
    /// How far those accepted depend on the first.
    alike: Alike,
    /// How they follow from those before.
    sequence: Sequence,
    /// Whether windows lie in stretches of their own; made with some events.
    stretches: Option<Box<Stretches>>,
    /// The known values.
    pub list: Hotlist<u64>,
}

/// Where a later event is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Later {
    /// Number of the window, from 1.
    pub(super) window: u64,
    /// Which of its instructions this is, from 1, and which one had the event before.
    pub(super) depth: u32,
    pub(super) before: u32,
    /// Wall-clock time of the sample, ns of the Unix epoch.
    pub(super) time: u64,
    /// How often the window counts.
    pub(super) times: u32,
    /// See [`long`].
    pub(super) long: u32,
    /// The first event of the window was of the same profile.
    pub(super) as_first: bool,
}

impl Returns {
    /// None yet, to be kept in `list`, which is empty.
    pub(super) fn new(list: Hotlist<u64>) -> Self {
        Self {
            reached: 0,
            unknown: 0,
            windows: 0,
            last_window: 0,
            apart: Apart::default(),
            first_value: None,
            value_before: None,
            alike: Alike::default(),
            sequence: Sequence::default(),
            stretches: None,
            list,
        }
    }

    /// Takes notice of the first event of a window that counts so often.
    pub(super) fn begins(&mut self, depth: u32, long: u32, value: Option<u64>, times: u32) {
        self.apart.came_by((None, depth), long, times);
        (self.first_value, self.value_before) = (value, value);
    }

    /// Counts an event that is not the first of its window. `firsts` are the known values of those
    /// that are.
    pub(super) fn count(
        &mut self,
        at: &Later,
        value: Option<u64>,
        firsts: Option<&Hotlist<u64>>,
        coins: &mut Generator,
    ) {
        let depths = (Some(at.before), at.depth);
        self.apart.came_by(depths, at.long, at.times);
        self.sequence.saw(u64::from(at.times));
        let before = std::mem::replace(&mut self.value_before, value);
        let gap = at.depth.saturating_sub(at.before);
        if let (Some(stretches), Some(value)) = (&mut self.stretches, value) {
            let at = Where {
                window: at.window as u32,
                depth: at.depth,
                gap,
                long: at.long,
            };
            stretches.saw(at, value);
        }
        let times = accepted((gap, at.long), at.times, coins);
        if times == 0 {
            return;
        }
        self.reached += times;
        let Some(value) = value else {
            self.unknown += times;
            return;
        };
        if let Some(first) = self.first_value.filter(|_| at.as_first) {
            self.compare(first, firsts, value);
        }
        if let Some((before, share)) =
            before.and_then(|before| Some((before, share(&self.list, before)?)))
        {
            self.sequence.step(before == value, share);
        }
        let window = at.window as u32;
        let opens = self.last_window != window;
        if opens {
            self.last_window = window;
            self.windows += 1;
        }
        let list = &mut self.list;
        list.update_in_window(value, at.time, opens, coins);
        for _ in 1..times {
            list.update_in_window(value, at.time, false, coins);
        }
        Stretches::look_at_list(&mut self.stretches, list);
    }

    /// Compares an event with the first one of its window, as one of those in the list of firsts.
    fn compare(&mut self, first: u64, firsts: Option<&Hotlist<u64>>, value: u64) {
        let shares = [Some(&self.list), firsts].map(|of| of.and_then(|of| share(of, first)));
        if let [Some(among), Some(of_firsts)] = shares {
            self.alike.count(first == value, among, of_firsts);
        }
    }

    /// Whether later events do not depend on the first one of their window, nor on where the window
    /// lies.
    pub(super) fn is_independent(&self) -> bool {
        self.alike.is_independent() && !Stretches::are_unlike(&self.stretches)
    }

    /// Bytes that are kept besides this.
    pub(super) fn bytes(&self) -> usize {
        self.list.bytes() + Stretches::bytes(&self.stretches)
    }

    /// Events accepted, and those of them without a known value. Each was with a probability of
    /// 1/[`MOST_TURNED_AWAY`] at least.
    pub(super) fn accepted(&self) -> (u64, u64) {
        (self.reached, self.unknown)
    }

    /// Whether values take turns of which a window sees few, or come in an order that depends on
    /// where it begins.
    pub(super) fn take_turns(&self) -> bool {
        let stretches = self.stretches.as_deref();
        self.alike.is_unlike() || stretches.is_some_and(Stretches::depends_on_place)
    }

    /// Whether shares of later events are off, by how they follow from so many first ones, which
    /// are those of a list; and whether they take turns then.
    pub(super) fn may_be_off(&self, firsts: u64, of_firsts: &Hotlist<u64>) -> Option<IsInTurns> {
        let apart = alike::apart(of_firsts, &self.list);
        self.sequence.may_be_off(firsts, apart)
    }

    /// How many executions have no other one near.
    pub(super) fn apart(&self) -> &Apart {
        &self.apart
    }

    /// Events reached, and the unknown among them: with the known ones come those that no window
    /// saw.
    pub(super) fn reached_and_unknown(&self, apart: &Apart) -> (u64, u64) {
        let unseen = apart.unseen(self.reached - self.unknown);
        (
            self.reached.saturating_add(unseen),
            self.unknown.saturating_add(unseen),
        )
    }
}

/// Of so many later events that come at once one is accepted.
pub(super) const MOST_TURNED_AWAY: f64 = 4.0;

/// The probability with which an event is accepted so many instructions after the one before.
fn acceptance(gap: u32, long: u32) -> f64 {
    let left = long.saturating_sub(gap).max(1);
    (f64::from(long) / MOST_TURNED_AWAY / f64::from(left)).min(1.0)
}

/// How often an event counts that comes so many instructions behind the one before it, in a window
/// of so many that counts `times` times. Most windows of long intervals need not count an event
/// twice, which would look as if it came again.
pub(super) fn accepted((gap, long): (u32, u32), times: u32, coins: &mut Generator) -> u64 {
    let accepted = f64::from(times) * acceptance(gap, long);
    accepted as u64 + u64::from(coins.uniform() <= accepted.fract())
}

#[cfg(test)]
mod coverage;

/// Tables for windows of so many instructions, and an instruction in them.
#[cfg(test)]
struct OneSite {
    tables: crate::tables::Tables,
    site: crate::events::SiteId,
    window: crate::events::Context,
    /// Who called, where values are kept apart by that.
    caller: Option<crate::events::PcId>,
}

#[cfg(test)]
impl OneSite {
    fn new(window: u32, seed: u64) -> Self {
        use crate::events::{Context, Options};

        let options = Options {
            lists: hotlist::Config::default().precise(),
            window,
            by_caller: true,
        };
        let coins = hotlist::Generator::new(seed);
        let mut tables = crate::tables::Tables::new(&options, 1 << 20, coins);
        let (owner, site) = Self::process(&mut tables, 1);
        Self {
            site,
            tables,
            window: Context {
                owner,
                is_kernel: false,
                number: 0,
                time: 0,
                times: 1,
                part: 1.0,
            },
            caller: None,
        }
    }

    /// A process that runs the instruction.
    fn process(
        tables: &mut crate::tables::Tables,
        id: u32,
    ) -> (crate::events::Owner, crate::events::SiteId) {
        let process = || profiledb::Process {
            pid: 1,
            started: 0,
            execs: 0,
            comm: String::new(),
        };
        let subject = profiledb::Subject::default();
        let shared = &mut tables.shared;
        let owner = shared.owner(machine::loadmap::ProcessId(id), subject, process);
        let owner = owner.expect("room");
        let pc = machine::place::Pc {
            image: machine::images::ImageId(0),
            address: addresses::ImageAddress(0x10),
        };
        (owner, shared.site(owner, pc).expect("room"))
    }

    /// Begins a window that counts so often, and of whose calls such a part counts.
    fn begin(&mut self, number: u64, times: u32, part: f64) {
        use crate::events::Consumer as _;

        (self.window.number, self.window.time) = (number, number);
        (self.window.times, self.window.part) = (times, part);
        let tables = &mut self.tables;
        tables.consumers.begins(&mut tables.shared, &self.window);
    }

    /// Sees a value, so many instructions from the window's beginning.
    fn see(&mut self, depth: u32, value: u64) {
        self.see_event(depth, Some(value));
    }

    /// The same, where the value may be unknown.
    fn see_event(&mut self, depth: u32, value: Option<u64>) {
        use crate::events::Consumer as _;

        let at = crate::events::At {
            window: &self.window,
            site: Some(self.site),
            depth,
            caller: self.caller,
        };
        let event = (interpreter::Parameter::Arg(0), value);
        let tables = &mut self.tables;
        tables.consumers.values(&mut tables.shared, &at, &[event]);
    }
}

#[cfg(test)]
mod tests {
    use counters::{Counter, CounterKey};
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::events::{At, Consumer, PcId, Target};

    const WINDOW: u32 = 200;

    /// An execution: a value, the instructions that come before it, and their time.
    #[derive(Clone, Copy)]
    struct Stretch {
        value: u64,
        instructions: u32,
        time: u32,
    }

    /// The percentages of the value 2 by time and by executions, the part of the executions that
    /// is known, and whether they are independent.
    type Seen = (f64, f64, f64, bool);

    /// Windows that begin at random moments of a program, and see a value at the end of each
    /// stretch.
    fn windows(
        bench: &mut OneSite,
        mut next: impl FnMut(&mut StdRng) -> Stretch,
        see: impl Fn(&mut OneSite, u32, u64),
    ) {
        let mut random = StdRng::seed_from_u64(7);
        for window in 1..=20_000 {
            bench.begin(window, 1, 1.0);
            // By rejection: a stretch is met in proportion to its time.
            let first = loop {
                let stretch = next(&mut random);
                if random.random_range(0..1000) < stretch.time {
                    break stretch;
                }
            };
            let mut depth = random.random_range(1..=first.instructions);
            let mut stretch = first;
            while depth <= WINDOW {
                see(bench, depth, stretch.value);
                stretch = next(&mut random);
                depth += stretch.instructions;
            }
        }
    }

    /// What such windows see of one instruction.
    fn seen(next: impl FnMut(&mut StdRng) -> Stretch) -> Seen {
        let mut bench = OneSite::new(WINDOW, 7);
        windows(&mut bench, next, |bench, depth, value| {
            bench.see(depth, value)
        });
        let percent = |list: &Hotlist<u64>| {
            let of = |value| {
                let all = list.tuples().filter(move |tuple| tuple.value == value);
                all.map(|tuple| tuple.estimate()).sum::<f64>()
            };
            100.0 * of(2) / (of(1) + of(2))
        };
        let values = &bench.tables.consumers.values;
        let profile = &values.profiles[0];
        let later = values.executions_of(profile).expect("it came back");
        (
            percent(profile.list.as_ref().expect("it was seen")),
            percent(&later.returns.list),
            1.0 - later.unknown as f64 / later.reached as f64,
            later.is_independent,
        )
    }

    fn stretch(value: u64, instructions: u32, time: u32) -> Stretch {
        Stretch {
            value,
            instructions,
            time,
        }
    }

    /// First events are shares of time and later ones of executions, whether a slow execution
    /// has more instructions or only slower ones.
    #[test]
    fn both_bases() {
        for (slow, by_time) in [
            (stretch(2, 132, 400), 100.0 * 40.0 / (40.0 + 0.9 * 50.0)),
            (stretch(2, 40, 400), 100.0 * 40.0 / (40.0 + 0.9 * 50.0)),
            (stretch(2, 12, 10), 100.0 / (1.0 + 0.9 * 50.0)),
        ] {
            let (time, executions, known, independent) =
                seen(|random| match random.random_bool(0.1) {
                    true => slow,
                    false => stretch(1, 40, 50),
                });
            assert!((time - by_time).abs() < 1.5, "{time} for {by_time}");
            assert!((executions - 10.0).abs() < 1.5, "{executions} for 10");
            assert!(known > 0.97 && independent, "{known}");
        }
    }

    /// Values that last are found out, and so are values that take turns of which a window sees
    /// few: of them no executions are told.
    #[test]
    fn dependent() {
        for (lasts, instructions) in [(0.99, 40), (0.7, 40), (0.0, 90), (0.1, 90)] {
            let mut value = 1;
            let (.., independent) = seen(|random| {
                if !random.random_bool(lasts) {
                    value = 3 - value;
                }
                stretch(value, instructions, if value == 2 { 400 } else { 50 })
            });
            assert!(!independent, "{lasts}");
        }
    }

    /// Values that take turns are told by executions where a window sees several turns: what is
    /// told is right, though the next value always follows from the first.
    #[test]
    fn turns() {
        let mut turn = 0;
        let (time, executions, known, independent) = seen(|_| {
            turn = (turn + 1) % 3;
            match turn {
                0 => stretch(2, 12, 40),
                _ => stretch(1, 12, 5),
            }
        });
        assert!((time - 80.0).abs() < 2.0, "{time} for 80");
        assert!((executions - 33.3).abs() < 3.0, "{executions} for 33.3");
        assert!(known > 0.97 && independent, "{known}");
    }

    /// Two values that take turns, of which nearly all windows begin with the one that comes behind
    /// a slow stretch: windows see two or three more, more often of the other value, and comparing
    /// these with the first says nothing. Where they see many, they are right.
    #[test]
    fn turns_with_one_first() {
        let turns = |long: u32, short: u32| {
            let mut turn = 0;
            seen(move |_| {
                turn = (turn + 1) % 2;
                match turn {
                    0 => stretch(2, long, 900),
                    _ => stretch(1, short, 10),
                }
            })
        };
        let (time, executions, _, independent) = turns(75, 20);
        assert!(time > 95.0 && !independent, "{executions}");
        let (_, executions, _, independent) = turns(7, 2);
        assert!(
            (executions - 50.0).abs() < 3.0 && independent,
            "{executions}"
        );
    }

    /// Where an instruction mostly does not come back within a window, most of its executions are
    /// unknown.
    #[test]
    fn seldom_back() {
        let (_, _, known, _) = seen(|random| match random.random_bool(0.7) {
            true => stretch(1, 400, 100),
            false => stretch(2, 40, 100),
        });
        assert!(known < 0.5, "{known}");
    }

    /// A window behind a stall counts for values in full; its branches and calls count in part. One
    /// of a long interval counts twice.
    #[test]
    fn windows_in_part() {
        let mut bench = OneSite::new(WINDOW, 7);
        let pc = bench.tables.shared.pc_of(bench.site).expect("it is there");
        for window in 1..=3 {
            bench.begin(
                window,
                if window == 3 { 2 } else { 1 },
                if window == 2 { 1.0 } else { 0.25 },
            );
            bench.see(1, 5);
            let at = At {
                window: &bench.window,
                site: Some(bench.site),
                depth: 1,
                caller: None,
            };
            let tables = &mut bench.tables;
            let (consumers, shared) = (&mut tables.consumers, &mut tables.shared);
            consumers.branch(shared, &at, Some(true));
            consumers.jump(shared, &at, pc, Target::Known(pc));
        }
        let tables = &bench.tables;
        let consumers = &tables.consumers;
        assert_eq!(consumers.values.profiles[0].windows, 4);
        assert_eq!(consumers.values.profiles[0].reached, 4);
        let branches = consumers.branches.each(&tables.shared);
        let (.., branch) = { branches }.next().expect("it was met");
        assert_eq!((branch.taken, branch.not_taken), (3, 0));
        assert_eq!(branch.weights, [1.75, 0.0, 0.0]);
        let (.., calls) = consumers.calls.each().next().expect("it was met");
        assert_eq!((calls.times, calls.weight), (3, 1.75));
        assert_eq!(calls.squares, Some(0.0625 + 1.0 + 0.25));
        assert_eq!(
            tables.counters()[&CounterKey::from(Counter::WindowsInPart)],
            2
        );
        assert_eq!(
            tables.counters()[&CounterKey::from(Counter::WindowsTwice)],
            1
        );
    }

    /// Shares of the value 2 in the profiles of all callers together, by time and by executions; of
    /// the executions those that are known, and whether they are independent. The value tells who
    /// calls.
    fn seen_from_callers(next: impl FnMut(&mut StdRng) -> Stretch) -> Seen {
        let mut bench = OneSite::new(WINDOW, 11);
        windows(&mut bench, next, |bench, depth, value| {
            bench.caller = Some(PcId(value as u32));
            bench.see(depth, value);
        });
        let values = &bench.tables.consumers.values;
        let (mut firsts, mut laters) = ([0.0; 3], [0.0; 3]);
        let (mut reached, mut unknown, mut is_independent) = (0, 0, true);
        for (profile, of) in values.profiles.iter().map(|profile| {
            let PcId(of) = profile.key.caller.expect("somebody called");
            (profile, of as usize)
        }) {
            firsts[of] = profile.reached as f64;
            if let Some(later) = values.executions_of(profile) {
                laters[of] = (later.reached - later.unknown) as f64;
                reached += later.reached;
                unknown += later.unknown;
                is_independent &= later.is_independent;
            }
        }
        let percent = |of: [f64; 3]| 100.0 * of[2] / (of[1] + of[2]);
        (
            percent(firsts),
            percent(laters),
            1.0 - unknown as f64 / reached as f64,
            is_independent,
        )
    }

    /// A site that calls once in a while, never twice in a window, has its share of all calls of a
    /// function, and not an event of each window that comes by it.
    #[test]
    fn seldom_called() {
        let mut turn = 0;
        let (time, executions, known, independent) = seen_from_callers(|_| {
            turn = (turn + 1) % 32;
            stretch(if turn == 0 { 2 } else { 1 }, 10, 20)
        });
        assert!((time - 3.1).abs() < 0.5, "{time} for 3.1");
        assert!((executions - 3.1).abs() < 0.5, "{executions} for 3.1");
        assert!(known > 0.97 && independent, "{known}");
    }

    /// Of all callers together first events are shares of time, later ones of executions.
    #[test]
    fn both_bases_of_callers() {
        let (time, executions, known, independent) =
            seen_from_callers(|random| match random.random_bool(0.1) {
                true => stretch(2, 40, 400),
                false => stretch(1, 40, 50),
            });
        let by_time = 100.0 * 40.0 / (40.0 + 0.9 * 50.0);
        assert!((time - by_time).abs() < 1.5, "{time} for {by_time}");
        assert!((executions - 10.0).abs() < 1.5, "{executions} for 10");
        assert!(known > 0.97 && independent, "{known}");
    }

    /// Sites that call for longer than a window are found out, though each has one value alone.
    #[test]
    fn callers_that_last() {
        let mut turn = 0;
        let (.., independent) = seen_from_callers(|_| {
            turn = (turn + 1) % 80;
            match turn < 40 {
                true => stretch(2, 20, 400),
                false => stretch(1, 20, 50),
            }
        });
        assert!(!independent);
    }

    /// A loop of two rounds in a function that is called once in so many instructions: all events
    /// that windows saw have both rounds, where first events have hardly more than the first. Where
    /// calls are nearly as far apart as a window is long, the first rounds of second calls count
    /// four times.
    #[test]
    fn few_rounds() {
        for (between, least) in [(1_000, 0.47), (170, 0.37)] {
            let mut bench = OneSite::new(WINDOW, 7);
            for window in 1..=8_000 {
                bench.begin(window, 1, 1.0);
                let start = window as u32 % between;
                for depth in 1..=WINDOW {
                    match (start + depth) % between {
                        0 => bench.see(depth, 1),
                        6 => bench.see(depth, 2),
                        _ => {}
                    }
                }
            }
            let values = &bench.tables.consumers.values;
            let later = values.executions_of(&values.profiles[0]);
            let seen = values.seen_of(&values.profiles[0], later.as_ref());
            let all = seen.list.events();
            let second = seen.list.tuples().find(|tuple| tuple.value == 2);
            let part = second.expect("it was seen").estimate / all;
            assert!(
                (all - seen.reached).abs() < 1.0 && seen.unknown < 1.0,
                "{seen:?}"
            );
            assert!((least..0.53).contains(&part), "{part} of {between}");
        }
    }

    /// In one process windows come back, in another one of the same program they do not: its
    /// executions are unknown ones. Where none comes back in any process, nothing is said of them.
    #[test]
    fn back_in_one_process() {
        for rounds in [4, 1] {
            let mut bench = OneSite::new(WINDOW, 7);
            let other = OneSite::process(&mut bench.tables, 2);
            for window in 1..=400 {
                bench.begin(window, 1, 1.0);
                for round in 0..rounds {
                    bench.see(1 + 10 * round, 1);
                }
            }
            (bench.window.owner, bench.site) = other;
            for window in 401..=800 {
                bench.begin(window, 1, 1.0);
                bench.see(1, 2);
            }
            let values = &bench.tables.consumers.values;
            let come_back = values.come_back();
            let unknown = |of: usize| values.never_back(&values.profiles[of], &come_back);
            let expected = (rounds > 1).then_some(100.0);
            assert_eq!((unknown(0), unknown(1)), (None, expected));
        }
    }

    /// What windows tell of a place that they come by every 20 instructions: whether its executions
    /// are told, and whether all events are taken together. The first ones are of a round that
    /// `begin` draws, and `value` has the value of a round.
    fn of_rounds(
        mut begin: impl FnMut(&mut StdRng) -> u32,
        mut value: impl FnMut(u32, &mut StdRng) -> u64,
    ) -> (bool, bool) {
        const WINDOWS: u64 = 7_000;
        let mut random = StdRng::seed_from_u64(7);
        let mut bench = OneSite::new(WINDOW, 7);
        for window in 1..=WINDOWS {
            bench.begin(window, 1, 1.0);
            let first = begin(&mut random);
            for round in 0..WINDOW / 20 {
                bench.see(3 + 20 * round, value(first + round, &mut random));
            }
        }
        let values = &bench.tables.consumers.values;
        let profile = &values.profiles[0];
        let later = values.executions_of(profile).expect("it came back");
        let seen = values.seen_of(profile, Some(&later));
        (later.is_independent, seen.reached > WINDOWS as f64)
    }

    /// Of slow and quick stretches, each with values of its own, one has nine in ten of the windows
    /// and half of the executions. A value that has one share everywhere is told.
    #[test]
    fn slow_stretches() {
        let begin = |random: &mut StdRng| 1_000 * u32::from(random.random_bool(0.1));
        let of = |slow: f64, quick: f64| {
            let value = move |round: u32, random: &mut StdRng| {
                let share = if round < 1_000 { slow } else { quick };
                1 + u64::from(random.random_bool(share))
            };
            of_rounds(begin, value)
        };
        assert_eq!(of(0.4, 0.1), (false, false));
        assert_eq!(of(0.4, 0.4), (true, false));
    }

    /// Of a program of 23 steps one is slow. Windows begin there, and see the ten that follow.
    #[test]
    fn fixed_steps() {
        let value = |step: u32, _: &mut StdRng| [1, 2, 3, 1, 4, 1, 3, 2, 2, 3][step as usize % 23];
        assert_eq!(of_rounds(|_| 0, value), (false, true));
        let drawn = |_: u32, random: &mut StdRng| random.random_range(1..=4);
        assert_eq!(of_rounds(|_| 0, drawn), (true, false));
    }

    /// Where first events are not known and later ones are, windows are those of these.
    #[test]
    fn unknown_firsts() {
        let mut bench = OneSite::new(WINDOW, 7);
        for window in 1..=400 {
            bench.begin(window, 1, 1.0);
            bench.see_event(1 + window as u32 % 100, None);
            bench.see(7 + window as u32 % 100, 2);
        }
        let values = &bench.tables.consumers.values;
        let later = values.executions_of(&values.profiles[0]);
        let seen = values.seen_of(&values.profiles[0], later.as_ref());
        let known = seen.reached - seen.unknown;
        assert!(seen.unknown >= 400.0 && known > 0.0, "{seen:?}");
        assert!((1.0..=known).contains(&(seen.windows as f64)), "{seen:?}");
    }

    /// In short windows all events are of one kind.
    #[test]
    fn short_windows() {
        assert_eq!((long(16), long(63), long(64)), (0, 0, 64));
    }
}
