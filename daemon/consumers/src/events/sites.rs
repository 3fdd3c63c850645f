//! Instructions that windows run through.

use counters::Loss;

use super::shared::{Owner, PcId, Shared};
use machine::place::Pc;

/// Index of an instruction that windows run through, in the tables of one flush interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteId(pub(crate) u32);

/// No index.
pub(crate) const NONE: u32 = u32::MAX;

/// An instruction that windows run through, in the code of one owner.
///
/// Windows run through the same instructions again and again. So what is kept of an instruction is
/// found from its site, and its site by the number that the decode cache has for it, without a look
/// into a hash table, which is a miss of the cache each time. A site is a line of that cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Site {
    pub(crate) owner: Owner,
    pub(crate) pc: Pc,
    pub(crate) id: PcId,
    /// Of the values: the first profile, each of which names the next.
    pub(crate) profile: u32,
    /// Of the branches: the directions, if the instruction is a conditional branch; else [`NONE`].
    pub(crate) branch: u32,
}

const _: () = assert!(size_of::<Site>() == 64);

/// Rough size of an entry with its share of the hash table, in bytes.
const SITE_BYTES: usize = 2 * (size_of::<Site>() + size_of::<(Owner, Pc, SiteId)>());

impl Shared {
    /// The site of an instruction that the decode cache holds under this number. `None`, and
    /// counted, if there is no room.
    #[inline]
    pub fn marked_site(&mut self, owner: Owner, pc: Pc, mark: u32) -> Option<SiteId> {
        let marked = self.marked.get(mark as usize).copied();
        if let Some(id) = marked
            && let Some(site) = self.sites.get(id.0 as usize)
            && site.pc == pc
            && site.owner == owner
        {
            return Some(id);
        }
        self.unmarked_site(owner, pc, mark)
    }

    /// That where the number last stood for the site of another owner.
    #[inline(never)]
    fn unmarked_site(&mut self, owner: Owner, pc: Pc, mark: u32) -> Option<SiteId> {
        let id = self.site(owner, pc)?;
        let mark = mark as usize;
        if mark >= self.marked.len() {
            let more = mark + 1 - self.marked.len();
            self.budget.charge(more * size_of::<SiteId>());
            self.marked.resize(mark + 1, SiteId(NONE));
        }
        self.marked[mark] = id;
        Some(id)
    }

    /// The site of an instruction. `None`, and counted, if there is no room.
    #[inline(never)]
    pub fn site(&mut self, owner: Owner, pc: Pc) -> Option<SiteId> {
        if let Some(&id) = self.site_ids.get(&(owner, pc)) {
            return Some(id);
        }
        if self.budget.is_over_full() {
            self.lost.count(Loss::TableFullSites, 1);
            return None;
        }
        let id = SiteId(u32::try_from(self.sites.len()).ok()?);
        let site = Site {
            owner,
            pc,
            id: self.pc(pc)?,
            profile: NONE,
            branch: NONE,
        };
        self.put_site(site);
        self.site_ids.insert((owner, pc), id);
        Some(id)
    }

    /// Keeps a site, which is looked up by its index alone.
    pub(crate) fn put_site(&mut self, site: Site) {
        self.sites.push(site);
        self.budget.charge(SITE_BYTES);
    }

    /// The PC of a site.
    pub fn pc_of(&self, site: SiteId) -> Option<PcId> {
        Some(self.sites.get(site.0 as usize)?.id)
    }
}
