//! Targets and sizes beside those that clang's instrumentation counts in the same run, call site by
//! call site.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::programs::root;

use crate::{Recorded, tool, tools};

/// Least overlap of the distributions at a site.
const OVERLAP: f64 = 0.95;
/// The same where some targets stand behind stalls: targets count by windows, which begin where
/// time goes. A target of one call in nine, behind branches that are mispredicted, had one in
/// seven.
const BEHIND_STALLS: f64 = 0.85;
/// Calls that windows must have seen of a site, for its distribution to be judged: chance alone
/// moves shares by some points in a few hundred.
const ENOUGH: u64 = 1500;

/// What the values are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Targets,
    Sizes,
}

/// A function, and which of its sites of one kind, in the order of the source.
type Site = (Kind, String, usize);

/// How often each value was seen.
type Counts = BTreeMap<String, f64>;

/// What was seen at a site, and how many calls.
type Seen = (Counts, u64);

/// Where the profile says which kind of values follows.
const HEADINGS: [(&str, Kind); 2] = [
    ("Indirect Target Results:", Kind::Targets),
    ("Memory Intrinsic Size Results:", Kind::Sizes),
];

/// What `llvm-profdata show` prints: the functions, and under them lines `[ SITE, VALUE, COUNT ]`.
fn exact(shown: &str) -> Result<BTreeMap<Site, Counts>> {
    let mut sites: BTreeMap<Site, Counts> = BTreeMap::new();
    let (mut function, mut kind) = ("", None);
    for line in shown.lines() {
        let words = line.trim();
        if let Some((_, of)) = HEADINGS.iter().find(|(heading, _)| *heading == words) {
            kind = Some(*of);
        } else if let Some(value) = words.strip_prefix('[') {
            let (value, _) = value.split_once(']').context("an open bracket")?;
            let parts: Vec<&str> = value.split(',').map(str::trim).collect();
            let (&[site, value, count], Some(kind)) = (parts.as_slice(), kind) else {
                bail!("not a value: {line}");
            };
            let counts = sites.entry((kind, own_name(function), site.parse()?));
            counts.or_default().insert(own_name(value), count.parse()?);
        } else if let Some(name) = words.strip_suffix(':') {
            (function, kind) = (name, None);
        }
    }
    Ok(sites)
}

/// The name without the file that local functions have before it.
fn own_name(name: &str) -> String {
    name.rsplit(';').next().unwrap_or(name).to_owned()
}

/// The smallest size of the range that LLVM counts a size under.
fn range_of(size: u64) -> u64 {
    match size {
        0..=8 => size,
        513.. => 513,
        _ if size.is_power_of_two() => size,
        _ => (1 << size.ilog2()) + 1,
    }
}

/// The sites of a report by function and address, with what was seen there and how many calls.
fn seen(rows: &Value, kind: Kind) -> Result<BTreeMap<(String, u64), Seen>> {
    let mut sites: BTreeMap<(String, u64), Seen> = BTreeMap::new();
    for row in rows.as_array().context("no rows")? {
        let (function, address) = match kind {
            Kind::Targets => (&row["function"], &row["address"]),
            Kind::Sizes => (&row["caller"], &row["call_site"]),
        };
        // Sums over all sites have none.
        let (Some(function), Some(address)) = (function.as_str(), address.as_str()) else {
            continue;
        };
        // A jump through a table of a switch goes on in the middle of a function.
        let is_inside = |target: &Value| {
            let name = target["target"].as_str();
            name.is_some_and(|name| name.contains('+'))
        };
        let mut targets_of = row["targets"].as_array().into_iter().flatten();
        if targets_of.any(is_inside) {
            continue;
        }
        let address = address.strip_prefix("0x").context("no address")?;
        let address = u64::from_str_radix(address, 16)?;
        let (counts, calls) = match kind {
            Kind::Targets => targets(row)?,
            Kind::Sizes => (sizes(row)?, row["calls"].as_u64().context("no calls")?),
        };
        // The first call of a function that is bound late goes to the linker: a row of its own.
        let of_site = sites.entry((function.to_owned(), address)).or_default();
        add(of_site, counts, calls);
    }
    Ok(sites)
}

fn add((sum, all): &mut Seen, counts: Counts, calls: u64) {
    *all += calls;
    for (value, count) in counts {
        *sum.entry(value).or_default() += count;
    }
}

fn targets(row: &Value) -> Result<(Counts, u64)> {
    let mut counts = Counts::new();
    for target in row["targets"].as_array().context("no targets")? {
        let name = target["target"]
            .as_str()
            .context("a target without a name")?;
        let count = target["count"]
            .as_f64()
            .context("a target without a count")?;
        counts.insert(name.to_owned(), count);
    }
    let calls = counts.values().sum::<f64>() as u64;
    Ok((counts, calls))
}

/// The supported sizes, by executions where these are told, under the ranges of LLVM.
fn sizes(row: &Value) -> Result<Counts> {
    let profiles = row["sizes"].as_array().context("no sizes")?;
    let by_executions = |profile: &&Value| profile["base"] == "executions";
    // A site that was seen now and then has calls and no sizes that are worth a word.
    let Some(profile) = profiles.iter().find(by_executions).or(profiles.first()) else {
        return Ok(Counts::new());
    };
    let mut rest = profile["samples"].as_f64().context("no samples")?;
    let mut counts = Counts::new();
    for share in profile["values"].as_array().context("no values")? {
        if share["supported"] == true {
            let size = share["value"]
                .as_str()
                .and_then(|hex| hex.strip_prefix("0x"));
            let size = u64::from_str_radix(size.context("a size in another form")?, 16)?;
            let estimate = share["estimate"].as_f64().context("no estimate")?;
            *counts.entry(range_of(size).to_string()).or_default() += estimate;
            rest -= estimate;
        }
    }
    counts.insert("of other sizes".to_owned(), rest.max(0.0));
    Ok(counts)
}

/// The sum of the smaller shares: 1 where both are distributed alike.
fn overlap(one: &Counts, other: &Counts) -> f64 {
    let sum = |counts: &Counts| counts.values().sum::<f64>().max(f64::MIN_POSITIVE);
    let shares = one.iter().map(|(value, count)| {
        let other_count = other.get(value).copied().unwrap_or(0.0);
        (count / sum(one)).min(other_count / sum(other))
    });
    shares.sum()
}

/// The place in the source of each address of the program `opt`, as `LINE:COLUMN`.
fn places(of: &Recorded, addresses: &[u64]) -> Result<Vec<(u32, u32)>> {
    let mut words = vec!["--obj=opt".to_owned(), "--no-inlines".to_owned()];
    words.extend(addresses.iter().map(|address| format!("{address:#x}")));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = of.run(tool("llvm-symbolizer"), &words)?;
    let said = String::from_utf8(output.stdout)?;
    let place = |line: &str| -> Option<(u32, u32)> {
        let mut parts = line.rsplit(':');
        let (column, line) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some((line, column))
    };
    let places: Vec<(u32, u32)> = said.lines().filter_map(place).collect();
    ensure!(places.len() == addresses.len(), "{said}");
    Ok(places)
}

/// Compiles a fixture plain and instrumented, records the one and counts the other in the same run,
/// and holds each site that was seen often enough to the counts. Least are the overlap of each site
/// and the number of sites that are judged. On a busy machine the sampling rate is lowered: where
/// too few sites were seen often enough, a run of four times as many rounds is judged as well.
fn beside_counts(source: &str, rounds: u32, least: f64, least_sites: usize) -> Result<()> {
    for rounds in [rounds, 4 * rounds] {
        let judged = judged(source, &rounds.to_string(), least)?;
        if judged >= least_sites {
            return Ok(());
        }
        println!("{judged} sites were seen {ENOUGH} times in {rounds} rounds");
    }
    bail!("fewer sites than {least_sites} were seen {ENOUGH} times")
}

/// How many sites of a run were seen often enough. Their least overlap is held.
fn judged(source: &str, rounds: &str, least: f64) -> Result<usize> {
    let of = Recorded::empty()?;
    let source = root().join("tests/fixtures").join(source);
    let source = source.display().to_string();
    let compile = |name: &str, more: &[&str]| {
        let flags = ["-O2", "-g", "-Wl,--build-id", "-o", name, &source];
        of.run(tool("clang"), &[&flags[..], more].concat())
    };
    compile("opt", &[])?;
    // Room for all values: no count gives way to another one.
    let counting = ["-fprofile-generate", "-mllvm", "-vp-counters-per-site=64"];
    compile("counting", &counting)?;
    let kinds = "target,args";
    let words = [
        "record",
        "-o",
        "opt.db",
        "--rate",
        "4000",
        "--capture",
        kinds,
        "--",
        "./opt",
        rounds,
    ];
    let recorded = of.run(&of.programs.vcpid, &words)?;
    let mut counting = of.command(of.path("counting"));
    counting
        .env("LLVM_PROFILE_FILE", "exact.profraw")
        .env("LLVM_VP_MAX_NUM_VALS_PER_SITE", "64");
    let counted = counting.arg(rounds).output()?;
    ensure!(counted.status.success(), text(&counted));
    ensure!(
        recorded.stdout == counted.stdout,
        "the runs differ: {} {}",
        text(&recorded),
        text(&counted)
    );
    let profdata = tool("llvm-profdata");
    of.run(&profdata, &["merge", "-o", "exact", "exact.profraw"])?;
    let words = [
        "show",
        "-all-functions",
        "-ic-targets",
        "-memop-sizes",
        "exact",
    ];
    let shown = of.run(&profdata, &words)?;
    let exact = exact(&String::from_utf8(shown.stdout)?)?;
    let mut judged = 0;
    for (kind, report) in [(Kind::Targets, "targets"), (Kind::Sizes, "copies")] {
        let rows = of.programs.report(&of.path("opt.db"), &[report])?;
        let mut seen = seen(&rows, kind)?;
        let is_counted = |name: &str| exact.keys().any(|of| of.0 == kind && of.1 == name);
        seen.retain(|(function, _), _| is_counted(function));
        let addresses: Vec<u64> = seen.keys().map(|(_, address)| *address).collect();
        let places = match addresses.is_empty() {
            true => Vec::new(),
            false => places(&of, &addresses)?,
        };
        // Sites of each function by place: what the compiler made two calls of is one again.
        let mut by_place: BTreeMap<String, BTreeMap<(u32, u32), Seen>> = BTreeMap::new();
        for (((function, _), (counts, calls)), place) in seen.into_iter().zip(places) {
            let of_place = by_place.entry(function).or_default().entry(place);
            add(of_place.or_default(), counts, calls);
        }
        for (function, sites) in by_place {
            let counted = exact.keys().filter(|of| of.0 == kind && of.1 == function);
            if counted.count() != sites.len() {
                // Not all of its sites were seen: it is not known which ones.
                println!("{function}: left out, with {} sites seen", sites.len());
                continue;
            }
            for (number, (counts, calls)) in sites.into_values().enumerate() {
                let site = (kind, function.clone(), number);
                let exact = exact.get(&site).with_context(|| format!("no {site:?}"))?;
                let overlap = overlap(exact, &counts);
                println!("{kind:?} in {function}, {number}: {overlap:.3} of {calls} calls");
                if calls < ENOUGH {
                    continue;
                }
                ensure!(
                    overlap >= least,
                    "{site:?}: {overlap:.3}\n{counts:?}\n{exact:?}"
                );
                judged += 1;
            }
        }
    }
    Ok(judged)
}

pub(crate) const OF_ALL_KINDS: Test = test(
    "targets and sizes are distributed as instrumentation counts them",
    of_all_kinds,
    &[tools],
);
/// Every kind of site of the fixture, each of which was seen often enough.
fn of_all_kinds() -> Result<()> {
    beside_counts("sites.c", 20_000, OVERLAP, 11)
}

pub(crate) const AMONG_OTHERS: Test = test(
    "targets of functions that take different times are nearly so",
    among_others,
    &[tools],
);
/// Calls among other work, whose functions take different times: nearly so.
fn among_others() -> Result<()> {
    beside_counts("optimised.c", 4_000, BEHIND_STALLS, 3)
}
