//! The handle by which the collector tells the handler in the kernel of processes and unwind rows.

use std::fmt;
use std::sync::{Arc, PoisonError};

use addresses::{ProcessAddress, ReturnAddress};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle};

use super::{Maps, layout};
use crate::abi;
use crate::{Error, Pid, ProcessKey};

/// What an unwind row says of the caller's rbp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallerRbp {
    /// It is the callee's.
    Same,
    /// It lies at this offset from the canonical frame address, in bytes.
    Saved(i32),
    /// It cannot be told.
    Unknown,
}

/// How to find the caller at one instruction: its canonical frame address (CFA) is a register, or
/// a word of memory, plus an offset; the return address lies 8 bytes below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnwindRow {
    /// There is no caller.
    Outermost,
    /// There is one.
    Frame {
        /// The register, as an index into [`crate::Registers::gpr`]. Others than rsp and rbp are
        /// known at the interrupted PC only.
        register: u8,
        /// From the register to the CFA, in bytes.
        offset: i32,
        /// The caller's rbp.
        rbp: CallerRbp,
    },
    /// There is one, and its CFA follows from a word of memory: the frame was realigned.
    Behind {
        /// The register that leads to the word, as in a frame.
        register: u8,
        /// From the register to the word, in bytes.
        offset: i32,
        /// From what the word holds to the CFA, in words.
        words: i8,
        /// The caller's rbp.
        rbp: CallerRbp,
    },
}

/// Where an unwind row holds, as the handler asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowPlace(u64);

impl RowPlace {
    /// Where a call returns to: the row is that of the call.
    pub fn of_return(to: ReturnAddress) -> Self {
        Self(to.word())
    }

    /// An instruction that may be interrupted. It may be a return address, too, and has another row
    /// then: a bit tells them apart.
    pub fn of_start(pc: ProcessAddress) -> Self {
        Self(pc.0 | 1 << abi::ROW_OF_START_BIT)
    }
}

/// What is kept back of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Denial {
    /// Its memory, but for the code at the PC: it has mapped devices, say.
    Memory,
    /// Its memory and its registers; samples then count for cycles alone.
    Values,
}

include!(concat!(env!("OUT_DIR"), "/counter.rs"));

/// Figures of the handler, summed over all CPUs since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerCounters([u64; HandlerCounter::ALL.len()]);

impl Default for HandlerCounters {
    /// Nothing happened yet.
    fn default() -> Self {
        Self([0; HandlerCounter::ALL.len()])
    }
}

impl HandlerCounters {
    /// These, and nothing else.
    #[cfg(test)]
    pub(crate) fn of(counted: &[(HandlerCounter, u64)]) -> Self {
        let mut all = Self::default();
        for (counter, count) in counted {
            all.0[*counter as usize] = *count;
        }
        all
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (HandlerCounter, u64)> {
        HandlerCounter::ALL.into_iter().zip(self.0)
    }

    /// One of them.
    pub fn get(&self, of: HandlerCounter) -> u64 {
        self.0[of as usize]
    }
}

/// The handler of a run with the engine `bpf`; copies of it are the same.
///
/// What is given to it is bounded by [`crate::BpfOptions`]: rows that are not used give way to
/// others. Each call is a system call, during which the kernel does not run the handler on the CPU
/// that makes it, unless the clock is [`crate::Clock::Timer`]. How often that happened is not to be
/// had: for programs on perf events the kernel counts no misses (`recursion_misses` of
/// `bpf_prog_info` stays 0), and the event's own count goes on.
#[derive(Clone)]
pub struct Handler {
    maps: Arc<Maps>,
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").finish_non_exhaustive()
    }
}

impl Handler {
    pub(crate) fn new(maps: Arc<Maps>) -> Handler {
        Handler { maps }
    }

    /// Says that a process is known: that it has no devices in its memory, unless it is
    /// [denied](Self::deny), so that reading needs no further look; `again`: others may write what it
    /// loads, although only one thread uses the address space, so all is read a second time.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn meet(&self, key: ProcessKey, again: bool) -> Result<(), Error> {
        let value = u32::from(again).to_ne_bytes();
        put(
            &self.maps.met,
            &layout::process(key).to_bytes(),
            &value,
            "tell the handler of a process",
        )
    }

    /// Gives the unwind row of a place.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn put_row(&self, key: ProcessKey, place: RowPlace, row: UnwindRow) -> Result<(), Error> {
        let place = layout::place(key, place.0);
        let value = layout::row_value(place, row);
        put(
            &self.maps.rows,
            &place.to_bytes(),
            &value.to_bytes(),
            "give an unwind row to the handler",
        )
    }

    /// Forgets what was said of a process by [`Handler::deny`]: it has ended, or executed another
    /// program. Its rows do no harm, since their keys do not come back; they give way to those of
    /// others.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn forget(&self, key: ProcessKey) -> Result<(), Error> {
        remove(
            &self.maps.denials,
            &layout::process(key).to_bytes(),
            "let the handler forget a process",
        )
    }

    /// Keeps values of a process back from now on, until it is forgotten.
    ///
    /// # Errors
    /// The kernel's refusal, or too many denials: its values may still be captured.
    pub fn deny(&self, key: ProcessKey, what: Denial) -> Result<(), Error> {
        let doing = "let the handler spare a process";
        let process = layout::process(key).to_bytes();
        // Should there be no room for the denial, it is a process again whose pages are looked at.
        remove(&self.maps.met, &process, doing)?;
        put(&self.maps.denials, &process, &layout::denial(what), doing)?;
        // Only now, so that who sees the new number sees the denial.
        let mut made = self
            .maps
            .denials_made
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *made += 1;
        let key = 0_u32.to_ne_bytes();
        put(&self.maps.denial_count, &key, &made.to_ne_bytes(), doing)
    }

    /// When an access of a process raised the last exception that the program was told of by
    /// SIGSEGV or SIGBUS, in nanoseconds of `CLOCK_MONOTONIC`; 0: none did since the start, as far
    /// as is kept. What cannot be read may have been right now.
    pub fn raised(&self, pid: Pid) -> u64 {
        time_of(&self.maps.raised, &pid.0.to_ne_bytes())
    }

    /// The same of the page around an address.
    pub fn raised_at(&self, pid: Pid, address: ProcessAddress) -> u64 {
        let page = abi::RaisedPage {
            address: address.0 & !4095,
            tgid: pid.0,
            reserved: 0,
        };
        time_of(&self.maps.raised_pages, &page.to_bytes())
    }

    /// What happened so far.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn counters(&self) -> Result<HandlerCounters, Error> {
        let of_cpus = self
            .maps
            .counters
            .lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| Error::bpf("read the handler's counters", &error))?
            .unwrap_or_default();
        let mut sums = HandlerCounters::default();
        for of_cpu in &of_cpus {
            for (sum, word) in sums.0.iter_mut().zip(of_cpu.as_chunks().0) {
                *sum += u64::from_ne_bytes(*word);
            }
        }
        Ok(sums)
    }
}

fn time_of(map: &MapHandle, key: &[u8]) -> u64 {
    match map.lookup(key, MapFlags::ANY) {
        Ok(None) => 0,
        Ok(Some(bytes)) => bytes.try_into().map_or(u64::MAX, u64::from_ne_bytes),
        Err(_) => u64::MAX,
    }
}

fn put(map: &MapHandle, key: &[u8], value: &[u8], what: &'static str) -> Result<(), Error> {
    map.update(key, value, MapFlags::ANY)
        .map_err(|error| Error::bpf(what, &error))
}

fn remove(map: &MapHandle, key: &[u8], what: &'static str) -> Result<(), Error> {
    match map.delete(key) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::bpf(what, &error)),
        _ => Ok(()),
    }
}
