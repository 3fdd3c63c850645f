//! Which instructions are interpreted, as a table that is checked in.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use iced_x86::{Code, Decoder, DecoderOptions};
use interpreter::{Decoded, Support};

/// First bytes of the encodings without a vector prefix: prefixes, maps and opcodes, up to the
/// ModRM byte.
fn plain_openings() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let opcodes = 0..=255u8;
    for prefix in [&[][..], &[0x66], &[0xf2], &[0xf3]] {
        for rex in [&[][..], &[0x48]] {
            for map in [&[][..], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]] {
                all.extend(opcodes.clone().map(|op| [prefix, rex, map, &[op]].concat()));
            }
        }
    }
    // Address size decides between some string instructions and loops.
    all.extend(opcodes.map(|op| vec![0x67, op]));
    all
}

/// First bytes of the VEX, XOP and EVEX encodings, up to the ModRM byte.
fn vector_openings() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let opcodes = 0..=255u8;
    for map in 1..=10u8 {
        for low in 0..8u8 {
            for w in [0, 0x80] {
                // No inverted registers; vvvv = 0 (inverted) and with a register.
                for unused in [0x78, 0x40] {
                    for escape in [0xc4, 0x8f] {
                        let head = [escape, 0xe0 | map, w | unused | low];
                        all.extend(opcodes.clone().map(|op| [&head[..], &[op]].concat()));
                    }
                }
            }
        }
        if map > 7 {
            continue;
        }
        for pp in 0..4u8 {
            for w in [0, 0x80] {
                for last in [0x08, 0x28, 0x48, 0x18, 0x09] {
                    for unused in [0x78, 0x40] {
                        let head = [0x62, 0xf0 | map, w | unused | 4 | pp, last];
                        all.extend(opcodes.clone().map(|op| [&head[..], &[op]].concat()));
                    }
                }
            }
        }
    }
    all
}

/// How each instruction of 64-bit mode is treated, by the decoder's name for it.
fn table() -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    let mut seen = vec![false; Code::values().len()];
    let mut enter = |opening: &[u8], modrm: u8| {
        let mut bytes = opening.to_vec();
        bytes.extend([modrm, 0x11]);
        bytes.resize(15, 0);
        let code = Decoder::new(64, &bytes, DecoderOptions::NONE)
            .decode()
            .code();
        if code == Code::INVALID || std::mem::replace(&mut seen[code as usize], true) {
            return;
        }
        let support = match Decoded::new(&bytes, 0)
            .expect("the decoder knows it")
            .support()
        {
            Support::Interpreted => "interpreted".to_owned(),
            Support::Skipped => "skipped".to_owned(),
            Support::Stops(reason) => format!("stops: {}", reason.key()),
        };
        rows.insert(format!("{code:?}"), support);
    };
    for opening in plain_openings() {
        (0..=255).for_each(|modrm| enter(&opening, modrm));
    }
    for opening in vector_openings() {
        // Memory at a register, with an index (for gathers), and registers.
        for reg in 0..8 {
            for modrm in [
                0x01 | reg << 3,
                0x04 | reg << 3,
                0xc1 | reg << 3,
                0xc0 | reg,
            ] {
                enter(&opening, modrm);
            }
        }
    }
    rows
}

/// Every instruction is treated as the table says: what is unsupported is so on purpose. After a
/// change, `VCPI_UPDATE=1` writes the table anew; the difference is to be read before it is kept.
#[test]
fn instructions_are_treated_as_listed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/coverage.tsv");
    let mut text = String::new();
    for (code, support) in table() {
        let _ = writeln!(text, "{code}\t{support}");
    }
    if std::env::var_os("VCPI_UPDATE").is_some() {
        std::fs::write(path, &text).expect("the table can be written");
    }
    let listed = std::fs::read_to_string(path).expect("the table is there");
    let changed: Vec<_> = text
        .lines()
        .filter(|row| !listed.lines().any(|l| l == *row))
        .collect();
    assert!(changed.is_empty(), "not as listed in {path}: {changed:#?}");
    assert_eq!(
        text.lines().count(),
        listed.lines().count(),
        "rows of no instruction in {path}"
    );
}
