//! What exports of call stacks are made of: interrupts with the functions around them, from the
//! code that was interrupted to its callers, each with source file, line and what is inlined there.

pub(crate) mod paths;

use std::collections::BTreeMap;

use paths::{Origin, Path, frequent_paths};
use profiledb::rows::ImageKind;
use profiledb::{Image, Process, Profile, Subject};

use crate::failure::Failure;
use crate::render::clean;
use crate::symbolize;
use crate::view::{Heat, View};

/// A function of the source, as frames refer to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SourceFunction {
    /// Index of its image in the profile.
    pub(crate) image: usize,
    /// Its name, or what stands for one, without control characters.
    pub(crate) name: String,
    /// Its source file, where known.
    pub(crate) file: Option<String>,
}

/// A function at a location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceFrame {
    /// Index of the function.
    pub(crate) function: usize,
    /// The line of its file, where known.
    pub(crate) line: Option<u32>,
    /// It is inlined into the frame behind it.
    pub(crate) is_inlined: bool,
}

/// An instruction that was interrupted, or that calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    /// Index of its PC in the profile.
    pub(crate) pc: usize,
    /// Index of its image in the profile.
    pub(crate) image: usize,
    /// Its address, as the image's kind counts.
    pub(crate) address: u64,
    /// The functions that it is in, the innermost first: at least one.
    pub(crate) frames: Vec<SourceFrame>,
}

/// Instructions and the functions that they are in.
#[derive(Debug)]
pub(crate) struct Locations {
    /// Functions of the source.
    pub(crate) functions: Vec<SourceFunction>,
    /// Instructions.
    pub(crate) locations: Vec<Location>,
    /// The index of each by that of its PC in the profile.
    pub(crate) of_pc: BTreeMap<usize, usize>,
}

/// Interrupts with one stack.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// When its flush began and ended, in nanoseconds of the Unix epoch, where that was asked for.
    pub(crate) time: Option<(i64, i64)>,
    /// Index of the process in the profile.
    pub(crate) process: usize,
    /// Index of the access tag in the profile.
    pub(crate) subject: usize,
    /// Indices of locations: what was interrupted, then its callers as far as they are known.
    pub(crate) locations: Vec<usize>,
    /// Why there are no more callers; `None`: there is none.
    pub(crate) cut: Option<&'static str>,
    /// How many, and what they stand for.
    pub(crate) heat: Heat,
}

/// The interrupts that were asked for, with their stacks.
#[derive(Debug)]
pub(crate) struct Stacks<'p> {
    /// The rows that indices are of.
    pub(crate) profile: &'p Profile,
    /// Functions of the source.
    pub(crate) functions: Vec<SourceFunction>,
    /// Instructions.
    pub(crate) locations: Vec<Location>,
    /// Interrupts, one for each stack of a process and access tag, and of a flush where that was
    /// asked for, in a fixed order.
    pub(crate) samples: Vec<Sample>,
}

impl<'p> Stacks<'p> {
    /// The stacks of what a view wants, those of each process apart.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn new(view: &mut View<'p>) -> Result<Stacks<'p>, Failure> {
        let paths = frequent_paths(view, |origin| origin)?;
        Ok(Stacks::of_paths(view, paths))
    }

    /// The same, those of one program together. Process and access tag are those of one of them.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn of_programs(view: &mut View<'p>) -> Result<Stacks<'p>, Failure> {
        let programs = Programs::new(view.profile);
        let paths = frequent_paths(view, |origin| Origin {
            process: programs.of(origin.process),
            subject: 0,
            ..origin
        })?;
        Ok(Stacks::of_paths(view, paths))
    }

    fn of_paths(view: &View<'p>, paths: BTreeMap<Path<Origin>, Heat>) -> Stacks<'p> {
        let pcs = paths.keys().flat_map(|path| &path.pcs);
        let Locations {
            functions,
            locations,
            of_pc,
        } = Locations::new(view, pcs.copied());
        let sample = |(path, heat): (Path<Origin>, Heat)| {
            let locations = path.pcs.iter().filter_map(|pc| of_pc.get(pc).copied());
            Sample {
                time: path.of.time,
                process: path.of.process,
                subject: path.of.subject,
                locations: locations.collect(),
                cut: path.cut,
                heat,
            }
        };
        Stacks {
            profile: view.profile,
            functions,
            samples: paths.into_iter().map(sample).collect(),
            locations,
        }
    }

    /// All interrupts.
    pub(crate) fn total(&self) -> Heat {
        let mut total = Heat::default();
        for sample in &self.samples {
            total.add(sample.heat);
        }
        total
    }

    /// The images that were interrupted, those of programs before the kernel, the hottest first.
    pub(crate) fn hottest(&self) -> Vec<usize> {
        let mut cycles: BTreeMap<usize, f64> = BTreeMap::new();
        for sample in &self.samples {
            let leaf = sample.locations.first();
            if let Some(location) = leaf.and_then(|leaf| self.locations.get(*leaf)) {
                *cycles.entry(location.image).or_default() += sample.heat.cycles;
            }
        }
        let mut order: Vec<(usize, f64)> = cycles.into_iter().collect();
        let is_file = |image: usize| {
            let image = self.image(image);
            image.is_some_and(|image| image.kind == ImageKind::File)
        };
        order.sort_by(|a, b| {
            let files_first = is_file(b.0).cmp(&is_file(a.0));
            files_first.then(b.1.total_cmp(&a.1)).then(a.0.cmp(&b.0))
        });
        order.into_iter().map(|(image, _)| image).collect()
    }

    /// An image by its index.
    pub(crate) fn image(&self, image: usize) -> Option<&'p Image> {
        self.profile.images.get(image)
    }

    /// The path of an image.
    pub(crate) fn path(&self, image: usize) -> String {
        self.image(image)
            .map_or_else(|| "?".to_owned(), |image| clean(&image.path))
    }

    /// The build id of an image.
    pub(crate) fn build_id(&self, image: usize) -> Option<String> {
        self.image(image)?.build_id.as_deref().map(clean)
    }

    /// Whether an image is the kernel.
    pub(crate) fn is_kernel(&self, image: usize) -> bool {
        self.image(image)
            .is_some_and(|image| image.kind == ImageKind::Kernel)
    }

    /// The process of a sample.
    pub(crate) fn process(&self, sample: &Sample) -> Option<&'p Process> {
        self.profile.processes.get(sample.process)
    }

    /// The access tag of a sample.
    pub(crate) fn subject(&self, sample: &Sample) -> Option<&'p Subject> {
        self.profile.subjects.get(sample.subject)
    }

    /// The frames of a sample, from what was interrupted on, each with its location.
    pub(crate) fn frames<'s>(
        &'s self,
        sample: &'s Sample,
    ) -> impl DoubleEndedIterator<Item = (&'s Location, SourceFrame)> + 's {
        let locations = sample.locations.iter();
        let locations = locations.filter_map(|location| self.locations.get(*location));
        locations.flat_map(|location| location.frames.iter().map(move |frame| (location, *frame)))
    }
}

impl Locations {
    /// The locations of some PCs.
    pub(crate) fn new(view: &View<'_>, pcs: impl Iterator<Item = usize>) -> Locations {
        let mut by_image: BTreeMap<usize, BTreeMap<u64, usize>> = BTreeMap::new();
        for pc in pcs {
            if let Some(at) = view.profile.pcs.get(pc) {
                by_image.entry(at.image).or_default().insert(at.address, pc);
            }
        }
        let mut functions: BTreeMap<SourceFunction, usize> = BTreeMap::new();
        let mut locations = Vec::new();
        let mut of_pc = BTreeMap::new();
        for (image, pcs) in by_image {
            let addresses: Vec<u64> = pcs.keys().copied().collect();
            let chains = view.symbols.chains(image, &addresses);
            for ((address, pc), chain) in pcs.into_iter().zip(chains) {
                of_pc.insert(pc, locations.len());
                let frames = frames(view, image, pc, chain).into_iter();
                let frames = frames.map(|(function, line, is_inlined)| {
                    let next = functions.len();
                    SourceFrame {
                        function: *functions.entry(function).or_insert(next),
                        line,
                        is_inlined,
                    }
                });
                locations.push(Location {
                    pc,
                    image,
                    address,
                    frames: frames.collect(),
                });
            }
        }
        let mut in_order: Vec<(SourceFunction, usize)> = functions.into_iter().collect();
        in_order.sort_by_key(|(_, index)| *index);
        Locations {
            functions: in_order.into_iter().map(|(function, _)| function).collect(),
            locations,
            of_pc,
        }
    }
}

/// The functions that a PC is in, the innermost first, each with its line and whether it is
/// inlined. The one that is not goes by the name that reports give it.
fn frames(
    view: &View<'_>,
    image: usize,
    pc: usize,
    mut chain: Vec<symbolize::SymbolizedFrame>,
) -> Vec<(SourceFunction, Option<u32>, bool)> {
    let outermost = symbolize::SymbolizedFrame {
        name: Some(view.symbols.name_of(pc)),
        ..chain.pop().unwrap_or_default()
    };
    chain.push(outermost);
    let last = chain.len() - 1;
    let frames = chain.into_iter().enumerate();
    frames
        .map(|(place, frame)| {
            let function = SourceFunction {
                image,
                name: frame
                    .name
                    .map_or_else(|| "?".to_owned(), |name| clean(&name)),
                file: frame.file.map(|file| clean(&file.to_string_lossy())),
            };
            (function, frame.line, place < last)
        })
        .collect()
}

/// What stands in front of stacks whose outermost frames are not known.
pub(crate) const UNKNOWN_CALLERS: &str = "[unknown callers]";

/// Which processes are of one program: those that are [shown](process_name) alike.
pub(crate) struct Programs {
    /// Index of the first process of each one's program.
    first: Vec<usize>,
}

impl Programs {
    /// Those of a profile's processes.
    pub(crate) fn new(profile: &Profile) -> Programs {
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        let processes = profile.processes.iter().enumerate();
        let first = processes.map(|(index, process)| {
            let name = process_name(Some(process));
            *known.entry(name).or_insert(index)
        });
        Programs {
            first: first.collect(),
        }
    }

    /// The index of the process that stands for a process's program.
    pub(crate) fn of(&self, process: usize) -> usize {
        self.first.get(process).copied().unwrap_or(process)
    }
}

/// What a process is shown as: its name alone, since one program's processes belong together.
pub(crate) fn process_name(process: Option<&Process>) -> String {
    match process {
        Some(process) if !process.comm.is_empty() => clean(&process.comm),
        _ => "(all)".to_owned(),
    }
}

/// The id of a process, if it is one: some stand for many.
pub(crate) fn pid(process: Option<&Process>) -> Option<u32> {
    let one = process.filter(|process| process.pid != 0 && !process.is_folded());
    one.map(|process| process.pid)
}
