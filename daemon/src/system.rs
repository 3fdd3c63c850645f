//! What the kernel says of this machine and its processes, as text and numbers.

pub(crate) mod memory;
pub(crate) mod page_check;
pub(crate) mod pages;
pub(crate) mod processors;
pub(crate) mod procfs;
pub(crate) mod sysctl;
pub(crate) mod threads;
