//! What of one profile is what of another: images, functions, instructions.

use std::collections::{BTreeMap, BTreeSet};

use profiledb::rows::ImageKind;

use crate::code::{Disassembler, Spacing, direct_target};
use crate::listing::{FunctionInstruction, lines};
use crate::symbols::FunctionId;
use crate::view::View;

/// Part of the time of the smaller image that functions named alike in both must have for two
/// images of other names to be taken for versions of one.
const ALIKE: f64 = 0.5;
/// Instructions in a row that two versions of a function must share.
const IN_A_ROW: usize = 3;
/// Pairs of instructions that are compared at most.
const MOST_PAIRS: usize = 9_000_000;

/// Versions of an image, on both sides.
pub(super) type Family = usize;

/// Which images are versions of each other.
#[derive(Debug)]
pub(super) struct Families {
    /// By the image's index, of each side.
    of: [Vec<Family>; 2],
    /// What each is called: after, or before where it is gone.
    names: Vec<String>,
    /// Whether all versions are of one build.
    one_build: Vec<bool>,
    /// Sentences about images that were found to be versions by what is in them.
    pub(super) notes: Vec<String>,
}

/// A function on both sides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// The image.
    pub(super) family: Family,
    /// Its name; `None`: code without names, of builds that cannot be compared.
    pub(super) name: Option<String>,
}

impl Families {
    /// Pairs images by path, by build, by file name, by file name without its version, and at last
    /// by what functions they have. A name that several of a side have says nothing.
    pub(super) fn new(views: [&View<'_>; 2]) -> Families {
        let paths = views.map(paths);
        let mut families = Families {
            of: views.map(|view| vec![0; view.profile.images.len()]),
            names: Vec::new(),
            one_build: Vec::new(),
            notes: Vec::new(),
        };
        let mut left = paths
            .each_ref()
            .map(|paths| paths.keys().copied().collect());
        let mut pairs: Vec<[Option<&str>; 2]> = Vec::new();
        pair(&mut left, &mut pairs, |_, path| Some(path.to_owned()));
        let build = |side: usize, path: &str| {
            let images = paths[side].get(path)?;
            let only = images.iter().next().filter(|_| images.len() == 1)?;
            views[side].profile.images.get(*only)?.build_id.clone()
        };
        pair(&mut left, &mut pairs, build);
        pair(&mut left, &mut pairs, |_, path| {
            Some(file_name(path).to_owned())
        });
        pair(&mut left, &mut pairs, |_, path| Some(stem(path).to_owned()));
        families.pair_by_functions(views, &paths, &mut left, &mut pairs);
        for (side, left) in left.iter().enumerate() {
            for path in left {
                let mut alone = [None; 2];
                alone[side] = Some(*path);
                pairs.push(alone);
            }
        }
        for pair in pairs {
            families.add(views, &paths, pair);
        }
        families
    }

    fn pair_by_functions<'p>(
        &mut self,
        views: [&View<'p>; 2],
        paths: &[BTreeMap<&'p str, BTreeSet<usize>>; 2],
        left: &mut [BTreeSet<&'p str>; 2],
        pairs: &mut Vec<[Option<&'p str>; 2]>,
    ) {
        let times = [0, 1].map(|side: usize| {
            let of_path = |path: &&'p str| (*path, times(views[side], &paths[side][path]));
            left[side].iter().map(of_path).collect::<BTreeMap<_, _>>()
        });
        let mut alike = Vec::new();
        for (before, of_before) in &times[0] {
            for (after, of_after) in &times[1] {
                let shared: f64 = of_before
                    .iter()
                    .filter_map(|(name, share)| Some(share.min(*of_after.get(name)?)))
                    .sum();
                if shared >= ALIKE {
                    alike.push((shared, *before, *after));
                }
            }
        }
        alike.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, before, after) in alike {
            if left[0].contains(before) && left[1].contains(after) {
                left[0].remove(before);
                left[1].remove(after);
                pairs.push([Some(before), Some(after)]);
                self.notes.push(format!(
                    "{before} and {after} have the same functions: they are compared"
                ));
            }
        }
    }

    fn add(
        &mut self,
        views: [&View<'_>; 2],
        paths: &[BTreeMap<&str, BTreeSet<usize>>; 2],
        pair: [Option<&str>; 2],
    ) {
        let family = self.names.len();
        let mut builds = BTreeSet::new();
        let mut is_told = true;
        for (side, path) in pair.iter().enumerate() {
            for index in path
                .and_then(|path| paths[side].get(path))
                .into_iter()
                .flatten()
            {
                self.of[side][*index] = family;
                if let Some(image) = views[side].profile.images.get(*index) {
                    builds.insert(image.build_id.as_ref().unwrap_or(&image.identity));
                    is_told &= match image.kind {
                        ImageKind::File => image.has_known_file(),
                        ImageKind::Kernel | ImageKind::Vdso => {
                            image.build_id.is_some() || is_one_kernel(views)
                        }
                        // Generated code is another in each process.
                        ImageKind::Anon => false,
                    };
                }
            }
        }
        self.one_build.push(is_told && builds.len() == 1);
        let [before, after] = pair;
        self.names.push(after.or(before).unwrap_or("?").to_owned());
    }

    /// What a family is called.
    pub(super) fn name(&self, family: Family) -> &str {
        self.names.get(family).map_or("?", String::as_str)
    }

    /// Whether addresses mean the same on both sides.
    pub(super) fn is_one_build(&self, family: Family) -> bool {
        self.one_build.get(family).copied().unwrap_or(false)
    }

    /// What a function is on both sides.
    pub(super) fn key(&self, side: usize, view: &View<'_>, id: FunctionId) -> Option<Key> {
        let function = view.symbols.function(id)?;
        let family = *self.of[side].get(function.image)?;
        let has_name = function.named || self.is_one_build(family);
        Some(Key {
            family,
            name: has_name.then(|| function.name.clone()),
        })
    }
}

/// Whether both profiles are of one release of the kernel.
fn is_one_kernel(views: [&View<'_>; 2]) -> bool {
    let epochs = views.iter().flat_map(|view| &view.profile.epochs);
    let kernels: BTreeSet<&str> = epochs.map(|epoch| epoch.kernel.as_str()).collect();
    kernels.len() == 1
}

/// The images of each path.
fn paths<'p>(view: &View<'p>) -> BTreeMap<&'p str, BTreeSet<usize>> {
    let mut paths: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    let used: BTreeSet<usize> = view.profile.pcs.iter().map(|pc| pc.image).collect();
    for index in used {
        paths
            .entry(view.image_path(index))
            .or_default()
            .insert(index);
    }
    paths
}

/// Pairs what is left and has one key that no other of its side has.
fn pair<'p>(
    left: &mut [BTreeSet<&'p str>; 2],
    pairs: &mut Vec<[Option<&'p str>; 2]>,
    key: impl Fn(usize, &str) -> Option<String>,
) {
    let by_key = [0, 1].map(|side: usize| {
        let mut by_key: BTreeMap<String, Option<&'p str>> = BTreeMap::new();
        for path in &left[side] {
            if let Some(key) = key(side, path) {
                by_key
                    .entry(key)
                    .and_modify(|other| *other = None)
                    .or_insert(Some(*path));
            }
        }
        by_key
    });
    for (key, before) in &by_key[0] {
        if let (Some(before), Some(Some(after))) = (before, by_key[1].get(key)) {
            left[0].remove(before);
            left[1].remove(after);
            pairs.push([Some(*before), Some(*after)]);
        }
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A file's name without its version: `libz.so` of `libz.so.1.2.13`, `python` of `python3.11`.
fn stem(path: &str) -> &str {
    let name = file_name(path);
    if let Some((library, _)) = name.split_once(".so") {
        return name.get(..library.len() + ".so".len()).unwrap_or(name);
    }
    let is_version = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | '-' | '_');
    let stem = name.trim_end_matches(is_version);
    if stem.is_empty() { name } else { stem }
}

/// The part of an image's time in each function with a name.
fn times(view: &View<'_>, images: &BTreeSet<usize>) -> BTreeMap<String, f64> {
    let mut times: BTreeMap<String, f64> = BTreeMap::new();
    let mut all = 0.0;
    for (pc, heat) in view
        .profile
        .pcs
        .iter()
        .zip(&view.heat)
        .enumerate()
        .filter_map(|(index, (pc, heat))| images.contains(&pc.image).then_some((index, heat)))
    {
        all += heat.cycles;
        let function = view.symbols.function_of(pc);
        if let Some(function) = function.and_then(|id| view.symbols.function(id))
            && function.named
        {
            *times.entry(function.name.clone()).or_default() += heat.cycles;
        }
    }
    for time in times.values_mut() {
        *time /= f64::max(all, f64::MIN_POSITIVE);
    }
    times
}

/// Addresses of a function's instructions before, by those of the same instructions after, where
/// builds differ: of the longest sequence of instructions that both versions have, those that
/// stand among [`IN_A_ROW`] such.
pub(super) fn instructions(
    (before, of_before): (&View<'_>, FunctionId),
    (after, of_after): (&View<'_>, FunctionId),
) -> BTreeMap<u64, u64> {
    let has_file = |view: &View<'_>, id| {
        let function = view.symbols.function(id);
        function.is_some_and(|function| view.symbols.elf(function.image).is_some())
    };
    if !has_file(before, of_before) || !has_file(after, of_after) {
        // What was seen of a function is not all of it.
        return BTreeMap::new();
    }
    let (old, new) = (lines(before, of_before), lines(after, of_after));
    let (old_texts, new_texts) = (texts(&old), texts(&new));
    let address = |(one, other): (usize, usize)| {
        let (one, other) = (old.get(one)?, new.get(other)?);
        Some((one.address, other.address))
    };
    let pairs = aligned(&old_texts, &new_texts);
    pairs.into_iter().filter_map(address).collect()
}

/// Instructions without what another build puts elsewhere: addresses of code and data.
fn texts(lines: &[FunctionInstruction]) -> Vec<String> {
    let mut disassembler = Disassembler::new(Spacing::Json);
    let text = |line: &FunctionInstruction| {
        let Some(mut instruction) = line.instruction else {
            return "?".to_owned();
        };
        if direct_target(&instruction).is_some() {
            return format!("{:?}", instruction.mnemonic());
        }
        if instruction.is_ip_rel_memory_operand() {
            instruction.set_memory_displacement64(0);
        }
        disassembler.text(&instruction, |_| None)
    };
    lines.iter().map(text).collect()
}

/// The longest common subsequence's pairs of indices, of runs that are long enough.
fn aligned(old: &[String], new: &[String]) -> Vec<(usize, usize)> {
    // What is the same at both ends needs no search.
    let same = |(a, b): &(&String, &String)| a == b;
    let start = old.iter().zip(new).take_while(same).count();
    let (old_rest, new_rest) = (&old[start..], &new[start..]);
    let ends = old_rest.iter().rev().zip(new_rest.iter().rev());
    let end = ends.take_while(same).count();
    let (a, b) = (
        &old_rest[..old_rest.len() - end],
        &new_rest[..new_rest.len() - end],
    );
    let mut pairs: Vec<(usize, usize)> = (0..start).map(|index| (index, index)).collect();
    if a.len().saturating_mul(b.len()) <= MOST_PAIRS {
        let width = b.len() + 1;
        let mut longest = vec![0_u32; (a.len() + 1) * width];
        for i in (0..a.len()).rev() {
            for j in (0..b.len()).rev() {
                longest[i * width + j] = match a[i] == b[j] {
                    true => longest[(i + 1) * width + j + 1] + 1,
                    false => longest[(i + 1) * width + j].max(longest[i * width + j + 1]),
                };
            }
        }
        let (mut i, mut j) = (0, 0);
        while i < a.len() && j < b.len() {
            if a[i] == b[j] {
                pairs.push((start + i, start + j));
                (i, j) = (i + 1, j + 1);
            } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
                i += 1;
            } else {
                j += 1;
            }
        }
    }
    let tail = (0..end).map(|index| (old.len() - end + index, new.len() - end + index));
    pairs.extend(tail);
    let follows = |a: &(usize, usize), b: &(usize, usize)| a.0 + 1 == b.0 && a.1 + 1 == b.1;
    let whole = pairs.len() == old.len() && old.len() == new.len();
    let runs = pairs.chunk_by(follows);
    let long = runs.filter(|run| whole || run.len() >= IN_A_ROW);
    long.flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(old: &str, new: &str) -> Vec<(usize, usize)> {
        let letters = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
        aligned(&letters(old), &letters(new))
    }

    /// What was put in or left out moves the rest; what stands alone is not believed.
    #[test]
    fn sequences() {
        assert_eq!(pairs("ab", "ab"), [(0, 0), (1, 1)]);
        assert_eq!(pairs("abc", "xabc"), [(0, 1), (1, 2), (2, 3)]);
        assert_eq!(
            pairs("abcdef", "abcxdef"),
            [(0, 0), (1, 1), (2, 2), (3, 4), (4, 5), (5, 6)]
        );
        assert_eq!(pairs("axbycz", "a1b2c3"), []);
        assert_eq!(pairs("", "abc"), []);
    }

    /// A library's name without its version, and a program's.
    #[test]
    fn stems() {
        for (path, expected) in [
            ("/usr/lib/libz.so.1.2.13", "libz.so"),
            ("/usr/bin/python3.11", "python"),
            ("/usr/bin/7", "7"),
            ("[kernel]", "[kernel]"),
            ("a/b-1.2", "b"),
        ] {
            assert_eq!(stem(path), expected, "{path}");
        }
    }

    /// A name that two of one side have pairs nothing.
    #[test]
    fn names_of_several() {
        let side = |paths: &[&'static str]| paths.iter().copied().collect::<BTreeSet<_>>();
        let mut left = [side(&["/a/x", "/b/x", "/a/y"]), side(&["/c/x", "/c/y"])];
        let mut found = Vec::new();
        pair(&mut left, &mut found, |_, path| {
            Some(file_name(path).to_owned())
        });
        assert_eq!(found, [[Some("/a/y"), Some("/c/y")]]);
        assert_eq!(left, [side(&["/a/x", "/b/x"]), side(&["/c/x"])]);
    }
}
