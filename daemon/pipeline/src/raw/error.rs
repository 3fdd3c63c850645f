//! Why a raw recording cannot be written or read.

use std::error::Error as Cause;
use std::io;
use std::path::PathBuf;

use super::MAGIC;

/// Why a raw recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is there: nothing is ever added to a recording.
    #[error(
        "{0} is there already, and a raw recording is never added to: name another file with \
         --raw, or remove it"
    )]
    Exists(PathBuf),
    /// There can be no such file.
    #[error("cannot make {0}")]
    Make(PathBuf, #[source] io::Error),
    /// The beginning cannot be written.
    #[error("cannot write {0}")]
    Write(PathBuf, #[source] io::Error),
    /// The file cannot be opened.
    #[error("cannot open {0}")]
    Open(PathBuf, #[source] io::Error),
    /// What the file begins with no recording does.
    #[error("{0} is no raw recording of vcpid")]
    Foreign(PathBuf),
    /// The file has too few bytes to say what it is.
    #[error("{0} is no raw recording of vcpid: it has less than {least} bytes", least = MAGIC.len())]
    Short(PathBuf),
    /// The header cannot be read, or makes no sense.
    #[error("{0} is no raw recording of vcpid")]
    Header(PathBuf, #[source] Box<dyn Cause + Send + Sync>),
    /// The file is of the version with this number.
    #[error(
        "{path} was recorded by another version of vcpid ({version}; this one reads {}): record it \
         again, or replay it with that",
        MAGIC[7]
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The number that it has.
        version: u8,
    },
    /// The file ends behind what says that it is a recording.
    #[error("{0}: it ends before its header")]
    NoHeader(PathBuf),
    /// The entry with this number, from 0, cannot be read, or makes no sense.
    #[error("the recording is damaged at entry {0}")]
    Damaged(u64, #[source] Box<dyn Cause + Send + Sync>),
    /// The file ends before the entry with this number, and without saying that it does.
    #[error(
        "the recording ends at entry {0}, before its end: its collector was killed, or the file cut"
    )]
    Cut(u64),
    /// Something follows what says that it is the last, at this number.
    #[error("the recording is damaged at entry {0}: there is something behind its end")]
    BehindEnd(u64),
}
