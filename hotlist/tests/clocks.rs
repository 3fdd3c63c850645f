//! Intervals of shares hold the truth as often as they say, with samples as vcpid's clocks take
//! them and windows as it counts them: a model of both, of all rates, of values that last for
//! milliseconds to seconds, in one thread and in several, and of values that keep the clock's time.
//!
//! `SHOW=1 cargo test -p hotlist --test clocks -- --nocapture` prints the table, of 200 recordings
//! in each cell.

use hotlist::{Config, Draws, Generator, Hotlist, Sum};

/// How a clock draws intervals, which are uniform on 1/2 to 3/2 of the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Clock {
    /// Engine `bpf`, `cpu-clock`: three times a second, two by two as long as two means.
    ThreeASecond,
    /// Engine `ring`: the same a hundred times a second, at the most at each sample.
    HundredASecond,
    /// `timer`: at each sample, on its own. All windows count once.
    Each,
}

/// Which value a phase has.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Values {
    Constant,
    Alternating,
    Two,
    Zipf,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    clock: Clock,
    rate: f64,
    threads: usize,
    values: Values,
    /// Seconds of a phase of a thread; 0: each moment has a value of its own.
    phase: f64,
    /// Probability that a window comes by, and is not refused for its start.
    accepted: f64,
}

/// Processors.
const CPUS: usize = 2;
/// Seconds that a thread runs until another one does, on average.
const SLICE: f64 = 0.003;

struct Thread {
    seed: u64,
    offset: f64,
    /// Time that it has run.
    ran: f64,
}

fn drawn(values: Values, random: &mut Generator) -> u64 {
    match values {
        Values::Constant => 1,
        Values::Alternating | Values::Two => 1 + random.next_u64() % 2,
        // Zipf's law, nearly, of 24 values.
        Values::Zipf => (25_f64.powf(random.uniform()) as u64).clamp(1, 24),
    }
}

/// The value of a thread that has run for so long.
fn value(cell: &Cell, thread: &Thread, ran: f64, random: &mut Generator) -> u64 {
    if cell.phase == 0.0 {
        return drawn(cell.values, random);
    }
    of_phase(cell, thread, ((ran + thread.offset) / cell.phase) as u64)
}

fn of_phase(cell: &Cell, thread: &Thread, phase: u64) -> u64 {
    match cell.values {
        Values::Alternating => 1 + phase % 2,
        values => {
            let mut random = Generator::new(thread.seed ^ phase.wrapping_mul(0x9e37_79b9));
            random.next_u64();
            drawn(values, &mut random)
        }
    }
}

/// The share of time that the value 1 has.
fn truth(cell: &Cell, threads: &[Thread]) -> f64 {
    let all: f64 = threads.iter().map(|thread| thread.ran).sum();
    if cell.phase == 0.0 {
        return match cell.values {
            Values::Constant => 1.0,
            Values::Alternating | Values::Two => 0.5,
            Values::Zipf => 2_f64.ln() / 25_f64.ln(),
        };
    }
    let mut first = 0.0;
    for thread in threads {
        let (mut at, end) = (thread.offset, thread.offset + thread.ran);
        while at < end {
            let phase = (at / cell.phase + 1e-9) as u64;
            let next = ((phase + 1) as f64 * cell.phase).min(end);
            if of_phase(cell, thread, phase) == 1 {
                first += next - at;
            }
            at = next.max(at + 1e-9);
        }
    }
    first / all
}

/// The true share of the value 1, and its interval, in percent.
fn record(cell: &Cell, random: &mut Generator) -> (f64, (f64, f64)) {
    let mut threads: Vec<Thread> = (0..cell.threads)
        .map(|_| Thread {
            seed: random.next_u64(),
            offset: random.uniform() * 2.0 * cell.phase,
            ran: 0.0,
        })
        .collect();
    // Some 8,000 samples, but no less than four phases of a thread.
    let wall = (8_000.0 / cell.rate).max(6.0);
    let mut events: Vec<(f64, u64, u32)> = Vec::new();
    let mut taken = 0_u32;
    for cpu in 0..CPUS.min(cell.threads) {
        let mine: Vec<usize> = (cpu..cell.threads).step_by(CPUS).collect();
        let mean = 1.0 / cell.rate;
        let in_force = match cell.clock {
            Clock::ThreeASecond => cell.rate / 3.0,
            Clock::HundredASecond => (cell.rate / 100.0).max(1.0),
            Clock::Each => 1.0,
        };
        let (mut turn, mut began) = (0, 0.0);
        let mut slice = SLICE * 2.0 * random.uniform();
        let (mut interval, mut second, mut left) = (0.0, None, 0_u64);
        let mut time = random.uniform() * mean;
        loop {
            if left == 0 {
                let part = match second.take() {
                    Some(part) if cell.clock != Clock::Each => part,
                    _ => {
                        let part = random.uniform();
                        second = Some(1.0 - part);
                        part
                    }
                };
                interval = mean * (0.5 + part);
                left = 1;
                while random.uniform() > 1.0 / in_force {
                    left += 1;
                }
            }
            left -= 1;
            time += interval;
            while time.min(wall) >= began + slice {
                threads[mine[turn]].ran += slice;
                began += slice;
                slice = SLICE * 2.0 * random.uniform();
                turn = (turn + 1) % mine.len();
            }
            if time >= wall {
                threads[mine[turn]].ran += wall - began;
                break;
            }
            taken += 1;
            let means = match cell.clock {
                Clock::Each => 1.0,
                _ => interval / mean,
            };
            let times = (means + random.uniform()) as u32;
            if times > 0 && random.uniform() <= cell.accepted {
                let thread = &threads[mine[turn]];
                let value = value(cell, thread, thread.ran + time - began, random);
                events.push((time, value, times));
            }
        }
    }
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut list = Hotlist::new(&Config::default().precise());
    for &(time, value, times) in &events {
        for again in 0..times {
            list.update_in_window(value, (time * 1e9) as u64, again == 0, random);
        }
    }
    let windows: u32 = events.iter().map(|(.., times)| times).sum();
    // As vcpid tells it: what a draw at each sample, or the coin that rounds, leaves of the part
    // that comes by.
    let even = match cell.clock {
        Clock::Each => 1.0 - 1.0 / 12.0,
        _ => 13.0 / 12.0 / (5.0 / 4.0),
    } * f64::from(windows)
        / f64::from(taken.max(1));
    let mut sum = Sum::new(Sum::<u64>::MOST);
    sum.add(&list, random);
    let samples = sum.events();
    let draws = Draws {
        samples,
        windows: u64::from(windows),
        reached: samples,
        even,
    };
    let tuple = sum.tuples().find(|tuple| tuple.value == 1);
    let interval = tuple.map_or((0.0, 0.0), |tuple| sum.interval(&tuple, &draws));
    (100.0 * truth(cell, &threads), interval)
}

/// How many of so many recordings have an interval that holds the truth, in percent.
fn held(cell: &Cell, runs: u32) -> f64 {
    let mut random = Generator::new(11);
    let held = (0..runs).filter(|_| {
        let (truth, (low, high)) = record(cell, &mut random);
        low - 1e-9 <= truth && truth <= high + 1e-9
    });
    100.0 * held.count() as f64 / f64::from(runs)
}

/// As in a hot loop, of whose windows half are turned away.
const ACCEPTED: f64 = 0.5;
const PHASES: [f64; 5] = [0.0, 0.003, 0.03, 0.3, 1.5];

/// All of them, or those that take least.
fn cells(clock: Clock, all: bool) -> Vec<Cell> {
    let (rates, threads) = match all {
        true => (&[200.0, 1000.0, 4000.0][..], &[1, 3, 10][..]),
        false => (&[200.0, 1000.0][..], &[1, 3][..]),
    };
    let mut cells = Vec::new();
    for &rate in rates {
        for &threads in threads {
            for values in [
                Values::Constant,
                Values::Alternating,
                Values::Two,
                Values::Zipf,
            ] {
                for phase in PHASES {
                    // There is nothing to alternate, or to last.
                    let none = match values {
                        Values::Constant => phase > 0.0,
                        Values::Alternating => phase == 0.0,
                        Values::Two | Values::Zipf => false,
                    };
                    if !none {
                        cells.push(Cell {
                            clock,
                            rate,
                            threads,
                            values,
                            phase,
                            accepted: ACCEPTED,
                        });
                    }
                }
            }
        }
    }
    cells
}

/// Values that take turns in step with the clock: two of them take from half a mean interval to
/// three, or nearly so. Short and long windows: some are refused, or none.
fn in_step(clock: Clock, all: bool) -> Vec<Cell> {
    let rates = match all {
        true => &[200.0, 1000.0, 4000.0][..],
        false => &[1000.0][..],
    };
    let mut cells = Vec::new();
    for &rate in rates {
        for accepted in [ACCEPTED, 1.0] {
            for turns in [0.25, 1.0 / 3.0, 0.5, 0.51, 0.75, 1.0, 1.5] {
                cells.push(Cell {
                    clock,
                    rate,
                    threads: 1,
                    values: Values::Alternating,
                    phase: turns / rate,
                    accepted,
                });
            }
        }
    }
    cells
}

fn check(clock: Clock, cells: fn(Clock, bool) -> Vec<Cell>, least: f64) {
    let show = std::env::var_os("SHOW").is_some();
    let runs = if show { 200 } else { 100 };
    // Four standard deviations of a coverage of 95 %.
    let chance = 400.0 * (0.95 * 0.05 / f64::from(runs)).sqrt();
    let mut low = Vec::new();
    for cell in cells(clock, show) {
        let held = held(&cell, runs);
        if show {
            println!(
                "{clock:?} {:>4}/s {:>2} threads {:<11} {:>7.5} s {:>3} accepted: {held:.1} %",
                cell.rate,
                cell.threads,
                format!("{:?}", cell.values),
                cell.phase,
                cell.accepted,
            );
        }
        if held < least - chance {
            low.push((cell, held));
        }
    }
    assert!(low.is_empty(), "{low:#?}");
}

/// Engine `bpf`, clock `cpu-clock`.
#[test]
fn three_a_second() {
    check(Clock::ThreeASecond, cells, 93.0);
}

/// Engine `ring`.
#[test]
fn a_hundred_a_second() {
    check(Clock::HundredASecond, cells, 93.0);
}

/// Clock `timer`.
#[test]
fn each() {
    check(Clock::Each, cells, 93.0);
}

/// A program that keeps the clock's time is not met at the same place again and again: intervals
/// are wide enough apart for that, whether they are in force for a third of a second or for one
/// sample. (The engine `ring` draws a few samples apart, two by two as long as two means, which
/// keeps more in step: `docs/decisions/060-windows-count-by-interval.md`.)
#[test]
fn out_of_step() {
    for clock in [Clock::ThreeASecond, Clock::Each] {
        check(clock, in_step, 90.0);
    }
}
