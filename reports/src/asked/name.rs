//! Functions that are asked for by their name, or by a part of it.

use profiledb::rows::{Image, ImageKind};
use profiledb::{Places, SymbolRow};
use symbols::{Functions, named};

use super::words::{SAID_BESIDE, WRITTEN_OTHERWISE, part};
use super::{Asked, Files, MOST_OF_PART, add_stubs, end_of, is_told_by_code};
use crate::elf::{self, Elf};
use crate::symbols::{STUB, UNNAMED, short_name};
use crate::view::select::{hex, is_called};

/// The shortest part of names that is looked for.
const LEAST_OF_PART: usize = 3;

/// What is asked for.
pub(super) struct AskedName<'a> {
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
    pub(super) fn new(name: &'a str, stubs: bool) -> Option<AskedName<'a>> {
        let at = match name.split_once(UNNAMED) {
            Some((image, number)) => unnamed(number).map(|number| (image, number)),
            None => name
                .rsplit_once('+')
                .and_then(|(whole, number)| Some((whole, hex(number)?))),
        };
        let whole = at.map_or(name, |(whole, _)| whole);
        let stub = whole.strip_suffix(STUB);
        // The words of special names stand in no mangled name.
        let (_, function) = elf::special::split(stub.unwrap_or(whole));
        Some(AskedName {
            name: stub.unwrap_or(whole),
            part: part(function)?,
            at,
            stubs: stubs || stub.is_some() || at.is_some(),
            is_part: false,
        })
    }

    /// Of a part of names; `None` for one that names may have that stand in no table, but for those
    /// that are made of the image's.
    pub(super) fn of_part(name: &'a str) -> Option<AskedName<'a>> {
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
}

impl Asked for AskedName<'_> {
    fn in_others(&self) -> bool {
        self.stubs
    }

    fn look_at_stored(&self, image: &Image, symbols: &[&SymbolRow], places: &mut Places) {
        if self.is_in_name(image, None) {
            places.add_all(image);
        }
        for (index, symbol) in symbols.iter().enumerate() {
            if symbol.name.contains(self.part) && self.is_meant(&symbol.name) {
                places.add(image, symbol.address, end_of(symbols, index));
            }
        }
        if let Some((whole, address)) = self.at
            && (image.path == whole || short_name(image) == whole)
        {
            add_around(image, symbols, address, places);
        }
    }

    fn look_at_file(
        &self,
        image: &Image,
        files: Option<&Files>,
        is_wanted: bool,
        places: &mut Places,
    ) {
        let Some(Files { elf, debug }) = files else {
            return;
        };
        let beside = debug.as_ref().map(Elf::binary);
        let before = places.clone();
        if self.is_in_name(image, Some(elf)) {
            places.add_all(image);
        } else if is_wanted {
            let said = named(elf.binary(), beside, self.part, &|raw| self.is_meant(raw));
            if self.is_part && said.ranges.len() > MOST_OF_PART {
                places.add_all(image);
                return;
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
                let bounds = bounds.or_else(|| elf.stub(address));
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
        if *places != before && is_told_by_code(image) {
            places.add_all(image);
        }
    }
}

/// Adds the addresses of the function around one, as the names say that the collector wrote.
fn add_around(image: &Image, symbols: &[&SymbolRow], address: u64, places: &mut Places) {
    let behind = symbols.partition_point(|symbol| symbol.address <= address);
    let around = behind.checked_sub(1).and_then(|at| symbols.get(at));
    let next = symbols.get(behind).map_or(u64::MAX, |next| next.address);
    if let Some(symbol) = around {
        let end = symbol.address.saturating_add(symbol.size);
        places.add(image, symbol.address, end.max(next));
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let thunk = AskedName::new("non-virtual thunk to C::g(long)", false);
        assert_eq!(thunk.map(|asked| asked.part), Some("g"));
    }
}
