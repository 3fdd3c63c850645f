//! Rows that others refer to: images with their symbols, access tags, processes, PCs. Each is
//! written once, whatever flush needs it, and found again by what it says.

use super::Flush;
use crate::rows::{Image, Process, Subject};
use crate::tables::stored::{StoredProcess, StoredSymbol};
use crate::writer::{ImageRowId, PcRowId, ProcessRowId, SubjectRowId};
use crate::{Error, MAX_INSTRUCTION};

impl Flush<'_> {
    /// The id of an image, known by kind, identity and path.
    ///
    /// # Errors
    /// Those of the database.
    pub fn image(&mut self, image: &Image) -> Result<ImageRowId, Error> {
        let row = self.image_row(image)?;
        if !image.has_known_file() {
            self.writer.caches.without_file.insert(row);
        }
        Ok(ImageRowId {
            generation: self.generation(),
            row,
        })
    }

    fn image_row(&mut self, image: &Image) -> Result<i64, Error> {
        if let Some(row) = self.writer.caches.images.get(image) {
            return Ok(row);
        }
        let row = self.put(image)?;
        self.writer.caches.images.put(image.clone(), row);
        Ok(row)
    }

    /// The id of an access tag.
    ///
    /// # Errors
    /// Those of the database.
    pub fn subject(&mut self, subject: &Subject) -> Result<SubjectRowId, Error> {
        if let Some(row) = self.writer.caches.subjects.get(subject) {
            return Ok(SubjectRowId {
                generation: self.generation(),
                row,
            });
        }
        let row = self.put(subject)?;
        self.writer.caches.subjects.put(*subject, row);
        Ok(SubjectRowId {
            generation: self.generation(),
            row,
        })
    }

    /// The id of a process, known by pid, start and execs; its first name stays.
    ///
    /// # Errors
    /// Those of the database.
    pub fn process(&mut self, process: &Process) -> Result<ProcessRowId, Error> {
        let key = (process.pid, process.started, process.execs);
        if let Some(row) = self.writer.caches.processes.get(&key) {
            return Ok(ProcessRowId {
                generation: self.generation(),
                row,
            });
        }
        let row = StoredProcess::new(self.writer.epoch, process.clone());
        let row = self.put(&row)?;
        self.writer.caches.processes.put(key, row);
        Ok(ProcessRowId {
            generation: self.generation(),
            row,
        })
    }

    /// The id of the instruction at `address` of an image, with its encoding where it was read.
    /// Encodings are kept of instructions that turn out to be hot, and of images whose code no file
    /// is known to have ([`Image::has_known_file`]); the first one that is given stays.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an encoding of no or more than 15 bytes, and [`Error::StaleId`].
    pub fn pc(
        &mut self,
        image: ImageRowId,
        address: u64,
        bytes: Option<&[u8]>,
    ) -> Result<PcRowId, Error> {
        self.check(image.generation)?;
        if let Some(bytes) = bytes {
            if !(1..=MAX_INSTRUCTION).contains(&bytes.len()) {
                return Err(Error::Invalid {
                    what: format!("an instruction of {} bytes", bytes.len()),
                });
            }
            let code = &mut self.stage.code;
            code.entry((image.row, address))
                .or_insert_with(|| bytes.to_vec());
        }
        Ok(PcRowId {
            generation: image.generation,
            image: image.row,
            address,
        })
    }

    /// Whether an instruction is asked for for the first time, as far as the writer remembers. What
    /// it no longer knows, it calls new.
    pub fn is_new(&mut self, pc: PcRowId) -> bool {
        let key = (pc.image, pc.address);
        let seen = &mut self.writer.caches.seen;
        let is_new = seen.get(&key).is_none();
        if is_new {
            seen.put(key, ());
        }
        is_new
    }

    /// Names the function at `address`; `size` is 0 where it is not known. The first name
    /// of an address stays.
    ///
    /// # Errors
    /// [`Error::StaleId`], and those of the database.
    pub fn symbol(
        &mut self,
        image: ImageRowId,
        address: u64,
        size: u64,
        name: &str,
    ) -> Result<(), Error> {
        self.check(image.generation)?;
        self.merge(&StoredSymbol {
            image: image.row,
            address,
            size,
            name: name.to_owned(),
        })
    }
}
