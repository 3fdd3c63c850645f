//! Where things of the kernel are: its own memory that is RAM and nothing else, so that ways
//! through its code may read there, and the entries of interrupts, by which a timer finds what it
//! has interrupted.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, empty};
use std::sync::OnceLock;

use crate::abi::{self, Range};

/// How many ranges of RAM the handler keeps apart.
const RAM_RANGES: usize = abi::RAM_RANGES as usize;

/// Where `_text` and the map of all RAM lie in a kernel that was not moved at boot.
const UNMOVED_TEXT: u64 = 0xffff_ffff_8100_0000;
const UNMOVED_DIRECT_MAP: u64 = 0xffff_8880_0000_0000;

/// What ways through the kernel's code may read besides its stack, and its code; all zero where it
/// is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelMemory {
    /// The kernel's image.
    pub(crate) image: Range,
    /// Where it maps all RAM, if that is known beforehand. The handler checks it.
    pub(crate) direct_map: u64,
    /// The address of the variable that says it.
    pub(crate) direct_map_at: u64,
    /// Physical addresses.
    pub(crate) ram: [Range; RAM_RANGES],
    /// The kernel's code, without modules.
    pub(crate) text: Range,
    /// In it, the entries of interrupts of the hardware, and nothing else that enters the kernel.
    pub(crate) entries: Range,
}

impl KernelMemory {
    /// As `/proc/kallsyms` and `/proc/iomem` show it to this user.
    pub(crate) fn read() -> KernelMemory {
        // It takes 50 ms to write out all symbols, and until the next boot they lie where they are.
        static SYMBOLS: OnceLock<KernelMemory> = OnceLock::new();
        let of_symbols = SYMBOLS.get_or_init(|| match File::open("/proc/kallsyms") {
            Ok(file) => symbols(BufReader::new(file)),
            Err(_) => symbols(empty()),
        });
        let mut memory = KernelMemory {
            ram: ram(&fs::read_to_string("/proc/iomem").unwrap_or_default()),
            ..*of_symbols
        };
        // Without addresses of RAM there is nothing to check.
        if memory.ram[0].end == 0 {
            (memory.direct_map, memory.direct_map_at) = (0, 0);
        }
        memory
    }
}

/// Levels of the processor's page tables: five where the kernel uses so many.
pub(crate) fn table_levels() -> u32 {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut flags = cpus.lines().filter_map(|line| line.strip_prefix("flags"));
    let has_five = flags
        .next()
        .is_some_and(|flags| flags.split(' ').any(|flag| flag == "la57"));
    if has_five { 5 } else { 4 }
}

/// The image and the map of RAM, from lines of an address, a kind, and a name.
fn symbols(mut lines: impl BufRead) -> KernelMemory {
    let (mut text, mut etext, mut end, mut base_at) = (0, 0, 0, 0);
    let mut entries = Entries::default();
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
        let mut words = line.split_ascii_whitespace();
        let address = words
            .next()
            .and_then(|word| u64::from_str_radix(word, 16).ok());
        if let (Some(address), Some(name)) = (address, words.nth(1)) {
            match name {
                "_text" => text = address,
                "_etext" => etext = address,
                // Kernels that list data, too.
                "_end" => end = address,
                "page_offset_base" => base_at = address,
                _ => entries.take(address, name),
            }
        }
        line.clear();
    }
    let end = if end > text { end } else { etext };
    let image = if text > 0 && end > text {
        Range { start: text, end }
    } else {
        Range::default()
    };
    KernelMemory {
        image,
        direct_map: if text == UNMOVED_TEXT {
            UNMOVED_DIRECT_MAP
        } else {
            0
        },
        direct_map_at: base_at,
        ram: Default::default(),
        text: if text > 0 && etext > text {
            Range {
                start: text,
                end: etext,
            }
        } else {
            Range::default()
        },
        entries: entries.range(),
    }
}

/// The symbols of entries of interrupts, and those around them.
#[derive(Debug, Default)]
struct Entries {
    interrupts: Vec<u64>,
    others: Vec<u64>,
}

impl Entries {
    fn take(&mut self, address: u64, name: &str) {
        // Those that the kernel handles itself, that of all devices, and that of nobody's.
        if name.starts_with("asm_sysvec_")
            || ["asm_common_interrupt", "asm_spurious_interrupt"].contains(&name)
        {
            self.interrupts.push(address);
        } else {
            self.others.push(address);
        }
    }

    /// From the first entry to behind the last. The kernel puts them next to each other; where
    /// there is something else between two, there is no telling.
    fn range(self) -> Range {
        let first = self.interrupts.iter().copied().min().unwrap_or(0);
        let last = self.interrupts.iter().copied().max().unwrap_or(0);
        let behind = self.others.iter().copied().filter(|other| *other > last);
        let between = |other: &u64| (first..last).contains(other);
        match behind.min() {
            Some(end) if first > 0 && !self.others.iter().any(between) => {
                Range { start: first, end }
            }
            _ => Range::default(),
        }
    }
}

/// The largest ranges of RAM, from lines like `00100000-bfffffff : System RAM`; those within others
/// are indented.
fn ram(iomem: &str) -> [Range; RAM_RANGES] {
    let parse = |line: &str| {
        let (range, name) = line.split_once(" : ")?;
        if name != "System RAM" || range.starts_with(' ') {
            return None;
        }
        let (start, last) = range.split_once('-')?;
        let start = u64::from_str_radix(start, 16).ok()?;
        let end = u64::from_str_radix(last, 16).ok()?.checked_add(1)?;
        (start < end && end > 1).then_some(Range { start, end })
    };
    let mut all: Vec<Range> = iomem.lines().filter_map(parse).collect();
    all.sort_unstable_by_key(|range| std::cmp::Reverse(range.end - range.start));
    let mut ram = [Range::default(); RAM_RANGES];
    for (place, range) in ram.iter_mut().zip(all) {
        *place = range;
    }
    ram
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RAM is what is called so, largest ranges first; hidden addresses give none.
    #[test]
    fn ranges_of_ram() {
        let text = "00001000-0009fbff : System RAM\n000a0000-000bffff : PCI Bus 0000:00\n\
                    00100000-bfffffff : System RAM\n  01000000-01ffffff : Kernel code\n";
        let [first, second, third, _] = ram(text);
        assert_eq!((first.start, first.end), (0x10_0000, 0xc000_0000));
        assert_eq!((second.start, second.end), (0x1000, 0x9fc00));
        assert_eq!(third, Range::default());
        let hidden = ram("00000000-00000000 : System RAM\n");
        assert_eq!(hidden, [Range::default(); RAM_RANGES]);
    }

    /// The image ends where its data end if that is listed, else where its code ends; hidden
    /// addresses give none.
    #[test]
    fn the_image() {
        let code = "ffffffff81000000 T _text\nffffffff8220bb08 T _etext\n";
        let memory = symbols(code.as_bytes());
        assert_eq!(memory.image.end, 0xffff_ffff_8220_bb08);
        assert_eq!(memory.direct_map, UNMOVED_DIRECT_MAP);
        let data = "ffffffff92000000 T _text\nffffffff93000000 T _etext\nffffffff95000000 B _end\n\
                    ffffffff94000000 D page_offset_base\n";
        let memory = symbols(data.as_bytes());
        assert_eq!(memory.image.end, 0xffff_ffff_9500_0000);
        assert_eq!(
            (memory.direct_map, memory.direct_map_at),
            (0, 0xffff_ffff_9400_0000)
        );
        let hidden = "0000000000000000 T _text\n0000000000000000 T _etext\n";
        assert_eq!(symbols(hidden.as_bytes()), KernelMemory::default());
    }

    /// The entries of interrupts are those between the first and the last, up to what comes behind
    /// them; with an entry of another kind among them none is believed.
    #[test]
    fn entries_of_interrupts() {
        let range = |text: &str| symbols(text.as_bytes()).entries;
        let before = "ffffffff81000000 T _text\nffffffff81000300 T asm_exc_page_fault\n";
        let entries = "ffffffff81000d40 T asm_common_interrupt\n\
                       ffffffff81000db0 T asm_sysvec_error_interrupt\n\
                       ffffffff81000df0 T asm_sysvec_apic_timer_interrupt\n";
        let behind = "ffffffff81000f50 T asm_exc_nmi\nffffffff82000000 T _etext\n";
        let expected = Range {
            start: 0xffff_ffff_8100_0d40,
            end: 0xffff_ffff_8100_0f50,
        };
        assert_eq!(range(&format!("{before}{entries}{behind}")), expected);
        assert_eq!(range(&format!("{entries}{before}{behind}")), expected);
        let among = "ffffffff81000dd0 T asm_exc_page_fault\n";
        let nothing = Range::default();
        assert_eq!(range(&format!("{before}{entries}{among}{behind}")), nothing);
        assert_eq!(range(&format!("{before}{behind}")), nothing);
        assert_eq!(range("0000000000000000 T asm_common_interrupt\n"), nothing);
    }
}
