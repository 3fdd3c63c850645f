//! `vcpid check`: what works on this machine, and what would mend the rest.

mod config;
mod truth;

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use sampler::probe::{self, BpfRefusal, Calibration, Scope, Timer};
use sampler::{Clock, Engine};
use serde::Serialize;

use crate::output;
use crate::settings::affordable::{Affordable, Work};
use crate::settings::args::{CheckArgs, FormatArg, WINDOW};
use crate::settings::choices;
use config::check_config;
use truth::check_truth;

/// One thing that works here, or not.
#[derive(Debug, Serialize)]
struct Finding {
    name: &'static str,
    works: bool,
    /// What it can do, or why it does not work.
    note: String,
    /// What an interrupt of a clock costs, in nanoseconds, where that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt_ns: Option<u64>,
    /// That was tried, and nothing was to be seen while others ran.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupt_not_seen: bool,
    /// What would make it work; absent where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
}

/// All findings.
#[derive(Debug, Serialize)]
struct Findings {
    engines: Vec<Finding>,
    clocks: Vec<Finding>,
    auto_clock: AutoClock,
    targets: Vec<Finding>,
    reports: Vec<Finding>,
    limits: Vec<Limit>,
}

/// What `--clock auto` takes here, and how often it samples where that is not said.
#[derive(Debug, Serialize)]
struct AutoClock {
    clock: Option<&'static str>,
    why: String,
    /// Samples per second and CPU.
    rate: Option<u32>,
    why_rate: Option<String>,
}

/// A setting of the kernel that sampling meets.
#[derive(Debug, Serialize)]
struct Limit {
    name: &'static str,
    value: Option<i64>,
    meaning: &'static str,
}

/// Prints the findings. Succeeds whatever they are: to find out is what it is for.
pub(crate) fn run(args: &CheckArgs) -> Result<u8> {
    if let Some(path) = &args.config {
        return check_config(path, args.format);
    }
    if let Some(seconds) = args.truth {
        return check_truth(seconds, args.format);
    }
    let findings = Findings::look();
    let text = match args.format {
        FormatArg::Text => findings.text(),
        FormatArg::Json => serde_json::to_string_pretty(&findings)? + "\n",
    };
    output::print(&text)?;
    Ok(0)
}

fn works(name: &'static str, note: impl Into<String>) -> Finding {
    Finding {
        name,
        works: true,
        note: note.into(),
        interrupt_ns: None,
        interrupt_not_seen: false,
        mend: None,
    }
}

fn fails(name: &'static str, note: impl Into<String>, mend: impl Into<String>) -> Finding {
    Finding {
        name,
        works: false,
        note: note.into(),
        interrupt_ns: None,
        interrupt_not_seen: false,
        mend: Some(mend.into()),
    }
}

/// The clocks that are events, by name.
const EVENTS: [(&str, Clock); 2] = [("cycles", Clock::Cycles), ("cpu-clock", Clock::CpuClock)];

/// A clock that is an event; `cost` as it was measured.
fn event_clock(name: &'static str, clock: Clock, cost: Option<Duration>) -> Finding {
    let finding = match probe::probe_clock(clock, Scope::Own) {
        Ok(can) if can.user_only => works(name, "user code of own processes"),
        Ok(_) => works(name, "user code and the kernel"),
        Err(error) => fails(
            name,
            error.what.clone() + ": " + &os_text(error.errno),
            error.mend,
        ),
    };
    costing(finding, cost)
}

fn costing(finding: Finding, cost: Option<Duration>) -> Finding {
    let nanoseconds = cost.and_then(|cost| u64::try_from(cost.as_nanos()).ok());
    Finding {
        interrupt_ns: nanoseconds.filter(|ns| *ns > 0),
        interrupt_not_seen: nanoseconds == Some(0),
        ..finding
    }
}

fn timer_clock() -> Finding {
    let note = match probe::timer() {
        Ok(Timer { pinned: true }) => "user code and most of the kernel",
        Ok(Timer { pinned: false }) => choices::LOOSE_TIMERS,
        Err(BpfRefusal { why, mend }) => return fails("timer", why, mend),
    };
    costing(works("timer", note), probe::timer_cost().ok())
}

impl AutoClock {
    fn new(costs: &Calibration, engine: Engine) -> Self {
        let why = || match (&costs.cycles, &costs.cpu_clock) {
            (Err(_), _) => "no hardware cycles here".to_owned(),
            (_, Err(_)) => "no software clock here".to_owned(),
            _ => choices::why_by_cost(costs).unwrap_or_default(),
        };
        let clock = match costs.choice() {
            Ok(clock) => clock,
            Err(error) => {
                return Self {
                    clock: None,
                    why: error.to_string(),
                    rate: None,
                    why_rate: None,
                };
            }
        };
        let work = match Work::of(engine, WINDOW) {
            work if engine == Engine::Bpf => work.with_vectors(),
            work => work,
        };
        let affordable = Affordable::here(clock, costs.cost(clock), work);
        Self {
            clock: EVENTS
                .into_iter()
                .find(|(_, of)| *of == clock)
                .map(|(name, _)| name),
            why: why(),
            rate: Some(affordable.rate),
            why_rate: Some(affordable.why()),
        }
    }
}

impl Findings {
    fn look() -> Self {
        let costs = probe::calibrate();
        let mut clocks: Vec<Finding> = EVENTS
            .into_iter()
            .zip([&costs.cycles, &costs.cpu_clock])
            .map(|((name, clock), cost)| event_clock(name, clock, cost.as_ref().ok().copied()))
            .collect();
        clocks.push(timer_clock());
        let usable = if clocks[0].works {
            Clock::Cycles
        } else {
            Clock::CpuClock
        };
        let target = |name, scope, note: &str| match probe::probe_clock(usable, scope) {
            Ok(_) => works(name, note),
            Err(error) => fails(
                name,
                error.what.clone() + ": " + &os_text(error.errno),
                error.mend,
            ),
        };
        let targets = vec![
            target(
                "command",
                Scope::Own,
                "vcpid record -- CMD, vcpid record -p PID",
            ),
            target("system", Scope::System, "vcpid record -a"),
        ];
        let ring = if targets[0].works {
            works("ring", "registers, stack copy, never-written image pages")
        } else {
            fails(
                "ring",
                "no event can be opened",
                targets[0].mend.clone().unwrap_or_default(),
            )
        };
        let bpf = match probe::bpf() {
            Ok(()) => works(
                "bpf",
                "registers, callers, and the memory that the code ahead will need",
            ),
            Err(refusal) => fails("bpf", refusal.why, refusal.mend),
        };
        let engine = match bpf.works {
            true => Engine::Bpf,
            false => Engine::Ring,
        };
        let engines = vec![bpf, ring];
        Self {
            engines,
            clocks,
            auto_clock: AutoClock::new(&costs, engine),
            targets,
            reports: reports(),
            limits: limits(),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let sections = [
            ("engines", &self.engines),
            ("clocks", &self.clocks),
            ("targets", &self.targets),
            ("reports", &self.reports),
        ];
        for (title, findings) in sections {
            text += title;
            text.push('\n');
            for finding in findings {
                let state = if finding.works { "yes" } else { "no" };
                // Writing to a string cannot fail.
                let _ = write!(text, "  {:<12} {state:<4} {}", finding.name, finding.note);
                if let Some(ns) = finding.interrupt_ns {
                    let cost = Duration::from_nanos(ns);
                    let _ = write!(text, "; an interrupt costs {cost:.1?}");
                } else if finding.interrupt_not_seen {
                    text += "; what an interrupt costs is not to be seen while others run";
                }
                text.push('\n');
                if let Some(mend) = &finding.mend {
                    let _ = writeln!(text, "  {:<12}      to mend it: {mend}", "");
                }
            }
            if title == "clocks" {
                let AutoClock {
                    clock,
                    why,
                    why_rate,
                    ..
                } = &self.auto_clock;
                let clock = clock.unwrap_or("none");
                let _ = writeln!(text, "  {:<12} {:<4} {clock} ({why})", "auto", "->");
                if let Some(why) = why_rate {
                    let _ = writeln!(text, "  {:<12} {:<4} {why}", "rate", "->");
                }
            }
        }
        text += "limits\n";
        for limit in &self.limits {
            let value = limit
                .value
                .map_or_else(|| "?".to_owned(), |value| value.to_string());
            let _ = writeln!(text, "  {:<40} {value:>8}  {}", limit.name, limit.meaning);
        }
        text
    }
}

fn os_text(errno: i32) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}

fn reports() -> Vec<Finding> {
    let kernel = machine::kernel::Kernel::read();
    let names = if kernel.has_addresses() {
        works("kernel names", "from /proc/kallsyms")
    } else {
        fails(
            "kernel names",
            "the kernel hides its addresses from this user",
            "run as root, or set the sysctl kernel.kptr_restrict to 0",
        )
    };
    let own = sampler::Pid(std::process::id());
    let pages = if machine::system::procfs::Pagemap::open(own).is_some() {
        works(
            "values",
            "/proc/PID/pagemap tells which pages were never written",
        )
    } else {
        fails(
            "values",
            "/proc/PID/pagemap cannot be read, so no image page can be trusted",
            "mount /proc, and allow reading of own processes there",
        )
    };
    let vectors = match probe::vectors() {
        Ok(()) => works("vectors", "vector registers of some samples (--vectors)"),
        Err(BpfRefusal { why, mend }) => fails("vectors", why, mend),
    };
    let pairs = match probe::breakpoints() {
        Ok(()) => works(
            "breakpoints",
            "what the processor makes of instructions (--bounce), calls (--entries)",
        ),
        Err(BpfRefusal { why, mend }) => fails("breakpoints", why, mend),
    };
    vec![
        works("top", "cycles by image, function, instruction, process"),
        pages,
        vectors,
        pairs,
        works(
            "call graph",
            "by the unwind rules of the images, else by the code itself",
        ),
        names,
    ]
}

fn limits() -> Vec<Limit> {
    let limit = |name, value, meaning| Limit {
        name,
        value,
        meaning,
    };
    vec![
        limit(
            "kernel.perf_event_paranoid",
            probe::perf_event_paranoid().map(i64::from),
            "what users without privilege may sample (2: own user code)",
        ),
        limit(
            "kernel.perf_event_max_sample_rate",
            probe::max_sample_rate().and_then(|n| i64::try_from(n).ok()),
            "samples per second and CPU above which the kernel throttles",
        ),
        limit(
            "kernel.perf_cpu_time_max_percent",
            probe::cpu_time_max_percent().map(i64::from),
            "share of time in interrupts above which it lowers that rate",
        ),
        limit(
            "kernel.perf_event_mlock_kb",
            probe::mlock_kb().and_then(|n| i64::try_from(n).ok()),
            "KiB of buffers a user may lock per CPU",
        ),
    ]
}
