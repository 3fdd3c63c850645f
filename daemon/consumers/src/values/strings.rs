//! The first bytes of what arguments point to, as far as the window loads them behind the call.
//!
//! Nothing is read for it: a byte is known if an instruction loaded it, and no store came before.

use interpreter::Parameter;
use profiledb::Text;

use super::Values;
use crate::events::{At, Call, Context, Load, PcId, Shared, SiteId, Store};

/// Integer arguments of a call.
const ARGUMENTS: usize = 6;
/// Arguments that are followed in a window.
const MOST: usize = 4 * ARGUMENTS;
/// What lies in the first page is no memory.
const LEAST: u64 = 4096;

/// An argument that may point to something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) site: SiteId,
    pub(super) callee: PcId,
    /// The call.
    pub(super) caller: PcId,
    /// The instruction of the window that called, from 1.
    pub(super) depth: u32,
    /// Which argument.
    pub(super) number: u8,
    pointer: u64,
    bytes: [u8; Text::MOST],
    /// A bit for each byte that was loaded, and for each that was stored to before that.
    loaded: u8,
    stored: u8,
}

impl Pending {
    /// The first bytes, if any were loaded.
    pub(super) fn text(&self) -> Option<Text> {
        let known = (self.loaded.trailing_ones() as usize).min(Text::MOST);
        Text::of(self.bytes.get(..known)?)
    }

    /// The bytes that an access has in common with these: their places here, and those in the
    /// access.
    fn common(&self, address: u64, bytes: u32) -> impl Iterator<Item = (usize, u32)> + use<> {
        let from_start = address.wrapping_sub(self.pointer);
        (0..bytes.min(8)).filter_map(move |of_access| {
            let place = from_start.wrapping_add(u64::from(of_access));
            let place = usize::try_from(place).ok()?;
            (place < Text::MOST).then_some((place, of_access))
        })
    }
}

/// The arguments of the calls of a window.
#[derive(Debug, Default)]
pub(super) struct Strings {
    pending: Vec<Pending>,
}

impl Strings {
    /// A window begins.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.pending.clear();
    }

    /// A call whose arguments may point to strings.
    pub(super) fn call(&mut self, at: &At<'_>, call: &Call<'_>, arguments: &[Option<u64>; 6]) {
        let (Some(site), Some(callee)) = (at.site, call.callee.id()) else {
            return;
        };
        if self.pending.capacity() < MOST {
            self.pending.reserve_exact(MOST);
        }
        for (number, pointer) in (0..).zip(arguments) {
            if let Some(pointer) = pointer.filter(|pointer| *pointer >= LEAST)
                && self.pending.len() < MOST
            {
                self.pending.push(Pending {
                    site,
                    callee,
                    caller: call.site,
                    depth: at.depth,
                    number,
                    pointer,
                    bytes: [0; Text::MOST],
                    loaded: 0,
                    stored: 0,
                });
            }
        }
    }

    /// An instruction loads.
    #[inline]
    pub(super) fn load(&mut self, load: &Load) {
        if self.pending.is_empty() {
            return;
        }
        let (Some(address), Some(value)) = (load.address, load.value) else {
            return;
        };
        let value = value.to_le_bytes();
        for pending in &mut self.pending {
            for (place, of_load) in pending.common(address, load.bytes) {
                let bit = 1 << place;
                if (pending.loaded | pending.stored) & bit == 0
                    && let (Some(byte), Some(loaded)) =
                        (pending.bytes.get_mut(place), value.get(of_load as usize))
                {
                    *byte = *loaded;
                    pending.loaded |= bit;
                }
            }
        }
    }

    /// An instruction stores: what is there behind it is not what was handed over.
    #[inline]
    pub(super) fn store(&mut self, store: &Store) {
        for pending in &mut self.pending {
            match store.address {
                Some(address) => {
                    for (place, _) in pending.common(address, store.bytes) {
                        pending.stored |= 1 << place;
                    }
                }
                // It may be anywhere.
                None => pending.stored = u8::MAX,
            }
        }
    }

    /// The window ends: the arguments of it.
    pub(super) fn pending(&self) -> impl Iterator<Item = Pending> + '_ {
        self.pending.iter().copied()
    }

    /// Whether there are none.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }
}

impl Values {
    /// Counts what the arguments of the window's calls point to, as far as it was loaded. Of the
    /// rest nothing is told: the arguments themselves say how many calls there were.
    #[cold]
    pub(super) fn add_strings(&mut self, shared: &mut Shared, window: &Context) {
        let strings = std::mem::take(&mut self.strings);
        for pending in strings.pending() {
            let Some(text) = pending.text() else { continue };
            let at = At {
                window,
                site: Some(pending.site),
                depth: pending.depth,
                caller: None,
            };
            let to = (pending.site, pending.callee, pending.caller);
            let event = (Parameter::Text(pending.number), Some(text.value()));
            self.add_arguments(shared, &at, to, &[event]);
        }
        self.strings = strings;
        self.strings.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(pointer: u64) -> Strings {
        let pending = Pending {
            site: SiteId(0),
            callee: PcId(0),
            caller: PcId(0),
            depth: 1,
            number: 0,
            pointer,
            bytes: [0; Text::MOST],
            loaded: 0,
            stored: 0,
        };
        Strings {
            pending: vec![pending],
        }
    }

    fn load(strings: &mut Strings, address: u64, text: &[u8]) {
        let mut bytes = [0; 8];
        bytes[..text.len()].copy_from_slice(text);
        strings.load(&Load {
            address: Some(address),
            bytes: text.len() as u32,
            value: Some(u64::from_le_bytes(bytes)),
        });
    }

    fn store(strings: &mut Strings, address: Option<u64>) {
        strings.store(&Store {
            address,
            bytes: 1,
            value: Some(0),
        });
    }

    fn text(strings: &Strings) -> Option<String> {
        let text = strings.pending().next()?.text()?;
        Some(text.to_string())
    }

    /// Bytes count from the first on, whatever they are loaded by, and in whatever order.
    #[test]
    fn bytes_that_were_loaded() {
        let mut strings = pending(0x5001);
        assert_eq!(text(&strings), None);
        load(&mut strings, 0x5003, b"cd");
        assert_eq!(text(&strings), None);
        load(&mut strings, 0x5000, b"_ab");
        assert_eq!(text(&strings).as_deref(), Some("\"abcd...\""));
        load(&mut strings, 0x5005, b"\0efgh");
        assert_eq!(text(&strings).as_deref(), Some("\"abcd\""));
        let mut long = pending(0x5000);
        load(&mut long, 0x5000, b"abcdefgh");
        assert_eq!(text(&long).as_deref(), Some("\"abcdefg...\""));
    }

    /// What was stored behind the call is not what the call handed over; what was loaded before the
    /// store is.
    #[test]
    fn stores_between() {
        let mut strings = pending(0x5000);
        load(&mut strings, 0x5000, b"a");
        store(&mut strings, Some(0x5000));
        store(&mut strings, Some(0x5001));
        load(&mut strings, 0x5000, b"xyz");
        assert_eq!(text(&strings).as_deref(), Some("\"a...\""));
        let mut anywhere = pending(0x5000);
        store(&mut anywhere, None);
        load(&mut anywhere, 0x5000, b"xyz");
        assert_eq!(text(&anywhere), None);
    }

    /// An address near the end of all memory wraps around to nothing.
    #[test]
    fn ends_of_memory() {
        let mut strings = pending(u64::MAX - 1);
        load(&mut strings, u64::MAX - 1, b"abcdefgh");
        load(&mut strings, 0, b"12345678");
        assert_eq!(text(&strings).as_deref(), Some("\"abcdefg...\""));
    }
}
