//! What is told of an address, shown on assembly.

use super::*;
use crate::assembly;

/// A function with a size is told by that, one without by its unwind row, and one with neither not
/// at all. Behind the code there is none.
#[test]
fn kinds_of_functions() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = ".type f,@function\nf: nop\nret\n.size f,.-f\n\
                g: .cfi_startproc\nnop\nnop\nret\n.cfi_endproc\n\
                h: nop\nret\n\
                .type table,@object\ntable: .quad 1\n.size table,.-table\n";
    let image = assembly::image(folder.path(), text);
    let (first, last) = image.code_sections().first().copied().expect("code");
    let at = |offset: u64| around(&image, None, first + offset);
    assert_eq!(at(0), Around::Within(vec![(first, first + 2)]));
    assert_eq!(at(1), at(0));
    assert_eq!(at(2), Around::Within(vec![(first + 2, first + 5)]));
    assert_eq!(at(4), at(2));
    assert_eq!(at(5), Around::Untold);
    // Data among code is no function.
    assert_eq!(at(7), Around::Untold);
    assert_eq!(around(&image, None, last + (1 << 40)), Around::NoCode);
}
