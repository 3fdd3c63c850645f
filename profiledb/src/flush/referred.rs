//! Rows that others refer to: images with their symbols, access tags, processes, PCs. Each is
//! written once, whatever flush needs it, and found again by what it says.

use rusqlite::params;

use super::Flush;
use crate::rows::{Image, ImageKind, Process, Subject};
use crate::writer::{ImageRowId, PcRowId, ProcessRowId, SubjectRowId};
use crate::{Error, MAX_INSTRUCTION, to_sql};

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
        let kind = kind_name(image.kind);
        let found = self.select(
            "SELECT id FROM image WHERE kind = ?1 AND identity = ?2 AND path = ?3",
            params![kind, image.identity, image.path],
        )?;
        let row = match found {
            Some(row) => row,
            None => self.insert(
                "INSERT INTO image (kind, path, build_id, identity) VALUES (?1, ?2, ?3, ?4)",
                params![kind, image.path, image.build_id, image.identity],
            )?,
        };
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
        let Subject {
            uid,
            gid,
            euid,
            egid,
            suid,
            dumpable,
            capable,
            kernel,
        } = *subject;
        let found = self.select(
            "SELECT id FROM subject
             WHERE uid IS ?1 AND gid IS ?2 AND euid IS ?3 AND egid IS ?4 AND suid IS ?5
                   AND dumpable IS ?6 AND capable IS ?7 AND kernel = ?8",
            params![uid, gid, euid, egid, suid, dumpable, capable, kernel],
        )?;
        let row = match found {
            Some(row) => row,
            None => self.insert(
                "INSERT INTO subject (uid, gid, euid, egid, suid, dumpable, capable, kernel)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![uid, gid, euid, egid, suid, dumpable, capable, kernel],
            )?,
        };
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
        let epoch = self.writer.epoch;
        let started = to_sql(process.started);
        let found = self.select(
            "SELECT id FROM process
             WHERE epoch = ?1 AND pid = ?2 AND started = ?3 AND execs = ?4",
            params![epoch, process.pid, started, process.execs],
        )?;
        let row = match found {
            Some(row) => row,
            None => self.insert(
                "INSERT INTO process (epoch, pid, started, execs, comm)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                params![epoch, process.pid, started, process.execs, process.comm],
            )?,
        };
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
        self.execute(
            "INSERT INTO symbol (image, address, size, name) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO NOTHING",
            params![image.row, to_sql(address), to_sql(size), name],
        )
    }
}

fn kind_name(kind: ImageKind) -> &'static str {
    match kind {
        ImageKind::File => "file",
        ImageKind::Vdso => "vdso",
        ImageKind::Kernel => "kernel",
        ImageKind::Anon => "anon",
    }
}
