//! Where the functions around an address may lie, without reading a name.

use object::elf;
use object::read::elf::{FileHeader, Sym as _};

use crate::binary::Binary;
use crate::headers::{Headers, of_either};
use crate::pieces::Source;
use crate::scan::Table;

/// What an image says of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Around {
    /// There is no code.
    NoCode,
    /// The function around it is within these ranges of addresses.
    Within(Vec<(u64, u64)>),
    /// It cannot be told without a look at names and code.
    Untold,
}

/// Where the function of `image` is that [`Functions::find`](crate::Functions::find) tells of an
/// address, as its tables and those of its debug file say; or the unwind row around it.
#[must_use]
pub fn around(image: &Binary, debug: Option<&Binary>, address: u64) -> Around {
    let is_in = |(first, last): &(u64, u64)| (*first..*last).contains(&address);
    if !image.code_sections().iter().any(is_in) {
        let mut segments = image.segments().iter();
        let within = segments.any(|segment| {
            let behind = address.checked_sub(segment.address);
            segment.executable && behind.is_some_and(|behind| behind < segment.memory_size)
        });
        return match within {
            true => Around::Untold,
            false => Around::NoCode,
        };
    }
    let mut covering = Covering {
        address,
        ranges: Vec::new(),
        has_function: false,
    };
    let mini = image.mini();
    for binary in [Some(image), mini.as_ref(), debug].into_iter().flatten() {
        if let Some(headers) = binary.headers() {
            of_either!(&headers, file => covering.look_at(binary.source(), file));
        }
    }
    // A symbol that covers the address with its size wins, and else the row bounds what does.
    if !covering.has_function {
        match image.frame(address) {
            Some(row) => covering.ranges.push(row),
            None => return Around::Untold,
        }
    }
    Around::Within(covering.ranges)
}

/// Symbols whose sizes cover an address.
struct Covering {
    address: u64,
    ranges: Vec<(u64, u64)>,
    /// One of them is a function.
    has_function: bool,
}

impl Covering {
    fn look_at<Header: FileHeader>(&mut self, source: &Source, file: &Headers<'_, Header>) {
        let endian = file.endian;
        for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
            let Some(table) = Table::of(file, kind) else {
                continue;
            };
            // What cannot be read tells nothing.
            let _ = table.each_symbol::<Header>(source, |symbol| {
                let start: u64 = symbol.st_value(endian).into();
                let size: u64 = symbol.st_size(endian).into();
                let end = start.saturating_add(size);
                let covers = (start..end).contains(&self.address);
                if covers && symbol.st_shndx(endian) != elf::SHN_UNDEF {
                    self.ranges.push((start, end));
                    let functions = [elf::STT_FUNC, elf::STT_GNU_IFUNC];
                    self.has_function |= functions.contains(&symbol.st_type());
                }
            });
        }
    }
}

#[cfg(test)]
mod tests;
