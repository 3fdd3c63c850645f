//! Which functions an image offers to others: what the dynamic linker asks it by name.
//!
//! An image's hash table (`.gnu.hash`) tells of a name where among its symbols it may stand, so
//! that neither symbols nor names are read of an image that does not have it.

use object::elf;
use object::read::StringTable;
use object::read::elf::{FileHeader, SectionHeader as _, Sym as _};
use object::{ReadRef as _, SectionIndex};

use crate::binary::Binary;
use crate::headers::{Headers, of_either};

/// A hash table larger than this is not read, in bytes; it would be one of millions of names.
const MAX_TABLE: u64 = 32 << 20;
/// Symbols that share a bucket of the table at most; linkers make it a few.
const MAX_CHAIN: usize = 1 << 12;

/// What an image offers under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// A function with its virtual address.
    At(u64),
    /// Several functions, or one that is chosen when it is bound.
    Several,
}

/// Where the names that an image offers stand among its dynamic symbols.
#[derive(Debug, Default)]
pub struct Exports(Places);

#[derive(Debug)]
enum Places {
    /// The bytes of the table that the linker made, and the size of a word of its filter.
    Table { bytes: Vec<u8>, word: usize },
    /// Hashes of the names and numbers of their symbols, in order.
    Sorted(Vec<(u32, u32)>),
}

impl Default for Places {
    fn default() -> Places {
        Places::Sorted(Vec::new())
    }
}

impl Exports {
    /// What can be told of names without the image; `None` for one whose tables are too large.
    #[must_use]
    pub fn of(image: &Binary) -> Option<Exports> {
        let Some(headers) = image.headers() else {
            return Some(Exports::default());
        };
        of_either!(headers, file => exports(&file))
    }

    /// Bytes that are held.
    #[must_use]
    pub fn size(&self) -> u64 {
        let bytes = match &self.0 {
            Places::Table { bytes, .. } => bytes.len(),
            Places::Sorted(all) => size_of_val(all.as_slice()),
        };
        bytes as u64
    }

    /// Whether the image may offer a function of this name, as it stands in its tables.
    #[must_use]
    pub fn may_have(&self, name: &str) -> bool {
        !self.numbers(name).is_empty()
    }

    /// What the image that this was made of offers under a name.
    #[must_use]
    pub fn find(&self, image: &Binary, name: &str) -> Option<Offered> {
        let numbers = self.numbers(name);
        if numbers.is_empty() {
            return None;
        }
        let headers = image.headers()?;
        let found = of_either!(headers, file => offered(&file, &numbers, name))?;
        found.into_iter().reduce(|one, other| match one == other {
            true => one,
            false => Offered::Several,
        })
    }

    /// The symbols whose names have the hash of this one.
    fn numbers(&self, name: &str) -> Vec<u32> {
        let hash = elf::gnu_hash(name.as_bytes());
        match &self.0 {
            Places::Table { bytes, word } => in_table(bytes, *word, hash).unwrap_or_default(),
            Places::Sorted(all) => {
                let from = all.partition_point(|(other, _)| *other < hash);
                let same = all.iter().skip(from).take_while(|one| one.0 == hash);
                same.map(|(_, number)| *number).collect()
            }
        }
    }
}

fn exports<Header: FileHeader>(file: &Headers<'_, Header>) -> Option<Exports> {
    let (endian, data) = (file.endian, file.data);
    let mut sections = file.sections.iter();
    let table = sections.find(|section| section.sh_type(endian) == elf::SHT_GNU_HASH);
    if let Some(table) = table {
        if table.sh_size(endian).into() > MAX_TABLE {
            return None;
        }
        return Some(Exports(Places::Table {
            bytes: table.data(endian, data).unwrap_or_default().to_vec(),
            word: size_of::<Header::Word>(),
        }));
    }
    sorted(file)
}

/// What the names themselves tell, where there is no table.
fn sorted<Header: FileHeader>(file: &Headers<'_, Header>) -> Option<Exports> {
    let (endian, data) = (file.endian, file.data);
    let Some((symbols, names)) = dynamic(file) else {
        return Some(Exports::default());
    };
    let size = size_of::<Header::Sym>() as u64;
    let count = symbols.1 / size;
    if count > MAX_TABLE / 8 || names.1 > 8 * MAX_TABLE {
        return None;
    }
    let count = usize::try_from(count).ok()?;
    let symbols = data.read_slice_at::<Header::Sym>(symbols.0, count);
    let names = data.read_bytes_at(names.0, names.1);
    let (symbols, names) = (symbols.unwrap_or_default(), names.unwrap_or_default());
    let mut all: Vec<(u32, u32)> = (0..)
        .zip(symbols)
        .filter_map(|(number, symbol)| {
            address(file, symbol)?;
            let from = usize::try_from(symbol.st_name(endian)).ok()?;
            let name = names.get(from..)?;
            let name = name.get(..memchr::memchr(0, name)?)?;
            Some((elf::gnu_hash(name), number))
        })
        .collect();
    all.sort_unstable();
    Some(Exports(Places::Sorted(all)))
}

/// Where in the file the dynamic symbols are and their names: offsets and sizes.
fn dynamic<Header: FileHeader>(file: &Headers<'_, Header>) -> Option<((u64, u64), (u64, u64))> {
    let endian = file.endian;
    let mut sections = file.sections.iter();
    let symbols = sections.find(|section| section.sh_type(endian) == elf::SHT_DYNSYM)?;
    let names = SectionIndex(usize::try_from(symbols.sh_link(endian)).ok()?);
    let names = file.sections.section(names).ok()?;
    Some((symbols.file_range(endian)?, names.file_range(endian)?))
}

/// What the symbols of these numbers offer that have the name.
fn offered<Header: FileHeader>(
    file: &Headers<'_, Header>,
    numbers: &[u32],
    name: &str,
) -> Option<Vec<Offered>> {
    let (symbols, names) = dynamic(file)?;
    let names_end = names.0.checked_add(names.1)?;
    let size = size_of::<Header::Sym>() as u64;
    let offered = numbers.iter().filter_map(|number| {
        let within = u64::from(*number).checked_mul(size)?;
        if within >= symbols.1 {
            return None;
        }
        let at = symbols.0.checked_add(within)?;
        let symbol = file.data.read_at::<Header::Sym>(at).ok()?;
        let offered = address(file, symbol)?;
        let from = names.0.checked_add(symbol.st_name(file.endian).into())?;
        let own = file.data.read_bytes_at_until(from..names_end, 0).ok()?;
        (own == name.as_bytes()).then_some(offered)
    });
    Some(offered.collect())
}

/// What a symbol offers to other images, if it is a function's.
fn address<Header: FileHeader>(
    file: &Headers<'_, Header>,
    symbol: &Header::Sym,
) -> Option<Offered> {
    let offered = match symbol.st_type() {
        elf::STT_FUNC => Offered::At(symbol.st_value(file.endian).into()),
        elf::STT_GNU_IFUNC => Offered::Several,
        _ => return None,
    };
    // Names are asked for of local symbols without a type alone.
    let no_names = StringTable::<&[u8]>::default();
    let is_offered = !symbol.is_local() && symbol.is_definition(file.endian, no_names);
    is_offered.then_some(offered)
}

/// The symbols whose names have a hash, by a table as the linker makes it: a header of four
/// numbers, a Bloom filter, the first symbol of each bucket, and a hash for each symbol, whose
/// lowest bit says that it is the last of its bucket.
fn in_table(table: &[u8], word: usize, hash: u32) -> Option<Vec<u32>> {
    let bytes = |at: usize, size: usize| table.get(at..at.checked_add(size)?);
    let number = |at: usize| Some(u32::from_le_bytes(bytes(at, 4)?.try_into().ok()?));
    let place = |number: u32| usize::try_from(number).ok();
    let (buckets, base) = (number(0)?, number(4)?);
    let (words, shift) = (place(number(8)?)?, number(12)?);
    let bits = u32::try_from(word).ok()? * 8;
    let filter = place(hash / bits)? & words.checked_sub(1)?;
    let filter = bytes(16 + filter.checked_mul(word)?, word)?;
    let is_set = |bit: u32| {
        let byte = filter.get(place(bit / 8)?)?;
        Some(byte >> (bit % 8) & 1 == 1)
    };
    if !is_set(hash % bits)? || !is_set(hash.checked_shr(shift)? % bits)? {
        return None;
    }
    let first_bucket = 16 + words.checked_mul(word)?;
    let chains = first_bucket.checked_add(place(buckets)?.checked_mul(4)?)?;
    let first = number(first_bucket + 4 * place(hash.checked_rem(buckets)?)?)?;
    if first == 0 {
        return None;
    }
    let mut found = Vec::new();
    for symbol in (first..).take(MAX_CHAIN) {
        let at = place(symbol.checked_sub(base)?)?.checked_mul(4)?;
        let Some(value) = number(chains.checked_add(at)?) else {
            break;
        };
        if value | 1 == hash | 1 {
            found.push(symbol);
        }
        if value & 1 == 1 {
            break;
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests;
