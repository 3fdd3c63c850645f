//! A program as exports for optimisers see it: its file, what was seen of its code, and how often
//! the code of each function ran.

mod files;
pub(super) mod positions;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, FromArgMatches};
use flow::{Counts, Evidence, Exit, FunctionCode};
use iced_x86::{Decoder, DecoderOptions, Instruction};
use protocol::Kinds;
use symbols::{Binary, Functions, Room, debug_file};

use self::files::{file, images_of, is_go};
pub(super) use self::files::{may_be_go, of_build};
use super::Exported;
use crate::elf::Elf;
use crate::failure::Failure;
use crate::guard::fenced;
use crate::render::{counted, percent, whole};
use crate::symbols::MAX_TOTAL;
use crate::view::{View, as_float};

/// The rows of interrupts, directions and calls.
pub(crate) const CODE: Kinds = Kinds {
    cycles: true,
    values: false,
    branches: true,
    calls: true,
    stacks: false,
    counters: false,
};

/// Samples below which counts are worth little.
pub(super) const LEAST: u64 = 2_500;

/// Options of the exports for optimisers.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Export also what rests on fewer than 2500 samples.
    #[arg(long)]
    pub(crate) few: bool,
}

/// A function of the program.
#[derive(Debug)]
pub(crate) struct CountedFunction {
    /// Its name as the linker knows it.
    pub(crate) name: String,
    /// Its blocks.
    pub(crate) code: FunctionCode,
    /// How often they ran.
    pub(crate) counts: Counts,
    /// Interrupts in it.
    pub(crate) samples: f64,
    /// Directions that were seen of its branches.
    pub(crate) directions: f64,
}

impl CountedFunction {
    /// Where it begins.
    pub(crate) fn start(&self) -> u64 {
        self.code.blocks.first().map_or(0, |block| block.start)
    }
}

/// A program.
#[derive(Debug)]
pub(crate) struct Program {
    /// Its file.
    pub(crate) path: PathBuf,
    /// What is in it.
    pub(crate) binary: Binary,
    /// The names of all of its functions.
    names: Functions,
    /// What was seen of its code.
    pub(crate) evidence: Evidence,
    /// The functions that anything was seen of, by address.
    pub(crate) functions: Vec<CountedFunction>,
    /// Interrupts in it.
    pub(crate) samples: f64,
    /// The profile's images that are this file.
    pub(crate) images: BTreeSet<usize>,
}

/// The options of an export, as the command line has them.
pub(crate) fn options<T: FromArgMatches>(matches: &ArgMatches) -> Result<T, Failure> {
    T::from_arg_matches(matches).map_err(|error| Failure::Usage(error.to_string()))
}

/// What is asked of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'f> {
    /// The name of the export.
    pub(super) kind: &'static str,
    /// Flags of a build that its reader takes.
    pub(super) flags: &'f str,
    /// Whether compilers of C, C++ and Rust are its readers.
    pub(super) is_for_compilers: bool,
}

/// A text, and the commands that use the file with it.
pub(super) type TextAndCommands = (String, Vec<String>);

/// Writes an export of one program: what `text` makes of it, with its coverage and what `text` has
/// to say said beside. `nothing` says why the text is empty.
///
/// # Errors
/// As those of [`Program::new`] and `text`, and if there is no text.
pub(super) fn write_program(
    view: &mut View<'_>,
    asked: Asked<'_>,
    few: bool,
    nothing: &str,
    text: impl FnOnce(&View<'_>, &Program, &mut Vec<String>) -> Result<TextAndCommands, Failure>,
) -> Result<Exported, Failure> {
    let program = Program::new(view, asked)?;
    let mut said = program.coverage();
    let (text, next) = text(view, &program, &mut said)?;
    program.has_enough(few)?;
    if text.is_empty() {
        return Err(Failure::Nothing(nothing.to_owned()));
    }
    view.notes.extend(said);
    Ok(Exported {
        bytes: text.into_bytes(),
        next,
    })
}

/// How many more samples would help, in a sentence; `None`: more bring nothing.
pub(super) fn more(samples: u64) -> Option<String> {
    /// Samples that suffice, and those from which more bring nothing.
    const ENOUGH: u64 = 10_000;
    const ALL: u64 = 40_000;
    if samples < ENOUGH {
        let more = counted(ENOUGH - samples, "sample");
        return Some(format!(
            "{more} more would make better counts ({ENOUGH} are good)"
        ));
    }
    (samples < ALL).then(|| {
        let more = counted(ALL - samples, "sample");
        format!("{more} more would still make counts a little better")
    })
}

impl Program {
    /// The program that `--image` names.
    ///
    /// # Errors
    /// If it names none or several, if the file is another build than the profile's or has no
    /// symbols.
    pub(super) fn new(view: &View<'_>, asked: Asked<'_>) -> Result<Program, Failure> {
        let Asked {
            kind,
            flags,
            is_for_compilers,
        } = asked;
        let [name] = view.named_images.as_slice() else {
            return Err(Failure::Usage(format!(
                "export {kind}: which program? name its file with --image (once)"
            )));
        };
        let path = file(view, name)?;
        let room = Room::new(MAX_TOTAL);
        let opened = fenced(|| Binary::open(&path, &room));
        let binary = match opened {
            Some(Ok(binary)) if binary.is_64() => binary,
            Some(Ok(_)) => return Err(unusable(&path, "not code of the 64-bit mode")),
            Some(Err(error)) => return Err(unusable(&path, &error.to_string())),
            None => return Err(unusable(&path, "not a readable ELF file")),
        };
        let images = images_of(view, &path, &binary)?;
        if is_for_compilers && is_go(&binary) {
            return Err(Failure::Nothing(format!(
                "{} is a Go program, and clang, rustc and gcc build none: make a profile for go \
                 build by `vcpi export gopgo`",
                path.display()
            )));
        }
        let evidence = evidence(view, &images);
        let samples: f64 = evidence.samples.values().sum();
        let debug = fenced(|| debug_file(&binary, &path, &room)).flatten();
        let debug = debug.map(|(_, debug)| debug);
        // What other files may call has a name without them, and the rest would be left out.
        if !has_symbols(&binary, debug.as_ref()) {
            return Err(Failure::Nothing(format!(
                "{} has no symbols, which tell its functions: name its file from before strip, or \
                 build it with {flags} and without -s, and record that",
                path.display()
            )));
        }
        let nothing = || unusable(&path, "its symbols cannot be read");
        let names = fenced(|| Functions::new(&binary, debug.as_ref())).ok_or_else(nothing)?;
        let functions = functions(&names, &binary, &evidence);
        if functions.is_empty() {
            let why = "nothing of its functions is in this profile";
            return Err(Failure::Nothing(format!("{}: {why}", path.display())));
        }
        Ok(Program {
            path,
            binary,
            names,
            evidence,
            functions,
            samples,
            images,
        })
    }

    /// Refuses too few samples, if `few` does not allow that. What the program lacks is told
    /// before, since more samples do not mend it.
    pub(super) fn has_enough(&self, few: bool) -> Result<(), Failure> {
        if self.samples >= as_float(LEAST) || few {
            return Ok(());
        }
        Err(Failure::Nothing(format!(
            "{}: {} of it are in this profile; counts need {} (--few exports them anyway)",
            self.path.display(),
            counted(whole(self.samples), "sample"),
            counted(LEAST, "sample"),
        )))
    }

    /// Whether the file has a section of one of these names.
    pub(crate) fn has_section(&self, names: &[&str]) -> bool {
        let mut names = names.iter();
        fenced(|| names.any(|name| self.binary.has_section(name))).unwrap_or(false)
    }

    /// What the counts rest on, in sentences.
    pub(crate) fn coverage(&self) -> Vec<String> {
        /// Directions below which a function's counts are hardly better than its samples.
        const FEW: f64 = 20.0;
        let directions: f64 = self.functions.iter().map(|one| one.directions).sum();
        let inside: f64 = self.functions.iter().map(|one| one.samples).sum();
        let thin = self.functions.iter().filter(|one| one.directions < FEW);
        let thin: f64 = thin.map(|one| one.samples).sum();
        let (mut branches, mut known) = (0.0, 0.0);
        for one in &self.functions {
            for (block, count) in one.code.blocks.iter().zip(&one.counts.blocks) {
                if matches!(block.exit, Exit::Branch(_)) {
                    branches += count;
                    if self.evidence.directions.contains_key(&block.last) {
                        known += count;
                    }
                }
            }
        }
        let mut said = vec![format!(
            "{}: {} in {}, and {} of branches; directions are known of {:.0} % of the branches \
             that ran; {:.0} % of the samples are in functions with fewer than {FEW} directions",
            self.path.display(),
            counted(whole(self.samples), "sample"),
            counted(self.functions.len() as u64, "function"),
            counted(whole(directions), "direction"),
            percent(known, branches),
            percent(thin, inside),
        )];
        let nameless = self.samples - inside;
        if nameless >= 1.0 {
            said.push(format!(
                "{} in no function that the file knows are left out",
                counted(whole(nameless), "sample")
            ));
        }
        said.extend(more(whole(self.samples)));
        said
    }

    /// The name of the function that begins at an address, as the linker knows it.
    pub(crate) fn name_at(&self, address: u64) -> Option<String> {
        let found = fenced(|| self.names.find(&self.binary, address)).flatten()?;
        (found.start == address && !found.name.is_empty()).then_some(found.name)
    }

    /// Where the function around an address begins, if anything was seen of it.
    pub(crate) fn function_at(&self, address: u64) -> Option<u64> {
        let behind = self.functions.partition_point(|one| one.start() <= address);
        let found = self.functions.get(behind.checked_sub(1)?)?;
        let last = found.code.blocks.last()?;
        (address < last.end).then(|| found.start())
    }

    /// The addresses of the instructions from one address up to another.
    pub(crate) fn instructions(&self, start: u64, end: u64) -> Vec<u64> {
        let code = code(&self.binary, start, end);
        let mut decoder = Decoder::with_ip(64, &code, start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        let mut all = Vec::new();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if !instruction.is_invalid() {
                all.push(instruction.ip());
            }
        }
        all
    }

    /// The file with the program's debug information: itself, or its debug file.
    pub(crate) fn debug(&self) -> Option<Elf> {
        debug(&self.path, &self.binary)
    }

    /// Whether it was written in Rust, as far as its symbols tell.
    pub(crate) fn is_rust(&self) -> bool {
        use object::{Object as _, ObjectSymbol as _};
        let parsed = || {
            let apart = self.binary.apart();
            let file = apart.parsed()?;
            let mut names = file.symbols().filter_map(|symbol| symbol.name_bytes().ok());
            Some(names.any(|name| name.ends_with(b"rust_eh_personality")))
        };
        fenced(parsed).flatten().unwrap_or(false)
    }

    /// What the first loadable segment's address is taken off for, if tools count from there: of
    /// a position-independent program.
    pub(crate) fn base(&self) -> u64 {
        if !self.binary.is_movable() {
            return 0;
        }
        let segments = self.binary.segments().iter();
        segments.map(|segment| segment.address).min().unwrap_or(0)
    }
}

fn unusable(path: &Path, why: &str) -> Failure {
    Failure::Input(format!("{}: {why}", path.display()))
}

/// What the rows of some images say, added up over processes and times.
fn evidence(view: &View<'_>, images: &BTreeSet<usize>) -> Evidence {
    let profile = view.profile;
    let place = |pc: usize| {
        let at = profile.pcs.get(pc)?;
        images.contains(&at.image).then_some(at.address)
    };
    let wanted = |pc: usize| place(pc).filter(|_| view.wants(pc));
    let mut evidence = Evidence::default();
    for row in &profile.cycles {
        if let Some(at) = wanted(row.pc) {
            *evidence.samples.entry(at).or_default() += as_float(row.samples);
        }
    }
    for row in &profile.branches {
        let [taken, not, _] = row.weights;
        if let Some(at) = wanted(row.pc)
            && taken + not > 0.0
        {
            let [all_taken, all_not] = evidence.directions.entry(at).or_default();
            *all_taken += taken;
            *all_not += not;
        }
    }
    for row in &profile.calls {
        let (Some(at), Some(callee)) = (wanted(row.site), row.callee) else {
            continue;
        };
        let sum = match place(callee) {
            Some(to) => evidence.targets.entry(at).or_default().entry(to),
            None => evidence.elsewhere.entry(at),
        };
        *sum.or_default() += row.weight;
    }
    evidence
}

/// The file with a program's debug information: itself, or its debug file.
pub(super) fn debug(path: &Path, binary: &Binary) -> Option<Elf> {
    let room = Room::new(MAX_TOTAL);
    let has_own = || binary.has_section(".debug_info");
    if fenced(has_own).unwrap_or(false) {
        return Elf::open(path, &room).ok();
    }
    let found = fenced(|| debug_file(binary, path, &room)).flatten();
    let (path, debug) = found?;
    Some(Elf::at(path, debug)).filter(|debug| debug.has_section(".debug_info"))
}

/// Whether a program, its debug file or what distributions pack into it has a table of symbols.
fn has_symbols(binary: &Binary, debug: Option<&Binary>) -> bool {
    let has = |binary: &Binary, name: &str| fenced(|| binary.has_section(name)).unwrap_or(false);
    let mut files = [Some(binary), debug].into_iter().flatten();
    files.any(|file| has(file, ".symtab")) || has(binary, ".gnu_debugdata")
}

/// The functions around all that was seen, with their counts.
fn functions(names: &Functions, binary: &Binary, evidence: &Evidence) -> Vec<CountedFunction> {
    let mut bounds: BTreeMap<u64, (u64, String)> = BTreeMap::new();
    let places: BTreeSet<u64> = evidence.places().collect();
    let mut end = 0;
    for address in places {
        if address < end {
            continue;
        }
        let found = fenced(|| names.find(binary, address)).flatten();
        if let Some(found) = found.filter(|found| found.end > address) {
            end = found.end;
            bounds.insert(found.start, (found.end, found.name));
        }
    }
    let functions = bounds.into_iter().map(|(start, (end, name))| {
        let inside = evidence.targets.range(start..end);
        let entered = inside.flat_map(|(_, targets)| targets.keys().copied());
        let code = FunctionCode::decode(&code(binary, start, end), start, &entered.collect());
        let counts = Counts::of(&code, evidence, flow::Options::default());
        CountedFunction {
            name,
            code,
            counts,
            samples: evidence.samples_in(start, end),
            directions: evidence.directions_in(start, end),
        }
    });
    functions
        .filter(|one| !one.code.blocks.is_empty())
        .collect()
}

/// The code of a function, as far as the file has it.
fn code(binary: &Binary, start: u64, end: u64) -> Vec<u8> {
    let mut code = Vec::new();
    let length = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
    let length = length.min(FunctionCode::MOST_BYTES);
    while code.len() < length {
        let next = start.checked_add(code.len() as u64);
        match next.and_then(|next| binary.bytes(next)) {
            Some(bytes) if !bytes.is_empty() => {
                code.extend(bytes.iter().take(length - code.len()));
            }
            _ => break,
        }
    }
    code
}
