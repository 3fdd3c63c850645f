//! How sites are found, and made where there are none yet.

use counters::Loss;

use super::keys::{NONE, Owner, PcId, Site, SiteId};
use super::places::Places;
use super::shared::Shared;
use machine::place::Pc;

/// Rough size of an entry with its share of the hash table, in bytes.
const SITE_BYTES: usize = 2 * size_of::<Site>() + Places::BYTES;

fn key_at(sites: &[Site], place: usize) -> Option<(Owner, Pc)> {
    sites.get(place).map(|site| (site.owner, site.pc))
}

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
        let key = (owner, pc);
        if let Some(id) = self.site_ids.find(&key, |place| key_at(&self.sites, place)) {
            return Some(SiteId(id));
        }
        if self.budget.is_over_full() {
            self.lost.count(Loss::TableFullSites, 1);
            return None;
        }
        let id = u32::try_from(self.sites.len()).ok()?;
        let site = Site {
            owner,
            pc,
            id: self.pc(pc)?,
            profile: NONE,
            branch: NONE,
        };
        self.put_site(site);
        let sites = &self.sites;
        self.site_ids.insert(&key, id, |place| key_at(sites, place));
        Some(SiteId(id))
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
