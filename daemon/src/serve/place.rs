//! Where databases may be, in a directory that nobody but the service gets into, and the socket.

use std::fs::{self, FileType};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::SocketAddr;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::statvfs::FsFlags;
use nix::unistd::{AccessFlags, Uid, User};

/// What the service's group and others must not have of the directory: the group may look.
const OTHERS: u32 = 0o027;

/// What keeps a service that runs as one of `users` from having its databases at `path`, where
/// something is: what was found, what is wanted and how to mend it.
pub(crate) fn refusal(path: &Path, metadata: &fs::Metadata, users: &[u32]) -> Option<String> {
    let shown = path.display();
    let elsewhere = "or name another place as `directory` under [database]";
    if !metadata.is_dir() {
        return Some(format!(
            "{shown} is {}, and the databases need a directory of their own: move it away, \
             {elsewhere}",
            kind(metadata.file_type())
        ));
    }
    if !users.contains(&metadata.uid()) {
        let wanted = users.first().map_or_else(String::new, |user| name(*user));
        return Some(format!(
            "{shown} belongs to {}, so others may get into it; it must belong to {wanted}, as whom \
             the service runs: `chown {wanted} {shown}` if nobody else needs it, {elsewhere}",
            name(metadata.uid()),
        ));
    }
    let mode = metadata.mode() & 0o7777;
    (mode & OTHERS != 0).then(|| {
        format!(
            "{shown} has mode {mode:o}, so others may get into it; it must have mode 700: `chmod \
             700 {shown}` if nobody else needs it, {elsewhere}"
        )
    })
}

/// What keeps a service from listening at `path`.
pub(crate) fn socket_refusal(path: &Path) -> Option<String> {
    let shown = path.display();
    let mend = "name another place as `socket` under [access]";
    if let Err(error) = SocketAddr::from_pathname(path) {
        return Some(format!("{shown} can be no socket ({error}): {mend}"));
    }
    let metadata = fs::symlink_metadata(path).ok()?;
    let found = metadata.file_type();
    (!found.is_socket()).then(|| {
        let kind = kind(found);
        format!("{shown} is {kind}, and the socket is to be there: move it away, or {mend}")
    })
}

/// What keeps anybody from making `path`, which is not there yet: the file system above it.
pub(crate) fn cannot_be_made(path: &Path) -> Option<String> {
    let above = path.ancestors().skip(1).find(|above| above.exists())?;
    let access = AccessFlags::W_OK | AccessFlags::X_OK;
    let why = match nix::sys::statvfs::statvfs(above) {
        Ok(of) if of.flags().contains(FsFlags::ST_RDONLY) => "its file system is read-only",
        _ if !above.is_dir() => "it is no directory",
        _ => match nix::unistd::access(above, access) {
            Err(Errno::EROFS) => "its file system is read-only",
            _ => return None,
        },
    };
    Some(format!(
        "{} is not there and cannot be made in {}: {why}",
        path.display(),
        above.display()
    ))
}

fn kind(file_type: FileType) -> &'static str {
    if file_type.is_file() {
        "a file"
    } else if file_type.is_dir() {
        "a directory"
    } else if file_type.is_socket() {
        "a socket"
    } else if file_type.is_fifo() {
        "a named pipe"
    } else {
        "a device"
    }
}

/// A user's name, or their id where they have none.
fn name(user: u32) -> String {
    match User::from_uid(Uid::from_raw(user)) {
        Ok(Some(user)) => user.name,
        _ => format!("user {user}"),
    }
}
