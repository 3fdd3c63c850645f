//! What is on the way of every sample allocates nothing.

use allocation_counter::measure;
use interpreter::{
    Code, DecodeCache, Fetched, Memory, Parameter, Pieces, Registers, Sink, StopReason, Traces,
    ValueKinds, Window, WindowState,
};

const START: u64 = 0x40_1000;

/// Loads, stores, a vector, a call through a register and back, a comparison, a branch.
const CODE: &[u8] = &[
    0x8b, 0x04, 0x8f, // mov eax, [rdi+rcx*4]
    0x01, 0xc6, // add esi, eax
    0x89, 0x34, 0x8f, // mov [rdi+rcx*4], esi
    0xf3, 0x0f, 0x6f, 0x07, // movdqu xmm0, [rdi]
    0x66, 0x0f, 0xfe, 0xc0, // paddd xmm0, xmm0
    0x0f, 0x11, 0x47, 0x10, // movups [rdi+16], xmm0
    0xff, 0xd2, // call rdx
    0x48, 0x39, 0xd9, // cmp rcx, rbx
    0x75, 0xe5, // jne to the start
    0x90, // nop
    0xc3, // ret: what is called
];
const CALLED: u64 = START + CODE.len() as u64 - 1;

/// The code, decoded through a cache from the image or as sampled.
struct Cached {
    cache: DecodeCache,
    sampled: bool,
}

impl Code for Cached {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        let at = usize::try_from(pc.wrapping_sub(START)).map_err(|_| StopReason::NotMapped)?;
        let rest = CODE.get(at..).ok_or(StopReason::NotMapped)?;
        let instruction = if self.sampled {
            self.cache.get_sampled(0, pc, rest)?
        } else {
            self.cache.get_or_decode(0, pc, |bytes| {
                let len = rest.len().min(bytes.len());
                bytes[..len].copy_from_slice(&rest[..len]);
                Ok(len)
            })?
        };
        Ok(Fetched {
            instruction,
            bias: 0,
            mark: 0,
        })
    }

    fn keeps(&self) -> bool {
        true
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
struct Count(u64);

impl Sink for Count {
    fn value(&mut self, _: u64, _: Parameter, _: Option<u64>) {
        self.0 += 1;
    }
}

fn gpr() -> [u64; 16] {
    let mut gpr = [0x1000; 16];
    (gpr[1], gpr[2]) = (0, CALLED);
    gpr
}

/// Windows allocate nothing once their instructions are decoded, whatever they capture; a state is
/// made without allocation, too.
#[test]
fn windows() {
    for sampled in [false, true] {
        let mut code = Cached {
            cache: DecodeCache::new(64),
            sampled,
        };
        for capture in [ValueKinds::NONE, ValueKinds::default(), ValueKinds::all()] {
            let window = Window {
                capture,
                ..Window::default()
            };
            let mut count = Count::default();
            let mut end = None;
            let start = Registers::from_sample(gpr(), START, 0);
            window.run(&start, &mut code, &mut Constant, &mut count);
            let counted = measure(|| {
                let mut state = WindowState::new(start.clone());
                for _ in 0..10 {
                    state.registers.set_sample(gpr(), START, 0);
                    end = Some(window.run_on(&mut state, &mut code, &mut Constant, &mut count));
                }
            });
            assert_eq!(counted.count_total, 0, "{capture}");
            let mut traces = Traces::new(64);
            let counted = measure(|| {
                let mut state = WindowState::new(start.clone());
                for _ in 0..10 {
                    state.registers.set_sample(gpr(), START, 0);
                    let (code, traces) = (&mut code, &mut traces);
                    window.run_traced(&mut state, traces, code, &mut Constant, &mut count);
                }
            });
            assert_eq!(counted.count_total, 0, "{capture}, by traces");
            assert_eq!(end.map(|end| end.instructions), Some(16));
            assert_eq!(count.0 > 0, capture != ValueKinds::NONE);
        }
    }
}

/// Lines of memory, and nothing else.
struct Brought<'a>(Pieces<'a>, u32);

impl Memory for Brought<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        let held = self.0.bytes(address, bytes.len());
        self.1 += u32::from(held.is_some());
        held.inspect(|held| bytes.copy_from_slice(held)).is_some()
    }
}

/// Neither does what a handler brings: pieces that are taken from its record, and served from.
#[test]
fn pieces() {
    let mut code = Cached {
        cache: DecodeCache::new(64),
        sampled: false,
    };
    let mut state = WindowState::new(Registers::from_sample(gpr(), START, 0));
    let line = [3; 64];
    let mut loads = 0;
    let window = Window::default();
    window.run_on(&mut state, &mut code, &mut Constant, &mut Count::default());
    let counted = measure(|| {
        state.registers.set_sample(gpr(), START, 0);
        let mut pieces = Pieces::default();
        for index in 0..80 {
            pieces.push(0x1000 + 64 * index, &line);
        }
        pieces.open();
        let mut memory = Brought(pieces, 0);
        window.run_on(&mut state, &mut code, &mut memory, &mut Count::default());
        loads = memory.1;
    });
    assert_eq!(counted.count_total, 0);
    assert!(loads > 0);
}
