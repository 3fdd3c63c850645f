//! Taking a bundle apart.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{
    Bundle, LIST, List, MAX_BYTES, MAX_LIST, MAX_MEMBERS, MemberKind, OPEN, VERSION, place,
};
use crate::failure::Failure;

/// How a file under zstd begins.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Whether a file may be a bundle: no database begins so.
pub(crate) fn is_bundle(path: &Path) -> bool {
    let begins = || -> io::Result<[u8; 4]> {
        let mut first = [0; 4];
        if !fs::metadata(path)?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        File::open(path)?.read_exact(&mut first)?;
        Ok(first)
    };
    begins().is_ok_and(|first| first == MAGIC)
}

/// Takes a bundle apart, once in a run: the folder of its databases.
///
/// # Errors
/// If it is none, of a later version, or damaged, or if there is no place for it.
pub(crate) fn open(path: &Path) -> Result<PathBuf, Failure> {
    let failed = |why: &str| Failure::Input(format!("{}: {why}", path.display()));
    let Ok(mut open) = OPEN.lock() else {
        return Err(failed("another part of this run failed on it"));
    };
    if let Some(known) = open.iter().find(|bundle| bundle.from == path) {
        return Ok(known.folder.path().join("profile"));
    }
    let bundle = take_apart(path).map_err(|error| failed(&error))?;
    let folder = bundle.folder.path().join("profile");
    open.push(bundle);
    Ok(folder)
}

fn take_apart(path: &Path) -> Result<Bundle, String> {
    let damaged = |error: io::Error| format!("this bundle cannot be read: {error}");
    let no_place = |error: io::Error| {
        format!(
            "there is no place to take it apart, in {}: {error}; TMPDIR names another",
            std::env::temp_dir().display()
        )
    };
    let file = File::open(path).map_err(damaged)?;
    let stream = zstd::Decoder::new(file).map_err(damaged)?;
    let mut archive = tar::Archive::new(stream);
    let mut entries = archive.entries().map_err(damaged)?;
    let mut first = entries
        .next()
        .ok_or("this bundle is empty")?
        .map_err(damaged)?;
    if first.path_bytes().as_ref() != LIST.as_bytes() || first.size() > MAX_LIST {
        return Err("this is no bundle of vcpi: its first member is not the list".to_owned());
    }
    let mut list = Vec::new();
    first.read_to_end(&mut list).map_err(damaged)?;
    let list: List =
        serde_json::from_slice(&list).map_err(|error| format!("its list is broken: {error}"))?;
    if list.version > VERSION {
        return Err(format!(
            "this bundle has version {}, and this program reads {VERSION}: it is of a newer vcpi \
             ({})",
            list.version,
            crate::render::clean(&list.made_by)
        ));
    }
    let sizes = list.members.iter().map(|member| member.bytes);
    let all = sizes.fold(0, u64::saturating_add);
    if list.members.len() > MAX_MEMBERS || all > MAX_BYTES {
        return Err("its list is broken: it names too much".to_owned());
    }
    let databases = list.members.iter();
    if !databases
        .clone()
        .any(|member| member.kind == MemberKind::Database)
    {
        return Err("there is no database in this bundle".to_owned());
    }
    // For our eyes only, and gone when the reports are made.
    let folder = tempfile::Builder::new()
        .prefix("vcpi-bundle-")
        .tempdir()
        .map_err(no_place)?;
    fs::create_dir(folder.path().join("profile")).map_err(no_place)?;
    for (index, member) in list.members.iter().enumerate() {
        let entry = entries.next().ok_or("this bundle was cut short")?;
        let entry = entry.map_err(damaged)?;
        if !entry.header().entry_type().is_file() || entry.size() != member.bytes {
            return Err(format!(
                "member {index} of this bundle is not what its list says"
            ));
        }
        let to = place(folder.path(), index, Some(member));
        let mut to = File::create_new(to).map_err(no_place)?;
        let copied = io::copy(&mut entry.take(member.bytes), &mut to).map_err(damaged)?;
        if copied != member.bytes {
            return Err("this bundle was cut short".to_owned());
        }
    }
    Ok(Bundle {
        from: path.to_owned(),
        folder,
        members: list.members,
    })
}
