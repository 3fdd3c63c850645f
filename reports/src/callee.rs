//! The integer arguments that count at a callee, from the best that is known of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::liveness::{Argument, all, live_arguments};
use crate::session::Session;

/// The live integer arguments of functions, by the index of their entry: as declared,
/// else as its code reads them, else all six, for one that cannot be read.
pub(crate) fn live(
    session: &Session<'_>,
    callees: &BTreeSet<usize>,
) -> BTreeMap<usize, Vec<Argument>> {
    let mut by_image: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for callee in callees {
        if let Some(pc) = session.profile.pcs.get(*callee)
            && !is_clone(&session.symbols.name_of(*callee))
        {
            by_image.entry(pc.image).or_default().insert(pc.address);
        }
    }
    let declared: BTreeMap<usize, BTreeMap<u64, Vec<Argument>>> = by_image
        .into_iter()
        .map(|(image, entries)| (image, session.symbols.declared(image, &entries)))
        .collect();
    callees
        .iter()
        .filter_map(|callee| {
            let pc = session.profile.pcs.get(*callee)?;
            let declared = declared
                .get(&pc.image)
                .and_then(|image| image.get(&pc.address));
            let live = declared
                .cloned()
                .or_else(|| live_arguments(session.symbols.elf(pc.image)?, pc.address))
                .unwrap_or_else(all);
            Some((*callee, live))
        })
        .collect()
}

/// Whether a compiler made this function from another one, and may have changed
/// its parameters.
fn is_clone(name: &str) -> bool {
    [
        ".isra.",
        ".constprop.",
        ".part.",
        ".specialized.",
        ".argprom",
    ]
    .iter()
    .any(|mark| name.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions that a compiler derived are not taken at their declaration.
    #[test]
    fn clones_are_told_by_name() {
        assert!(is_clone("hot.constprop.0"));
        assert!(is_clone("f.isra.0.cold"));
        assert!(!is_clone("f.cold"));
    }
}
