//! How long the collector sleeps between two looks at what has come.
//!
//! One that wakes up finds its data gone from the processor's caches, which costs as much as some
//! hundred samples do. So it sleeps long, unless there is something to learn: the files of programs
//! that run for a second are gone unless they are looked at within a fraction of it, and code that
//! processes make at run time is gone with them.

use std::time::{Duration, Instant};

use nix::poll::{PollTimeout, poll};

use machine::vmas::AGES;

/// The least, and what it is at most while there are urgent records: of processes
/// that are new, or mappings of code.
const SLEEPS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(400)];
/// While more than one record in so many is urgent, a sleep is no longer than the first of them, or
/// the second.
const URGENT: [u64; 2] = [2, 8];
/// While more than one record in so many led to a new process, the next sleep is the least.
const LEARNED: u64 = 20;
/// The longest time in which nothing but a signal is heard meanwhile. Where so much was urgent, it
/// is the least sleep.
const PAUSE: Duration = Duration::from_millis(200);
const MUCH: u64 = 8;

/// A sleep, and what has come since it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sleep {
    begun: Instant,
    length: Duration,
    /// The longest that there may be.
    most: Duration,
    records: u64,
    urgent: u64,
    /// Much was urgent while the one before lasted.
    after_urgent: bool,
}

impl Sleep {
    /// The first one, which begins now, of those that last so long at most. All will be urgent.
    pub(crate) fn new(most: Duration) -> Self {
        Self {
            after_urgent: true,
            ..Self::of(Instant::now(), SLEEPS[0], most)
        }
    }

    fn of(begun: Instant, length: Duration, most: Duration) -> Self {
        Self {
            begun,
            length,
            most,
            records: 0,
            urgent: 0,
            after_urgent: false,
        }
    }

    /// The one after this, begun at that time, when so many records were looked at and led to so
    /// many new processes: longer, unless much was learned.
    pub(crate) fn next(self, begun: Instant, records: u32, learned: u64) -> Self {
        let [least, _] = SLEEPS;
        let length = match learned * LEARNED > u64::from(records) {
            true => least,
            false => (self.length * 2).min(self.most),
        };
        Self {
            after_urgent: self.has_much_urgent(),
            ..Self::of(begun, length, self.most)
        }
    }

    /// Makes it shorter if the kernel is asked about a program that has been known for so long.
    pub(crate) fn shorten(&mut self, age: Duration) {
        let [least, _] = SLEEPS;
        self.length = self.length.min((age / AGES).max(least));
    }

    /// Takes notice of records that have come, and of how many of them are urgent.
    pub(crate) fn took(&mut self, records: u64, urgent: u64) {
        self.records += records;
        self.urgent += urgent;
    }

    /// Whether what has come is to be looked at.
    pub(crate) fn is_over(&self) -> bool {
        self.begun.elapsed() >= self.length()
    }

    fn length(&self) -> Duration {
        self.limit()
            .map_or(self.length, |most| self.length.min(most))
    }

    /// How long it may be for what is urgent of it.
    fn limit(&self) -> Option<Duration> {
        let limits = URGENT.into_iter().zip(SLEEPS);
        let mut that_apply = limits.filter(|(one_in, _)| self.urgent * one_in > self.records);
        that_apply.next().map(|(_, most)| most)
    }

    /// How long nothing may be heard.
    fn deafness(&self) -> Duration {
        let most = match self.after_urgent || self.has_much_urgent() {
            true => SLEEPS[0],
            false => PAUSE,
        };
        self.length.min(most)
    }

    fn has_much_urgent(&self) -> bool {
        self.urgent >= MUCH && self.limit().is_some()
    }

    /// Sleeps a part of it, but not beyond any of these moments; a signal ends that.
    pub(crate) fn pause(&self, until: [Option<Instant>; 2]) {
        let left = |moment: Instant| moment.saturating_duration_since(Instant::now());
        let limits = until.into_iter().flatten().map(left);
        let left = limits.fold(self.deafness(), Duration::min);
        // Not less than that, or the last of it would be spent awake.
        let left = (left + Duration::from_micros(999)).as_millis();
        // A signal that comes just before the call is heard so much later.
        let _ = poll(
            &mut [],
            PollTimeout::from(u8::try_from(left).unwrap_or(u8::MAX)),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_secs(4);

    /// Sleeps become longer where nothing is learned, up to the longest, and short again when
    /// something is.
    #[test]
    fn sleeps() {
        let [least, _] = SLEEPS;
        let next = |sleep: Sleep, met| sleep.next(Instant::now(), 100, met);
        let mut sleeps =
            std::iter::successors(Some(Sleep::new(MOST)), |sleep| Some(next(*sleep, 5)));
        let longest = sleeps
            .find(|sleep| sleep.length >= MOST)
            .expect("a long one");
        assert_eq!(next(longest, 5).length, MOST);
        assert_eq!(next(longest, 6).length, least);
        assert_eq!(longest.next(Instant::now(), 0, 0).length, MOST);
    }

    /// A sleep is a small part of the age of a program that is asked about, but not too small.
    #[test]
    fn asks_the_young() {
        let [least, _] = SLEEPS;
        let shortened = |age| {
            let mut sleep = Sleep::of(Instant::now(), MOST, MOST);
            sleep.shorten(age);
            sleep.length()
        };
        assert_eq!(shortened(least), least);
        assert_eq!(shortened(least * AGES * 2), least * 2);
        assert_eq!(shortened(MOST * AGES * 2), MOST);
    }

    /// A sleep is cut short where one record in eight is urgent, and more where every second is;
    /// not for less.
    #[test]
    fn urgent() {
        let [least, with_urgent] = SLEEPS;
        let mut sleep = Sleep::of(Instant::now(), MOST, MOST);
        assert_eq!(sleep.length(), MOST);
        sleep.took(80, 10);
        assert_eq!(sleep.length(), MOST);
        sleep.took(0, 1);
        assert_eq!(sleep.length(), with_urgent);
        sleep.took(0, 30);
        assert_eq!(sleep.length(), least);
        sleep.length = least;
        assert_eq!(sleep.length(), least);
    }

    /// What comes is heard soon from the start on, and while much is urgent, and once more
    /// after it.
    #[test]
    fn heard_soon() {
        let [least, _] = SLEEPS;
        let mut sleep = Sleep {
            length: MOST,
            ..Sleep::new(MOST)
        };
        assert_eq!(sleep.deafness(), least);
        sleep = sleep.next(Instant::now(), 100, 0);
        assert_eq!(sleep.deafness(), PAUSE);
        sleep.took(MUCH - 1, MUCH - 1);
        assert_eq!(sleep.deafness(), PAUSE);
        sleep.took(1, 1);
        assert_eq!(sleep.deafness(), least);
        sleep = sleep.next(Instant::now(), 100, 0);
        sleep.took(8, 0);
        assert_eq!(sleep.deafness(), least);
        sleep = sleep.next(Instant::now(), 100, 0);
        assert_eq!(sleep.deafness(), PAUSE);
    }
}
