//! What an epoch was collected with, beside the columns of its row.

use serde::{Deserialize, Serialize};

/// The settings of an epoch: a JSON object in its row. A program keeps what it does not know there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EpochSettings {
    /// Everything but this, [`EpochSettings::cut_short`] and [`EpochSettings::copied`] is kept from
    /// the reader. It tells a counter that is withheld from one that is 0.
    #[serde(skip_serializing_if = "is_false")]
    pub withheld: bool,
    /// The collector died: another one ended the epoch as of its last flush, and what was collected
    /// after that is lost.
    #[serde(skip_serializing_if = "is_false")]
    pub cut_short: bool,
    /// This is a copy of an epoch that ran: its collector collected more, which is not in it.
    #[serde(skip_serializing_if = "is_false")]
    pub copied: bool,
    /// Ids of the epochs that were joined into this one; none: it is as it was collected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<i64>,
    /// The version of the program that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Of a replay: the version of the program that recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_by: Option<String>,
    /// Of a replay: when it was, in nanoseconds of the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed: Option<i64>,
    /// What random numbers began with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The kinds of values captured, as on the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<String>,
    /// What lists of arguments are kept apart by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<KeyedBy>,
    /// Bytes of the stack that a sample captures at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack_bytes: Option<u32>,
    /// How lists were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hotlist: Option<ListSettings>,
    /// What other versions say.
    #[serde(flatten)]
    pub others: serde_json::Map<String, serde_json::Value>,
}

/// What lists of arguments are kept apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyedBy {
    /// Nothing: one list for all callers.
    None,
    /// The call site.
    Caller,
}

/// How the collector keeps hotlists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListSettings {
    /// Values of a list, at most.
    pub capacity: u32,
    /// The method, in words.
    pub method: String,
}

impl EpochSettings {
    /// What everybody may know of them.
    #[must_use]
    pub fn withheld(&self) -> EpochSettings {
        EpochSettings {
            withheld: true,
            cut_short: self.cut_short,
            copied: self.copied,
            ..EpochSettings::default()
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
fn is_false(is: &bool) -> bool {
    !*is
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What another version says goes through this one unharmed, and what is not said is not
    /// written.
    #[test]
    fn others_are_kept() {
        let text =
            r#"{"cut_short":true,"seed":18446744073709551615,"context":"caller","later":[1]}"#;
        let settings: EpochSettings = serde_json::from_str(text).expect("is JSON");
        assert_eq!(settings.context, Some(KeyedBy::Caller));
        assert_eq!(serde_json::to_string(&settings).expect("is JSON"), text);
        let shown = serde_json::to_string(&settings.withheld()).expect("is JSON");
        assert_eq!(shown, r#"{"withheld":true,"cut_short":true}"#);
    }
}
