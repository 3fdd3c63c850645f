//! What `/proc` tells of processes: for those that ran before the start, for credentials, and
//! for whether a page was ever written. Parsers are pure functions of the file's text.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::str::FromStr;
use std::time::Duration;

use sampler::{Pid, SignalHandlers};
use serde::{Deserialize, Serialize};

/// Real and effective ids of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// The real user id.
    pub uid: u32,
    /// The effective user id.
    pub euid: u32,
    /// The real group id.
    pub gid: u32,
    /// The effective group id.
    pub egid: u32,
    /// Whom the process's files in `/proc` belong to: root, if the process is not dumpable.
    pub(crate) owner: u32,
}

/// One line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapsLine {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) executable: bool,
    pub(crate) shared: bool,
    pub(crate) offset: u64,
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) inode: u64,
    pub(crate) path: String,
}

/// Credentials from the `Uid:` and `Gid:` lines of `/proc/PID/status`.
fn parse_credentials(status: &str, owner: u32) -> Option<Credentials> {
    let ids = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let mut fields = line.split_whitespace().map(str::parse::<u32>);
        Some((fields.next()?.ok()?, fields.next()?.ok()?))
    };
    let (uid, euid) = ids("Uid:")?;
    let (gid, egid) = ids("Gid:")?;
    Some(Credentials {
        uid,
        euid,
        gid,
        egid,
        owner,
    })
}

/// Which exceptions have handlers, from the `SigCgt:` and `TracerPid:` lines of `/proc/PID/status`.
fn parse_handlers(status: &str) -> Option<SignalHandlers> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim)
    };
    let caught = u64::from_str_radix(field("SigCgt:")?, 16).ok()?;
    let is_traced = field("TracerPid:")? != "0";
    let has = |signal: i32| is_traced || caught >> (signal - 1) & 1 != 0;
    Some(SignalHandlers {
        access: has(libc::SIGSEGV) || has(libc::SIGBUS),
        float: has(libc::SIGFPE),
        // Nothing tells.
        keys: false,
    })
}

/// Which exceptions a live process has handlers for.
pub(crate) fn handlers(pid: Pid) -> Option<SignalHandlers> {
    parse_handlers(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

/// What the processor has, by the kernel's names.
pub fn processor_flags() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let flags = text.lines().find_map(|line| line.strip_prefix("flags"))?;
    Some(flags.split_once(':')?.1.trim().to_owned())
}

/// A field of `/proc/PID/stat` by its number, from 3 on, counted behind the command name, which may
/// hold blanks and parentheses itself.
fn stat_field<T: FromStr>(stat: &str, number: usize) -> Option<T> {
    let behind = &stat[stat.rfind(')')? + 1..];
    let mut fields = behind.split_whitespace();
    fields.nth(number.checked_sub(3)?)?.parse().ok()
}

/// Start time in clock ticks since boot.
pub(crate) fn parse_start_ticks(stat: &str) -> Option<u64> {
    stat_field(stat, 22)
}

/// How many threads a process has.
fn parse_threads(stat: &str) -> Option<u32> {
    stat_field(stat, 20)
}

/// The soft limit of the stack from `/proc/PID/limits`, in bytes.
fn parse_stack_limit(limits: &str) -> Option<u64> {
    let mut lines = limits.lines();
    let line = lines.find_map(|line| line.strip_prefix("Max stack size"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        bytes => bytes.parse().ok(),
    }
}

/// How large the main stack of a live process may become, in bytes.
pub(crate) fn stack_limit(pid: Pid) -> Option<u64> {
    parse_stack_limit(&fs::read_to_string(format!("/proc/{pid}/limits")).ok()?)
}

/// The lines of `/proc/PID/maps` that can be understood.
pub(crate) fn parse_maps(maps: &str) -> Vec<MapsLine> {
    maps.lines().filter_map(parse_maps_line).collect()
}

fn parse_maps_line(line: &str) -> Option<MapsLine> {
    let mut rest = line;
    let mut field = || {
        let trimmed = rest.trim_start();
        let end = trimmed.find(' ').unwrap_or(trimmed.len());
        let (head, tail) = trimmed.split_at(end);
        rest = tail;
        (!head.is_empty()).then_some(head)
    };
    let (start, end) = field()?.split_once('-')?;
    let access = field()?.as_bytes();
    let &[r, w, x, p] = access else { return None };
    let offset = field()?;
    let (major, minor) = field()?.split_once(':')?;
    let inode = field()?;
    Some(MapsLine {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        readable: r == b'r',
        writable: w == b'w',
        executable: x == b'x',
        shared: p == b's',
        offset: u64::from_str_radix(offset, 16).ok()?,
        major: u32::from_str_radix(major, 16).ok()?,
        minor: u32::from_str_radix(minor, 16).ok()?,
        inode: inode.parse().ok()?,
        path: rest.trim_start().to_owned(),
    })
}

/// Credentials of a live process.
pub(crate) fn credentials(pid: Pid) -> Option<Credentials> {
    let path = format!("/proc/{pid}/status");
    let owner = fs::metadata(&path).ok()?.uid();
    parse_credentials(&fs::read_to_string(path).ok()?, owner)
}

/// How many threads a live process has.
pub(crate) fn threads(pid: Pid) -> Option<u32> {
    parse_threads(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Start of a live process in nanoseconds since boot, to the grain of a clock tick.
pub fn start_time(pid: Pid) -> Option<u64> {
    let ticks = parse_start_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    // USER_HZ is 100 on x86-64, for ever: it is part of the kernel's ABI.
    ticks.checked_mul(10_000_000)
}

/// Name of a live process.
pub(crate) fn comm(pid: Pid) -> Option<String> {
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(comm.trim_end_matches('\n').to_owned())
}

/// Mappings of a live process.
pub(crate) fn maps(pid: Pid) -> Option<Vec<MapsLine>> {
    // Paths need not be UTF-8; a lossy name does no harm, identities are compared otherwise.
    let bytes = fs::read(format!("/proc/{pid}/maps")).ok()?;
    Some(parse_maps(&String::from_utf8_lossy(&bytes)))
}

/// The number that a process has in its own pid namespace.
pub(crate) fn pid_inside(pid: Pid) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().next_back()?.parse().ok()
}

/// The memory of a process.
#[derive(Debug)]
pub(crate) struct ProcessMemory(File);

/// Opens the memory of a process, if that may be read.
pub(crate) fn memory(pid: Pid) -> Option<ProcessMemory> {
    File::open(format!("/proc/{pid}/mem"))
        .ok()
        .map(ProcessMemory)
}

impl ProcessMemory {
    /// Reads from an address; false if not all of it is there.
    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        self.0.read_exact_at(bytes, address).is_ok()
    }
}

/// All process ids of the moment.
pub fn all_pids() -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .map(Pid)
        .collect()
}

/// The page table of a process as `/proc/PID/pagemap` shows it.
#[derive(Debug)]
pub struct Pagemap(File);

/// Whether a page of a private file mapping is still the file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PageState {
    /// Backed by the file: not written since it was mapped (or not even touched).
    Clean,
    /// An anonymous copy: somebody wrote to it, if only a debugger.
    Written,
    /// The process is gone, or its page table may not be read.
    Unknown,
}

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const FILE_OR_SHARED: u64 = 1 << 61;

impl Pagemap {
    /// Opens the page table; fails for processes that are gone or not ours to look at.
    pub fn open(pid: Pid) -> Option<Self> {
        File::open(format!("/proc/{pid}/pagemap")).ok().map(Self)
    }

    /// What is open.
    pub(crate) fn file(&self) -> &File {
        &self.0
    }

    /// State of the page at `address`.
    pub(crate) fn page(&self, address: u64) -> PageState {
        let mut entry = [0; 8];
        // The kernel answers a read past the end of the address space of a process that is gone
        // with zero bytes, which read_exact reports as an error.
        match self.0.read_exact_at(&mut entry, address / 4096 * 8) {
            Ok(()) => classify(u64::from_le_bytes(entry)),
            Err(_) => PageState::Unknown,
        }
    }

    /// Whether the process still runs the program of a sample whose stack pointer this is, and
    /// whose stack could be read: that page is anonymous, and each exec draws another place for the
    /// stack. Looked at last, it vouches for all that was looked at before.
    pub(crate) fn has_stack(&self, stack: u64) -> bool {
        self.page(stack) == PageState::Written
    }
}

fn classify(entry: u64) -> PageState {
    if entry & SWAPPED != 0 {
        // Only anonymous pages are swapped. (Shared memory too, but that is no image.)
        return PageState::Written;
    }
    if entry & PRESENT != 0 && entry & FILE_OR_SHARED == 0 {
        return PageState::Written;
    }
    PageState::Clean
}

/// Resident memory of this process in bytes.
pub fn resident_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    // The page size of x86-64.
    Some(pages * 4096)
}

/// Bytes of the kernel's memory in the BPF maps that this process has open.
pub fn map_bytes() -> u64 {
    let Ok(files) = fs::read_dir("/proc/self/fdinfo") else {
        return 0;
    };
    let texts = files.filter_map(|file| fs::read_to_string(file.ok()?.path()).ok());
    let maps: BTreeMap<u64, u64> = texts.filter_map(|text| parse_map(&text)).collect();
    maps.values().sum()
}

/// The id of a BPF map, and its bytes.
fn parse_map(fdinfo: &str) -> Option<(u64, u64)> {
    let number = |name: &str| {
        let line = fdinfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some((number("map_id:")?, number("memlock:")?))
}

/// Processor time of a thread of this process, by its id.
pub(crate) fn thread_time(thread: i32) -> Option<Duration> {
    schedule(thread).map(|(ran, _)| ran)
}

/// For how long all threads of this process were ready to run and had no processor, those left out
/// that have ended. Nothing where the kernel does not tell.
pub fn delay() -> Duration {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
    let ids = threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let waits = ids.filter_map(schedule).map(|(_, waited)| waited);
    waits.sum()
}

/// How long a thread ran, and how long it waited for a processor.
fn schedule(thread: i32) -> Option<(Duration, Duration)> {
    let times = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    parse_schedule(&times)
}

fn parse_schedule(times: &str) -> Option<(Duration, Duration)> {
    let mut times = times.split_ascii_whitespace().map(str::parse);
    let mut next = || Some(Duration::from_nanos(times.next()?.ok()?));
    Some((next()?, next()?))
}

/// How many files this process has open.
pub fn open_files() -> Option<usize> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The two times of a thread, and nothing from what is not two times.
    #[test]
    fn times_of_a_thread() {
        let times = |ran, waited| Some((Duration::from_nanos(ran), Duration::from_nanos(waited)));
        assert_eq!(
            parse_schedule("102733 2407122 2\n"),
            times(102_733, 2_407_122)
        );
        assert_eq!(parse_schedule("102733"), None);
        assert_eq!(parse_schedule("-1 x"), None);
    }

    /// A command name with blanks and parentheses does not move the start-time field.
    #[test]
    fn start_ticks_behind_hostile_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 1 2 3 4 20 0 1 0 98765 1000 10";
        assert_eq!(parse_start_ticks(stat), Some(98765));
        assert_eq!(parse_threads(stat), Some(1));
        assert_eq!(parse_start_ticks("7 (x"), None);
        assert_eq!(parse_start_ticks(""), None);
    }

    /// Real and effective ids come from the first two fields of their lines.
    #[test]
    fn credentials_from_status() {
        let status = "Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\n";
        let expected = Credentials {
            uid: 1,
            euid: 2,
            gid: 5,
            egid: 6,
            owner: 9,
        };
        assert_eq!(parse_credentials(status, 9), Some(expected));
        assert_eq!(parse_credentials("Uid:\t1\n", 9), None);
    }

    /// Caught are the signals whose bits are set; a tracer may handle all of them.
    #[test]
    fn handlers_from_status() {
        let status = |tracer: &str, caught: &str| {
            let found = parse_handlers(&format!("TracerPid:\t{tracer}\nSigCgt:\t{caught}\n"))?;
            Some((found.access, found.float))
        };
        assert_eq!(status("0", "0000000000000000"), Some((false, false)));
        assert_eq!(status("0", "0000000000000400"), Some((true, false)));
        assert_eq!(status("0", "0000000000000040"), Some((true, false)));
        assert_eq!(status("0", "0000000000000080"), Some((false, true)));
        assert_eq!(status("7", "0000000000000000"), Some((true, true)));
        assert_eq!(status("0", "x"), None);
        assert!(processor_flags().is_some_and(|flags| flags.contains("sse2")));
    }

    /// The soft limit is the first; there may be none.
    #[test]
    fn stack_limits() {
        let limits = "Limit   Soft Limit  Hard Limit  Units\n\
                      Max stack size   8388608    unlimited   bytes\n";
        assert_eq!(parse_stack_limit(limits), Some(8 << 20));
        let unlimited = "Max stack size   unlimited    unlimited   bytes\n";
        assert_eq!(parse_stack_limit(unlimited), Some(u64::MAX));
        assert_eq!(parse_stack_limit("Max stack size\n"), None);
        assert_eq!(parse_stack_limit(""), None);
    }

    /// Paths with blanks survive, anonymous lines have an empty path, nonsense is passed over.
    #[test]
    fn maps_lines() {
        let maps = "1000-2000 r-xp 00000400 fe:01 123    /a b/c (deleted)\n\
                    2000-3000 rw-s 00000000 00:00 0 \nnonsense\nz-1 r-xp 0 0:0 0\n";
        let lines = parse_maps(maps);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].path, "/a b/c (deleted)");
        assert_eq!(
            (lines[0].major, lines[0].inode, lines[0].offset),
            (0xfe, 123, 0x400)
        );
        assert!(lines[0].executable && !lines[0].writable && !lines[0].shared);
        assert_eq!(lines[1].path, "");
        assert!(lines[1].shared && lines[1].writable);
    }

    /// Present anonymous and swapped pages are written ones; absent ones are the file's.
    #[test]
    fn pagemap_entries() {
        assert_eq!(classify(0), PageState::Clean);
        assert_eq!(classify(PRESENT | FILE_OR_SHARED), PageState::Clean);
        assert_eq!(classify(PRESENT), PageState::Written);
        assert_eq!(classify(SWAPPED), PageState::Written);
    }

    /// A map has an id and a size; other files have not.
    #[test]
    fn maps_of_bpf() {
        let map = "pos:\t0\nmap_type:\t1\nmemlock:\t1442848\nmap_id:\t173300\nfrozen:\t0\n";
        assert_eq!(parse_map(map), Some((173_300, 1_442_848)));
        assert_eq!(parse_map("pos:\t0\nflags:\t02\n"), None);
    }

    /// The test's own text is clean, its own stack is not.
    #[test]
    fn own_pages() {
        let pagemap = Pagemap::open(Pid(std::process::id())).expect("own page table");
        assert_eq!(
            pagemap.page(own_pages as *const () as u64),
            PageState::Clean
        );
        let local = 0_u64;
        assert_eq!(pagemap.page(&raw const local as u64), PageState::Written);
    }
}
