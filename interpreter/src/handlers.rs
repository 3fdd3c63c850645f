//! Which exceptions a program handles itself.
//!
//! An exception that no handler of the program takes ends the process: the host knows better than
//! the sample if it may have. One that a handler takes may have the thread go on elsewhere. So
//! where there is a handler, a window ends before each instruction of which it is not known that it
//! raises none.

/// The exceptions that a program has handlers for, or may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Handlers {
    /// Accesses that do not go through (the signals SIGSEGV and SIGBUS).
    pub access: bool,
    /// Floating-point exceptions (the signal SIGFPE).
    pub float: bool,
    /// The program has protection keys: which memory they forbid to a thread is not known. It
    /// counts only where accesses have a handler.
    pub keys: bool,
}

impl Handlers {
    /// No handler.
    pub const NONE: Self = Self {
        access: false,
        float: false,
        keys: false,
    };

    /// What is to be assumed where nothing is known. (Without a look at the keys the program has
    /// none: they are rare, and nearly nothing would be left.)
    pub const UNKNOWN: Self = Self {
        access: true,
        float: true,
        keys: false,
    };
}
