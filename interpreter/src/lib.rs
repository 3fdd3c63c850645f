//! Interprets a window of x86-64 instructions from the registers of a sample.
//!
//! From an interrupt's registers, the code behind its PC and whatever memory was read there, a
//! [`Window`] works out what the thread computes next: registers written, effective addresses,
//! branch directions, targets and arguments of calls. What is unknown stays unknown and spreads;
//! a value that is reported is the one the thread computes when it runs on alone from the
//! interrupt. Processors with BMI1 and LZCNT are assumed.
//!
//! An instruction that raises an exception ends the window. `exceptions.md`, made from
//! [`EXCEPTIONS`], says for each exception what is known beforehand and what is not.
//!
//! A sample carries no vector registers: what is known of them arises in the window, from memory,
//! general registers and instructions whose result does not depend on what was there. Rounding is
//! unknown with them, so of floating-point results those are known that are exact. Of x87 nothing
//! is known then: a push may find the stack full. Hosts that have these registers set them.
//!
//! Responsible for: decoding (through [`DecodeCache`]), machine state with unknown bytes and
//! flags, the meaning of instructions, following known branches, the way taken ([`Path`]), and what
//! of the memory that an interrupt read a thread could have seen ([`Pieces`]). Not for: where code
//! and memory come from ([`Code`] and [`Memory`] are the host's), what happens to the values
//! ([`Sink`]), or anything of an operating system: no file, no clock.
//!
//! Code that can have been written since it was mapped (generated, patched) is interpreted from its
//! bytes as of the interrupt: they are among the pieces that it read, and
//! [`DecodeCache::get_sampled`] decodes anew what differs from what it holds.
//!
//! Fast because a window allocates nothing, an instruction is decoded and classified once, and
//! executing it is one call through a function pointer, for common instructions to a handler that
//! was compiled for the width and the places of their operands. Windows that go where others went
//! run from prepared [`Traces`], without fetching.
//!
//! ```
//! use interpreter::*;
//!
//! /// `imul edi, edi, 3; lea eax, [rdi+1]`, at address 0.
//! struct Program(Vec<Decoded>);
//!
//! impl Code for Program {
//!     fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
//!         let found = self.0.iter().find(|decoded| decoded.instruction().ip() == pc);
//!         Ok(Fetched { instruction: found.ok_or(StopReason::NotMapped)?, bias: 0, mark: 0 })
//!     }
//! }
//!
//! struct NoMemory;
//!
//! impl Memory for NoMemory {
//!     fn read(&mut self, _: u64, _: &mut [u8]) -> bool {
//!         false
//!     }
//! }
//!
//! struct Print;
//!
//! impl Sink for Print {
//!     fn value(&mut self, pc: u64, parameter: Parameter, value: Option<u64>) {
//!         println!("{pc:#x} {parameter}: {value:?}"); // 0x0 edi: Some(12), 0x3 eax: Some(13)
//!     }
//! }
//!
//! let code = [Decoded::new(&[0x6b, 0xff, 3], 0)?, Decoded::new(&[0x8d, 0x47, 1], 3)?];
//! let mut gpr = [0; 16];
//! gpr[7] = 4;
//! let registers = Registers::from_sample(gpr, 0, 0);
//! let outcome =
//!     Window::default().run(&registers, &mut Program(code.into()), &mut NoMemory, &mut Print);
//! assert_eq!(outcome.registers.gpr[0].get(4), Some(13));
//! assert_eq!(outcome.stop, StopReason::NotMapped);
//! # Ok::<(), StopReason>(())
//! ```

mod access;
mod addressing;
mod bases;
mod cache;
mod code;
mod condition;
mod decode;
mod decoder;
mod effects;
mod event;
mod exceptions;
mod exec;
mod extended;
mod flag;
mod handlers;
mod host;
mod machine;
mod memory;
mod operand;
mod overlay;
mod path;
mod pieces;
mod prepared_kind;
mod processor;
mod registers;
mod rflags;
mod state;
mod stop;
mod trace;
mod treatment;
mod vector;
mod window;
mod word;
mod x87;

pub use bases::{BaseWriters, CODE_AROUND};
pub use cache::{DecodeCache, Held};
pub use code::{CODE_BYTES, Code, Fetched};
pub use decode::Decoded;
pub use exceptions::{EXCEPTIONS, Exception, Fate};
pub use handlers::Handlers;
pub use host::{Access, Call, CodeMemory, Memory, OTHER_ARGUMENTS, Sink, Verdict};
pub use instructions::MAX_BYTES;
pub use parameters::{Parameter, ValueKinds};
pub use path::{MAX_PATH_LENGTH, Path, PathError};
pub use pieces::{MAX_PIECES, Pieces};
pub use processor::Processor;
pub use registers::Registers;
pub use rflags::{Flag, Flags};
pub use state::WindowState;
pub use stop::StopReason;
pub use trace::Traces;
pub use treatment::Support;
pub use vector::Vector;
pub use window::{End, Outcome, Window};
pub use word::Word;
pub use x87::{X87, X87Register};
