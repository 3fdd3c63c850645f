//! Instructions that windows run through, and the values that were seen there.

use hotlist::{Generator, Hotlist};
use interpreter::Parameter;

use super::{Directions, Owner, Pc, PcId, ProfileKey, Tables, ValueProfile};

/// Index of a [`Site`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SiteId(pub(super) u32);

/// An instruction that windows run through, in the code of one owner.
///
/// Windows run through the same instructions again and again, mostly in the same order. So what is
/// kept of an instruction is found from its site, and its site by the number that the decode cache has
/// for it, or, where several owners share the code, as the one that came next the last time: without
/// a look into a hash table, which is a miss of the cache each time.
#[derive(Debug)]
pub(super) struct Site {
    owner: Owner,
    id: PcId,
    pc: Pc,
    next: SiteId,
    directions: Directions,
    profiles: Vec<(Slot, u32)>,
}

/// Which profile of a site: its own, or of an argument at what it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pc: PcId,
    caller: Option<PcId>,
    parameter: Parameter,
}

/// What value events have in common that belong to one instruction of one window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) caller: Option<PcId>,
    /// Number of the window, from 1.
    pub(crate) window: u64,
    /// Wall-clock time of the sample, ns of the Unix epoch.
    pub(crate) time: u64,
}

/// Profiles that are searched for at their site; with more they are found by their key.
const SLOTS: usize = 16;

impl Tables {
    /// The site of an instruction that the decode cache holds under this number, behind the one that
    /// the window was at `before`. `None`, and counted, if there is no room.
    #[inline]
    pub(crate) fn next_site(
        &mut self,
        owner: Owner,
        pc: Pc,
        mark: u32,
        before: Option<SiteId>,
    ) -> Option<SiteId> {
        let marked = self.marked.get(mark as usize).copied();
        match marked.filter(|id| self.is_site(*id, owner, pc)) {
            Some(id) => Some(id),
            None => self.unmarked_site(owner, pc, mark, before),
        }
    }

    #[inline]
    fn is_site(&self, id: SiteId, owner: Owner, pc: Pc) -> bool {
        let site = self.sites.get(id.0 as usize);
        site.is_some_and(|site| site.pc == pc && site.owner == owner)
    }

    /// That where the number last stood for the site of another owner.
    #[inline(never)]
    fn unmarked_site(
        &mut self,
        owner: Owner,
        pc: Pc,
        mark: u32,
        before: Option<SiteId>,
    ) -> Option<SiteId> {
        let before = before.map(|before| before.0 as usize);
        let next = before.and_then(|before| Some(self.sites.get(before)?.next));
        let id = match next.filter(|id| self.is_site(*id, owner, pc)) {
            Some(id) => id,
            None => self.site(owner, pc)?,
        };
        if let Some(before) = before.and_then(|before| self.sites.get_mut(before)) {
            before.next = id;
        }
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
            self.count("lost", "table_full_sites", 1);
            return None;
        }
        let id = SiteId(u32::try_from(self.sites.len()).ok()?);
        let site = Site {
            owner,
            id: self.pc(pc)?,
            pc,
            next: id,
            directions: Directions::default(),
            profiles: Vec::new(),
        };
        self.sites.push(site);
        self.site_ids.insert((owner, pc), id);
        Some(id)
    }

    /// The PC of a site.
    pub(crate) fn pc_of(&self, site: SiteId) -> Option<PcId> {
        Some(self.sites.get(site.0 as usize)?.id)
    }

    /// Counts value events at a site, or at what the site calls; `None`: reached, but the value is
    /// not known. What finds no room is counted.
    #[inline]
    pub(crate) fn add_values(
        &mut self,
        site: SiteId,
        callee: Option<PcId>,
        events: &[(Parameter, Option<u64>)],
        moment: Moment,
        coins: &mut Generator,
    ) {
        // Events of an instruction mostly come in the order in which they came first.
        let mut likely = 0;
        for &(parameter, value) in events {
            let Some(of_site) = self.sites.get(site.0 as usize) else {
                return;
            };
            let slot = Slot {
                pc: callee.unwrap_or(of_site.id),
                caller: moment.caller,
                parameter,
            };
            let profile = match of_site.profiles.get(likely) {
                Some(&(held, profile)) if held == slot => profile,
                _ => match self.other_profile(site, slot) {
                    Some((place, profile)) => {
                        likely = place;
                        profile
                    }
                    None => continue,
                },
            };
            likely += 1;
            self.add_value(profile, value, moment, coins);
        }
    }

    /// The profile of a slot that is not where it was looked for, and its place at the site. `None`,
    /// and counted, if there is no room.
    #[inline(never)]
    fn other_profile(&mut self, site: SiteId, slot: Slot) -> Option<(usize, u32)> {
        let of_site = self.sites.get(site.0 as usize)?;
        let mut held = of_site.profiles.iter();
        if let Some(place) = held.position(|(held, _)| *held == slot) {
            return Some((place, of_site.profiles[place].1));
        }
        let key = ProfileKey {
            owner: of_site.owner,
            pc: slot.pc,
            caller: slot.caller,
            parameter: slot.parameter,
        };
        let place = of_site.profiles.len();
        let spills = place >= SLOTS;
        if spills && let Some(&profile) = self.spilled.get(&key) {
            return Some((place, profile));
        }
        if self.is_over_full() {
            self.count("lost", "table_full_values", 1);
            return None;
        }
        let profile = u32::try_from(self.profiles.len()).ok()?;
        self.profiles.push(ValueProfile {
            key,
            reached: 0,
            unknown: 0,
            windows: 0,
            last_window: 0,
            list: None,
        });
        if spills {
            self.spilled.insert(key, profile);
        } else if let Some(of_site) = self.sites.get_mut(site.0 as usize) {
            of_site.profiles.push((slot, profile));
        }
        Some((place, profile))
    }

    /// Counts a value event.
    #[inline]
    fn add_value(
        &mut self,
        profile: u32,
        value: Option<u64>,
        moment: Moment,
        coins: &mut Generator,
    ) {
        let Some(profile) = self.profiles.get_mut(profile as usize) else {
            return;
        };
        profile.reached += 1;
        let Some(value) = value else {
            profile.unknown += 1;
            return;
        };
        if profile.last_window != moment.window {
            profile.last_window = moment.window;
            profile.windows += 1;
        }
        let list = profile.list.get_or_insert_with(|| {
            self.lists += 1;
            Hotlist::new(&self.config)
        });
        list.update(value, moment.time, coins);
    }

    /// Counts a direction of a conditional branch.
    pub(crate) fn add_branch(&mut self, site: SiteId, taken: Option<bool>) {
        let Some(site) = self.sites.get_mut(site.0 as usize) else {
            return;
        };
        match taken {
            Some(true) => site.directions.taken += 1,
            Some(false) => site.directions.not_taken += 1,
            None => site.directions.unknown += 1,
        }
    }

    /// How often windows saw a branch taken, and not taken.
    pub(crate) fn directions(&self, owner: Owner, pc: Pc) -> Option<(u64, u64)> {
        let site = self.site_ids.get(&(owner, pc))?;
        let directions = self.sites.get(site.0 as usize)?.directions;
        Some((directions.taken, directions.not_taken))
    }

    /// The branches that windows met.
    pub(crate) fn branches(&self) -> impl Iterator<Item = (Owner, PcId, Directions)> {
        let met = self.sites.iter().filter(|site| {
            let Directions {
                taken,
                not_taken,
                unknown,
            } = site.directions;
            taken | not_taken | unknown != 0
        });
        met.map(|site| (site.owner, site.id, site.directions))
    }
}
