//! What formats say of a whole profile: when it was, how often there were interrupts, of what.

use profiledb::Profile;

use crate::render::{brief, clean};

/// Sentences about epochs, at most.
const MOST_SENTENCES: usize = 16;
/// Characters of a sentence, at most.
const MOST_CHARACTERS: usize = 200;

/// What is said of a whole profile.
#[derive(Debug)]
pub(crate) struct About {
    /// When it began, in nanoseconds of the Unix epoch.
    pub(crate) began: Option<i64>,
    /// When the last of it was saved.
    pub(crate) ended: Option<i64>,
    /// What was counted from one interrupt to the next, its unit, and how much of it on average;
    /// `None` where epochs differ.
    pub(crate) period: Option<(&'static str, &'static str, u64)>,
    /// The host, where all epochs are of one.
    pub(crate) host: Option<String>,
    /// A sentence for each epoch: host, kernel, command.
    pub(crate) sentences: Vec<String>,
}

impl About {
    /// What is said of a profile.
    pub(crate) fn new(profile: &Profile) -> About {
        let periods = profile
            .epochs
            .iter()
            .map(|epoch| match epoch.unit.as_str() {
                "ns" => ("cpu", "nanoseconds", epoch.period),
                _ => ("cycles", "count", epoch.period),
            });
        let hosts = profile.epochs.iter().map(|epoch| clean(&epoch.host));
        let epochs = profile.epochs.iter().take(MOST_SENTENCES);
        let sentence = |epoch: &profiledb::Epoch| {
            let text = format!(
                "vcpi: on {} ({}), clock {}: {}",
                epoch.host, epoch.kernel, epoch.clock, epoch.command
            );
            brief(&clean(&text), MOST_CHARACTERS)
        };
        let extents = profile.extents.iter();
        About {
            began: extents.clone().filter_map(|extent| extent.began).min(),
            ended: extents.filter_map(|extent| extent.saved).max(),
            period: the_only(periods).filter(|(_, _, period)| *period > 0),
            host: the_only(hosts).filter(|host| !host.is_empty()),
            sentences: epochs.map(sentence).collect(),
        }
    }

    /// How long it took, in nanoseconds.
    pub(crate) fn duration(&self) -> i64 {
        let ends = self.began.zip(self.ended);
        ends.map_or(0, |(began, ended)| ended.saturating_sub(began).max(0))
    }
}

/// What all of them are.
fn the_only<T: PartialEq>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}
