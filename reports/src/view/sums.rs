//! The values at PCs: added up over processes, subjects and flushes, and what they mean.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use profiledb::{Merged, bare_parameter};

use super::processes::places_differ;
use super::unseen;
use super::values::Added;
use super::{JSON_VALUES, Values, View};
use crate::dwarf;
use crate::variables::Returned;

/// Seed of the coins that merges of hotlists throw: the same input gives the same report.
const SEED: u64 = 0x7663_7069;

/// Whether values from several call sites are added up.
#[derive(Debug, Clone, Copy)]
enum Callers {
    /// They are.
    Together,
    /// They are not.
    Apart,
    /// They are not, and those are left out whose call site is not known.
    Known,
}

impl Callers {
    /// Where callers are kept apart, those that are known.
    fn known(by_caller: bool) -> Callers {
        match by_caller {
            true => Callers::Known,
            false => Callers::Together,
        }
    }
}

impl View<'_> {
    /// The values of all parameters at the PCs asked for, merged over processes,
    /// subjects and flushes, and over callers unless kept apart.
    pub(crate) fn values(&self, by_caller: bool) -> Vec<Values> {
        self.values_where(by_caller, |pc| Some(pc).filter(|pc| self.wants(*pc)))
    }

    /// As [`View::values`], with what was seen at a PC counted at `place(pc)`. Where callers are
    /// kept apart, there is nothing of what has none that is known.
    pub(crate) fn values_at(&self, by_caller: bool, place: impl Fn(usize) -> usize) -> Vec<Values> {
        self.all_values(Callers::known(by_caller), |pc| {
            Some(place(pc)).filter(|pc| self.wants(*pc))
        })
    }

    /// As [`View::values_at`], each told once: by executions where these are told. Of what is no
    /// argument there is the most frequent value alone, if that passes a test, and nothing where
    /// callers are kept apart: all of them take much memory.
    pub(crate) fn values_once(
        &self,
        by_caller: bool,
        place: impl Fn(usize) -> usize,
        wants: impl Fn(&Values) -> bool,
    ) -> Vec<Values> {
        let at = |pc| Some(place(pc)).filter(|pc| self.wants(*pc));
        let test = |name: &str| !by_caller || Values::names_argument(bare_parameter(name));
        let key = |of: &Values| (of.pc, of.caller, of.parameter.clone());
        let mut told = BTreeSet::new();
        let mut all = Vec::new();
        self.each_value_told(Callers::known(by_caller), at, test, &mut |mut values| {
            let is_wanted = values.is_argument() || wants(&values);
            if values.base.is_of_executions() {
                told.insert(key(&values));
            }
            if is_wanted && !values.is_argument() {
                values.shares.truncate(1);
                values.shares.shrink_to_fit();
            }
            all.extend(Some(values).filter(|_| is_wanted));
        });
        all.retain(|of| of.base.is_of_executions() || !told.contains(&key(of)));
        all
    }

    /// As [`View::values`], of the PCs that have a place, whatever was asked for, with what was
    /// seen at a PC counted at that. What was called by a PLT stub has no caller that is known.
    pub(crate) fn values_where(
        &self,
        by_caller: bool,
        place: impl Fn(usize) -> Option<usize>,
    ) -> Vec<Values> {
        let callers = match by_caller {
            true => Callers::Apart,
            false => Callers::Together,
        };
        self.all_values(callers, place)
    }

    fn all_values(&self, callers: Callers, place: impl Fn(usize) -> Option<usize>) -> Vec<Values> {
        let mut all = Vec::new();
        self.each_value_told(callers, place, |_| true, &mut |values| all.push(values));
        all
    }

    /// As [`View::values`], of one parameter.
    pub(crate) fn values_of(&self, parameter: &str) -> Vec<Values> {
        self.values_of_any(|name| name == parameter)
    }

    /// As [`View::values`], merged over callers, of the parameters that pass a test.
    pub(crate) fn values_of_any(&self, test: impl Fn(&str) -> bool) -> Vec<Values> {
        let test = |name: &str| test(bare_parameter(name));
        let place = |pc| Some(pc).filter(|pc| self.wants(*pc));
        let mut all = Vec::new();
        let mut take = |values| all.push(values);
        self.each_value_told(Callers::Together, place, test, &mut take);
        all
    }

    /// As [`View::values`], of the parameters that pass a test, and not of executions; one by one,
    /// since all of them take much memory.
    pub(crate) fn each_value_of(&self, test: impl Fn(&str) -> bool, take: &mut dyn FnMut(Values)) {
        let test = |name: &str| bare_parameter(name) == name && test(name);
        let place = |pc| Some(pc).filter(|pc| self.wants(*pc));
        self.each_value_told(Callers::Together, place, test, take);
    }

    /// Gives `take` the values of the parameters that pass a test, at the PCs that have a place.
    fn each_value_told(
        &self,
        callers: Callers,
        place: impl Fn(usize) -> Option<usize>,
        test: impl Fn(&str) -> bool,
        take: &mut dyn FnMut(Values),
    ) {
        // A stub is not who called: where a window began in one, that is not known. Many lists have
        // one call site, and whether a stub is there takes a look at its code.
        let in_stub: Vec<Cell<Option<bool>>> = match callers {
            Callers::Together => Vec::new(),
            Callers::Apart | Callers::Known => vec![Cell::new(None); self.profile.pcs.len()],
        };
        let is_in_stub = |site: usize| {
            let look = || self.symbols.is_in_stub(site);
            let Some(known) = in_stub.get(site) else {
                return look();
            };
            let is_in_stub = known.get().unwrap_or_else(look);
            known.set(Some(is_in_stub));
            is_in_stub
        };
        let at = |pc: usize, caller: Option<usize>| {
            let known = || caller.filter(|site| !is_in_stub(*site));
            let caller = match callers {
                Callers::Together => None,
                Callers::Apart => known(),
                Callers::Known => Some(known()?),
            };
            Some((place(pc)?, caller))
        };
        // Own coins for each sum: what else is asked for changes nothing in it.
        let coins = || hotlist::Generator::new(SEED);
        let wants = |parameter: &str| {
            let name = bare_parameter(parameter);
            let mut starts = self.parameters.iter();
            (self.parameters.is_empty() || starts.any(|start| name.starts_with(start.as_str())))
                && test(parameter)
        };
        let (least, trends) = (self.min_samples, self.trends);
        let of = |merged: &Merged<'_>| Values::of(merged, least, trends);
        // Those of one PC come one after the other.
        let mut of_pc: Vec<Values> = Vec::new();
        let mut give = |of_pc: &mut Vec<Values>| {
            unseen::fill(of_pc);
            of_pc.drain(..).for_each(&mut *take);
        };
        let place = |value| self.pointers.image_at(value).ok_or(value);
        let mut hold = |added: Option<Added>| match added {
            Some(Added::Enough(values)) if places_differ(&values, place) => {}
            Some(Added::Enough(values)) => {
                if of_pc.first().is_some_and(|first| first.pc != values.pc) {
                    give(&mut of_pc);
                }
                of_pc.push(*values);
            }
            Some(Added::Few) => self.few_values.set(true),
            None => {}
        };
        let profile = self.profile;
        profile.each_merged(wants, at, coins, trends > 0, of, &mut hold);
        give(&mut of_pc);
    }

    /// Finds out what the most frequent values point to.
    pub(crate) fn tell(&self, values: &mut Values) {
        if self.pointers.is_empty() {
            return;
        }
        let class = values.class();
        for share in values.shares.iter().take(JSON_VALUES) {
            let of = (values.parameter.as_str(), class);
            if let Some(text) = self.pointers.text(&self.symbols, of, share.value) {
                values.pointed.insert(share.value, text);
            }
        }
    }

    /// Values, and [what they point to](View::tell).
    pub(crate) fn told(&self, mut values: Values) -> Values {
        self.tell(&mut values);
        values
    }

    /// Those of some PCs that are in functions without a result there, as far as debug information
    /// declares them.
    pub(crate) fn without_result(
        &self,
        pcs: impl Iterator<Item = usize>,
        place: dwarf::ResultRegister,
    ) -> BTreeSet<usize> {
        let by_image = self.by_image(pcs);
        let mut found = BTreeSet::new();
        for (image, pcs) in by_image {
            let addresses = pcs.keys().copied().collect();
            let without = self.symbols.without_result(image, &addresses, place);
            found.extend(without.iter().filter_map(|address| pcs.get(address)));
        }
        found
    }

    /// What the functions that some PCs are in return, as far as debug information declares it.
    pub(crate) fn results(&self, pcs: impl Iterator<Item = usize>) -> BTreeMap<usize, Returned> {
        let mut found = BTreeMap::new();
        for (image, pcs) in self.by_image(pcs) {
            let addresses = pcs.keys().copied().collect();
            let of_image = self.symbols.results(image, &addresses).into_iter();
            found.extend(of_image.filter_map(|(address, of)| Some((*pcs.get(&address)?, of))));
        }
        found
    }

    /// PCs by their images and addresses.
    fn by_image(&self, pcs: impl Iterator<Item = usize>) -> BTreeMap<usize, BTreeMap<u64, usize>> {
        let mut by_image: BTreeMap<usize, BTreeMap<u64, usize>> = BTreeMap::new();
        for index in pcs {
            if let Some(pc) = self.profile.pcs.get(index) {
                let of_image = by_image.entry(pc.image).or_default();
                of_image.insert(pc.address, index);
            }
        }
        by_image
    }
}
