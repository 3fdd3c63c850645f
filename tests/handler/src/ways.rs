//! The handler's way through code: that it decodes as iced does, that it reads what the thread
//! would load, by the interpreter, and that no code makes it read what it may not.

use std::fs;

use anyhow::{Context as _, Result};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};
use interpreter::{Code, Decoded, Fetched, Memory, Parameter, Registers, Sink, StopReason, Window};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};

use crate::abi::{self, Plain as _, WayCase, WayCode, WayResult};
use crate::host::{Pipes, mixed, read_made_up};

/// Lines that a way reads at most, each of them once more, and those that cannot be read: two make
/// a way's end likely, and the last instruction may meet some more.
const MOST_LINES: usize = 2 * abi::MAX_LINES as usize + 8;

/// Kinds of instructions, as `sampler/bpf/instruction.h` numbers them.
const END: u32 = 0;
const JUMPS: [u32; 4] = [13, 14, 15, 16];

struct Host(Pipes);

/// What the code is asked.
#[derive(Debug, Default)]
struct Case {
    salt: u64,
    registers: [u64; 20],
    /// To be decoded only.
    bytes: Option<[u8; 16]>,
    most: u32,
    /// A page is looked up in page tables of so many levels, instead of following a way.
    levels: u32,
}

/// Of a case that is decoded only: length, kind, displacement, immediate operand.
#[derive(Debug)]
struct Answer {
    end: u32,
    failures: u32,
    followed: u32,
    reads: Vec<u64>,
    /// How many there were.
    count: u32,
    /// Lines that were read to where a copy may tear them, and to elsewhere first.
    torn: u32,
    apart: u32,
    /// Something else was noted than what was there.
    wrong: u32,
}

impl Host {
    /// With code that can be read.
    fn start(text: &Text) -> Result<Self> {
        let host = Self(Pipes::start("ways.c")?);
        let code = WayCode {
            address: text.start,
            bytes: text.bytes.len() as u64,
        };
        host.0.tell(&code.to_bytes())?;
        host.0.tell(&text.bytes)?;
        Ok(host)
    }

    fn ask(&self, case: &Case) -> Result<Answer> {
        let given = WayCase {
            salt: case.salt,
            registers: case.registers,
            fs_base: 0x5555_0000_0000,
            gs_base: 0,
            bytes: case.bytes.unwrap_or_default(),
            bases: 1,
            most: case.most,
            decodes: case.bytes.is_some().into(),
            levels: case.levels,
        };
        let bytes = self.0.ask(&given.to_bytes(), size_of::<WayResult>())?;
        let result = WayResult::get(&bytes);
        let count = result.reads;
        Ok(Answer {
            end: result.end,
            failures: result.failures,
            followed: result.followed,
            reads: result.read.into_iter().take(count as usize).collect(),
            count,
            torn: result.torn,
            apart: result.apart,
            wrong: result.wrong,
        })
    }
}

/// The code of this very program.
struct Text {
    start: u64,
    bytes: Vec<u8>,
    functions: Vec<u64>,
}

impl Text {
    fn own() -> Result<Self> {
        let file = fs::read("/proc/self/exe")?;
        let elf = object::File::parse(file.as_slice())?;
        let text = elf.section_by_name(".text").context("no .text")?;
        let (start, bytes) = (text.address(), text.data()?.to_vec());
        let end = start + bytes.len() as u64;
        let symbols = elf.symbols().filter(|symbol| symbol.size() > 64);
        let functions = symbols
            .map(|symbol| symbol.address())
            .filter(|at| (start..end).contains(at));
        let mut functions: Vec<_> = functions.collect();
        functions.sort_unstable();
        functions.dedup();
        Ok(Self {
            start,
            bytes,
            functions,
        })
    }

    fn decode(&self, at: u64) -> Option<Decoded> {
        let offset = usize::try_from(at.checked_sub(self.start)?).ok()?;
        let rest = self.bytes.get(offset..)?;
        Decoded::new(&rest[..rest.len().min(15)], at).ok()
    }
}

/// An entry of a page table, as `ways.c` makes it up.
fn table_entry(salt: u64, address: u64) -> u64 {
    let mut word = mixed(address ^ salt);
    word = word & 0x1fff_ffff
        | if word & 0x7000_0000_0000 != 0 {
            0
        } else {
            0x40_0000_0000
        };
    if word >> 20 & 3 != 0 {
        word &= !0x80;
    }
    word | u64::from(word & 0x6000 != 0)
}

/// Page tables are walked as the processor walks them, and nothing but RAM is read for it: a page
/// that lies elsewhere, or a table that does, is not taken for memory.
#[test]
fn pages_that_are_ram() {
    const DIRECT_MAP: u64 = 0xffff_8880_0000_0000;
    const RAM: u64 = 0x1f00_0000;
    let text = Text {
        start: 0,
        bytes: Vec::new(),
        functions: Vec::new(),
    };
    let host = Host::start(&text).unwrap();
    let mut random = StdRng::seed_from_u64(3);
    let (mut found, mut large, mut refused) = (0, 0, 0);
    for _ in 0..20_000 {
        let (salt, page) = (
            random.random(),
            random.random_range(0x1000..0x7fff_ffff_f000_u64),
        );
        let levels = random.random_range(4..6);
        let top = DIRECT_MAP + random.random_range(0..RAM >> 12) * 4096;
        let mut registers = [0; 20];
        registers[..4].copy_from_slice(&[DIRECT_MAP, top, RAM, page]);
        let case = Case {
            salt,
            registers,
            levels,
            ..Case::default()
        };
        let got = host.ask(&case).unwrap();
        let mut table = Some(top);
        let mut expected = false;
        let mut reads = Vec::new();
        for level in (0..levels).rev() {
            let Some(at) = table else { break };
            let shift = 12 + 9 * level;
            let entry_at = at + (page >> shift & 511) * 8;
            reads.push(entry_at);
            let entry = table_entry(salt, entry_at);
            let address = entry & 0x000f_ffff_ffff_f000;
            if entry & 1 == 0 {
                table = None;
            } else if level == 0 || level <= 2 && entry & 0x80 != 0 {
                let inside = (1 << shift) - 1;
                let physical = address & !inside | page & inside;
                expected = physical + 64 <= RAM;
                large += u32::from(expected && level > 0);
                table = None;
            } else {
                table = (address + 4096 <= RAM).then_some(DIRECT_MAP + address);
            }
        }
        assert_eq!(got.end != 0, expected, "{page:x} by {registers:x?}");
        assert_eq!(got.reads, reads);
        found += u32::from(expected);
        refused += u32::from(!expected);
    }
    println!("{found} found, {large} of them large, {refused} refused");
    assert!(found > 1000 && large > 100 && refused > 1000);
}

/// What iced makes of the bytes, if it is an instruction.
fn by_iced(bytes: &[u8; 16]) -> Option<Instruction> {
    let mut decoder = Decoder::with_ip(64, &bytes[..15], 0x40_0000, DecoderOptions::NONE);
    let instruction = decoder.decode();
    (!instruction.is_invalid()).then_some(instruction)
}

/// Whether the handler decodes an instruction as iced does, where it takes it for one that is
/// followed: its length, where it leads, its displacement. What is wrong, if anything is.
fn difference(host: &Host, bytes: [u8; 16], i: &Instruction) -> (u32, Option<String>) {
    let case = Case {
        bytes: Some(bytes),
        ..Case::default()
    };
    let got = host.ask(&case).unwrap();
    let kind = got.failures;
    if kind == END {
        return (kind, None);
    }
    let wrong = |what: &str| Some(format!("{what} of {i} ({bytes:02x?}): {got:x?}"));
    if got.end as usize != i.len() {
        return (kind, wrong("length"));
    }
    let branches = matches!(
        i.flow_control(),
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch | FlowControl::Call
    );
    if branches != JUMPS.contains(&kind) {
        return (kind, wrong("kind"));
    }
    if branches && i.op0_kind() == OpKind::NearBranch64 {
        let to = i
            .next_ip()
            .wrapping_add_signed(i64::from(got.count.cast_signed()));
        if to != i.near_branch64() {
            return (kind, wrong("target"));
        }
    }
    let memory = i.op_kinds().any(|kind| kind == OpKind::Memory);
    let mut displacement = i.memory_displacement64();
    if i.memory_base() == Register::RIP {
        displacement = displacement.wrapping_sub(i.next_ip());
    }
    // The cast keeps what is encoded. What is not followed has none that matters.
    if memory && kind > 2 && displacement as u32 != got.followed {
        return (kind, wrong("displacement"));
    }
    (kind, None)
}

/// All instructions of this very program are decoded as iced decodes them, and hardly any ends a
/// way.
#[test]
fn instructions_of_a_program() {
    let text = Text::own().unwrap();
    let host = Host::start(&text).unwrap();
    let (mut all, mut ends) = (0, 0);
    for start in text.functions.iter().step_by(7) {
        let mut at = *start;
        for _ in 0..60 {
            let Some(decoded) = text.decode(at) else {
                break;
            };
            let i = decoded.instruction();
            let mut bytes = [0; 16];
            let from = (at - text.start) as usize;
            let rest = &text.bytes[from..(from + i.len()).min(text.bytes.len())];
            bytes[..rest.len()].copy_from_slice(rest);
            let mut here = *i;
            if let Some(found) = by_iced(&bytes) {
                here = found;
            }
            let (kind, wrong) = difference(&host, bytes, &here);
            assert!(wrong.is_none(), "{wrong:?}");
            all += 1;
            // Where a program breaks off, so does the way.
            ends += u32::from(kind == END && i.flow_control() == FlowControl::Next);
            at += i.len() as u64;
        }
    }
    println!("{all} instructions, {ends} ends");
    assert!(all > 10_000 && ends * 200 < all, "{ends} of {all}");
}

/// So are random bytes that iced takes for an instruction, with prefixes and escapes of all kinds.
#[test]
fn instructions_at_random() {
    let text = Text::own().unwrap();
    let host = Host::start(&text).unwrap();
    let mut random = StdRng::seed_from_u64(5);
    let (mut all, mut followed) = (0, 0);
    let mut wrongs = Vec::new();
    while all < 100_000 {
        let mut bytes = [0; 16];
        random.fill_bytes(&mut bytes);
        match random.random_range(0..10) {
            0 => bytes[0] = 0x0f,
            1 => bytes[0] = 0xc5,
            2 => (bytes[0], bytes[1]) = (0xc4, bytes[1] & 0xe0 | (1 + bytes[1] % 3)),
            3 => {
                bytes[0] = 0x62;
                bytes[1] = bytes[1] & 0xf0 | (1 + bytes[1] % 3);
                bytes[2] |= 4;
            }
            4 => bytes[0] = 0x40 | bytes[0] & 15,
            5 => (bytes[0], bytes[1]) = (0x40 | bytes[0] & 15, 0x0f),
            6 => (bytes[0], bytes[1]) = (0x66, 0x0f),
            7 => (bytes[0], bytes[1]) = (if bytes[0] & 1 == 0 { 0xf2 } else { 0xf3 }, 0x0f),
            _ => {}
        }
        let Some(i) = by_iced(&bytes) else { continue };
        all += 1;
        let (kind, wrong) = difference(&host, bytes, &i);
        followed += u32::from(kind != END);
        wrongs.extend(wrong);
    }
    println!("{followed} of {all} followed, {} wrong", wrongs.len());
    for wrong in wrongs.iter().take(40) {
        println!("{wrong}");
    }
    assert!(wrongs.is_empty() && followed * 10 > all * 7);
}

/// Whatever the code is and the registers are, the way ends in time, and reads whole lines of user
/// memory, no more than there is room for. What it notes is what is there, and no line goes to
/// where a copy may tear it.
#[test]
fn hostile_code_reads_user_memory_only() {
    let text = Text::own().unwrap();
    let host = Host::start(&text).unwrap();
    let mut random = StdRng::seed_from_u64(9);
    let (mut read, mut apart) = (0, 0);
    for round in 0..20_000_u32 {
        let mut registers = [0; 20];
        for register in &mut registers {
            *register = match random.random_range(0..8) {
                0 => random.random_range(0..0x2000),
                1 => random.random_range(0x00ff_ffff_ffff_f000_u64..0x0100_0000_0000_1000),
                2 => random.random(),
                _ => random.random_range(0x5555_0000_0000..0x5555_0001_0000),
            };
        }
        // Code that is made up, or any byte of a program's.
        if round % 4 != 0 {
            registers[16] = text.start + random.random_range(0..text.bytes.len() as u64);
        }
        let case = Case {
            salt: random.random(),
            registers,
            bytes: None,
            levels: 0,
            most: random.random_range(0..2000),
        };
        let got = host.ask(&case).unwrap();
        assert!(
            got.count as usize <= MOST_LINES && got.followed <= 1024,
            "{got:?}"
        );
        for address in &got.reads {
            assert!(address % 64 == 0 && address >> 56 == 0, "{address:x}");
        }
        assert!(got.torn == 0 && got.wrong == 0, "{got:?}");
        read += got.count;
        apart += got.apart;
    }
    println!("{read} reads, {apart} of them to elsewhere first");
    assert!(
        read > 20_000 && apart > 100,
        "only {read} reads, {apart} apart"
    );
}

struct Interpreted<'a> {
    text: &'a Text,
    held: Option<Decoded>,
}

impl Code for Interpreted<'_> {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        self.held = self.text.decode(pc);
        Ok(Fetched {
            instruction: self.held.as_ref().ok_or(StopReason::NotMapped)?,
            bias: 0,
            mark: 0,
        })
    }
}

struct MadeUp(u64);

impl Memory for MadeUp {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        address >= 0x1000 && address >> 56 == 0 && read_made_up(self.0, address, bytes)
    }
}

/// Loads of memory that was there before the window, and words that were stored in it.
#[derive(Default)]
struct Loads(Vec<u64>, Vec<u64>);

impl Sink for Loads {
    fn value(&mut self, _: u64, _: Parameter, _: Option<u64>) {}

    fn load(&mut self, _: u64, address: Option<u64>, _: u32, value: Option<u64>) {
        if let Some(address) = address
            && value.is_some()
            && !self.1.contains(&(address >> 3))
        {
            self.0.push(address);
        }
    }

    fn store(&mut self, _: u64, address: Option<u64>, _: u32, _: Option<u64>) {
        self.1.extend(address.map(|address| address >> 3));
    }
}

/// Where the handler follows a way as far as it is asked to, it has read nearly all that the
/// interpreter loads on it: from any function of this program, in memory that is made up.
#[test]
fn ways_are_those_of_the_interpreter() {
    let text = Text::own().unwrap();
    let host = Host::start(&text).unwrap();
    let mut random = StdRng::seed_from_u64(11);
    let (mut wanted, mut had, mut ways, mut ended) = (0, 0, 0, [0; 5]);
    for _ in 0..6000 {
        let start = text.functions[random.random_range(0..text.functions.len())];
        let mut registers = [0_u64; 20];
        for register in &mut registers[..16] {
            *register = 0x5555_0000_0000 + (random.random_range(0..0x8_0000_u64) & !7);
        }
        (registers[16], registers[17]) = (start, 0x202);
        let salt = random.random();
        let case = Case {
            salt,
            registers,
            bytes: None,
            levels: 0,
            most: 60,
        };
        let got = host.ask(&case).unwrap();
        ended[got.end as usize % 5] += 1;

        let mut from = Registers::from_sample(registers[..16].try_into().unwrap(), start, 0x202);
        from.fs_base = Some(0x5555_0000_0000);
        let mut loads = Loads::default();
        let window = Window {
            max_instructions: 60,
            ..Window::default()
        };
        let mut code = Interpreted {
            text: &text,
            held: None,
        };
        let outcome = window.run(&from, &mut code, &mut MadeUp(salt), &mut loads);
        // Only where the handler may have come as far.
        if got.failures > 0 || got.end != 0 || outcome.instructions < 20 {
            continue;
        }
        ways += 1;
        // Code that is read as data is had in any case.
        let end = text.start + text.bytes.len() as u64;
        for load in loads.0.iter().filter(|at| !(text.start..end).contains(at)) {
            wanted += 1;
            had += usize::from(got.reads.contains(&(load & !63)));
        }
    }
    println!("{ways} ways, {had} of {wanted} loads, ends {ended:?}");
    assert!(ways > 100, "only {ways} ways");
    assert!(had * 100 >= wanted * 97, "{had} of {wanted} loads");
}
