//! The handler's way through translated code: that it reads what the thread would load, by the
//! interpreter, and that no micro-operation makes it read what it may not.

use std::fs;

use anyhow::{Context as _, Result};
use interpreter::{
    Code, Decoded, Fetched, Memory, Parameter, Registers, Sink, StopReason, Translation,
    Translator, Window,
};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::host::{Pipes, read_made_up};

/// Reads that a result reports.
const MOST_READS: usize = 256;
/// Bytes of a result.
const RESULT: usize = 16 + 8 * MOST_READS;
/// Lines that a way reads at most, and each of them once more.
const MOST_LINES: usize = 2 * 96;

struct Host(Pipes);

/// What the code is asked.
#[derive(Debug)]
struct Case<'a> {
    salt: u64,
    registers: [u64; 20],
    code: std::ops::Range<u64>,
    at: u32,
    most: u32,
    uops: &'a [[u8; 16]],
    entries: &'a [(u64, u32)],
}

#[derive(Debug)]
struct Answer {
    end: u32,
    failures: u32,
    followed: u32,
    reads: Vec<u64>,
    /// How many there were.
    count: usize,
}

impl Host {
    fn start() -> Result<Self> {
        Ok(Self(Pipes::start("ways.c")?))
    }

    fn ask(&self, case: &Case<'_>) -> Result<Answer> {
        let mut bytes = Vec::new();
        let mut words = vec![case.salt];
        words.extend(case.registers);
        words.extend([0, 0x5555_0000_0000, 0, case.code.start, case.code.end]);
        bytes.extend(words.into_iter().flat_map(u64::to_ne_bytes));
        let counts = [case.uops.len() as u32, case.entries.len() as u32];
        for half in [1, case.at, case.most, counts[0], counts[1], 0] {
            bytes.extend(half.to_ne_bytes());
        }
        bytes.extend(case.uops.iter().flatten());
        for (address, at) in case.entries {
            bytes.extend(address.to_ne_bytes());
            bytes.extend(u64::from(*at).to_ne_bytes());
        }
        let bytes = self.0.ask(&bytes, RESULT)?;
        let half = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let count = half(12) as usize;
        let reads = bytes[16..].chunks_exact(8).take(count);
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
        Ok(Answer {
            end: half(0),
            failures: half(4),
            followed: half(8),
            reads: reads.map(word).collect(),
            count,
        })
    }
}

/// Whatever the micro-operations are, the way ends in time, and reads whole lines of user memory, no
/// more than there is room for.
#[test]
fn hostile_uops_read_user_memory_only() {
    let host = Host::start().unwrap();
    let register = prop_oneof![
        4 => 0x5555_0000_0000_u64..0x5555_0001_0000,
        1 => 0_u64..0x2000,
        1 => 0x00ff_ffff_ffff_f000_u64..0x0100_0000_0000_1000,
        1 => any::<u64>(),
    ];
    let uop = (prop::array::uniform16(any::<u8>()), 0_u8..30, 0_u8..24).prop_map(
        |(mut bytes, code, small)| {
            // Mostly operations that there are, and operands that are known.
            if bytes[15] < 240 {
                bytes[0] = code;
                bytes[2] = small;
                bytes[3] = if bytes[3] & 1 == 0 { 19 } else { bytes[3] & 15 };
                let sign = if bytes[11] & 1 == 0 { 0 } else { 0xff };
                bytes[9..12].fill(sign);
                bytes[13..16].fill(0);
            }
            bytes
        },
    );
    let uops = prop::collection::vec(uop, 1..200);
    let config = Config {
        cases: 20_000,
        failure_persistence: None,
        ..Config::default()
    };
    let read = std::cell::Cell::new(0);
    TestRunner::new(config)
        .run(
            &(
                prop::array::uniform20(register),
                uops,
                any::<u64>(),
                0_u32..2000,
            ),
            |(registers, uops, salt, most)| {
                let case = Case {
                    salt,
                    registers,
                    code: 0..0,
                    at: 0,
                    most,
                    uops: &uops,
                    entries: &[(0x5555_0000_0010, 3)],
                };
                let got = host.ask(&case).unwrap();
                prop_assert!(got.count <= MOST_LINES && got.followed <= 1024, "{got:?}");
                for address in &got.reads {
                    prop_assert!(address % 64 == 0 && address >> 56 == 0, "{address:x}");
                }
                read.set(read.get() + got.count);
                Ok(())
            },
        )
        .unwrap();
    assert!(read.get() > 20_000, "only {} reads", read.get());
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

    fn load(&mut self, _: u64, address: Option<u64>, _: u32, known: bool) {
        if let Some(address) = address
            && known
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
    let host = Host::start().unwrap();
    let text = Text::own().unwrap();
    let mut translator = Translator::default();
    let mut random = StdRng::seed_from_u64(11);
    let (mut wanted, mut had, mut ways, mut ended) = (0, 0, 0, [0; 5]);
    for _ in 0..3000 {
        let start = text.functions[random.random_range(0..text.functions.len())];
        let mut registers = [0_u64; 20];
        for register in &mut registers[..16] {
            *register = 0x5555_0000_0000 + (random.random_range(0..0x8_0000_u64) & !7);
        }
        (registers[16], registers[17]) = (start, 0x202);
        let salt = random.random();
        let Translation { uops, starts } =
            translator.translate(start, 1, 3000, &|_| None, &mut |at| text.decode(at));
        let mut bytes = vec![[0; 16]];
        bytes.extend(uops.iter().map(|uop| uop.to_bytes()));
        let end = text.start + text.bytes.len() as u64;
        let case = Case {
            salt,
            registers,
            code: text.start..end,
            at: 1,
            most: 120,
            uops: &bytes,
            entries: &starts,
        };
        let got = host.ask(&case).unwrap();
        ended[got.end as usize % 5] += 1;

        let mut from = Registers::from_sample(registers[..16].try_into().unwrap(), start, 0x202);
        from.fs_base = Some(0x5555_0000_0000);
        let mut loads = Loads::default();
        let window = Window {
            max_instructions: 30,
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
        // What lies in an unreadable neighbourhood of the code is not data.
        for load in loads.0.iter().filter(|at| !(text.start..end).contains(at)) {
            wanted += 1;
            had += usize::from(got.reads.contains(&(load & !63)));
        }
    }
    println!("{ways} ways, {had} of {wanted} loads, ends {ended:?}");
    assert!(ways > 100, "only {ways} ways");
    assert!(had * 100 >= wanted * 97, "{had} of {wanted} loads");
}
