//! What debug information says of addresses: functions, source lines, inlined calls.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use addr2line::{LookupContinuation as _, LookupResult};
use gimli::{AttributeValue, DebugInfoOffset, Unit, UnitOffset};

use crate::dwarf::{search, units};
use crate::elf::{Elf, demangle};
use crate::guard::fenced;
use crate::sections::{Sections, Slice};
use crate::split::{Split, Store};

/// A place in the source, and the inlined functions around it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct SourcePlace {
    /// Source file.
    pub(crate) file: Option<PathBuf>,
    /// Line in it.
    pub(crate) line: Option<u32>,
    /// Functions inlined here, outermost first.
    pub(crate) inlined: Vec<String>,
}

/// What is known of the function around an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// First address.
    pub(crate) start: u64,
    /// First address behind it, where known.
    pub(crate) end: Option<u64>,
    /// Its name, where known; all addresses of a function have the same one.
    pub(crate) name: Option<Arc<str>>,
}

/// The most origins that are followed for a name.
const MAX_CHAIN: usize = 16;

/// The functions around addresses as debug information has them: of one in several
/// pieces, the piece.
pub(crate) fn bounds(elf: &Elf, addresses: &[u64]) -> Vec<Option<Bounds>> {
    let wanted: BTreeSet<u64> = addresses.iter().copied().collect();
    let mut found: BTreeMap<u64, Bounds> = BTreeMap::new();
    let read = || {
        search(elf, &wanted, |dwarf, unit| {
            let mut cursor = unit.entries();
            while let Some(entry) = cursor.next_dfs()? {
                if entry.tag() != gimli::DW_TAG_subprogram {
                    continue;
                }
                let mut ranges = dwarf.die_ranges(unit, entry)?;
                while let Some(range) = ranges.next()? {
                    if range.begin >= range.end {
                        continue;
                    }
                    let mut inside = wanted.range(range.begin..range.end).peekable();
                    if inside.peek().is_none() {
                        continue;
                    }
                    let bounds = Bounds {
                        start: range.begin,
                        end: Some(range.end),
                        name: name(dwarf, unit, entry.offset()).map(Arc::from),
                    };
                    for address in inside {
                        found.entry(*address).or_insert_with(|| bounds.clone());
                    }
                }
            }
            Ok(())
        })
    };
    let _ = fenced(read);
    addresses
        .iter()
        .map(|address| found.get(address).cloned())
        .collect()
}

/// The name of a function, which may stand in what it is an instance of: in its unit, in another
/// one of the file, or in the file that shares it.
fn name<'a>(
    dwarf: &gimli::Dwarf<Slice<'a>>,
    unit: &Unit<Slice<'a>>,
    offset: UnitOffset,
) -> Option<String> {
    name_within(dwarf, unit, offset, MAX_CHAIN)
}

fn name_within<'a>(
    dwarf: &gimli::Dwarf<Slice<'a>>,
    unit: &Unit<Slice<'a>>,
    offset: UnitOffset,
    left: usize,
) -> Option<String> {
    let left = left.checked_sub(1)?;
    let entry = unit.entry(offset).ok()?;
    let own = entry
        .attr_value(gimli::DW_AT_linkage_name)
        .or_else(|| entry.attr_value(gimli::DW_AT_MIPS_linkage_name))
        .or_else(|| entry.attr_value(gimli::DW_AT_name));
    if let Some(own) = own {
        let text = dwarf.attr_string(unit, own).ok()?;
        return Some(demangle(&text.to_string_lossy()));
    }
    let origin = entry
        .attr_value(gimli::DW_AT_abstract_origin)
        .or_else(|| entry.attr_value(gimli::DW_AT_specification))?;
    match origin {
        AttributeValue::UnitRef(next) => name_within(dwarf, unit, next, left),
        AttributeValue::DebugInfoRef(next) => name_elsewhere(dwarf, next, left),
        AttributeValue::DebugInfoRefSup(next) => name_elsewhere(dwarf.sup()?, next, left),
        _ => None,
    }
}

fn name_elsewhere(
    dwarf: &gimli::Dwarf<Slice<'_>>,
    offset: DebugInfoOffset,
    left: usize,
) -> Option<String> {
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        if let Some(within) = offset.to_unit_offset(&header) {
            let unit = dwarf.unit(header).ok()?;
            return name_within(dwarf, &unit, within, left);
        }
    }
    None
}

/// The lines where functions of these names are declared, as far as debug information says so.
pub(crate) fn first_lines(elf: &Elf, names: &BTreeSet<&str>) -> BTreeMap<String, u32> {
    let mut lines = BTreeMap::new();
    let read = || {
        units(elf, |dwarf, unit| {
            let mut cursor = unit.entries();
            while let Ok(Some(entry)) = cursor.next_dfs() {
                let line = entry.attr_value(gimli::DW_AT_decl_line);
                let line = line.and_then(|line| u32::try_from(line.udata_value()?).ok());
                if entry.tag() == gimli::DW_TAG_subprogram
                    && let Some(line) = line.filter(|line| *line > 0)
                    && let Some(name) = name(dwarf, unit, entry.offset())
                    && names.contains(name.as_str())
                {
                    lines.insert(name, line);
                }
            }
        })
    };
    let _ = fenced(read);
    lines
}

/// One of the functions that an address is in: the one that its code was made for, or one that was
/// inlined there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SymbolizedFrame {
    /// Its name, where known.
    pub(crate) name: Option<String>,
    /// The source file of the address, or of the inlined call in it.
    pub(crate) file: Option<PathBuf>,
    /// The line in that file.
    pub(crate) line: Option<u32>,
}

/// Source places of addresses. `None` if there is no debug information to read.
pub(crate) fn places(elf: &Elf, addresses: &[u64]) -> Option<Vec<SourcePlace>> {
    let chains = chains(elf, addresses)?;
    Some(chains.into_iter().map(place).collect())
}

/// The innermost place of a chain that is not in a header of the system or the standard library, if
/// there is one: where whoever may change the program can.
pub(crate) fn own_place(mut chain: Vec<SymbolizedFrame>) -> SourcePlace {
    let is_own = |frame: &SymbolizedFrame| {
        let file = frame.file.as_deref();
        file.is_some_and(|file| !SYSTEM.iter().any(|folder| file.starts_with(folder)))
    };
    if let Some(own) = chain.iter().position(is_own) {
        chain.drain(..own);
    }
    place(chain)
}

/// Folders of headers of the C library and of compilers, and that of Rust's library as its debug
/// information has it.
const SYSTEM: [&str; 3] = ["/usr/include", "/usr/lib", "/rustc"];

/// The functions that addresses are in, the innermost first: the last one is not inlined. `None`
/// if there is no debug information to read.
pub(crate) fn chains(elf: &Elf, addresses: &[u64]) -> Option<Vec<Vec<SymbolizedFrame>>> {
    let read = || {
        let store = Store::default();
        let split = Split::new(&store, elf.path());
        let sections = Sections::of(elf);
        let context = addr2line::Context::from_dwarf(sections.dwarf()).ok()?;
        let of = |address: &u64| chain(&context, &split, *address).unwrap_or_default();
        Some(addresses.iter().map(of).collect())
    };
    fenced(read)?
}

fn chain<'a>(
    context: &addr2line::Context<Slice<'a>>,
    split: &Split<'a>,
    address: u64,
) -> Option<Vec<SymbolizedFrame>> {
    let mut looked = context.find_frames(address);
    let mut frames = loop {
        match looked {
            LookupResult::Output(frames) => break frames.ok()?,
            LookupResult::Load { load, continuation } => {
                looked = continuation.resume(split.load(&load));
            }
        }
    };
    let mut chain = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.and_then(|name| {
            let raw = name.raw_name().ok()?;
            Some(demangle(&raw))
        });
        let location = frame.location.as_ref();
        chain.push(SymbolizedFrame {
            name,
            file: location.and_then(|at| at.file).map(PathBuf::from),
            line: location.and_then(|at| at.line).filter(|line| *line > 0),
        });
    }
    Some(chain)
}

fn place(mut chain: Vec<SymbolizedFrame>) -> SourcePlace {
    // The last one is not inlined.
    let last = chain.pop();
    let name = |frame: &SymbolizedFrame| frame.name.clone().unwrap_or_else(|| "?".to_owned());
    let inlined = chain.iter().rev().map(name).collect();
    let (file, line) = match chain.into_iter().next().or(last) {
        Some(innermost) => (innermost.file, innermost.line),
        None => (None, None),
    };
    SourcePlace {
        file,
        line,
        inlined,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// A place in a header of the system is that of the line which it was written out at.
    #[test]
    fn own_places() {
        let frame = |file: &str, line| SymbolizedFrame {
            name: None,
            file: Some(file.into()),
            line: Some(line),
        };
        let header = || frame("/usr/include/x86_64-linux-gnu/bits/string_fortified.h", 36);
        let own = || frame("/home/me/copy.c", 5);
        let line = |chain| own_place(chain).line;
        assert_eq!(
            line(vec![header(), own(), frame("/home/me/other.c", 7)]),
            Some(5)
        );
        assert_eq!(line(vec![own(), frame("/home/me/other.c", 7)]), Some(5));
        assert_eq!(line(vec![header()]), Some(36));
        assert_eq!(line(Vec::new()), None);
    }

    use symbols::Room;

    use super::*;
    use crate::elf::tests::{fixture, opened, symbols_of};

    /// Debug information gives names and bounds, lines and inlined names.
    #[test]
    fn names_and_places() {
        let elf = opened(&fixture());
        let bound = |start, end, name: &str| {
            Some(Bounds {
                start,
                end: Some(end),
                name: Some(name.into()),
            })
        };
        assert_eq!(
            bounds(&elf, &[0x1024, 0x1095, 0]),
            [
                bound(0x1020, 0x1036, "local"),
                bound(0x1090, 0x10b0, "through_stub"),
                None
            ]
        );
        let places = places(&elf, &[0x1026, 0x10aa]).expect("fixture has lines");
        let seen: Vec<(Option<u32>, &[String])> = places
            .iter()
            .map(|place| (place.line, place.inlined.as_slice()))
            .collect();
        assert_eq!(seen, [(Some(9), &["mix".to_owned()][..]), (Some(19), &[])]);
        let file = places.first().and_then(|place| place.file.clone());
        assert_eq!(file, Some(PathBuf::from("/fixture/declared.c")));
    }

    /// The names of what is inlined at the addresses of a function, each once.
    fn inlined(elf: &Elf, addresses: std::ops::Range<u64>) -> Vec<String> {
        let addresses: Vec<u64> = addresses.collect();
        let places = places(elf, &addresses).expect("there is debug information");
        let mut names: Vec<String> = places.into_iter().flat_map(|place| place.inlined).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Names that several debug files share are found in the file that has them.
    #[test]
    fn shared_names() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dwz");
        let open = |path: &Path| Elf::open(path, &Room::new(1 << 20)).expect("an ELF file");
        let elf = open(&folder.join("one.debug"));
        assert_eq!(inlined(&elf, 0x1000..0x1040), ["mixed_in", "other_one"]);
        // Without that file, and with another in its place, they have none.
        let alone = tempfile::tempdir().expect("a folder");
        let path = alone.path().join("one.debug");
        std::fs::copy(folder.join("one.debug"), &path).expect("copied");
        assert_eq!(inlined(&open(&path), 0x1000..0x1040), ["?"]);
        let other = alone.path().join("shared.sup");
        std::fs::copy(fixture(), other).expect("copied");
        assert_eq!(inlined(&open(&path), 0x1000..0x1040), ["?"]);
    }

    /// Debug information in objects beside the program, and in a package of them, has the names of
    /// what is inlined; that of another build has none.
    #[test]
    fn split_information() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = |program: &str, arguments: &[&str]| {
            let done = std::process::Command::new(program)
                .args(arguments)
                .current_dir(folder.path())
                .status();
            assert!(done.expect("a compiler's tool").success(), "{program}");
        };
        let source = "static inline __attribute__((always_inline)) int split_in(int x)\n\
             { return x * x + 7; }\n\
             __attribute__((noinline)) int outer(int x) { return split_in(x) - 1; }\n\
             int main(int c, char **v) { return outer(c); }\n";
        std::fs::write(folder.path().join("p.c"), source).expect("written");
        // The linker's own tool for packages knows no later version.
        let build = |version| {
            run(
                "gcc",
                &["-O1", version, "-gsplit-dwarf", "-no-pie", "-o", "p", "p.c"],
            );
        };
        let program = folder.path().join("p");
        let names = || {
            let elf = Elf::open(&program, &Room::new(1 << 20)).expect("an ELF file");
            let (start, size) = symbols_of(&elf, "outer")
                .first()
                .copied()
                .expect("a symbol");
            inlined(&elf, start..start + size)
        };
        let object = folder.path().join("p.dwo");
        for version in ["-gdwarf-5", "-gdwarf-4"] {
            build(version);
            assert_eq!(names(), ["split_in"], "{version}");
        }
        run("dwp", &["-e", "p", "-o", "p.dwp"]);
        std::fs::remove_file(&object).expect("removed");
        assert_eq!(names(), ["split_in"]);
        std::fs::remove_file(folder.path().join("p.dwp")).expect("removed");
        assert_eq!(names(), [""; 0]);
        std::fs::copy(fixture(), &object).expect("copied");
        assert_eq!(names(), [""; 0]);
    }

    /// A damaged file gives fewer names, and does not end the program.
    #[test]
    fn damaged_files_are_harmless() {
        let good = std::fs::read(fixture()).expect("fixture is there");
        let mut state = 5_u64;
        for _ in 0..100 {
            let mut bad = good.clone();
            for _ in 0..16 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let at = usize::try_from(state >> 33).expect("fits") % bad.len();
                bad[at] = u8::try_from(state >> 25 & 0xff).expect("a byte");
            }
            let Some(Ok(elf)) = fenced(|| Elf::parse(bad)) else {
                continue;
            };
            let _ = bounds(&elf, &[0x1024, 0x1095, 0]);
            let _ = places(&elf, &[0x1024, 0x1095, u64::MAX]);
        }
    }
}
