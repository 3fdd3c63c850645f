//! What is asked for: arguments, the configuration, and what of it this machine can do.

pub(crate) mod affordable;
pub(crate) mod args;
pub(crate) mod choices;
pub(crate) mod config;
pub(crate) mod recording;
mod sysctl;
pub(crate) mod watched;
