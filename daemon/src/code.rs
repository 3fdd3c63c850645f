//! The code that a window runs through: as it was read at the interrupt, else as the image's file has
//! it, where that is certain to be the same.

mod recent;

use std::ops::Range;

use interpreter::{Code, DecodeCache, Fetched, Held, MAX_BYTES, StopReason};

use self::recent::Instruction;
pub(crate) use self::recent::{INSTRUCTIONS, Recent};
use crate::images::ImageId;
use crate::tables::Pc;
use crate::view::View;
use crate::window::Brought;

/// Code of the sampled process, decoded through the cache.
pub(crate) struct ProcessCode<'a, 'b, 'v> {
    view: &'a View<'v>,
    cache: &'a mut DecodeCache,
    recent: &'a mut Recent,
    /// The instruction that was found among the recent ones last, if the cache was not asked since.
    behind: Option<Held>,
    /// What was read at the interrupt, if the engine reads there.
    brought: Option<&'b Brought<'b>>,
    /// Code was wanted that had not been read there.
    missed: bool,
    run: Run<'b>,
    /// What was fetched last is remembered.
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
    start: u64,
    end: u64,
    image: ImageId,
    bias: u64,
}

impl<'a, 'b, 'v> ProcessCode<'a, 'b, 'v> {
    /// The code that a window may see.
    pub(crate) fn new(
        view: &'a View<'v>,
        cache: &'a mut DecodeCache,
        recent: &'a mut Recent,
        brought: Option<&'b Brought<'b>>,
    ) -> Self {
        cache.begin();
        recent.begin(view.pid, cache, brought.map(Brought::pieces));
        Self {
            view,
            cache,
            recent,
            behind: None,
            brought,
            missed: false,
            run: Run::default(),
            keeps: false,
            bare: 0..brought.map_or(u64::MAX, |_| 0),
            open: Open {
                start: 0,
                end: 0,
                image: ImageId(0),
                bias: 0,
            },
        }
    }

    /// Whether code was wanted that had not been read at the interrupt.
    pub(crate) fn missed(&self) -> bool {
        self.missed
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
        let Open { image, bias, .. } = self.open;
        let address = pc.wrapping_sub(bias);
        if code.len() >= MAX_BYTES {
            return Some(self.cache.hold_sampled(image.0, address, code));
        }
        // Of an instruction that goes on, another piece may have more.
        self.cache.find_sampled(image.0, address, code).map(Ok)
    }

    /// Goes on in the piece that has an address; its bytes from there on.
    #[inline(never)]
    fn next_run(&mut self, pc: u64) -> Option<&'b [u8]> {
        let Open { start, end, .. } = self.open;
        if !(start..end).contains(&pc) || self.bare.contains(&pc) {
            return None;
        }
        let pieces = self.brought?.pieces();
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
            start: first.max(start),
            bytes: &bytes[within(start)..within(end)],
            number,
        };
        self.run.bytes.get((pc - self.run.start) as usize..)
    }

    /// An instruction of a page that is known to be the file's, if it was met before.
    #[inline(never)]
    fn pristine(&mut self, pc: u64) -> Option<Held> {
        let Open {
            start,
            end,
            image,
            bias,
        } = self.open;
        if !(start..end).contains(&pc) || !self.bare.contains(&pc) || !self.view.is_in_pristine(pc)
        {
            return None;
        }
        let held = self.cache.find_decoded(image.0, pc.wrapping_sub(bias))?;
        let last = pc.wrapping_add(self.cache.get(held).len() as u64 - 1);
        let held = self.view.is_in_pristine(last).then_some(held);
        self.missed |= held.is_some();
        held
    }

    /// An instruction of another mapping, or that goes on in another piece, or must be vouched for.
    #[cold]
    #[inline(never)]
    fn find_elsewhere(&mut self, pc: u64) -> Result<(Held, Option<usize>), StopReason> {
        let located = self.view.locate(pc).ok_or(StopReason::NotMapped)?;
        let mapping = &located.mapping;
        if !mapping.executable && !self.view.is_executable(pc, mapping) {
            return Err(StopReason::NotMapped);
        }
        if self.view.is_denied(located.pc) {
            return Err(StopReason::DeniedImage);
        }
        let Pc { image, address } = located.pc;
        // What is left of the run may lie in another mapping.
        self.run.bytes = &[];
        self.open = Open {
            start: mapping.start,
            end: mapping.end,
            image,
            bias: located.bias,
        };
        let code = self
            .brought
            .map(|brought| brought.pieces().numbered_code(pc));
        let (number, code) = code.unwrap_or_default();
        if !code.is_empty() {
            match self.cache.hold_sampled(image.0, address, code) {
                Ok(held) => return Ok((held, Some(number))),
                // It goes on in another piece, or behind what was read.
                Err(StopReason::TruncatedCode) => {
                    if let Some(held) = self.across(pc) {
                        return Ok((held, None));
                    }
                }
                Err(reason) => return Err(reason),
            }
        }
        self.missed = true;
        let captured = self.brought.is_some();
        let reason = |why| {
            if captured {
                StopReason::CodeNotCaptured
            } else {
                why
            }
        };
        self.view
            .is_pristine(pc, &located.mapping)
            .map_err(reason)?;
        let held = self.cache.hold_or_decode(image.0, address, |bytes| {
            match self.view.images.borrow_mut().read(image, address, bytes) {
                0 => Err(StopReason::ImageUnreadable),
                n => Ok(n),
            }
        })?;
        // The instruction may reach into the next page, which may have been written.
        let length = self.cache.get(held).len() as u64;
        let last = pc.wrapping_add(length).wrapping_sub(1);
        if last / 4096 != pc / 4096 {
            let end = self.view.locate(last).ok_or(StopReason::NotMapped)?;
            self.view.is_pristine(last, &end.mapping)?;
        }
        Ok((held, None))
    }

    /// An instruction that two pieces have parts of.
    fn across(&mut self, pc: u64) -> Option<Held> {
        let Open { image, bias, .. } = self.open;
        let (code, len) = self.brought?.pieces().code_across(pc);
        let code = code.get(..len)?;
        let address = pc.wrapping_sub(bias);
        self.cache.hold_sampled(image.0, address, code).ok()
    }

    /// An instruction that is not one of the recent ones.
    #[inline(never)]
    fn fetch_slowly(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        if let Some(held) = self.behind.take() {
            self.cache.resume(held);
        }
        let found = self.find(pc);
        self.recent.check(self.cache);
        let (held, number) = found?;
        let bias = self.open.bias;
        self.keeps = false;
        if let (Some(number), Some(brought)) = (number, self.brought) {
            let found = Instruction { pc, bias, held };
            self.keeps = self.recent.add(found, number, brought.pieces());
        }
        Ok(Fetched {
            instruction: self.cache.get(held),
            bias,
            mark: held.number(),
        })
    }

    /// Where an instruction is held, and the number of the piece that it lies in, if it does.
    fn find(&mut self, pc: u64) -> Result<(Held, Option<usize>), StopReason> {
        if let Some(found) = self.sampled(pc) {
            return Ok((found?, Some(self.run.number)));
        }
        match self.pristine(pc) {
            Some(held) => Ok((held, None)),
            None => self.find_elsewhere(pc),
        }
    }
}

impl Code for ProcessCode<'_, '_, '_> {
    #[inline]
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        if let Some(Instruction { bias, held, .. }) = self.recent.find(pc) {
            self.behind = Some(held);
            self.keeps = true;
            return Ok(Fetched {
                instruction: self.cache.get(held),
                bias,
                mark: held.number(),
            });
        }
        self.fetch_slowly(pc)
    }

    #[inline]
    fn keeps(&self) -> bool {
        self.keeps
    }

    #[inline]
    fn repeats(&self) -> bool {
        self.recent.repeats()
    }

    #[inline]
    fn epoch(&self) -> u64 {
        self.recent.epoch()
    }
}
