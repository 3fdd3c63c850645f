//! What the end-to-end tests and the demo share: where the built programs are,
//! and the fixture program whose value distributions are known exactly.
//!
//! - [`programs`] finds `vcpid` and `vcpi` as built for release.
//! - [`digest`] sums up what a database says.
//! - [`fixture`] compiles the fixture, profiles it, and asks `vcpi` for its shares.
//! - [`exact`] reads exact counts of a run, as a simulator writes them.
//! - [`harness`] runs live tests, which have their sentences and needs beside them.
//! - [`needs`] has what live tests need of the machine.
//! - [`coverage`] counts how often a printed interval holds the truth.
//! - [`rows`] has a database as rows that can be asked with SQL.
//! - [`shares`] sets true shares next to sampled ones; it only looks at texts.

pub mod coverage;
pub mod digest;
pub mod exact;
pub mod fixture;
pub mod harness;
pub mod needs;
pub mod programs;
pub mod rows;
pub mod shares;

use std::str::FromStr;

use anyhow::{Context, Result};

/// A variable of the environment, which says what a test is to run.
///
/// # Errors
/// It is set and cannot be read so.
pub fn variable<T: FromStr>(name: &str) -> Result<Option<T>> {
    let Ok(text) = std::env::var(name) else {
        return Ok(None);
    };
    let value = text.parse().ok();
    value.map(Some).with_context(|| format!("{name}={text}"))
}
