//! Why threads cannot be stepped.

use std::io;

/// Why threads cannot be stepped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system allows no more threads.
    #[error("cannot start a thread")]
    NoThread(#[source] io::Error),
    /// A defect has ended the thread that asks.
    #[error("the thread that steps has ended")]
    Ended,
    /// The other process would have rights that this user has not.
    #[error("cannot give up privileges")]
    Privileges(#[source] io::Error),
    /// The program's file is gone, or cannot be seen.
    #[error("cannot find the path of vcpid itself")]
    NoProgram(#[source] io::Error),
    /// The other process cannot be started.
    #[error("cannot start a process")]
    NoProcess(#[source] io::Error),
    /// The other process would be told, or say, nothing.
    #[error("the process has no input or no output")]
    NoPipe,
    /// Signals would end a step halfway.
    #[error("cannot keep signals from stepping")]
    Signals(#[source] io::Error),
    /// What is asked is not understood, or cannot be read.
    #[error("cannot read requests")]
    Requests(#[source] io::Error),
}
