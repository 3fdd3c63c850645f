//! Where the symbols of a stripped file are: its debug file, by build id or by name.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::Object as _;

use crate::binary::{Binary, hex};
use crate::pieces::Room;

/// Where distributions put debug files.
const FOLDER: &str = "/usr/lib/debug";
/// The checksum of a file larger than this is not computed.
const MAX_CHECKED: u64 = 8 << 30;

/// The debug file of a build id, if it is there and of that build.
#[must_use]
pub fn debug_file_of(build_id: &str, room: &Room) -> Option<(PathBuf, Binary)> {
    by_build_id(Path::new(FOLDER), build_id, room)
}

/// The debug file of an image at `path`: by its build id, else by the name that it gives, beside
/// it, in `.debug` there, or at its path under `/usr/lib/debug`. One of another build is none.
#[must_use]
pub fn debug_file(image: &Binary, path: &Path, room: &Room) -> Option<(PathBuf, Binary)> {
    find(Path::new(FOLDER), image, path, room)
}

/// Where [`debug_file`] looks for the debug file of an image at `path`.
#[must_use]
pub fn debug_places(image: &Binary, path: &Path) -> Vec<PathBuf> {
    let folder = Path::new(FOLDER);
    let by_id = image.build_id().and_then(|id| place_of(folder, id));
    let by_name = link(image).map(|(name, _)| places_of(folder, &name, path));
    by_id
        .into_iter()
        .chain(by_name.into_iter().flatten())
        .collect()
}

/// The file that a debug file at `path` shares with others, as dwz makes it: the file, if it is
/// there and of the build that is meant, and that build's id. `None`: nothing is shared.
#[must_use]
pub fn supplement(debug: &Binary, path: &Path, room: &Room) -> Option<(Option<Binary>, String)> {
    find_supplement(Path::new(FOLDER), debug, path, room)
}

fn find_supplement(
    folder: &Path,
    debug: &Binary,
    path: &Path,
    room: &Room,
) -> Option<(Option<Binary>, String)> {
    let (name, build_id) = alternative(debug)?;
    let of_build = |path: &Path| {
        let found = Binary::open(path, room).ok()?;
        (found.build_id() == Some(build_id.as_str())).then_some(found)
    };
    // A name that is not absolute counts from the file itself, not from a link to it.
    let own = path.canonicalize().ok();
    let named = own
        .as_deref()
        .and_then(Path::parent)
        .map(|beside| beside.join(OsStr::from_bytes(&name)));
    let found = named.as_deref().and_then(of_build);
    let found = found.or_else(|| Some(by_build_id(folder, &build_id, room)?.1));
    Some((found, build_id))
}

fn find(folder: &Path, image: &Binary, path: &Path, room: &Room) -> Option<(PathBuf, Binary)> {
    let by_id = image
        .build_id()
        .and_then(|id| by_build_id(folder, id, room));
    by_id.or_else(|| by_name(folder, image, path, room))
}

fn by_build_id(folder: &Path, build_id: &str, room: &Room) -> Option<(PathBuf, Binary)> {
    let path = place_of(folder, build_id)?;
    let debug = Binary::open(&path, room).ok()?;
    (debug.build_id() == Some(build_id)).then_some((path, debug))
}

/// Where the debug file of a build id is, if it is there.
fn place_of(folder: &Path, build_id: &str) -> Option<PathBuf> {
    if !build_id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let (head, tail) = build_id.split_at_checked(2)?;
    if tail.is_empty() {
        return None;
    }
    let name = format!("{tail}.debug");
    Some(folder.join(".build-id").join(head).join(name))
}

fn by_name(folder: &Path, image: &Binary, path: &Path, room: &Room) -> Option<(PathBuf, Binary)> {
    let (name, checksum) = link(image)?;
    let own = path.canonicalize().ok();
    for candidate in places_of(folder, &name, path) {
        let Ok(debug) = Binary::open(&candidate, room) else {
            continue;
        };
        let other_build = debug.build_id() != image.build_id() && debug.build_id().is_some();
        if candidate.canonicalize().ok() == own || other_build {
            continue;
        }
        if crc(&candidate) == Some(checksum) {
            return Some((candidate, debug));
        }
    }
    None
}

/// Where a debug file of this name may be.
fn places_of(folder: &Path, name: &[u8], path: &Path) -> Vec<PathBuf> {
    let own = path.canonicalize().ok();
    let mut places: Vec<&Path> = path.parent().into_iter().collect();
    places.extend(own.as_deref().and_then(Path::parent));
    places.dedup();
    let folders = places.into_iter().flat_map(|place| {
        let global = place.strip_prefix("/").ok().map(|place| folder.join(place));
        [Some(place.to_owned()), Some(place.join(".debug")), global]
    });
    let name = OsStr::from_bytes(name);
    folders.flatten().map(|folder| folder.join(name)).collect()
}

/// The name and the build id of the file that a debug file shares with others.
fn alternative(debug: &Binary) -> Option<(Vec<u8>, String)> {
    let apart = debug.apart_with(".gnu_debugaltlink")?;
    let file = apart.parsed()?;
    let (name, build_id) = file.gnu_debugaltlink().ok().flatten()?;
    Some((name.to_vec(), hex(build_id)))
}

/// The name of the debug file, without a folder, and its checksum.
fn link(image: &Binary) -> Option<(Vec<u8>, u32)> {
    let apart = image.apart_with(".gnu_debuglink")?;
    let file = apart.parsed()?;
    let (name, checksum) = file.gnu_debuglink().ok().flatten()?;
    let plain = !name.is_empty() && !name.contains(&b'/') && name != b"." && name != b"..";
    plain.then(|| (name.to_vec(), checksum))
}

fn crc(path: &Path) -> Option<u32> {
    let mut file = File::open(path).ok()?;
    let mut left = file.metadata().ok()?.len();
    if left > MAX_CHECKED {
        return None;
    }
    let mut hash = crc32fast::Hasher::new();
    let mut piece = vec![0; 1 << 16];
    // No longer than it was, should it grow.
    while left > 0 {
        let read = file.read(&mut piece).ok()?;
        let read = read.min(usize::try_from(left).unwrap_or(read));
        if read == 0 {
            return None;
        }
        hash.update(piece.get(..read)?);
        left -= read as u64;
    }
    Some(hash.finalize())
}

#[cfg(test)]
mod tests;
