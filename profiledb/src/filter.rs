//! Which rows somebody reads.

use selection::Selection;

use crate::rows::{Image, Subject};
use crate::{Places, bare_parameter};

/// Which rows to read; everything left empty or `None` lets all through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Epochs, by their ids in their file.
    pub epochs: Vec<i64>,
    /// Process ids.
    pub pids: Vec<u32>,
    /// Real user ids; what has none that is known is left out then.
    pub uids: Vec<u32>,
    /// Leaves out flushes that ended before or at this, in nanoseconds of the Unix epoch.
    pub since: Option<i64>,
    /// Leaves out flushes that ended after this, in nanoseconds of the Unix epoch. A flush belongs
    /// to the moment of its end, and so to one of two ranges that adjoin.
    pub until: Option<i64>,
    /// Images by path, by file name, or by the first four or more digits of the build id.
    pub images: Vec<String>,
    /// Only lists of parameters whose names begin so, also those of executions; empty lets all
    /// through. Of the rest there are the instructions ([`crate::Profile::passed_over`]). All may
    /// be read of rows that do not lie in chunks, and of an image whose file nothing but its code
    /// tells.
    pub parameters: Vec<String>,
    /// Lists of all parameters at these instructions, whatever [`Filter::parameters`] leaves out
    /// elsewhere. By PC and call site ([`Apart::Calls`]), interrupts may have call sites at these
    /// alone.
    pub details: Option<Places>,
    /// How the parameters begin whose lists are asked for there; empty: all.
    pub detailed: Vec<String>,
    /// Only rows at these instructions, and calls of what is there. More may be read. Of the rest
    /// there are the images, and what all of it adds up to ([`crate::Profile::totals`]).
    pub places: Option<Places>,
    /// Nothing but where rows are, and what they name beside that
    /// ([`crate::Profile::passed_over`]). All may be read of rows that do not lie in chunks, and of
    /// lists of an image whose file nothing but its code tells.
    pub only_places: bool,
    /// How far interrupts, branches and calls are told apart.
    pub apart: Apart,
    /// Lists of a PC, call site and parameter become one, whose process and access tag are those of
    /// one of them; of [executions](crate::OF_EXECUTIONS), and [of entries](crate::AT_ENTRY), those
    /// of each process.
    pub added_up: bool,
    /// Call stacks of flushes stay apart. Interrupts do if [`Filter::apart`] says so.
    pub by_flush: bool,
}

/// How far interrupts are told apart. Those that are not become one row, whose process, access tag,
/// PC and call site are those of one of them. All may be told further apart than they need be.
/// Branches are told apart as far as files do, or by PC; and calls as far, or by PC and entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Apart {
    /// As far as files do, branches and calls as well.
    #[default]
    Rows,
    /// By the name of the program, PC and call site.
    Programs,
    /// By PC and call site.
    Calls,
    /// By PC.
    Pcs,
    /// By PC, most encodings left out.
    Instructions,
    /// By process and image.
    Images,
}

impl Apart {
    /// Whether call sites are told.
    pub(crate) fn has_callers(self) -> bool {
        matches!(self, Apart::Rows | Apart::Programs | Apart::Calls)
    }
}

impl From<&Selection> for Filter {
    /// What is asked of whole rows; ranges and kinds are looked at apart.
    fn from(wanted: &Selection) -> Self {
        let Selection {
            since,
            until,
            epochs,
            pids,
            uids,
            images,
            ranges: _,
            kinds: _,
        } = wanted.clone();
        Filter {
            epochs,
            pids,
            uids,
            since,
            until,
            images,
            ..Filter::default()
        }
    }
}

impl Filter {
    /// Whether it chooses among flushes by their times.
    pub fn is_timed(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }

    /// Whether it lets a flush through that ended then.
    pub(crate) fn takes_time(&self, ended: i64) -> bool {
        let after = self.since.is_none_or(|since| ended > since);
        let before = self.until.is_none_or(|until| ended <= until);
        after && before
    }

    /// Whether it begins or ends within this time.
    pub(crate) fn cuts(&self, started: i64, ended: i64) -> bool {
        let within = |moment: i64| started < moment && moment < ended;
        self.since.is_some_and(within) || self.until.is_some_and(within)
    }

    pub(crate) fn takes_epoch(&self, id: i64) -> bool {
        self.epochs.is_empty() || self.epochs.contains(&id)
    }

    pub(crate) fn takes_pid(&self, pid: u32) -> bool {
        self.pids.is_empty() || self.pids.contains(&pid)
    }

    pub(crate) fn takes_subject(&self, subject: &Subject) -> bool {
        self.uids.is_empty() || subject.uid.is_some_and(|uid| self.uids.contains(&uid))
    }

    /// Whether encodings are left out, but for those that tell whether a file is what was profiled.
    pub(crate) fn leaves_code(&self) -> bool {
        self.only_places || matches!(self.apart, Apart::Instructions | Apart::Images)
    }

    /// Whether interrupts have call sites at no instructions but those with details.
    pub(crate) fn tells_detailed_callers(&self) -> bool {
        self.apart == Apart::Calls && self.details.is_some()
    }

    /// Whether interrupts of all processes and places are asked for, by instruction alone.
    pub(crate) fn is_by_instruction(&self) -> bool {
        self.apart == Apart::Instructions
            && self.pids.is_empty()
            && self.places.is_none()
            && !self.only_places
    }

    /// Whether it lets lists of a parameter through.
    pub(crate) fn takes_parameter(&self, name: &str) -> bool {
        begins_so(&self.parameters, name)
    }

    /// Whether it lets lists of a parameter through where it asks for details.
    pub(crate) fn takes_detail(&self, name: &str) -> bool {
        self.takes_parameter(name) || begins_so(&self.detailed, name)
    }

    pub(crate) fn takes_image(&self, image: &Image) -> bool {
        self.images.is_empty() || self.images.iter().any(|wanted| image.is_named(wanted))
    }
}

/// Whether a parameter's name begins as one of these; if there is none, any does.
fn begins_so(starts: &[String], name: &str) -> bool {
    let name = bare_parameter(name);
    starts.is_empty() || starts.iter().any(|start| name.starts_with(start))
}
