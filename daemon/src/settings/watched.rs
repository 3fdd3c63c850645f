//! Which functions are watched at their entries.

use std::str::FromStr;

use sampler::probe;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::settings::recording::Recording;
use pipeline::entries::{Entries, Wanted};

/// Whose entries are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntriesArg {
    Auto,
    Off,
    /// Of functions of these names.
    Of(Vec<String>),
}

impl FromStr for EntriesArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            _ => {
                let names: Vec<String> = text.split(',').map(str::to_owned).collect();
                match names.iter().all(|name| !name.is_empty()) {
                    true => Ok(Self::Of(names)),
                    false => Err("it is auto, off, or names of functions".to_owned()),
                }
            }
        }
    }
}

impl<'de> Deserialize<'de> for EntriesArg {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// What watches entries of functions, if any are to be. A raw recording cannot hold what it sees.
pub(crate) fn entries(wanted: &Recording) -> std::io::Result<Option<Entries>> {
    let wanted = match &wanted.entries {
        _ if wanted.is_raw => return Ok(None),
        EntriesArg::Off => return Ok(None),
        EntriesArg::Auto => Wanted::Hottest,
        EntriesArg::Of(names) => Wanted::Named(names.clone()),
    };
    probe::traps_are_told().map_err(std::io::Error::other)?;
    Entries::start(wanted).map(Some)
}
