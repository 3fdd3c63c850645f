//! The periods that roll-ups stand for, by the calendar of UTC.

/// How long a roll-up's period is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grain {
    /// What was saved at once: no roll-up.
    Flush,
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// Seven days from a Monday on.
    Week,
}

/// A second in nanoseconds.
const SECOND: i64 = 1_000_000_000;
/// A day in nanoseconds.
const DAY: i64 = 86_400 * SECOND;
/// The Unix epoch began on a Thursday.
const FIRST_MONDAY: i64 = 4 * DAY;

impl Grain {
    /// All that are roll-ups, from the shortest on.
    pub const ROLLED: [Self; 3] = [Self::Hour, Self::Day, Self::Week];

    /// The number that stands for it in a database: seconds of its period, 0 for a flush.
    pub const fn seconds(self) -> i64 {
        match self {
            Self::Flush => 0,
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::Week => 7 * 86_400,
        }
    }

    /// The one that a database's number stands for.
    pub fn of_seconds(seconds: i64) -> Option<Self> {
        let all = [Self::Flush, Self::Hour, Self::Day, Self::Week];
        all.into_iter().find(|grain| grain.seconds() == seconds)
    }

    /// Its name, as reports say it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
        }
    }

    /// The period around a moment, begin and end, in nanoseconds of the Unix epoch. It has its
    /// end and not its begin: a flush belongs to the moment of its end. A flush is its own.
    pub fn period(self, moment: i64) -> (i64, i64) {
        let (length, origin) = match self {
            Self::Flush => return (moment, moment),
            Self::Week => (7 * DAY, FIRST_MONDAY),
            grain => (grain.seconds() * SECOND, 0),
        };
        // The moment of the end is the last one inside.
        let number = moment
            .saturating_sub(1)
            .saturating_sub(origin)
            .div_euclid(length);
        let begin = number.saturating_mul(length).saturating_add(origin);
        (begin, begin.saturating_add(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Periods follow each other without a gap, and a moment at a border belongs to what ends
    /// there.
    #[test]
    fn borders() {
        for grain in Grain::ROLLED {
            let (begin, end) = grain.period(1_793_577_600 * SECOND + 5);
            assert_eq!(end - begin, grain.seconds() * SECOND);
            assert_eq!(grain.period(end), (begin, end));
            assert_eq!(grain.period(end + 1).0, end);
            assert_eq!(grain.period(begin + 1), (begin, end));
            assert_eq!(Grain::of_seconds(grain.seconds()), Some(grain));
        }
        // 2026-11-02 was a Monday.
        let monday = 1_793_577_600 * SECOND;
        assert_eq!(Grain::Week.period(monday + 1).0, monday);
        assert_eq!(Grain::Week.period(monday).1, monday);
    }

    /// Each period lies within one of the next longer grain, so that roll-ups can be rolled up.
    #[test]
    fn nested() {
        for hour in -200..1_000 {
            let moment = 1_793_577_600 * SECOND + hour * 1_799 * SECOND;
            for [short, long] in [[Grain::Hour, Grain::Day], [Grain::Day, Grain::Week]] {
                let (begin, end) = short.period(moment);
                let around = long.period(moment);
                assert!(around.0 <= begin && end <= around.1);
                assert_eq!(long.period(end), around);
            }
        }
    }

    /// Times that no clock shows are no panic.
    #[test]
    fn extremes() {
        for moment in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX] {
            for grain in Grain::ROLLED {
                let (begin, end) = grain.period(moment);
                assert!(begin <= end);
            }
        }
    }
}
