//! The service's configuration: `/etc/vcpi/vcpid.toml`.
//!
//! Its one explanation is the default file (`config/vcpid.toml`), which `vcpid serve
//! --print-config` prints.

mod values;

use std::path::{Path, PathBuf};

use profiledb::Retention;
use profiledb::rollup::Limits;
use serde::Deserialize;
use toml::de::DeTable;

use crate::settings::args::{BounceArg, ClockArg, ContextArg, EngineArg, VectorsArg, WINDOW};
use crate::settings::recording::Recording;
use crate::settings::watched::EntriesArg;
use values::{AbsolutePath, Budget, Kinds, Number, Prefix};

/// Where the configuration is unless another file is named.
pub(crate) const DEFAULT_PATH: &str = "/etc/vcpi/vcpid.toml";

/// The default file.
pub(crate) const DEFAULT_TEXT: &str = include_str!("config/vcpid.toml");

/// Everything that can be configured.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) sampling: Sampling,
    pub(crate) collection: Collection,
    pub(crate) database: Database,
    pub(crate) governor: Governor,
    pub(crate) access: Access,
}

/// How samples are taken, and what of them is kept.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Sampling {
    pub(crate) engine: EngineArg,
    pub(crate) clock: ClockArg,
    pub(crate) rate: Number<1, 100_000>,
    pub(crate) period: Option<Number<1000, 1_000_000_000_000>>,
    pub(crate) window: Number<1, 1024>,
    pub(crate) capture: Option<Kinds>,
    pub(crate) vectors: VectorsArg,
    pub(crate) frames: Number<0, 127>,
    pub(crate) bounce: BounceArg,
    pub(crate) entries: EntriesArg,
    pub(crate) context: ContextArg,
    pub(crate) allow_secrets: bool,
    pub(crate) deny: Vec<Prefix>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            engine: EngineArg::Auto,
            clock: ClockArg::Auto,
            rate: Number(500),
            period: None,
            window: Number(u64::from(WINDOW)),
            capture: None,
            vectors: VectorsArg::Auto,
            frames: Number(1),
            bounce: BounceArg::Off,
            entries: EntriesArg::Off,
            context: ContextArg::None,
            allow_secrets: false,
            deny: Vec::new(),
        }
    }
}

/// What is in memory between two flushes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Collection {
    pub(crate) memory_mib: Number<1, 65_536>,
    pub(crate) programs_mib: Number<8, 65_536>,
    pub(crate) flush_seconds: Number<1, 3600>,
    pub(crate) per_process: bool,
}

impl Default for Collection {
    fn default() -> Self {
        Self {
            memory_mib: Number(64),
            programs_mib: Number(128),
            flush_seconds: Number(60),
            per_process: true,
        }
    }
}

/// Where it goes and how long it stays.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Database {
    pub(crate) directory: AbsolutePath,
    pub(crate) epoch_hours: Number<1, 8784>,
    pub(crate) keep_days: Number<1, 36_500>,
    pub(crate) keep_mib: Number<16, 1_073_741_824>,
    pub(crate) hour_mib: Number<1, 1_048_576>,
    pub(crate) keep_newest: Number<1, 10_000>,
    pub(crate) rolled_hour_mib: Number<0, 65_536>,
    pub(crate) rolled_day_mib: Number<0, 65_536>,
    pub(crate) rolled_week_mib: Number<0, 65_536>,
}

impl Default for Database {
    fn default() -> Self {
        Self {
            directory: AbsolutePath("/var/lib/vcpi".into()),
            epoch_hours: Number(24),
            keep_days: Number(14),
            keep_mib: Number(4096),
            hour_mib: Number(37),
            keep_newest: Number(3),
            rolled_hour_mib: Number(7),
            rolled_day_mib: Number(150),
            rolled_week_mib: Number(375),
        }
    }
}

impl Database {
    /// What hours, days and weeks may take when they are rolled up.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            hour: self.rolled_hour_mib.0 << 20,
            day: self.rolled_day_mib.0 << 20,
            week: self.rolled_week_mib.0 << 20,
        }
    }

    /// What is kept of ended epochs.
    pub(crate) fn retention(&self) -> Retention {
        Retention {
            age: std::time::Duration::from_secs(self.keep_days.0 * 86_400),
            bytes: self.keep_mib.0 << 20,
            newest: usize::try_from(self.keep_newest.0).unwrap_or(usize::MAX),
        }
    }
}

/// What profiling may cost.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Governor {
    pub(crate) budget_percent: Budget,
}

/// Who may ask the service, and for how much.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Access {
    pub(crate) socket: AbsolutePath,
    pub(crate) group: String,
    pub(crate) clients: Number<1, 10_000>,
    pub(crate) clients_per_user: Number<1, 10_000>,
    pub(crate) requests_per_minute: Number<1, 1_000_000>,
    pub(crate) answer_mib: Number<1, 1_048_576>,
    pub(crate) answer_seconds: Number<1, 3600>,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            socket: AbsolutePath("/run/vcpi/vcpid.sock".into()),
            group: "vcpi".to_owned(),
            clients: Number(1024),
            clients_per_user: Number(600),
            requests_per_minute: Number(600),
            answer_mib: Number(256),
            answer_seconds: Number(20),
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read {}", path.display())]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{}:{line}:{column}: {reason}", path.display())]
    Wrong {
        path: PathBuf,
        line: usize,
        column: usize,
        reason: String,
    },
}

/// Why the engine `ring` does not go with the clock `timer`.
const NO_TIMER: &str =
    "the clock timer needs the engine bpf: take another clock, or another engine";

/// Where a file sets a key: line and column, from 1 on. `None` where it does not, or cannot be
/// read.
pub(crate) fn place_of(path: &Path, section: &str, key: &str) -> Option<(usize, usize)> {
    let text = std::fs::read_to_string(path).ok()?;
    let start = start_of(&text, section, key)?;
    Some(position(&text, start))
}

/// Where in a text the value of a key begins, in bytes.
fn start_of(text: &str, section: &str, key: &str) -> Option<usize> {
    let whole = DeTable::parse(text).ok()?;
    let section = whole.get_ref().get(section)?.get_ref().as_table()?;
    Some(section.get(key)?.span().start)
}

/// The line and the column, from 1 on, of a place in a text.
fn position(text: &str, start: usize) -> (usize, usize) {
    let start = start.min(text.len());
    let before = text.get(..start).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |index| index + 1);
    (before.matches('\n').count() + 1, start - line_start + 1)
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// The file cannot be read, or says what cannot be; the message names the line.
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// The configuration in a text that comes from `path`.
    fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let wrong = |start, reason: &str| {
            let (line, column) = position(text, start);
            ConfigError::Wrong {
                path: path.to_owned(),
                line,
                column,
                reason: reason.replace('\n', " "),
            }
        };
        let config: Self = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            wrong(start, error.message())
        })?;
        let Sampling { engine, clock, .. } = &config.sampling;
        if (*engine, *clock) == (EngineArg::Ring, ClockArg::Timer) {
            let start = start_of(text, "sampling", "clock").unwrap_or(0);
            return Err(wrong(start, NO_TIMER));
        }
        Ok(config)
    }

    /// The recording of the whole machine that the service makes.
    pub(crate) fn recording(&self) -> Recording {
        let Sampling {
            engine,
            clock,
            ref rate,
            ref period,
            ref window,
            ref capture,
            vectors,
            ref frames,
            bounce,
            ref entries,
            context,
            allow_secrets,
            ..
        } = self.sampling;
        Recording {
            command: "-a".to_owned(),
            cgroup: None,
            uid: None,
            comm: None,
            engine,
            clock,
            rate: Some(rate.small()),
            period: period.as_ref().map(|period| period.0),
            allow_sysctl: false,
            window: window.small(),
            ways: 100,
            capture: capture.map(|kinds| kinds.0),
            vectors,
            bounce,
            context,
            seed: None,
            stack_bytes: 2048,
            frames: frames.small(),
            memory: self.collection.memory_mib.small(),
            allow_secrets,
            is_raw: false,
            entries: entries.clone(),
            quiet: false,
        }
    }
}

#[cfg(test)]
mod tests;
