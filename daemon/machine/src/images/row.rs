//! Images as the database keeps them.

use profiledb::ImageKind;

use super::{FileState, Identity, Image, ImageId, Images};
use crate::kernel::{self, hex};

impl Images {
    /// The row that the database keeps of an image.
    pub fn row(&self, id: ImageId) -> Option<profiledb::Image> {
        let image = self.get(id)?;
        self.row_of(&image.identity, image)
    }

    fn row_of(&self, identity: &Identity, image: &Image) -> Option<profiledb::Image> {
        let (kind, build_id, identity) = match identity {
            Identity::In32BitMode(identity) => {
                let mut row = self.row_of(identity, image)?;
                if row.kind == ImageKind::Vdso {
                    // It is another one than that of this process.
                    (row.build_id, row.identity) = (None, image.path.clone());
                }
                return Some(row.in_32_bit_mode());
            }
            Identity::BuildId(id) => (ImageKind::File, Some(hex(id)), hex(id)),
            Identity::Content(id) => (ImageKind::File, None, profiledb::Image::of_content(id)),
            Identity::Inode {
                major,
                minor,
                inode,
                generation,
            } => {
                let own = match &image.state {
                    FileState::Open(elf) => elf.build_id.as_deref().map(hex),
                    _ => None,
                };
                let inode = format!("{major:x}:{minor:x}:{inode}:{generation:x}");
                (ImageKind::File, own, inode)
            }
            Identity::Shared {
                major,
                minor,
                inode,
            } => {
                let inode = format!("{major:x}:{minor:x}:{inode}");
                (ImageKind::File, None, inode)
            }
            Identity::Vdso => {
                let id = self.vdso_build_id.clone();
                let identity = id.clone().unwrap_or_else(|| image.path.clone());
                (ImageKind::Vdso, id, identity)
            }
            Identity::Kernel => {
                let id = kernel::build_id();
                (
                    ImageKind::Kernel,
                    id.clone(),
                    id.unwrap_or_else(|| image.path.clone()),
                )
            }
            Identity::Generated {
                pid,
                started,
                execs,
                generation,
            } => {
                let identity = format!("anon:{pid}:{started:x}:{execs}:{generation}");
                (ImageKind::Anon, None, identity)
            }
            Identity::Anon => (ImageKind::Anon, None, image.path.clone()),
        };
        Some(profiledb::Image {
            kind,
            path: image.path.clone(),
            build_id,
            identity,
        })
    }
}
