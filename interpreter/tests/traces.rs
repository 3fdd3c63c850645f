//! Prepared traces: what is fetched once, and when it is fetched again.

#[path = "common/traced.rs"]
mod traced;

use interpreter::{
    CODE_BYTES, Code, Decoded, Fetched, Memory, Parameter, Registers, Sink, StopReason, Traces,
    ValueKinds, Window, WindowState,
};

const START: u64 = 0x40_1000;

/// Pushes, a call and its return, a load, arithmetic, a store, a vector, a branch back.
const LOOP: &[u8] = &[
    0x55, // push rbp
    0x48, 0x89, 0xe5, // mov rbp, rsp
    0xe8, 0x18, 0, 0, 0, // call the ret
    0x8b, 0x04, 0x8f, // mov eax, [rdi+rcx*4]
    0x48, 0x83, 0xc1, 0x01, // add rcx, 1
    0x89, 0x44, 0x8f, 0x40, // mov [rdi+rcx*4+64], eax
    0x0f, 0x10, 0x07, // movups xmm0, [rdi]
    0x66, 0x0f, 0xef, 0xc9, // pxor xmm1, xmm1
    0x5d, // pop rbp
    0x48, 0x39, 0xd9, // cmp rcx, rbx
    0x75, 0xdf, // jne to the start
    0xc3, // ret
];

/// Code that is decoded anew each time it is fetched.
struct Program {
    code: Vec<u8>,
    decoded: Option<Decoded>,
    fetched: u32,
    epoch: u64,
    repeats: bool,
    /// The address and the length of what was fetched last.
    last: u64,
    len: usize,
    /// What is kept is compared.
    compares: bool,
}

impl Program {
    fn new(code: &[u8]) -> Self {
        Self {
            code: code.to_vec(),
            decoded: None,
            fetched: 0,
            epoch: 0,
            repeats: true,
            last: 0,
            len: 0,
            compares: false,
        }
    }
}

impl Code for Program {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        self.fetched += 1;
        let at = usize::try_from(pc.wrapping_sub(START)).ok();
        let code = at.and_then(|at| self.code.get(at..));
        let decoded = Decoded::new(code.ok_or(StopReason::NotMapped)?, pc)?;
        (self.last, self.len) = (pc, decoded.len());
        Ok(Fetched {
            instruction: self.decoded.insert(decoded),
            bias: 0,
            mark: 0,
        })
    }

    fn keeps(&self) -> bool {
        true
    }

    fn repeats(&self) -> bool {
        self.repeats
    }

    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn code(&self) -> [u8; CODE_BYTES] {
        let at = (self.last - START) as usize;
        let mut code = [0; CODE_BYTES];
        code[..self.len].copy_from_slice(&self.code[at..at + self.len]);
        code
    }

    fn holds(&mut self, pc: u64, code: &[u8; CODE_BYTES], len: usize) -> bool {
        let at = (pc - START) as usize;
        !self.compares || self.code.get(at..at + len) == code.get(..len)
    }
}

struct Threes;

impl Memory for Threes {
    fn read(&mut self, _: u64, bytes: &mut [u8]) -> bool {
        bytes.fill(3);
        true
    }
}

struct Ignore;

impl Sink for Ignore {
    fn value(&mut self, _: u64, _: Parameter, _: Option<u64>) {}
}

fn registers() -> Registers {
    let gpr = std::array::from_fn(|i| 0x7000_0000 + 0x1238 * i as u64);
    Registers::from_sample(gpr, START, 0)
}

const WINDOW: Window = Window {
    max_instructions: 100,
    capture: ValueKinds::NONE,
};

/// A window of this code, and the instructions that it fetched.
fn run(traces: &mut Traces, program: &mut Program) -> (WindowState, u32) {
    program.fetched = 0;
    let mut state = WindowState::new(registers());
    let end = WINDOW.run_traced(&mut state, traces, program, &mut Threes, &mut Ignore);
    assert_eq!((end.instructions, end.stop), (100, StopReason::Complete));
    (state, program.fetched)
}

/// A loop is fetched once; the windows that follow its trace tell and leave what handlers do.
#[test]
fn followed_without_fetching() {
    let mut program = Program::new(LOOP);
    for capture in [ValueKinds::NONE, ValueKinds::default()] {
        let window = Window { capture, ..WINDOW };
        let (fetched, instructions) =
            traced::compare(window, &registers(), &mut program, &mut Threes);
        assert_eq!((fetched, instructions), (0, 100), "{capture}");
    }
}

/// In another epoch all is fetched again: what the code has become since is what runs.
#[test]
fn epochs() {
    let (mut traces, mut program) = (Traces::new(64), Program::new(LOOP));
    assert!(run(&mut traces, &mut program).1 > 0);
    let (before, fetched) = run(&mut traces, &mut program);
    assert_eq!(fetched, 0);
    // The immediate of the addition.
    program.code[15] = 2;
    program.epoch = 1;
    let (after, fetched) = run(&mut traces, &mut program);
    assert!(fetched > 0);
    let rcx =
        |state: &WindowState| state.registers.gpr[1].known_bits() - registers().gpr[1].known_bits();
    assert_eq!(rcx(&after), 2 * rcx(&before));
}

/// What was kept in an epoch serves again when that comes back.
#[test]
fn epochs_come_back() {
    let (mut traces, mut program) = (Traces::new(64), Program::new(LOOP));
    for epoch in [1, 2] {
        program.epoch = epoch;
        assert!(run(&mut traces, &mut program).1 > 0);
    }
    for epoch in [1, 2, 1] {
        program.epoch = epoch;
        assert_eq!(run(&mut traces, &mut program).1, 0);
    }
}

/// Where the host says that an instruction is another one, that alone is fetched, and kept instead.
#[test]
fn compared() {
    let (mut traces, mut program) = (Traces::new(64), Program::new(LOOP));
    program.compares = true;
    run(&mut traces, &mut program);
    let (before, fetched) = run(&mut traces, &mut program);
    let prepared = traces.len();
    assert_eq!(fetched, 0);
    let rcx =
        |state: &WindowState| state.registers.gpr[1].known_bits() - registers().gpr[1].known_bits();
    for (immediate, kept) in [(2, false), (2, true), (1, false), (1, true)] {
        // That of the addition.
        program.code[15] = immediate;
        let (after, fetched) = run(&mut traces, &mut program);
        assert_eq!(rcx(&after), u64::from(immediate) * rcx(&before));
        assert_eq!(fetched, u32::from(!kept));
    }
    assert_eq!(traces.len(), prepared);
}

/// Of a way that no other window goes nothing is prepared.
#[test]
fn only_what_repeats() {
    let (mut traces, mut program) = (Traces::new(64), Program::new(LOOP));
    program.repeats = false;
    run(&mut traces, &mut program);
    assert!(traces.is_empty());
}

/// Traces take the memory that they were made with, whatever comes by. What finds no room is
/// fetched each time.
#[test]
fn bounded() {
    let mut traces = Traces::new(4);
    let bytes = traces.bytes();
    let mut program = Program::new(LOOP);
    run(&mut traces, &mut program);
    assert_eq!((traces.len(), traces.bytes()), (4, bytes));
    let (state, fetched) = run(&mut traces, &mut program);
    assert!(fetched > 0);
    let mut unbounded = Traces::new(64);
    assert_eq!(
        state.registers,
        run(&mut unbounded, &mut program).0.registers
    );
}
