//! Windows of up to some hundred instructions, by handlers and by prepared traces, side by side.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
use interpreter::{Traces, ValueKinds, Window, WindowState};

use crate::real::{Library, Small, gpr, registers};
use crate::{Sum, middle};

/// Instructions of a window.
const LENGTHS: [u32; 3] = [16, 64, 200];
/// Windows of a library.
const WINDOWS: usize = 60;
/// Runs of a window that are timed at once, and how often.
const RUNS: u32 = 20;
const ROUNDS: usize = 15;

/// Both ways to run a window.
#[derive(Clone, Copy)]
enum Way {
    Handlers,
    Traces,
}

/// Prints what an instruction takes by handlers and by traces: of each window at its best, the
/// median of the windows. The two are timed in turn, so that what else the machine does meets both.
pub(crate) fn windows(_: &mut Criterion) {
    let mut libraries = Library::of_programs();
    for length in LENGTHS {
        for (name, capture) in [
            ("no values", ValueKinds::NONE),
            ("the default values", ValueKinds::default()),
        ] {
            let window = Window {
                max_instructions: length,
                capture,
            };
            let mut each: [Vec<Duration>; 2] = Default::default();
            for library in &mut libraries {
                for start in library.long_starts(length, WINDOWS) {
                    let best = of_window(window, library, start);
                    for (each, best) in each.iter_mut().zip(best) {
                        each.push(best / (length * RUNS / 16));
                    }
                }
            }
            let count = each[0].len();
            let [handlers, traces] = each.map(|each| middle(each).as_secs_f64() * 1e9 / 16.0);
            println!(
                "{count} windows of {length} instructions, {name}: an instruction takes \
                 {handlers:.1} ns by handlers, {traces:.1} ns by traces, {:.2} of it",
                traces / handlers
            );
        }
    }
}

/// The best time of so many runs of a window, by handlers and by traces.
fn of_window(window: Window, library: &mut Library, start: u64) -> [Duration; 2] {
    let mut memory = library.memory();
    let mut state = WindowState::new(registers(0));
    let mut traces = Traces::new(1024);
    let mut best = [Duration::MAX; 2];
    for _ in 0..ROUNDS {
        for (best, way) in best.iter_mut().zip([Way::Handlers, Way::Traces]) {
            let begun = Instant::now();
            for _ in 0..RUNS {
                let work = (&mut state, &mut traces);
                black_box(run(window, way, library, &mut memory, start, work));
            }
            *best = begun.elapsed().min(*best);
        }
    }
    best
}

/// Pointers in every register, to data at different places of their pages.
fn apart() -> [u64; 16] {
    let mut all = gpr();
    for (pointer, i) in all.iter_mut().zip(0..) {
        *pointer += 0x1_0000 + 0x128 * i;
    }
    all
}

fn run(
    window: Window,
    way: Way,
    library: &mut Library,
    memory: &mut Small,
    start: u64,
    (state, traces): (&mut WindowState, &mut Traces),
) -> u64 {
    let mut sum = Sum::default();
    state.registers.set_sample(black_box(apart()), start, 0x246);
    let end = match way {
        Way::Handlers => window.run_on(state, library, memory, &mut sum),
        Way::Traces => window.run_traced(state, traces, library, memory, &mut sum),
    };
    sum.0 + u64::from(end.instructions)
}
