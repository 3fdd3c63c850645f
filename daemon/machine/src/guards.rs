//! Pages of a process that may raise an exception although their mapping allows the access: guard
//! regions (`MADV_GUARD_INSTALL`), and memory of a `userfaultfd`. Of that, an access raises a
//! signal or waits for another thread, which may do what it likes before it answers.
//!
//! Neither makes a record. So a process that handles SIGSEGV or SIGBUS is looked at: its page table
//! has marks for guard regions, and the descriptors that it has open say what they are. Where
//! anybody uses `userfaultfd`, so is one whose memory several threads use. A look is
//! good for samples before it. Where a guard region was seen once, its whole mapping may have some
//! until the program ends, since they come and go without notice; a descriptor stands for all
//! memory. What comes and goes between two looks is not seen.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nix::sys::utsname::uname;
use sampler::Pid;

use crate::host::Host;
pub use crate::host::Marks;
use crate::system::procfs::Pagemap;

/// Looks take so little of the time: one part of that many.
const LOOKING_PART: u64 = 50;
/// Nanoseconds for which it is believed that nobody uses `userfaultfd`.
const UNUSED_NS: u64 = 1_000_000_000;
/// Kernels that have guard regions and cannot tell where.
const UNTOLD: [(u32, u32); 2] = [(6, 13), (6, 14)];

/// What was seen of one process.
#[derive(Debug, Default)]
pub(crate) struct Guards {
    seen: Option<Marks>,
    /// The time before the last look.
    looked: u64,
    /// When there may be another.
    next: u64,
    /// When it may be asked again whether anybody uses `userfaultfd`, if nobody did.
    unused_until: u64,
}

/// What an access may meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guarded {
    No,
    /// A page that cannot be read.
    Perhaps,
    /// A page that cannot be written, whether or not it can be read.
    ByUser,
}

impl Guards {
    /// What an access between two addresses may meet, for a sample of that time. `stack` is the
    /// stack pointer of a sample of the process whose stack could be read.
    pub(crate) fn at(
        &mut self,
        (first, last): (u64, u64),
        (pid, time): (Pid, u64),
        stack: Option<u64>,
        host: &mut Host,
    ) -> Guarded {
        if self.is_due(time)
            && let Some(found) = host.guards(pid, || look(pid, stack?))
        {
            self.add(found);
        }
        let Some(seen) = &self.seen else {
            // Nobody ever looked.
            return Guarded::Perhaps;
        };
        let mut mappings = seen.mappings.iter();
        match seen {
            Marks { by_user: true, .. } => Guarded::ByUser,
            Marks { anywhere: true, .. } => Guarded::Perhaps,
            _ if mappings.any(|(start, end)| *start <= last && first < *end) => Guarded::Perhaps,
            _ => Guarded::No,
        }
    }

    /// Whether an access may wait for another thread of the process, for a sample of that time.
    pub(crate) fn by_user(
        &mut self,
        (pid, time): (Pid, u64),
        stack: Option<u64>,
        host: &mut Host,
    ) -> bool {
        if self.is_due(time) && self.unused_until <= time {
            match host.guards(pid, || may_have_user_faults().then(|| look(pid, stack?))?) {
                Some(found) => self.add(found),
                None => self.unused_until = time.saturating_add(UNUSED_NS),
            }
        }
        self.seen.as_ref().is_some_and(|seen| seen.by_user)
    }

    fn is_due(&self, time: u64) -> bool {
        self.looked < time && self.next <= time
    }

    fn add(&mut self, (marks, looked, next): (Marks, u64, u64)) {
        self.seen.get_or_insert_default().add(marks);
        (self.looked, self.next) = (looked, next);
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        let mappings = |marks: &Marks| marks.mappings.capacity() * size_of::<(u64, u64)>();
        self.seen.as_ref().map_or(0, mappings)
    }
}

/// Looks now, if the process is still the sampled program: each exec draws another place for the
/// stack. Also says when the look began, and when there may be another.
fn look(pid: Pid, stack: u64) -> Option<(Marks, u64, u64)> {
    let now = sampler::clock_now();
    let mut marks = Marks {
        by_user: has_user_faults(pid)?,
        ..Marks::default()
    };
    let pagemap = Pagemap::open(pid)?;
    match sampler::guard_regions(pagemap.file().as_fd()) {
        Ok(Some(regions)) if regions.is_empty() => {}
        Ok(regions) => match regions.and_then(|regions| mappings(pid, &regions)) {
            Some(mappings) => marks.mappings = mappings,
            None => marks.anywhere = true,
        },
        Err(_) => marks.anywhere = is_untold(&uname().ok()?.release().to_string_lossy()),
    }
    if !pagemap.has_stack(stack) {
        return None;
    }
    let took = sampler::clock_now().saturating_sub(now);
    Some((marks, now, now + took * LOOKING_PART))
}

/// The mappings around regions, if they can be told.
fn mappings(pid: Pid, regions: &[(u64, u64)]) -> Option<Vec<(u64, u64)>> {
    let maps = File::open(format!("/proc/{pid}/maps")).ok()?;
    let mut found = Vec::new();
    for (start, _) in regions {
        // One that is gone meanwhile says nothing of its place.
        let around = sampler::vma_from(maps.as_fd(), *start).ok()?;
        let around = around.filter(|vma| vma.start <= *start);
        found.extend(around.map(|vma| (vma.start, vma.end)));
    }
    found.dedup();
    Some(found)
}

/// Whether a process has a `userfaultfd`. One that another process answers says nothing here: that
/// process reaches no more of the memory than what it answers with.
fn has_user_faults(pid: Pid) -> Option<bool> {
    let mut descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    Some(descriptors.any(|entry| {
        let to = entry.and_then(|entry| fs::read_link(entry.path()));
        to.is_ok_and(|to| to.as_os_str() == "anon_inode:[userfaultfd]")
    }))
}

/// Whether anybody may have a `userfaultfd`: the kernel has had memory for one. It is looked up
/// once a second.
fn may_have_user_faults() -> bool {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    static MAY: AtomicBool = AtomicBool::new(true);
    let now = sampler::clock_now();
    if NEXT.load(Ordering::Relaxed) <= now {
        let caches = fs::read_to_string("/proc/slabinfo");
        MAY.store(
            !caches.is_ok_and(|caches| is_unused(&caches)),
            Ordering::Relaxed,
        );
        NEXT.store(now + UNUSED_NS, Ordering::Relaxed);
    }
    MAY.load(Ordering::Relaxed)
}

/// Whether the kernel's caches say that there never was a `userfaultfd`: behind the cache's name
/// are the objects in use and those that there are.
fn is_unused(caches: &str) -> bool {
    let mut lines = caches.lines();
    let of_cache = lines.find_map(|line| line.strip_prefix("userfaultfd_ctx_cache "));
    of_cache.is_some_and(|counts| counts.split_whitespace().nth(1) == Some("0"))
}

/// Whether a kernel of this release has guard regions and cannot tell where.
fn is_untold(release: &str) -> bool {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    let mut part = || parts.next()?.parse::<u32>().ok();
    part()
        .zip(part())
        .is_some_and(|version| UNTOLD.contains(&version))
}

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashMap;

    use super::*;

    fn guarded(guards: &mut Guards, address: u64, time: u64, host: &mut Host) -> Guarded {
        guards.at((address, address + 7), (Pid(7), time), Some(0), host)
    }

    /// What was seen once in a mapping may be there until the program ends; a look serves earlier
    /// samples, and while none may be made the last one counts. Before the first, anything may be.
    #[test]
    fn looks() {
        let mut host = Host::Replayed(FxHashMap::default());
        let answer =
            |marks: Marks, looked, next| crate::host::Answer::Guards(Some((marks, looked, next)));
        let marks = Marks {
            mappings: vec![(0x4000, 0x8000)],
            ..Marks::default()
        };
        let mut guards = Guards::default();
        assert_eq!(guarded(&mut guards, 0x1000, 5, &mut host), Guarded::Perhaps);
        host.replay(Pid(7), answer(marks, 10, 100));
        assert_eq!(guarded(&mut guards, 0x1000, 5, &mut host), Guarded::No);
        assert_eq!(guarded(&mut guards, 0x3ff9, 5, &mut host), Guarded::Perhaps);
        assert_eq!(guarded(&mut guards, 0x8000, 50, &mut host), Guarded::No);
        host.replay(Pid(7), answer(Marks::default(), 200, 200));
        assert_eq!(
            guarded(&mut guards, 0x7ff8, 150, &mut host),
            Guarded::Perhaps
        );
        assert_eq!(guarded(&mut guards, 0x9000, 190, &mut host), Guarded::No);
        let by_user = Marks {
            by_user: true,
            ..Marks::default()
        };
        host.replay(Pid(7), answer(by_user, 300, 300));
        assert_eq!(
            guarded(&mut guards, 0x9000, 250, &mut host),
            Guarded::ByUser
        );
    }

    /// Too many mappings count as all.
    #[test]
    fn too_many_mappings() {
        let mut marks = Marks::default();
        for start in 0..=Marks::MAX_MAPPINGS as u64 {
            let mappings = vec![(start, start + 1)];
            marks.add(Marks {
                mappings,
                ..Marks::default()
            });
        }
        assert!(marks.anywhere && marks.mappings.is_empty());
    }

    /// This very process has no descriptor of that kind; another program's stack is not in it.
    #[test]
    fn own_process() {
        let pid = Pid(std::process::id());
        let local = 0_u64;
        let (marks, looked, next) = look(pid, &raw const local as u64).expect("a look");
        assert!(!marks.by_user && next >= looked);
        assert_eq!(look(pid, 0x1000), None);
    }

    /// Memory for descriptors is the second number; some kernels have guard regions and cannot tell
    /// where.
    #[test]
    fn caches_and_releases() {
        let caches = |count| {
            format!("slabinfo - version: 2.1\nx 3 4\nuserfaultfd_ctx_cache  0 {count} 192\n")
        };
        assert!(is_unused(&caches(0)) && !is_unused(&caches(21)));
        assert!(!is_unused("slabinfo - version: 2.1\nx 3 0\n"));
        assert!(is_untold("6.14.0-rc1") && is_untold("6.13"));
        assert!(!is_untold("6.12.9") && !is_untold("6.18.44-x") && !is_untold(""));
    }
}
