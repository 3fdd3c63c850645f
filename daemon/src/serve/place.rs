//! Where databases may be: in a directory that nobody but the service gets into.

use std::fs::{self, FileType};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use nix::unistd::{Uid, User};

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

fn kind(file_type: FileType) -> &'static str {
    if file_type.is_file() {
        "a file"
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
