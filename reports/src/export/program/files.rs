//! The file of a program: which one a name means, whether it is the build that was profiled, and
//! whether Go made it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use profiledb::rows::{Image, ImageKind};
use symbols::{Binary, Room, content_id};

use crate::failure::Failure;
use crate::guard::fenced;
use crate::images;
use crate::symbols::MAX_TOTAL;
use crate::view::View;

/// The file that a name means: itself, else that of the profile's image.
pub(super) fn file(view: &View<'_>, name: &str) -> Result<PathBuf, Failure> {
    if name.contains('/') || Path::new(name).is_file() {
        return Ok(PathBuf::from(name));
    }
    let found = images::named(view.profile, &[name.to_owned()])?.unwrap_or_default();
    let paths: BTreeSet<&str> = found.iter().map(|image| view.image_path(*image)).collect();
    let mut all = paths.iter();
    match (all.next(), all.next()) {
        (Some(one), None) => Ok(PathBuf::from(one)),
        _ => {
            let paths: Vec<&str> = paths.into_iter().collect();
            let paths = paths.join(", ");
            Err(Failure::Usage(format!("--image {name}: which of {paths}?")))
        }
    }
}

/// Whether the file that a name means is the build that was profiled, as far as it can be read.
///
/// # Errors
/// If it is another one; the builds are named.
pub(in crate::export) fn of_build(view: &View<'_>, name: &str) -> Result<(), Failure> {
    let path = file(view, name)?;
    match fenced(|| Binary::open(&path, &Room::new(MAX_TOTAL))) {
        Some(Ok(binary)) => images_of(view, &path, &binary).map(drop),
        _ => Ok(()),
    }
}

/// Whether the file that a name means is a program in Go; what cannot be read may be one.
pub(in crate::export) fn may_be_go(view: &View<'_>, name: &str) -> bool {
    let Ok(path) = file(view, name) else {
        return true;
    };
    match fenced(|| Binary::open(&path, &Room::new(MAX_TOTAL))) {
        Some(Ok(binary)) => is_go(&binary),
        _ => true,
    }
}

/// Whether a program has what only Go's linker writes.
pub(super) fn is_go(binary: &Binary) -> bool {
    fenced(|| binary.has_section(".note.go.buildid") || binary.has_section(".gopclntab"))
        .unwrap_or(false)
}

/// The images of a profile that are this file, wherever it lay.
pub(super) fn images_of(
    view: &View<'_>,
    path: &Path,
    binary: &Binary,
) -> Result<BTreeSet<usize>, Failure> {
    let content = || content_id(&std::fs::File::open(path).ok()?).ok();
    let content = binary.build_id().is_none().then(content).flatten();
    let is_it = |image: &Image| {
        image.kind == ImageKind::File
            && !image.is_in_32_bit_mode()
            && match binary.build_id() {
                Some(id) => image.build_id.as_deref() == Some(id),
                None => content.is_some() && image.content_id() == content.as_deref(),
            }
    };
    let images = view.profile.images.iter().enumerate();
    let found: BTreeSet<usize> = images
        .filter(|(_, image)| is_it(image))
        .map(|(index, _)| index)
        .collect();
    if !found.is_empty() {
        return Ok(found);
    }
    Err(Failure::Nothing(images::other_build(
        view.profile,
        &path.to_string_lossy(),
        binary.build_id(),
    )))
}
