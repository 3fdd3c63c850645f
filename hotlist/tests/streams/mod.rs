//! The streams on which the hotlist is measured: for tests, benches and the statistics.

use std::fmt;

use hotlist::Generator;

/// Distinct values of the Zipf streams.
pub(crate) const ZIPF_VALUES: usize = 10_000;

/// A kind of stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stream {
    /// One value.
    Constant,
    /// 70 % one value, 30 % another.
    TwoValued,
    /// The k-th of 10,000 values with probability proportional to k^-s.
    Zipf(f64),
    /// 1,000 values, each as likely.
    Uniform,
    /// Zipf(1.5) whose most frequent values are others after three fifths of the stream and
    /// again after four fifths.
    Phases,
}

/// All of them.
pub(crate) const ALL: [Stream; 6] = [
    Stream::Constant,
    Stream::TwoValued,
    Stream::Zipf(1.0),
    Stream::Zipf(1.5),
    Stream::Uniform,
    Stream::Phases,
];

/// Its name in tables.
impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant => f.write_str("constant"),
            Self::TwoValued => f.write_str("two-valued"),
            Self::Zipf(s) => write!(f, "Zipf({s:.1})"),
            Self::Uniform => f.write_str("uniform"),
            Self::Phases => f.write_str("phases"),
        }
    }
}

/// Draws a kind of stream again and again.
pub(crate) struct Source {
    stream: Stream,
    cumulated: Vec<f64>,
}

impl Source {
    /// Prepares the tables.
    pub(crate) fn new(stream: Stream) -> Self {
        let exponent = match stream {
            Stream::Zipf(s) => Some(s),
            Stream::Phases => Some(1.5),
            _ => None,
        };
        let mut sum = 0.0;
        let cumulated = exponent.map_or_else(Vec::new, |s| {
            let weights = (1..=ZIPF_VALUES).map(|k| (k as f64).powf(-s));
            weights.map(|w| (sum += w, sum).1).collect()
        });
        Self { stream, cumulated }
    }

    /// A stream of this length; values are below [`ZIPF_VALUES`].
    pub(crate) fn draw(&self, length: usize, random: &mut Generator) -> Vec<u64> {
        let value = |at: usize| match self.stream {
            Stream::Constant => 4,
            Stream::TwoValued => u64::from(random.uniform() > 0.7),
            Stream::Zipf(_) => self.zipf(random.uniform()),
            Stream::Uniform => random.next_u64() % 1_000,
            Stream::Phases => {
                let phase = u64::from(5 * at >= 3 * length) + u64::from(5 * at >= 4 * length);
                (self.zipf(random.uniform()) + 3_000 * phase) % ZIPF_VALUES as u64
            }
        };
        (0..length).map(value).collect()
    }

    fn zipf(&self, uniform: f64) -> u64 {
        let total = self.cumulated.last().copied().unwrap_or_default();
        let rank = self
            .cumulated
            .partition_point(|&below| below < uniform * total);
        rank.min(ZIPF_VALUES - 1) as u64
    }
}
