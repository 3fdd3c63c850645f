//! What the kernel says of this machine and its processes, as text and numbers.

pub mod clock;
pub mod memory;
pub mod page_check;
pub(crate) mod pages;
pub mod processors;
pub mod procfs;
pub mod threads;
