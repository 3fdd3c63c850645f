//! What a reader gets: plain vectors that refer to each other by index.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU8;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use crate::regions::Region;
use crate::rows::{Epoch, Image, Process, Subject};
use crate::{List, StackEnd};

/// An epoch's place and extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The file it is in, as an absolute path.
    pub path: PathBuf,
    /// Its id in that file.
    pub id: i64,
    /// It is the last one of its file: the one that may still run.
    pub last: bool,
    /// Interrupts of the flushes read, as the counter `samples` has them.
    pub samples: u64,
    /// The begin of the first flush read, nanoseconds of the Unix epoch; `None` without one.
    pub began: Option<i64>,
    /// The end of the last flush read; `None` without one.
    pub saved: Option<i64>,
}

/// What one flush counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlushCounters {
    /// Begin of what it holds, in nanoseconds of the Unix epoch.
    pub started: i64,
    /// End of it.
    pub ended: i64,
    /// As [`Profile::counters`].
    pub counters: BTreeMap<(String, String), u64>,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pc {
    /// Index of its image.
    pub image: usize,
    /// Address, in what the image's kind counts from.
    pub address: u64,
    /// Its encoding, where it was read.
    pub bytes: Option<Encoding>,
}

/// The encoding of an instruction: 1 to 15 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Encoding {
    length: NonZeroU8,
    bytes: [u8; Encoding::MOST],
}

impl Encoding {
    /// Bytes at most.
    const MOST: usize = 15;

    /// `None`: so many bytes are no instruction's.
    pub(crate) fn new(encoding: &[u8]) -> Option<Encoding> {
        let mut bytes = [0; Encoding::MOST];
        bytes.get_mut(..encoding.len())?.copy_from_slice(encoding);
        let length = u8::try_from(encoding.len()).ok()?;
        Some(Encoding {
            length: NonZeroU8::new(length)?,
            bytes,
        })
    }
}

impl Deref for Encoding {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let length = usize::from(self.length.get());
        self.bytes.get(..length).unwrap_or_default()
    }
}

impl fmt::Debug for Encoding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, formatter)
    }
}

/// Interrupts at a PC.
#[derive(Clone, Debug, PartialEq)]
pub struct CyclesRow {
    /// Index of the process.
    pub process: usize,
    /// Index of the access tag.
    pub subject: usize,
    /// Index of the PC.
    pub pc: usize,
    /// Index of the PC of the call site; `None` where it is not known.
    pub caller: Option<usize>,
    /// Interrupts.
    pub samples: u64,
    /// What they stand for, in cycles.
    pub cycles: f64,
    /// When its flush began and ended, in nanoseconds of the Unix epoch: of rows that are one, that
    /// of the first.
    pub time: (i64, i64),
}

/// The values of one parameter at one PC, as one flush has them.
#[derive(Clone, Debug)]
pub struct HotlistRow {
    /// Index of the process.
    pub process: usize,
    /// Index of the access tag.
    pub subject: usize,
    /// Index of the PC.
    pub pc: usize,
    /// Index of the PC of the call site; `None` where the list is not keyed by it.
    pub caller: Option<usize>,
    /// What was captured, for instance `eax` or `arg0`.
    pub parameter: Arc<str>,
    /// How often a window came by: an estimate, where the list was kept by a draw.
    pub reached: f64,
    /// How often of these the value was unknown.
    pub unknown: f64,
    /// Distinct windows that the known values came from: those of this list alone.
    pub windows: u64,
    /// How far these came at even distances, as [`NewHotlist::even`](crate::NewHotlist::even).
    pub even: Option<f64>,
    /// When its flush began and ended, in nanoseconds of the Unix epoch: of lists that were added
    /// up, that of the first.
    pub time: (i64, i64),
    /// The values.
    pub list: List,
}

/// Directions of a conditional branch.
#[derive(Clone, Debug, PartialEq)]
pub struct BranchRow {
    /// Index of the process.
    pub process: usize,
    /// Index of the access tag.
    pub subject: usize,
    /// Index of the PC of the branch.
    pub pc: usize,
    /// Times it was taken.
    pub taken: u64,
    /// Times it was not.
    pub not_taken: u64,
    /// Times the window could not tell.
    pub unknown: u64,
    /// As [`Directions::weights`](crate::Directions::weights).
    pub weights: [f64; 3],
    /// As [`Directions::squares`](crate::Directions::squares).
    pub squares: Option<f64>,
}

/// Calls that windows ran into.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRow {
    /// Index of the process.
    pub process: usize,
    /// Index of the access tag.
    pub subject: usize,
    /// Index of the PC of the call.
    pub site: usize,
    /// Index of the PC of the entry; `None` where it is not known.
    pub callee: Option<usize>,
    /// Calls.
    pub calls: u64,
    /// As [`Calls::weight`](crate::Calls::weight).
    pub weight: f64,
    /// As [`Calls::squares`](crate::Calls::squares).
    pub squares: Option<f64>,
}

/// Samples of one call stack.
#[derive(Clone, Debug, PartialEq)]
pub struct StackRow {
    /// Index of the process.
    pub process: usize,
    /// Index of the access tag.
    pub subject: usize,
    /// Index of the node of the innermost frame: see [`Profile::frames`].
    pub node: usize,
    /// Why there are no more frames.
    pub end: StackEnd,
    /// Samples.
    pub samples: u64,
    /// What they stand for, in cycles.
    pub cycles: f64,
    /// When its flush began and ended, in nanoseconds of the Unix epoch: if
    /// [`crate::Filter::by_flush`] does not say so, that of one of several.
    pub time: (i64, i64),
}

/// A node of the calling-context tree that call stacks are paths of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StackNode {
    /// Index of the node of the caller, which is smaller than this one's; `None`: the last frame
    /// that is known.
    pub parent: Option<usize>,
    /// Index of the PC: the interrupted instruction, or a call.
    pub pc: usize,
}

/// A frame of a call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackFrame {
    /// Index of the node.
    pub node: usize,
    /// Index of the PC.
    pub pc: usize,
    /// Whether the PC is a call, whose return address is the frame's; else it was interrupted.
    pub is_call: bool,
}

/// A function's name that no file can tell afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolRow {
    /// Index of the image.
    pub image: usize,
    /// Where it begins.
    pub address: u64,
    /// Its bytes; 0 where that is not known.
    pub size: u64,
    /// Its name.
    pub name: String,
}

/// All interrupts in an image.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Total {
    /// Interrupts.
    pub samples: u64,
    /// What they stand for, in cycles.
    pub cycles: f64,
}

/// What databases hold rows about: what has to be known to ask for less than all of it.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    /// Images, known by kind, identity and path.
    pub images: Vec<Image>,
    /// Function names, by image and address.
    pub symbols: Vec<SymbolRow>,
}

/// An epoch that is in two files of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubled {
    /// Its id in both.
    pub id: i64,
    /// The file that it was read in.
    pub read: PathBuf,
    /// The file that it was left out of.
    pub left: PathBuf,
}

/// The rows of one or many databases. All cross references are indices into the vectors;
/// an image, an access tag or an instruction that occurs in several files, epochs and
/// flushes is there once. What no row refers to is left out.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The epochs read, in the order of the files.
    pub epochs: Vec<Epoch>,
    /// Place and extent of each of these, in their order.
    pub extents: Vec<Extent>,
    /// Images, known by kind, identity and path.
    pub images: Vec<Image>,
    /// Access tags.
    pub subjects: Vec<Subject>,
    /// Processes; one that ran in two epochs is there twice.
    pub processes: Vec<Process>,
    /// Instructions.
    pub pcs: Vec<Pc>,
    /// Interrupts, one row for each flush.
    pub cycles: Vec<CyclesRow>,
    /// All interrupts in each image, by its index: also those that [`crate::Filter::places`] leaves
    /// out.
    pub totals: Vec<Total>,
    /// Value profiles, one row for each flush; see [`Profile::each_merged`].
    pub hotlists: Vec<HotlistRow>,
    /// Branch directions, one row for each flush.
    pub branches: Vec<BranchRow>,
    /// Calls, one row for each flush.
    pub calls: Vec<CallRow>,
    /// Call stacks, one row for each process, access tag and path, and for each flush if
    /// [`crate::Filter::by_flush`] says so.
    pub stacks: Vec<StackRow>,
    /// The nodes of these paths, each behind its caller's.
    pub stack_nodes: Vec<StackNode>,
    /// Sums of the flushes' counters by kind and name. They belong to no process: only the
    /// filter's epochs and times choose among them.
    pub counters: BTreeMap<(String, String), u64>,
    /// Those of the flush among them that ended last: how it is now, if a collector is at work. Of
    /// a flush that a collector has not ended it is not known yet what it took: it is the last only
    /// if there is no other.
    pub latest: Option<FlushCounters>,
    /// Lists were added up while they were read.
    pub added_up: bool,
    /// Rows of flushes are apart, as [`crate::Filter::by_flush`] says.
    pub by_flush: bool,
    /// The longest time whose rows are kept as one, if the filter begins or ends within it: begin
    /// and end in nanoseconds of the Unix epoch. All of it counts at its end.
    pub cut: Option<(i64, i64)>,
    /// Function names, by image and address.
    pub symbols: Vec<SymbolRow>,
    /// What lay where in the memory of these processes, as far as values point there. Of the rows
    /// read any may be meant.
    pub regions: Vec<Region<usize>>,
    /// Epochs that were in several files of a directory, and were read once.
    pub doubled: Vec<Doubled>,
    /// Instructions that no row is about but those that [`crate::Filter::parameters`] or
    /// [`crate::Filter::only_places`] leaves out: addresses in order, by the index of their image.
    pub passed_over: Vec<Vec<u64>>,
}

impl Profile {
    /// The frames of a call stack, the innermost first. All but that one are calls.
    pub fn frames(&self, row: &StackRow) -> impl Iterator<Item = StackFrame> + '_ {
        let mut next = Some(row.node);
        let innermost = row.node;
        std::iter::from_fn(move || {
            let node = next?;
            let StackNode { parent, pc } = *self.stack_nodes.get(node)?;
            next = parent.filter(|parent| *parent < node);
            Some(StackFrame {
                node,
                pc,
                is_call: node != innermost,
            })
        })
    }
}
