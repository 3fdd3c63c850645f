//! What the end-to-end tests and the demo share: where the built programs are,
//! and the fixture program whose value distributions are known exactly.
//!
//! - [`programs`] finds `vcpid` and `vcpi` as built for release.
//! - [`fixture`] compiles the fixture, profiles it, and asks `vcpi` for its shares.
//! - [`coverage`] counts how often a printed interval holds the truth.
//! - [`shares`] sets true shares next to sampled ones; it only looks at texts.

pub mod coverage;
pub mod fixture;
pub mod programs;
pub mod shares;
