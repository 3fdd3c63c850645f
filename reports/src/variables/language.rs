//! Languages, as debug information, source files and symbols tell them.

use std::collections::BTreeSet;
use std::path::Path;

use gimli::AttributeValue;

use crate::dwarf::{is_c, search};
use crate::elf::Elf;

/// A language of source code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// C.
    C,
    /// C++.
    Cpp,
    /// Rust.
    Rust,
    /// Go.
    Go,
    /// Assembly.
    Assembly,
    /// Any other one.
    Other,
}

impl Language {
    /// By the name of a source file, where that tells.
    pub(crate) fn of_file(file: &Path) -> Option<Language> {
        Some(match file.extension()?.to_str()? {
            "c" => Language::C,
            "cc" | "cpp" | "cxx" | "c++" | "C" | "hh" | "hpp" | "hxx" | "tcc" | "ipp" => {
                Language::Cpp
            }
            "rs" => Language::Rust,
            "go" => Language::Go,
            "s" | "S" | "asm" => Language::Assembly,
            // Headers are of C and of C++.
            "h" | "inc" => return None,
            _ => Language::Other,
        })
    }

    /// By a function's name in a symbol table, where that is mangled.
    pub(crate) fn of_symbol(name: &str) -> Option<Language> {
        if rustc_demangle::try_demangle(name).is_ok() {
            return Some(Language::Rust);
        }
        name.starts_with("_Z").then_some(Language::Cpp)
    }
}

/// The language of the unit with the code at an address, as debug information has it.
pub(crate) fn language(image: &Elf, address: u64) -> Option<Language> {
    let mut found = None;
    search(image, &BTreeSet::from([address]), |_, unit| {
        let mut cursor = unit.entries();
        let Some(root) = cursor.next_dfs()? else {
            return Ok(());
        };
        let Some(AttributeValue::Language(language)) = root.attr_value(gimli::DW_AT_language)
        else {
            return Ok(());
        };
        found = Some(match language {
            gimli::DW_LANG_Rust => Language::Rust,
            gimli::DW_LANG_Go => Language::Go,
            gimli::DW_LANG_C
            | gimli::DW_LANG_C89
            | gimli::DW_LANG_C99
            | gimli::DW_LANG_C11
            | gimli::DW_LANG_C17 => Language::C,
            gimli::DW_LANG_Mips_Assembler => Language::Assembly,
            _ if is_c(root) => Language::Cpp,
            _ => Language::Other,
        });
        Ok(())
    })?;
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::tests::{fixture, opened};

    /// Files, mangled names and units tell their languages; headers and plain names do not.
    #[test]
    fn languages() {
        let of_file = |name: &str| Language::of_file(Path::new(name));
        assert_eq!(of_file("a/b.c"), Some(Language::C));
        assert_eq!(of_file("b.cpp"), Some(Language::Cpp));
        assert_eq!(of_file("b.go"), Some(Language::Go));
        assert_eq!(of_file("b.S"), Some(Language::Assembly));
        assert_eq!(of_file("b.h"), None);
        let of_symbol = Language::of_symbol;
        let rust = "_ZN4core3fmt5write17h0123456789abcdefE";
        assert_eq!(of_symbol(rust), Some(Language::Rust));
        assert_eq!(of_symbol("_ZNK6Square4areaEl"), Some(Language::Cpp));
        assert_eq!(of_symbol("main"), None);
        assert_eq!(language(&opened(&fixture()), 0x1090), Some(Language::C));
    }
}
