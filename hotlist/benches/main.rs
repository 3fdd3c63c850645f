//! Time, memory and error of the hotlist beside what else one might take.
//!
//! `cargo bench -p hotlist` prints tables of bytes, errors and least times first, then times with
//! their spread. The others: an exact count in the standard hash map; a published Space-Saving
//! (`asap_sketchlib`) with the most counters that fit into 384 bytes (one at least), and with 16; a
//! published sketch of the Misra-Gries family (`datasketches`) of its smallest size and of 16
//! places; and, as the hardest to beat, a Space-Saving of nothing but an array, with 23 counters in
//! 384 bytes.

#[path = "../tests/streams/mod.rs"]
mod streams;

use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use asap_sketchlib::{DataInput, SpaceSaving};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use datasketches::frequencies::FrequentItemsSketch;
use hotlist::{Config, Eviction, Generator, Hotlist, Method};
use streams::{ALL, Source, ZIPF_VALUES};

/// Events of a stream.
const LENGTH: usize = 100_000;
/// Streams over which an error is the mean.
const RUNS: usize = 20;

/// What summarises a stream.
trait Summary {
    /// One generator serves all lists.
    fn offer(&mut self, value: u64, time: u64, coins: &mut Generator);
    fn estimate(&self, value: u64) -> f64;
}

impl Summary for Hotlist {
    #[inline(always)]
    fn offer(&mut self, value: u64, time: u64, coins: &mut Generator) {
        self.update(value, time, coins);
    }

    fn estimate(&self, value: u64) -> f64 {
        let tuple = self.tuples().find(|tuple| tuple.value == value);
        tuple.map_or(0.0, |tuple| tuple.estimate())
    }
}

impl Summary for HashMap<u64, u64> {
    #[inline(always)]
    fn offer(&mut self, value: u64, _time: u64, _coins: &mut Generator) {
        *self.entry(value).or_default() += 1;
    }

    fn estimate(&self, value: u64) -> f64 {
        self.get(&value).map_or(0.0, |&count| count as f64)
    }
}

impl Summary for SpaceSaving {
    #[inline(always)]
    fn offer(&mut self, value: u64, _time: u64, _coins: &mut Generator) {
        self.update(&DataInput::U64(value));
    }

    fn estimate(&self, value: u64) -> f64 {
        SpaceSaving::estimate(self, &DataInput::U64(value)) as f64
    }
}

impl Summary for FrequentItemsSketch<u64> {
    #[inline(always)]
    fn offer(&mut self, value: u64, _time: u64, _coins: &mut Generator) {
        self.update(value);
    }

    fn estimate(&self, value: u64) -> f64 {
        FrequentItemsSketch::estimate(self, &value) as f64
    }
}

/// Space-Saving without an index: a new value takes the smallest counter and goes on from it.
struct SpaceSavingArray {
    counters: [(u64, u64); 23],
    used: usize,
}

impl Summary for SpaceSavingArray {
    #[inline(always)]
    fn offer(&mut self, value: u64, _time: u64, _coins: &mut Generator) {
        let used = &mut self.counters[..self.used];
        if let Some(counter) = used.iter_mut().find(|counter| counter.0 == value) {
            counter.1 += 1;
        } else if self.used < self.counters.len() {
            self.counters[self.used] = (value, 1);
            self.used += 1;
        } else if let Some(least) = self.counters.iter_mut().min_by_key(|counter| counter.1) {
            *least = (value, least.1 + 1);
        }
    }

    fn estimate(&self, value: u64) -> f64 {
        let used = &self.counters[..self.used];
        used.iter()
            .find(|counter| counter.0 == value)
            .map_or(0.0, |counter| counter.1 as f64)
    }
}

fn by_weight() -> Config {
    Config::default()
        .method(Method::Counting)
        .eviction(Eviction::ByWeight)
}

/// Bytes of a summary after a stream, in itself and on the heap.
fn bytes<S: Summary>(make: impl Fn() -> S, stream: &[u64]) -> usize {
    let mut size = 0;
    let measured = allocation_counter::measure(|| {
        let summary = fed(make(), stream, &mut Generator::new(8));
        size = size_of_val(&summary);
        std::mem::forget(summary);
    });
    size + usize::try_from(measured.bytes_current).unwrap_or_default()
}

fn fed<S: Summary>(mut summary: S, stream: &[u64], coins: &mut Generator) -> S {
    for (time, &value) in (0..).zip(stream) {
        summary.offer(value, time, coins);
    }
    summary
}

/// Mean error of the shares of the five most frequent values, in points.
fn error<S: Summary>(make: impl Fn() -> S, source: &Source) -> f64 {
    let mut random = Generator::new(9);
    let mut coins = Generator::new(8);
    let mut sum = 0.0;
    for _ in 0..RUNS {
        let stream = source.draw(LENGTH, &mut random);
        let mut exact = vec![0_u64; ZIPF_VALUES];
        stream.iter().for_each(|&value| exact[value as usize] += 1);
        let mut values: Vec<_> = (0..ZIPF_VALUES as u64).collect();
        values.sort_by_key(|&value| std::cmp::Reverse(exact[value as usize]));
        let summary = fed(make(), &stream, &mut coins);
        let top = values
            .iter()
            .take(5)
            .filter(|&&value| exact[value as usize] > 0);
        let errors: Vec<_> = top
            .map(|&value| (summary.estimate(value) - exact[value as usize] as f64).abs())
            .collect();
        sum += errors.iter().sum::<f64>() / errors.len() as f64;
    }
    100.0 * sum / RUNS as f64 / LENGTH as f64
}

/// Nanoseconds per update, the least of many runs: what a busy machine adds is left out.
fn least_time<S: Summary>(make: impl Fn() -> S, stream: &[u64]) -> f64 {
    let mut coins = Generator::new(8);
    let mut time = || {
        let summary = make();
        let start = Instant::now();
        black_box(fed(summary, black_box(stream), &mut coins));
        start.elapsed().as_secs_f64()
    };
    (0..100).map(|_| time()).fold(f64::INFINITY, f64::min) * 1e9 / LENGTH as f64
}

/// The most counters of the published Space-Saving in 384 bytes, or one.
fn counters_that_fit() -> usize {
    let stream: Vec<u64> = (0..1_000).collect();
    let fits = |&capacity: &usize| bytes(|| SpaceSaving::with_capacity(capacity), &stream) <= 384;
    (1..64).take_while(fits).last().unwrap_or(1)
}

fn misra_gries(places: usize) -> FrequentItemsSketch<u64> {
    FrequentItemsSketch::new(places).expect("a power of two from 8 on is a size")
}

macro_rules! for_each_summary {
    ($do:ident) => {
        let few = counters_that_fit();
        $do!("hotlist".to_owned(), || Hotlist::new(&Config::default()));
        $do!("hotlist, counting, by weight".to_owned(), || Hotlist::new(
            &by_weight()
        ));
        $do!("exact hash map".to_owned(), HashMap::<u64, u64>::new);
        $do!(format!("Space-Saving, {few} counters"), || {
            SpaceSaving::with_capacity(few)
        });
        $do!("Space-Saving, 16 counters".to_owned(), || {
            SpaceSaving::with_capacity(16)
        });
        $do!("Misra-Gries, 8 places".to_owned(), || misra_gries(8));
        $do!("Misra-Gries, 16 places".to_owned(), || misra_gries(16));
        $do!("Space-Saving array, 23 counters".to_owned(), || {
            SpaceSavingArray {
                counters: [(0, 0); 23],
                used: 0,
            }
        });
    };
}

fn print_heading(what: &str, first: &str) {
    println!("{what}\n");
    println!(
        "| |{first} {} |",
        ALL.map(|stream| stream.to_string()).join(" | ")
    );
    println!(
        "|---|{}",
        "---|".repeat(ALL.len() + usize::from(!first.is_empty()))
    );
}

fn print_tables() {
    let sources = ALL.map(Source::new);
    let mut random = Generator::new(10);
    let streams = sources
        .each_ref()
        .map(|source| source.draw(LENGTH, &mut random));
    let zipf = &streams[3];
    print_heading(
        "Bytes after Zipf(1.5), and mean error of the top-5 shares in points:",
        " bytes |",
    );
    macro_rules! row {
        ($name:expr, $make:expr) => {
            let errors = sources
                .each_ref()
                .map(|source| format!("{:.2}", error($make, source)));
            println!(
                "| {} | {} | {} |",
                $name,
                bytes($make, zipf),
                errors.join(" | ")
            );
        };
    }
    for_each_summary!(row);
    println!();
    print_heading("Nanoseconds per update, the least of 100 runs:", "");
    macro_rules! row {
        ($name:expr, $make:expr) => {
            let times = streams
                .each_ref()
                .map(|stream| format!("{:.1}", least_time($make, stream)));
            println!("| {} | {} |", $name, times.join(" | "));
        };
    }
    for_each_summary!(row);
    println!();
}

fn time_updates(criterion: &mut Criterion) {
    for kind in ALL {
        let stream = Source::new(kind).draw(LENGTH, &mut Generator::new(10));
        let mut group = criterion.benchmark_group(kind.to_string());
        group.throughput(Throughput::Elements(LENGTH as u64));
        macro_rules! time {
            ($name:expr, $make:expr) => {
                group.bench_function(BenchmarkId::from_parameter($name), |bencher| {
                    let make = $make;
                    let mut coins = Generator::new(8);
                    bencher.iter_batched(
                        make,
                        |summary| black_box(fed(summary, black_box(&stream), &mut coins)),
                        BatchSize::LargeInput,
                    );
                });
            };
        }
        for_each_summary!(time);
    }
}

fn main() {
    print_tables();
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    time_updates(&mut criterion);
    criterion.final_summary();
}
