//! What a host brings to a window: code.

use crate::decode::Decoded;
use crate::stop::StopReason;

/// Code by process address.
pub trait Code {
    /// The instruction at a process address.
    ///
    /// # Errors
    /// Why there is none; the window ends with that reason.
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason>;

    /// Whether what was fetched last stays what is fetched at its address, with its bias and mark,
    /// in every window until the [epoch](Self::epoch) is another: then it is kept in
    /// [`Traces`](crate::Traces) and run again without being fetched.
    fn keeps(&self) -> bool {
        false
    }

    /// Whether what is fetched from now on is worth being kept: other windows go the same way.
    fn repeats(&self) -> bool {
        true
    }

    /// What is kept in an epoch is what is fetched in that one alone: another begins when something
    /// that was kept may no longer be. An earlier epoch may come back where all is as it was in it.
    fn epoch(&self) -> u64 {
        0
    }

    /// The bytes of what was fetched last, zeros behind them, for [`holds`](Self::holds).
    fn code(&self) -> [u8; CODE_BYTES] {
        [0; CODE_BYTES]
    }

    /// Whether the first `len` of these bytes are what would be fetched at a process address. It is
    /// asked of what was kept, once in a window, before that runs; where they are not, the
    /// instruction is fetched.
    fn holds(&mut self, _pc: u64, _code: &[u8; CODE_BYTES], _len: usize) -> bool {
        true
    }
}

/// Bytes that the code of an instruction is kept in: it has 1 to 15.
pub const CODE_BYTES: usize = 16;

/// An instruction and where its image lies.
pub struct Fetched<'a> {
    /// Decoded at an image address.
    pub instruction: &'a Decoded,
    /// Process address = image address + bias (modulo 2^64).
    pub bias: u64,
    /// A number of the host's own, by which its [`Sink`](crate::Sink) may know the instruction again.
    pub mark: u32,
}
