//! Which instructions run only in calls in which another one runs.
//!
//! What an instruction reads is known of its own executions. Behind a branch these are some of the
//! function's, and the value says nothing of the others. What it says something of are the
//! instructions that it dominates, and those that it post-dominates (A. Aho, M. Lam, R. Sethi,
//! J. Ullman, Compilers, 2006, 9.6.1).

use std::collections::BTreeSet;

use super::Code;

impl Code {
    /// The addresses to which control comes only if it also comes to the instruction at an
    /// address, before or later.
    pub(in super::super) fn implied(&self, address: u64) -> BTreeSet<u64> {
        let Some(&at) = self.index.get(&address) else {
            return BTreeSet::new();
        };
        let next = |from: usize| match self.get(from) {
            Some(one) => self.behind_of(one, None),
            None => Vec::new(),
        };
        let before = |of: usize| self.predecessors.get(of).cloned().unwrap_or_default();
        let all = 0..self.instructions.len();
        let exits: Vec<usize> = all.clone().filter(|one| self.leaves(*one)).collect();
        let without = self.reached(&[0], Some(at), next);
        let behind = self.reached(&[at], None, next);
        let past = self.reached(&exits, Some(at), before);
        let leading = self.reached(&[at], None, before);
        let has = |of: &[bool], one: usize| of.get(one).copied().unwrap_or_default();
        all.filter(|&one| {
            has(&behind, one) && !has(&without, one) || has(&leading, one) && !has(&past, one)
        })
        .filter_map(|one| Some(self.get(one)?.ip()))
        .collect()
    }

    /// Whether every call of the function comes to the instruction at an address.
    pub(in super::super) fn always_reaches(&self, address: u64) -> bool {
        let entry = self.instructions.first().map(iced_x86::Instruction::ip);
        entry.is_some_and(|entry| self.implied(address).contains(&entry))
    }

    /// Whether control comes back to the instruction at an address and not to another one.
    pub(super) fn repeats_without(&self, address: u64, other: u64) -> bool {
        let at = self.index.get(&address).copied();
        let Some((at, one)) = at.and_then(|at| Some((at, self.get(at)?))) else {
            return false;
        };
        let next = |from: usize| match self.get(from) {
            Some(one) => self.behind_of(one, None),
            None => Vec::new(),
        };
        let other = self.index.get(&other).copied();
        let reached = self.reached(&self.behind_of(one, None), other, next);
        reached.get(at).copied().unwrap_or_default()
    }

    /// Whether control may leave the function at an instruction.
    fn leaves(&self, at: usize) -> bool {
        use iced_x86::FlowControl as F;
        let Some(one) = self.get(at) else {
            return false;
        };
        let inside = self.behind_of(one, None).len();
        match one.flow_control() {
            F::ConditionalBranch => inside < 2,
            // Where else an indirect jump leads is not known.
            F::IndirectBranch => true,
            _ => inside == 0,
        }
    }

    /// Which instructions are reached from some of them, those included, by ways that do not come
    /// by one.
    fn reached(
        &self,
        from: &[usize],
        avoided: Option<usize>,
        next: impl Fn(usize) -> Vec<usize>,
    ) -> Vec<bool> {
        let mut reached = vec![false; self.instructions.len()];
        let mut work = from.to_vec();
        while let Some(at) = work.pop() {
            match reached.get_mut(at) {
                Some(seen) if !*seen && avoided != Some(at) => {
                    *seen = true;
                    work.extend(next(at));
                }
                _ => {}
            }
        }
        reached
    }
}
