//! The handle by which plans and unwind rows reach the handler in the kernel.

use crate::{Error, ProcessKey};

/// What an unwind row says of the caller's rbp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallerRbp {
    /// It is the callee's.
    Same,
    /// It lies at this offset from the canonical frame address, in bytes.
    Saved(i32),
    /// It cannot be told.
    Unknown,
}

/// How to find the caller at one instruction: its canonical frame address (CFA) is a register plus
/// an offset, the return address lies 8 bytes below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Row {
    /// There is no caller.
    Outermost,
    /// There is one.
    Frame {
        /// The register, as an index into [`crate::Registers::gpr`]. Others than rsp and rbp are
        /// known at the interrupted PC only.
        register: u8,
        /// From the register to the CFA, in bytes.
        offset: i32,
        /// The caller's rbp.
        rbp: CallerRbp,
    },
}

/// What is kept back of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Denial {
    /// Its memory, but for the code at the PC: it has mapped devices, say.
    Memory,
    /// Its memory and its registers; samples then count for cycles alone.
    Values,
}

/// Figures of the handler, each with a name, summed over all CPUs since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(pub(crate) Vec<(&'static str, u64)>);

impl Counters {
    /// All of them; names are lower-case words joined by `_`.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static str, u64)> {
        self.0.iter().copied()
    }

    /// One of them; 0 for a name that there is not.
    pub fn get(&self, name: &str) -> u64 {
        self.iter()
            .find(|(of, _)| *of == name)
            .map_or(0, |(_, count)| count)
    }
}

/// The handler of a run with the engine `bpf`; copies of it are the same.
#[derive(Clone)]
pub struct Handler {}

impl Handler {
    /// Gives the plan for a PC of a process, in the wire form that crate interpreter writes, with
    /// the load bias of the PC's image, a tag that comes back with what the plan brings, and the
    /// PC's unwind row. Takes the place of an earlier one.
    ///
    /// # Errors
    /// A plan of another length, or the kernel's refusal.
    pub fn put_plan(
        &self,
        _key: ProcessKey,
        _pc: u64,
        _bias: u64,
        _tag: u32,
        _plan: &[u8],
        _row: Option<Row>,
    ) -> Result<(), Error> {
        Err(Error::NoBpf)
    }

    /// Takes a plan back; also succeeds if there is none.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn remove_plan(&self, _key: ProcessKey, _pc: u64) -> Result<(), Error> {
        Err(Error::NoBpf)
    }

    /// Gives the unwind row of a return address (the row of the call before it).
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn put_row(&self, _key: ProcessKey, _return_address: u64, _row: Row) -> Result<(), Error> {
        Err(Error::NoBpf)
    }

    /// Takes back all that was given for a process: it has ended, or executed another program.
    /// Its plans and rows would do no harm, but take room.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn forget(&self, _key: ProcessKey) -> Result<(), Error> {
        Err(Error::NoBpf)
    }

    /// Keeps values of a process back from now on, until it is forgotten.
    ///
    /// # Errors
    /// The kernel's refusal: its values may still be captured.
    pub fn deny(&self, _key: ProcessKey, _what: Denial) -> Result<(), Error> {
        Err(Error::NoBpf)
    }

    /// What happened so far.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn counters(&self) -> Result<Counters, Error> {
        Err(Error::NoBpf)
    }
}
