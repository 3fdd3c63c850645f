//! The instructions of functions with their values, as pages have them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use crate::code::{Disassembler, ProcessorMode, Spacing};
use crate::names;
use crate::render::{rounded, whole};
use crate::report::list::{self, ListedInstruction, Listing, ParameterValues};
use crate::sources::{For, Sources};
use crate::symbols::FunctionId;
use crate::view::View;

/// Values of a parameter at most.
const MOST_VALUES: usize = 12;
/// As many instructions in a row that were never seen are told by their number.
const QUIET: usize = 12;
/// Of these so many are shown at either end.
const AROUND: usize = 3;
/// Lines of a function's source at most.
const MOST_LINES: usize = 600;
/// Characters of a line at most.
const WIDEST: usize = 300;

/// Lines in a row of a file.
#[derive(Debug, Serialize)]
struct Excerpt {
    /// Index of the file.
    file: usize,
    /// Number of the first line.
    first: u32,
    lines: Vec<String>,
}

/// A function's instructions.
#[derive(Debug, Serialize)]
pub(super) struct Code {
    function: String,
    image: String,
    address: Option<String>,
    build_id: Option<String>,
    /// It runs in 32-bit mode.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    narrow: bool,
    /// Source files.
    files: Vec<String>,
    /// File, line, and what is inlined there, the outermost first.
    places: Vec<(usize, u32, Vec<String>)>,
    rows: Vec<ListingLine>,
    source: Vec<Excerpt>,
}

/// A line of a listing.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ListingLine {
    /// So many instructions that were never seen.
    Quiet(usize),
    /// Address, text, cycles, samples, place, values.
    Instruction(String, String, u64, u64, Option<usize>, Vec<PageValues>),
}

/// The values of a parameter.
#[derive(Debug, Serialize)]
struct PageValues {
    /// The parameter.
    p: String,
    /// Times a window came by.
    r: u64,
    /// Of these without a known value.
    u: u64,
    /// Distinct values.
    d: usize,
    /// 1/p of the list.
    t: f64,
    /// Shares are of executions.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    e: bool,
    /// Not known whether it is an argument.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    q: bool,
    /// Value, percent, and the ends of the 95 % interval.
    v: Vec<(String, f64, f64, f64)>,
}

/// The instructions of functions.
pub(super) struct Listings {
    /// Those that were found, with their cycles and how much each takes.
    all: Vec<(Code, f64, usize)>,
    /// What is read of files for the page; `None`: nothing is.
    sources: Option<Sources>,
    of_listings: Sources,
}

impl Listings {
    pub(super) fn new(with_source: bool) -> Listings {
        Listings {
            all: Vec::new(),
            sources: with_source.then(|| Sources::new(For::Anybody)),
            of_listings: Sources::new(For::Reader),
        }
    }

    /// Adds those of functions of a view.
    pub(super) fn add(
        &mut self,
        view: &mut View<'_>,
        functions: &[FunctionId],
    ) -> Result<(), serde_json::Error> {
        let Listings {
            all,
            sources,
            of_listings,
        } = self;
        let mut failed = None;
        let mut take = |listing: Listing| {
            let code = code(&listing, sources.as_mut());
            let cycles = listing.lines.iter().map(|line| line.heat.cycles).sum();
            match serde_json::to_string(&code) {
                Ok(text) => all.push((code, cycles, text.len())),
                Err(error) => failed = Some(error),
            }
            failed.is_none()
        };
        list::each_listing(view, functions, false, of_listings, &mut take);
        failed.map_or(Ok(()), Err)
    }

    /// Leaves those for which there is room, the hottest first: of what comes later, nothing makes
    /// room for others.
    pub(super) fn keep_hottest(&mut self, room: usize) {
        self.all.sort_by(|(a, hot, _), (b, other, _)| {
            let place = |code: &Code| (code.image.clone(), code.address.clone());
            other.total_cmp(hot).then_with(|| place(a).cmp(&place(b)))
        });
        let mut taken = 0;
        let fits = self.all.iter().take_while(|(_, _, size)| {
            taken += size;
            taken <= room
        });
        let fits = fits.count();
        self.all.truncate(fits);
    }

    /// Those that are left, in that order.
    pub(super) fn into_rows(self) -> Vec<Code> {
        self.all.into_iter().map(|(code, _, _)| code).collect()
    }
}

fn code(listing: &Listing, sources: Option<&mut Sources>) -> Code {
    let mut disassembler = Disassembler::new(Spacing::Text);
    let mut files: Vec<&Path> = Vec::new();
    let mut lines: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    let mut places = Vec::new();
    let mut of_place: BTreeMap<(usize, u32, &[String]), usize> = BTreeMap::new();
    let mut rows = Vec::new();
    let is_quiet = |line: &ListedInstruction| line.heat.samples == 0 && line.profiles.is_empty();
    for run in listing.lines.chunk_by(|a, b| is_quiet(a) && is_quiet(b)) {
        let left_out = match run.first().is_some_and(is_quiet) && run.len() > QUIET {
            true => AROUND..run.len() - AROUND,
            false => 0..0,
        };
        for (index, line) in run.iter().enumerate() {
            if left_out.contains(&index) {
                if index == left_out.start {
                    rows.push(ListingLine::Quiet(left_out.len()));
                }
                continue;
            }
            let place = line.place.file.as_deref().zip(line.place.line);
            let place = place.map(|(file, number)| {
                let known = files.iter().position(|other| *other == file);
                let file = known.unwrap_or_else(|| {
                    files.push(file);
                    files.len() - 1
                });
                lines.entry(file).or_default().insert(number);
                let inlined = line.place.inlined.as_slice();
                *of_place.entry((file, number, inlined)).or_insert_with(|| {
                    let inlined = inlined.iter().map(|name| names::short(name)).collect();
                    places.push((file, number, inlined));
                    places.len() - 1
                })
            });
            let text = line.instruction.map(|instruction| {
                let target = || line.target.as_deref().map(names::short);
                disassembler.text(&instruction, |_| target())
            });
            let shown = line.profiles.iter().filter(|profile| !profile.is_beside());
            rows.push(ListingLine::Instruction(
                format!("{:x}", line.address),
                text.unwrap_or_else(|| "?".to_owned()),
                whole(line.heat.cycles),
                line.heat.samples,
                place,
                shown.map(values).collect(),
            ));
        }
    }
    let mut source = Vec::new();
    if let Some(sources) = sources {
        let mut left = MOST_LINES;
        for (index, lines) in &lines {
            let Some(file) = files.get(*index) else {
                continue;
            };
            for (first, row) in sources.around(file, Path::new(&listing.image), lines, left) {
                left = left.saturating_sub(row.len());
                let cut = |line: String| line.chars().take(WIDEST).collect();
                source.push(Excerpt {
                    file: *index,
                    first,
                    lines: row.into_iter().map(cut).collect(),
                });
            }
        }
    }
    Code {
        function: listing.name.clone(),
        image: listing.image.clone(),
        address: listing.start.map(|start| format!("0x{start:x}")),
        build_id: listing.build_id.clone(),
        narrow: listing.mode == ProcessorMode::Compatibility,
        files: files
            .iter()
            .map(|file| file.to_string_lossy().into_owned())
            .collect(),
        places,
        rows,
        source,
    }
}

fn values(profile: &ParameterValues) -> PageValues {
    let values = &profile.values;
    let shares = values
        .shares
        .iter()
        .filter(|share| values.supports(share))
        .take(MOST_VALUES)
        .map(|share| {
            (
                profile.text(share.value),
                rounded(share.percent, 1),
                rounded(share.low, 1),
                rounded(share.high, 1),
            )
        });
    PageValues {
        p: profile.parameter().to_owned(),
        r: values.reached,
        u: values.unknown,
        d: values.shares.len(),
        t: rounded(values.threshold, 1),
        e: values.base.is_of_executions(),
        q: !values.live,
        v: shares.collect(),
    }
}
