//! The command line of `vcpid`. Doc comments are the help text.

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::{Shell, generate_to};
use parameters::ValueKinds;
use serde::Deserialize;

use crate::settings::watched::EntriesArg;

/// Instructions of a window at most, where none are asked for.
///
/// An interrupt costs 12 to 37 us, and an instruction of a window some 40 ns in the handler and 25
/// ns in the collector. So what a value costs falls with the length, until windows end by
/// themselves. What the handler reads for some 300 instructions fills a record.
pub(crate) const WINDOW: u32 = 256;

/// Profiles with which values hot code runs.
#[derive(Debug, Parser)]
#[command(name = "vcpid", version, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Profile a command and all its descendants, processes, or the whole machine.
    ///
    /// Ends with the command, at SIGINT or SIGTERM, or after SECONDS; exits with the command's
    /// status (128 + signal number if a signal ended it), or 125 if what was collected could not
    /// be saved. A command that still runs after SECONDS or SIGINT is sent SIGTERM.
    Record(Box<RecordArgs>),
    /// Say which engines, clocks and reports work on this machine, and what would mend the rest.
    Check(CheckArgs),
    /// Interpret and aggregate recorded raw samples again.
    Replay(ReplayArgs),
    /// Sample the whole machine for as long as this runs: the always-on service.
    ///
    /// Writes one database for each epoch, keeps them as configured, and lets readers see what
    /// they may see. SIGHUP has the configuration read again; SIGTERM saves what was collected
    /// and ends. Exits with 78 if the configuration is wrong.
    Serve(ServeArgs),
    /// Have the running service do something, and say what came of it.
    Ctl(CtlArgs),
    /// Write the manual pages and the shells' completions of this program: how it is packaged.
    #[command(name = "__document", hide = true)]
    Document {
        /// An existing folder.
        folder: PathBuf,
    },
    /// Wait for SIGCONT, then become the command: how `record` starts what it profiles.
    #[command(name = "__exec", hide = true)]
    Exec {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<std::ffi::OsString>,
    },
    /// Step threads as standard input says, and answer on standard output: how `record` has it
    /// done (`--bounce=step`).
    #[command(name = "__step", hide = true)]
    Step,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// The configuration, instead of /etc/vcpi/vcpid.toml (which need not exist).
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Print the default configuration, which explains every key, and end.
    #[arg(long)]
    pub(crate) print_config: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CtlArgs {
    /// What the service is to do.
    #[arg(value_enum)]
    pub(crate) command: CtlCommand,

    /// Text for people, JSON for programs, Prometheus's text format (status only).
    #[arg(long, value_enum, default_value_t = StatusFormat::Text)]
    pub(crate) format: StatusFormat,

    /// Where the service listens, instead of where it is configured to.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CtlCommand {
    /// Say how it is (root and the service's group).
    Status,
    /// Write what was collected to the database now (root).
    Flush,
    /// Begin a new epoch (root).
    Epoch,
    /// Read the configuration again and apply what can be applied (root).
    Reload,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusFormat {
    Text,
    Json,
    Prometheus,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RecordArgs {
    /// Where to write; a vcpi database is appended to as a new epoch, any other file is refused.
    #[arg(short, long, value_name = "FILE", default_value = "vcpi.db")]
    pub(crate) output: PathBuf,

    /// Profile every process and the kernel, on every CPU; with CMD, for as long as it runs.
    #[arg(short, long, conflicts_with = "pid")]
    pub(crate) all: bool,

    /// Profile this running process and what it starts from now on; several with commas between
    /// them, or with this option for each. With CMD, for as long as that runs.
    #[arg(short, long, value_name = "PID", value_delimiter = ',')]
    pub(crate) pid: Vec<u32>,

    /// Of these, only threads in this control group (a folder of the cgroup file system) or below.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cgroup: Option<PathBuf>,

    /// Of these, only processes with this effective user id.
    #[arg(long, value_name = "UID")]
    pub(crate) uid: Option<u32>,

    /// Of these, only threads with this name; at most 15 bytes of it count.
    #[arg(long, value_name = "NAME")]
    pub(crate) comm: Option<String>,

    /// Stop after this many seconds.
    #[arg(short, long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub(crate) duration: Option<f64>,

    /// Write no more than about this much an hour: of lists of values that were reached least often
    /// some are left out by lot, and others stand for them [default: write all].
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub(crate) hour_mib: Option<u64>,

    /// How samples are taken.
    #[arg(long, value_enum, default_value_t = EngineArg::Auto)]
    pub(crate) engine: EngineArg,

    /// What makes the interrupts.
    #[arg(long, value_enum, default_value_t = ClockArg::Auto)]
    pub(crate) clock: ClockArg,

    /// Samples per second per CPU; by default as many as a program loses no more than one percent
    /// to, 1000 at most: what an interrupt costs here is found out at the start.
    #[arg(long, value_name = "HZ", conflicts_with = "period",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: Option<u32>,

    /// Mean interval in the clock's unit: cycles, or nanoseconds for cpu-clock and timer, of which
    /// it is 10,000 at least.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000_000))]
    pub(crate) period: Option<u64>,

    /// Raise the kernel's limits of sampling where they stand in the way (root), and put them back
    /// at the end, or, after a crash, at the next start.
    #[arg(long)]
    pub(crate) allow_sysctl: bool,

    /// Instructions to interpret from each sample, at most. More bring more values for each
    /// interrupt; most windows end sooner, by themselves. Fewer than 64 tell shares of time alone.
    #[arg(long, value_name = "N", default_value_t = WINDOW,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) window: u32,

    /// Percent of the samples, drawn by lot, of which memory is read ahead. The others tell times
    /// and callers alone, and cost less.
    #[arg(long, value_name = "PERCENT", default_value_t = 100, hide = true,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) ways: u32,

    #[arg(long, value_name = "KIND,...", help = kinds())]
    pub(crate) capture: Option<ValueKinds>,

    /// Vector registers of samples of user code, which no interrupt shows: auto (of one in four of
    /// those that want them), off, or a number: as many a second and CPU at most. With the engine
    /// bpf [default: auto].
    #[arg(long, value_name = "auto|off|N")]
    pub(crate) vectors: Option<VectorsArg>,

    /// Key value profiles by the call site of their function too.
    #[arg(long, value_enum, default_value_t = ContextArg::None)]
    pub(crate) context: ContextArg,

    /// Make the random part of the intervals (and every other coin) repeatable. What is drawn in
    /// the kernel is not: the intervals of the clock timer, and which samples go without memory.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Bytes of the user stack to copy with each sample (a multiple of 8, at least 64).
    #[arg(long, value_name = "BYTES", default_value_t = 2048,
          value_parser = stack_bytes)]
    pub(crate) stack_bytes: u32,

    /// Callers to find of each sample, at most (0 to 127). With more than one there are call stacks
    /// (`vcpi cg --tree`). With the engine ring they reach as far as the copy of the stack does.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(0..=127))]
    pub(crate) frames: u32,

    /// Memory for value profiles, in MiB: half of it is flushed to FILE when it is full, while the
    /// other half fills.
    #[arg(long, value_name = "MIB", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) memory: u32,

    /// Seconds between flushes to FILE.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = positive_seconds)]
    pub(crate) flush: f64,

    /// Capture values in images on the deny list (cryptographic libraries, ssh, gpg, sudo and the
    /// like) and of processes that are not dumpable, too.
    #[arg(long)]
    pub(crate) allow_secrets: bool,

    /// Also write all that comes from the kernel to this new file, for `vcpid replay`. It holds
    /// registers, stacks and memory of the profiled programs, readable by its owner alone.
    #[arg(long, value_name = "FILE")]
    pub(crate) raw: Option<PathBuf>,

    /// Have threads of some samples stop at two breakpoints, around a few instructions: auto (of 20
    /// samples a second), off, or a number: of so many a second at most. What the processor makes
    /// of the instructions is compared with what is worked out, and shown as values named pair.*.
    /// With step, or step:N, they are traced instead, executed one by one, and let go: then vector
    /// registers and x87 are seen, too.
    #[arg(long, value_name = "auto|off|N|step[:N]", default_value = "off",
          default_missing_value = "auto", num_args = 0..=1, require_equals = true)]
    pub(crate) bounce: BounceArg,

    /// Stop threads at the entries of functions, for short times: of these functions
    /// (FUNC[,FUNC...]), or of those that are called most (auto). What they are called with, and
    /// from where, is shown by entries: in proportion to executions.
    #[arg(long, value_name = "auto|off|FUNC", default_value = "off",
          default_missing_value = "auto", num_args = 0..=1, require_equals = true)]
    pub(crate) entries: EntriesArg,

    /// Say nothing but errors.
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// The command to profile.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub(crate) command: Vec<std::ffi::OsString>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    /// What `vcpid record --raw` wrote.
    #[arg(value_name = "RAW")]
    pub(crate) raw: PathBuf,

    /// Where to write; a vcpi database is appended to as a new epoch, any other file is refused.
    #[arg(short, long, value_name = "FILE", default_value = "vcpi.db")]
    pub(crate) output: PathBuf,

    /// Instructions to interpret from each sample; as recorded unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) window: Option<u32>,

    /// Kinds of values, as for `record`; as recorded unless given.
    #[arg(long, value_name = "KIND,...")]
    pub(crate) capture: Option<ValueKinds>,

    /// As for `record`; as recorded unless given.
    #[arg(long, value_enum)]
    pub(crate) context: Option<ContextArg>,

    /// Callers of call stacks, at most, as far as they were recorded.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(0..=127))]
    pub(crate) frames: u32,

    /// Memory for value profiles, in MiB: half of it is flushed to FILE when it is full, while the
    /// other half fills.
    #[arg(long, value_name = "MIB", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) memory: u32,

    /// Say nothing but errors.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Text for people, JSON for programs.
    #[arg(long, value_enum, default_value_t = FormatArg::Text)]
    pub(crate) format: FormatArg,

    /// Check this configuration of the service instead.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// For so many seconds have threads of the whole machine stop at two breakpoints, around a few
    /// instructions, and say how often the processor made of these what is worked out. Where
    /// breakpoints cannot be had, threads are stepped instead. Exits with 1 if the processor once
    /// made something else.
    #[arg(long, value_name = "SECONDS", conflicts_with = "config", value_parser = positive_seconds)]
    pub(crate) truth: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EngineArg {
    /// The best that works here; says which and why.
    Auto,
    /// A BPF program on the interrupt, which also reads the memory that the code ahead will need.
    Bpf,
    /// Plain perf ring buffers.
    Ring,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ClockArg {
    /// Hardware cycles where the machine has them, unless their interrupts are more than twice as
    /// dear; else cpu-clock.
    Auto,
    /// The hardware cycle counter.
    Cycles,
    /// The kernel's software clock.
    CpuClock,
    /// A BPF timer on each CPU, which draws a new random interval at every sample and is never
    /// throttled; for the engine bpf. Of the kernel it sees less than cpu-clock.
    Timer,
}

/// Of which samples vector registers are brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum VectorsArg {
    #[default]
    Auto,
    Off,
    /// Of so many a second and CPU at most.
    Most(u32),
}

impl FromStr for VectorsArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            _ => match text.parse() {
                Ok(most @ 1..=1000) => Ok(Self::Most(most)),
                _ => Err("it is auto, off, or a number from 1 to 1000".to_owned()),
            },
        }
    }
}

/// How the processor is to show what it makes of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BounceArg {
    Auto,
    Off,
    /// By so many pairs of breakpoints a second at most.
    Most(u32),
    /// By so many threads a second at most that are stepped.
    Step(u32),
}

/// Pairs a second, where none are asked for by number: one takes 0.3 ms of a processor.
const AUTO_PAIRS: u32 = 20;
/// Threads a second that are stepped, likewise.
const AUTO_STEPPED: u32 = 20;

impl BounceArg {
    /// Pairs a second; `None`: there are to be none.
    pub(crate) fn most(self) -> Option<u32> {
        match self {
            Self::Off | Self::Step(_) => None,
            Self::Auto => Some(AUTO_PAIRS),
            Self::Most(most) => Some(most),
        }
    }

    /// Threads a second that are stepped; `None`: there are to be none.
    pub(crate) fn stepped(self) -> Option<u32> {
        match self {
            Self::Step(most) => Some(most),
            Self::Off | Self::Auto | Self::Most(_) => None,
        }
    }
}

impl FromStr for BounceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let stepped = text.strip_prefix("step");
        if stepped == Some("") {
            return Ok(Self::Step(AUTO_STEPPED));
        }
        let number = stepped.and_then(|rest| rest.strip_prefix(':'));
        // As with vector registers.
        match (number, number.unwrap_or(text).parse()) {
            (None, Ok(VectorsArg::Auto)) => Ok(Self::Auto),
            (None, Ok(VectorsArg::Off)) => Ok(Self::Off),
            (None, Ok(VectorsArg::Most(most))) => Ok(Self::Most(most)),
            (Some(_), Ok(VectorsArg::Most(most))) => Ok(Self::Step(most)),
            _ => Err(
                "it is auto, off, a number from 1 to 1000, step, or step: with such a number"
                    .to_owned(),
            ),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ContextArg {
    None,
    Caller,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    Text,
    Json,
}

/// Writes the manual pages of this program, and what shells complete it with, to a folder.
pub(crate) fn document(folder: &Path) -> io::Result<()> {
    let whole = Args::command();
    // Pages are written of what is shown; completions would be of all.
    let shown = whole.get_subcommands().filter(|sub| !sub.is_hide_set());
    let mut shown = clap::Command::new("vcpid")
        .args(whole.get_arguments().cloned())
        .subcommands(shown.cloned());
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut shown, "vcpid", folder)?;
    }
    clap_mangen::generate_to(whole, folder)
}

/// The help of the kinds of values.
fn kinds() -> String {
    format!(
        "Kinds of values, comma-separated: {} [default: {}, and vector where --vectors brings them]",
        ValueKinds::NAMES,
        ValueKinds::default()
    )
}

fn positive_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e9 => Ok(seconds),
        _ => Err("expected a number of seconds above 0, at most 1e9".to_owned()),
    }
}

fn stack_bytes(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(bytes) if bytes % 8 == 0 && (64..=32_768).contains(&bytes) => Ok(bytes),
        _ => Err("expected a multiple of 8 from 64 to 32768".to_owned()),
    }
}
