//! Making a bundle: `vcpi bundle`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use profiledb::rollup::Moment;
use profiledb::rows::{Image, ImageKind};

use crate::args::Common;
use crate::bundle::{self, LIST, List, MAX_LIST, Member, MemberKind, VERSION};
use crate::conversion;
use crate::elf::Elf;
use crate::failure::Failure;
use crate::needs::{NO_ROWS, Needs};
use crate::reading;
use crate::render::{counted, percent};
use crate::source::{self, Source};
use crate::sources;
use crate::turns::Turns;
use crate::view::View;

/// How often databases are copied again that were rolled up meanwhile.
const TRIES: u32 = 10;
/// How hard zstd works: what it saves beyond costs ten times as long.
const LEVEL: i32 = 9;

/// Writes a bundle of what the common options name to a file, with the files of images that have at
/// least so many percent of all cycles, and source lines around the hottest code if these are asked
/// for.
///
/// # Errors
/// If the inputs cannot be read, or the file cannot be written; then nothing is left behind.
pub(crate) fn write(
    common: &Common,
    output: &Path,
    least: f64,
    with_source: bool,
) -> Result<(), Failure> {
    if let Some(option) = selects(common) {
        return Err(Failure::Usage(format!(
            "bundle: {option} is for reports; a bundle is whole, and reports on it select"
        )));
    }
    if output.exists() {
        return Err(Failure::Usage(format!(
            "{} is there already; a bundle takes the place of nothing",
            output.display()
        )));
    }
    let work = tempfile::Builder::new()
        .prefix("vcpi-bundle-")
        .tempdir()
        .map_err(no_place)?;
    let source = source::source(common)?;
    let databases = databases(&source, work.path())?;
    bundle::stands_for(work.path(), source.named());
    let mut common = common.clone();
    common.input.clone_from(&databases);
    let needs = Needs {
        kinds: protocol::Kinds {
            cycles: true,
            ..NO_ROWS
        },
        one_function: false,
        ..Needs::ROWS
    };
    let mut files = Vec::new();
    let mut sources = BTreeMap::new();
    reading::view(Turns::One, &needs, &common, &mut |view| {
        files = images(view, least);
        if with_source {
            sources = sources::hottest(view);
        }
        Ok(String::new())
    })?;
    let mut members = Vec::new();
    for path in databases {
        members.push((MemberKind::Database, String::new(), path.clone(), path));
    }
    members.extend(files);
    for (index, (path, excerpts)) in sources.into_iter().enumerate() {
        let file = work.path().join(format!("source-{index}"));
        fs::write(&file, serde_json::to_vec(&excerpts)?).map_err(no_place)?;
        members.push((MemberKind::Source, String::new(), path, file));
    }
    let bytes = archive(output, members)?;
    let megabytes = crate::view::as_float(bytes) / 1e6;
    crate::messages::say(&format!("wrote {} ({megabytes:.1} MB)", output.display()));
    Ok(())
}

/// An option that chooses among rows, if one is given.
fn selects(common: &Common) -> Option<&'static str> {
    let given = common.choices().into_iter().find(|(_, is_given)| *is_given);
    given.map(|(option, _)| option)
}

/// Whole databases of a source, in a folder.
fn databases(source: &Source, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    match source {
        Source::Files(paths) => {
            for _ in 0..TRIES {
                let mut moment = Moment::default();
                let copied = copies(paths, folder, &mut moment);
                // What was rolled up meanwhile would be there twice, or not at all.
                if moment.is_the_same() {
                    return copied.map_err(|error| not_copied(error, folder));
                }
            }
            Err(Failure::Input(
                "the databases are rolled up again and again; try later".to_owned(),
            ))
        }
        Source::Service(socket) => {
            let place = source::everything(socket)?;
            let to = folder.join("0.db");
            fs::copy(place.path(), &to).map_err(no_place)?;
            // It answers: what it has last of an epoch goes on.
            profiledb::note_copied(&to).map_err(|error| not_copied(error, folder))?;
            Ok(vec![to])
        }
    }
}

/// Why a database has no copy in a folder: it cannot be read, or there is no place for the copy.
fn not_copied(error: profiledb::ReadError, folder: &Path) -> Failure {
    match error.path().is_some_and(|path| path.starts_with(folder)) {
        true => no_place(conversion::reason(error)),
        false => source::cannot_read(&error, source::TO_DO),
    }
}

/// That copies have no place until they are packed.
fn no_place(error: io::Error) -> Failure {
    let folder = std::env::temp_dir();
    let error = io::Error::other(format!("{error}; TMPDIR names another place for copies"));
    in_the_way(&folder, error)
}

/// Copies of databases, and of those of directories that others were not made of. A collector may
/// be writing to them: what was committed is taken.
fn copies(
    paths: &[PathBuf],
    folder: &Path,
    moment: &mut Moment,
) -> Result<Vec<PathBuf>, profiledb::ReadError> {
    let mut all = Vec::new();
    for path in paths {
        let files = match path.is_dir() {
            true => moment.add(path)?,
            false => vec![path.clone()],
        };
        if files.is_empty() {
            return Err(profiledb::ReadError::NoDatabase { path: path.clone() });
        }
        for file in files {
            let to = folder.join(format!("{}.db", all.len()));
            // Of a try before this one.
            let _ = fs::remove_file(&to);
            conversion::copy(&file, &to, profiledb::convert)?;
            all.push(to);
        }
    }
    Ok(all)
}

/// What a bundle has of an image: its kind, identity, the path in the profile, and the file.
type Packed = (MemberKind, String, PathBuf, PathBuf);

/// The files of the images that have their share of the cycles, and their debug files.
fn images(view: &View<'_>, least: f64) -> Vec<Packed> {
    let mut cycles: BTreeMap<usize, f64> = BTreeMap::new();
    for row in &view.profile.cycles {
        if let Some(pc) = view.profile.pcs.get(row.pc) {
            *cycles.entry(pc.image).or_default() += row.cycles;
        }
    }
    let all: f64 = cycles.values().sum();
    let mut files = Vec::new();
    let mut left_out = 0_u64;
    for (index, of_image) in cycles {
        let Some(image) = view.profile.images.get(index) else {
            continue;
        };
        if image.kind != ImageKind::File {
            continue;
        }
        if percent(of_image, all) < least {
            left_out += 1;
            continue;
        }
        files.extend(files_of(view, index, image));
    }
    if left_out > 0 {
        crate::messages::say(&format!(
            "without the files of {} that have less than {least} % of the cycles each (--least)",
            counted(left_out, "image")
        ));
    }
    files
}

fn files_of(view: &View<'_>, index: usize, image: &Image) -> Vec<Packed> {
    let found = [
        (MemberKind::Image, view.symbols.elf(index)),
        (MemberKind::Debug, view.symbols.debug(index)),
    ];
    let file = |(kind, elf): (MemberKind, Option<&Elf>)| {
        let path = elf?.path()?.to_owned();
        Some((
            kind,
            image.identity.clone(),
            PathBuf::from(&image.path),
            path,
        ))
    };
    found.into_iter().filter_map(file).collect()
}

/// Writes the archive; how many bytes it has.
fn archive(output: &Path, files: Vec<Packed>) -> Result<u64, Failure> {
    let mut members = Vec::new();
    let mut opened = Vec::new();
    for (kind, identity, path, file) in files {
        // What has gone meanwhile is as what was not there.
        let Ok(open) = File::open(&file) else {
            continue;
        };
        let bytes = open.metadata().map_err(|error| in_the_way(&file, error))?;
        members.push(Member {
            kind,
            path,
            identity,
            bytes: bytes.len(),
        });
        opened.push((file, open));
    }
    let list = List {
        version: VERSION,
        made_by: concat!("vcpi ", env!("CARGO_PKG_VERSION")).to_owned(),
        members,
    };
    let text = serde_json::to_vec_pretty(&list)?;
    if text.len() as u64 > MAX_LIST {
        return Err(Failure::Input(
            "there are too many images for a bundle".into(),
        ));
    }
    let failed = |error: io::Error| in_the_way(output, error);
    let folder = match output.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut place = tempfile::Builder::new()
        .prefix(".vcpi-bundle-")
        .tempfile_in(folder)
        // Its own name is nobody's matter.
        .map_err(|error| failed(error.kind().into()))?;
    let stream = zstd::Encoder::new(place.as_file_mut(), LEVEL).map_err(failed)?;
    let mut archive = tar::Builder::new(stream);
    append(&mut archive, LIST, text.len() as u64, text.as_slice())
        .map_err(|(NotAppended::Read(error) | NotAppended::Written(error))| failed(error))?;
    for (index, (member, (path, mut file))) in list.members.iter().zip(opened).enumerate() {
        // Its owner may write to it: it is as long as the list says.
        let bytes = io::Read::take(&mut file, member.bytes);
        append(&mut archive, &format!("{index}"), member.bytes, bytes).map_err(|e| match e {
            NotAppended::Read(error) => Failure::Input(format!("{}: {error}", path.display())),
            NotAppended::Written(error) => failed(error),
        })?;
    }
    let stream = archive.into_inner().map_err(failed)?;
    stream.finish().map_err(failed)?.flush().map_err(failed)?;
    let bytes = place.as_file().metadata().map_err(failed)?.len();
    place
        .persist_noclobber(output)
        .map_err(|error| in_the_way(output, error.error))?;
    Ok(bytes)
}

/// Which side of a copy failed.
#[derive(Debug)]
enum NotAppended {
    /// What is packed cannot be read.
    Read(io::Error),
    /// The archive cannot be written.
    Written(io::Error),
}

/// Adds a member of so many bytes.
fn append<W: io::Write>(
    archive: &mut tar::Builder<W>,
    name: &str,
    bytes: u64,
    data: impl io::Read,
) -> Result<(), NotAppended> {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes);
    header.set_mode(0o600);
    let mut counted = Limited {
        data,
        left: bytes,
        has_failed: false,
    };
    match archive.append_data(&mut header, name, &mut counted) {
        Err(error) if counted.has_failed => Err(NotAppended::Read(error)),
        Err(error) => Err(NotAppended::Written(error)),
        Ok(()) if counted.left > 0 => Err(NotAppended::Read(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "it became shorter while it was read",
        ))),
        Ok(()) => Ok(()),
    }
}

/// What is read, how much is to come, and whether it could not be read.
struct Limited<R> {
    data: R,
    left: u64,
    has_failed: bool,
}

impl<R: io::Read> io::Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.data.read(buffer);
        // One that a signal cut short is begun again.
        let is_final = |error: &io::Error| error.kind() != io::ErrorKind::Interrupted;
        self.has_failed |= read.as_ref().is_err_and(is_final);
        let read = read?;
        self.left = self.left.saturating_sub(read as u64);
        Ok(read)
    }
}

fn in_the_way(path: &Path, source: io::Error) -> Failure {
    Failure::File {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What cannot be read.
    struct Broken;

    impl io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("broken"))
        }
    }

    /// A full place for an archive is told from a file that cannot be read, or became shorter.
    #[test]
    fn either_side_may_fail() {
        let data = [7_u8; 5000];
        let mut place = [0_u8; 4096];
        let mut full = tar::Builder::new(place.as_mut_slice());
        let failed = append(&mut full, "0", 5000, data.as_slice());
        assert!(matches!(failed, Err(NotAppended::Written(_))), "{failed:?}");
        let mut roomy = tar::Builder::new(io::sink());
        let failed = append(&mut roomy, "0", 5000, Broken);
        assert!(matches!(failed, Err(NotAppended::Read(_))), "{failed:?}");
        let failed = append(&mut roomy, "0", 5001, data.as_slice());
        assert!(matches!(failed, Err(NotAppended::Read(_))), "{failed:?}");
        assert!(append(&mut roomy, "0", 5000, data.as_slice()).is_ok());
    }
}
