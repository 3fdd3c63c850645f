//! Interprets a window of x86-64 instructions from the registers of a sample.
//!
//! From an interrupt's registers, the code behind its PC and whatever memory was read there, a
//! [`Window`] works out what the thread computes next: registers written, effective addresses,
//! branch directions, targets and arguments of calls. What is unknown stays unknown and spreads;
//! a value that is reported is the one the thread computes when it runs on alone from the
//! interrupt. Processors with BMI1 and LZCNT are assumed.
//!
//! Responsible for: decoding (through [`DecodeCache`]), machine state with unknown bytes and
//! flags, the meaning of instructions, following known branches. Not for: where code and memory
//! come from ([`Code`] and [`Memory`] are the host's), what happens to the values ([`Sink`]), or
//! anything of an operating system: no file, no clock.
//!
//! Fast because a window allocates nothing, an instruction is decoded and classified once, and
//! executing it is one call through a function pointer.

mod cache;
mod decode;
mod exec;
mod machine;
mod overlay;
mod parameter;
mod rflags;
mod stop;
mod window;
mod word;

pub use cache::DecodeCache;
pub use decode::Decoded;
pub use parameter::{Capture, Parameter, UnknownKind};
pub use rflags::{Flag, Flags};
pub use stop::StopReason;
pub use window::{Call, Code, Fetched, Memory, Outcome, Registers, Sink, Window};
pub use word::Word;
