//! The thread that watches entries.

use std::io;
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

use addresses::{ProcessAddress, ReturnAddress};
use rustc_hash::FxHashMap;
use sampler::{AtEntries, Burst, Miss, Tid, entries, entry_cost};

use super::width::{Kept, Width};
use super::{SeenTarget, Target, Targets, lock};
use machine::place::Pc;

/// From one burst to the next, on average: whatever they show, or the times that count would depend
/// on the program.
const PAUSE: Duration = Duration::from_millis(20);
/// Of a thread's time bursts that are full take at most one part of so many.
const PARTS: u64 = 100;
/// How long the debug registers are left to others that want them.
const YIELDED: Duration = Duration::from_secs(1);
/// What a hit is taken to cost where that cannot be found out, in nanoseconds.
const USUAL_COST: u64 = 2_000;
/// One burst in so many tells vector registers, and how long it lasts at most.
const BURSTS_OF_VECTORS: u32 = 8;
const LONGEST: Duration = Duration::from_millis(100);
/// From its end to the next burst, at least.
const APART: Duration = Duration::from_millis(2);
/// Functions whose widths are remembered.
const MOST_WIDTHS: usize = 1 << 12;

/// Starts it. It ends when nobody looks any more.
pub(super) fn start(
    targets: Targets,
    vectors: Option<AtEntries>,
    seen: SyncSender<SeenTarget>,
) -> io::Result<()> {
    thread::Builder::new()
        .name("entries".to_owned())
        .spawn(move || run(&targets, vectors.as_ref(), &seen))
        .map(drop)
}

fn run(targets: &Targets, vectors: Option<&AtEntries>, seen: &SyncSender<SeenTarget>) {
    let cost = entry_cost().unwrap_or(USUAL_COST);
    tracing::debug!(cost, "nanoseconds of a hit at an entry");
    let mut widths: FxHashMap<Pc, Width> = FxHashMap::default();
    // Where a call returned to that was seen last, by thread and entry.
    let mut sites: FxHashMap<(Tid, ProcessAddress), ReturnAddress> = FxHashMap::default();
    // Half of the calls stop again where they return to.
    let full = cost.saturating_mul(Burst::MOST as u64 * 3 / 2);
    let pause = PAUSE.max(Duration::from_nanos(full.saturating_mul(PARTS)));
    let mut next = Instant::now();
    loop {
        // At random: a program that keeps time is to be met at all of its moments. From one
        // beginning to the next: how long a burst takes hangs on what it sees.
        next = Instant::now().max(next + pause.mul_f64(0.5 + rand::random::<f64>()));
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let target = {
            let all = lock(targets);
            if all.is_empty() {
                None
            } else {
                all.get(rand::random_range(0..all.len())).cloned()
            }
        };
        let Some(target) = target else {
            if is_over(targets) {
                return;
            }
            continue;
        };
        if widths.len() >= MOST_WIDTHS {
            widths.clear();
        }
        if sites.len() >= MOST_WIDTHS {
            sites.clear();
        }
        let mut target = target;
        let place = (target.entry.tid, target.entry.address);
        // Every other burst looks at results as well, of calls from one site.
        let site = sites.get(&place).copied();
        target.entry.returns_to = site.filter(|_| rand::random());
        // Some bursts are for vector registers alone.
        let use_of = target.vectors;
        let tells_some =
            use_of.reads_arguments || (use_of.writes_result && target.entry.returns_to.is_some());
        let is_chosen = tells_some && rand::random_ratio(1, BURSTS_OF_VECTORS);
        let vectors = vectors.filter(|_| is_chosen);
        if !use_of.writes_result && vectors.is_some() {
            target.entry.returns_to = None;
        }
        let begun = Instant::now();
        let judged = if vectors.is_some() {
            let burst = entries(&target.entry, LONGEST, vectors);
            burst.map(|burst| {
                let kept = Kept::all_but_first(&burst);
                (burst, Some(kept))
            })
        } else {
            let width = widths.entry(target.pc).or_default();
            let burst = entries(&target.entry, width.lasts(), None);
            if let Ok(burst) = &burst
                && !burst.calls.is_empty()
                && let Some(to) =
                    burst.calls[rand::random_range(0..burst.calls.len())].return_address
            {
                sites.insert(place, to);
            }
            burst.map(|burst: Burst| {
                let kept = width.judge(&burst, cost);
                (burst, kept)
            })
        };
        let misses = judged.as_ref().err().copied();
        match misses {
            Some(Miss::NoRegister) => thread::sleep(YIELDED),
            Some(Miss::Gone | Miss::OtherCode | Miss::Refused) => {
                let is_it = |of: &Target| (of.entry.tid, of.entry.address) == place;
                lock(targets).retain(|of| !is_it(of));
            }
            _ => {}
        }
        let seen_of = SeenTarget {
            target,
            burst: judged,
            vectors: vectors.map(|_| Vec::new()),
        };
        if seen.send(seen_of).is_err() {
            return;
        }
        if vectors.is_some() {
            // What comes next is not to depend on how soon the burst was full, nor to be taken for
            // what is brought of its last hit.
            thread::sleep(LONGEST.saturating_sub(begun.elapsed()).max(APART));
        }
    }
}

/// Whether the collector is gone.
fn is_over(targets: &Targets) -> bool {
    std::sync::Arc::strong_count(targets) == 1
}
