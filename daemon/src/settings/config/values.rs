//! Values that are checked as they are read, so that an error names their line.

use std::path::PathBuf;

use parameters::ValueKinds;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::settings::args::{BounceArg, VectorsArg};

/// A whole number between two others, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number<const LEAST: u64, const MOST: u64>(pub(crate) u64);

impl<const LEAST: u64, const MOST: u64> Number<LEAST, MOST> {
    /// As a number of 32 bits, of which no larger one is possible here or meant.
    pub(crate) fn small(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Number<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(from)?;
        match u64::try_from(number) {
            Ok(number) if (LEAST..=MOST).contains(&number) => Ok(Self(number)),
            _ => Err(D::Error::custom(format!(
                "{number} is not between {LEAST} and {MOST}"
            ))),
        }
    }
}

/// A share of all processors' time, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Budget(pub(crate) f64);

impl Default for Budget {
    fn default() -> Self {
        Self(1.0)
    }
}

impl<'de> Deserialize<'de> for Budget {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let percent = f64::deserialize(from)?;
        if (0.01..=100.0).contains(&percent) {
            Ok(Self(percent))
        } else {
            Err(D::Error::custom(format!(
                "{percent} is not between 0.01 and 100"
            )))
        }
    }
}

/// Kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds(pub(crate) ValueKinds);

impl<'de> Deserialize<'de> for Kinds {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let kinds = String::deserialize(from)?;
        kinds.parse().map(Self).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for VectorsArg {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for BounceArg {
    /// A service steps nobody: who steps a program may do anything with it, and whoever else wants
    /// to trace it cannot.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match String::deserialize(from)?.parse() {
            Ok(Self::Step(_)) => Err(D::Error::custom(
                "the service does not step programs, since it would trace those of all users: leave \
                 \"step\" to 'vcpid record --bounce=step', and take \"auto\" here",
            )),
            other => other.map_err(D::Error::custom),
        }
    }
}

/// The beginning of a file's name, all letters of it up to another character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefix(pub(crate) String);

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = String::deserialize(from)?;
        let letters = |c: char| c.is_ascii_alphabetic() || c == '_';
        if !word.is_empty() && word.chars().all(letters) {
            Ok(Self(word))
        } else {
            Err(D::Error::custom(format!(
                "{word:?} is not a word of letters and '_'"
            )))
        }
    }
}

/// An absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AbsolutePath(pub(crate) PathBuf);

impl<'de> Deserialize<'de> for AbsolutePath {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let path = PathBuf::deserialize(from)?;
        if path.is_absolute() {
            Ok(Self(path))
        } else {
            Err(D::Error::custom(format!(
                "{:?} does not begin with '/'",
                path.display()
            )))
        }
    }
}
