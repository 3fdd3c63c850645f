//! What is known of code when a plan is made: instructions and unwind rows.

use interpreter::{Code, DecodeCache, Fetched, Pieces, ReturnAddress, StopReason};

use crate::tables::Pc;
use crate::view::View;

/// The unwind row of an instruction.
pub(super) fn row_at(view: &View<'_>, pc: Pc) -> Option<sampler::Row> {
    let mut images = view.images.borrow_mut();
    images.unwind(pc.image)?.row(pc.address)
}

/// Where a row says that the return address lies.
pub(super) fn return_address(row: sampler::Row) -> Option<ReturnAddress> {
    match row {
        sampler::Row::Outermost => None,
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
    /// What was found in `pieces` last, by the lowest bits of its address: ways lead through the same
    /// code again and again.
    found: [(u64, &'a [u8]); FOUND],
}

/// A power of two.
const FOUND: usize = 64;

impl<'a, 'v> KnownCode<'a, 'v> {
    pub(super) fn new(
        view: &'a View<'v>,
        pieces: &'a Pieces<'a>,
        cache: &'a mut DecodeCache,
    ) -> Self {
        Self {
            view,
            pieces,
            cache,
            lacking: false,
            found: [(0, &[]); FOUND],
        }
    }

    /// What the sample brought of the code from an address on.
    fn sampled(&mut self, pc: u64) -> &'a [u8] {
        let found = &mut self.found[pc as usize % FOUND];
        if found.0 != pc {
            *found = (pc, self.pieces.code(pc));
        }
        found.1
    }
}

impl Code for KnownCode<'_, '_> {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        let located = self.view.locate(pc).ok_or(StopReason::NotMapped)?;
        if self.view.is_denied(located.pc) {
            return Err(StopReason::DeniedImage);
        }
        let Pc { image, address } = located.pc;
        let sampled = self.sampled(pc);
        let held = match sampled {
            [] => None,
            _ => self.cache.hold_sampled(image.0, address, sampled).ok(),
        };
        let view = self.view;
        let instruction = match held {
            Some(held) => Ok(self.cache.get(held)),
            None => self.cache.get_or_decode(image.0, address, |bytes| {
                match view.images.borrow_mut().read(image, address, bytes) {
                    0 => Err(StopReason::ImageUnreadable),
                    n => Ok(n),
                }
            }),
        };
        self.lacking |= instruction.is_err();
        Ok(Fetched {
            instruction: instruction?,
            bias: located.bias,
            mark: 0,
        })
    }
}
