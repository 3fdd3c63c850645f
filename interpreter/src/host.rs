//! What a host brings to a window, memory, and what it hears of it.

use iced_x86::Register;

use crate::word::Word;
use parameters::Parameter;

/// The registers that no argument of the platform's calling convention is passed in, but arguments
/// of some language's own: Go's, OCaml's, Haskell's, Swift's.
pub const OTHER_ARGUMENTS: [Register; 8] = [
    Register::RAX,
    Register::RBX,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// Memory as of the interrupt.
///
/// The methods with a body describe memory in which each byte has one address, every access goes
/// through, and code changes only where it is seen to be written.
pub trait Memory {
    /// Fills `bytes` (1 to 8 of them) with the memory from a process address on. Returns true only
    /// if every byte is known and was filled.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool;

    /// Whether one of the bytes from `first` to `last`, to which the thread stores, may be the byte
    /// at `other`, which is none of these addresses: memory that is mapped twice. Only bytes at the
    /// same offset in their pages can be.
    fn may_alias(&mut self, _first: u64, _last: u64, _other: u64) -> bool {
        false
    }

    /// Whether an access to so many bytes (at least one) goes through. It is asked for every store
    /// at a known address, unless the last answer covers it, and for loads of what is not known.
    fn check(&mut self, _address: u64, _bytes: u64, _access: Access) -> Verdict {
        Verdict::Allowed {
            first: 0,
            last: u64::MAX,
        }
    }

    /// Which stores of the thread can change the code at an address.
    fn code_memory(&mut self, _address: u64) -> CodeMemory {
        CodeMemory::Fixed
    }

    /// An instruction is about to be interpreted that lets others see all that the window stored
    /// before it and in it: what they write from then on may be another thing than they did write.
    /// A locked one loads and stores at one moment, so that holds of its own load, too.
    fn fence(&mut self) {}
}

/// What an instruction does with memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It loads.
    Load,
    /// It stores.
    Store,
}

/// What becomes of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It goes through, and so does every access of its kind from the first of these addresses to
    /// the last.
    Allowed {
        /// The lowest address.
        first: u64,
        /// The highest address.
        last: u64,
    },
    /// It goes through as far as is known. What is stored is unknown from then on. Where the
    /// program has a [handler](crate::Handlers) for what does not go through, the window ends.
    Unverified,
    /// It raises an exception.
    Faults,
    /// It may raise an exception: the window ends, because the thread may go on elsewhere.
    MayFault,
}

/// Which stores of the thread can change code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeMemory {
    /// None.
    Fixed,
    /// Those to its own address.
    Writable,
    /// Those to its own address, and to another one where the same memory is mapped.
    Shared,
}

/// A call that a window ran into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// Process address of the call instruction.
    pub site: u64,
    /// Where it leads in the end, procedure-linkage stubs followed; a stub whose own target is
    /// unknown is itself the target. `None`: an indirect call to an unknown address.
    pub target: Option<u64>,
    /// The call instruction names a register or memory, not an address.
    pub indirect: bool,
    /// rdi rsi rdx rcx r8 r9 at the call, if [`ValueKinds::ARGS`](crate::ValueKinds::ARGS) is
    /// captured.
    pub arguments: [Option<u64>; 6],
    /// The other general registers that some language passes arguments in, likewise: those of
    /// [`OTHER_ARGUMENTS`].
    pub others: [Option<u64>; 8],
    /// The lowest 64 bits of xmm0 to xmm7 at the call, if
    /// [`ValueKinds::VECTOR`](crate::ValueKinds::VECTOR) is captured as well. A `double` needs all
    /// of them, a `float` the lower half.
    pub vector_arguments: [Word; 8],
}

/// Receives what a window finds. `pc` is the process address of the instruction.
pub trait Sink {
    /// An instruction was fetched, with this [mark](crate::Fetched::mark), and is about to be interpreted.
    fn reached(&mut self, _pc: u64, _mark: u32) {}

    /// What the instruction that was reached does depends on vector or mask registers. It is not
    /// told of those of which nothing but addresses is captured.
    fn reads_vectors(&mut self) {}

    /// A value event, zero-extended; `None`: reached, but the value is unknown. An instruction
    /// that faults has none.
    fn value(&mut self, pc: u64, parameter: Parameter, value: Option<u64>);

    /// All value events of one instruction, in their order.
    fn values(&mut self, pc: u64, events: &[(Parameter, Option<u64>)]) {
        for &(parameter, value) in events {
            self.value(pc, parameter, value);
        }
    }

    /// A conditional branch (jcc, jrcxz, loop); `None`: its direction is unknown and the window
    /// ends there.
    fn branch(&mut self, _pc: u64, _taken: Option<bool>) {}

    /// A call.
    fn call(&mut self, _call: &Call) {}

    /// An unconditional jump to a known target, which is a tail call if that is a function's
    /// entry: `site` is the jump, `arguments` are as at a call.
    fn jump(&mut self, _jump: &Call) {}

    /// A return was interpreted: the caller's frame is current again.
    fn returned(&mut self, _pc: u64) {}

    /// An indirect jump, an indirect call or a return was interpreted, and leads there.
    fn went(&mut self, _pc: u64, _destination: u64) {}

    /// A load of at most 8 bytes by an interpreted instruction, with its value if all of it is
    /// known.
    fn load(&mut self, _pc: u64, _address: Option<u64>, _bytes: u32, _value: Option<u64>) {}

    /// A store of at most 8 bytes by an interpreted instruction, with its value if all of it is
    /// known.
    fn store(&mut self, _pc: u64, _address: Option<u64>, _bytes: u32, _value: Option<u64>) {}

    /// Whether that store stores what is there already; `None`: nobody knows. It is told before the
    /// store, if [`ValueKinds::REDUNDANT`](crate::ValueKinds::REDUNDANT) is captured.
    fn stored_over(&mut self, _pc: u64, _is_same: Option<bool>) {}

    /// The instruction loads or stores more than it tells by [`load`](Self::load) and
    /// [`store`](Self::store).
    fn accesses_more(&mut self, _pc: u64) {}

    /// The thread is about to make a system call: its number and arguments are those of
    /// [`Parameter::Syscall`](crate::Parameter::Syscall), if
    /// [`ValueKinds::SYSCALL`](crate::ValueKinds::SYSCALL) is captured. The window ends here.
    fn system_call(&mut self, _pc: u64, _values: &[(Parameter, Option<u64>); 7]) {}
}
