//! Where databases may be, in a directory that nobody but the service gets into, and the socket.

use std::fs::{self, FileType};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::SocketAddr;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::statfs::{self, FsType};
use nix::sys::statvfs::FsFlags;
use nix::unistd::{AccessFlags, Uid, User};

/// What the service's group and others must not have of the directory: the group may look.
const OTHERS: u32 = 0o027;

/// The service's directory once it is put right.
pub(super) const CLOSED: u32 = 0o700;

/// With one of these a directory's group or all others may make and remove what is in it; with the
/// other only what is theirs.
const WRITABLE: u32 = 0o022;
const STICKY: u32 = 0o1000;

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

/// What keeps a service that runs as one of `users` from listening at `path`.
pub(crate) fn socket_refusal(path: &Path, users: &[u32]) -> Option<String> {
    let shown = path.display();
    let mend = "name another place as `socket` under [access]";
    if let Err(error) = SocketAddr::from_pathname(path) {
        return Some(format!("{shown} can be no socket ({error}): {mend}"));
    }
    if let Some(exposure) = exposure(path, users) {
        return Some(format!("{exposure}, or {mend}"));
    }
    let metadata = fs::symlink_metadata(path).ok()?;
    let found = metadata.file_type();
    (!found.is_socket()).then(|| {
        let kind = kind(found);
        format!("{shown} is {kind}, and the socket is to be there: move it away, or {mend}")
    })
}

/// By which of the directories above a socket others than root and `users` could have readers find
/// one of theirs at `path`, and what would mend it.
///
/// The socket's own directory is writable to nobody else, those above it neither, unless they are
/// sticky, as sshd has it for its files (it knows no exception). A sticky directory keeps others
/// from taking away what is there, but not from being there first.
pub(super) fn exposure(path: &Path, users: &[u32]) -> Option<String> {
    let own = path.parent()?;
    path.ancestors().skip(1).find_map(|folder| {
        let shown = folder.display();
        // Whoever owns a link says where it leads.
        let link = fs::symlink_metadata(folder).ok()?;
        // What is not there yet the service makes.
        let metadata = fs::metadata(folder).ok()?;
        let is_anothers = |user: &u32| *user != 0 && !users.contains(user);
        if let Some(user) = [link.uid(), metadata.uid()].into_iter().find(is_anothers) {
            let owner = name(user);
            return Some(format!(
                "{shown} belongs to {owner}, who could have readers find another socket at {}: \
                 `chown root {shown}` if {owner} does not need it",
                path.display()
            ));
        }
        let mode = metadata.mode() & 0o7777;
        let is_open = mode & WRITABLE != 0 && (mode & STICKY == 0 || folder == own);
        is_open.then(|| {
            format!(
                "{shown} has mode {mode:o}, so others could have readers find another socket at \
                 {}: `chmod 755 {shown}` if nobody else needs it",
                path.display()
            )
        })
    })
}

/// File systems in which nobody can keep files: the kernel makes what is in them.
const KERNELS_OWN: [(FsType, &str); 12] = [
    (statfs::BPF_FS_MAGIC, "bpf"),
    (statfs::CGROUP2_SUPER_MAGIC, "cgroup2"),
    (statfs::CGROUP_SUPER_MAGIC, "cgroup"),
    (statfs::DEBUGFS_MAGIC, "debugfs"),
    (statfs::DEVPTS_SUPER_MAGIC, "devpts"),
    (statfs::NSFS_MAGIC, "nsfs"),
    (statfs::PROC_SUPER_MAGIC, "proc"),
    (statfs::RDTGROUP_SUPER_MAGIC, "resctrl"),
    (statfs::SECURITYFS_MAGIC, "securityfs"),
    (statfs::SELINUX_MAGIC, "selinuxfs"),
    (statfs::SYSFS_MAGIC, "sysfs"),
    (statfs::TRACEFS_MAGIC, "tracefs"),
];

/// Whether `path` is, or would be, in a file system in which nobody can keep files.
pub(crate) fn kernels_own(path: &Path) -> Option<String> {
    let there = path.ancestors().find(|above| above.exists())?;
    let of = statfs::statfs(there).ok()?.filesystem_type();
    let (_, name) = KERNELS_OWN.iter().find(|(kind, _)| *kind == of)?;
    Some(format!(
        "{} cannot hold databases: {} is in a file system of the kernel's own ({name}), in which no \
         files can be made; name another place as `directory` under [database]",
        path.display(),
        there.display()
    ))
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

/// Whether others than `users` are let in by nothing but the mode, which the owner can put right.
pub(super) fn is_only_open(metadata: &fs::Metadata, users: &[u32]) -> bool {
    metadata.is_dir() && users.contains(&metadata.uid()) && metadata.mode() & OTHERS != 0
}

/// A user's name, or their id where they have none.
fn name(user: u32) -> String {
    match User::from_uid(Uid::from_raw(user)) {
        Ok(Some(user)) => user.name,
        _ => format!("user {user}"),
    }
}
