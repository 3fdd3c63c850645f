//! What a reader gets: plain vectors that refer to each other by index.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use hotlist::{Coins, Course, Estimates, Sum};

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
    /// Its encoding of 1 to 15 bytes, where it was read.
    pub bytes: Option<Vec<u8>>,
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
    /// Value profiles, one row for each flush; see [`Profile::merged`].
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
    /// Those of the flush among them that ended last: how it is now, if a collector is at work.
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
    /// Instructions that no row is about but those that [`crate::Filter::parameters`] or
    /// [`crate::Filter::only_places`] leaves out: addresses in order, by the index of their image.
    pub passed_over: Vec<Vec<u64>>,
}

/// The value profile of a parameter over all processes, access tags and flushes.
#[derive(Clone, Debug)]
pub struct Merged<'p> {
    /// Index of the PC.
    pub pc: usize,
    /// What was captured.
    pub parameter: &'p str,
    /// Index of the PC of the call site, if it was asked for and is known.
    pub caller: Option<usize>,
    /// How often a window came by.
    pub reached: u64,
    /// How often of these the value was unknown.
    pub unknown: u64,
    /// Distinct windows that the known values came from.
    pub windows: u64,
    /// How far these came at even distances: the mean over the flushes, by known values, with
    /// those of which it is not known as 0.
    pub even: f64,
    /// The values of all flushes.
    pub list: Sum<u64>,
    /// What they say of rising and falling values, if that was asked for, and unless they were
    /// added up while they were read ([`crate::Filter::added_up`]).
    pub course: Option<Course<u64>>,
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

    /// Adds up the hotlists of each PC, parameter and call site: counts, and the estimates of each
    /// value ([`Sum`]). Nothing is lost that a list of a flush knows, up to [`Sum::MOST`] values.
    /// In the order of the PCs' indices, then of the parameters
    /// and call sites.
    ///
    /// What was seen at a PC, and from a call site, counts at those that `place` says, by their
    /// indices, and nowhere if that says `None`.
    /// Each group has coins of its own, so that what else is wanted changes nothing in it. One
    /// group at a time is added up.
    ///
    /// Of parameters that `wants` says no to there is nothing. One of executions begins with
    /// [`crate::OF_EXECUTIONS`]. `with_courses` asks for [`Merged::course`].
    pub fn merged<'p, C: Coins + 'p>(
        &'p self,
        wants: impl Fn(&str) -> bool,
        place: impl Fn(usize, Option<usize>) -> Option<(usize, Option<usize>)>,
        coins: impl Fn() -> C + 'p,
        with_courses: bool,
    ) -> impl Iterator<Item = Merged<'p>> + 'p {
        let mut members = Vec::new();
        for row in &self.hotlists {
            if wants(&row.parameter)
                && let Some((pc, caller)) = place(row.pc, row.caller)
            {
                members.push(Member { pc, caller, row });
            }
        }
        // Rows of a group stay in their order.
        members.sort_by(|a, b| a.key().cmp(&b.key()));
        let with_courses = with_courses && !self.added_up;
        let mut first = 0;
        std::iter::from_fn(move || {
            let rest = members.get(first..)?;
            let key = rest.first()?.key();
            let length = rest.iter().take_while(|member| member.key() == key);
            let group = rest.get(..length.count())?;
            first += group.len();
            Some(sum(group, with_courses, coins()))
        })
    }
}

/// A list, and where it counts.
struct Member<'p> {
    pc: usize,
    caller: Option<usize>,
    row: &'p HotlistRow,
}

impl<'p> Member<'p> {
    fn key(&self) -> (usize, &'p str, Option<usize>) {
        (self.pc, &*self.row.parameter, self.caller)
    }
}

/// Adds up the lists of a group.
fn sum<'p>(group: &[Member<'p>], with_course: bool, mut coins: impl Coins) -> Merged<'p> {
    // A sum that has no room becomes the largest number that has.
    let add = |count: fn(&HotlistRow) -> f64| {
        let sum: f64 = group.iter().map(|member| count(member.row)).sum();
        sum.round() as u64
    };
    let mut list = Sum::new(Sum::<u64>::MOST);
    let mut even = 0.0;
    let mut course = with_course.then(Course::new);
    let mut values = Estimates::default();
    for Member { row, .. } in group {
        row.list.unpack(&mut values);
        list.add_estimates(&values, &mut coins);
        if let Some(course) = &mut course {
            let time = |time: i64| u64::try_from(time).unwrap_or(0);
            let time = (time(row.time.0), time(row.time.1));
            course.add(&values, row.windows as f64, time);
        }
        even += row.even.unwrap_or(0.0) * row.list.events;
    }
    let (pc, parameter, caller) = group.first().map_or((0, "", None), Member::key);
    Merged {
        pc,
        parameter,
        caller,
        reached: add(|row| row.reached),
        unknown: add(|row| row.unknown),
        windows: add(|row| row.windows as f64),
        even: even / (list.events() as f64).max(1.0),
        list,
        course,
    }
}
