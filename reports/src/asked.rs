//! Which places in code a function's name on the command line means, from the images' own tables:
//! so a report of one function reads that function's rows alone.
//!
//! What is found here is enough: all functions of the name, or with such a part in their names, are
//! in it, and it may hold more. The view of what was read finds them again, exactly. Where a name
//! cannot be resolved so (it is an address alone, or a part of very many names), the places of all
//! rows are read to find it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;

use profiledb::rows::{Image, ImageKind};
use profiledb::{Places, Profile, SymbolRow};
use symbols::{Functions, Room, named};

use crate::bundle;
use crate::debugfiles;
use crate::elf::{self, Elf};
use crate::guard::fenced;
use crate::images;
use crate::symbols::{MAX_TOTAL, STUB, UNNAMED, short_name};
use crate::view::select::{hex, is_called};

/// Words of names that stand in no mangled name as they are: others are written for them.
const WRITTEN_OTHERWISE: [&str; 69] = [
    "allocator",
    "anonymous",
    "as",
    "auto",
    "basic_iostream",
    "basic_istream",
    "basic_ostream",
    "basic_string",
    "bool",
    "char",
    "char16_t",
    "char32_t",
    "char8_t",
    "char_traits",
    "clone",
    "closure",
    "const",
    "construction",
    "decltype",
    "delete",
    "double",
    "dyn",
    "extern",
    "f32",
    "f64",
    "false",
    "float",
    "fn",
    "for",
    "guard",
    "i128",
    "i16",
    "i32",
    "i64",
    "i8",
    "impl",
    "int",
    "iostream",
    "isize",
    "istream",
    "lambda",
    "long",
    "mut",
    "namespace",
    "new",
    "nullptr",
    "nullptr_t",
    "operator",
    "ostream",
    "restrict",
    "shim",
    "short",
    "signed",
    "sizeof",
    "std",
    "str",
    "string",
    "thunk",
    "true",
    "typeinfo",
    "u128",
    "u16",
    "u32",
    "u64",
    "u8",
    "unsigned",
    "usize",
    "void",
    "volatile",
];

/// More words of names that stand in no mangled name: what is said of what is named. A function may
/// have any of them as its own name, too.
const SAID_BESIDE: [&str; 33] = [
    "_Complex",
    "_Imaginary",
    "__float128",
    "__int128",
    "alignof",
    "arg",
    "covariant",
    "decimal128",
    "decimal32",
    "decimal64",
    "f128",
    "f16",
    "function",
    "global",
    "half",
    "init",
    "initialization",
    "name",
    "noexcept",
    "non",
    "parameter",
    "reference",
    "return",
    "temporary",
    "throw",
    "transaction",
    "type",
    "unnamed",
    "unsafe",
    "variable",
    "virtual",
    "wchar_t",
    "wrapper",
];

/// Images are looked at side by side.
const THREADS: usize = 2;

/// Functions that have a part in their names, at most: of more, all rows are read as fast.
const MOST_OF_PART: usize = 256;

/// The shortest part of names that is looked for.
const LEAST_OF_PART: usize = 3;

/// Where functions of this name may be in images of the databases; with `stubs` also the PLT stubs
/// that lead there. `None`: it cannot be told so.
pub(crate) fn places(
    paths: &[PathBuf],
    name: &str,
    only: &[String],
    stubs: bool,
) -> Option<Places> {
    look(&AskedName::new(name, stubs)?, paths, only)
}

/// Where functions may be in whose names this is, and the PLT stubs that lead there. `None`: it
/// cannot be told so.
pub(crate) fn places_of_part(paths: &[PathBuf], name: &str, only: &[String]) -> Option<Places> {
    let places = look(&AskedName::of_part(name)?, paths, only)?;
    (places.iter().count() <= MOST_OF_PART).then_some(places)
}

fn look(asked: &AskedName<'_>, paths: &[PathBuf], only: &[String]) -> Option<Places> {
    let outline = Profile::outline(paths).ok()?;
    let wanted = images::spellings(only);
    let mut stored: BTreeMap<usize, Vec<&SymbolRow>> = BTreeMap::new();
    for symbol in &outline.symbols {
        stored.entry(symbol.image).or_default().push(symbol);
    }
    let look = |part: usize| {
        let room = Room::new(MAX_TOTAL / THREADS as u64);
        let mut places = Places::default();
        let images = outline.images.iter().enumerate();
        for (index, image) in images.skip(part).step_by(THREADS) {
            let is_wanted = only.is_empty() || wanted.iter().any(|name| image.is_named(name));
            if !is_wanted && !asked.stubs {
                continue;
            }
            let stored = stored.get(&index).map(Vec::as_slice).unwrap_or_default();
            asked.look_at_stored(image, stored, &mut places);
            // What cannot be parsed names nothing.
            let _ = fenced(|| asked.look_at_file(image, is_wanted, &room, &mut places));
        }
        places
    };
    let mut places = Places::default();
    thread::scope(|scope| {
        let look = &look;
        let parts = (0..THREADS).map(|part| scope.spawn(move || look(part)));
        // One that panicked has said so, and all is read then.
        for found in parts
            .collect::<Vec<_>>()
            .into_iter()
            .map(|part| part.join())
        {
            places.add_places(&found.ok()?);
        }
        Some(())
    })?;
    (!places.is_empty()).then_some(places)
}

/// What is asked for.
struct AskedName<'a> {
    /// The name without what says that it is a stub.
    name: &'a str,
    /// A piece of it that stands in each mangled name.
    part: &'a str,
    /// The name and the address in `name+0xaddress`.
    at: Option<(&'a str, u64)>,
    /// Stubs that lead to it, too.
    stubs: bool,
    /// It is a part of names.
    is_part: bool,
}

impl<'a> AskedName<'a> {
    fn new(name: &'a str, stubs: bool) -> Option<AskedName<'a>> {
        let at = match name.split_once(UNNAMED) {
            Some((image, number)) => unnamed(number).map(|number| (image, number)),
            None => name
                .rsplit_once('+')
                .and_then(|(whole, number)| Some((whole, hex(number)?))),
        };
        let whole = at.map_or(name, |(whole, _)| whole);
        let stub = whole.strip_suffix(STUB);
        Some(AskedName {
            name: stub.unwrap_or(whole),
            part: part(stub.unwrap_or(whole))?,
            at,
            stubs: stubs || stub.is_some() || at.is_some(),
            is_part: false,
        })
    }

    /// Of a part of names; `None` for one that names may have that stand in no table, but for those
    /// that are made of the image's.
    fn of_part(name: &'a str) -> Option<AskedName<'a>> {
        let is_of_tables = |character: char| !['!', '+', '@', '[', ']'].contains(&character);
        // As in `image!fn_address`.
        let starts = ["fn_", "n_", "_"].iter();
        let behind = starts.filter_map(|start| name.strip_prefix(start));
        let is_number = |text: &str| text.chars().all(|digit| digit.is_ascii_hexdigit());
        let may_be_number = [name].into_iter().chain(behind).any(is_number);
        if !name.chars().all(is_of_tables) || may_be_number || STUB.contains(name) {
            return None;
        }
        let part = part(name).filter(|part| part.len() >= LEAST_OF_PART)?;
        // A part of such a word stands in no mangled name either.
        let mut others = WRITTEN_OTHERWISE.iter().chain(&SAID_BESIDE);
        let is_plain = !others.any(|word| word.contains(part));
        is_plain.then_some(AskedName {
            name,
            part,
            at: None,
            stubs: true,
            is_part: true,
        })
    }

    fn is_meant(&self, raw: &str) -> bool {
        let own = elf::demangle(raw);
        match self.is_part {
            true => own.contains(self.name),
            false => is_called(&own, self.name, false),
        }
    }

    /// Whether functions without a name go by what is asked for, since their image does.
    fn is_in_name(&self, image: &Image, elf: Option<&Elf>) -> bool {
        let own = match image.kind {
            ImageKind::File => short_name(image),
            ImageKind::Vdso | ImageKind::Kernel | ImageKind::Anon => image.path.clone(),
        };
        let soname = || elf.and_then(Elf::soname);
        let is_in = |text: &str| text.contains(self.name);
        self.is_part && (is_in(&own) || soname().is_some_and(|name| is_in(&name)))
    }

    /// The names that the collector wrote.
    fn look_at_stored(&self, image: &Image, symbols: &[&SymbolRow], places: &mut Places) {
        if self.is_in_name(image, None) {
            places.add_all(image);
        }
        for (index, symbol) in symbols.iter().enumerate() {
            if symbol.name.contains(self.part) && self.is_meant(&symbol.name) {
                let next = symbols.get(index + 1).map(|next| next.address);
                let end = match symbol.size {
                    0 => next.unwrap_or(u64::MAX),
                    size => symbol.address.saturating_add(size),
                };
                places.add(image, symbol.address, end);
            }
        }
        if let Some((whole, address)) = self.at
            && (image.path == whole || short_name(image) == whole)
        {
            let behind = symbols.partition_point(|symbol| symbol.address <= address);
            let around = behind.checked_sub(1).and_then(|at| symbols.get(at));
            let next = symbols.get(behind).map_or(u64::MAX, |next| next.address);
            if let Some(symbol) = around {
                let end = symbol.address.saturating_add(symbol.size);
                places.add(image, symbol.address, end.max(next));
            }
        }
    }

    /// The names in an image's file, and in its debug file.
    fn look_at_file(
        &self,
        image: &Image,
        is_wanted: bool,
        room: &Room,
        places: &mut Places,
    ) -> Option<()> {
        let path = bundle::image_file(image);
        let path = path.as_path();
        let own = match image.kind {
            ImageKind::File => Elf::open(path, room).ok(),
            ImageKind::Vdso => elf::own_vdso(),
            ImageKind::Kernel | ImageKind::Anon => None,
        };
        let own = own.filter(|own| match &image.build_id {
            Some(profiled) => own.build_id() == Some(profiled),
            None => true,
        });
        let own = own.or_else(|| debugfiles::executable(image, room));
        let debug = debugfiles::find(image, own.as_ref(), room);
        let elf = own.as_ref().or(debug.as_ref())?;
        let beside = own.as_ref().and(debug.as_ref()).map(Elf::binary);
        let before = places.clone();
        if self.is_in_name(image, Some(elf)) {
            places.add_all(image);
        } else if is_wanted {
            let said = named(elf.binary(), beside, self.part, &|raw| self.is_meant(raw));
            if self.is_part && said.ranges.len() > MOST_OF_PART {
                places.add_all(image);
                return Some(());
            }
            for (start, end) in said.ranges {
                places.add(image, start, end);
            }
            // Debug information may name what such tables do not.
            let declares = |elf: &Elf| elf.has_section(".debug_info");
            if !said.is_whole && (declares(elf) || debug.as_ref().is_some_and(declares)) {
                places.add_all(image);
            }
            if let Some((whole, address)) = self.at
                && (image.path == whole
                    || short_name(image) == whole
                    || elf.soname().as_deref() == Some(whole))
            {
                let functions = Functions::new(elf.binary(), beside);
                let found = functions.find(elf.binary(), address);
                let bounds = found.map(|found| (found.start, found.end));
                if let Some((start, end)) = bounds.or_else(|| elf.frame(address)) {
                    places.add(image, start, end);
                }
            }
            if self.stubs && said.has_stubs {
                add_stubs(image, elf, places);
            }
        } else if named(elf.binary(), None, self.part, &|raw| self.is_meant(raw)).has_stubs {
            add_stubs(image, elf, places);
        }
        // Whether such a file is the one that was profiled shows in all of its code.
        if *places != before && image.build_id.is_none() && image.content_id().is_none() {
            places.add_all(image);
        }
        Some(())
    }
}

fn add_stubs(image: &Image, elf: &Elf, places: &mut Places) {
    for (start, end) in elf.stub_sections() {
        places.add(image, start, end);
    }
}

/// The address in what is behind [`UNNAMED`]: that of the function, or of an instruction in it.
fn unnamed(number: &str) -> Option<u64> {
    let (start, offset) = match number.split_once('+') {
        Some((start, offset)) => (start, hex(offset)?),
        None => (number, 0),
    };
    u64::from_str_radix(start, 16).ok()?.checked_add(offset)
}

/// The longest word of a name that mangling leaves as it is.
fn part(name: &str) -> Option<&str> {
    if !name.is_ascii() {
        return None;
    }
    let is_word = |word: &&str| {
        word.starts_with(|first: char| !first.is_ascii_digit())
            && WRITTEN_OTHERWISE.binary_search(word).is_err()
    };
    let words =
        name.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    words
        .filter(|word| !word.is_empty())
        .filter(is_word)
        .max_by_key(|word| word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is searched for in tables is a word that stands there whatever the mangling.
    #[test]
    fn words() {
        assert!(WRITTEN_OTHERWISE.is_sorted());
        for (name, expected) in [
            ("main", Some("main")),
            ("llvm::InstCombinePass::run", Some("InstCombinePass")),
            ("std::string::find(char const*)", Some("find")),
            (
                "<alloc::vec::Vec<T> as core::ops::Drop>::drop",
                Some("alloc"),
            ),
            ("operator new(unsigned long)", None),
            ("gr\u{fc}n", None),
            ("0x1234", None),
        ] {
            assert_eq!(part(name), expected, "{name}");
        }
    }

    /// Parts are looked for in tables that stand there in each name that has them. What may be a
    /// part of an address, of a word that is written otherwise, or of what is said beside a name,
    /// is not.
    #[test]
    fn parts() {
        for (name, expected) in [
            ("yyparse", Some("yyparse")),
            ("Cloner::cre", Some("Cloner")),
            ("_visit", Some("_visit")),
            ("no", None),
            ("add", None),
            ("_5c4a0", None),
            ("fn_", None),
            ("fn_visit", Some("fn_visit")),
            ("lib!fn_10", None),
            ("main+0x4", None),
            ("puts@", None),
            ("plt", None),
            ("[clone", None),
            ("loca", None),
            ("irtual", None),
            ("visit(unsigned long)", Some("visit")),
        ] {
            let asked = AskedName::of_part(name);
            assert_eq!(asked.map(|asked| asked.part), expected, "{name}");
        }
        assert!(SAID_BESIDE.is_sorted());
    }
}
