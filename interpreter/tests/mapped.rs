//! Memory as it is mapped: pages at two addresses, and pages that may not be accessed.

use std::collections::HashMap;

use interpreter::{
    Access, Code, CodeMemory, Decoded, Fetched, Memory, Outcome, Parameter, Registers, Sink,
    StopReason, Verdict, Window, Word,
};
use proptest::prelude::*;

const PAGE: u64 = 4096;
/// Where code begins.
const START: u64 = 0x40_1000;
/// Two views of one page, and two private pages.
const ONE: u64 = 0x10_0000;
const TWO: u64 = 0x20_0000;
const PRIVATE: [u64; 2] = [0x30_0000, 0x50_0000];
/// A page without write permission, one of which nothing can be told, one that may fault.
const CONSTANT: u64 = 0x60_0000;
const UNVERIFIED: u64 = 0x70_0000;
const DOUBTFUL: u64 = 0x80_0000;

const RAX: usize = 0;
const RCX: usize = 1;
const RDX: usize = 2;
const RBX: usize = 3;
const RSI: usize = 6;
const RDI: usize = 7;

/// `mov [rdi], rax`
const STORE: [u8; 3] = [0x48, 0x89, 0x07];
/// `mov [rsi], rbx`
const STORE_OTHER: [u8; 3] = [0x48, 0x89, 0x1e];
/// `mov rcx, [rsi]`
const LOAD_OTHER: [u8; 3] = [0x48, 0x8b, 0x0e];
/// `mov rdx, [rdi]`
const LOAD: [u8; 3] = [0x48, 0x8b, 0x17];
/// `rep stosb`
const FILL: [u8; 2] = [0xf3, 0xaa];
/// `add qword [rdi], 1`
const ADD: [u8; 4] = [0x48, 0x83, 0x07, 0x01];
/// `nop`
const NOP: [u8; 1] = [0x90];

/// Which page of memory lies at an address.
fn page(address: u64) -> Option<u64> {
    match address & !(PAGE - 1) {
        ONE | TWO => Some(1),
        // The pages behind them: another one, and the same one again.
        other if other == ONE + PAGE => Some(2),
        other if other == TWO + PAGE => Some(2),
        other if PRIVATE.contains(&other) => Some(other),
        other @ (CONSTANT | UNVERIFIED | DOUBTFUL) => Some(other),
        _ => None,
    }
}

/// A byte as it is before the window.
fn content(page: u64, offset: u64) -> u8 {
    (page >> 12).wrapping_mul(31).wrapping_add(offset * 7) as u8
}

struct Mapped {
    code: CodeMemory,
}

impl Memory for Mapped {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        for (at, byte) in (address..).zip(bytes) {
            match page(at) {
                Some(page) => *byte = content(page, at % PAGE),
                None => return false,
            }
        }
        true
    }

    fn may_alias(&mut self, first: u64, last: u64, other: u64) -> bool {
        assert!(
            !(first..=last).contains(&other),
            "asked of an address itself"
        );
        let same =
            |at: u64| page(at).is_some() && page(at) == page(other) && at % PAGE == other % PAGE;
        (first..=last).any(same)
            || (other / PAGE == START / PAGE && self.code == CodeMemory::Shared)
    }

    fn check(&mut self, address: u64, bytes: u64, access: Access) -> Verdict {
        match page(address) {
            Some(CONSTANT) if access == Access::Store => Verdict::Faults,
            Some(UNVERIFIED) => Verdict::Unverified,
            Some(DOUBTFUL) => Verdict::MayFault,
            Some(_) => Verdict::Allowed {
                first: address & !(PAGE - 1),
                last: (address + bytes - 1) | (PAGE - 1),
            },
            None => Verdict::Faults,
        }
    }

    fn code_memory(&mut self, _: u64) -> CodeMemory {
        self.code
    }
}

struct Program(HashMap<u64, Decoded>);

impl Program {
    fn new(code: &[&[u8]]) -> Self {
        let mut at = START;
        let mut all = HashMap::new();
        for bytes in code {
            let decoded = Decoded::new(bytes, at).expect("an instruction");
            all.insert(at, decoded);
            at += bytes.len() as u64;
        }
        Self(all)
    }
}

impl Code for Program {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        let instruction = self.0.get(&pc).ok_or(StopReason::NotMapped)?;
        Ok(Fetched {
            instruction,
            bias: 0,
            mark: 0,
        })
    }
}

#[derive(Default)]
struct Events(Vec<(u64, Parameter, Option<u64>)>);

impl Sink for Events {
    fn value(&mut self, pc: u64, parameter: Parameter, value: Option<u64>) {
        self.0.push((pc, parameter, value));
    }
}

fn run_in(code: CodeMemory, gpr: &[(usize, u64)], program: &[&[u8]]) -> (Outcome, Events) {
    let mut all = [0; 16];
    for (number, value) in gpr {
        all[*number] = *value;
    }
    let registers = Registers::from_sample(all, START, 0);
    run_from(code, &registers, program)
}

fn run_from(code: CodeMemory, registers: &Registers, program: &[&[u8]]) -> (Outcome, Events) {
    let mut events = Events::default();
    let window = Window {
        max_instructions: 1000,
        ..Window::default()
    };
    let mut program = Program::new(program);
    let outcome = window.run(registers, &mut program, &mut Mapped { code }, &mut events);
    (outcome, events)
}

/// What is known of a register behind a program that stores through rdi and rsi.
fn known(at: [u64; 2], program: &[&[u8]], register: usize) -> Option<u64> {
    let gpr = [(RAX, 11), (RBX, 22), (RDI, at[0]), (RSI, at[1])];
    let (outcome, _) = run_in(CodeMemory::Fixed, &gpr, program);
    assert_eq!(outcome.stop, StopReason::NotMapped);
    outcome.registers.gpr[register].get(8)
}

/// Of two views, the one that was stored to last is known, and nothing of the other.
#[test]
fn orders_of_stores() {
    let views = [ONE + 8, TWO + 8];
    assert_eq!(known(views, &[&STORE, &LOAD_OTHER], RCX), None);
    assert_eq!(known(views, &[&STORE, &LOAD], RDX), Some(11));
    let both: [&[u8]; 3] = [&STORE, &STORE_OTHER, &LOAD];
    assert_eq!(known(views, &both, RDX), None);
    let both: [&[u8]; 3] = [&STORE, &STORE_OTHER, &LOAD_OTHER];
    assert_eq!(known(views, &both, RCX), Some(22));
    let thrice: [&[u8]; 5] = [&STORE, &STORE_OTHER, &STORE, &LOAD, &LOAD_OTHER];
    assert_eq!(known(views, &thrice, RDX), Some(11));
    assert_eq!(known(views, &thrice, RCX), None);
}

/// A repeated copy to behind its source through another view: processors copy many bytes at once
/// unless the addresses overlap, so what was stored meanwhile is taken by some and not by others.
#[test]
fn copies_to_behind_through_another_view() {
    // `rep movsb; mov rcx, [rdi-0x40]; mov rdx, [rdi-8]`
    let program: [&[u8]; 3] = [
        &[0xf3, 0xa4],
        &[0x48, 0x8b, 0x4f, 0xc0],
        &[0x48, 0x8b, 0x57, 0xf8],
    ];
    let registers = [(RCX, 0x40), (RSI, ONE), (RDI, TWO + 0x30)];
    let (outcome, _) = run_in(CodeMemory::Fixed, &registers, &program);
    let first: [u8; 8] = std::array::from_fn(|at| content(1, at as u64));
    let first = Some(u64::from_le_bytes(first));
    assert_eq!(outcome.registers.gpr[RCX].get(8), first);
    assert_eq!(outcome.registers.gpr[RDX].get(8), None);
}

/// Memory of which nothing is known any more once others may have met what the window stores.
struct UntilFenced(bool);

impl Memory for UntilFenced {
    fn read(&mut self, _: u64, bytes: &mut [u8]) -> bool {
        bytes.fill(0);
        !self.0
    }

    fn fence(&mut self) {
        self.0 = true;
    }
}

/// A locked instruction loads and stores at one moment: its own load is behind its fence.
#[test]
fn locks_load_behind_their_fence() {
    // Exchanges with memory, with and without a prefix, and locked additions; then plain ones.
    let locked: [&[u8]; 3] = [
        &[0x87, 0x07],
        &[0xf0, 0x87, 0x07],
        &[0xf0, 0x0f, 0xc1, 0x07],
    ];
    let plain: [&[u8]; 2] = [&[0x8b, 0x07], &[0x0f, 0xc1, 0x07]];
    let loaded = |program: &[u8]| {
        let mut registers = [0; 16];
        registers[RDI] = ONE;
        let registers = Registers::from_sample(registers, START, 0);
        let mut code = Program::new(&[program]);
        let mut memory = UntilFenced(false);
        let mut events = Events::default();
        let outcome = Window::default().run(&registers, &mut code, &mut memory, &mut events);
        outcome.registers.gpr[RAX].get(4)
    };
    assert_eq!(locked.map(loaded), [None; 3]);
    assert_eq!(plain.map(loaded), [Some(0); 2]);
}

/// What lies elsewhere in the page, in private pages, or beside what was stored keeps its value.
#[test]
fn what_is_kept() {
    let before = |address: u64| {
        let bytes = [0, 1, 2, 3, 4, 5, 6, 7]
            .map(|i| content(page(address).expect("a page"), address % PAGE + i));
        Some(u64::from_le_bytes(bytes))
    };
    let load: [&[u8]; 2] = [&STORE, &LOAD_OTHER];
    assert_eq!(known([ONE + 8, TWO + 16], &load, RCX), before(TWO + 16));
    assert_eq!(
        known([ONE + 8, TWO + 8 + PAGE], &load, RCX),
        before(TWO + 8 + PAGE)
    );
    let [one, two] = PRIVATE.map(|page| page + 8);
    assert_eq!(known([one, two], &load, RCX), before(two));
    assert_eq!(known([ONE + 8, one], &load, RCX), before(one));
    // Of eight bytes four may be others.
    let gpr = [(RAX, 11), (RDI, ONE + 8), (RSI, TWO + 12)];
    let (outcome, _) = run_in(CodeMemory::Fixed, &gpr, &load);
    let upper = u64::from_le_bytes([4, 5, 6, 7, 0, 0, 0, 0].map(|i| content(1, 12 + i)));
    let expected = Word::partial(upper << 32, 0xf0);
    assert_eq!(
        outcome.registers.gpr[RCX].known_bytes(),
        expected.known_bytes()
    );
    assert_eq!(
        outcome.registers.gpr[RCX].known_bits() & 0xffff_ffff_0000_0000,
        upper << 32
    );
}

/// A string of unknown bytes, and stores that found no room, are unknown through the other view,
/// too.
#[test]
fn ranges() {
    let fill = |other: u64, program: &[&[u8]]| {
        let gpr = [(RBX, 22), (RCX, 1000), (RDI, ONE + 24), (RSI, other)];
        let (outcome, _) = run_in(CodeMemory::Fixed, &gpr, program);
        outcome.registers.gpr[RCX].get(8)
    };
    assert_eq!(fill(TWO + 512, &[&FILL, &LOAD_OTHER]), None);
    assert!(fill(TWO + 2048, &[&FILL, &LOAD_OTHER]).is_some());
    assert!(fill(PRIVATE[0] + 512, &[&FILL, &LOAD_OTHER]).is_some());
    let stored: [&[u8]; 3] = [&STORE_OTHER, &FILL, &LOAD_OTHER];
    assert_eq!(fill(TWO + 512, &stored), None);
    assert_eq!(fill(PRIVATE[0] + 512, &stored), Some(22));
    // mov [rdi + 8 * i], rax: more than there is room for.
    let many: Vec<[u8; 7]> = (0..80_u32)
        .map(|i| {
            let [a, b, c, d] = (8 * i).to_le_bytes();
            [0x48, 0x89, 0x87, a, b, c, d]
        })
        .collect();
    for offset in [0, 8, 320, 632] {
        let mut program: Vec<&[u8]> = many.iter().map(|store| store.as_slice()).collect();
        program.push(&LOAD_OTHER);
        assert_eq!(known([ONE, TWO + offset], &program, RCX), None);
        assert!(known([ONE, PRIVATE[0] + offset], &program, RCX).is_some());
    }
}

/// A window does not run code that it may have written: through another address, or by a store to
/// an unknown one.
#[test]
fn code() {
    let stop = |code, registers: &Registers| {
        let program: [&[u8]; 3] = [&STORE, &NOP, &NOP];
        run_from(code, registers, &program).0.stop
    };
    let mut registers = Registers::from_sample([0; 16], START, 0);
    registers.gpr[RDI] = Word::known(ONE + START % PAGE);
    assert_eq!(
        stop(CodeMemory::Shared, &registers),
        StopReason::PageWritten
    );
    assert_eq!(
        stop(CodeMemory::Writable, &registers),
        StopReason::NotMapped
    );
    // At another offset it is other memory.
    registers.gpr[RDI] = Word::known(ONE + START % PAGE + 64);
    assert_eq!(stop(CodeMemory::Fixed, &registers), StopReason::NotMapped);
    registers.gpr[RDI] = Word::UNKNOWN;
    assert_eq!(
        stop(CodeMemory::Shared, &registers),
        StopReason::PageWritten
    );
    assert_eq!(
        stop(CodeMemory::Writable, &registers),
        StopReason::PageWritten
    );
    assert_eq!(stop(CodeMemory::Fixed, &registers), StopReason::NotMapped);
}

/// An access that raises an exception, or may, ends the window before the instruction: it has no
/// values, and nothing behind it has.
#[test]
fn exceptions() {
    let stop = |address: u64, instruction: &[u8]| {
        let gpr = [(RAX, 11), (RCX, 600), (RDI, address), (RSI, address)];
        let (outcome, events) = run_in(CodeMemory::Fixed, &gpr, &[&NOP, instruction, &LOAD]);
        if outcome.stop != StopReason::NotMapped {
            assert_eq!(outcome.instructions, 1, "{address:#x}");
            assert!(events.0.is_empty(), "{address:#x}");
        }
        outcome.stop
    };
    let faults = StopReason::FaultingInstruction;
    let instructions: [&[u8]; 4] = [&STORE, &LOAD, &ADD, &FILL];
    for instruction in instructions {
        assert_eq!(stop(8, instruction), faults);
        assert_eq!(stop(PRIVATE[0] + 8, instruction), StopReason::NotMapped);
    }
    for instruction in [&STORE as &[u8], &ADD, &FILL] {
        assert_eq!(stop(CONSTANT, instruction), faults);
        assert_eq!(stop(DOUBTFUL, instruction), StopReason::MayFault);
    }
    // What is known was read: it can be.
    assert_eq!(stop(CONSTANT, &LOAD), StopReason::NotMapped);
}

/// A store of chosen bytes faults for those that are not chosen, too.
#[test]
fn unchosen_bytes() {
    // pxor xmm0, xmm0; maskmovdqu xmm0, xmm0
    let none: [&[u8]; 2] = [&[0x66, 0x0f, 0xef, 0xc0], &[0x66, 0x0f, 0xf7, 0xc0]];
    let stop = |address: u64| {
        let program = [none[0], none[1], &LOAD];
        run_in(CodeMemory::Fixed, &[(RDI, address)], &program)
            .0
            .stop
    };
    assert_eq!(stop(PRIVATE[0] + 8), StopReason::NotMapped);
    assert_eq!(stop(CONSTANT), StopReason::FaultingInstruction);
    assert_eq!(stop(DOUBTFUL - 8), StopReason::FaultingInstruction);
    assert_eq!(stop(DOUBTFUL), StopReason::MayFault);
}

/// Where it is not certain that a store goes through, what it stored is unknown.
#[test]
fn unverified_stores() {
    assert_eq!(known([UNVERIFIED, UNVERIFIED], &[&STORE, &LOAD], RDX), None);
    assert!(known([UNVERIFIED + 8, UNVERIFIED], &[&STORE, &LOAD_OTHER], RCX).is_some());
}

/// One store or load.
#[derive(Clone, Debug)]
struct Step {
    address: u64,
    /// Power of two.
    size: u32,
    store: Option<u64>,
}

fn step() -> impl Strategy<Value = Step> {
    let pages = vec![ONE, TWO, ONE + PAGE, PRIVATE[0], PRIVATE[1]];
    let address = (prop::sample::select(pages), 0..24_u64).prop_map(|(page, at)| page + at);
    // The end of a page, where the next one is mapped.
    let edge = (prop::sample::select(vec![ONE, TWO]), 4085..4096_u64);
    let edge = edge.prop_map(|(page, at)| page + at);
    let address = prop_oneof![4 => address, 1 => edge];
    (address, 0..4_u32, prop::option::of(any::<u64>())).prop_map(|(address, size, store)| Step {
        address,
        size,
        store,
    })
}

proptest! {
    /// Whatever is stored and loaded through whichever view: what is known is what was there.
    #[test]
    fn known_is_true(steps in prop::collection::vec(step(), 1..120)) {
        let mut memory: HashMap<(u64, u64), u8> = HashMap::new();
        let mut program: Vec<Vec<u8>> = Vec::new();
        let mut expected: HashMap<u64, u64> = HashMap::new();
        let mut at = START;
        let mut push = |program: &mut Vec<Vec<u8>>, bytes: Vec<u8>| {
            let start = at;
            at += bytes.len() as u64;
            program.push(bytes);
            start
        };
        for step in &steps {
            let mov = |opcode: u8, value: u64| [&[0x48, opcode][..], &value.to_le_bytes()].concat();
            push(&mut program, mov(0xbf, step.address));
            let bytes = (step.address..step.address + (1 << step.size)).map(|at| (page(at).expect("a page"), at % PAGE));
            let (prefix, wide): (&[u8], u8) = match step.size {
                0 => (&[], 0),
                1 => (&[0x66], 1),
                2 => (&[], 1),
                _ => (&[0x48], 1),
            };
            if let Some(value) = step.store {
                push(&mut program, mov(0xb8, value));
                push(&mut program, [prefix, &[0x88 + wide, 0x07]].concat());
                for (byte, value) in bytes.zip(value.to_le_bytes()) {
                    memory.insert(byte, value);
                }
            } else {
                let mut value = 0;
                for (i, (page, offset)) in bytes.enumerate() {
                    let byte = memory.get(&(page, offset)).copied();
                    value |= u64::from(byte.unwrap_or_else(|| content(page, offset))) << (8 * i);
                }
                let pc = push(&mut program, [prefix, &[0x8a + wide, 0x0f]].concat());
                expected.insert(pc, value);
            }
        }
        let program: Vec<&[u8]> = program.iter().map(Vec::as_slice).collect();
        let (outcome, events) = run_in(CodeMemory::Fixed, &[], &program);
        prop_assert_eq!(outcome.stop, StopReason::NotMapped);
        for (pc, parameter, value) in events.0 {
            if let (Parameter::Dest(_), Some(expected), Some(value)) = (parameter, expected.get(&pc), value) {
                prop_assert_eq!(value, *expected, "at {:#x}", pc);
            }
        }
    }
}
