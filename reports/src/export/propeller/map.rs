//! The section of a program in which clang tells the numbers of its blocks
//! (`SHT_LLVM_BB_ADDR_MAP`): after LLVM's documentation of its extensions to object files.

use std::collections::BTreeMap;

use gimli::{EndianSlice, LittleEndian, Reader as _};

/// Its name.
pub(super) const SECTION: &str = ".llvm_bb_addr_map";

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MappedBlock {
    /// The compiler's number of it.
    pub(super) number: u32,
    /// Its first address.
    pub(super) start: u64,
    /// The first address behind it.
    pub(super) end: u64,
}

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mapped {
    /// Its blocks by address. Those without code are left out.
    pub(super) blocks: Vec<MappedBlock>,
}

/// The versions of entries that are known.
const VERSIONS: std::ops::RangeInclusive<u8> = 2..=5;
/// The first version that has two bytes of features.
const WIDE: u8 = 5;
/// What an entry has besides, by the bits of its features: how often the function is entered,
/// how often its blocks run, how often ways between them.
const ENTRIES: u16 = 1;
const FREQUENCIES: u16 = 1 << 1;
const WAYS: u16 = 1 << 2;
/// Several ranges of addresses.
const RANGES: u16 = 1 << 3;
/// No blocks.
const OMITTED: u16 = 1 << 4;
/// Where calls end.
const CALLS: u16 = 1 << 5;
/// Hashes of blocks.
const HASHES: u16 = 1 << 6;
/// All that is known.
const KNOWN: u16 = 0x7f;

/// The blocks of each function, by the function's address.
///
/// # Errors
/// If the section is cut off, or in a version that is not known.
pub(super) fn decode(section: &[u8]) -> Result<BTreeMap<u64, Mapped>, String> {
    let mut reader = EndianSlice::new(section, LittleEndian);
    let mut found = BTreeMap::new();
    while !reader.is_empty() {
        let at = section.len() - reader.len();
        let version = reader.read_u8().map_err(|error| error.to_string())?;
        if !VERSIONS.contains(&version) {
            return Err(format!(
                "the entry at {at} is of version {version}, and {} to {} are known",
                VERSIONS.start(),
                VERSIONS.end()
            ));
        }
        let told = |error: gimli::Error| format!("the entry at {at}: {error}");
        let features = match version >= WIDE {
            true => reader.read_u16(),
            false => reader.read_u8().map(u16::from),
        };
        let features = features.map_err(told)?;
        if features & !KNOWN != 0 {
            return Err(format!(
                "the entry at {at} has features that are not known ({features:#x})"
            ));
        }
        let read = function(&mut reader, features).map_err(told)?;
        found.extend(read);
    }
    Ok(found)
}

fn function(
    reader: &mut EndianSlice<'_, LittleEndian>,
    features: u16,
) -> Result<Option<(u64, Mapped)>, gimli::Error> {
    let has = |bit: u16| features & bit != 0;
    let ranges = match has(RANGES) {
        true => reader.read_uleb128()?,
        false => 1,
    };
    let mut mapped = Mapped::default();
    let mut entry = None;
    let mut all: u64 = 0;
    for _ in 0..ranges {
        let start = reader.read_u64()?;
        entry = entry.or(Some(start));
        let blocks = reader.read_uleb128()?;
        all = all.saturating_add(blocks);
        let mut end = start;
        for _ in 0..if has(OMITTED) { 0 } else { blocks } {
            let number = reader.read_uleb128()?;
            let start = end.wrapping_add(reader.read_uleb128()?);
            // What follows is counted from the last call's end.
            let mut from = start;
            if has(CALLS) {
                for _ in 0..reader.read_uleb128()? {
                    from = from.wrapping_add(reader.read_uleb128()?);
                }
            }
            end = from.wrapping_add(reader.read_uleb128()?);
            reader.read_uleb128()?;
            if has(HASHES) {
                reader.read_u64()?;
            }
            if let Ok(number) = u32::try_from(number)
                && start < end
            {
                mapped.blocks.push(MappedBlock { number, start, end });
            }
        }
    }
    if has(ENTRIES) {
        reader.read_uleb128()?;
    }
    if (has(FREQUENCIES) || has(WAYS)) && !has(OMITTED) {
        for _ in 0..all {
            if has(FREQUENCIES) {
                reader.read_uleb128()?;
            }
            if has(WAYS) {
                for _ in 0..reader.read_uleb128()? {
                    reader.read_uleb128()?;
                    reader.read_uleb128()?;
                }
            }
        }
    }
    // The entry is the first block; others may lie before it in other ranges.
    let first = mapped.blocks.first().copied();
    mapped.blocks.sort_by_key(|block| block.start);
    let is_plain = first == mapped.blocks.first().copied();
    let is_apart = mapped.blocks.windows(2).all(|pair| match pair {
        [one, other] => one.end <= other.start,
        _ => true,
    });
    Ok(entry
        .filter(|_| is_plain && is_apart)
        .map(|entry| (entry, mapped)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry of version 2 with two blocks, the second one aligned.
    const ENTRY: [u8; 19] = [2, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 2, 0, 0, 5, 0, 3, 3, 8, 1];

    /// Blocks follow each other by distances, whatever else an entry has.
    #[test]
    fn entries() {
        let blocks = |first, second| Mapped {
            blocks: vec![first, second],
        };
        let block = |number, start, end| MappedBlock { number, start, end };
        let plain = blocks(block(0, 0x1000, 0x1005), block(3, 0x1008, 0x1010));
        let found = decode(&ENTRY).expect("an entry");
        assert_eq!(found, BTreeMap::from([(0x1000, plain.clone())]));
        // The same with ends of calls, hashes, and frequencies of everything.
        let mut more = vec![4, 0b110_0111, 0, 0x10, 0, 0, 0, 0, 0, 0, 2];
        more.extend([0, 0, 1, 2, 3, 0]);
        more.extend([9; 8]);
        more.extend([3, 3, 0, 8, 1]);
        more.extend([9; 8]);
        more.extend([7, 5, 1, 3, 2, 5, 0]);
        more.extend(ENTRY.map(|byte| if byte == 0x10 { 0x20 } else { byte }));
        let found = decode(&more).expect("two entries");
        assert_eq!(found.get(&0x1000), Some(&plain));
        assert_eq!(found.len(), 2);
        // The newest version has one byte more.
        let mut wide = vec![5, 0];
        wide.extend(ENTRY.get(1..).expect("a rest"));
        assert_eq!(decode(&wide), Ok(BTreeMap::from([(0x1000, plain)])));
    }

    /// A section that is cut off, or of another version, is an error with the place; any bytes end.
    #[test]
    fn damaged() {
        for length in 1..ENTRY.len() {
            let cut = ENTRY.get(..length).expect("a part");
            assert!(decode(cut).is_err(), "{length}");
        }
        let mut newer = ENTRY.to_vec();
        newer.extend([9, 0, 0]);
        let error = decode(&newer).expect_err("no such version");
        assert!(
            error.contains("at 19") && error.contains("version 9"),
            "{error}"
        );
        for byte in 0..=u8::MAX {
            let _ = decode(&[
                2, byte, byte, 0, 0, 0, 0, 0, 0, 0, byte, byte, byte, byte, 0,
            ]);
        }
        assert_eq!(decode(&[]), Ok(BTreeMap::new()));
    }
}
