//! Images of a few lines of assembly, for tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::binary::Binary;
use crate::pieces::Room;

/// Builds a shared object of these lines of assembly, which begin in `.text`.
pub(crate) fn assembled(folder: &Path, text: &str) -> PathBuf {
    let (source, object) = (folder.join("a.S"), folder.join("a.so"));
    let whole = format!(".text\n{text}\n.section .note.GNU-stack,\"\",@progbits\n");
    std::fs::write(&source, whole).expect("written");
    let built = Command::new("cc")
        .args(["-shared", "-nostdlib", "-o"])
        .args([&object, &source])
        .status()
        .expect("the linker of this build");
    assert!(built.success());
    object
}

/// The image of these lines of assembly.
pub(crate) fn image(folder: &Path, text: &str) -> Binary {
    let object = assembled(folder, text);
    Binary::open(&object, &Room::new(u64::MAX)).expect("an image")
}
