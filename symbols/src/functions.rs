//! Functions by address, as symbol tables and unwind rows bound them.
//!
//! A symbol that covers the address with its size wins. One without a size reaches to the next
//! symbol, unwind row or end of the section; where an unwind row covers the address, the
//! symbol at the row's beginning names all of it. Labels inside a function do not split it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::binary::Binary;
use crate::labels;
use crate::table::{Strength, Symbol, Symbols};

/// A function of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// First virtual address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// The function's name as the linker knows it.
    pub name: String,
}

/// The functions of one image.
#[derive(Debug)]
pub struct Functions {
    symbols: Symbols,
    /// The largest end among each symbol and those before it.
    ends: Vec<u64>,
    /// Ranges of code.
    code: Vec<(u64, u64)>,
    /// What the code said of a symbol behind the beginning of another.
    begun: RefCell<BTreeMap<[u64; 3], bool>>,
    /// Bytes of code that may yet be asked.
    patience: Cell<usize>,
}

/// Symbols around an address that are looked at before it is given up.
const MAX_STEPS: usize = 4096;
/// Bytes of code that are decoded in all to tell labels from functions.
const PATIENCE: usize = 64 << 20;

impl Functions {
    /// What the image's own tables and those of its debug file say.
    #[must_use]
    pub fn new(image: &Binary, debug: Option<&Binary>) -> Functions {
        let code = image.code_sections();
        let mini = image.mini();
        let files = [Some(image), mini.as_ref(), debug];
        let files: Vec<&Binary> = files.into_iter().flatten().collect();
        let symbols = Symbols::new(&files, &code);
        let mut most = 0;
        let ends = symbols.list.iter().map(|symbol| {
            most = most.max(symbol.end);
            most
        });
        Functions {
            ends: ends.collect(),
            symbols,
            code,
            begun: RefCell::default(),
            patience: Cell::new(PATIENCE),
        }
    }

    /// The function around an address of the image that this was made of.
    #[must_use]
    pub fn find(&self, image: &Binary, address: u64) -> Option<Function> {
        let (first, last) = self.section(address)?;
        let behind = self.behind(address);
        if let Some(symbol) = self.covering(behind, address) {
            return (!symbol.is_data).then(|| self.function(symbol, symbol.end));
        }
        match image.frame(address) {
            Some((start, end)) => self.in_frame(address, start, end),
            None => {
                let (before, next) = frames_around(image, address);
                self.unsized_one(image, address, first.max(before), last.min(next))
            }
        }
    }

    /// All names that an address of code has.
    #[must_use]
    pub fn names_at(&self, address: u64) -> Vec<String> {
        let list = self.symbols.list.get(..self.behind(address));
        let here = list.unwrap_or_default().iter().rev();
        let here = here.take_while(|symbol| symbol.start == address);
        let names = here.filter(|symbol| !symbol.is_data);
        names.map(|symbol| self.symbols.name(symbol)).collect()
    }

    fn function(&self, symbol: &Symbol, end: u64) -> Function {
        Function {
            start: symbol.start,
            end,
            name: self.symbols.name(symbol),
        }
    }

    fn section(&self, address: u64) -> Option<(u64, u64)> {
        let behind = self.code.partition_point(|(start, _)| *start <= address);
        let section = *self.code.get(behind.checked_sub(1)?)?;
        (address < section.1).then_some(section)
    }

    /// The number of symbols that begin at the address or before it.
    fn behind(&self, address: u64) -> usize {
        let list = &self.symbols.list;
        list.partition_point(|symbol| symbol.start <= address)
    }

    /// The innermost function whose size covers the address, else what else does.
    fn covering(&self, behind: usize, address: u64) -> Option<&Symbol> {
        let mut other = None;
        let nearest = self.symbols.list.get(..behind)?.iter().zip(&self.ends);
        for (symbol, most) in nearest.rev().take(MAX_STEPS) {
            if *most <= address {
                break;
            }
            if symbol.end > address {
                if symbol.is_sized_function() {
                    return Some(symbol);
                }
                other = other.or(Some(symbol));
            }
        }
        other
    }

    /// What names an unwind row that no symbol's size covers.
    fn in_frame(&self, address: u64, start: u64, end: u64) -> Option<Function> {
        let from = self.symbols.list.partition_point(|one| one.start < start);
        let inside = self.symbols.list.get(from..self.behind(address))?;
        let named = |symbol: &&Symbol| !symbol.has_size() && !symbol.is_data;
        let at_start = inside.iter().take_while(|symbol| symbol.start == start);
        if let Some(symbol) = at_start.filter(named).last() {
            return Some(self.function(symbol, end));
        }
        // A row over several functions, which the first one lacks a name for.
        let strong = |symbol: &&Symbol| named(symbol) && symbol.strength > Strength::Local;
        let symbol = inside.iter().rev().find(strong)?;
        if !self.symbols.is_whole && symbol.start != address {
            return None;
        }
        let end = self.next_start(address, Strength::Global).min(end);
        Some(self.function(symbol, end))
    }

    /// Where the next symbol begins that ends a function of this strength.
    fn next_start(&self, address: u64, least: Strength) -> u64 {
        let behind = self.symbols.list.get(self.behind(address)..);
        let ends = |symbol: &&Symbol| symbol.has_size() || symbol.strength >= least;
        let next = behind.unwrap_or_default().iter().find(ends);
        next.map_or(u64::MAX, |symbol| symbol.start)
    }

    /// The symbol without a size that reaches to an address, between these bounds.
    fn unsized_one(&self, image: &Binary, address: u64, first: u64, last: u64) -> Option<Function> {
        let behind = self.behind(address);
        // Best names come last, and so first here.
        let mut before = self.symbols.list.get(..behind)?.iter().rev();
        let mut labels: Vec<&Symbol> = Vec::new();
        let mut beginning = None;
        for symbol in before.by_ref().take(MAX_STEPS) {
            if symbol.start < first || symbol.has_size() || symbol.is_data {
                break;
            }
            if symbol.strength == Strength::Typed {
                beginning = Some(symbol);
                break;
            }
            if labels
                .last()
                .is_none_or(|label| label.start != symbol.start)
            {
                labels.push(symbol);
            }
        }
        if !self.symbols.is_whole {
            // Functions that are not named may lie between.
            let nearest = labels.first().copied().or(beginning)?;
            let end = self.next_start(address, Strength::Local).min(last);
            return (nearest.start == address).then(|| self.function(nearest, end));
        }
        // Each is a function, or a label of the one before it.
        let mut function = match beginning {
            Some(function) => function,
            None => labels.pop()?,
        };
        let most = last.min(self.next_start(address, Strength::Typed));
        while let Some(label) = labels.pop() {
            if label.start != function.start && self.begins(image, function, label, most) {
                function = label;
            }
        }
        // What comes behind the address, up to the next of which it is certain.
        let mut end = most;
        let list = self.symbols.list.get(behind..).unwrap_or_default();
        for symbol in list.iter().take(MAX_STEPS) {
            if symbol.start >= most {
                break;
            }
            if symbol.start > address && self.begins(image, function, symbol, most) {
                end = symbol.start;
                break;
            }
        }
        Some(self.function(function, end))
    }

    /// Whether a symbol without type begins a function, where `function` is the one before it, and
    /// `end` begins what certainly is another.
    fn begins(&self, image: &Binary, function: &Symbol, symbol: &Symbol, end: u64) -> bool {
        let name = self.symbols.name(symbol);
        let own = name.strip_prefix(self.symbols.name(function).as_str());
        if own.is_some_and(|local| local.starts_with('.')) {
            return false;
        }
        let key = [function.start, symbol.start, end];
        if let Some(known) = self.begun.borrow().get(&key) {
            return *known;
        }
        let begins = self.code_begins(image, function, symbol, end);
        self.begun.borrow_mut().insert(key, begins);
        begins
    }

    fn code_begins(&self, image: &Binary, function: &Symbol, symbol: &Symbol, end: u64) -> bool {
        let code = image.bytes(function.start).unwrap_or_default();
        let length = usize::try_from(end - function.start).unwrap_or(usize::MAX);
        let code = code.get(..length.min(labels::MOST).min(code.len()));
        let is_64 = image.is_64();
        match code {
            Some(code) if symbol.start < function.start.saturating_add(code.len() as u64) => {
                let Some(left) = self.patience.get().checked_sub(code.len()) else {
                    return false;
                };
                self.patience.set(left);
                labels::is_function(code, function.start, symbol.start, is_64)
            }
            // Without the code, what other files know is a function.
            _ => symbol.strength > Strength::Local,
        }
    }
}

/// The end of the unwind row before an address, and the start of the next.
fn frames_around(image: &Binary, address: u64) -> (u64, u64) {
    let frames = image.frames();
    let before = frames.range(..=address).next_back().map(|(_, end)| *end);
    let next = frames.range(address..).next().map(|(start, _)| *start);
    (before.unwrap_or(0), next.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
