//! What a Linux machine runs, for a profiler that comes upon it by samples: images and their code,
//! processes and their address spaces, and what a window may see of them.
//!
//! The kernel's records say what each process maps. [`loadmap::Loadmap`] keeps that, process by
//! process. An [`address_space::AddressSpace`] is the view of one process at one sample: it tells
//! which image an address lies in, and vouches only for memory that nobody can have changed since
//! the interrupt. From it, the way of a sample goes on so:
//!
//! 1. `AddressSpace::locate` makes a [`place::Pc`] of a process address: an image
//!    ([`images::Images`]) and the address in its file.
//! 2. [`callsite::Interrupted`] tells who called the interrupted function, [`stack::Walker`] all
//!    callers, both by unwind rules ([`rules`]) and, where there are none, by the code ([`flow`]).
//! 3. [`window::SampleMemory`] is the memory that the interpreter runs on, and
//!    [`code::ProcessCode`] the code.
//!
//! Whatever is asked of the running machine goes through [`host::Host`], which notes the answers
//! for a raw recording, or gives those of one. [`system`] has the kernel's own files.
//!
//! This crate knows neither what is collected nor who sees it. It does not log.

pub mod access;
pub mod address_space;
pub(crate) mod aliases;
pub mod callsite;
pub mod code;
pub mod devices;
pub mod elf;
pub(crate) mod exceptions;
pub mod files;
pub mod flow;
pub mod generated_code;
pub(crate) mod grants;
pub mod guards;
pub mod host;
mod identity;
pub mod images;
pub(crate) mod jitdump;
pub mod kernel;
pub mod layout;
pub mod loadmap;
pub mod mapping;
pub mod maps;
pub(crate) mod perfmap;
pub mod place;
pub mod rules;
pub mod signals;
pub mod stack;
pub mod system;
pub mod unwind;
pub mod vmas;
pub mod window;
pub mod writers;
