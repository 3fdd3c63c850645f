//! Lists: which values parameters had.

mod decode;
mod encode;

use hotlist::{Estimate, Estimates};

use super::{At, ChunkKind, Packed};

pub(crate) use self::decode::{decode_some_values, decode_values, each_list, each_place};
pub(crate) use self::encode::encode_values;

/// The values of one parameter at one PC, as they are stored: what a list that was kept by a draw
/// stands for is not in its numbers yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListOf {
    /// Row of the process.
    pub(crate) process: i64,
    /// Address of the PC.
    pub(crate) address: u64,
    /// Image and address of the call site.
    pub(crate) caller: Option<(i64, u64)>,
    /// Row of the parameter.
    pub(crate) parameter: i64,
    /// How often a window came by.
    pub(crate) reached: f64,
    /// How often of these the value was unknown.
    pub(crate) unknown: f64,
    /// Distinct windows that the known values came from.
    pub(crate) windows: u64,
    /// How far these came at even distances.
    pub(crate) even: Option<f64>,
    /// The values.
    pub(crate) list: Estimates<u64>,
}

/// The lists of a chunk.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Values {
    /// As [`super::head::Ids::tau`].
    pub(crate) tau: f64,
    /// By process, address, call site and parameter.
    pub(crate) rows: Vec<ListOf>,
}

impl Packed for ListOf {
    type Key = (i64, u64, Option<(i64, u64)>, i64);

    fn key(&self) -> Self::Key {
        (self.process, self.address, self.caller, self.parameter)
    }

    fn at(&self) -> At {
        (self.process, self.address, self.caller)
    }

    fn set_at(&mut self, at: At) {
        (self.process, self.address, self.caller) = at;
    }
}

impl ListOf {
    /// As how many lists it counts where lists were drawn by this.
    pub(crate) fn weight(&self, tau: f64) -> f64 {
        (tau / self.reached.max(1.0)).max(1.0)
    }

    /// Its numbers with those that it stands for.
    pub(crate) fn weigh(&mut self, tau: f64) {
        let weight = self.weight(tau);
        if weight > 1.0 {
            self.reached *= weight;
            self.unknown *= weight;
            self.list.weigh(weight);
        }
    }
}

/// Bits of an address within its bucket.
const BITS: u32 = ChunkKind::Values.bits();
const _: () = assert!(BITS == ChunkKind::Keyed.bits());

/// Bits 0 to 2 of a row's shape: how many values; so many or more.
const MANY: usize = 7;
/// Bit 3: the list is what was drawn, not all that came.
const DRAWN: u8 = 1 << 3;
/// Bits 4 and 5: how even its windows are.
const EVEN_SHIFT: u8 = 4;
const EVEN_UNKNOWN: u8 = 0;
const EVEN_OF_PROCESS: u8 = 1;
const EVEN_OWN: u8 = 2;
/// Bits 6 and 7: its pairs.
const PAIRS_SHIFT: u8 = 6;
const PAIRS_UNKNOWN: u8 = 0;
/// None within windows, and those across follow from the number of windows.
const PAIRS_FOLLOW: u8 = 1;
/// As these, but for those of each value across windows.
const PAIRS_ACROSS: u8 = 2;
const PAIRS_OWN: u8 = 3;

/// A time of a value is kept from so many events on.
const TIMED: f64 = 8.0;
/// Parts of the time that a chunk covers.
const PARTS: i128 = 256;

fn even_for(of_process: f32, windows: u64) -> f64 {
    (f64::from(of_process) * windows as f64).min(1.0)
}

/// The pairs across windows of a list with one event in each window.
fn pairs_that_follow(windows: u64) -> f64 {
    windows.saturating_sub(1) as f64
}

/// Whether a value is there twice.
pub(crate) fn has_double(tuples: &[Estimate<u64>]) -> bool {
    if let [] | [_] = tuples {
        return false;
    }
    // Few are compared one by one: most lists have few, and there are many lists.
    const FEW: usize = 8;
    if tuples.len() <= FEW {
        let mut rest = tuples;
        while let Some((one, others)) = rest.split_first() {
            if others.iter().any(|other| other.value == one.value) {
                return true;
            }
            rest = others;
        }
        return false;
    }
    let mut values: Vec<u64> = tuples.iter().map(|tuple| tuple.value).collect();
    values.sort_unstable();
    values.windows(2).any(|pair| pair.first() == pair.last())
}
