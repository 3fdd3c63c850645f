//! What readers are to see of images: their names and their code.

use std::os::unix::fs::MetadataExt;
use std::{fs, io};

use addresses::ImageAddress;

use super::{FileState, Identity, ImageId, Images};
use crate::elf::{self, Contents, Named};

impl Images {
    /// The image that stands for what ran in 32-bit mode of one.
    pub fn in_32_bit_mode(&mut self, id: ImageId) -> ImageId {
        let Some(image) = self.get(id) else {
            return id;
        };
        let identity = Identity::In32BitMode(Box::new(image.identity.clone()));
        let path = image.path.clone();
        let twin = self.intern(identity, &path);
        if let Some(image) = self.images.get_mut(twin.0 as usize) {
            image.base = Some(id);
        }
        twin
    }

    /// The image whose file has the code of this one, and whether it ran in 32-bit mode.
    pub fn base(&self, id: ImageId) -> (ImageId, bool) {
        match self.get(id).and_then(|image| image.base) {
            Some(base) => (base, true),
            None => (id, false),
        }
    }

    /// What names an image's functions, and whether readers will not find it: where its path leads
    /// elsewhere, or nowhere, or to other bytes, since it was deleted, replaced, or is a
    /// container's. The vdso they find on this machine alone, and young files perhaps not for long.
    pub fn names_of(&self, id: ImageId) -> Option<(io::Result<Named>, bool)> {
        let (base, _) = self.base(id);
        let image = self.get(base)?;
        if image.identity == Identity::Vdso {
            // That of a 32-bit process is another one.
            let is_own = base == id && self.vdso_build_id.is_some();
            let vdso = is_own.then(elf::own_vdso)??;
            return Some((Ok(Named::Bytes(vdso)), false));
        }
        let kept = image.kept.as_ref();
        let kept = kept.map(|kept| Ok(Named::Bytes(kept.bytes.clone())));
        let FileState::Open(elf) = &image.state else {
            return kept.map(|kept| (kept, true));
        };
        let Contents::File { file, .. } = &elf.contents else {
            return None;
        };
        if elf.contents.changed() {
            return kept.map(|kept| (kept, true));
        }
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let own = identity(file.metadata().ok()?);
        if fs::metadata(&image.path).ok().map(identity) == Some(own) {
            return kept.map(|kept| (kept, false));
        }
        Some((file.try_clone().map(Named::File), true))
    }

    /// Code of an image as readers are to see it, even if its file has been replaced since; how
    /// many bytes there were.
    pub fn read_to_show(&mut self, id: ImageId, address: ImageAddress, bytes: &mut [u8]) -> usize {
        let (base, is_other_mode) = self.base(id);
        let is_vdso = self
            .get(base)
            .is_some_and(|image| image.identity == Identity::Vdso);
        if is_other_mode && is_vdso {
            return 0;
        }
        let image = self.get(base);
        let kept = image.filter(|image| !matches!(image.state, FileState::Open(_)));
        match kept.and_then(|image| image.kept.as_ref()) {
            Some(kept) => kept.read(address.0, bytes),
            None => self.read(base, address, bytes),
        }
    }
}
