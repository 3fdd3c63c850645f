//! What a compiler instruments: the functions of its intermediate code, with their blocks, the
//! counters in these, the places whose values would be recorded, and the places in the source.
//!
//! clang and rustc print that code after their pass that instruments
//! (`-print-after=pgo-instr-gen`). The reader knows as much of LLVM's assembly language as it
//! needs: where blocks begin, `label` operands of what ends them, calls of `llvm.instrprof`, and
//! the metadata of locations. Whatever else there is counts as an instruction.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// A place in a function of the source. What was inlined there has several, the innermost first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Spot {
    /// The function, as the linker knows it.
    pub(super) name: Rc<str>,
    /// The line in the file.
    pub(super) line: u32,
    /// The column; 0: not told.
    pub(super) column: u32,
}

/// A place whose values would be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// What is recorded: 0 for targets of indirect calls, 1 for sizes of copies.
    pub(super) kind: u32,
    /// Its number among those of its kind.
    pub(super) number: u32,
    /// Its block.
    pub(super) block: usize,
    /// Where it is.
    pub(super) at: Vec<Spot>,
}

/// A block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InstrumentedBlock {
    /// The blocks that may be next.
    pub(super) next: Vec<usize>,
    /// The counters that count it.
    pub(super) counters: Vec<usize>,
    /// Where its instructions are.
    pub(super) at: Vec<Vec<Spot>>,
}

/// A function that would be instrumented.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InstrumentedFunction {
    /// Its name in profiles, which has the file's name for a local function.
    pub(super) name: String,
    /// Its name as the linker knows it.
    pub(super) symbol: String,
    /// What tells its shape from others.
    pub(super) hash: u64,
    /// How many counters it has.
    pub(super) counters: usize,
    /// Its blocks, of which the first one is the entry.
    pub(super) blocks: Vec<InstrumentedBlock>,
    /// Its places of values.
    pub(super) sites: Vec<Site>,
    /// It has counters that are no counts of blocks.
    pub(super) has_steps: bool,
}

/// Counters that a function has at most. More come of no compiler.
const MOST_COUNTERS: usize = 1 << 20;
/// Scopes within each other, and calls inlined in each other, at most.
const MOST_DEEP: usize = 128;

/// What is known of metadata by its number.
#[derive(Debug)]
enum MetadataNode {
    Location {
        line: u32,
        column: u32,
        scope: u32,
        inlined: Option<u32>,
    },
    Scope(u32),
    Subprogram(Rc<str>),
}

/// A block as it stands there.
#[derive(Debug, Default)]
struct Raw<'t> {
    label: Option<&'t str>,
    next: Vec<&'t str>,
    counters: Vec<usize>,
    at: Vec<u32>,
}

/// A function as it stands there.
#[derive(Debug, Default)]
struct Open<'t> {
    symbol: String,
    name: &'t str,
    hash: u64,
    counters: usize,
    blocks: Vec<Raw<'t>>,
    sites: Vec<(Site, Option<u32>)>,
    has_steps: bool,
}

/// The functions of a module that would be instrumented, and how many of them cannot be read.
pub(super) fn functions(text: &str) -> (Vec<InstrumentedFunction>, usize) {
    let mut names: HashMap<&str, String> = HashMap::new();
    let mut nodes: HashMap<u32, MetadataNode> = HashMap::new();
    let mut opened: Vec<Open<'_>> = Vec::new();
    let mut current: Option<Open<'_>> = None;
    for line in text.lines() {
        match &mut current {
            Some(open) if line == "}" => {
                opened.extend(current.take().filter(|open| !open.name.is_empty()));
            }
            Some(open) => open.line(line),
            None if line.starts_with("define ") => {
                current = symbol(line, '@').map(|name| Open {
                    symbol: unescaped(name),
                    blocks: vec![Raw::default()],
                    ..Open::default()
                });
            }
            None if line.starts_with("@__profn_") || line.starts_with("@\"__profn_") => {
                let text = line.split_once(" c\"").map(|(_, text)| text);
                let text = text.and_then(|text| text.split_once('"'));
                if let (Some(name), Some((text, _))) = (symbol(line, '@'), text) {
                    names.insert(name, unescaped(text));
                }
            }
            None if line.starts_with('!') => nodes.extend(node(line)),
            None => {}
        }
    }
    let mut broken = 0;
    let functions = opened
        .into_iter()
        .filter_map(|open| {
            let function = open.closed(&names, &nodes);
            broken += usize::from(function.is_none());
            function
        })
        .collect();
    (functions, broken)
}

impl<'t> Open<'t> {
    /// Takes a line of the function's body.
    fn line(&mut self, line: &'t str) {
        let Some(instruction) = line.strip_prefix("  ") else {
            if let Some(label) = label(line) {
                let is_first = self.blocks.len() == 1;
                match self.blocks.last_mut() {
                    // The entry may have a name, too.
                    Some(block) if is_first && block.is_empty() && block.label.is_none() => {
                        block.label = Some(label);
                    }
                    _ => self.blocks.push(Raw {
                        label: Some(label),
                        ..Raw::default()
                    }),
                }
            }
            return;
        };
        let at = self.blocks.len() - 1;
        let Some(block) = self.blocks.get_mut(at) else {
            return;
        };
        let instruction = instruction.trim_start();
        // What a debugger is told is no code, and a list of cases ends with a line of its own.
        if instruction.starts_with("#dbg_") || instruction.starts_with(']') {
            return;
        }
        let location = after(instruction, "!dbg !").and_then(number);
        if let Some(call) = after(instruction, "@llvm.instrprof.") {
            let (kind, arguments) = call.split_once('(').unwrap_or((call, ""));
            let name = symbol(arguments, '@').unwrap_or_default();
            let numbers: Vec<Option<i64>> = arguments
                .split(", ")
                .map(|word| {
                    let end = word.split(')').next().unwrap_or(word);
                    end.split_once(' ')?.1.parse().ok()
                })
                .collect();
            let of = |index: usize| numbers.get(index).copied().flatten();
            let small = |index: usize| usize::try_from(of(index)?).ok();
            match kind {
                "increment" | "increment.step" => {
                    // A function that was inlined before has no counters yet: they are all its own.
                    self.name = name;
                    self.hash = of(1).unwrap_or(0).cast_unsigned();
                    self.counters = self.counters.max(small(2).unwrap_or(0));
                    match (kind, small(3)) {
                        ("increment", Some(counter)) => block.counters.push(counter),
                        _ => self.has_steps = true,
                    }
                }
                "value.profile" => {
                    let numbers = small(3).zip(small(4));
                    let numbers = numbers.and_then(|(kind, number)| {
                        Some((u32::try_from(kind).ok()?, u32::try_from(number).ok()?))
                    });
                    self.sites.extend(numbers.map(|(kind, number)| {
                        let site = Site {
                            kind,
                            number,
                            block: at,
                            at: Vec::new(),
                        };
                        (site, location)
                    }));
                }
                _ => self.has_steps = true,
            }
            return;
        }
        let mut rest = instruction;
        let mut ends = false;
        while let Some(behind) = after(rest, "label %") {
            rest = behind;
            block.next.push(word(behind));
            ends = true;
        }
        // Phis are no code. What only leads on has the place of something else.
        let is_phi = instruction.contains(" = phi ");
        if !is_phi && !ends && !instruction.contains("@llvm.") {
            block.at.extend(location);
        }
    }

    /// The function, with the places that the metadata tell; `None`: a block leads nowhere.
    fn closed(
        self,
        names: &HashMap<&str, String>,
        nodes: &HashMap<u32, MetadataNode>,
    ) -> Option<InstrumentedFunction> {
        let index: HashMap<&str, usize> = self
            .blocks
            .iter()
            .enumerate()
            .filter_map(|(index, block)| Some((block.label?, index)))
            .collect();
        if self.counters == 0 || self.counters > MOST_COUNTERS {
            return None;
        }
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for raw in &self.blocks {
            let next: Option<Vec<usize>> = raw
                .next
                .iter()
                .map(|label| index.get(label).copied())
                .collect();
            let mut at: Vec<Vec<Spot>> = raw.at.iter().filter_map(|at| spots(*at, nodes)).collect();
            at.sort();
            at.dedup();
            blocks.push(InstrumentedBlock {
                next: next?,
                counters: raw.counters.clone(),
                at,
            });
        }
        let is_counted =
            |block: &InstrumentedBlock| block.counters.iter().all(|one| *one < self.counters);
        if !blocks.iter().all(is_counted) {
            return None;
        }
        let sites = self.sites.into_iter().map(|(site, at)| Site {
            at: at.and_then(|at| spots(at, nodes)).unwrap_or_default(),
            ..site
        });
        Some(InstrumentedFunction {
            name: names.get(self.name)?.clone(),
            symbol: self.symbol,
            hash: self.hash,
            counters: self.counters,
            blocks,
            sites: sites.collect(),
            has_steps: self.has_steps,
        })
    }
}

impl Raw<'_> {
    fn is_empty(&self) -> bool {
        self.next.is_empty() && self.counters.is_empty() && self.at.is_empty()
    }
}

/// What stands behind a word, the first time.
fn after<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    text.split_once(word).map(|(_, behind)| behind)
}

/// The number that a text begins with.
fn number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.get(..end.unwrap_or(text.len()))?.parse().ok()
}

/// The name that a text begins with, in quotes or without.
fn word(text: &str) -> &str {
    match text.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or_default(),
        None => {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "-$._".contains(c);
            let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
            text.get(..end).unwrap_or_default()
        }
    }
}

/// The first name of something global.
fn symbol(text: &str, sign: char) -> Option<&str> {
    let (_, behind) = text.split_once(sign)?;
    Some(word(behind)).filter(|name| !name.is_empty())
}

/// The name of a block at its beginning.
fn label(line: &str) -> Option<&str> {
    let name = word(line);
    let quotes = if line.starts_with('"') { 2 } else { 0 };
    let behind = line.get(name.len() + quotes..)?;
    (!name.is_empty() && behind.starts_with(':')).then_some(name)
}

/// A text with its escapes (`\\41`) resolved.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).filter(|_| *first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = behind.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Metadata of a location, or of a scope around locations.
fn node(line: &str) -> Option<(u32, MetadataNode)> {
    let (name, text) = line.split_once(" = ")?;
    let name = number(name.strip_prefix('!')?)?;
    let text = text.strip_prefix("distinct ").unwrap_or(text);
    let (kind, fields) = text.strip_prefix('!')?.split_once('(')?;
    let reference = |field: &str| after(fields, field).and_then(number);
    let node = match kind {
        "DILocation" => MetadataNode::Location {
            line: after(fields, "line: ").and_then(number)?,
            column: after(fields, "column: ").and_then(number).unwrap_or(0),
            scope: reference("scope: !")?,
            inlined: reference("inlinedAt: !"),
        },
        "DISubprogram" => {
            let text = after(fields, "linkageName: \"").or_else(|| after(fields, "name: \""))?;
            MetadataNode::Subprogram(Rc::from(unescaped(text.split('"').next()?)))
        }
        "DILexicalBlock" | "DILexicalBlockFile" => MetadataNode::Scope(reference("scope: !")?),
        _ => return None,
    };
    Some((name, node))
}

/// The places of a location, the innermost first; `None`: it tells no line.
fn spots(location: u32, nodes: &HashMap<u32, MetadataNode>) -> Option<Vec<Spot>> {
    let mut spots = Vec::new();
    let mut next = Some(location);
    while let Some(at) = next {
        let Some(MetadataNode::Location {
            line,
            column,
            scope,
            inlined,
        }) = nodes.get(&at)
        else {
            return None;
        };
        let mut scope = *scope;
        let mut name = None;
        for _ in 0..MOST_DEEP {
            match nodes.get(&scope)? {
                MetadataNode::Scope(outer) => scope = *outer,
                MetadataNode::Subprogram(found) => {
                    name = Some(found.clone());
                    break;
                }
                MetadataNode::Location { .. } => return None,
            }
        }
        if *line == 0 || spots.len() >= MOST_DEEP {
            return None;
        }
        spots.push(Spot {
            name: name?,
            line: *line,
            column: *column,
        });
        next = *inlined;
    }
    Some(spots)
}

/// The names in profiles of functions, by those that the linker knows.
pub(super) fn names(functions: &[InstrumentedFunction]) -> BTreeMap<&str, &str> {
    functions
        .iter()
        .map(|one| (one.symbol.as_str(), one.name.as_str()))
        .collect()
}
