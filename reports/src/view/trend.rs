//! Whether shares rise or fall over the time of a profile.

use hotlist::Course;
use serde::Serialize;

use super::JSON_VALUES;
use super::values::{Share, Values};

/// Whether a share rises or falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Trend {
    /// It rises.
    Rising,
    /// It falls.
    Falling,
    /// Neither, as far as it is known.
    Steady,
}

impl Trend {
    /// What text has behind a value.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Trend::Rising => ", rising",
            Trend::Falling => ", falling",
            Trend::Steady => "",
        }
    }

    /// Whether there is nothing to be said.
    pub(crate) fn is_steady(&self) -> bool {
        *self == Trend::Steady
    }
}

impl From<hotlist::Trend> for Trend {
    fn from(trend: hotlist::Trend) -> Trend {
        match trend {
            hotlist::Trend::Rising(_) => Trend::Rising,
            hotlist::Trend::Falling(_) => Trend::Falling,
            hotlist::Trend::Unknown => Trend::Steady,
        }
    }
}

/// How parameters begin that may be seen in fewer bits later.
const UNSETTLED: [&str; 7] = ["arg", "varg", "text", "ret", "vret", "result", "vresult"];

impl Values {
    /// Tells whether the most frequent values rise or fall, where so many are shown.
    pub(super) fn tell_trends(&mut self, course: &Course, shown: usize) {
        let places = self.shown(shown);
        let value = |place: &usize| self.shares.get(*place).map_or(0, |share| share.value);
        let asked: Vec<u64> = places.iter().map(value).collect();
        for (place, trend) in places.into_iter().zip(course.trends(&asked)) {
            if let Some(share) = self.shares.get_mut(place) {
                share.trend = trend.into();
            }
        }
    }

    /// The places of those shares that are shown where so many are. Those of executions, and of
    /// what may be seen in fewer bits, do not have their places yet.
    fn shown(&self, most: usize) -> Vec<usize> {
        let is_settled = !self.base.is_of_executions()
            && !UNSETTLED
                .iter()
                .any(|start| self.parameter.starts_with(start));
        match is_settled && most < JSON_VALUES {
            true => {
                let shares = self.shares.iter().enumerate();
                let supported = shares.filter(|(_, share)| self.supports(share));
                supported.map(|(place, _)| place).take(most).collect()
            }
            false => (0..self.shares.len().min(JSON_VALUES)).collect(),
        }
    }

    /// Where not every event enters the list (1/p above 1), what is in it by a lucky draw or two
    /// stands for 1/p events each. Such an estimate is right on average and says nothing alone; it
    /// is supported if its interval keeps away from 0.
    pub(crate) fn supports(&self, share: &Share) -> bool {
        self.threshold <= 1.0 || share.low > 0.0
    }
}
