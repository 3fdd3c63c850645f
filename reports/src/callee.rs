//! The integer arguments that count at a callee, from the best that is known of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::liveness::{Argument, all, live_arguments};
use crate::session::Session;

/// The live integer arguments of functions, by the index of their entry: as declared,
/// else as its code reads them, else all six, for one that cannot be read. A PLT
/// stub has those of the function behind it.
pub(crate) fn live(
    session: &Session<'_>,
    callees: &BTreeSet<usize>,
) -> BTreeMap<usize, Vec<Argument>> {
    let at = |callee: &usize| {
        session
            .profile
            .pcs
            .get(*callee)
            .map(|pc| (pc.image, pc.address))
    };
    let entries: Vec<(usize, u64)> = callees.iter().filter_map(at).collect();
    let behind = session.symbols.behind_stubs(&entries);
    let mut by_image: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for callee in callees
        .iter()
        .filter(|callee| !is_clone(&session.symbols.name_of(**callee)))
    {
        if let Some(entry) = at(callee) {
            let (image, address) = behind.get(&entry).copied().unwrap_or(entry);
            by_image.entry(image).or_default().insert(address);
        }
    }
    let declared: BTreeMap<usize, BTreeMap<u64, Vec<Argument>>> = by_image
        .into_iter()
        .map(|(image, entries)| (image, session.symbols.declared(image, &entries)))
        .collect();
    callees
        .iter()
        .filter_map(|callee| {
            let entry = at(callee)?;
            let (image, address) = behind.get(&entry).copied().unwrap_or(entry);
            let declared = declared.get(&image).and_then(|image| image.get(&address));
            let live = declared
                .cloned()
                .or_else(|| live_arguments(session.symbols.elf(image)?, address))
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
