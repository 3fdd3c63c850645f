//! A profile as the reports ask for it: named, filtered, added up over processes,
//! subjects and flushes.

mod processes;
mod results;
pub(crate) mod select;
mod sums;
mod trend;
mod unseen;
mod values;

use std::cell::{Cell, OnceCell};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use iced_x86::Instruction;
use profiledb::{Places, Profile};

use crate::args::Common;
use crate::code::decode_in;
use crate::failure::Failure;
use crate::images;
use crate::needs::Needs;
use crate::pointers::Pointers;
use crate::renderers::Format;
use crate::symbols::{FunctionId, Offers, Symbols};

pub(crate) use results::Results;
pub(crate) use trend::Trend;
pub(crate) use values::{Base, Share, Values};

/// The most values of a profile in JSON. What comes after them is told by its number alone.
pub(crate) const JSON_VALUES: usize = 64;

/// Interrupts at a PC.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Heat {
    /// Interrupts.
    pub(crate) samples: u64,
    /// What they stand for.
    pub(crate) cycles: f64,
}

impl Heat {
    /// Adds more of the same.
    pub(crate) fn add(&mut self, other: Heat) {
        self.samples = self.samples.saturating_add(other.samples);
        self.cycles += other.cycles;
    }
}

fn owned(parameters: &[&str]) -> Vec<String> {
    parameters.iter().map(|&start| start.to_owned()).collect()
}

/// A count as a float; exact below 2^53, and counts are.
pub(crate) fn as_float(count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    let float = count as f64;
    float
}

/// How many rows a report has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound {
    /// At most; `None`: all.
    pub(crate) lines: Option<usize>,
    /// Those beyond.
    pub(crate) left_out: usize,
}

/// Which rows of a profile were read, of those that the filter lets through.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Extent<'a> {
    /// All.
    Whole,
    /// Those at some places, where a function may be that is asked for.
    Around,
    /// Those at the places of the functions asked for.
    Exactly(&'a Places),
}

/// A named and filtered profile.
pub(crate) struct View<'p> {
    /// The rows.
    pub(crate) profile: &'p Profile,
    /// Names for its addresses.
    pub(crate) symbols: Symbols<'p>,
    /// What lies where in its processes.
    pub(crate) pointers: Pointers,
    /// Interrupts of each PC.
    pub(crate) heat: Vec<Heat>,
    /// Least samples that a line of a report rests on.
    pub(crate) min_samples: u64,
    /// Of so many values it is told whether they rise or fall.
    trends: usize,
    /// How parameters begin whose values are looked at; nothing: any may be.
    pub(crate) parameters: Vec<String>,
    /// Rows that rest on fewer.
    few: Cell<u64>,
    /// Values do as well.
    few_values: Cell<bool>,
    /// Rows that a report has at most.
    bound: Bound,
    /// What the reader of the report should know beside it, a line each.
    pub(crate) notes: Vec<String>,
    /// See [`View::of_function`].
    of_function: OnceCell<BTreeMap<FunctionId, BTreeMap<u64, usize>>>,
    /// Rows at some places alone were read.
    profile_is_part: bool,
    /// Images asked for; `None`: all.
    images: Option<BTreeSet<usize>>,
    /// Functions asked for; `None`: all.
    functions: Option<BTreeSet<FunctionId>>,
    /// The images asked for, as the command line names them.
    pub(crate) named_images: Vec<String>,
}

impl View<'_> {
    /// The instruction at a PC of the profile, in the mode that it ran in; `None`: nobody has its
    /// bytes.
    pub(crate) fn instruction(&self, pc: usize) -> Option<Instruction> {
        let pc = self.profile.pcs.get(pc)?;
        let bytes = match pc.bytes.as_deref() {
            Some(bytes) => bytes,
            None => self.symbols.elf(pc.image)?.few_bytes(pc.address)?,
        };
        decode_in(self.symbols.mode(pc.image), bytes, pc.address)
    }
}

impl<'p> View<'p> {
    /// Names the PCs of a profile and finds what the options ask for. `offers` are those of the
    /// profile, if they are known already.
    pub(crate) fn new(
        profile: &'p Profile,
        common: &Common,
        needs: &Needs<'_>,
        extent: Extent<'_>,
        offers: Option<Offers>,
    ) -> Result<View<'p>, Failure> {
        let images = images::named(profile, &common.image)?;
        let function = needs.function.or(common.only_function.as_deref());
        let is_part = !matches!(extent, Extent::Whole);
        let mut view = View::named(profile, common, needs, (images, function), is_part, offers);
        if let Some(name) = function {
            view.functions = Some(match extent {
                Extent::Exactly(places) => view.at(places),
                Extent::Whole | Extent::Around => view.select(name, needs.stubs)?,
            });
            let found = view.functions.iter().flatten().copied().collect();
            let note = view.shown_as(name, &found);
            view.notes.extend(note);
        } else if let Extent::Exactly(places) = extent {
            view.functions = Some(view.at(places));
        }
        Ok(view)
    }

    /// The view of some images, or of all, of which one `function` or none is asked for.
    fn named(
        profile: &'p Profile,
        common: &Common,
        needs: &Needs<'_>,
        (images, function): (Option<BTreeSet<usize>>, Option<&str>),
        is_part: bool,
        offers: Option<Offers>,
    ) -> View<'p> {
        let Needs {
            stubs,
            others,
            nameless,
            ..
        } = *needs;
        // A stub may lead from any image to any other.
        let near = images.as_ref().filter(|_| !stubs).map(|images| {
            let pcs = &profile.pcs;
            images::around(profile, |pc| {
                pcs.get(pc).is_some_and(|pc| images.contains(&pc.image))
            })
        });
        let by_function = function.is_some();
        let near = match is_part && !others {
            true => Some(images::asked(profile)),
            false if nameless && !by_function => Some(BTreeSet::new()),
            false => near,
        };
        let symbols = Symbols::new(profile, !common.no_symbols, near.as_ref(), offers);
        let mut heat = vec![Heat::default(); profile.pcs.len()];
        for row in &profile.cycles {
            if let Some(heat) = heat.get_mut(row.pc) {
                heat.add(Heat {
                    samples: row.samples,
                    cycles: row.cycles,
                });
            }
        }
        View {
            profile,
            symbols,
            pointers: Pointers::new(profile),
            heat,
            of_function: OnceCell::new(),
            min_samples: common.min_samples.unwrap_or(needs.min_samples),
            trends: match (needs.trends, common.format) {
                (0, _) => 0,
                (_, Format::Json) => JSON_VALUES,
                (shown, Format::Text) => shown,
            },
            parameters: owned(needs.parameters),
            few: Cell::new(0),
            few_values: Cell::new(false),
            bound: Bound {
                lines: common.lines,
                left_out: 0,
            },
            notes: Vec::new(),
            profile_is_part: is_part,
            images,
            functions: None,
            named_images: common.image.clone(),
        }
    }

    /// The views of two profiles. An image or a function may be in one of them alone; a name means
    /// in both what it means in either.
    pub(crate) fn of_two(
        profiles: [&'p Profile; 2],
        common: &Common,
        needs: &Needs<'_>,
    ) -> Result<[View<'p>; 2], Failure> {
        let [before, after] = profiles;
        let images = profiles.map(|profile| images::named(profile, &common.image));
        let function = needs.function.or(common.only_function.as_deref());
        let view = |profile, images: Option<BTreeSet<usize>>| {
            View::named(profile, common, needs, (images, function), false, None)
        };
        let mut views = match images {
            [Err(failure), Err(_)] => return Err(failure),
            [of_before, of_after] => [
                view(before, of_before.unwrap_or_else(|_| Some(BTreeSet::new()))),
                view(after, of_after.unwrap_or_else(|_| Some(BTreeSet::new()))),
            ],
        };
        if let Some(name) = function {
            let found = views.each_ref().map(|view| view.select(name, needs.stubs));
            let mut names = BTreeSet::new();
            let mut failure = None;
            for (view, found) in views.iter().zip(found) {
                match found {
                    Ok(ids) => names.extend(view.names_of(&ids).map(str::to_owned)),
                    Err(why) => failure = failure.or(Some(why)),
                }
            }
            if let Some(failure) = failure.filter(|_| names.is_empty()) {
                return Err(failure);
            }
            for view in &mut views {
                view.functions = Some(view.matching(|_, function| names.contains(&function.name)));
            }
        }
        Ok(views)
    }

    /// Whether a PC is in what was asked for.
    pub(crate) fn wants(&self, pc: usize) -> bool {
        let image_wanted = match (&self.images, self.profile.pcs.get(pc)) {
            (Some(images), Some(pc)) => images.contains(&pc.image),
            (_, None) => false,
            (None, Some(_)) => true,
        };
        let function_wanted = match (&self.functions, self.symbols.function_of(pc)) {
            (Some(functions), Some(function)) => functions.contains(&function),
            (Some(_), None) => false,
            (None, _) => true,
        };
        image_wanted && function_wanted
    }

    /// Whether all that was collected is asked for.
    pub(crate) fn wants_all(&self) -> bool {
        self.images.is_none() && self.functions.is_none()
    }

    /// The images of what was asked for, and of what calls it or is called from there.
    pub(crate) fn images_needed(&self) -> BTreeSet<usize> {
        images::around(self.profile, |pc| self.wants(pc))
    }

    /// Whether a row rests on enough samples; one that does not is counted.
    pub(crate) fn is_enough(&self, samples: u64) -> bool {
        let is_enough = samples >= self.min_samples;
        self.few.set(self.few.get() + u64::from(!is_enough));
        is_enough
    }

    /// What was left out since it rests on too few samples.
    pub(crate) fn too_few(&self) -> Option<String> {
        let rows = Some(self.few.get()).filter(|rows| *rows > 0);
        let rows = rows.map(|rows| crate::render::counted(rows, "row"));
        let values = self.few_values.get().then(|| "values".to_owned());
        let what: Vec<String> = rows.into_iter().chain(values).collect();
        let samples = crate::render::counted(self.min_samples, "sample");
        let what = what.join(" and ");
        (!what.is_empty() && self.min_samples > 1)
            .then(|| format!("{what} with fewer than {samples} left out (--min-samples)"))
    }

    /// Leaves out the rows beyond those asked for, and counts how many these are.
    pub(crate) fn keep_first<T>(&mut self, rows: &mut Vec<T>) {
        let Bound { lines, left_out } = &mut self.bound;
        let more = lines.map_or(0, |most| rows.len().saturating_sub(most));
        rows.truncate(rows.len() - more);
        *left_out += more;
    }

    /// Counts what a view of a part left out, for the view of all.
    pub(crate) fn count_left_out(&mut self, of_part: &View<'_>) {
        self.few.set(self.few.get() + of_part.few.get());
        self.few_values
            .set(self.few_values.get() || of_part.few_values.get());
        self.bound.left_out += of_part.bound.left_out;
    }

    /// As [`View::keep_first`], of rows that are put into an order in which no two are equal: what
    /// is left out is not.
    pub(crate) fn keep_least<T>(
        &mut self,
        rows: &mut Vec<T>,
        mut order: impl FnMut(&T, &T) -> Ordering,
    ) {
        if let Some(most) = self.bound.lines.filter(|most| *most < rows.len()) {
            rows.select_nth_unstable_by(most, &mut order);
        }
        self.keep_first(rows);
        rows.sort_unstable_by(order);
    }

    /// Rows that a report has at most; `None`: all.
    pub(crate) fn most_lines(&self) -> Option<usize> {
        self.bound.lines
    }

    /// Begins to count anew, and asks for so many rows; what it was before.
    pub(crate) fn begin_rows(&mut self, lines: Option<usize>) -> Bound {
        let bound = Bound { lines, left_out: 0 };
        std::mem::replace(&mut self.bound, bound)
    }

    /// Rows that are beyond those asked for.
    pub(crate) fn beyond(&self) -> Option<String> {
        let more = Some(self.bound.left_out as u64).filter(|more| *more > 0);
        let more = crate::render::counted(more?, "more row");
        Some(format!("{more} left out (--lines)"))
    }

    /// Has values of parameters alone be looked at that begin so, or of all; how those began
    /// before.
    pub(crate) fn look_at(&mut self, parameters: &[&str]) -> Vec<String> {
        std::mem::replace(&mut self.parameters, owned(parameters))
    }

    /// Asks for other functions, or for all; those that were asked for before.
    pub(crate) fn ask_for(
        &mut self,
        functions: Option<BTreeSet<FunctionId>>,
    ) -> Option<BTreeSet<FunctionId>> {
        std::mem::replace(&mut self.functions, functions)
    }

    /// The functions asked for by name.
    pub(crate) fn selected(&self) -> Option<&BTreeSet<FunctionId>> {
        self.functions.as_ref()
    }

    /// All interrupts.
    pub(crate) fn total(&self) -> Heat {
        let mut total = Heat::default();
        if self.profile_is_part {
            for of_image in &self.profile.totals {
                total.add(Heat {
                    samples: of_image.samples,
                    cycles: of_image.cycles,
                });
            }
            return total;
        }
        for heat in &self.heat {
            total.add(*heat);
        }
        total
    }

    /// PCs of each function, by address.
    fn of_function(&self) -> &BTreeMap<FunctionId, BTreeMap<u64, usize>> {
        self.of_function.get_or_init(|| {
            let mut of_function: BTreeMap<FunctionId, BTreeMap<u64, usize>> = BTreeMap::new();
            for (index, pc) in self.profile.pcs.iter().enumerate() {
                if let Some(function) = self.symbols.function_of(index) {
                    let pcs = of_function.entry(function).or_default();
                    pcs.insert(pc.address, index);
                }
            }
            of_function
        })
    }

    /// PCs of a function, by address.
    pub(crate) fn pcs_of(&self, function: FunctionId) -> BTreeMap<u64, usize> {
        self.of_function()
            .get(&function)
            .cloned()
            .unwrap_or_default()
    }

    /// The PC at an address of a function.
    pub(crate) fn pc_in(&self, function: FunctionId, address: u64) -> Option<usize> {
        self.of_function().get(&function)?.get(&address).copied()
    }

    /// The address of a PC as reports print it.
    pub(crate) fn address(&self, pc: usize) -> String {
        match self.profile.pcs.get(pc) {
            Some(pc) => format!("0x{:x}", pc.address),
            None => "?".to_owned(),
        }
    }

    /// The path of an image.
    pub(crate) fn image_path(&self, image: usize) -> &'p str {
        self.profile
            .images
            .get(image)
            .map_or("?", |image| image.path.as_str())
    }
}
