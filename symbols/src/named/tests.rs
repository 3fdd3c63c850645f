//! Where a name may be, shown on assembly.

use super::*;
use crate::assembly;

/// Every address that a function of the name covers is found: with and without a size, of local and
/// of global ones. Of other names nothing is.
#[test]
fn all_addresses_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = ".globl first\n.type first,@function\nfirst: nop\nnop\nret\n.size first,.-first\n\
                second: dec %ecx\njnz second\nret\n\
                .globl third\n.type third,@function\nthird: nop\nret\n.size third,.-third\n\
                .type second_too,@function\nsecond_too: nop\nret\n";
    let image = assembly::image(folder.path(), text);
    let functions = crate::Functions::new(&image, None);
    for name in ["first", "second", "third", "second_too", "absent"] {
        let said = named(&image, None, name, &|raw| raw == name);
        assert!(said.is_whole);
        let mut covered = 0;
        for (start, end) in image.code_sections() {
            for address in start..end {
                let found = functions.find(&image, address);
                if found.is_some_and(|found| found.name == name) {
                    covered += 1;
                    let is_in = |(start, end): &(u64, u64)| (*start..*end).contains(&address);
                    assert!(said.ranges.iter().any(is_in), "{name} at {address:#x}");
                }
            }
        }
        assert_eq!(covered == 0, said.ranges.is_empty(), "{name}");
        assert_eq!(said.has_stubs, ["first", "third"].contains(&name), "{name}");
    }
}

/// A name of another image is called through a stub, and is nowhere here.
#[test]
fn names_of_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = assembly::image(folder.path(), ".globl f\nf: call other@plt\nret\n");
    let said = named(&image, None, "other", &|raw| raw == "other");
    assert!(said.has_stubs && said.ranges.is_empty());
}

/// A table of more names than are looked at together says of each of them where it is.
#[test]
fn large_tables() {
    const NAMES: u64 = 6_000;
    let folder = tempfile::tempdir().expect("a folder");
    let name = |number: u64| format!("a_{}_{number}", "long_".repeat(1 + number as usize % 20));
    let functions = (0..NAMES).map(|number| {
        let name = name(number);
        format!(".type {name},@function\n{name}: nop\n.size {name},1\n")
    });
    let image = assembly::image(folder.path(), &functions.collect::<String>());
    let all = named(&image, None, "long_", &|_| true);
    let mut ranges = all.ranges.clone();
    ranges.sort_unstable();
    ranges.dedup();
    let first = ranges.first().map_or(0, |(start, _)| *start);
    let expected: Vec<(u64, u64)> = (0..NAMES)
        .map(|number| (first + number, first + number + 1))
        .collect();
    assert_eq!(ranges, expected);
    for number in (0..NAMES).step_by(97) {
        let wanted = name(number);
        let said = named(&image, None, &wanted, &|raw| raw == wanted);
        assert_eq!(said.ranges, [(first + number, first + number + 1)]);
    }
}
