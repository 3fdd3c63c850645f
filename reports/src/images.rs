//! The images that names on the command line mean.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use profiledb::{Image, Profile};
use symbols::{Binary, Room};

use crate::failure::Failure;
use crate::guard::fenced;
use crate::symbols::MAX_TOTAL;

/// Images that are named for one that is not there.
const MOST_NEAR: usize = 5;

/// The images that one of the names means; `None` without names: all.
///
/// # Errors
/// If there is none.
pub(crate) fn named(
    profile: &Profile,
    names: &[String],
) -> Result<Option<BTreeSet<usize>>, Failure> {
    if names.is_empty() {
        return Ok(None);
    }
    let wanted = meant(&profile.images, names);
    let images = profile.images.iter().enumerate();
    let found: BTreeSet<usize> = images
        .filter(|(_, image)| wanted.iter().any(|name| image.is_named(name)))
        .map(|(index, _)| index)
        .collect();
    if found.is_empty() {
        return Err(Failure::Nothing(missing(profile, names).join("\n")));
    }
    Ok(Some(found))
}

/// The images of some PCs, of their callers, and of what is called from there.
pub(crate) fn around(profile: &Profile, wants: impl Fn(usize) -> bool) -> BTreeSet<usize> {
    let cycles = profile.cycles.iter().map(|row| (row.pc, row.caller));
    let values = profile.hotlists.iter().map(|row| (row.pc, row.caller));
    let branches = profile.branches.iter().map(|row| (row.pc, None));
    let calls = profile.calls.iter().map(|row| (row.site, row.callee));
    let wanted: Vec<bool> = (0..profile.pcs.len()).map(wants).collect();
    if wanted.iter().all(|is_wanted| *is_wanted) {
        return profile.pcs.iter().map(|pc| pc.image).collect();
    }
    let is_wanted = |pc: usize| wanted.get(pc).copied().unwrap_or(false);
    let mut near = wanted.clone();
    for (pc, other) in cycles.chain(values).chain(branches).chain(calls) {
        for (one, other) in [(Some(pc), other), (other, Some(pc))] {
            if one.is_some_and(is_wanted)
                && let Some(near) = other.and_then(|other| near.get_mut(other))
            {
                *near = true;
            }
        }
    }
    for row in &profile.stacks {
        if profile.frames(row).any(|frame| is_wanted(frame.pc)) {
            for frame in profile.frames(row) {
                if let Some(near) = near.get_mut(frame.pc) {
                    *near = true;
                }
            }
        }
    }
    let pcs = profile.pcs.iter().zip(near);
    pcs.filter(|(_, near)| *near)
        .map(|(pc, _)| pc.image)
        .collect()
}

/// The images of what rows are about, without those of who called and who was called.
pub(crate) fn asked(profile: &Profile) -> BTreeSet<usize> {
    let cycles = profile.cycles.iter().map(|row| row.pc);
    let values = profile.hotlists.iter().map(|row| row.pc);
    let branches = profile.branches.iter().map(|row| row.pc);
    let calls = profile.calls.iter().map(|row| row.site);
    let pcs: BTreeSet<usize> = cycles.chain(values).chain(branches).chain(calls).collect();
    let images = pcs.iter().filter_map(|pc| profile.pcs.get(*pc));
    images.map(|pc| pc.image).collect()
}

/// A sentence for each of the names that means no image, with what may have been meant.
pub(crate) fn missing(profile: &Profile, names: &[String]) -> Vec<String> {
    let is_there = |name: &String| {
        let wanted = meant(&profile.images, std::slice::from_ref(name));
        let mut images = profile.images.iter();
        images.any(|image| wanted.iter().any(|name| image.is_named(name)))
    };
    let sentence = |name: &String| {
        match opened(Path::new(name)) {
            Some(file) if file.build_id().is_some() => {
                return other_build(profile, name, file.build_id());
            }
            Some(_) => {
                return format!(
                    "{name} has no build id, by which a file is found that lies elsewhere than it \
                     ran, and no image of this profile has its path: link it with -Wl,--build-id, \
                     and record that"
                );
            }
            None => {}
        }
        let near = near(profile, name).join(", ");
        let hint = match near.is_empty() {
            true => "`vcpi top --by image` names those that are".to_owned(),
            false => format!("near it: {near}"),
        };
        format!("no image named {name} in this profile; {hint}")
    };
    let absent = names.iter().filter(|name| !is_there(name));
    absent.map(sentence).collect()
}

/// That a profile has nothing of a file, which is of this build, and which builds of its name it
/// has.
pub(crate) fn other_build(profile: &Profile, name: &str, id: Option<&str>) -> String {
    let of = |id: Option<&str>| match id {
        Some(id) => format!("build {id}"),
        None => "a file without a build id".to_owned(),
    };
    let images = profile.images.iter();
    let namesakes = images.filter(|image| file_name(&image.path) == file_name(name));
    let others: BTreeSet<String> = namesakes
        .map(|image| of(image.build_id.as_deref()))
        .collect();
    let others: Vec<String> = others.into_iter().collect();
    let has = match others.join(", ") {
        none if none.is_empty() => "nothing of it; `vcpi top --by image` names what it has".into(),
        others => format!("{others} under that name"),
    };
    format!("{name} is {}; the profile has {has}", of(id))
}

/// What images may be called that are asked for by these names, whatever there are.
pub(crate) fn spellings(names: &[String]) -> Vec<String> {
    let of_name = |name: &String| paths(name).into_iter().chain(build(name));
    names.iter().flat_map(of_name).collect()
}

/// What those of these images are called that are asked for by these names. A file that was moved
/// goes by its build id, but a name that an image goes by means no file: one that happens to be
/// called so here is of another image.
pub(crate) fn meant(images: &[Image], names: &[String]) -> Vec<String> {
    let of_name = |name: &String| {
        let mut all = paths(name);
        let is_there = |image: &Image| all.iter().any(|name| image.is_named(name));
        if !images.iter().any(is_there) {
            all.extend(build(name));
        }
        all
    };
    names.iter().flat_map(of_name).collect()
}

/// A name itself; and a path from the current folder, or through links, is the image's own as well.
fn paths(name: &str) -> Vec<String> {
    // A name without a folder is an image's wherever that is.
    let path = Some(Path::new(name)).filter(|_| name.contains('/'));
    let own = [name.to_owned()].into_iter();
    own.chain(path.and_then(resolved)).collect()
}

/// The build id of the file that a name is that of.
fn build(name: &str) -> Option<String> {
    opened(Path::new(name))?.build_id().map(str::to_owned)
}

/// A file, if it is a program or a library.
fn opened(path: &Path) -> Option<Binary> {
    let opened = fenced(|| Binary::open(path, &Room::new(MAX_TOTAL)));
    opened?.ok()
}

/// A path without links and relative parts; the file may be gone, its folder may not.
fn resolved(path: &Path) -> Option<String> {
    let whole = fs::canonicalize(path).or_else(|error| match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => Ok(fs::canonicalize(folder)?.join(name)),
        _ => Err(error),
    });
    whole.ok()?.into_os_string().into_string().ok()
}

/// File names of images that contain a name (`python3.11` for `python3`), else of those that
/// begin as it does up to its version; those with most samples first.
fn near<'p>(profile: &'p Profile, name: &str) -> Vec<&'p str> {
    let wanted = file_name(name).to_lowercase();
    let stem = wanted
        .split(|c: char| c == '.' || c.is_ascii_digit())
        .next()
        .unwrap_or_default();
    let mut samples = vec![0_u64; profile.images.len()];
    for row in &profile.cycles {
        let image = profile.pcs.get(row.pc).map(|pc| pc.image);
        if let Some(sum) = image.and_then(|image| samples.get_mut(image)) {
            *sum = sum.saturating_add(row.samples);
        }
    }
    let matching = |test: &dyn Fn(&str) -> bool| {
        let images = profile.images.iter().zip(&samples);
        let mut found: Vec<(&str, u64)> = images
            .map(|(image, samples)| (file_name(&image.path), *samples))
            .filter(|(name, _)| test(&name.to_lowercase()))
            .collect();
        found.sort_by_key(|(name, samples)| (std::cmp::Reverse(*samples), *name));
        found.dedup_by_key(|(name, _)| *name);
        found
    };
    let mut found = matching(&|name| !wanted.is_empty() && name.contains(&wanted));
    if found.is_empty() {
        found = matching(&|name| stem.len() > 1 && name.starts_with(stem));
    }
    found
        .into_iter()
        .take(MOST_NEAR)
        .map(|(name, _)| name)
        .collect()
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
