//! Images: the files (and the vdso) that code and constants are mapped from.
//!
//! An image is its build id; without one, a hash of its content; where its file was not found in
//! time, its device and inode. Its bytes may stand in for
//! memory only where that memory cannot differ from them, which is decided by the caller per
//! page (`loadmap`); here it is made sure that the file is the one that was mapped, and that it
//! has not changed since.

// Over 500 lines: what is kept of an image, and every question about it, is one type.

mod bases;
mod calls;
mod conventions;
mod denied;
mod generated;
mod kept;
mod known;
mod mapped;
mod replaced;
mod row;
mod shown;

use std::mem;
use std::path::PathBuf;

use addresses::{ImageAddress, ProcessRange};
use rustc_hash::{FxHashMap, FxHashSet};
use sampler::Pid;

use crate::elf::{self, Contents, Elf, PAGE};
use crate::files::Version;
use crate::flow::{Flows, Text};
use crate::kernel;
use crate::rules::Rules;
use crate::system::memory::{of_map, of_vec};
use crate::unwind::UnwindInfo;
use crate::writers::{FileId, FileWriters};

use self::bases::Bases;
pub use self::calls::Call;
use self::calls::Calls;
pub use self::conventions::Others;
use self::denied::is_denied;
use self::generated::Generated;
pub use self::generated::NamedCode;
use self::kept::Kept;
use self::known::Known;
pub use crate::identity::Identity;
pub use crate::place::ImageId;

#[derive(Debug)]
enum FileState {
    /// Not looked for, or not found so many times, the last time through this process.
    Closed {
        attempts: u8,
        last: Option<Pid>,
    },
    Open(Box<Elf>),
    /// Another file, not ELF, changed since: given up.
    Unusable,
}

/// An image and what is known of it.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) identity: Identity,
    pub(crate) path: String,
    /// Its code handles secrets: cycles are counted, values are not captured.
    denied: bool,
    /// Once they were looked for in its file.
    others: Option<Others>,
    /// When it was first mapped, in wall-clock nanoseconds. What was changed since under the same
    /// inode is another file.
    mapped: i64,
    /// Nobody had it mapped at the last look.
    idle: bool,
    /// Its number is never another's: something is code in it, or it is no file's.
    stays: bool,
    /// The image whose code this is, if it stands for what ran in another mode.
    base: Option<ImageId>,
    /// A copy of its file, should that change.
    kept: Option<Kept>,
    /// Somebody may write its file through a mapping, or might: it tells nothing of memory.
    written: bool,
    state: FileState,
}

impl Image {
    /// Whether its file was opened, and has been changed since.
    fn was_changed(&self) -> bool {
        match &self.state {
            FileState::Open(elf) => elf.contents.changed(),
            FileState::Unusable => self.kept.is_some(),
            FileState::Closed { .. } => false,
        }
    }
}

/// All images seen, with a bounded cache of their pages.
#[derive(Debug)]
pub struct Images {
    images: Vec<Image>,
    known: Known,
    /// Images that were not told apart any more, since that was taken.
    pub not_kept: u64,
    /// The unwind rules of images.
    pub rules: Rules,
    pub(crate) calls: Calls,
    flows: Flows,
    bases: Bases,
    /// How often images had to be given up because their files were changed.
    pub(crate) changes: u32,
    pages: FxHashMap<(ImageId, u64), Box<[u8; PAGE]>>,
    /// Of files that ran before the start, by device and inode.
    mapped: FxHashMap<FileId, (Version, Identity)>,
    /// Besides those of [`denied`].
    deny: Vec<String>,
    /// Wall clock minus sample clock, ns.
    clock_offset: i64,
    /// Code that was made at run time, by the image of its first generation.
    generated: FxHashMap<ImageId, Generated>,
    /// Bytes of the names in it.
    generated_bytes: usize,
    /// Files in which processes tell of such code, until it is there.
    dumps: FxHashMap<Pid, PathBuf>,
    /// Names of generated code for which there was no room.
    pub names_not_kept: u64,
    /// Of the running kernel's, unless what is collected comes from elsewhere.
    vdso_build_id: Option<String>,
    /// Bytes of copies.
    kept_bytes: usize,
    /// Who may write files through mappings.
    writers: FileWriters,
    /// Images whose files that were.
    written: FxHashSet<Identity>,
}

/// The path of the image that stands for what is not known.
pub const UNKNOWN: &str = "[unknown]";

/// That of the one that stands for those that are not told apart.
const OTHERS: &str = "[others]";

/// Pages kept: 16 MiB. When it is full it is emptied; the decode cache stands before it.
const MAX_PAGES: usize = 4096;
/// Identities of inodes kept while running processes are read.
const MAX_MAPPED: usize = 65_536;
/// Processes through which a file is looked for before it is given up.
const MAX_ATTEMPTS: u8 = 8;

impl Images {
    /// No images yet, of which also those are denied whose files' names begin with one of these
    /// words. Their unwind rules may take so many bytes.
    pub fn new(deny: Vec<String>, clock_offset: i64, rules: usize) -> Self {
        Self {
            images: Vec::new(),
            known: Known::default(),
            not_kept: 0,
            rules: Rules::new(rules),
            calls: Calls::default(),
            flows: Flows::default(),
            bases: Bases::default(),
            changes: 0,
            pages: FxHashMap::default(),
            mapped: FxHashMap::default(),
            deny,
            clock_offset,
            generated: FxHashMap::default(),
            generated_bytes: 0,
            dumps: FxHashMap::default(),
            names_not_kept: 0,
            vdso_build_id: elf::own_vdso()
                .and_then(|bytes| elf::parse(bytes.to_vec())?.1)
                .map(|id| kernel::hex(&id)),
            kept_bytes: 0,
            writers: FileWriters::default(),
            written: FxHashSet::default(),
        }
    }

    /// What is collected comes from another machine, or another life of this one.
    pub fn come_from_elsewhere(&mut self) {
        self.vdso_build_id = None;
    }

    /// Bytes that images hold, and pages of them.
    pub fn bytes(&self) -> (usize, usize) {
        let one = |image: &Image| match &image.state {
            FileState::Open(elf) => size_of::<Elf>() + of_vec(&elf.segments),
            _ => 0,
        };
        let images: usize = self.images.iter().map(one).sum();
        let maps = of_vec(&self.images) + self.known.bytes() + of_map(&self.mapped);
        let maps = maps + self.writers.bytes();
        let own = images + maps + self.kept_bytes + self.generated_bytes;
        (
            own + self.rules.bytes(),
            of_map(&self.pages) + self.pages.len() * PAGE + self.calls.bytes() + self.flows.bytes(),
        )
    }

    /// The image with this identity and path, new or known. When there are too many, new ones are
    /// not told apart.
    pub fn intern(&mut self, identity: Identity, path: &str) -> ImageId {
        self.intern_mapped(identity, path, true)
    }

    /// As [`Self::intern`], for one that is mapped. Unless it `stays`, as code does, its number is
    /// another image's when nobody has it mapped any more.
    fn intern_mapped(&mut self, identity: Identity, path: &str, stays: bool) -> ImageId {
        if let Some(id) = self.known(&identity, path) {
            if stays {
                self.stays(id);
            }
            return id;
        }
        let crowded = self.are_too_many();
        let (identity, path) = match crowded {
            true => (Identity::Anon, OTHERS),
            false => (identity, path),
        };
        if crowded {
            self.not_kept += 1;
            if let Some(id) = self.known(&identity, path) {
                return id;
            }
        }
        self.enter(Image {
            // Some of the others may be.
            denied: crowded || is_denied(path, &self.deny),
            path: path.to_owned(),
            others: None,
            mapped: i64::MAX,
            idle: false,
            stays: stays || crowded,
            base: None,
            kept: None,
            written: self.written.contains(&identity),
            state: FileState::Closed {
                attempts: 0,
                last: None,
            },
            identity,
        })
    }

    /// Whether an image is memory without a file.
    pub fn is_anon(&self, id: ImageId) -> bool {
        let (base, _) = self.base(id);
        let identity = self.get(base).map(|image| &image.identity);
        matches!(identity, Some(Identity::Anon | Identity::Generated { .. }))
    }

    /// Whether an image is memory that is shared with others.
    pub(crate) fn is_shared(&self, id: ImageId) -> bool {
        self.get(id)
            .is_some_and(|image| matches!(image.identity, Identity::Shared { .. }))
    }

    /// Whether somebody may write an image's file through a mapping, now or at any time before.
    pub(crate) fn is_written(&self, id: ImageId) -> bool {
        self.get(id).is_some_and(|image| image.written)
    }

    fn get(&self, id: ImageId) -> Option<&Image> {
        self.images.get(id.0 as usize)
    }

    /// The path that it was mapped by.
    pub fn path(&self, id: ImageId) -> &str {
        self.get(id).map_or(UNKNOWN, |image| &image.path)
    }

    /// Whether the image is on the deny list.
    pub(crate) fn is_denied(&self, id: ImageId) -> bool {
        self.get(id).is_some_and(|image| image.denied)
    }

    /// The contents of an image, opened when first wanted, through the process that maps it.
    pub fn elf(&mut self, id: ImageId, through: Option<(Pid, ProcessRange)>) -> Option<&Elf> {
        let image = self.images.get_mut(id.0 as usize)?;
        if let FileState::Closed { attempts, last } = image.state {
            let pid = through.map(|(pid, ..)| pid);
            if attempts > 0 && pid == last {
                return None; // it would not be found this time either
            }
            image.state = match elf::find(&image.identity, &image.path, image.mapped, through) {
                elf::Found::Elf(elf) => {
                    if let Contents::File { file, .. } = &elf.contents
                        && image.kept.is_none()
                        && let Ok(metadata) = file.metadata()
                    {
                        let changed = elf::last_change(&metadata);
                        let others = self.kept_bytes;
                        image.kept = Kept::new(file, &elf.segments, changed, image.mapped, others);
                        let kept = image.kept.as_ref();
                        self.kept_bytes += kept.map_or(0, |kept| kept.bytes.len());
                    }
                    FileState::Open(elf)
                }
                elf::Found::Missing if attempts + 1 < MAX_ATTEMPTS => FileState::Closed {
                    attempts: attempts + 1,
                    last: pid,
                },
                elf::Found::Wrong | elf::Found::Missing => FileState::Unusable,
            };
        }
        match &image.state {
            FileState::Open(elf) => Some(elf),
            _ => None,
        }
    }

    /// Whether an image may yet be opened.
    pub(crate) fn is_closed(&self, id: ImageId) -> bool {
        let image = self.images.get(id.0 as usize);
        image.is_some_and(|image| matches!(image.state, FileState::Closed { .. }))
    }

    /// The unwind rules of an image that has been opened before.
    pub fn unwind(&mut self, id: ImageId) -> Option<&mut UnwindInfo> {
        let FileState::Open(elf) = &self.images.get(id.0 as usize)?.state else {
            return None;
        };
        self.rules.of(id, |most| elf.contents.unwind(most))
    }

    /// The registers beside the platform's that functions of an image may have arguments in.
    pub(crate) fn other_arguments(&mut self, id: ImageId) -> Others {
        let Some(image) = self.images.get_mut(id.0 as usize) else {
            return Others::default();
        };
        match &image.state {
            FileState::Open(elf) => *image
                .others
                .get_or_insert_with(|| Others::of(&elf.contents)),
            _ => image.others.unwrap_or_default(),
        }
    }

    /// What code of an image says of callers, by what was found out before and its code.
    pub(crate) fn by_flow<T>(
        &mut self,
        image: ImageId,
        ask: impl FnOnce(&mut Flows, &mut ImageText<'_>) -> T,
    ) -> T {
        let mut flows = mem::take(&mut self.flows);
        let answer = ask(
            &mut flows,
            &mut ImageText {
                images: self,
                image,
            },
        );
        self.flows = flows;
        answer
    }

    /// Whether an image may have unwind rules that [`Self::unwind`] does not give.
    pub(crate) fn lacks_rules(&self, id: ImageId) -> bool {
        self.rules.lack(id)
    }

    /// Closes the images that nobody has mapped, as `mapped` says by their number, now or at the
    /// look before: their files are not kept on the disk for our sake, nor what is known of them in
    /// memory. Who maps one again has it opened again.
    pub fn close_all_but(&mut self, mapped: &[bool]) {
        let mut closed = false;
        for (index, image) in self.images.iter_mut().enumerate() {
            let is_mapped = mapped.get(index).is_some_and(|mapped| *mapped);
            let was_idle = mem::replace(&mut image.idle, !is_mapped);
            if was_idle
                && image.idle
                && let Some(kept) = image.kept.take()
            {
                self.kept_bytes = self.kept_bytes.saturating_sub(kept.bytes.len());
            }
            if was_idle && image.idle && matches!(image.state, FileState::Open(_)) {
                image.state = FileState::Closed {
                    attempts: 0,
                    last: None,
                };
                closed = true;
            }
        }
        self.forget_generated(mapped);
        self.give_back(mapped);
        if closed {
            let is_open = |id: ImageId| {
                let image = self.images.get(id.0 as usize);
                image.is_some_and(|image| matches!(image.state, FileState::Open(_)))
            };
            self.pages.retain(|(id, _), _| is_open(*id));
            self.rules.retain(is_open);
        }
    }

    /// As [`Self::elf`], for an image that has been opened before.
    fn opened(&self, id: ImageId) -> Option<&Elf> {
        match &self.images.get(id.0 as usize)?.state {
            FileState::Open(elf) => Some(elf),
            _ => None,
        }
    }

    /// Bytes from the image file at an address, as many as the segment has of them;
    /// 0 where there are none. Writable segments have none: memory differs from them.
    pub fn read(&mut self, id: ImageId, address: ImageAddress, bytes: &mut [u8]) -> usize {
        let address = address.0;
        let Some(elf) = self.opened(id) else { return 0 };
        let Some(segment) = elf
            .segments
            .iter()
            .find(|s| !s.writable && address >= s.address && address - s.address < s.file_size)
        else {
            return 0;
        };
        let inside = address - segment.address;
        let wanted = (bytes.len() as u64).min(segment.file_size - inside) as usize;
        let Some(offset) = segment.offset.checked_add(inside) else {
            return 0;
        };
        self.read_file(id, offset, &mut bytes[..wanted])
    }

    fn read_file(&mut self, id: ImageId, offset: u64, bytes: &mut [u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let Some(page) = self.page(id, at / PAGE as u64) else {
                break;
            };
            let inside = (at % PAGE as u64) as usize;
            let n = (bytes.len() - done).min(PAGE - inside);
            bytes[done..done + n].copy_from_slice(&page[inside..inside + n]);
            done += n;
        }
        done
    }

    fn page(&mut self, id: ImageId, number: u64) -> Option<&[u8; PAGE]> {
        let key = (id, number);
        if !self.pages.contains_key(&key) {
            let elf = match &self.images.get(id.0 as usize)?.state {
                FileState::Open(elf) => elf,
                _ => return None,
            };
            let page = elf.contents.page(number)?;
            if self.pages.len() >= MAX_PAGES {
                self.pages.clear();
            }
            self.pages.insert(key, page);
        }
        self.pages.get(&key).map(|page| &**page)
    }

    /// Gives up images whose file was changed in place since it was opened, and returns them:
    /// what was decoded from them must go too.
    pub fn drop_changed(&mut self) -> Vec<ImageId> {
        let mut changed = Vec::new();
        for (index, image) in (0_u32..).zip(&mut self.images) {
            if matches!(&image.state, FileState::Open(elf) if elf.contents.changed()) {
                image.state = FileState::Unusable;
                changed.push(ImageId(index));
            }
        }
        if !changed.is_empty() {
            self.pages.retain(|(id, _), _| !changed.contains(id));
            self.rules.retain(|id| !changed.contains(&id));
            self.calls.forget(&changed);
            self.flows.forget(&changed);
            self.bases.forget(&changed);
            self.changes = self.changes.wrapping_add(1);
        }
        changed
    }
}

/// The code of one image.
#[derive(Debug)]
pub(crate) struct ImageText<'a> {
    images: &'a mut Images,
    image: ImageId,
}

impl Text for ImageText<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> usize {
        self.images.read(self.image, ImageAddress(address), bytes)
    }

    fn function(&mut self, address: u64) -> Option<u64> {
        let rules = self.images.unwind(self.image)?;
        let (ImageAddress(start), _) = rules.function(ImageAddress(address))?;
        Some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images() -> Images {
        Images::new(Vec::new(), 0, 1 << 20)
    }

    fn build_id_of(path: &str) -> Option<Vec<u8>> {
        let bytes = std::fs::read(path).ok()?;
        elf::parse(bytes)?.1
    }

    /// A file is taken for an image only if its build id is the mapped one.
    #[test]
    fn wrong_build_id_is_refused() {
        let path = "/proc/self/exe";
        let mut images = images();
        let wrong = images.intern(Identity::BuildId(vec![1, 2, 3]), path);
        assert!(images.elf(wrong, None).is_none());
        if let Some(id) = build_id_of(path) {
            let right = images.intern(Identity::BuildId(id), path);
            assert!(images.elf(right, None).is_some());
        }
    }

    /// The vdso of this very process can be read, and has code and unwind rules.
    #[test]
    fn vdso_is_an_image() {
        let mut images = images();
        let id = images.intern(Identity::Vdso, "[vdso]");
        let segments = images.elf(id, None).expect("vdso").segments.clone();
        let code = segments.iter().find(|s| s.executable).expect("code");
        let mut bytes = [0; 16];
        assert_eq!(images.read(id, ImageAddress(code.address), &mut bytes), 16);
        assert_eq!(&bytes[..4], b"\x7fELF");
    }
}
