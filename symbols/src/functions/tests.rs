//! Which function an address is in, shown on assembly of many hands.

use std::path::Path;
use std::process::Command;

use super::*;
use crate::Around;
use crate::assembly::assembled;
use crate::pieces::Room;

/// For each address from the first byte of `.text` on, the name found there; the same one after
/// the other once.
fn names(object: &Path) -> Vec<String> {
    let image = Binary::open(object, &Room::new(u64::MAX)).expect("an image");
    let functions = Functions::new(&image, None);
    let mut names: Vec<String> = Vec::new();
    for (start, end) in image.code_sections() {
        for address in start..end {
            let found = functions.find(&image, address);
            check_around(&image, address, found.as_ref());
            let name = found.map_or("-".to_owned(), |found| {
                assert!((found.start..found.end).contains(&address));
                found.name
            });
            if names.last() != Some(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// Whatever is found is where it is told to be at most.
fn check_around(image: &Binary, address: u64, found: Option<&Function>) {
    let Some(found) = found else { return };
    match crate::around(image, None, address) {
        Around::NoCode => panic!("{} is at {address:#x}", found.name),
        Around::Within(ranges) => {
            let holds = |(start, end): &(u64, u64)| *start <= found.start && found.end <= *end;
            assert!(ranges.iter().any(holds), "{found:?} in {ranges:x?}");
        }
        Around::Untold => {}
    }
}

fn check(text: &str, expected: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(names(&assembled(folder.path(), text)), expected, "{text}");
}

/// A loop behind a label, which is a symbol without size and type.
fn looping(label: &str) -> String {
    format!("mov $9,%ecx\n{label}: dec %ecx\njnz {label}\nret\n")
}

/// A size wins over a label inside, whether that is local, global, or a function's.
#[test]
fn sizes_win() {
    for kind in ["", ".globl inner\n", ".type inner,@function\n"] {
        let body = looping("inner");
        let rows = [("", ""), (".cfi_startproc\n", ".cfi_endproc\n")];
        for (begin, end) in rows {
            let text =
                format!("{kind}.globl f\n.type f,@function\nf: {begin}{body}{end}.size f,.-f\n");
            check(&text, &["f"]);
        }
    }
}

/// A function without a size reaches to the next symbol, typed or not, and to the end of its
/// section; labels inside do not end it.
#[test]
fn without_size() {
    let (one, two, three) = (looping("one"), looping("g.two"), looping("three"));
    let text = format!(
        ".globl f\n.type f,@function\nf: {one}.p2align 4\n\
         .globl g\ng: {two}.p2align 4\n\
         h: {three}"
    );
    check(&text, &["f", "g", "h"]);
    // What the processor falls into, and what jumps lead to, are labels even behind a return.
    let text = ".globl f\nf: test %edi,%edi\njz error\nret\nerror: xor %eax,%eax\nret\n\
                 .globl g\ng: ret\n";
    check(text, &["f", "g"]);
    // Code behind a return that only calls reach is a function of its own.
    let text = ".globl f\nf: call helper\nret\nhelper: xor %eax,%eax\nret\n";
    check(text, &["f", "helper"]);
}

/// An unwind row bounds a function without a size; behind it, nothing is known.
#[test]
fn rows_bound() {
    let text = ".type f,@function\nf: .cfi_startproc\nnop\ninner: nop\nret\n.cfi_endproc\n\
                .cfi_startproc\nnop\nret\n.cfi_endproc\n";
    check(text, &["f", "-"]);
}

/// Data among code ends a function, and is none.
#[test]
fn data_among_code() {
    let text = ".type f,@function\nf: ret\n.type table,@object\ntable: .quad 1\n\
                .size table,.-table\n.type g,@function\ng: ret\n";
    check(text, &["f", "-", "g"]);
}

/// Where local functions are not named, one without a size is known at its beginning alone.
#[test]
fn stripped() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = ".globl f\n.type f,@function\nf: nop\nret\nlocal: nop\nret\n";
    let object = assembled(folder.path(), text);
    let stripped = Command::new("strip").arg(&object).status();
    assert!(
        stripped
            .expect("strip, which the linker comes with")
            .success()
    );
    assert_eq!(names(&object), ["f", "-"]);
}

/// The global name is taken before the weak, and the plain before the hidden.
#[test]
fn best_names() {
    let text = ".globl _f\n.globl f\n.weak af\n\
                .type f,@function\n.type _f,@function\n.type af,@function\n\
                f:\n_f:\naf: ret\n.size f,1\n.size _f,1\n.size af,1\n";
    check(text, &["f"]);
}
