//! How long a window takes.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use interpreter::{
    Code, DecodeCache, Fetched, Memory, Parameter, Registers, Sink, StopReason, Window,
};

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
const START: u64 = 0x40_1000;

struct Cached(DecodeCache);

impl Code for Cached {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        let read = |bytes: &mut [u8; 15]| {
            let at = usize::try_from(pc.wrapping_sub(START)).map_err(|_| StopReason::NotMapped)?;
            let rest = LOOP.get(at..).ok_or(StopReason::NotMapped)?;
            let len = rest.len().min(15);
            bytes[..len].copy_from_slice(&rest[..len]);
            Ok(len)
        };
        let instruction = self.0.get_or_decode(0, pc, read)?;
        Ok(Fetched {
            instruction,
            bias: 0,
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
    let mut code = Cached(DecodeCache::new(4096));
    let mut gpr = [0x1000; 16];
    gpr[1] = 0;
    let registers = Registers::from_sample(gpr, START, 0);
    let window = Window::default();
    criterion.bench_function("window of 16 integer instructions", |bencher| {
        bencher.iter(|| {
            let mut sum = Sum::default();
            let outcome = window.run(black_box(&registers), &mut code, &mut Constant, &mut sum);
            assert_eq!(outcome.instructions, 16);
            sum.0
        });
    });
}

criterion_group!(benches, window);
criterion_main!(benches);
