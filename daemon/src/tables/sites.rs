//! Instructions that windows run through, and the values that were seen there.

use hotlist::{Generator, Hotlist};
use interpreter::Parameter;
use profiledb::Loss;

use super::{NONE, Owner, Pc, PcId, ProfileKey, Tables, ValueProfile};

/// Index of a [`Site`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SiteId(pub(super) u32);

/// An instruction that windows run through, in the code of one owner.
///
/// Windows run through the same instructions again and again. So what is kept of an instruction is
/// found from its site, and its site by the number that the decode cache has for it, without a look
/// into a hash table, which is a miss of the cache each time. A site is a line of that cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Site {
    pub(super) owner: Owner,
    pub(super) pc: Pc,
    pub(super) id: PcId,
    /// Its profiles, each of which names the next.
    pub(super) first: u32,
    /// Its directions, if it is a conditional branch; else [`NONE`].
    pub(super) branch: u32,
}

const _: () = assert!(size_of::<Site>() == 64);

/// What value events have in common that belong to one instruction of one window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) caller: Option<PcId>,
    /// Number of the window, from 1.
    pub(crate) window: u64,
    /// Which of its instructions this is, from 1.
    pub(crate) depth: u32,
    /// Wall-clock time of the sample, ns of the Unix epoch.
    pub(crate) time: u64,
}

/// Where the values of one instruction are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    site: SiteId,
    pc: PcId,
    /// The profile of the next event, probably: those of an instruction mostly come in the order in
    /// which they came first.
    likely: u32,
}

/// Profiles that are searched for at their site; with more they are found by their key.
const SLOTS: usize = 16;

impl Tables {
    /// The site of an instruction that the decode cache holds under this number. `None`, and
    /// counted, if there is no room.
    #[inline]
    pub(crate) fn marked_site(&mut self, owner: Owner, pc: Pc, mark: u32) -> Option<SiteId> {
        let marked = self.marked.get(mark as usize).copied();
        if let Some(id) = marked
            && let Some(site) = self.sites.get(id.0 as usize)
            && site.pc == pc
            && site.owner == owner
        {
            self.prefetch(site.first);
            return Some(id);
        }
        self.unmarked_site(owner, pc, mark)
    }

    /// While an instruction is interpreted, what its values go to can come into the cache.
    #[inline]
    fn prefetch(&self, profile: u32) {
        if let Some(profile) = self.profiles.get(profile as usize) {
            mem_prefetch::prefetch_read_data::<_, 3>(profile);
            mem_prefetch::prefetch_read_data::<_, 3>(&profile.list);
        }
    }

    /// That where the number last stood for the site of another owner.
    #[inline(never)]
    fn unmarked_site(&mut self, owner: Owner, pc: Pc, mark: u32) -> Option<SiteId> {
        let id = self.site(owner, pc)?;
        let mark = mark as usize;
        if mark >= self.marked.len() {
            self.marked.resize(mark + 1, SiteId(u32::MAX));
        }
        self.marked[mark] = id;
        Some(id)
    }

    /// The site of an instruction. `None`, and counted, if there is no room.
    #[inline(never)]
    pub(crate) fn site(&mut self, owner: Owner, pc: Pc) -> Option<SiteId> {
        if let Some(&id) = self.site_ids.get(&(owner, pc)) {
            return Some(id);
        }
        if self.is_over_full() {
            self.lost.count(Loss::TableFullSites, 1);
            return None;
        }
        let id = SiteId(u32::try_from(self.sites.len()).ok()?);
        let site = Site {
            owner,
            pc,
            id: self.pc(pc)?,
            first: NONE,
            branch: NONE,
        };
        self.sites.push(site);
        self.site_ids.insert((owner, pc), id);
        Some(id)
    }

    /// The PC of a site.
    pub(crate) fn pc_of(&self, site: SiteId) -> Option<PcId> {
        Some(self.sites.get(site.0 as usize)?.id)
    }

    /// Where values of a site are kept, or of what the site calls.
    #[inline]
    pub(crate) fn place(&self, site: SiteId, callee: Option<PcId>) -> Option<Place> {
        let of_site = self.sites.get(site.0 as usize)?;
        Some(Place {
            site,
            pc: callee.unwrap_or(of_site.id),
            likely: of_site.first,
        })
    }

    /// Counts a value event. What finds no room is counted.
    #[inline(always)]
    pub(crate) fn add_value(
        &mut self,
        place: &mut Place,
        parameter: Parameter,
        value: Option<u64>,
        moment: Moment,
        coins: &mut Generator,
    ) {
        let held = self.profiles.get(place.likely as usize);
        // All profiles of a site are of its owner.
        let is_it = held.is_some_and(|held| {
            held.key.pc == place.pc
                && held.key.caller == moment.caller
                && held.key.parameter == parameter
        });
        if !is_it {
            let Place { site, pc, .. } = *place;
            match self.other_profile(site, pc, moment.caller, parameter) {
                Some(profile) => place.likely = profile,
                None => return,
            }
        }
        place.likely = self.count_value(place.likely, value, moment, coins);
    }

    /// The profile of a key that is not where it was looked for. `None`, and counted, if there is
    /// no room.
    #[inline(never)]
    fn other_profile(
        &mut self,
        site: SiteId,
        pc: PcId,
        caller: Option<PcId>,
        parameter: Parameter,
    ) -> Option<u32> {
        let of_site = self.sites.get(site.0 as usize)?;
        let key = ProfileKey {
            owner: of_site.owner,
            pc,
            caller,
            parameter,
        };
        let mut last = None;
        let mut at = of_site.first;
        let mut held = 0;
        while let Some(profile) = self.profiles.get(at as usize) {
            if profile.key == key {
                return Some(at);
            }
            (last, at) = (Some(at), profile.next);
            held += 1;
        }
        let spills = held >= SLOTS;
        if spills && let Some(&profile) = self.spilled.get(&key) {
            return Some(profile);
        }
        if self.is_over_full() {
            self.lost.count(Loss::TableFullValues, 1);
            return None;
        }
        let new = u32::try_from(self.profiles.len()).ok();
        let new = new.filter(|new| *new != NONE)?;
        self.profiles.push(ValueProfile {
            key,
            next: NONE,
            reached: 0,
            unknown: 0,
            windows: 0,
            returns: NONE,
            last_window: 0,
            last_depth: 0,
            list: None,
        });
        if spills {
            self.spilled.insert(key, new);
        } else if let Some(last) = last {
            self.profiles[last as usize].next = new;
        } else {
            self.sites[site.0 as usize].first = new;
        }
        Some(new)
    }

    /// Counts a value event; the next profile of the same site.
    #[inline(always)]
    fn count_value(
        &mut self,
        index: u32,
        value: Option<u64>,
        moment: Moment,
        coins: &mut Generator,
    ) -> u32 {
        let Some(profile) = self.profiles.get_mut(index as usize) else {
            return NONE;
        };
        let next = profile.next;
        // The lower half tells neighbours apart.
        let window = moment.window as u32;
        let opens = profile.last_window != window;
        if self.long != 0 {
            if !opens && profile.last_depth != moment.depth {
                self.count_return(index, value, moment, coins);
                return next;
            }
            profile.last_depth = moment.depth;
            if opens && let Some(returns) = self.returns.get_mut(profile.returns as usize) {
                returns.came_by(moment.depth, self.long, value, self.times);
            }
        }
        let times = self.times;
        profile.reached += u64::from(times);
        let Some(value) = value else {
            profile.unknown += u64::from(times);
            if self.long != 0 {
                profile.last_window = window;
            }
            return next;
        };
        if opens {
            profile.last_window = window;
            profile.windows += u64::from(times);
        }
        let list = profile.list.get_or_insert_with(|| {
            self.lists += 1;
            Hotlist::new(&self.config)
        });
        list.update_in_window(value, moment.time, opens, coins);
        for _ in 1..times {
            // To the list it is another event of the window: so intervals know of it.
            list.update_in_window(value, moment.time, false, coins);
        }
        next
    }
}
