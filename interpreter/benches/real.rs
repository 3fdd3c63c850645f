//! Windows of functions of the machine's own libraries.

use std::ops::Range;
use std::rc::Rc;

use interpreter::{
    Code, DecodeCache, Fetched, Memory, Parameter, Registers, Sink, StopReason, Window, WindowState,
};
use object::elf::PF_X;
use object::{Object, ObjectSegment, ObjectSymbol, Segment, SegmentFlags, SymbolKind};

/// Where libraries lie whose functions everything uses.
const LIBRARIES: [&str; 2] = [
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/libm.so.6",
];
/// Those of programs that compute in loops of integers, where the machine has them.
const PROGRAMS: [&str; 4] = [
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/liblzma.so.5",
    "/lib/x86_64-linux-gnu/libsqlite3.so.0",
    "/lib/x86_64-linux-gnu/libpython3.11.so.1.0",
];
/// Instructions into a function at which windows start.
const STARTS: std::ops::Range<u32> = 0..24;
/// Instructions with a vector register that make a window one of vector code.
const VECTORS: usize = 6;
/// Windows of a kind.
pub(crate) const WINDOWS: usize = 500;

/// Address and content of what is loaded of a library.
type Segments = Vec<(u64, Vec<u8>)>;

/// The library's loaded segments, and what was decoded of them.
pub(crate) struct Library {
    pub(crate) path: &'static str,
    segments: Rc<Segments>,
    functions: Vec<u64>,
    /// Where code lies.
    code: Vec<Range<u64>>,
    cache: DecodeCache,
}

impl Library {
    /// The libraries that this machine has.
    pub(crate) fn all() -> Vec<Self> {
        LIBRARIES.into_iter().filter_map(Self::new).collect()
    }

    /// Those of programs that this machine has.
    pub(crate) fn of_programs() -> Vec<Self> {
        PROGRAMS.into_iter().filter_map(Self::new).collect()
    }

    fn new(path: &'static str) -> Option<Self> {
        let file = std::fs::read(path).ok()?;
        let file = object::File::parse(&*file).ok()?;
        let is_code = |s: &Segment<'_, '_>| match s.flags() {
            SegmentFlags::Elf { p_flags, .. } => p_flags.contains(PF_X),
            _ => false,
        };
        let code = file.segments().filter(is_code);
        let code = code.map(|s| s.address()..s.address() + s.size()).collect();
        let segments = file.segments();
        let segments = segments.filter_map(|s| Some((s.address(), s.data().ok()?.to_vec())));
        let functions = file.dynamic_symbols();
        let functions = functions.filter(|s| s.kind() == SymbolKind::Text && s.size() > 0);
        let mut functions: Vec<_> = functions.map(|s| s.address()).collect();
        functions.sort_unstable();
        functions.dedup();
        Some(Self {
            path,
            segments: Rc::new(segments.collect()),
            functions,
            code,
            cache: DecodeCache::new(1 << 16),
        })
    }

    /// Memory for windows of its code.
    pub(crate) fn memory(&self) -> Small {
        Small(Rc::clone(&self.segments))
    }

    /// The starts of windows that run their full length, of integer code or of vector code.
    pub(crate) fn starts(&mut self, vectors: bool) -> Vec<u64> {
        let mut starts = Vec::new();
        for function in self.functions.clone() {
            for skipped in STARTS {
                let Some(start) = self.after(function, skipped) else {
                    break;
                };
                let mut pcs = Pcs(Vec::new());
                let end = run(self, start, 16, &mut pcs);
                let count = pcs.0.iter().filter(|pc| self.has_vector(**pc)).count();
                let fits = if vectors {
                    count >= VECTORS
                } else {
                    count == 0
                };
                if end.is_some() && fits {
                    starts.push(start);
                }
            }
        }
        starts.sort_unstable();
        starts.dedup();
        // From all over the library.
        let step = starts.len().div_ceil(WINDOWS).max(1);
        starts.into_iter().step_by(step).collect()
    }

    /// Starts of windows of any code that run so many instructions, at most so many of them.
    pub(crate) fn long_starts(&mut self, instructions: u32, count: usize) -> Vec<u64> {
        let mut starts = self.functions.clone();
        starts.retain(|start| {
            let mut pcs = Pcs(Vec::new());
            let end = run(self, *start, instructions, &mut pcs);
            let is_code = |pc: &u64| self.code.iter().any(|range| range.contains(pc));
            end.is_some() && pcs.0.iter().all(is_code)
        });
        let step = starts.len().div_ceil(count).max(1);
        starts.into_iter().step_by(step).collect()
    }

    /// Where a window of so many instructions from a function's entry comes to.
    fn after(&mut self, function: u64, instructions: u32) -> Option<u64> {
        run(self, function, instructions, &mut Pcs(Vec::new()))
    }

    fn has_vector(&mut self, pc: u64) -> bool {
        self.fetch(pc).is_ok_and(|fetched| {
            let i = fetched.instruction.instruction();
            (0..i.op_count()).any(|operand| i.op_register(operand).is_vector_register())
        })
    }
}

/// Where a window ends, if it runs its length.
fn run(library: &mut Library, start: u64, instructions: u32, sink: &mut dyn Sink) -> Option<u64> {
    let window = Window {
        max_instructions: instructions,
        ..Window::default()
    };
    let mut state = WindowState::new(registers(start));
    let mut memory = library.memory();
    let end = window.run_on(&mut state, library, &mut memory, sink);
    (end.instructions == instructions).then_some(state.registers.rip)
}

/// Pointers in every register.
pub(crate) fn gpr() -> [u64; 16] {
    std::array::from_fn(|i| 0x7000_0000 + 0x1000 * i as u64)
}

pub(crate) fn registers(start: u64) -> Registers {
    Registers::from_sample(gpr(), start, 0x246)
}

impl Code for Library {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        let segments = &self.segments;
        let read = |bytes: &mut [u8; 15]| {
            let code = loaded(segments, pc).ok_or(StopReason::NotMapped)?;
            let len = code.len().min(bytes.len());
            bytes[..len].copy_from_slice(&code[..len]);
            Ok(len)
        };
        Ok(Fetched {
            instruction: self.cache.get_or_decode(0, pc, read)?,
            bias: 0,
            mark: 0,
        })
    }

    fn keeps(&self) -> bool {
        true
    }
}

/// What is loaded from an address on.
fn loaded(segments: &Segments, address: u64) -> Option<&[u8]> {
    segments.iter().find_map(|(start, data)| {
        let at = usize::try_from(address.checked_sub(*start)?).ok()?;
        data.get(at..).filter(|rest| !rest.is_empty())
    })
}

/// The library as it is loaded, and elsewhere small numbers, so that loops are short.
pub(crate) struct Small(Rc<Segments>);

impl Memory for Small {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        if address < gpr()[0]
            && let Some(content) = loaded(&self.0, address).and_then(|c| c.get(..bytes.len()))
        {
            bytes.copy_from_slice(content);
            return true;
        }
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = (address.wrapping_add(i as u64) as u8).wrapping_mul(7) & 0x3f;
        }
        true
    }
}

struct Pcs(Vec<u64>);

impl Sink for Pcs {
    fn reached(&mut self, pc: u64, _mark: u32) {
        self.0.push(pc);
    }

    fn value(&mut self, _: u64, _: Parameter, _: Option<u64>) {}
}
