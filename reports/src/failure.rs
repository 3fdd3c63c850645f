//! Why there is no report, and the exit code that says so.

use std::path::PathBuf;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The question has no answer in the input.
    #[error("{0}")]
    Nothing(String),
    /// Several things may be meant, which it names.
    #[error("{0}")]
    Ambiguous(String),
    /// The question makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The input cannot be read.
    #[error("{0}")]
    Input(String),
    /// The report cannot be written.
    #[error("cannot write the report: {0}")]
    Output(#[from] std::io::Error),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Another program is missing, or failed.
    #[error("{0}")]
    Program(String),
    /// A command that was run has ended with this status, which is passed on; it has said why.
    #[error("")]
    Ended(u8),
    /// The report cannot be put into JSON.
    #[error("cannot write the report: {0}")]
    Json(#[from] serde_json::Error),
}

impl Failure {
    /// The process's exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Nothing(_)
            | Failure::Ambiguous(_)
            | Failure::Output(_)
            | Failure::File { .. }
            | Failure::Json(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Input(_) => 3,
            Failure::Program(_) => 5,
            Failure::Ended(status) => *status,
        }
    }
}
