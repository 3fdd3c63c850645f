//! What functions return, as debug information declares it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Values, View};
use crate::dwarf::ResultRegister;
use crate::variables::Returned;

/// What the functions that some PCs are in return.
#[derive(Debug)]
pub(crate) struct Results {
    /// PCs in functions without a result in `rax`, and in `xmm0`.
    no_integer: BTreeSet<usize>,
    no_vector: BTreeSet<usize>,
    returned: BTreeMap<usize, Returned>,
}

impl Results {
    /// Those at these PCs, by the register in which a result is looked for there.
    pub(crate) fn new(
        view: &View<'_>,
        integer: &BTreeSet<usize>,
        vector: &BTreeSet<usize>,
    ) -> Self {
        let without =
            |pcs: &BTreeSet<usize>, place| view.without_result(pcs.iter().copied(), place);
        Self {
            no_integer: without(integer, ResultRegister::Integer),
            no_vector: without(vector, ResultRegister::Vector),
            returned: view.results(integer.union(vector).copied()),
        }
    }

    /// Values, results as what they are declared to be; `None`: what the function left in the
    /// register is no result.
    pub(crate) fn settled(&self, values: Values) -> Option<Values> {
        let without = match values.result() {
            None => return Some(values),
            Some(ResultRegister::Integer) => &self.no_integer,
            Some(ResultRegister::Vector) => &self.no_vector,
        };
        if without.contains(&values.pc) {
            return None;
        }
        Some(match self.returned.get(&values.pc) {
            Some(declared) => values.returned(declared),
            None => values,
        })
    }
}
