//! Where the functions around an address may lie, without reading a name.

use crate::binary::Binary;
use crate::scan::each_defined;

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
    let (mut ranges, mut has_function) = (Vec::new(), false);
    let mini = image.mini();
    for binary in [Some(image), mini.as_ref(), debug].into_iter().flatten() {
        each_defined(binary, &mut |symbol| {
            let range = (symbol.start, symbol.start.saturating_add(symbol.size));
            if is_in(&range) {
                ranges.push(range);
                has_function |= symbol.is_function;
            }
        });
    }
    // A symbol that covers the address with its size wins, and else the row bounds what does.
    if !has_function {
        match image.frame(address) {
            Some(row) => ranges.push(row),
            None => return Around::Untold,
        }
    }
    Around::Within(ranges)
}

#[cfg(test)]
mod tests;
