//! What a recording is to be like, as the command line or the service's configuration says.

use std::io;
use std::path::PathBuf;

use parameters::ValueKinds;
use pipeline::entries::{Entries, Wanted};
use sampler::{Running, probe};

use crate::settings::args::{BounceArg, ClockArg, ContextArg, EngineArg, RecordArgs, VectorsArg};
use crate::settings::watched::EntriesArg;

/// How samples are to be taken, and what of them is kept. Where it goes is said elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    /// What is profiled, in words.
    pub(crate) command: String,
    /// Only threads in this control group, or below.
    pub(crate) cgroup: Option<PathBuf>,
    /// Only processes with this effective user id.
    pub(crate) uid: Option<u32>,
    /// Only threads with this name.
    pub(crate) comm: Option<String>,
    pub(crate) engine: EngineArg,
    pub(crate) clock: ClockArg,
    /// Samples a second and CPU.
    pub(crate) rate: Option<u32>,
    /// Mean interval in the clock's unit, in place of a rate.
    pub(crate) period: Option<u64>,
    /// The kernel's limits of sampling may be raised.
    pub(crate) allow_sysctl: bool,
    /// Instructions of a window, at most.
    pub(crate) window: u32,
    /// Of so many percent of the samples memory is read ahead.
    pub(crate) ways: u32,
    /// `None`: what [`Choices::capture`](super::choices::Choices::capture) says.
    pub(crate) capture: Option<ValueKinds>,
    pub(crate) vectors: VectorsArg,
    pub(crate) bounce: BounceArg,
    pub(crate) entries: EntriesArg,
    pub(crate) context: ContextArg,
    pub(crate) seed: Option<u64>,
    /// Bytes of a user stack that are copied.
    pub(crate) stack_bytes: u32,
    /// Callers of each sample, at most.
    pub(crate) frames: u32,
    /// Memory for value profiles, in MiB.
    pub(crate) memory: u32,
    /// Values of images on the deny list, and of processes that are not dumpable, are captured.
    pub(crate) allow_secrets: bool,
    /// All that comes from the kernel is written to a file, which holds nothing else.
    pub(crate) is_raw: bool,
    /// Nothing but errors is said.
    pub(crate) quiet: bool,
}

impl From<&RecordArgs> for Recording {
    fn from(args: &RecordArgs) -> Self {
        Self {
            command: command(args),
            cgroup: args.cgroup.clone(),
            uid: args.uid,
            comm: args.comm.clone(),
            engine: args.engine,
            clock: args.clock,
            rate: args.rate,
            period: args.period,
            allow_sysctl: args.allow_sysctl,
            window: args.window,
            ways: args.ways,
            capture: args.capture,
            vectors: args.vectors.unwrap_or_default(),
            bounce: args.bounce,
            entries: args.entries.clone(),
            context: args.context,
            seed: args.seed,
            stack_bytes: args.stack_bytes,
            frames: args.frames,
            memory: args.memory,
            allow_secrets: args.allow_secrets,
            is_raw: args.raw.is_some(),
            quiet: args.quiet,
        }
    }
}

impl Recording {
    /// Whether breakpoints are set, for pairs or at entries. A raw recording cannot hold what they
    /// show.
    pub(crate) fn sets_breakpoints(&self) -> bool {
        !self.is_raw && (self.bounce.most().is_some() || self.entries != EntriesArg::Off)
    }

    /// What watches entries of functions, if any are to be. A raw recording cannot hold what it
    /// sees.
    pub(crate) fn start_entries(&self, running: &Running) -> io::Result<Option<Entries>> {
        let wanted = match &self.entries {
            _ if self.is_raw => return Ok(None),
            EntriesArg::Off => return Ok(None),
            EntriesArg::Auto => Wanted::Hottest,
            EntriesArg::Of(names) => Wanted::Named(names.clone()),
        };
        probe::traps_are_told().map_err(io::Error::other)?;
        Entries::start(wanted, running.at_entries()).map(Some)
    }
}

/// What is profiled, as typed, with what limits it: else it would read as a profile of all that
/// ran.
fn command(args: &RecordArgs) -> String {
    let command = if args.all {
        "-a".to_owned()
    } else if !args.pid.is_empty() {
        let pids: Vec<_> = args.pid.iter().map(|pid| format!("-p {pid}")).collect();
        pids.join(" ")
    } else {
        let words = args.command.iter().map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    };
    let filters = [
        args.cgroup
            .as_ref()
            .map(|group| format!("--cgroup {}", group.display())),
        args.uid.map(|uid| format!("--uid {uid}")),
        args.comm.as_ref().map(|comm| format!("--comm {comm}")),
    ];
    let words = filters.into_iter().flatten().chain([command]);
    words.collect::<Vec<_>>().join(" ")
}
