//! `speedscope`: the file format of speedscope.app.

use clap::ArgMatches;
use profiledb::Apart;
use serde::Serialize;

use super::stacks::{Stacks, UNKNOWN_CALLERS, process_name};
use super::table::Table;
use super::{Export, Exported, STACKS, at_once, no_options};
use crate::failure::Failure;
use crate::render::whole;
use crate::view::View;

/// See the module.
pub(crate) const EXPORT: Export = Export {
    name: "speedscope",
    about: "JSON for speedscope",
    more: "Open it: drop the file on https://www.speedscope.app, which reads it in the browser.",
    is_binary: false,
    by_flush: false,
    apart: Apart::Programs,
    stubs: false,
    rows: STACKS,
    options: no_options,
    turns: at_once,
    write,
};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'s> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    shared: Shared<'s>,
    profiles: [Profile<'s>; 2],
    name: &'static str,
    active_profile_index: usize,
    exporter: String,
}

#[derive(Debug, Serialize)]
struct Shared<'s> {
    frames: Vec<Frame<'s>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Frame<'s> {
    name: std::borrow::Cow<'s, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile<'s> {
    r#type: &'static str,
    name: &'static str,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: &'s [Vec<usize>],
    weights: Vec<u64>,
}

fn write(view: &mut View<'_>, _: &ArgMatches) -> Result<Exported, Failure> {
    let stacks = Stacks::of_programs(view)?;
    let mut frames = Table::default();
    let samples: Vec<Vec<usize>> = stacks
        .samples
        .iter()
        .map(|sample| {
            let root = frames.place(Frame {
                name: process_name(stacks.process(sample)).into(),
                file: None,
                line: None,
            });
            let unknown = sample.cut.map(|_| {
                frames.place(Frame {
                    name: UNKNOWN_CALLERS.into(),
                    file: None,
                    line: None,
                })
            });
            let stack = stacks.frames(sample).rev().map(|(_, frame)| {
                let function = stacks.functions.get(frame.function);
                frames.place(Frame {
                    name: function.map_or("?", |function| &function.name).into(),
                    file: function.and_then(|function| function.file.as_deref()),
                    line: frame.line,
                })
            });
            std::iter::once(root).chain(unknown).chain(stack).collect()
        })
        .collect();
    let heat = stacks.samples.iter().map(|sample| sample.heat);
    let cycles = heat.clone().map(|heat| whole(heat.cycles)).collect();
    let file = File {
        schema: SCHEMA,
        profiles: [
            profile("cycles", &samples, cycles),
            profile("samples", &samples, heat.map(|heat| heat.samples).collect()),
        ],
        shared: Shared {
            frames: frames.into_all(),
        },
        name: "vcpi",
        active_profile_index: 0,
        exporter: format!("vcpi {}", env!("CARGO_PKG_VERSION")),
    };
    Ok(Exported::from(serde_json::to_vec(&file)?))
}

fn profile<'s>(name: &'static str, samples: &'s [Vec<usize>], weights: Vec<u64>) -> Profile<'s> {
    Profile {
        r#type: "sampled",
        name,
        unit: "none",
        start_value: 0,
        end_value: weights.iter().fold(0, |sum, one| sum.saturating_add(*one)),
        samples,
        weights,
    }
}
