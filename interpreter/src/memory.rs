//! Loads and stores of instructions: through the window's own stores to the memory of the
//! interrupt.

use crate::host::{Access, Memory, Sink, Verdict};
use crate::machine::{Allowed, Machine, check_canonical};
use crate::stop::StopReason;
use crate::word::{Width, Word};
use parameters::ValueKinds;

impl<M: Memory + ?Sized, S: Sink + ?Sized> Machine<'_, M, S> {
    /// Loads from a linear address; what cannot be read is unknown.
    #[inline]
    pub(crate) fn load(&mut self, address: Option<u64>, width: Width) -> Result<Word, StopReason> {
        let Some(address) = address else {
            self.sink.load(self.pc, None, width.bytes(), None);
            self.check_unknown()?;
            return Ok(Word::unknown(width));
        };
        check_canonical(address)?;
        match width {
            Width::B8 => self.load_at::<1>(address),
            Width::B16 => self.load_at::<2>(address),
            Width::B32 => self.load_at::<4>(address),
            Width::B64 => self.load_at::<8>(address),
        }
    }

    /// Loads so many bytes from a known address that is canonical.
    #[inline(never)]
    fn load_at<const BYTES: usize>(&mut self, address: u64) -> Result<Word, StopReason> {
        let width = const { Width::from_bytes(BYTES).expect("an operand's width") };
        let value = self.load_known(address, width);
        // What was read at the interrupt can be read.
        if value.all().is_none() {
            self.check_load(address, width)?;
        }
        let known = value.all();
        self.sink.load(self.pc, Some(address), width.bytes(), known);
        Ok(value)
    }

    /// A load of what the host does not know, nor the window has stored.
    #[inline(never)]
    pub(crate) fn unread(&mut self, address: u64, width: Width) -> Result<Word, StopReason> {
        self.check_load(address, width)?;
        self.sink.load(self.pc, Some(address), width.bytes(), None);
        Ok(Word::unknown(width))
    }

    fn check_load(&mut self, address: u64, width: Width) -> Result<(), StopReason> {
        let bytes = width.bytes();
        if !self.readable.has(address, bytes) {
            self.check(address, u64::from(bytes), Access::Load)?;
        }
        Ok(())
    }

    /// Checks an access at a known address that is canonical. Of a store: whether it certainly goes
    /// through.
    #[inline(never)]
    pub(crate) fn check(
        &mut self,
        address: u64,
        bytes: u64,
        access: Access,
    ) -> Result<bool, StopReason> {
        if self.registers.handlers.keys {
            self.check_unknown()?;
        }
        match self.memory.check(address, bytes, access) {
            Verdict::Allowed { first, last } => {
                let allowed = match access {
                    Access::Load => &mut self.readable,
                    Access::Store => &mut self.writable,
                };
                *allowed = Allowed {
                    first,
                    reach: last.wrapping_sub(first).saturating_add(1),
                };
                Ok(true)
            }
            Verdict::Unverified => self.check_unknown().map(|()| false),
            Verdict::Faults => Err(StopReason::FaultingInstruction),
            Verdict::MayFault => Err(StopReason::MayFault),
        }
    }

    /// An access of which it is not known whether it goes through.
    #[inline]
    pub(crate) fn check_unknown(&self) -> Result<(), StopReason> {
        match self.registers.handlers.access {
            true => Err(StopReason::MayFault),
            false => Ok(()),
        }
    }

    /// Checks that a range can be loaded from.
    pub(crate) fn check_loads(
        &mut self,
        address: Option<u64>,
        bytes: u64,
    ) -> Result<(), StopReason> {
        self.accesses_more();
        match address {
            Some(address) if bytes > 0 => self.check(address, bytes, Access::Load).map(|_| ()),
            Some(_) => Ok(()),
            None => self.check_unknown(),
        }
    }

    /// Checks that a range can be stored to.
    pub(crate) fn check_stores(&mut self, address: u64, bytes: u64) -> Result<(), StopReason> {
        check_canonical(address)?;
        check_canonical(address.wrapping_add(bytes - 1))?;
        self.check(address, bytes, Access::Store).map(|_| ())
    }

    /// What a store of that width is about to overwrite, if known.
    pub(crate) fn overwritten(&mut self, address: Option<u64>, width: Width) -> Option<u64> {
        let address = address.filter(|address| check_canonical(*address).is_ok())?;
        self.load_known(address, width).get(width.bytes())
    }

    #[inline(always)]
    pub(crate) fn load_known(&mut self, address: u64, width: Width) -> Word {
        if self.overlay.is_clear(address, width) {
            return self.read_memory(address, width.bytes()).truncate(width);
        }
        match self.overlay.stored(address, width) {
            // Stores through other addresses have been taken from it.
            Some(value) => value,
            None => self.load_mixed(address, width),
        }
    }

    /// Loads what the window may have stored in part.
    #[inline(never)]
    fn load_mixed(&mut self, address: u64, width: Width) -> Word {
        let (covered, stored) = self.overlay.load(address, width, self.memory);
        let bytes = width.bytes();
        if covered == 0 {
            return self.read_memory(address, bytes).truncate(width);
        }
        let mut value = stored;
        // Read each run of bytes that the window has not stored to.
        let mut at = 0;
        while at < bytes {
            if covered >> at & 1 != 0 {
                at += 1;
                continue;
            }
            let run = (covered >> at).trailing_zeros().min(bytes - at);
            let read = self.read_memory(address.wrapping_add(u64::from(at)), run);
            value = value.with_bytes(byte_set(at, run), read.shifted_up(at));
            at += run;
        }
        value.truncate(width)
    }

    /// Up to 8 bytes of the memory of the interrupt: all of them known or none.
    #[inline]
    fn read_memory(&mut self, address: u64, bytes: u32) -> Word {
        let mut buffer = [0; 8];
        let part = buffer.get_mut(..bytes as usize);
        if part.is_some_and(|part| self.memory.read(address, part)) {
            Word::known(u64::from_le_bytes(buffer))
        } else {
            Word::UNKNOWN
        }
    }

    /// Stores to a linear address; if it is unknown, all memory becomes unknown.
    #[inline]
    pub(crate) fn store(
        &mut self,
        address: Option<u64>,
        width: Width,
        value: Word,
    ) -> Result<(), StopReason> {
        let Some(address) = address else {
            let known = value.truncate(width).all();
            if self.capture.meets(ValueKinds::REDUNDANT) {
                self.sink.stored_over(self.pc, None);
            }
            self.sink.store(self.pc, None, width.bytes(), known);
            self.check_unknown()?;
            self.overlay.store_anywhere();
            return Ok(());
        };
        check_canonical(address)?;
        match width {
            Width::B8 => self.store_at::<1>(address, value),
            Width::B16 => self.store_at::<2>(address, value),
            Width::B32 => self.store_at::<4>(address, value),
            Width::B64 => self.store_at::<8>(address, value),
        }
    }

    /// Stores so many bytes to a known address that is canonical.
    #[inline(never)]
    fn store_at<const BYTES: usize>(
        &mut self,
        address: u64,
        mut value: Word,
    ) -> Result<(), StopReason> {
        let width = const { Width::from_bytes(BYTES).expect("an operand's width") };
        let bytes = width.bytes();
        if !self.writable.has(address, bytes)
            && !self.check(address, u64::from(bytes), Access::Store)?
        {
            value = Word::unknown(width);
        }
        let known = value.truncate(width).all();
        if self.capture.meets(ValueKinds::REDUNDANT) {
            self.tell_stored_over(address, width, known);
        }
        self.sink.store(self.pc, Some(address), bytes, known);
        self.overlay.store(address, width, value);
        if self.overlay.is_crowded(address, width) {
            let last = address.saturating_add(u64::from(bytes) - 1);
            self.overlay.forget_aliases(address, last, self.memory);
        }
        Ok(())
    }

    /// Tells whether a store changes what is there.
    #[cold]
    #[inline(never)]
    fn tell_stored_over(&mut self, address: u64, width: Width, value: Option<u64>) {
        let old = value.and_then(|_| self.load_known(address, width).truncate(width).all());
        let is_same = value.zip(old).map(|(value, old)| value == old);
        self.sink.stored_over(self.pc, is_same);
    }

    /// The instruction loads or stores what it does not tell by itself.
    pub(crate) fn accesses_more(&mut self) {
        self.sink.accesses_more(self.pc);
    }

    /// Unknown bytes are stored to a range.
    pub(crate) fn store_unknown(
        &mut self,
        address: Option<u64>,
        bytes: u64,
    ) -> Result<(), StopReason> {
        self.accesses_more();
        match address {
            Some(_) if bytes == 0 => {}
            Some(address) => {
                check_canonical(address)?;
                self.check(address, bytes, Access::Store)?;
                self.overlay.store_unknown(address, bytes);
                if let Some(last) = address.checked_add(bytes - 1) {
                    self.overlay.forget_aliases(address, last, self.memory);
                }
            }
            None => {
                self.check_unknown()?;
                self.overlay.store_anywhere();
            }
        }
        Ok(())
    }
}

/// One bit per byte: `count` bytes (1 to 8) from `first` on.
fn byte_set(first: u32, count: u32) -> u8 {
    (u8::MAX >> (8 - count)) << first
}
