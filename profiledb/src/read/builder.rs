//! The profile so far: rows of all files, each recurring one once.

use std::collections::{BTreeMap, HashMap};

use crate::profile::{Pc, Profile, SymbolRow};
use crate::rows::{Image, ImageKind, Subject};

/// The profile so far, and where its rows are.
#[derive(Default)]
pub(crate) struct Builder {
    pub(crate) profile: Profile,
    images: HashMap<(ImageKind, String, String), usize>,
    subjects: HashMap<Subject, usize>,
    pcs: HashMap<(usize, u64), usize>,
    pub(super) symbols: BTreeMap<(usize, u64), (u64, String)>,
}

impl Builder {
    pub(super) fn image(&mut self, image: &Image) -> usize {
        let key = (image.kind, image.identity.clone(), image.path.clone());
        let images = &mut self.profile.images;
        let index = *self
            .images
            .entry(key)
            .or_insert_with(|| push(images, image.clone()));
        if let Some(known) = images.get_mut(index)
            && known.build_id.is_none()
        {
            known.build_id.clone_from(&image.build_id);
        }
        index
    }

    pub(super) fn subject(&mut self, subject: Subject) -> usize {
        let subjects = &mut self.profile.subjects;
        *self
            .subjects
            .entry(subject)
            .or_insert_with(|| push(subjects, subject))
    }

    pub(super) fn pc(&mut self, image: usize, address: u64, bytes: &Option<Vec<u8>>) -> usize {
        let pcs = &mut self.profile.pcs;
        let index = *self.pcs.entry((image, address)).or_insert_with(|| {
            push(
                pcs,
                Pc {
                    image,
                    address,
                    bytes: None,
                },
            )
        });
        if let Some(known) = pcs.get_mut(index)
            && known.bytes.is_none()
        {
            known.bytes.clone_from(bytes);
        }
        index
    }

    pub(super) fn finish(self) -> Profile {
        let mut profile = self.profile;
        profile.symbols = self
            .symbols
            .into_iter()
            .map(|((image, address), (size, name))| SymbolRow {
                image,
                address,
                size,
                name,
            })
            .collect();
        profile
    }
}

pub(super) fn push<T>(rows: &mut Vec<T>, row: T) -> usize {
    rows.push(row);
    rows.len() - 1
}
