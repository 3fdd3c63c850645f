//! Whether images offer what their symbols say, by the linker's table and without it.

use std::collections::BTreeMap;

use object::{Object as _, ObjectSymbol as _, SymbolFlags};

use super::*;
use crate::pieces::Room;

/// Libraries of this system, this program, and the checked-in image.
fn images() -> Vec<Binary> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let mapped = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5));
    let mut paths: Vec<String> = mapped
        .filter(|path| path.starts_with('/'))
        .map(str::to_owned)
        .collect();
    paths.sort();
    paths.dedup();
    let fixture = "../reports/tests/fixtures/declared.so";
    paths.push(format!("{}/{fixture}", env!("CARGO_MANIFEST_DIR")));
    let open = |path: &String| Binary::open(path.as_ref(), &Room::new(1 << 30)).ok();
    paths.iter().filter_map(open).collect()
}

/// What all dynamic symbols of an image say, one after another.
fn by_symbols(image: &Binary) -> BTreeMap<String, Vec<Offered>> {
    let mut all: BTreeMap<String, Vec<Offered>> = BTreeMap::new();
    let apart = image.apart();
    let file = apart.parsed().expect("parses");
    for symbol in file.dynamic_symbols() {
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else {
            continue;
        };
        let offered = match st_info.0 & 15 {
            2 => Offered::At(symbol.address()),
            10 => Offered::Several,
            _ => continue,
        };
        if symbol.is_definition() && !symbol.is_local() {
            let name = symbol.name().expect("has a name").to_owned();
            all.entry(name).or_default().push(offered);
        }
    }
    all
}

/// Each function of the images that are mapped here is found as a walk over all symbols finds it,
/// by the linker's table as by one that is made of the names; and names of others are not.
#[test]
fn as_symbols_say() {
    let mut checked = 0;
    for image in images() {
        let said = by_symbols(&image);
        let tables = [
            Exports::of(&image).expect("a small table"),
            of_either!(image.headers().expect("headers"), file => sorted(&file))
                .expect("a small table"),
        ];
        for table in &tables {
            for (name, offered) in &said {
                let same = offered.iter().all(|one| Some(one) == offered.first());
                let expected = match same {
                    true => offered.first().copied(),
                    false => Some(Offered::Several),
                };
                assert_eq!(table.find(&image, name), expected, "{name}");
                checked += 1;
                let other = format!("{name}?");
                assert_eq!(table.find(&image, &other), None, "{other}");
            }
            assert_eq!(table.find(&image, ""), None);
        }
    }
    assert!(checked > 1000, "{checked}");
}

/// A table that is broken anywhere finds nothing that is not there, and ends.
#[test]
fn broken_tables() {
    let image = images().into_iter().max_by_key(|one| by_symbols(one).len());
    let image = image.expect("an image");
    let said = by_symbols(&image);
    let Exports(Places::Table { bytes, word }) = Exports::of(&image).expect("a small table") else {
        panic!("the C library has a table of the linker's");
    };
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(state >> 33).expect("fits") % below
    };
    for round in 0..300 {
        let mut broken = bytes.clone();
        match round % 3 {
            0 => broken.truncate(random(bytes.len())),
            // The header.
            1 => broken[random(16)] = u8::try_from(random(256)).expect("a byte"),
            _ => {
                for _ in 0..100 {
                    let at = random(bytes.len());
                    broken[at] = u8::try_from(random(256)).expect("a byte");
                }
            }
        }
        let table = Exports(Places::Table {
            bytes: broken,
            word,
        });
        for (name, offered) in said.iter().take(100) {
            if let Some(found) = table.find(&image, name) {
                assert!(offered.contains(&found) || found == Offered::Several);
            }
        }
    }
    for endless in [
        // One bucket, whose chain has no end.
        [1_u32, 1, 1, 0, !0, !0, 1, 0, 0, 0].as_slice(),
        // No bucket, no filter, the largest numbers.
        &[0, 1, 1, 0, !0, !0, 1],
        &[1, 1, 0, 0, 1, 1],
        &[!0, !0, !0, !0, !0, !0],
    ] {
        let bytes = endless.iter().flat_map(|number| number.to_le_bytes());
        let table = Exports(Places::Table {
            bytes: bytes.collect(),
            word: 8,
        });
        assert_eq!(table.find(&image, "malloc"), None);
    }
}
