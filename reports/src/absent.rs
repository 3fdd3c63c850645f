//! Why there is nothing to report on, in terms of what was asked for.

use profiledb::{Filter, Process, Profile};

use crate::args::Common;
use crate::epochs;
use crate::failure::Failure;
use crate::needs::{CYCLES_AND_VALUES, Needs};
use crate::source::{self, Source};
use crate::time;

/// Whether a profile has no rows that a report could be of.
pub(crate) fn is_empty(profile: &Profile, needs: &Needs<'_>) -> bool {
    if needs.is_of_counters() {
        return profile.epochs.is_empty();
    }
    profile.cycles.is_empty()
        && profile.hotlists.is_empty()
        && profile.passed_over.iter().all(Vec::is_empty)
        && profile.branches.is_empty()
        && profile.calls.is_empty()
}

/// A sentence for each of the epochs asked for that nothing was read of.
pub(crate) fn epochs_without_rows(profile: &Profile, filter: &Filter) -> Vec<String> {
    let is_read = |id: &&i64| profile.extents.iter().any(|extent| extent.id == **id);
    let sentence = |id: &i64| {
        let rolled_up = rolled_up(profile, *id);
        rolled_up.unwrap_or_else(|| format!("nothing of epoch {id} is in this"))
    };
    let ids = filter.epochs.iter().filter(|id| !is_read(id));
    ids.map(sentence).collect()
}

/// That an epoch has become a part of another one, if a profile tells that.
fn rolled_up(profile: &Profile, id: i64) -> Option<String> {
    let mut both = profile.epochs.iter().zip(&profile.extents);
    let (_, extent) = both.find(|(epoch, _)| epoch.settings.joined.contains(&id))?;
    let whole = extent.id;
    (whole != id).then(|| {
        format!(
            "epoch {id} was rolled up with others into epoch {whole}, and is not told apart any \
             more: --epoch {whole} takes all of it"
        )
    })
}

/// Why the profile that was read is empty, beside what could not be read of its source.
pub(crate) fn explain(
    profile: &Profile,
    left_out: &[String],
    source: &Source,
    filter: &Filter,
    common: &Common,
) -> Failure {
    if profile.epochs.is_empty() && (!filter.epochs.is_empty() || filter.is_timed()) {
        return no_epoch(profile, left_out, source, filter, common);
    }
    let mut asked: Vec<String> = filter
        .pids
        .iter()
        .map(|pid| format!("in process {pid}"))
        .collect();
    for (name, uid) in common.user.iter().zip(&filter.uids) {
        asked.push(match name.parse::<u32>() {
            Ok(_) => format!("as user {uid}"),
            Err(_) => format!("as user {name} (id {uid})"),
        });
    }
    for name in &common.image {
        asked.push(format!("in image {name}"));
    }
    if let Some(when) = when(filter) {
        asked.push(when);
    }
    let is_folded = may_be_folded(source, filter, common);
    let mut text = match asked.join(", ") {
        none if none.is_empty() => "nothing was collected".to_owned(),
        asked if is_folded => format!(
            "nothing that ran {asked} is told apart; processes that lived for seconds are one for \
             each command and user once their hour is over (`NAME (short-lived)` in `vcpi top --by \
             process`), and what was asked for may be among these"
        ),
        asked => format!("nothing that ran {asked} was collected"),
    };
    if epochs::are_withheld(profile) {
        text.push_str(
            ", or it is not yours to see: what ran as others and in the kernel is for root and \
             the service's group",
        );
        if profile.epochs.iter().all(|epoch| epoch.engine == "ring") {
            text.push_str(
                ", and so is all that the engine ring samples, which does not tell whose a \
                 process was",
            );
        }
    } else if !filter.pids.is_empty() && !is_folded {
        text.push_str("; `vcpi top --by process` names the processes that were sampled");
    } else if asked.is_empty() {
        text.push_str("; `vcpi status` tells how it was recorded");
    }
    Failure::Nothing(text)
}

/// Whether processes asked for may be among those that are not told apart.
fn may_be_folded(source: &Source, filter: &Filter, common: &Common) -> bool {
    if filter.pids.is_empty() {
        return false;
    }
    let filter = Filter {
        pids: vec![Process::FOLDED],
        ..filter.clone()
    };
    let needs = Needs {
        kinds: CYCLES_AND_VALUES,
        one_image: false,
        ..Needs::ROWS
    };
    let loaded = source::load(source, &filter, &needs, common);
    loaded.is_ok_and(|loaded| !is_empty(&loaded.profile, &needs))
}

/// That no epoch is what was asked for, and which there are; or that it cannot be read.
fn no_epoch(
    profile: &Profile,
    left_out: &[String],
    source: &Source,
    filter: &Filter,
    common: &Common,
) -> Failure {
    let everything = source::load(source, &Filter::default(), &Needs::COUNTERS, common);
    let everything = everything.ok().map(|loaded| loaded.profile);
    if let Some(everything) = &everything
        && let Some(damaged) = damaged(everything, left_out, source, filter)
    {
        return Failure::Input(damaged);
    }
    let part = |id: &i64| rolled_up(everything.as_ref()?, *id);
    let mut parts: Vec<String> = filter.epochs.iter().filter_map(part).collect();
    let is_told = !parts.is_empty() && parts.len() == filter.epochs.len();
    parts.extend(profile.cut.map(counted_at_its_end));
    let ids: Vec<String> = filter.epochs.iter().map(ToString::to_string).collect();
    let verb = match profile.cut {
        Some(_) => "counts",
        None => "was saved",
    };
    let mut text = match (ids.as_slice(), when(filter)) {
        _ if is_told => String::new(),
        ([], when) => format!("nothing {verb} {}", when.unwrap_or_default()),
        (ids, None) => format!("there is no epoch {}", ids.join(", ")),
        (ids, Some(when)) => format!("nothing {verb} in epoch {} {when}", ids.join(", ")),
    };
    if !parts.is_empty() {
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(&parts.join("; "));
        return Failure::Nothing(text);
    }
    // It may be in what is damaged.
    let may_be_there = !ids.is_empty() && !left_out.is_empty() && !source.is_service();
    if may_be_there {
        text.push_str(" in what can be read");
    }
    if let Some(everything) = &everything {
        let all = epochs::of(everything, source.is_service());
        if all.is_empty() {
            text.push_str("; there is no epoch at all");
        } else {
            text.push_str("; there is\n");
            epochs::table(&all).print(&mut text);
        }
    }
    match may_be_there {
        true => Failure::Input(text),
        false => Failure::Nothing(text),
    }
}

/// Which of the epochs asked for are in files whose rows cannot be read, and why not. Their
/// counters can be, which are all that tells of an epoch that it is there.
fn damaged(
    everything: &Profile,
    left_out: &[String],
    source: &Source,
    filter: &Filter,
) -> Option<String> {
    let why = |id: &i64| {
        let mut extents = everything.extents.iter();
        let extent = extents.find(|extent| extent.id == *id)?;
        // The service tells of its files, and sends another.
        let of_file = format!("{}: ", extent.path.display());
        let is_of_file = |what: &&String| source.is_service() || what.starts_with(&of_file);
        let what = left_out.iter().find(is_of_file)?;
        Some(format!("epoch {id} cannot be read: {what}"))
    };
    let sentences: Vec<String> = filter.epochs.iter().filter_map(why).collect();
    (!sentences.is_empty()).then(|| sentences.join("\n"))
}

/// That what was collected in the time asked for was saved, but counts later, and when. A time
/// asked for that ends within it takes nothing of it.
fn counted_at_its_end((from, to): (i64, i64)) -> String {
    const SECOND: i64 = 1_000_000_000;
    let became = match to.saturating_sub(from) > time::MUCH {
        true => "rolled up into one",
        false => "saved at once",
    };
    // Times are shown in whole seconds.
    let end = to.saturating_add(SECOND - 1).div_euclid(SECOND) * SECOND;
    let (from, to, end) = (time::local(from), time::local(to), time::local(end));
    format!(
        "what was collected from {from} to {to} was {became}, and counts at its end: --until \
         '{end}' takes all of it"
    )
}

/// The times asked for, in words.
fn when(filter: &Filter) -> Option<String> {
    match (filter.since.map(time::local), filter.until.map(time::local)) {
        (None, None) => None,
        (Some(since), None) => Some(format!("after {since}")),
        (None, Some(until)) => Some(format!("before {until}")),
        (Some(since), Some(until)) => Some(format!("between {since} and {until}")),
    }
}
