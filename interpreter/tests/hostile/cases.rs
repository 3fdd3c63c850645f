//! What fuzzing enters by: each function makes a case of any bytes, runs it, and panics if it finds
//! a promise broken. The fuzzer's targets include this file.

use interpreter::{
    Access, Code, CodeMemory, DecodeCache, Fetched, Flag, Flags, Memory, Outcome, Parameter, Path,
    Pieces, Registers, Sink, StopReason, ValueKinds, Vector, Verdict, Window, Word, X87,
};

#[path = "../common/traced.rs"]
mod traced;

/// Numbers from bytes; zeros from their end on.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    fn flag(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    /// A word of the kinds that programs have: small, a pointer, or anything.
    fn value(&mut self) -> u64 {
        match self.byte() % 6 {
            0 => u64::from(self.byte()),
            1 => u64::from(self.byte()).wrapping_neg(),
            2 => CODE.wrapping_add(u64::from(self.byte())),
            3 => 0x7ffd_0000_0000 + u64::from(self.byte()) * 8,
            4 => 1 << (self.byte() & 63),
            _ => self.word(),
        }
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Process address of the code of most cases.
const CODE: u64 = 0x7f12_3456_7000;

/// A process: code, and memory that is made of a seed, of which pages are missing.
struct Process<'a> {
    start: u64,
    bias: u64,
    code: &'a [u8],
    seed: u64,
    missing: u64,
}

impl Process<'_> {
    fn byte(&self, address: u64) -> Option<u8> {
        let at = usize::try_from(address.wrapping_sub(self.start)).ok();
        if let Some(byte) = at.and_then(|at| self.code.get(at)) {
            return Some(*byte);
        }
        let page = mix(self.seed ^ address >> 12);
        if self.missing > 0 && page.is_multiple_of(self.missing) {
            return None;
        }
        let word = mix(self.seed ^ address >> 3);
        // Many small numbers and pointers.
        let word = match word >> 62 {
            0 => word & 0xff,
            1 => CODE + (word & 0xff),
            _ => word,
        };
        Some((word >> (8 * (address & 7))) as u8)
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        for (i, place) in bytes.iter_mut().enumerate() {
            match self.byte(address.wrapping_add(i as u64)) {
                Some(byte) => *place = byte,
                None => return false,
            }
        }
        true
    }

    fn code_at(&self, pc: u64) -> &[u8] {
        let at = usize::try_from(pc.wrapping_sub(self.start)).ok();
        at.and_then(|at| self.code.get(at..)).unwrap_or_default()
    }
}

impl Memory for &Process<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        Process::read(self, address, bytes)
    }
}

/// The process's code through a cache, as of its image or as sampled.
struct Cached<'a> {
    process: &'a Process<'a>,
    cache: &'a mut DecodeCache,
    sampled: bool,
}

impl Code for Cached<'_> {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        let code = self.process.code_at(pc);
        let address = pc.wrapping_sub(self.process.bias);
        let instruction = if self.sampled {
            self.cache.get_sampled(1, address, code)?
        } else {
            self.cache.get_or_decode(1, address, |bytes| {
                let len = code.len().min(bytes.len());
                bytes[..len].copy_from_slice(&code[..len]);
                Ok(len)
            })?
        };
        Ok(Fetched {
            instruction,
            bias: self.process.bias,
            mark: 0,
        })
    }
}

/// What a window told, in order.
#[derive(Clone, PartialEq, Debug)]
enum Told {
    Reached(u64),
    Value(u64, Parameter, Option<u64>),
    Branch(u64, Option<bool>),
    Went(u64, u64),
}

#[derive(Default)]
struct Recorder(Vec<Told>);

impl Sink for Recorder {
    fn reached(&mut self, pc: u64, _mark: u32) {
        self.0.push(Told::Reached(pc));
    }

    fn value(&mut self, pc: u64, parameter: Parameter, value: Option<u64>) {
        if let (Parameter::Dest(register), Some(value)) = (parameter, value)
            && register.size() < 8
        {
            assert!(
                value >> (8 * register.size()) == 0,
                "{register:?} {value:#x}"
            );
        }
        self.0.push(Told::Value(pc, parameter, value));
    }

    fn branch(&mut self, pc: u64, taken: Option<bool>) {
        self.0.push(Told::Branch(pc, taken));
    }

    fn went(&mut self, pc: u64, destination: u64) {
        self.0.push(Told::Went(pc, destination));
    }
}

fn registers(bytes: &mut Bytes<'_>, rip: u64) -> Registers {
    let gpr = std::array::from_fn(|_| bytes.value());
    let mut registers = Registers::from_sample(gpr, rip, bytes.word());
    registers.fs_base = bytes.flag().then(|| bytes.value());
    registers.gs_base = bytes.flag().then(|| bytes.value());
    registers.mxcsr = bytes.flag().then(|| bytes.word() as u32);
    let seed = bytes.word();
    for (i, vector) in registers.vectors.iter_mut().enumerate() {
        let lane = |k: usize| mix(seed ^ (i * 8 + k) as u64).to_le_bytes();
        let lanes: [[u8; 8]; 8] = std::array::from_fn(lane);
        *vector = Vector::partial(std::array::from_fn(|k| lanes[k / 8][k % 8]), u64::MAX);
    }
    for (i, mask) in registers.masks.iter_mut().enumerate() {
        *mask = Word::known(mix(seed ^ !(i as u64)));
    }
    registers.x87 = x87(seed);
    registers
}

/// Registers of x87: all exceptions are masked, and none is pending.
fn x87(seed: u64) -> X87 {
    let word = |i: usize| mix(seed.rotate_left(7) ^ i as u64);
    let modes = word(0);
    let stack = std::array::from_fn(|i| {
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&word(2 * i + 1).to_le_bytes());
        // Mostly an ordinary number, not far from one.
        let top = word(2 * i + 2);
        let exponent = if top >> 62 == 0 {
            top
        } else {
            0x3ff0 | top & 0x801f
        };
        bytes[7] |= u8::from(top >> 62 != 0) << 7;
        bytes[8..].copy_from_slice(&(exponent as u16).to_le_bytes());
        bytes
    });
    let (control, status) = ((modes >> 16) as u16, (modes >> 32) as u16);
    X87::saved(control | 0x3f, status & 0x7f7f, modes as u8, &stack)
}

/// The same registers, of which less is known.
fn hidden(bytes: &mut Bytes<'_>, registers: &Registers) -> Registers {
    let mut hidden = registers.clone();
    for word in hidden.gpr.iter_mut().chain(&mut hidden.masks) {
        let known = match bytes.byte() % 4 {
            0 => 0,
            1 => bytes.byte(),
            _ => u8::MAX,
        };
        *word = Word::partial(word.known_bits(), word.known_bytes() & known);
    }
    for vector in &mut hidden.vectors {
        let known = match bytes.byte() % 4 {
            0 => 0,
            1 => mix(bytes.byte().into()),
            _ => u64::MAX,
        };
        *vector = Vector::partial(*vector.known_bits(), vector.known_bytes() & known);
    }
    let kept = bytes.byte();
    let flags = Flag::ALL.into_iter().enumerate();
    hidden.rflags = flags.fold(Flags::UNKNOWN, |mut flags, (i, flag)| {
        if kept >> (i & 7) & 1 != 0 {
            flags.set(flag, registers.rflags.get(flag));
        }
        flags
    });
    hidden.fs_base = hidden.fs_base.filter(|_| bytes.flag());
    hidden.gs_base = hidden.gs_base.filter(|_| bytes.flag());
    hidden.mxcsr = hidden.mxcsr.filter(|_| bytes.flag());
    let kept = mix(bytes.byte().into());
    let x87 = &mut hidden.x87;
    x87.control = x87.control.filter(|_| kept & 3 != 0);
    x87.top = x87.top.filter(|_| kept >> 2 & 7 != 0);
    x87.status_known &= (kept >> 8 | kept >> 24) as u16;
    x87.status &= x87.status_known;
    x87.used_known &= (kept >> 40 | kept >> 48) as u8;
    x87.used &= x87.used_known;
    for (i, register) in x87.registers.iter_mut().enumerate() {
        register.top = register.top.filter(|_| mix(kept ^ i as u64) & 3 != 0);
    }
    hidden
}

/// Panics where a window of less knowledge claims what one of more does not.
fn check_claims(less: &(Recorder, Outcome), more: &(Recorder, Outcome)) {
    let end = (less.1.stop, more.1.stop);
    for (i, claimed) in less.0.0.iter().enumerate() {
        let Some(real) = more.0.0.get(i) else {
            // What is not known of it cannot be seen to fault.
            let blind = [
                StopReason::FaultingInstruction,
                StopReason::FloatException,
                StopReason::PageWritten,
                StopReason::RepTooLong,
                StopReason::Unsupported,
            ];
            assert!(
                blind.contains(&more.1.stop),
                "{claimed:x?} was never reached: {end:?}"
            );
            return;
        };
        let agrees = match (claimed, real) {
            (Told::Value(pc, p, claim), Told::Value(at, q, value)) => {
                (pc, p) == (at, q) && (claim.is_none() || claim == value)
            }
            (Told::Branch(pc, claim), Told::Branch(at, taken)) => {
                pc == at && (claim.is_none() || claim == taken)
            }
            _ => claimed == real,
        };
        assert!(agrees, "claimed {claimed:x?}, is {real:x?}; {end:?}");
    }
}

/// Any code, any registers of which any part is unknown, any memory: no panic, and what is claimed
/// from less knowledge is what is claimed from more.
pub(crate) fn window(data: &[u8]) {
    let mut bytes = Bytes(data);
    let start = if bytes.byte() % 8 == 0 {
        bytes.value()
    } else {
        CODE
    };
    let bias = bytes.value();
    let seed = bytes.word();
    let missing = u64::from(bytes.byte() % 4);
    let window = Window {
        max_instructions: u32::from(bytes.byte() % 33),
        capture: if bytes.flag() {
            ValueKinds::all()
        } else {
            ValueKinds::default()
        },
    };
    let sampled = bytes.flag();
    let more = registers(&mut bytes, start);
    let less = hidden(&mut bytes, &more);
    let all = Process {
        start,
        bias,
        code: bytes.0,
        seed,
        missing: 0,
    };
    let part = Process { missing, ..all };
    let mut cache = DecodeCache::new(64);
    let mut run = |registers: &Registers, mut process: &Process<'_>| {
        let mut recorder = Recorder::default();
        let mut code = Cached {
            process,
            cache: &mut cache,
            sampled,
        };
        let outcome = window.run(registers, &mut code, &mut process, &mut recorder);
        assert!(outcome.instructions <= window.max_instructions);
        (recorder, outcome)
    };
    let with_all = run(&more, &all);
    let with_part = run(&less, &part);
    check_claims(&with_part, &with_all);
    for (registers, process) in [(&more, &all), (&less, &part)] {
        let mut code = Cached {
            process,
            cache: &mut cache,
            sampled,
        };
        traced::compare(window, registers, &mut code, &mut &*process);
        traced::compare(window, registers, &mut code, &mut Strict(process));
    }
}

/// A process of whose pages some are not there, or nobody knows, or are mapped twice, and whose
/// code is what its stores make of it.
struct Strict<'a>(&'a Process<'a>);

impl Memory for Strict<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        self.0.read(address, bytes)
    }

    fn may_alias(&mut self, first: u64, last: u64, other: u64) -> bool {
        let page = mix(self.0.seed ^ other >> 12 ^ first >> 12);
        first % 4096 <= other % 4096 && last > first && page.is_multiple_of(2)
    }

    fn check(&mut self, address: u64, bytes: u64, access: Access) -> Verdict {
        let page = address & !0xfff;
        match mix(page ^ bytes ^ access as u64) % 16 {
            0 => Verdict::MayFault,
            1 => Verdict::Faults,
            2..5 => Verdict::Unverified,
            _ => Verdict::Allowed {
                first: page,
                last: page | 0xfff,
            },
        }
    }

    fn code_memory(&mut self, _: u64) -> CodeMemory {
        match self.0.seed % 3 {
            0 => CodeMemory::Fixed,
            1 => CodeMemory::Writable,
            _ => CodeMemory::Shared,
        }
    }
}

/// The lines that a window loads from, in the order of its loads.
#[derive(Default)]
struct Lines(Vec<u64>);

impl Sink for Lines {
    fn value(&mut self, _: u64, _: Parameter, _: Option<u64>) {}

    fn load(&mut self, _: u64, address: Option<u64>, bytes: u32, _: Option<u64>) {
        let Some(address) = address else { return };
        let last = address.wrapping_add(u64::from(bytes).wrapping_sub(1));
        for line in [address & !63, last & !63] {
            if !self.0.contains(&line) {
                self.0.push(line);
            }
        }
    }
}

/// What an interrupt read of a process, and nothing else.
struct Brought<'a>(&'a Pieces<'a>);

impl Memory for Brought<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        match self.0.bytes(address, bytes.len()) {
            Some(held) => {
                bytes.copy_from_slice(held);
                true
            }
            None => Pieces::are_apart(address, bytes.len()) && self.0.across(address, bytes),
        }
    }

    fn fence(&mut self) {
        self.0.close();
    }
}

/// Any code and registers: a window with some of the lines that it loads from, whole or in part,
/// claims what one with all memory does.
pub(crate) fn pieces(data: &[u8]) {
    let mut bytes = Bytes(data);
    let window = Window {
        max_instructions: u32::from(bytes.byte() % 65),
        capture: ValueKinds::all(),
    };
    let (bias, seed, kept) = (bytes.value(), bytes.word(), bytes.word());
    let missing = u64::from(bytes.byte() % 16);
    let start = registers(&mut bytes, CODE);
    let process = Process {
        start: CODE,
        bias,
        code: bytes.0,
        seed,
        missing,
    };
    let mut cache = DecodeCache::new(256);
    let mut code = Cached {
        process: &process,
        cache: &mut cache,
        sampled: true,
    };
    let mut lines = Lines::default();
    window.run(&start, &mut code, &mut &process, &mut lines);
    let mut read = Vec::new();
    for line in lines.0 {
        let mut held = [0; 64];
        if process.read(line, &mut held) && !mix(line ^ kept).is_multiple_of(8) {
            // Of the last words of some nothing is known.
            let part = 64 - 8 * (mix(line.wrapping_add(kept)) % 16).saturating_sub(12) as usize;
            read.push((line, held, part));
        }
    }
    let mut pieces = Pieces::default();
    for (line, held, part) in &read {
        // What finds no room is not known.
        pieces.push(*line, &held[..*part]);
    }
    let (mut less, mut more) = (Recorder::default(), Recorder::default());
    let part = window.run(&start, &mut code, &mut Brought(&pieces), &mut less);
    let all = window.run(&start, &mut code, &mut &process, &mut more);
    check_claims(&(less, part), &(more, all));
}

/// Any bytes as a path: refused, or what they say is what is written again.
pub(crate) fn path(data: &[u8]) {
    if let Ok((path, taken)) = Path::decompress(data) {
        let mut again = Vec::new();
        path.compress(&mut again);
        assert_eq!(again, data[..taken]);
    }
}
