//! A profile with all that its reports read beside it, in one file.
//!
//! A bundle is a tar archive under zstd. It has the databases, the programs and libraries that
//! matter, their debug files, source lines around the hottest code, and a list of these as JSON. A
//! report that reads a bundle takes it apart into a folder for its own eyes, which goes when the
//! report ends, and looks there first for each file. `vcpi bundle` makes one (room `packing`).
//!
//! A bundle is hostile until shown otherwise: members go by numbers that `vcpi` gives, never by
//! names from the archive; there are no more and no larger ones than the list may have; and a file
//! counts only if it is of the build that was profiled, as everywhere.

mod reading;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use profiledb::rows::Image;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

pub(crate) use self::reading::{is_bundle, open};

/// The version of what is in a bundle. A later one is refused.
pub(crate) const VERSION: u32 = 2;
/// The name of the list, the first member.
pub(crate) const LIST: &str = "vcpi-bundle.json";
/// Bytes of the list.
pub(crate) const MAX_LIST: u64 = 16 << 20;
/// Members beside the list.
const MAX_MEMBERS: usize = 65_536;
/// Bytes of all members, unpacked.
const MAX_BYTES: u64 = 64 << 30;

/// What is in a bundle.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct List {
    /// The version of the form.
    pub(crate) version: u32,
    /// The version of the program that made it.
    pub(crate) made_by: String,
    /// In the order of the archive.
    pub(crate) members: Vec<Member>,
}

/// A file in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// What it is.
    pub(crate) kind: MemberKind,
    /// Where it was.
    pub(crate) path: PathBuf,
    /// Of an image and its debug file, as the database has it.
    #[serde(default)]
    pub(crate) identity: String,
    /// How long it is.
    pub(crate) bytes: u64,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MemberKind {
    /// A database of the profile.
    Database,
    /// A program or a library.
    Image,
    /// The debug file of one.
    Debug,
    /// Lines of a source file around code that is hot.
    Source,
}

impl Member {
    fn is_of(&self, kind: MemberKind, image: &Image) -> bool {
        self.kind == kind && self.identity == image.identity && self.path == Path::new(&image.path)
    }
}

/// A bundle that was taken apart.
#[derive(Debug)]
struct Bundle {
    from: PathBuf,
    folder: TempDir,
    members: Vec<Member>,
}

impl Bundle {
    /// Where a member is.
    fn place(&self, index: usize) -> PathBuf {
        place(self.folder.path(), index, self.members.get(index))
    }
}

/// Where a member goes.
fn place(folder: &Path, index: usize, member: Option<&Member>) -> PathBuf {
    match member.map(|member| member.kind) {
        // The order of their names is the one that they had.
        Some(MemberKind::Database) => folder.join("profile").join(format!("{index:05}.db")),
        _ => folder.join(format!("file-{index}")),
    }
}

/// The bundles of this run.
static OPEN: Mutex<Vec<Bundle>> = Mutex::new(Vec::new());

/// Where an image's file is: in a bundle, else where it was when it was profiled.
pub(crate) fn image_file(image: &Image) -> PathBuf {
    find(MemberKind::Image, image).unwrap_or_else(|| PathBuf::from(&image.path))
}

/// An image's debug file, if a bundle has it.
pub(crate) fn debug_file(image: &Image) -> Option<PathBuf> {
    find(MemberKind::Debug, image)
}

/// The lines of a source file that a bundle has, by the path in debug information.
pub(crate) fn source_file(file: &Path) -> Option<PathBuf> {
    find_member(|member| member.kind == MemberKind::Source && member.path == file)
}

fn find(kind: MemberKind, image: &Image) -> Option<PathBuf> {
    find_member(|member| member.is_of(kind, image))
}

fn find_member(is_it: impl Fn(&Member) -> bool) -> Option<PathBuf> {
    let open = OPEN.lock().ok()?;
    open.iter().find_map(|bundle| {
        let index = bundle.members.iter().position(&is_it)?;
        Some(bundle.place(index))
    })
}

/// The folder of copies that a bundle is being made of, and what these are of, in words.
static COPIES: OnceLock<(PathBuf, String)> = OnceLock::new();

/// Notes that what lies in a folder stands for a source, told in words.
pub(crate) fn stands_for(folder: &Path, source: String) {
    // There is one bundle to be made.
    let _ = COPIES.set((folder.to_owned(), source));
}

/// An input as it was named: the bundle, where this is what it was taken apart to, and the source,
/// where it is a copy.
pub(crate) fn named(input: &Path) -> PathBuf {
    if let Some((folder, source)) = COPIES.get()
        && input.starts_with(folder)
    {
        return source.into();
    }
    let of_bundle = |bundle: &&Bundle| input.starts_with(bundle.folder.path());
    let open = OPEN.lock();
    let found = open
        .ok()
        .and_then(|open| Some(open.iter().find(of_bundle)?.from.clone()));
    found.unwrap_or_else(|| input.to_owned())
}

/// Removes what bundles were taken apart to.
pub(crate) fn close() {
    if let Ok(mut open) = OPEN.lock() {
        open.clear();
    }
}
