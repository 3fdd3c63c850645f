//! Calls of what follows them, which call no function.

use std::collections::BTreeSet;

use iced_x86::{FlowControl, Instruction};

use crate::code::direct_target;
use crate::view::View;

/// The PCs in the middle of functions that the call before them leads to: code learns its own
/// address so (`call 1f; 1: pop rax`), and calls nothing.
pub(super) fn no_functions(view: &View<'_>) -> BTreeSet<usize> {
    let profile = view.profile;
    let calls = profile.calls.iter();
    let calls = calls.filter_map(|row| Some((row.site, row.callee?)));
    let lists = profile.hotlists.iter();
    let lists = lists.filter_map(|row| Some((row.caller?, row.pc)));
    let called: BTreeSet<(usize, usize)> = calls.chain(lists).collect();
    let leads_on = |(site, callee): (usize, usize)| {
        let (from, to) = (profile.pcs.get(site)?, profile.pcs.get(callee)?);
        // No call is longer than this.
        let is_near = from.image == to.image && to.address.wrapping_sub(from.address) <= LONGEST;
        let is_within = || view.symbols.is_within_function(callee);
        if !is_near || !is_within() {
            return None;
        }
        calls_next(&view.instruction(site)?, to.address).then_some(callee)
    };
    called.into_iter().filter_map(leads_on).collect()
}

/// Bytes of an instruction at most.
const LONGEST: u64 = 15;

/// Whether an instruction calls the one behind it, which is there.
fn calls_next(instruction: &Instruction, next: u64) -> bool {
    instruction.flow_control() == FlowControl::Call
        && instruction.next_ip() == next
        && direct_target(instruction) == Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::decode;

    /// Code that calls what follows it is told from calls of functions.
    #[test]
    fn calls_of_what_follows() {
        let at = |bytes: &[u8]| decode(bytes, 0x1000).expect("is an instruction");
        let next = at(&[0xe8, 0, 0, 0, 0]);
        assert!(calls_next(&next, 0x1005));
        assert!(!calls_next(&next, 0x1006));
        assert!(!calls_next(&at(&[0xe8, 1, 0, 0, 0]), 0x1006));
        assert!(!calls_next(&at(&[0xe9, 0, 0, 0, 0]), 0x1005));
    }
}
