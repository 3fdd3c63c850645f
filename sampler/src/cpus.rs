//! Which CPUs are online, and which threads a process has: the kernel's text files.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use nix::sched::{CpuSet, sched_setaffinity};

use crate::{Error, Pid, Tid};

/// The most CPUs a list may name; Linux on x86-64 supports 8192.
const MOST_CPUS: u32 = 1 << 16;

/// The CPUs that are online now, in ascending order.
///
/// # Errors
/// [`Error::Cpus`] where the kernel's list cannot be read.
pub fn online() -> Result<Vec<u32>, Error> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")
        .map_err(|error| Error::Cpus(error.to_string()))?;
    parse_list(&text).ok_or_else(|| Error::Cpus(format!("{:?} is not a list", text.trim())))
}

/// Moves the calling thread to a CPU, and keeps it there.
pub(crate) fn stay_on(cpu: u32) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu as usize)?;
    sched_setaffinity(nix::unistd::Pid::from_raw(0), &set)
}

/// Parses a list like `0-3,8,10-11`; `None` for anything else, and for an empty one.
fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MOST_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// How often the threads of a process are listed at most, until a list is whole.
const LISTINGS: usize = 64;

/// The threads that a process has now, in ascending order; empty if it has gone.
///
/// Those that ended meanwhile may be among them. A thread that ends while the kernel lists the
/// threads makes it leave out others that live: it goes on behind the thread that it named last,
/// and if that one has gone, it ends, or counts from the first again. So the list is taken until
/// it is the same twice in a row and as long as the kernel says, and a thread that any of the
/// lists names counts.
pub(crate) fn threads(pid: Pid) -> io::Result<Vec<Tid>> {
    let mut all = BTreeSet::new();
    let mut before = Vec::new();
    for _ in 0..LISTINGS {
        let listed = list_once(pid)?;
        all.extend(listed.iter().copied());
        let is_whole = count(pid).is_none_or(|count| listed.len() >= count);
        if is_whole && listed == before {
            break;
        }
        before = listed;
    }
    Ok(all.into_iter().collect())
}

/// The rest of the line of `/proc/PID/status` that begins so.
pub(crate) fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.map(str::trim)
}

/// How many threads a process has now.
fn count(pid: Pid) -> Option<usize> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    field(&status, "Threads:")?.parse().ok()
}

/// The threads of a process as the kernel lists them once, in the order of their start.
fn list_once(pid: Pid) -> io::Result<Vec<Tid>> {
    let entries = match fs::read_dir(format!("/proc/{pid}/task")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    Ok(entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().map(Tid))
        .collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// Single CPUs and ranges are read, in any order and with duplicates.
    #[test]
    fn lists() {
        assert_eq!(parse_list("0\n"), Some(vec![0]));
        assert_eq!(
            parse_list("0-3,8,10-11\n"),
            Some(vec![0, 1, 2, 3, 8, 10, 11])
        );
        assert_eq!(parse_list("4,0-1,1"), Some(vec![0, 1, 4]));
    }

    /// What is not a list is refused, and a huge range does not fill the memory.
    #[test]
    fn not_lists() {
        for text in [
            "",
            "a",
            "1-",
            "-1",
            "3-2",
            "0,,1",
            "0-4294967295",
            "99999999999",
        ] {
            assert_eq!(parse_list(text), None, "{text:?}");
        }
    }

    /// A process that has gone has no threads.
    #[test]
    fn threads_of_none() {
        assert!(threads(Pid(u32::MAX)).unwrap().is_empty());
    }

    /// Threads that live are all listed while those that started before them end.
    #[test]
    fn threads_behind_others() {
        let own = || Tid(nix::unistd::gettid().as_raw().cast_unsigned());
        let missed = (0..500).filter(|_| {
            let end = AtomicBool::new(false);
            thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        while !end.load(Ordering::Relaxed) {
                            thread::yield_now();
                        }
                    });
                }
                let (tell, told) = mpsc::channel();
                let (_living, ended) = mpsc::channel::<()>();
                scope.spawn(move || {
                    tell.send(own()).unwrap();
                    let _ = ended.recv();
                });
                let last = told.recv().unwrap();
                end.store(true, Ordering::Relaxed);
                !threads(Pid(std::process::id())).unwrap().contains(&last)
            })
        });
        assert_eq!(missed.count(), 0);
    }
}
