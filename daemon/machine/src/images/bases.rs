//! Which images have code that changes the bases of FS and GS: it is searched for once.

use interpreter::{BaseWriters, CODE_AROUND};
use rustc_hash::FxHashMap;

use super::{FileState, ImageId, Images};
use crate::elf::{Contents, Elf, PAGE};
use crate::maps::CodeOfFile;

/// Pages that are searched at a time: the windows that wait for the outcome go on without.
const PAGES_AT_ONCE: u64 = 256;

/// How far the search in an image has come.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    found: BaseWriters,
    /// Pages of the file before this one are done.
    next: u64,
    done: bool,
}

/// What was searched.
#[derive(Debug, Default)]
pub(super) struct Bases {
    searched: FxHashMap<ImageId, Search>,
}

impl Bases {
    /// Forgets what was found in images that have changed.
    pub(super) fn forget(&mut self, changed: &[ImageId]) {
        self.searched.retain(|id, _| !changed.contains(id));
    }
}

impl Images {
    /// Which bases the code of an image that is mapped like that can change; `None` if that is not
    /// known yet. Searches a part of it.
    pub(crate) fn base_writers(
        &mut self,
        code: &CodeOfFile,
        pid: sampler::Pid,
    ) -> Option<BaseWriters> {
        let id = code.image;
        let through = Some((pid, code.range));
        if self.elf(id, through).is_none() {
            let lost = matches!(self.get(id)?.state, FileState::Unusable);
            return lost.then_some(BaseWriters::ANY);
        }
        let FileState::Open(elf) = &self.images.get(id.0 as usize)?.state else {
            return None;
        };
        if !is_code(elf, code) {
            return Some(BaseWriters::ANY);
        }
        let search = self.bases.searched.entry(id).or_default();
        if !search.done {
            advance(elf, search);
        }
        search.done.then_some(search.found)
    }
}

/// Pages of the file that its segments of code lie in.
fn code_pages(elf: &Elf) -> impl Iterator<Item = (u64, u64)> {
    let code = elf.segments.iter().filter(|segment| segment.executable);
    code.map(|segment| {
        let end = segment.offset.saturating_add(segment.file_size);
        (segment.offset / PAGE as u64, end.div_ceil(PAGE as u64))
    })
}

/// Whether all that is mapped is code, by the segments.
fn is_code(elf: &Elf, code: &CodeOfFile) -> bool {
    let first = code.file_offset / PAGE as u64;
    let behind = code.file_offset.saturating_add(code.range.bytes());
    let behind = behind.div_ceil(PAGE as u64);
    let is_vdso = matches!(elf.contents, Contents::Bytes(_));
    is_vdso || code_pages(elf).any(|(from, to)| from <= first && behind <= to)
}

/// Searches the next pages.
fn advance(elf: &Elf, search: &mut Search) {
    let next = code_pages(elf)
        .filter(|(_, to)| *to > search.next)
        .map(|(from, to)| (from.max(search.next), from, to))
        .min();
    let Some((next, from, to)) = next else {
        search.done = true;
        return;
    };
    let to_do = next..to.min(next + PAGES_AT_ONCE);
    search.next = to_do.end;
    // What lies beside the pages tells what begins and ends in them.
    let before = u64::from(next > from);
    let mut bytes = Vec::with_capacity((PAGES_AT_ONCE as usize + 2) * PAGE);
    for number in to_do.start - before..to.min(to_do.end + 1) {
        match elf.contents.page(number) {
            Some(page) => bytes.extend(*page),
            // The last pages may be none of the file's.
            None => break,
        }
    }
    let skipped = before as usize * PAGE;
    let bytes = &bytes[skipped.saturating_sub(CODE_AROUND).min(bytes.len())..];
    let first = skipped.min(CODE_AROUND);
    let len = (to_do.end - to_do.start) as usize * PAGE;
    search.found = search
        .found
        .or(BaseWriters::of_code(bytes, first..first + len));
    search.done = search.found == BaseWriters::ANY;
}

#[cfg(test)]
mod tests {
    use addresses::ProcessRange;

    use super::*;
    use crate::identity::Identity;

    /// This very program is searched piece by piece, and its code has nothing that moves a base;
    /// what is mapped of it beside its code is not known to have nothing. In the first and the last
    /// page of its code lies other data as well, which may look like anything.
    #[test]
    fn a_program_is_searched() {
        let path = "/proc/self/exe";
        let mut images = Images::new(Vec::new(), 0, 1 << 20);
        let bytes = std::fs::read(path).expect("the program");
        let build_id = crate::elf::parse(bytes.clone()).and_then(|(_, id)| id);
        let Some(build_id) = build_id else {
            return;
        };
        let image = images.intern(Identity::BuildId(build_id), path);
        let segments = images.elf(image, None).expect("it").segments.clone();
        let segment = segments.iter().find(|segment| segment.executable);
        let segment = segment.expect("code");
        let code = CodeOfFile {
            image,
            range: ProcessRange::of_words(0x1000, 0x1000 + segment.file_size),
            file_offset: segment.offset & !(PAGE as u64 - 1),
        };
        let pid = sampler::Pid(std::process::id());
        let found = (0..1000).find_map(|_| images.base_writers(&code, pid));
        let (start, size) = (segment.offset as usize, segment.file_size as usize);
        let of = |code: &[u8]| BaseWriters::of_code(code, 0..code.len());
        assert_eq!(of(&bytes[start..start + size]), BaseWriters::default());
        let last = (start + size).next_multiple_of(PAGE).min(bytes.len());
        assert_eq!(found, Some(of(&bytes[start / PAGE * PAGE..last])));
        let more = CodeOfFile {
            file_offset: 0,
            ..code
        };
        assert_eq!(images.base_writers(&more, pid), Some(BaseWriters::ANY));
        images.bases.forget(&[image]);
        assert_eq!(images.base_writers(&code, pid), None);
    }
}
