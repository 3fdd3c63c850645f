//! Windows through prepared traces, held against the same ones by handlers.

use interpreter::{
    Access, Call, Code, CodeMemory, Fetched, Memory, Outcome, Parameter, Registers, Sink,
    StopReason, Traces, Verdict, Window, WindowState,
};

/// All that a window tells its host and asks it for values, in order.
#[derive(Clone, PartialEq, Debug)]
enum Event {
    Reached(u64, u32),
    Values(u64, Vec<(Parameter, Option<u64>)>),
    Branch(u64, Option<bool>),
    Call(Box<Call>),
    Jump(Box<Call>),
    Returned(u64),
    Went(u64, u64),
    Load(u64, Option<u64>, u32, Option<u64>),
    Store(u64, Option<u64>, u32, Option<u64>),
}

#[derive(Default)]
struct Log(Vec<Event>);

impl Sink for Log {
    fn reached(&mut self, pc: u64, mark: u32) {
        self.0.push(Event::Reached(pc, mark));
    }
    fn value(&mut self, pc: u64, parameter: Parameter, value: Option<u64>) {
        self.values(pc, &[(parameter, value)]);
    }
    fn values(&mut self, pc: u64, events: &[(Parameter, Option<u64>)]) {
        self.0.push(Event::Values(pc, events.to_vec()));
    }
    fn branch(&mut self, pc: u64, taken: Option<bool>) {
        self.0.push(Event::Branch(pc, taken));
    }
    fn call(&mut self, call: &Call) {
        self.0.push(Event::Call(Box::new(*call)));
    }
    fn jump(&mut self, jump: &Call) {
        self.0.push(Event::Jump(Box::new(*jump)));
    }
    fn returned(&mut self, pc: u64) {
        self.0.push(Event::Returned(pc));
    }
    fn went(&mut self, pc: u64, destination: u64) {
        self.0.push(Event::Went(pc, destination));
    }
    fn load(&mut self, pc: u64, address: Option<u64>, bytes: u32, value: Option<u64>) {
        self.0.push(Event::Load(pc, address, bytes, value));
    }
    fn store(&mut self, pc: u64, address: Option<u64>, bytes: u32, value: Option<u64>) {
        self.0.push(Event::Store(pc, address, bytes, value));
    }
}

/// Code of which everything stays as it is.
struct Lasting<'a, C> {
    code: &'a mut C,
    fetched: u32,
}

impl<C: Code> Code for Lasting<'_, C> {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        self.fetched += 1;
        self.code.fetch(pc)
    }

    fn keeps(&self) -> bool {
        true
    }
}

/// Memory, and what was read of it in which order: some hosts have a word once only.
struct Noted<'a, M> {
    memory: &'a mut M,
    reads: Vec<(u64, usize)>,
    fences: u32,
}

impl<M: Memory> Memory for Noted<'_, M> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        self.reads.push((address, bytes.len()));
        self.memory.read(address, bytes)
    }
    fn may_alias(&mut self, first: u64, last: u64, other: u64) -> bool {
        self.memory.may_alias(first, last, other)
    }
    fn check(&mut self, address: u64, bytes: u64, access: Access) -> Verdict {
        self.memory.check(address, bytes, access)
    }
    fn code_memory(&mut self, address: u64) -> CodeMemory {
        self.memory.code_memory(address)
    }
    fn fence(&mut self) {
        self.fences += 1;
        self.memory.fence();
    }
}

/// What a window led to.
type Ran = (Outcome, Vec<Event>, Vec<(u64, usize)>, u32);

/// Runs a window by handlers, and by traces that are made and then followed; panics if anything of
/// these differs. How many instructions the last one fetched, and interpreted.
pub(crate) fn compare<C: Code, M: Memory>(
    window: Window,
    registers: &Registers,
    code: &mut C,
    memory: &mut M,
) -> (u32, u32) {
    let mut traces = Traces::new(256);
    let mut fetched = 0;
    let mut run = |traced: bool| -> Ran {
        let mut code = Lasting { code, fetched: 0 };
        let (reads, fences) = (Vec::new(), 0);
        let mut memory = Noted {
            memory,
            reads,
            fences,
        };
        let mut log = Log::default();
        let mut state = WindowState::new(registers.clone());
        let (code, memory) = (&mut code, &mut memory);
        let end = match traced {
            true => window.run_traced(&mut state, &mut traces, code, memory, &mut log),
            false => window.run_on(&mut state, code, memory, &mut log),
        };
        fetched = code.fetched;
        let outcome = Outcome {
            instructions: end.instructions,
            stop: end.stop,
            registers: state.registers,
        };
        (
            outcome,
            log.0,
            std::mem::take(&mut memory.reads),
            memory.fences,
        )
    };
    let by_handlers = run(false);
    for which in ["made", "followed"] {
        let by_traces = run(true);
        let differs = by_handlers.1.iter().zip(&by_traces.1).find(|(a, b)| a != b);
        assert_eq!(
            differs, None,
            "told by handlers, by traces that are {which}"
        );
        assert_eq!(by_handlers, by_traces, "traces are {which}");
    }
    (fetched, by_handlers.0.instructions)
}
