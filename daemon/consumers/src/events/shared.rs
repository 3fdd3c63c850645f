//! What all consumers share: indices of what they key by, the room that they have, the losses that
//! they count, and the coins that they toss.

use hotlist::Generator;
use profiledb::Subject;
use rustc_hash::FxHashMap;

use super::budget::Budget;
use super::keys::{Owner, PcId, Site, SiteId, SubjectId};
use super::places::Places;
use crate::events::lost::Lost;
use machine::loadmap::ProcessId;
use machine::place::Pc;

/// What consumers share in one flush interval.
#[derive(Debug)]
pub struct Shared {
    /// By [`PcId`].
    pub pcs: Vec<Pc>,
    pc_ids: Places,
    /// By [`SubjectId`].
    pub subjects: Vec<Subject>,
    subject_ids: FxHashMap<Subject, SubjectId>,
    /// What is known of the processes of all owners.
    pub processes: FxHashMap<ProcessId, profiledb::Process>,
    last_owner: Option<(Subject, Owner)>,
    pub(crate) sites: Vec<Site>,
    pub(super) site_ids: Places,
    /// By the numbers of instructions in the decode cache, the site that one was at last.
    pub(super) marked: Vec<SiteId>,
    pub(crate) budget: Budget,
    /// What found no room, and other losses since the last flush.
    pub lost: Lost,
    pub(crate) coins: Generator,
}

/// Rough size of an entry with its share of the hash table, in bytes.
const PC_BYTES: usize = 2 * size_of::<Pc>() + Places::BYTES;
const PROCESS_BYTES: usize = 128;

impl Shared {
    /// Nothing yet, with room for `budget` bytes.
    pub(crate) fn new(budget: usize, coins: Generator) -> Self {
        Self {
            pcs: Vec::new(),
            pc_ids: Places::default(),
            subjects: Vec::new(),
            subject_ids: FxHashMap::default(),
            processes: FxHashMap::default(),
            last_owner: None,
            sites: Vec::new(),
            site_ids: Places::default(),
            marked: Vec::new(),
            budget: Budget::new(budget),
            lost: Lost::default(),
            coins,
        }
    }

    /// The index of a PC; `None` if there is no room.
    pub fn pc(&mut self, pc: Pc) -> Option<PcId> {
        let pc_at = |place: usize| self.pcs.get(place).copied();
        if let Some(id) = self.pc_ids.find(&pc, pc_at) {
            return Some(PcId(id));
        }
        if self.budget.is_over_full() {
            return None;
        }
        let id = u32::try_from(self.pcs.len()).ok()?;
        self.pcs.push(pc);
        let pcs = &self.pcs;
        self.pc_ids.insert(&pc, id, |place| pcs.get(place).copied());
        self.budget.charge(PC_BYTES);
        Some(PcId(id))
    }

    /// A process with the subject of a sample of it; `row` is what is known of the process. Mostly
    /// it is that of the sample before. `None` if there is no room.
    pub fn owner(
        &mut self,
        process: ProcessId,
        subject: Subject,
        row: impl FnOnce() -> profiledb::Process,
    ) -> Option<Owner> {
        if let Some((of, last)) = self.last_owner
            && of == subject
            && last.process == process
        {
            return Some(last);
        }
        let known = |shared: &Self| {
            shared.subject_ids.contains_key(&subject) && shared.processes.contains_key(&process)
        };
        if self.budget.is_over_full() && !known(self) {
            return None;
        }
        let owner = Owner {
            process,
            subject: self.subject(subject),
        };
        if !self.processes.contains_key(&process) {
            self.put_process(process, row());
        }
        self.last_owner = Some((subject, owner));
        Some(owner)
    }

    /// Keeps what is known of a process.
    pub(crate) fn put_process(&mut self, id: ProcessId, row: profiledb::Process) {
        if self.processes.insert(id, row).is_none() {
            self.budget.charge(PROCESS_BYTES);
        }
    }

    /// Takes over PCs, which are looked up no more.
    pub(crate) fn put_pcs(&mut self, pcs: Vec<Pc>) {
        self.budget.charge(pcs.len() * PC_BYTES);
        self.pcs = pcs;
    }

    fn subject(&mut self, subject: Subject) -> SubjectId {
        let next = SubjectId(u32::try_from(self.subjects.len()).unwrap_or(u32::MAX));
        let subjects = &mut self.subjects;
        *self.subject_ids.entry(subject).or_insert_with(|| {
            subjects.push(subject);
            next
        })
    }
}
