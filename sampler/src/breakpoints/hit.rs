//! What a breakpoint writes when it is hit.

use perf_event_open_sys::bindings as b;

use crate::decode::{Abi, Fields};
use crate::{Registers, Tid};

/// The selector of 64-bit code of programs.
pub(crate) const USER_CODE: u64 = 0x33;

/// One hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) tid: Tid,
    pub(super) time: u64,
    pub(super) cpu: u32,
    /// How often the thread was switched away since the breakpoints were set.
    pub(super) switches: u64,
    /// The signals that were delivered to it since; 0 where these are not counted.
    pub(super) signals: u64,
    pub(super) registers: Registers,
    pub(super) stack: Box<[u8]>,
}

/// What follows the head of a record, if it is a sample and whole.
pub(super) fn fields_of_sample(bytes: &[u8]) -> Option<Fields<'_>> {
    let mut fields = Fields(bytes);
    if fields.u32().ok()? != b::PERF_RECORD_SAMPLE {
        return None;
    }
    let _flags = fields.u16().ok()?;
    (usize::from(fields.u16().ok()?) == bytes.len()).then_some(fields)
}

/// Decodes a record of a group whose leader counts switches; behind it one counts signals, if
/// `has_signals`. `None` for anything but a hit of 64-bit code.
pub(super) fn decode(bytes: &[u8], has_signals: bool) -> Option<Hit> {
    let mut fields = fields_of_sample(bytes)?;
    let (_, tid) = fields.ids().ok()?;
    let time = fields.u64().ok()?;
    let cpu = fields.u32().ok()?;
    let _reserved = fields.u32().ok()?;
    let count = fields.u64().ok()?;
    if count != if has_signals { 4 } else { 3 } {
        return None;
    }
    let switches = fields.u64().ok()?;
    let signals = if has_signals { fields.u64().ok()? } else { 0 };
    let _hits = [fields.u64().ok()?, fields.u64().ok()?];
    let (abi, registers) = fields.registers().ok()?;
    if abi != Abi::Long || registers.cs != USER_CODE {
        return None;
    }
    Some(Hit {
        tid,
        time,
        cpu,
        switches,
        signals,
        registers,
        stack: fields.stack().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A record as the kernel writes it, of a group that counts signals or not.
    fn record(abi: u64, cs: u64, has_signals: bool) -> Vec<u8> {
        let mut words: Vec<u64> = vec![0, 7 | 8 << 32, 1234, 1];
        words.push(3 + u64::from(has_signals));
        words.push(5);
        words.extend(has_signals.then_some(6));
        words.extend([1, 2, abi]);
        words.extend((100..120).map(|word| if word == 110 { cs } else { word }));
        words.extend([16, 0x11, 0x22, 8]);
        let size = 8 * words.len() as u64;
        words[0] = u64::from(b::PERF_RECORD_SAMPLE) | size << 48;
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// A hit is read with both ways of counting, and nothing else is.
    #[test]
    fn hits() {
        for has_signals in [false, true] {
            let bytes = record(2, USER_CODE, has_signals);
            let hit = decode(&bytes, has_signals).expect("a hit");
            assert_eq!((hit.tid, hit.time, hit.cpu), (Tid(8), 1234, 1));
            assert_eq!((hit.switches, hit.signals), (5, 6 * u64::from(has_signals)));
            assert_eq!((hit.registers.ip, hit.registers.gpr[0]), (108, 100));
            assert_eq!(hit.stack[..], 0x11_u64.to_ne_bytes());
            assert_eq!(decode(&bytes, !has_signals), None);
        }
        assert_eq!(decode(&record(1, USER_CODE, false), false), None);
        assert_eq!(decode(&record(2, 0x23, false), false), None);
    }

    proptest! {
        /// Any bytes are a hit or not, and never more.
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400), signals in any::<bool>()) {
            let _ = decode(&bytes, signals);
            let mut cut = record(2, USER_CODE, signals);
            cut.truncate(bytes.len());
            let _ = decode(&cut, signals);
        }
    }
}
