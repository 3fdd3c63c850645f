//! Which functions are watched at their entries.

use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

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
