//! What is known of code when a plan is made: instructions and unwind rows.

use interpreter::{Code, DecodeCache, Fetched, Held, Pieces, ReturnAddress, StopReason};

use crate::tables::Pc;
use crate::view::View;

/// The unwind row of an instruction to be interrupted, by unwind rules or by the code itself.
pub(super) fn row_of_start(view: &View<'_>, pc: Pc) -> Option<sampler::Row> {
    if view.may_have_rules(pc) {
        return row_at(view, pc);
    }
    match view.exits(pc).as_slice() {
        [exit] if view.tell(pc, exit) => exit.row(),
        _ => None,
    }
}

/// The row of an instruction by unwind rules.
pub(super) fn row_at(view: &View<'_>, pc: Pc) -> Option<sampler::Row> {
    let mut images = view.images.borrow_mut();
    images.unwind(pc.image)?.row(pc.address)
}

/// Where a row says that the return address lies.
pub(super) fn return_address(row: sampler::Row) -> Option<ReturnAddress> {
    match row {
        sampler::Row::Outermost | sampler::Row::Behind { .. } => None,
        sampler::Row::Frame {
            register, offset, ..
        } => Some(ReturnAddress {
            register,
            offset: i64::from(offset).wrapping_sub(8).cast_unsigned(),
        }),
    }
}

/// Code as far as it is known for planning: what came with the sample, else the image's file.
pub(super) struct KnownCode<'a, 'v> {
    view: &'a View<'v>,
    pieces: &'a Pieces<'a>,
    cache: &'a mut DecodeCache,
    /// Code was wanted that is neither here nor there.
    pub(super) lacking: bool,
    known: &'a mut Known,
}

/// What was found for a plan, by the lowest bits of its address: ways lead through the same code again
/// and again.
pub(super) struct Known {
    found: Box<[Option<Found>]>,
    /// The number of this plan. What was found for others stays until it gives way, and is not looked at.
    plan: u64,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            found: vec![None; FOUND].into(),
            plan: 0,
        }
    }
}

impl Known {
    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.found)
    }
}

/// Where an instruction was found.
#[derive(Clone, Copy)]
struct Found {
    /// The number of the plan that it was found for.
    plan: u64,
    /// Its process address.
    pc: u64,
    /// Process address of its image's address 0.
    bias: u64,
    held: Held,
}

/// A power of two.
const FOUND: usize = 1024;

impl<'a, 'v> KnownCode<'a, 'v> {
    pub(super) fn new(
        view: &'a View<'v>,
        pieces: &'a Pieces<'a>,
        cache: &'a mut DecodeCache,
        known: &'a mut Known,
    ) -> Self {
        known.plan += 1;
        Self {
            view,
            pieces,
            cache,
            lacking: false,
            known,
        }
    }

    /// Looks for an instruction where it may be.
    fn find(&mut self, pc: u64) -> Result<Found, StopReason> {
        let located = self.view.locate(pc).ok_or(StopReason::NotMapped)?;
        if self.view.is_denied(located.pc) {
            return Err(StopReason::DeniedImage);
        }
        let Pc { image, address } = located.pc;
        let held = match self.pieces.code(pc) {
            [] => None,
            sampled => self.cache.hold_sampled(image.0, address, sampled).ok(),
        };
        let held = match held {
            Some(held) => Ok(held),
            None => self.cache.hold_or_decode(image.0, address, |bytes| {
                match self.view.images.borrow_mut().read(image, address, bytes) {
                    0 => Err(StopReason::ImageUnreadable),
                    n => Ok(n),
                }
            }),
        };
        self.lacking |= held.is_err();
        Ok(Found {
            plan: self.known.plan,
            pc,
            bias: located.bias,
            held: held?,
        })
    }
}

impl Code for KnownCode<'_, '_> {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        let place = pc as usize % FOUND;
        // It may have given way to another meanwhile.
        let is_there = |of: &Found| {
            of.pc == pc
                && of.plan == self.known.plan
                && self.cache.is_at(of.held, pc.wrapping_sub(of.bias))
        };
        let found = match self.known.found[place].filter(is_there) {
            Some(found) => found,
            None => self.find(pc)?,
        };
        self.known.found[place] = Some(found);
        let Found { bias, held, .. } = found;
        Ok(Fetched {
            instruction: self.cache.get(held),
            bias,
            mark: 0,
        })
    }
}
