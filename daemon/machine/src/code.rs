//! The code that a window runs through: as it was read at the interrupt, else as the image's file
//! has it, where that is certain to be the same.

#[cfg(test)]
mod tests;

use std::ops::Range;

use addresses::{Bias, ProcessAddress, ProcessRange};
use interpreter::{CODE_BYTES, Code, DecodeCache, Fetched, Held, MAX_BYTES, Pieces, StopReason};

use crate::address_space::AddressSpace;
use crate::images::ImageId;
use crate::maps::Maps;
use crate::place::Pc;

/// Numbers of what is mapped in processes: code that was prepared for one window serves others that
/// have the same mappings and bring the same bytes.
#[derive(Debug, Default)]
pub struct Epochs {
    last: u64,
}

impl Epochs {
    /// The number of these mappings at a sample's time, which is theirs until they change or code
    /// in them has another image: what is shown of code was decoded under its image.
    fn of(&mut self, maps: &Maps, time: u64) -> u64 {
        if maps.passes_rename(time) {
            maps.epoch.set(0);
        }
        match maps.epoch.get() {
            0 => {
                self.last += 1;
                maps.epoch.set(self.last);
                self.last
            }
            known => known,
        }
    }
}

/// Code of the sampled process, decoded through the cache.
pub struct ProcessCode<'a, 'b, 'v> {
    space: &'a AddressSpace<'v>,
    cache: &'a mut DecodeCache,
    epoch: u64,
    /// What was read at the interrupt, if the engine reads there.
    captured: Option<&'b Pieces<'b>>,
    run: Run<'b>,
    /// The piece that kept code was compared with last.
    compared: Run<'b>,
    /// What was fetched last, and whether it is to be kept.
    last: Option<(Held, Origin)>,
    keeps: bool,
    /// Addresses of which no code was read.
    bare: Range<u64>,
    /// The mapping of the last instruction, which a window may see.
    open: Open,
}

/// The code that an instruction was found in: the next is mostly there, too.
#[derive(Clone, Copy, Debug, Default)]
struct Run<'b> {
    /// Process address of the first byte.
    start: u64,
    /// As read at the interrupt, within one mapping.
    bytes: &'b [u8],
    /// Of the piece that it is of.
    number: usize,
}

/// A mapping whose code may be seen.
#[derive(Clone, Copy, Debug)]
struct Open {
    range: ProcessRange,
    image: ImageId,
    bias: Bias,
    /// All this stays so until the mappings change.
    lasts: bool,
}

impl Open {
    /// The address in the image, as the cache of instructions has it.
    #[inline(always)]
    fn in_image(&self, pc: u64) -> u64 {
        self.bias.in_image(ProcessAddress(pc)).0
    }
}

impl<'a, 'b, 'v> ProcessCode<'a, 'b, 'v> {
    /// The code that a window may see.
    pub fn new(
        space: &'a AddressSpace<'v>,
        cache: &'a mut DecodeCache,
        epochs: &mut Epochs,
        captured: Option<&'b Pieces<'b>>,
    ) -> Self {
        cache.begin();
        Self {
            space,
            cache,
            epoch: epochs.of(space.maps, space.time),
            captured,
            run: Run::default(),
            compared: Run::default(),
            last: None,
            keeps: false,
            bare: 0..captured.map_or(u64::MAX, |_| 0),
            open: Open {
                range: ProcessRange::default(),
                image: ImageId(0),
                bias: Bias::NONE,
                lasts: false,
            },
        }
    }

    /// The instruction at a process address, if its code was read.
    #[inline(always)]
    fn sampled(&mut self, pc: u64) -> Option<Result<Held, StopReason>> {
        let Run { start, bytes, .. } = self.run;
        // Of an address below the run the offset is beyond every run.
        let offset = usize::try_from(pc.wrapping_sub(start)).ok()?;
        let code = match bytes.get(offset..) {
            Some(code) if !code.is_empty() => code,
            _ => self.next_run(pc)?,
        };
        let Open { image, .. } = self.open;
        let address = self.open.in_image(pc);
        if code.len() >= MAX_BYTES {
            return Some(self.cache.hold_sampled(image.0, address, code));
        }
        // Of an instruction that goes on, another piece may have more.
        self.cache.find_sampled(image.0, address, code).map(Ok)
    }

    /// Goes on in the piece that has an address; its bytes from there on.
    #[inline(never)]
    fn next_run(&mut self, pc: u64) -> Option<&'b [u8]> {
        let Open { range, .. } = self.open;
        if !range.contains(ProcessAddress(pc)) || self.bare.contains(&pc) {
            return None;
        }
        let pieces = self.captured?;
        let Some((number, first, bytes)) = pieces.next_around(self.run.number + 1, pc) else {
            self.bare = pc..pieces.next_start(pc);
            return None;
        };
        // What lies beside the mapping is another image's.
        let within = |address: u64| {
            let offset = address.saturating_sub(first);
            usize::try_from(offset).map_or(bytes.len(), |offset| offset.min(bytes.len()))
        };
        self.run = Run {
            start: first.max(range.start.0),
            bytes: &bytes[within(range.start.0)..within(range.end.0)],
            number,
        };
        self.run.bytes.get((pc - self.run.start) as usize..)
    }

    /// An instruction of a page that is known to be the file's, if it was met before.
    #[inline(never)]
    fn pristine(&mut self, pc: u64) -> Option<Held> {
        let Open { range, image, .. } = self.open;
        if !range.contains(ProcessAddress(pc))
            || !self.bare.contains(&pc)
            || !self.space.is_in_pristine(ProcessAddress(pc))
        {
            return None;
        }
        let held = self.cache.find_decoded(image.0, self.open.in_image(pc))?;
        let last = pc.wrapping_add(self.cache.get(held).len() as u64 - 1);
        self.space
            .is_in_pristine(ProcessAddress(last))
            .then_some(held)
    }

    /// An instruction of another mapping, or that goes on in another piece, or must be vouched for.
    #[cold]
    #[inline(never)]
    fn find_elsewhere(&mut self, pc: u64) -> Result<(Held, Origin), StopReason> {
        let at = ProcessAddress(pc);
        let located = self.space.locate(at).ok_or(StopReason::NotMapped)?;
        let mapping = &located.mapping;
        if !mapping.executable && !self.space.is_executable(at, mapping) {
            return Err(StopReason::NotMapped);
        }
        if self.space.is_denied(located.pc) {
            return Err(StopReason::DeniedImage);
        }
        let Pc { image, address } = located.pc;
        // What is left of the run may lie in another mapping.
        self.run.bytes = &[];
        self.open = Open {
            range: mapping.range,
            image,
            bias: located.bias,
            lasts: mapping.executable && self.space.has_lasting_bias(mapping),
        };
        let code = self.captured.map(|pieces| pieces.code(pc));
        let code = code.unwrap_or_default();
        if !code.is_empty() {
            match self.cache.hold_sampled(image.0, address.0, code) {
                Ok(held) => return Ok((held, Origin::Sample)),
                // It goes on in another piece, or behind what was read.
                Err(StopReason::TruncatedCode) => {
                    if let Some(held) = self.across(pc) {
                        return Ok((held, Origin::Sample));
                    }
                }
                Err(reason) => return Err(reason),
            }
        }
        let captured = self.captured.is_some();
        let reason = |why| {
            if captured {
                StopReason::CodeNotCaptured
            } else {
                why
            }
        };
        self.space
            .is_pristine(at, &located.mapping)
            .map_err(reason)?;
        let held = self.cache.hold_or_decode(image.0, address.0, |bytes| {
            match self.space.images.borrow_mut().read(image, address, bytes) {
                0 => Err(StopReason::ImageUnreadable),
                n => Ok(n),
            }
        })?;
        // The instruction may reach into the next page, which may have been written.
        let length = self.cache.get(held).len() as u64;
        let last = pc.wrapping_add(length).wrapping_sub(1);
        if last / 4096 != pc / 4096 {
            let last = ProcessAddress(last);
            let end = self.space.locate(last);
            let end = end.ok_or(StopReason::NotMapped)?;
            self.space.is_pristine(last, &end.mapping)?;
        }
        Ok((held, Origin::File))
    }

    /// An instruction that two pieces have parts of.
    fn across(&mut self, pc: u64) -> Option<Held> {
        let Open { image, .. } = self.open;
        let (code, len) = self.captured?.code_across(pc);
        let code = code.get(..len)?;
        let address = self.open.in_image(pc);
        self.cache.hold_sampled(image.0, address, code).ok()
    }

    /// Where an instruction is held, and where its code is from.
    fn find(&mut self, pc: u64) -> Result<(Held, Origin), StopReason> {
        if let Some(found) = self.sampled(pc) {
            return Ok((found?, Origin::Sample));
        }
        match self.pristine(pc) {
            Some(held) => Ok((held, Origin::File)),
            None => self.find_elsewhere(pc),
        }
    }

    /// Whether an instruction of which no code was read lies where the file vouches for it.
    fn is_of_file(&self, pc: u64, len: usize) -> bool {
        let last = pc.wrapping_add(len as u64).wrapping_sub(1);
        let is_of_file = |address| self.space.is_in_pristine(ProcessAddress(address));
        is_of_file(pc) && is_of_file(last)
    }

    /// Whether the code at an address is this, where it is not all in the piece that was compared
    /// last.
    #[inline(never)]
    fn is_elsewhere(&mut self, pc: u64, code: &[u8], by_file: bool) -> bool {
        let Some(pieces) = self.captured else {
            return by_file && self.is_of_file(pc, code.len());
        };
        let (mut at, mut left) = (pc, code);
        // It is in two pieces at most, of which the first may be that one.
        for _ in 0..3 {
            let run = self.compared;
            let rest = usize::try_from(at.wrapping_sub(run.start)).ok();
            let rest = rest
                .and_then(|from| run.bytes.get(from..))
                .unwrap_or_default();
            let len = rest.len().min(left.len());
            if rest[..len] != left[..len] {
                return false;
            }
            (at, left) = (at.wrapping_add(len as u64), &left[len..]);
            if left.is_empty() {
                return true;
            }
            let (number, found) = pieces.numbered_code(at);
            if found.is_empty() {
                // Of none of it code was read.
                return at == pc && by_file && self.is_of_file(pc, code.len());
            }
            if let Some((start, bytes)) = pieces.piece(number) {
                self.compared = Run {
                    start,
                    bytes,
                    number,
                };
            }
        }
        false
    }
}

/// Where code is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Origin {
    /// It was read at the interrupt.
    Sample,
    /// The image's file, which has what is mapped.
    File,
}

/// Behind the longest instruction it is noted where kept code is from.
const ORIGIN: usize = MAX_BYTES;

/// Whether bytes begin with the first so many of a code.
#[inline(always)]
fn begin_with(bytes: &[u8; CODE_BYTES], code: &[u8; CODE_BYTES], len: usize) -> bool {
    let differ = u128::from_le_bytes(*bytes) ^ u128::from_le_bytes(*code);
    let bits = u128::MAX >> (8 * (CODE_BYTES - len.clamp(1, CODE_BYTES)));
    differ & bits == 0
}

impl Code for ProcessCode<'_, '_, '_> {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        let decoded = self.cache.decoded();
        self.keeps = false;
        let (held, origin) = self.find(pc)?;
        // What comes by for the first time may do so for the last.
        self.keeps = self.open.lasts && self.cache.decoded() == decoded;
        self.last = Some((held, origin));
        Ok(Fetched {
            instruction: self.cache.get(held),
            bias: self.open.bias.0,
            mark: held.number(),
        })
    }

    fn keeps(&self) -> bool {
        self.keeps
    }

    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn code(&self) -> [u8; CODE_BYTES] {
        self.last.map_or([0; CODE_BYTES], |(held, origin)| {
            let mut code = *self.cache.bytes_of(held);
            code[ORIGIN] = origin as u8;
            code
        })
    }

    #[inline]
    fn holds(&mut self, pc: u64, code: &[u8; CODE_BYTES], len: usize) -> bool {
        let Run { start, bytes, .. } = self.compared;
        let from = usize::try_from(pc.wrapping_sub(start)).ok();
        let rest = from.and_then(|from| bytes.get(from..));
        match rest.and_then(|rest| rest.first_chunk()) {
            Some(rest) => begin_with(rest, code, len),
            None => {
                let by_file = code[ORIGIN] == Origin::File as u8;
                self.is_elsewhere(pc, code.get(..len).unwrap_or_default(), by_file)
            }
        }
    }
}
