//! The running kernel: where it lies, and its function names, as far as this user may see them.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};

use addresses::{Bias, ImageAddress, ProcessAddress};
use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Kernel as KernelSource, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};

/// A function of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSymbol {
    /// From `_text`.
    pub address: ImageAddress,
    /// In bytes; 0 where it is not known.
    pub size: u64,
    /// As the kernel's symbol table has it.
    pub name: String,
}

/// The running kernel.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// Address of `_text`; 0 where addresses are hidden from this user.
    text: u64,
    /// Where it lies now, for the names; 0 where this is another kernel.
    text_now: u64,
}

/// What the kernel's image is called instead of a path.
pub const IMAGE: &str = "[kernel]";

/// The names of the kernel's functions. What they are read from is kept, and stays on its thread.
#[derive(Debug, Default)]
pub struct KernelNames {
    symbolizer: Option<Symbolizer>,
    are_withheld: bool,
}

impl Kernel {
    /// Looks for `_text` in `/proc/kallsyms`.
    pub fn read() -> Self {
        let text = File::open("/proc/kallsyms")
            .ok()
            .and_then(|file| find_text(BufReader::new(file)))
            .unwrap_or(0);
        Self {
            text,
            text_now: text,
        }
    }

    /// The kernel of a recording, whose functions have names if it is the one that runs.
    pub fn of_recording(text: u64, build_id: Option<&str>) -> Self {
        let own = self::build_id();
        let same = own.is_some() && own.as_deref() == build_id;
        Self {
            text,
            text_now: if same { Self::read().text } else { 0 },
        }
    }

    /// Whether this user may see where the kernel lies.
    pub fn has_addresses(&self) -> bool {
        self.text != 0
    }

    /// Where `_text` lies in this boot; zero where that is hidden from this user.
    pub fn text(&self) -> ProcessAddress {
        ProcessAddress(self.text)
    }

    /// An address of this boot as one that the next boot understands too: relative to `_text`.
    pub fn relative(&self, address: ProcessAddress) -> ImageAddress {
        Bias(self.text).in_image(address)
    }
}

impl KernelNames {
    /// For those who ask for none: to read them takes a twentieth of a second.
    pub fn withheld() -> Self {
        Self {
            symbolizer: None,
            are_withheld: true,
        }
    }

    /// The functions around addresses relative to `_text`; `None` for those without a name.
    pub fn symbols(
        &mut self,
        kernel: &Kernel,
        relative: &[ImageAddress],
    ) -> Vec<Option<KernelSymbol>> {
        let nothing = || vec![None; relative.len()];
        if self.are_withheld || kernel.text_now == 0 || relative.is_empty() {
            return nothing();
        }
        let bias = Bias(kernel.text_now);
        let now = relative.iter().map(|address| bias.in_process(*address).0);
        let now: Vec<u64> = now.collect();
        // What runs is told by kallsyms alone; an image lying about may be another build.
        let source = KernelSource {
            vmlinux: MaybeDefault::None,
            ..KernelSource::default()
        };
        let symbolizer = self.symbolizer.get_or_insert_with(Symbolizer::new);
        let found = symbolizer.symbolize(&Source::Kernel(source), Input::AbsAddr(&now));
        let Ok(found) = found else { return nothing() };
        found
            .into_iter()
            .map(|symbolized| match symbolized {
                Symbolized::Sym(symbol) => Some(KernelSymbol {
                    address: bias.in_image(ProcessAddress(symbol.addr)),
                    size: symbol.size.map_or(0, |size| size as u64),
                    name: symbol.name.into_owned(),
                }),
                Symbolized::Unknown(_) => None,
            })
            .collect()
    }
}

fn find_text(kallsyms: impl BufRead) -> Option<u64> {
    // `_text` stands near the top, behind the per-CPU symbols.
    for line in kallsyms.lines().map_while(Result::ok) {
        let mut fields = line.split_ascii_whitespace();
        if let (Some(address), Some(_), Some("_text")) =
            (fields.next(), fields.next(), fields.next())
        {
            return u64::from_str_radix(address, 16)
                .ok()
                .filter(|&address| address != 0);
        }
    }
    None
}

/// Build id of the running kernel, in hexadecimal.
pub fn build_id() -> Option<String> {
    let notes = fs::read("/sys/kernel/notes").ok()?;
    Some(hex(&parse_gnu_build_id(&notes)?))
}

fn parse_gnu_build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    while notes.len() >= 12 {
        let word = |i: usize| {
            notes
                .get(i..i + 4)
                .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize)
        };
        let (name_size, size, kind) = (word(0)?, word(4)?, word(8)?);
        let name_end = 12_usize.checked_add(name_size)?;
        let start = name_end.checked_next_multiple_of(4)?;
        let end = start.checked_add(size)?;
        if kind == 3 && notes.get(12..name_end)? == b"GNU\0" {
            return notes.get(start..end).map(<[u8]>::to_vec);
        }
        notes = notes.get(end.checked_next_multiple_of(4)?..)?;
    }
    None
}

/// Bytes as text.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `_text` is found behind other symbols; a hidden one (all zero) is none.
    #[test]
    fn text_of_kallsyms() {
        let kallsyms = "0000000000000000 A fixed\nffffffff81000000 T _text\n";
        assert_eq!(find_text(kallsyms.as_bytes()), Some(0xffff_ffff_8100_0000));
        assert_eq!(find_text("0000000000000000 T _text\n".as_bytes()), None);
        assert_eq!(find_text("\nnonsense\n".as_bytes()), None);
    }

    /// Notes with absurd sizes end the search.
    #[test]
    fn hostile_notes() {
        assert_eq!(parse_gnu_build_id(&[0xff; 64]), None);
        let mut note = vec![4, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0];
        note.extend_from_slice(b"GNU\0\xab\xcd\0\0");
        assert_eq!(parse_gnu_build_id(&note), Some(vec![0xab, 0xcd]));
    }
}
