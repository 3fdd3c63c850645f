//! How long windows take.

mod long;
mod real;

use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use interpreter::{
    Code, DecodeCache, Fetched, Memory, Parameter, Registers, Sink, StopReason, ValueKinds, Window,
    WindowState,
};

use crate::real::{Library, Small, gpr, registers};

/// A loop of the kind that compilers make: loads, sums, a store, a comparison, a branch.
const LOOP: &[u8] = &[
    0x8b, 0x04, 0x8f, // mov eax, [rdi+rcx*4]
    0x0f, 0xaf, 0xc2, // imul eax, edx
    0x01, 0xc6, // add esi, eax
    0x89, 0x34, 0x8f, // mov [rdi+rcx*4], esi
    0x48, 0xff, 0xc1, // inc rcx
    0x48, 0x39, 0xd9, // cmp rcx, rbx
    0x75, 0xed, // jne to the start
];
/// Another that computes with vectors and branches on what it found in them.
const VECTORS: &[u8] = &[
    0x66, 0x0f, 0xef, 0xc0, // pxor xmm0, xmm0
    0xf3, 0x0f, 0x6f, 0x0c, 0x0f, // movdqu xmm1, [rdi+rcx]
    0x66, 0x0f, 0xfe, 0xc1, // paddd xmm0, xmm1
    0x66, 0x0f, 0x74, 0xc8, // pcmpeqb xmm1, xmm0
    0x66, 0x0f, 0xd7, 0xc1, // pmovmskb eax, xmm1
    0x48, 0x83, 0xc1, 0x10, // add rcx, 16
    0x48, 0x39, 0xd9, // cmp rcx, rbx
    0x75, 0xe2, // jne to the start
];
const START: u64 = 0x40_1000;

/// Code at the start address, and the instructions decoded so far.
struct Cached {
    cache: DecodeCache,
    code: &'static [u8],
}

impl Code for Cached {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        let code = self.code;
        let read = |bytes: &mut [u8; 15]| {
            let at = usize::try_from(pc.wrapping_sub(START)).map_err(|_| StopReason::NotMapped)?;
            let rest = code.get(at..).ok_or(StopReason::NotMapped)?;
            let len = rest.len().min(15);
            bytes[..len].copy_from_slice(&rest[..len]);
            Ok(len)
        };
        let instruction = self.cache.get_or_decode(0, pc, read)?;
        Ok(Fetched {
            instruction,
            bias: 0,
            mark: 0,
        })
    }
}

struct Constant;

impl Memory for Constant {
    fn read(&mut self, _: u64, bytes: &mut [u8]) -> bool {
        bytes.fill(3);
        true
    }
}

#[derive(Default)]
struct Sum(u64);

impl Sink for Sum {
    fn value(&mut self, _: u64, _: Parameter, value: Option<u64>) {
        self.0 = self.0.wrapping_add(value.unwrap_or(0));
    }
}

fn window(criterion: &mut Criterion) {
    let mut gpr = [0x1000; 16];
    gpr[1] = 0;
    let registers = Registers::from_sample(gpr, START, 0);
    let window = Window::default();
    for (kind, code) in [("integer", LOOP), ("vector", VECTORS)] {
        let cache = DecodeCache::new(4096);
        let mut code = Cached { cache, code };
        criterion.bench_function(&format!("window of 16 {kind} instructions"), |bencher| {
            bencher.iter(|| {
                let mut sum = Sum::default();
                let outcome = window.run(black_box(&registers), &mut code, &mut Constant, &mut sum);
                assert_eq!(outcome.instructions, 16);
                sum.0
            });
        });
    }
}

/// Windows of the machine's libraries, all of a kind in turn; and how long the one in the middle
/// takes, at its best: other programs on the machine take their part of the rest.
fn libraries(criterion: &mut Criterion) {
    let captures = [
        ("no values", ValueKinds::NONE),
        ("the default values", ValueKinds::default()),
        ("all values", ValueKinds::all()),
    ];
    let mut libraries = Library::all();
    for (kind, vectors) in [("integer", false), ("vector", true)] {
        let starts: Vec<_> = libraries.iter_mut().map(|l| l.starts(vectors)).collect();
        list(kind, &libraries, &starts);
        let count: usize = starts.iter().map(Vec::len).sum();
        let mut group = criterion.benchmark_group(format!("real windows of {kind} code"));
        group.throughput(Throughput::Elements(count as u64));
        for (name, capture) in captures {
            let window = Window {
                capture,
                ..Window::default()
            };
            let mut state = WindowState::new(registers(0));
            let mut run = |library: &mut Library, memory: &mut Small, start: u64| {
                let mut sum = Sum::default();
                state.registers.set_sample(black_box(gpr()), start, 0x246);
                let end = window.run_on(&mut state, library, memory, &mut sum);
                sum.0 + u64::from(end.instructions)
            };
            let mut each: Vec<Duration> = Vec::new();
            for (library, starts) in libraries.iter_mut().zip(&starts) {
                let mut memory = library.memory();
                each.extend(
                    starts
                        .iter()
                        .map(|s| best(|| run(library, &mut memory, *s))),
                );
            }
            each.sort_unstable();
            let middle = each.get(each.len() / 2).copied().unwrap_or_default();
            println!("{kind}, {name}: {count} windows, the median one takes {middle:?}");
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    let mut sum = 0_u64;
                    for (library, starts) in libraries.iter_mut().zip(&starts) {
                        let mut memory = library.memory();
                        for start in starts {
                            sum = sum.wrapping_add(run(library, &mut memory, *start));
                        }
                    }
                    sum
                });
            });
        }
    }
}

/// Adds the windows to the file that `VCPI_WINDOWS` names, for `with_unicorn.py` to run the same.
fn list(kind: &str, libraries: &[Library], starts: &[Vec<u64>]) {
    let Some(path) = std::env::var_os("VCPI_WINDOWS") else {
        return;
    };
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path);
    let mut file = file.expect("the file that VCPI_WINDOWS names can be written");
    for (library, starts) in libraries.iter().zip(starts) {
        for start in starts {
            writeln!(file, "{kind} {} {start:#x}", library.path).expect("there is room");
        }
    }
}

/// The time in the middle.
fn middle(mut each: Vec<Duration>) -> Duration {
    each.sort_unstable();
    each.get(each.len() / 2).copied().unwrap_or_default()
}

/// The time of one call, the best of twenty hundreds.
fn best(mut run: impl FnMut() -> u64) -> Duration {
    let hundred = (0..20).map(|_| {
        let start = Instant::now();
        for _ in 0..100 {
            black_box(run());
        }
        start.elapsed()
    });
    hundred.min().unwrap_or_default() / 100
}

criterion_group!(benches, long::windows, window, libraries);
criterion_main!(benches);
