//! What the machine runs: images and their code, processes and their address spaces, and
//! what a window may see of them.

pub(crate) mod access;
pub(crate) mod address_space;
pub(crate) mod aliases;
pub(crate) mod callsite;
pub(crate) mod code;
pub(crate) mod devices;
pub(crate) mod elf;
pub(crate) mod files;
pub(crate) mod flow;
pub(crate) mod generated_code;
pub(crate) mod grants;
pub(crate) mod guards;
pub(crate) mod host;
pub(crate) mod images;
pub(crate) mod jitdump;
pub(crate) mod kernel;
pub(crate) mod layout;
pub(crate) mod loadmap;
pub(crate) mod mapping;
pub(crate) mod maps;
pub(crate) mod perfmap;
pub(crate) mod place;
pub(crate) mod rules;
pub(crate) mod signals;
pub(crate) mod stack;
pub(crate) mod unwind;
pub(crate) mod vmas;
pub(crate) mod window;
