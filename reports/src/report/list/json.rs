//! `list` as programs read it.

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{Listings, ParameterValues, source_text};
use crate::code::{Disassembler, Spacing};
use crate::render::{rounded, whole};
use crate::report::{JsonShare, JsonSite, json_shares};
use crate::view::Base;

/// One instruction in JSON.
#[derive(Debug, Serialize)]
struct JsonInstruction<'a> {
    image: &'a str,
    build_id: Option<&'a str>,
    function: &'a str,
    address: String,
    offset: Option<u64>,
    text: Option<String>,
    cycles: u64,
    cycle_samples: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    inlined: &'a [String],
    profiles: &'a [ParameterValues],
}

/// One value profile in JSON.
#[derive(Debug, Serialize)]
struct JsonProfile<'a> {
    parameter: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    /// For arguments: `true`, or `null` where it is not known whether they are live.
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<Value>,
    base: Base,
    caller: &'a Option<JsonSite>,
    reached: u64,
    unknown: u64,
    samples: u64,
    windows: u64,
    distinct: usize,
    threshold: f64,
    values: Vec<JsonShare>,
}

impl Serialize for Listings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut disassembler = Disassembler::new(Spacing::Json);
        let rows = self.functions.iter().flat_map(|of| {
            let lines = of.lines.iter();
            lines.map(move |line| (of, line))
        });
        serializer.collect_seq(rows.map(|(of, line)| {
            JsonInstruction {
                image: &of.image,
                build_id: of.build_id.as_deref(),
                function: &of.name,
                address: format!("0x{:x}", line.address),
                offset: of.start.and_then(|start| line.address.checked_sub(start)),
                text: line
                    .instruction
                    .map(|instruction| disassembler.text(&instruction, |_| line.target.clone())),
                cycles: whole(line.heat.cycles),
                cycle_samples: line.heat.samples,
                source: source_text(&line.place),
                inlined: &line.place.inlined,
                profiles: &line.profiles,
            }
        }))
    }
}

impl Serialize for ParameterValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = &self.values;
        let profile = JsonProfile {
            parameter: &values.parameter,
            name: self.name.as_deref(),
            live: (values.is_argument() || values.vector_argument().is_some()).then_some(
                match values.live {
                    true => Value::Bool(true),
                    false => Value::Null,
                },
            ),
            base: values.base,
            caller: &self.caller,
            reached: values.reached,
            unknown: values.unknown,
            samples: values.samples(),
            windows: values.windows,
            distinct: values.shares.len(),
            threshold: rounded(values.threshold, 3),
            values: json_shares(values, values.class()),
        };
        profile.serialize(serializer)
    }
}
