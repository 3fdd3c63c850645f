//! Which calling convention functions have, by what is known of their language.

use std::collections::{BTreeMap, BTreeSet};

use profiledb::rows::ImageKind;

use super::Symbols;
use crate::convention::{Convention, in_go, in_ocaml, is_go, is_haskell, is_ocaml};
use crate::elf::Languages;

impl Symbols<'_> {
    /// The conventions of the functions of an image that begin at these addresses. `declared` is
    /// what debug information says of their language; of those in `with_others` the collector
    /// noted registers that are no arguments by the platform's convention.
    pub(crate) fn conventions(
        &self,
        image: usize,
        entries: &BTreeSet<u64>,
        declared: &BTreeMap<u64, Convention>,
        with_others: &BTreeSet<u64>,
    ) -> BTreeMap<u64, Convention> {
        let row = self.profile.images.get(image);
        match row.map(|row| row.kind) {
            Some(ImageKind::File) => {}
            Some(ImageKind::Kernel | ImageKind::Vdso) => return all(entries, Convention::Platform),
            // Generated code follows its generator's rules.
            Some(ImageKind::Anon) | None => return all(entries, Convention::Unknown),
        }
        let elf = self.elf(image);
        let languages = elf.map(|elf| elf.languages()).unwrap_or_default();
        let is_plain = elf.is_some() && !languages.are_special();
        let names = match elf {
            Some(elf) if !is_plain => elf.names(entries),
            Some(_) => BTreeMap::new(),
            None => self.stored_names(image),
        };
        // Code that Windows' loader would load is not ELF.
        let foreign = row.is_some_and(|row| {
            let path = row.path.to_ascii_lowercase();
            [".exe", ".dll"].iter().any(|end| path.ends_with(end))
        });
        let of = |entry: &u64| {
            let name = names.get(entry).map(String::as_str);
            let found = match declared.get(entry) {
                Some(Convention::Go | Convention::GoStack) | None => None,
                Some(said) => Some(*said),
            };
            let found = found.unwrap_or_else(|| match (elf, name) {
                (Some(_), name) => {
                    let by_register = declared.get(entry).map(|said| *said == Convention::Go);
                    by_image(&languages, *entry, name, by_register)
                }
                (None, Some(name)) if is_ocaml(name) => Convention::OCaml,
                (None, Some(name)) if with_others.contains(entry) && is_go(name) => Convention::Go,
                (None, _) if foreign || with_others.contains(entry) => Convention::Unknown,
                // The collector saw the file, and no other language in it.
                (None, _) => Convention::Platform,
            });
            (*entry, found)
        };
        entries.iter().map(of).collect()
    }

    /// The names that the profile itself holds of functions of an image.
    fn stored_names(&self, image: usize) -> BTreeMap<u64, String> {
        let symbols = self.profile.symbols.iter();
        let of_image = symbols.filter(|symbol| symbol.image == image);
        of_image
            .map(|symbol| (symbol.address, symbol.name.clone()))
            .collect()
    }
}

fn all(entries: &BTreeSet<u64>, convention: Convention) -> BTreeMap<u64, Convention> {
    entries.iter().map(|entry| (*entry, convention)).collect()
}

/// The convention of a function by the languages of its image and its name there, if it has one.
/// `declared` tells whether debug information says that it is Go's, and by registers.
fn by_image(
    languages: &Languages,
    entry: u64,
    name: Option<&str>,
    declared: Option<bool>,
) -> Convention {
    if let Some(go) = &languages.go {
        let is_inside = go.text.contains(&entry);
        if !is_inside && declared.is_none() {
            // Linked from elsewhere: C.
            return Convention::Platform;
        }
        // Without a package in its name it is a piece of another function, in assembly.
        return in_go(name, declared.unwrap_or(go.by_register)).unwrap_or(Convention::Unknown);
    }
    if let Some(by_register) = declared {
        return in_go(name, by_register).unwrap_or(Convention::Unknown);
    }
    match name {
        Some(name) if languages.ocaml => in_ocaml(name),
        Some(name) if languages.haskell && is_haskell(name) => Convention::Haskell,
        None if languages.are_special() => Convention::Unknown,
        _ => Convention::Platform,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::GoText;

    /// In an image of several languages each function has its own.
    #[test]
    fn mixed_images() {
        let go = Languages {
            go: Some(GoText {
                text: 0x1000..0x2000,
                by_register: true,
            }),
            ..Languages::default()
        };
        let of = |entry, name, declared| by_image(&go, entry, name, declared);
        assert_eq!(of(0x1100, Some("main.f"), Some(true)), Convention::Go);
        assert_eq!(of(0x1100, Some("main.f"), None), Convention::Go);
        assert_eq!(of(0x1100, None, None), Convention::Go);
        assert_eq!(
            of(0x1100, Some("memeqbody"), Some(true)),
            Convention::Unknown
        );
        assert_eq!(of(0x1100, Some("f.abi0"), Some(true)), Convention::GoStack);
        assert_eq!(of(0x2100, Some("work"), None), Convention::Platform);
        let ocaml = Languages {
            ocaml: true,
            ..Languages::default()
        };
        assert_eq!(
            by_image(&ocaml, 1, Some("main"), None),
            Convention::Platform
        );
        assert_eq!(
            by_image(&ocaml, 1, Some("camlA__f_1"), None),
            Convention::OCaml
        );
        assert_eq!(by_image(&ocaml, 1, None, None), Convention::Unknown);
        assert_eq!(
            by_image(&Languages::default(), 1, None, None),
            Convention::Platform
        );
    }
}
