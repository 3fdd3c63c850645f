//! Files that the command line names with `--image`. An image that is gone from where it ran, or is
//! another build by now, may be one of them, as its build id tells.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use profiledb::rows::Image;
use symbols::Room;

use crate::elf::Elf;

static FILES: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Settles which files there are in this run; there is none before that.
pub(crate) fn name_files(names: &[String]) {
    FILES.get_or_init(|| {
        let paths = names.iter().map(PathBuf::from);
        paths.filter(|path| path.is_file()).collect()
    });
}

/// The file among them that is an image.
pub(super) fn open(image: &Image, room: &Room) -> Option<Elf> {
    let files = FILES.get()?;
    let wanted = image.build_id.as_deref()?;
    let opened = |path: &PathBuf| Elf::open(Path::new(path), room).ok();
    let mut opened = files.iter().filter_map(opened);
    opened.find(|elf| elf.build_id() == Some(wanted))
}
