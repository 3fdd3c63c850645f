//! Whether a list that a flush takes is such as can be read again.

use super::NewHotlist;
use crate::Error;
use crate::list::is_even;

/// Whether the row is such as can be read again.
pub(super) fn check(row: &NewHotlist<'_>) -> Result<(), Error> {
    let NewHotlist {
        parameter,
        reached,
        unknown,
        windows,
        even,
        list,
        ..
    } = row;
    let invalid = |what: String| {
        Err(Error::Invalid {
            what: format!("{parameter}: {what}"),
        })
    };
    let known = reached - unknown;
    if !(is_count(*reached) && is_count(*unknown) && known >= 0.0) {
        return invalid(format!("{unknown} of {reached} values unknown"));
    }
    // Estimates add up but for rounding.
    if !is_count(list.events) || (list.events - known).abs() > 1e-9 * reached {
        let events = list.events;
        return invalid(format!(
            "a list of {events} events for {known} known values"
        ));
    }
    if *windows as f64 > known || (*windows == 0) != (known == 0.0) {
        return invalid(format!("{known} known values from {windows} windows"));
    }
    if !even.is_none_or(is_even) {
        return invalid(format!("windows at distances even to {even:?}"));
    }
    if !(list.threshold >= 1.0 && list.threshold < f64::INFINITY) {
        return invalid(format!("a list of threshold {}", list.threshold));
    }
    let pairs = list.pairs.unwrap_or_default();
    if !(is_count(pairs.0) && is_count(pairs.1)) {
        return invalid(format!("pairs of events {pairs:?}"));
    }
    for (index, tuple) in list.tuples.iter().enumerate() {
        let after = list.tuples.get(index + 1);
        let is_last = after.is_none_or(|after| after.estimate <= tuple.estimate);
        let numbers = [tuple.variance, tuple.least, tuple.pairs.0, tuple.pairs.1];
        let is_good = tuple.estimate > 0.0 && is_count(tuple.estimate) && is_last;
        if !(is_good && numbers.into_iter().all(is_count)) {
            return invalid(format!("estimate {index} cannot be: {tuple:?}"));
        }
    }
    match crate::chunk::has_double(&list.tuples) {
        true => invalid("a value is there twice".to_owned()),
        false => Ok(()),
    }
}

/// Whether it is a number from 0 on.
fn is_count(x: f64) -> bool {
    (0.0..f64::INFINITY).contains(&x)
}
