//! Code that can have been written: brought along by plans, and checked before it is decoded.

use interpreter::{
    Code, DecodeCache, Fetched, Limits, Memory, Plan, Planned, Planner, Registers, Request,
    Snapshot, Sources, StopReason, Window, evaluate,
};

use crate::Recorder;
use crate::program::{BIAS, LIMITS, Program, Random, START, World, registers, sources};

/// Code of which only what a sample brought is known.
struct Sampled<'a> {
    cache: &'a mut DecodeCache,
    snapshot: &'a Snapshot,
}

impl Code for Sampled<'_> {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        let code = self.snapshot.from_address(pc);
        if code.is_empty() {
            return Err(StopReason::AnonymousCode);
        }
        let instruction = self.cache.get_sampled(1, pc.wrapping_sub(BIAS), code)?;
        Ok(Fetched {
            instruction,
            bias: BIAS,
            mark: 0,
        })
    }
}

/// Memory that holds the code of a program; the rest is a world.
struct Process<'a> {
    code: &'a [u8],
    world: World,
}

impl Memory for Process<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        let at = address.wrapping_sub(START + BIAS);
        let within = usize::try_from(at).ok().and_then(|at| {
            let rest = self.code.get(at..)?;
            rest.get(..bytes.len())
        });
        match within {
            Some(code) => {
                bytes.copy_from_slice(code);
                true
            }
            None => self.world.read(address, bytes),
        }
    }
}

fn plan(code: &mut dyn Code, limits: Limits) -> Planned {
    let request = Request {
        changeable: Some(&mut |pc| pc >= START + BIAS),
        limits,
        ..Request::default()
    };
    Planner::default()
        .plan(START + BIAS, code, request)
        .expect("there is code at the start")
}

/// What a sample of the process brings.
fn sample(process: &mut Process<'_>, plan: &Plan, sources: &Sources) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let mut read = |address, bytes: &mut [u8]| process.read(address, bytes);
    evaluate(plan, sources, &mut read, &mut snapshot);
    snapshot
}

const NOTHING: World = World {
    seed: 0,
    missing: 1,
};

/// Whole instructions are brought along in few pieces, none of more than 128 bytes, before the loads
/// that they do.
#[test]
fn pieces_of_code() {
    // je past the next 40 bytes; add rax, 1 (ten times); mov rax, [rdi]; then 20 nops of 10 bytes
    let mut bytes = vec![0x74, 40];
    bytes.extend([0x48, 0x83, 0xc0, 1].repeat(10));
    bytes.extend([0x48, 0x8b, 0x07]);
    bytes.extend([0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0].repeat(20));
    let planned = plan(&mut Program::new(&bytes), LIMITS);
    assert_eq!(
        planned.plan.to_string(),
        "#0 42 bytes at bias + 0x401000\n\
         #1 123 bytes at bias + 0x40102a\n\
         #2 20 bytes at bias + 0x4010a5\n\
         #3 8 bytes at rdi"
    );
    assert_eq!(planned.account.code_dropped, 0);
    // With little room the code near the start comes first.
    let tight = Limits {
        bytes: 10,
        ..LIMITS
    };
    let planned = plan(&mut Program::new(&bytes), tight);
    assert_eq!(
        planned.plan.to_string(),
        "#0 6 bytes at bias + 0x401000\n#1 3 bytes at bias + 0x40102a"
    );
    assert!(planned.account.code_dropped > 0);
}

/// No code is asked for that cannot have been written.
#[test]
fn only_what_may_have_changed() {
    // call +2; (nops); jmp to itself
    let bytes = [0xe8, 2, 0, 0, 0, 0x90, 0x90, 0xeb, 0xfe];
    let request = Request {
        changeable: Some(&mut |pc| pc != START + BIAS),
        ..Request::default()
    };
    let planned = Planner::default()
        .plan(START + BIAS, &mut Program::new(&bytes), request)
        .expect("there is code at the start");
    assert_eq!(planned.plan.to_string(), "#0 2 bytes at bias + 0x401007");
}

/// A plan that knows the first instruction alone asks for what follows, last and up to the end of
/// the page, and so the next one knows more.
#[test]
fn plans_grow() {
    // 16 times: mov rax, [rax]; jmp +13 and 13 bytes that are skipped
    let bytes = [0x48, 0x8b, 0x00, 0xeb, 13]
        .map(|byte| [byte].to_vec())
        .concat();
    let block = [bytes, vec![0xcc; 13]].concat();
    let bytes = block.repeat(16);
    let mut process = Process {
        code: &bytes,
        world: World {
            seed: 1,
            missing: 0,
        },
    };
    let sources = sources(&mut Random(3));
    let mut cache = DecodeCache::new(256);
    let mut snapshot = Snapshot::default();
    assert!(snapshot.push(START + BIAS, &bytes[..3]));
    let mut known = Vec::new();
    for _ in 0..6 {
        let mut code = Sampled {
            cache: &mut cache,
            snapshot: &snapshot,
        };
        let planned = plan(&mut code, LIMITS);
        known.push(planned.account.code);
        snapshot = sample(&mut process, &planned.plan, &sources);
    }
    assert_eq!(known[0], 1);
    assert!(known.is_sorted(), "{known:?}");
    assert_eq!(known.last(), Some(&16), "{known:?}");

    // At the end of a page no more is asked for than the page has.
    let mut cut = Snapshot::default();
    assert!(cut.push(START + BIAS, &[0xe9, 0xf6, 0x0f, 0, 0]));
    let mut code = Sampled {
        cache: &mut cache,
        snapshot: &cut,
    };
    assert_eq!(
        plan(&mut code, LIMITS).plan.to_string(),
        "#0 5 bytes at bias + 0x401000\n#1 5 bytes at bias + 0x401ffb"
    );
}

/// Code that is rewritten between two samples is interpreted as it is at each of them: with a plan
/// and a decode cache that have seen nothing but the older one.
#[test]
fn rewritten_code() {
    let add = [0x83, 0xc0, 5, 0xeb, 1, 0xcc, 0x01, 0xc0]; // add eax, 5; jmp +1; (int3;) add eax, eax
    let sub = [0x83, 0xe8, 5, 0xeb, 1, 0xcc, 0x29, 0xc8]; // sub eax, 5; jmp +1; (int3;) sub eax, ecx
    let mut sources = sources(&mut Random(1));
    (sources.gpr[0], sources.gpr[1]) = (100, 7);
    let planned = plan(&mut Program::new(&add), LIMITS);
    let mut cache = DecodeCache::new(64);
    for (code, expected) in [(add, 210), (sub, 88), (sub, 88), (add, 210)] {
        let mut process = Process {
            code: &code,
            world: NOTHING,
        };
        let snapshot = sample(&mut process, &planned.plan, &sources);
        let mut code = Sampled {
            cache: &mut cache,
            snapshot: &snapshot,
        };
        let window = Window::default();
        let mut sink = Recorder::default();
        let start = registers(&sources, 0);
        let outcome = window.run(&start, &mut code, &mut snapshot.clone(), &mut sink);
        assert_eq!(outcome.instructions, 3);
        assert_eq!(outcome.stop, StopReason::AnonymousCode);
        assert_eq!(outcome.registers.gpr[0].get(4), Some(expected));
    }
}

fn end_of(
    start: &Registers,
    code: &mut dyn Code,
    memory: &mut dyn Memory,
) -> (u32, StopReason, Recorder) {
    let mut recorder = Recorder::default();
    let outcome = Window::default().run(start, code, memory, &mut recorder);
    (outcome.instructions, outcome.stop, recorder)
}

/// Of random programs, a window with the code and memory of a snapshot alone is the one with the
/// code at hand, or ends sooner for want of code; most are whole.
#[test]
fn snapshots_have_the_code() {
    let mut whole = 0;
    for seed in 0..2000 {
        let mut random = Random(seed);
        let mut program = Program::random(&mut random, true);
        let sources = sources(&mut random);
        let bytes = program.bytes().to_vec();
        let mut process = Process {
            code: &bytes,
            world: World { seed, missing: 0 },
        };
        let planned = plan(&mut program, LIMITS);
        let mut snapshot = sample(&mut process, &planned.plan, &sources);
        let start = registers(&sources, 0);
        let (steps, stop, told) = end_of(&start, &mut program, &mut snapshot.clone());
        let mut cache = DecodeCache::new(64);
        let mut code = Sampled {
            cache: &mut cache,
            snapshot: &snapshot.clone(),
        };
        let (own_steps, own_stop, own) = end_of(&start, &mut code, &mut snapshot);
        let both = own.told.len().min(told.told.len());
        assert_eq!(own.told[..both], told.told[..both], "seed {seed}");
        // A program may go where a plan without destinations does not; and where it ends, what the
        // snapshot has from there on is code, too.
        let shorter = own_steps < steps && own_stop == StopReason::AnonymousCode;
        let same = (own_steps, own_stop) == (steps, stop);
        assert!(
            shorter || same || stop == StopReason::NotMapped,
            "seed {seed}"
        );
        whole += u32::from(same);
    }
    assert!(whole > 1000, "{whole} of 2000");
}
