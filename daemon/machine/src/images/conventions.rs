//! Whose calling conventions an image's code may follow, besides the platform's.
//!
//! Some languages pass arguments in registers of their own choice. An image of such a language
//! also has code of the platform's convention (a runtime in C, say). So what is recorded at a
//! call are registers, those of both conventions, and whoever reads them asks for the language
//! of the function.

use std::fs::File;

use interpreter::OTHER_ARGUMENTS;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSection as _, ReadCache, ReadRef};

use crate::elf::{Bounded, Contents};

/// Which of the interpreter's [`OTHER_ARGUMENTS`] may be arguments, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others(u8);

const _: () = assert!(OTHER_ARGUMENTS.len() == 8);

impl Others {
    /// rax rbx r10 r11.
    const GO: Self = Self(0b0000_1111);
    /// rax rbx r12 r13.
    const OCAML: Self = Self(0b0011_0011);
    /// rbx r14.
    const HASKELL: Self = Self(0b0100_0010);
    /// r12 r13: what a failure is told by, and `self`.
    const SWIFT: Self = Self(0b0011_0000);

    /// Whether none may be.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The numbers of those that may be.
    pub fn numbers(self) -> impl Iterator<Item = usize> {
        (0..OTHER_ARGUMENTS.len()).filter(move |number| self.0 >> number & 1 == 1)
    }

    /// Those of an image.
    pub(crate) fn of(contents: &Contents) -> Self {
        let found = match contents {
            Contents::File { file, .. } => of_file(file),
            Contents::Bytes(_) => None,
        };
        found.unwrap_or_default()
    }
}

/// Names of symbols larger than this, in all, are not searched.
const MAX_NAMES: u64 = 32 << 20;
/// What an OCaml program gives its plug-ins, and they take from it.
const OCAML: &[u8] = b"\0caml_call_gc\0";

fn of_file(file: &File) -> Option<Others> {
    let cache = ReadCache::new(file.try_clone().ok()?);
    of(Bounded(&cache))
}

fn of<'data, R: ReadRef<'data>>(data: R) -> Option<Others> {
    let elf = ElfFile64::<LittleEndian, R>::parse(data).ok()?;
    let mut others = Others::default();
    let mut names = None;
    for section in elf.sections() {
        let Ok(name) = section.name() else { continue };
        let of_section = match name {
            ".gopclntab" | ".data.rel.ro.gopclntab" | ".go.buildinfo" => Others::GO,
            ".debug-ghc-link-info" => Others::HASKELL,
            _ if name.starts_with("swift5_") => Others::SWIFT,
            _ => Others::default(),
        };
        others.0 |= of_section.0;
        // The dynamic linker's names are there when all others are stripped.
        if name == ".dynstr" || (name == ".strtab" && names.is_none()) {
            names = Some(section);
        }
    }
    if let Some(names) = names.filter(|names| names.size() <= MAX_NAMES)
        && let Ok(names) = names.data()
        && names.windows(OCAML.len()).any(|at| at == OCAML)
    {
        others.0 |= Others::OCAML.0;
    }
    Some(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of this language passes arguments as the platform does.
    #[test]
    fn own_image_has_no_others() {
        let file = File::open("/proc/self/exe").expect("own file");
        // The name that is searched for is among this test's data, not among its symbols.
        assert_eq!(of_file(&file), Some(Others::default()));
        assert_eq!(of(b"\x7fELF".as_slice()), None);
    }

    /// Registers are numbered as the interpreter does.
    #[test]
    fn numbers() {
        use iced_x86::Register;
        let names = |others: Others| {
            let numbers = others.numbers();
            numbers
                .map(|number| OTHER_ARGUMENTS[number])
                .collect::<Vec<_>>()
        };
        let go = [Register::RAX, Register::RBX, Register::R10, Register::R11];
        assert_eq!(names(Others::GO), go);
        let ocaml = [Register::RAX, Register::RBX, Register::R12, Register::R13];
        assert_eq!(names(Others::OCAML), ocaml);
        assert_eq!(names(Others::HASKELL), [Register::RBX, Register::R14]);
        assert_eq!(names(Others::SWIFT), [Register::R12, Register::R13]);
    }
}
