//! Loads and stores of instructions: through the window's own stores to the memory of the interrupt.

use crate::machine::{Machine, check_canonical};
use crate::stop::StopReason;
use crate::word::{Width, Word};

impl Machine<'_> {
    /// Loads from a linear address; what cannot be read is unknown.
    #[inline]
    pub(crate) fn load(&mut self, address: Option<u64>, width: Width) -> Result<Word, StopReason> {
        let Some(address) = address else {
            self.sink.load(self.pc, None, width.bytes(), false);
            return Ok(Word::unknown(width));
        };
        check_canonical(address)?;
        Ok(self.load_at(address, width))
    }

    /// The same of a known address that is canonical.
    #[inline(never)]
    fn load_at(&mut self, address: u64, width: Width) -> Word {
        let value = self.load_known(address, width);
        let known = value.all().is_some();
        self.sink.load(self.pc, Some(address), width.bytes(), known);
        value
    }

    /// What a store of that width is about to overwrite, if known.
    pub(crate) fn overwritten(&mut self, address: Option<u64>, width: Width) -> Option<u64> {
        let address = address.filter(|address| check_canonical(*address).is_ok())?;
        self.load_known(address, width).get(width.bytes())
    }

    #[inline]
    pub(crate) fn load_known(&mut self, address: u64, width: Width) -> Word {
        if self.overlay.is_clear(address, width) {
            return self.read_memory(address, width.bytes()).truncate(width);
        }
        self.load_mixed(address, width)
    }

    /// Loads what the window may have stored in part or in full.
    #[inline(never)]
    fn load_mixed(&mut self, address: u64, width: Width) -> Word {
        if let Some(value) = self.overlay.stored(address, width) {
            return value;
        }
        let (covered, stored) = self.overlay.load(address, width);
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
    #[inline(never)]
    pub(crate) fn store(
        &mut self,
        address: Option<u64>,
        width: Width,
        value: Word,
    ) -> Result<(), StopReason> {
        address.map_or(Ok(()), check_canonical)?;
        let known = value.truncate(width).all();
        self.sink.store(self.pc, address, width.bytes(), known);
        match address {
            Some(address) => self.overlay.store(address, width, value),
            None => self.overlay.store_anywhere(),
        }
        Ok(())
    }

    /// Unknown bytes are stored to a range.
    pub(crate) fn store_unknown(
        &mut self,
        address: Option<u64>,
        bytes: u64,
    ) -> Result<(), StopReason> {
        match address {
            Some(address) => {
                check_canonical(address)?;
                self.overlay.store_unknown(address, bytes);
            }
            None => self.overlay.store_anywhere(),
        }
        Ok(())
    }
}

/// One bit per byte: `count` bytes (1 to 8) from `first` on.
fn byte_set(first: u32, count: u32) -> u8 {
    (u8::MAX >> (8 - count)) << first
}
