//! Which functions a name on the command line means.

use std::collections::BTreeSet;

use profiledb::Places;

use super::View;
use crate::failure::Failure;
use crate::names::{Names, without_parameters};
use crate::symbols::{Function, FunctionId, STUB};

/// Names that are told where several may have been meant.
const MOST_TOLD: usize = 20;

impl View<'_> {
    /// Functions by name (with `stubs`, PLT stubs by that of their target as well): exactly, else
    /// by another name that symbol tables have of the same code, else by an instruction in it as
    /// the reports print that, else by a part that is in one name only.
    pub(super) fn select(&self, name: &str, stubs: bool) -> Result<BTreeSet<FunctionId>, Failure> {
        // `args` names stubs by the functions behind them.
        for stubs in [stubs, stubs || !self.profile_is_part] {
            let exact = self.matching(|_, function| is_called(&function.name, name, stubs));
            if !exact.is_empty() {
                return Ok(exact);
            }
        }
        let aliased = self.by_other_name(name);
        if !aliased.is_empty() {
            return Ok(aliased);
        }
        let mut around = BTreeSet::new();
        if let Some(address) = hex(name) {
            around = self.at_address(address);
            if around.len() > 1 {
                return Err(self.ambiguous(&format!("{name} is in"), "functions", &around));
            }
        } else if let Some((whole, number)) = name.rsplit_once('+')
            && let Some(number) = hex(number)
        {
            around = self.holding(name, whole, number);
        }
        if !around.is_empty() {
            return Ok(around);
        }
        if self.profile_is_part {
            return Err(Failure::Nothing(format!("no function {name:?} was read")));
        }
        let parts = self.matching(|_, function| function.name.contains(name));
        let names: BTreeSet<&str> = self.names_of(&parts).collect();
        match names.len() {
            0 => Err(Failure::Nothing(format!(
                "no function {name:?} in this profile; `vcpi top` names those that are"
            ))),
            1 => Ok(parts),
            _ => Err(self.ambiguous(&format!("{name:?} is part of"), "names", &parts)),
        }
    }

    /// The functions that have this name beside the one that is shown, as those that a compiler or
    /// a linker folded with others.
    fn by_other_name(&self, name: &str) -> BTreeSet<FunctionId> {
        if !self.symbols.has_names() || hex(name).is_some() {
            return BTreeSet::new();
        }
        self.matching(|_, function| {
            let start = function.start.filter(|_| function.named);
            let names = start.map(|start| self.symbols.names_at(function.image, start));
            names.is_some_and(|names| names.iter().any(|own| is_called(own, name, false)))
        })
    }

    /// What is to be said of functions that were found by a name that is not the one shown.
    pub(super) fn shown_as(&self, name: &str, found: &BTreeSet<FunctionId>) -> Option<String> {
        let mut own = self.names_of(found);
        if own.any(|own| own.contains(name) || is_called(own, name, true)) {
            return None;
        }
        let shown: Vec<&str> = self.names_of(found).collect();
        let is_other = !shown.is_empty() && self.by_other_name(name) == *found;
        let shown = shown.join(", ");
        is_other.then(|| format!("{name} has its code in common with {shown}, and goes by that"))
    }

    /// The functions at places that are those of functions, as far as rows were read of them.
    pub(super) fn at(&self, places: &Places) -> BTreeSet<FunctionId> {
        self.matching(|_, function| {
            let image = self.profile.images.get(function.image);
            let ranges = image.map_or(&[][..], |image| places.of(image));
            match function.start {
                Some(start) => ranges
                    .iter()
                    .any(|(from, end)| (*from..*end).contains(&start)),
                None => !ranges.is_empty(),
            }
        })
    }

    /// Where the functions asked for are.
    pub(crate) fn places(&self) -> Places {
        let mut places = Places::default();
        for id in self.functions.iter().flatten() {
            let Some(function) = self.symbols.function(*id) else {
                continue;
            };
            let Some(image) = self.profile.images.get(function.image) else {
                continue;
            };
            match function.start {
                Some(start) => places.add(image, start, function.end.unwrap_or(u64::MAX)),
                None => places.add_all(image),
            }
        }
        places
    }

    /// The functions of the images asked for that pass a test.
    pub(super) fn matching(
        &self,
        test: impl Fn(FunctionId, &Function) -> bool,
    ) -> BTreeSet<FunctionId> {
        let in_images = |function: &Function| {
            self.images
                .as_ref()
                .is_none_or(|images| images.contains(&function.image))
        };
        let functions = self.symbols.functions().iter().enumerate();
        functions
            .filter(|(id, function)| in_images(function) && test(*id, function))
            .map(|(id, _)| id)
            .collect()
    }

    /// The functions around an address of any image; if there are several, those of them that the
    /// profile has something of just there.
    fn at_address(&self, address: u64) -> BTreeSet<FunctionId> {
        let is_pc = |id| {
            self.of_function()
                .get(&id)
                .is_some_and(|pcs| pcs.contains_key(&address))
        };
        let exact = self.matching(|id, _| is_pc(id));
        if !exact.is_empty() {
            return exact;
        }
        self.matching(|_, function| covers(function, address))
    }

    /// The functions that hold `name`, which is `whole+number`: an address of an image or an offset
    /// into a function, or either as text shows it, where a long name is cut.
    fn holding(&self, name: &str, whole: &str, number: u64) -> BTreeSet<FunctionId> {
        let is_image = |function: &Function| {
            let row = self.profile.images.get(function.image);
            let short = self.symbols.short_name(function.image);
            short == whole || row.is_some_and(|row| row.path == whole)
        };
        let around = self.matching(|_, function| covers(function, number) && is_image(function));
        if !around.is_empty() {
            return around;
        }
        let within = self.matching(|_, function| {
            let length = function.start.zip(function.end).map(|(from, to)| to - from);
            is_called(&function.name, whole, true) && length.is_none_or(|length| number < length)
        });
        if !within.is_empty() {
            return within;
        }
        if self.profile_is_part {
            return BTreeSet::new();
        }
        let shown: BTreeSet<FunctionId> = (0..self.profile.pcs.len())
            .filter(|pc| is_shown(&self.symbols.name_of_pc(*pc), name))
            .filter_map(|pc| self.symbols.function_of(pc))
            .collect();
        let shown = self.matching(|id, _| shown.contains(&id));
        if !shown.is_empty() {
            return shown;
        }
        // All code of an image without known bounds is listed together.
        self.matching(|_, function| function.start.is_none() && is_image(function))
    }

    pub(super) fn names_of<'s>(
        &'s self,
        ids: &'s BTreeSet<FunctionId>,
    ) -> impl Iterator<Item = &'s str> {
        let functions = ids.iter().filter_map(|id| self.symbols.function(*id));
        functions.map(|function| function.name.as_str())
    }

    /// That several functions may be meant, which are named.
    fn ambiguous(&self, what: &str, of: &str, ids: &BTreeSet<FunctionId>) -> Failure {
        let names: BTreeSet<&str> = self.names_of(ids).collect();
        let mut text = format!("{what} {} {of}:", names.len());
        for name in names.iter().take(MOST_TOLD) {
            text.push_str("\n  ");
            text.push_str(name);
        }
        if names.len() > MOST_TOLD {
            text.push_str(&format!("\n  and {} more", names.len() - MOST_TOLD));
        }
        Failure::Ambiguous(text)
    }
}

/// Whether a function goes by a name: as it is, as programmers say it, or as the reports show it;
/// with `stubs` also a stub by that of its target.
pub(crate) fn is_called(own: &str, name: &str, stubs: bool) -> bool {
    let stub = own.strip_suffix(STUB).filter(|_| stubs);
    let whole = stub.unwrap_or(own);
    [whole, own].contains(&name) || without_parameters(whole) == name || is_shown(whole, name)
}

/// Whether text shows a name so.
fn is_shown(whole: &str, name: &str) -> bool {
    Names::Short.shown(whole) == name || Names::Full.shown(whole) == name
}

fn covers(function: &Function, address: u64) -> bool {
    function.start.is_some_and(|start| start <= address)
        && function.end.is_none_or(|end| address < end)
}

/// A number as the reports print addresses.
pub(crate) fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}
