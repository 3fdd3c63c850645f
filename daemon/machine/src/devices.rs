//! Which processes have devices in their memory.
//!
//! Reading a device's registers can do something: acknowledge an interrupt, take a byte from a
//! queue. Such memory is mapped from files that are no regular ones, and the kernel marks it. The
//! marks are costly to read, so they are looked at only in processes that have mapped such a file.

use std::fs::File;
use std::io::{BufRead, BufReader};

use sampler::Pid;

use crate::maps::Maps;

/// Whether memory of a device may be mapped in this process; also true where that cannot be told.
pub fn has_devices(pid: Pid, maps: &Maps) -> bool {
    maps.has_special() && marked(pid).unwrap_or(true)
}

/// Whether the kernel marks a mapping of the process as of a device (`io` or `pf`), other than
/// those that it makes itself.
fn marked(pid: Pid) -> Option<bool> {
    let smaps = BufReader::new(File::open(format!("/proc/{pid}/smaps")).ok()?);
    is_marked(smaps.lines().map_while(Result::ok))
}

fn is_marked(lines: impl Iterator<Item = String>) -> Option<bool> {
    let mut own = false;
    let mut any = false;
    for line in lines {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            any = true;
            let mut flags = flags.split_ascii_whitespace();
            if !own && flags.any(|flag| flag == "io" || flag == "pf") {
                return Some(true);
            }
        } else if line.split('-').next().is_some_and(is_hexadecimal) {
            own = line.contains(" [vvar") || line.ends_with(" [vdso]");
        }
    }
    any.then_some(false)
}

fn is_hexadecimal(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mapping with the mark of a device is seen, the kernel's own is not taken for one, and
    /// where there are no marks nothing is claimed.
    #[test]
    fn marks() {
        let lines = |text: &str| {
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            is_marked(lines.into_iter())
        };
        let vvar = "7ffc1000-7ffc5000 r--p 00000000 00:00 0   [vvar]\nSize: 16 kB\nVmFlags: rd mr io de dd\n";
        let text =
            "55550000-55551000 r-xp 00000000 08:01 5   /bin/x\nSize: 4 kB\nVmFlags: rd ex mr mw\n";
        let card =
            "7f000000-7f001000 rw-s 00000000 00:05 9   /dev/card\nVmFlags: rd wr sh io pf dd\n";
        assert_eq!(lines(&format!("{vvar}{text}")), Some(false));
        assert_eq!(lines(&format!("{vvar}{card}{text}")), Some(true));
        assert_eq!(lines(""), None);
        assert_eq!(
            lines("55550000-55551000 r-xp 00000000 08:01 5 /bin/x\n"),
            None
        );
    }
}
