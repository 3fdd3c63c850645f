use addresses::ProcessAddress;
use interpreter::{Memory, Parameter, Registers, Sink, Traces, Window, WindowState};

use super::*;
use crate::host::Host;
use crate::images::{Identity, Images};
use crate::loadmap::Process;
use crate::mapping::tests::mapping;

/// `_text`, where the only mapping begins.
const TEXT: u64 = 0xffff_ffff_8100_0000;
const START: u64 = TEXT + 0x1030;
/// `nop` up to byte 13, an addition that lies in two lines, `dec eax`, `jmp` to itself
const CODE: [u8; 21] = [
    0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x83, 0xc0,
    0x05, 0xff, 0xc8, 0xeb, 0xfe,
];

struct Nothing;

impl Memory for Nothing {
    fn read(&mut self, _: u64, _: &mut [u8]) -> bool {
        false
    }
}

impl Sink for Nothing {
    fn value(&mut self, _: u64, _: Parameter, _: Option<u64>) {}
}

/// What is kept from one window to the next.
struct Kept {
    images: Images,
    process: Process,
    cache: DecodeCache,
    epochs: Epochs,
    traces: Traces,
}

impl Kept {
    fn new() -> Self {
        let mut images = Images::new(Vec::new(), 0, 1 << 20);
        let image = images.intern(Identity::Kernel, "[kernel]");
        // What the image is read from is known by then.
        images.elf(image, None);
        Self {
            process: Process::of_kernel(image, ProcessAddress(TEXT)),
            images,
            cache: DecodeCache::new(64),
            epochs: Epochs::default(),
            traces: Traces::new(64),
        }
    }

    /// RAX after a window of so many instructions from 0 on, with the code in lines as the handler
    /// reads it, and how many instructions were fetched.
    fn run(&mut self, code: &[u8; 21], instructions: u32) -> (Option<u64>, u32) {
        let (first, second) = code.split_at(16);
        let mut pieces = Pieces::default();
        pieces.push(START, first);
        pieces.push(START + 16, second);
        let mut host = Host::Live;
        let space = AddressSpace::of(&mut self.process, &mut host, &mut self.images, 1);
        let cache = &mut self.cache;
        let mut code = Counted {
            code: ProcessCode::new(&space, cache, &mut self.epochs, Some(&pieces)),
            fetched: 0,
        };
        let window = Window {
            max_instructions: instructions,
            capture: interpreter::ValueKinds::NONE,
        };
        let mut state = WindowState::new(Registers::from_sample([0; 16], START, 0));
        let traces = &mut self.traces;
        window.run_traced(&mut state, traces, &mut code, &mut Nothing, &mut Nothing);
        (state.registers.gpr[0].get(8), code.fetched)
    }
}

/// Code, and how many instructions of it were fetched.
struct Counted<'a, 'b, 'v> {
    code: ProcessCode<'a, 'b, 'v>,
    fetched: u32,
}

impl Code for Counted<'_, '_, '_> {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        self.fetched += 1;
        self.code.fetch(pc)
    }
    fn keeps(&self) -> bool {
        self.code.keeps()
    }
    fn epoch(&self) -> u64 {
        self.code.epoch()
    }
    fn code(&self) -> [u8; CODE_BYTES] {
        self.code.code()
    }
    fn holds(&mut self, pc: u64, code: &[u8; CODE_BYTES], len: usize) -> bool {
        self.code.holds(pc, code, len)
    }
}

/// What windows came by twice is not fetched a third time, an instruction in two pieces included.
#[test]
fn kept_from_the_second_time_on() {
    let mut kept = Kept::new();
    assert_eq!(kept.run(&CODE, 16), (Some(4), 16));
    assert_eq!(kept.run(&CODE, 16), (Some(4), 16));
    assert_eq!(kept.run(&CODE, 16), (Some(4), 0));
}

/// Where the bytes are others in a window, these are what runs, on either side of the place where
/// one piece ends and another begins; and again the first ones, when they are back.
#[test]
fn other_bytes() {
    for at in [13, 14, 15, 16, 18] {
        let mut kept = Kept::new();
        let mut other = CODE;
        // `std`, `imul`, `sub`, another immediate, `inc`
        other[at] = match at {
            13 => 0xfd,
            14 => 0x6b,
            15 => 0xe8,
            16 => 0x07,
            _ => 0xc0,
        };
        let alone = Kept::new().run(&other, 16).0;
        for _ in 0..3 {
            kept.run(&CODE, 16);
        }
        for _ in 0..3 {
            assert_eq!(kept.run(&other, 16).0, alone, "byte {at}");
        }
        assert_eq!(kept.run(&CODE, 16).0, Some(4), "byte {at}");
    }
}

/// Without the second piece a window ends where that would begin, whatever was kept.
#[test]
fn without_the_bytes() {
    let mut kept = Kept::new();
    for _ in 0..3 {
        kept.run(&CODE, 16);
    }
    let mut pieces = Pieces::default();
    pieces.push(START, &CODE[..16]);
    let mut host = Host::Live;
    let space = AddressSpace::of(&mut kept.process, &mut host, &mut kept.images, 1);
    let mut code = ProcessCode::new(&space, &mut kept.cache, &mut kept.epochs, Some(&pieces));
    let mut held = |from: usize, len: usize| {
        let mut bytes = [0; CODE_BYTES];
        bytes[..len].copy_from_slice(&CODE[from..from + len]);
        code.holds(START + from as u64, &bytes, len)
    };
    assert!(held(13, 1) && !held(14, 3) && !held(17, 2));
}

/// Samples of before a rename leave nothing prepared for those behind it.
#[test]
fn other_names() {
    let mut kept = Kept::new();
    for _ in 0..3 {
        kept.run(&CODE, 16);
    }
    let (maps, epochs) = (&kept.process.maps, &mut kept.epochs);
    let first = epochs.of(maps, 100);
    maps.note_rename(200);
    let between = epochs.of(maps, 150);
    assert_ne!(between, first);
    assert_eq!(epochs.of(maps, 199), between);
    let behind = epochs.of(maps, 200);
    assert_ne!(behind, between);
    assert_eq!(epochs.of(maps, 300), behind);
}

/// When another mapping comes, all is fetched again; processes do not see each other's.
#[test]
fn other_mappings() {
    let mut kept = Kept::new();
    for _ in 0..3 {
        kept.run(&CODE, 16);
    }
    let before = kept.process.maps.epoch.get();
    let image = kept
        .process
        .maps
        .find(ProcessAddress(TEXT))
        .expect("mapped")
        .image;
    let data = mapping(0x1000, 0x2000, 0, true);
    kept.process.maps.insert(data);
    assert_eq!(kept.run(&CODE, 16), (Some(4), 16));
    assert_ne!(kept.process.maps.epoch.get(), before);
    let of_other = Process::of_kernel(image, ProcessAddress(TEXT));
    kept.process = of_other;
    assert_eq!(kept.run(&CODE, 16).1, 16);
}
