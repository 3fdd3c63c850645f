//! Which images the kernel tells of where it tells of mappings: by a record, or by a line of
//! `/proc/PID/maps`.

use std::fs::File;

use sampler::{Mmap, MmapIdentity, Pid};

use super::{Identity, Image, ImageId, Images, MAX_MAPPED};
use crate::elf::{self, LastingIdentity};
use crate::files::Version;
use crate::mapping::{Mapping, MappingKind};
use crate::system::procfs::MapsLine;
use crate::writers::FileId;

/// Files of one inode that are told apart by what they hold.
const MAX_VERSIONS: usize = 256;

impl Images {
    /// Takes note that a process may write a file through a mapping.
    pub fn note_writer(&mut self, file: FileId, pid: Pid) {
        self.writers.note(file, pid);
        let known = self.mapped.get(&file).map(|(_, identity)| identity.clone());
        if let Some(identity) = known {
            self.note_written(identity);
        }
    }

    /// Whether somebody may write a file through a mapping now.
    pub fn has_writer(&mut self, file: FileId) -> bool {
        self.writers.has(file)
    }

    /// From now on a file tells nothing of memory.
    pub fn note_written(&mut self, identity: Identity) {
        for image in &mut self.images {
            image.written |= image.identity == identity;
        }
        // Whoever maps so many has his own reasons.
        if self.written.len() < MAX_MAPPED {
            self.written.insert(identity);
        }
    }

    /// What PERF_RECORD_MMAP2 tells of, with that path.
    pub(crate) fn mapping_of_record(&mut self, mmap: &Mmap, path: &str) -> Mapping {
        let kind = MappingKind::of_record(path);
        let identity = match kind {
            MappingKind::Anon => Identity::Anon,
            MappingKind::Vdso => Identity::Vdso,
            MappingKind::File => identity_of_record(mmap),
        };
        let image_path = kind.image_path(path);
        let identity = self.not_that_of_another(identity, image_path);
        let stays = kind != MappingKind::File || mmap.executable();
        let image = self.intern_mapped(identity, image_path, stays);
        self.mapped(image, mmap.time);
        if let Some(file) = FileId::of_record(mmap) {
            if mmap.shared() && mmap.writable() {
                self.note_writer(file, mmap.pid);
            } else if self.writers.may_have(file) {
                self.distrust(image);
            }
        }
        Mapping::of_record(mmap, kind, path, image)
    }

    /// What a line of `/proc/PID/maps` tells of.
    pub(crate) fn mapping_of_line(&mut self, pid: Option<Pid>, line: &MapsLine) -> Mapping {
        let kind = MappingKind::of_line(line);
        let identity = match kind {
            MappingKind::Vdso => Identity::Vdso,
            MappingKind::Anon => Identity::Anon,
            MappingKind::File => self.identity_of_mapped(pid, line),
        };
        let stays = kind != MappingKind::File || line.executable;
        let image = self.intern_mapped(identity, kind.image_path(&line.path), stays);
        if kind == MappingKind::File {
            let file = FileId::of_line(line);
            if line.shared && line.writable {
                self.note_writer(file, pid.unwrap_or(Pid(u32::MAX)));
            } else if self.writers.may_have(file) {
                self.distrust(image);
            }
        }
        Mapping::of_line(line, image)
    }

    fn distrust(&mut self, id: ImageId) {
        if let Some(image) = self.images.get_mut(id.0 as usize) {
            image.written = true;
        }
    }

    /// The identity of a file that is known by its inode. Where an image of this identity was
    /// opened and its file has changed since, what is mapped is another file than the image's.
    fn not_that_of_another(&self, mut identity: Identity, path: &str) -> Identity {
        for _ in 0..MAX_VERSIONS {
            let is_another = matches!(identity, Identity::Inode { .. })
                && self
                    .known(&identity, path)
                    .and_then(|id| self.get(id))
                    .is_some_and(Image::was_changed);
            match &mut identity {
                Identity::Inode { generation, .. } if is_another => {
                    *generation = generation.wrapping_add(1);
                }
                _ => break,
            }
        }
        identity
    }

    /// Takes note that an image was mapped, at a time of the samples' clock.
    fn mapped(&mut self, id: ImageId, time: u64) {
        if let Some(image) = self.images.get_mut(id.0 as usize) {
            let wall = time.saturating_add_signed(self.clock_offset);
            image.mapped = image.mapped.min(wall.cast_signed());
        }
    }

    /// The identity of a file that was mapped before the start: its build id, if the file is
    /// still there and has one, so that it is the same image for later processes; else its inode.
    fn identity_of_mapped(&mut self, pid: Option<Pid>, line: &MapsLine) -> Identity {
        if line.shared {
            return Identity::Shared {
                major: line.major,
                minor: line.minor,
                inode: line.inode,
            };
        }
        let inode = Identity::Inode {
            major: line.major,
            minor: line.minor,
            inode: line.inode,
            generation: 0,
        };
        let Some((path, metadata)) = elf::mapped_file(pid, line) else {
            return inode;
        };
        // Another file may have been given the inode.
        let (key, version) = (FileId::of_line(line), Version::of(&metadata));
        if let Some((known, identity)) = self.mapped.get(&key)
            && *known == version
        {
            return identity.clone();
        }
        // It may be another one by now.
        let same = |file: &File| {
            file.metadata()
                .is_ok_and(|now| Version::of(&now) == version)
        };
        let file = File::open(path).ok().filter(same);
        let identity = match file.and_then(elf::known) {
            Some(LastingIdentity::BuildId(id)) => Identity::BuildId(id),
            Some(LastingIdentity::Content(id)) => Identity::Content(id),
            None => inode,
        };
        if self.mapped.len() >= MAX_MAPPED {
            self.mapped.clear();
        }
        self.mapped.insert(key, (version, identity.clone()));
        identity
    }
}

/// The identity of a file that a record tells of.
fn identity_of_record(mmap: &Mmap) -> Identity {
    match &mmap.identity {
        MmapIdentity::BuildId(id) => Identity::BuildId(id.clone()),
        MmapIdentity::Content(id) => Identity::Content(id.clone()),
        MmapIdentity::Inode {
            major,
            minor,
            inode,
            ..
        } if mmap.shared() => Identity::Shared {
            major: *major,
            minor: *minor,
            inode: *inode,
        },
        MmapIdentity::Inode {
            major,
            minor,
            inode,
            generation,
        } => Identity::Inode {
            major: *major,
            minor: *minor,
            inode: *inode,
            generation: *generation,
        },
    }
}
