//! Where an image's symbols and debug information are that its own file lacks: in a debug file of
//! this machine, else in one that a debuginfod server has.

use std::path::{Path, PathBuf};

use profiledb::rows::{Image, ImageKind};
use symbols::{Binary, Room};

use crate::bundle;
use crate::debuginfod::{self, Artifact};
use crate::elf::Elf;

/// The debug file of an image: `own` is the image's file, if that is the one that was profiled.
pub(crate) fn find(image: &Image, own: Option<&Elf>, room: &Room) -> Option<Elf> {
    if image.kind != ImageKind::File {
        return None;
    }
    let packed = bundle::debug_file(image).and_then(|path| Elf::open(&path, room).ok());
    let is_of_build = |debug: &Elf| debug.build_id() == image.build_id.as_deref();
    if let Some(debug) = packed.filter(is_of_build) {
        return Some(debug);
    }
    let path = Path::new(&image.path);
    let here = match own {
        Some(own) => symbols::debug_file(own.binary(), path, room),
        None => symbols::debug_file_of(image.build_id.as_deref()?, room),
    };
    if let Some((path, debug)) = here {
        return Some(Elf::at(path, debug));
    }
    // What has debug information has a table of its symbols, too.
    if own.is_some_and(|own| own.has_section(".debug_info")) {
        return None;
    }
    let (path, debug) = fetched(Artifact::DebugInfo, image.build_id.as_deref()?, room)?;
    Some(Elf::at(path, debug))
}

/// The image's own file, where another build of it or none is at its path.
pub(crate) fn executable(image: &Image, room: &Room) -> Option<Elf> {
    if image.kind != ImageKind::File {
        return None;
    }
    let (path, binary) = fetched(Artifact::Executable, image.build_id.as_deref()?, room)?;
    Some(Elf::at(path, binary))
}

/// What dwz moved out of several debug files into one that they share.
pub(crate) fn supplement(of: &Binary, path: &Path, room: &Room) -> Option<Binary> {
    let (here, build_id) = symbols::supplement(of, path, room)?;
    here.or_else(|| Some(fetched(Artifact::DebugInfo, &build_id, room)?.1))
}

fn fetched(artifact: Artifact, build_id: &str, room: &Room) -> Option<(PathBuf, Binary)> {
    debuginfod::fetch(artifact, build_id, room)
}
