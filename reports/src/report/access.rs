//! What reports on accesses to memory share.

use iced_x86::Mnemonic;
use serde::Serialize;

use crate::names::Names;
use crate::view::{Heat, View};

/// An instruction as reports name it.
#[derive(Debug, Serialize)]
pub(super) struct AccessSite {
    address: String,
    function: String,
    image: String,
    #[serde(skip)]
    described: String,
}

impl AccessSite {
    pub(super) fn new(view: &View<'_>, index: usize) -> AccessSite {
        let pc = view.profile.pcs.get(index);
        AccessSite {
            address: view.address(index),
            function: view.symbols.name_of(index),
            image: pc.map_or_else(String::new, |pc| view.image_path(pc.image).to_owned()),
            described: view.symbols.name_of_pc(index),
        }
    }

    /// The function alone.
    pub(super) fn function(&self, names: Names) -> String {
        names.shown(&self.function)
    }

    pub(super) fn text(&self, names: Names) -> String {
        format!("{} ({})", names.shown(&self.described), self.address)
    }
}

/// Whether an instruction keeps addresses to return to, or registers, on the stack.
pub(super) fn is_of_stack(view: &View<'_>, index: usize) -> bool {
    use Mnemonic as M;
    view.instruction(index).is_some_and(|instruction| {
        matches!(
            instruction.mnemonic(),
            M::Call | M::Ret | M::Push | M::Pop | M::Leave | M::Enter | M::Pushfq | M::Popfq
        )
    })
}

/// The time at an instruction and at the one behind it, which waits for what it loads.
pub(super) fn heat_around(view: &View<'_>, index: usize) -> Heat {
    let mut heat = view.heat.get(index).copied().unwrap_or_default();
    let behind = view.instruction(index).and_then(|instruction| {
        let function = view.symbols.function_of(index)?;
        view.pc_in(function, instruction.next_ip())
    });
    if let Some(behind) = behind.and_then(|behind| view.heat.get(behind)) {
        heat.add(*behind);
    }
    heat
}

/// A number with its sign.
pub(super) fn signed(value: u64) -> String {
    match value.cast_signed() {
        0 => "0".to_owned(),
        number => format!("{number:+}"),
    }
}

#[cfg(test)]
mod tests {
    use super::signed;

    /// Distances are decimal and have a sign, unless there is none.
    #[test]
    fn distances() {
        let numbers = [0, 8, 64_i64.wrapping_neg().cast_unsigned()];
        assert_eq!(numbers.map(signed), ["0", "+8", "-64"]);
    }
}
