//! Rows that others refer to: images with their symbols, access tags, processes, PCs. Each is written
//! once, whatever flush needs it, and found again by what it says.

use rusqlite::{OptionalExtension, params};

use super::Flush;
use crate::intern::KnownPc;
use crate::rows::{Image, ImageKind, Process, Subject};
use crate::writer::{ImageId, PcId, ProcessId, SubjectId};
use crate::{Error, MAX_INSTRUCTION, to_sql};

impl Flush<'_> {
    /// The id of an image, known by kind, identity and path.
    ///
    /// # Errors
    /// Those of the database.
    pub fn image(&mut self, image: &Image) -> Result<ImageId, Error> {
        if let Some(row) = self.writer.caches.images.get(image) {
            return Ok(ImageId {
                generation: self.generation(),
                row,
            });
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
        Ok(ImageId {
            generation: self.generation(),
            row,
        })
    }

    /// The id of an access tag.
    ///
    /// # Errors
    /// Those of the database.
    pub fn subject(&mut self, subject: &Subject) -> Result<SubjectId, Error> {
        if let Some(row) = self.writer.caches.subjects.get(subject) {
            return Ok(SubjectId {
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
        Ok(SubjectId {
            generation: self.generation(),
            row,
        })
    }

    /// The id of a process, known by pid, start and execs; its first name stays.
    ///
    /// # Errors
    /// Those of the database.
    pub fn process(&mut self, process: &Process) -> Result<ProcessId, Error> {
        let key = (process.pid, process.started, process.execs);
        if let Some(row) = self.writer.caches.processes.get(&key) {
            return Ok(ProcessId {
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
        Ok(ProcessId {
            generation: self.generation(),
            row,
        })
    }

    /// The id of the instruction at `address` of an image, with its encoding where it was
    /// read. The first encoding that is given stays.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an encoding of no or more than 15 bytes, [`Error::StaleId`],
    /// and those of the database.
    pub fn pc(
        &mut self,
        image: ImageId,
        address: u64,
        bytes: Option<&[u8]>,
    ) -> Result<PcId, Error> {
        self.check(image.generation)?;
        if let Some(bytes) = bytes
            && !(1..=MAX_INSTRUCTION).contains(&bytes.len())
        {
            return Err(Error::Invalid {
                what: format!("an instruction of {} bytes", bytes.len()),
            });
        }
        let generation = image.generation;
        let key = (image.row, address);
        let known = match self.writer.caches.pcs.get(&key) {
            Some(known) => Some(known),
            None => self.find_pc(image.row, address)?.inspect(|found| {
                self.writer.caches.pcs.put(key, *found);
            }),
        };
        if let Some(KnownPc { row, has_bytes }) = known
            && (has_bytes || bytes.is_none())
        {
            return Ok(PcId { generation, row });
        }
        let row = match known {
            Some(KnownPc { row, .. }) => {
                self.execute(
                    "UPDATE pc SET bytes = ?1 WHERE id = ?2",
                    params![bytes, row],
                )?;
                row
            }
            None => self.insert(
                "INSERT INTO pc (image, address, bytes) VALUES (?1, ?2, ?3)",
                params![image.row, to_sql(address), bytes],
            )?,
        };
        let has_bytes = bytes.is_some();
        self.writer.caches.pcs.put(key, KnownPc { row, has_bytes });
        Ok(PcId { generation, row })
    }

    /// Whether an instruction is one that no flush before this one had.
    pub fn is_new(&self, pc: PcId) -> bool {
        pc.row > self.last_pc_before
    }

    fn find_pc(&mut self, image: i64, address: u64) -> Result<Option<KnownPc>, Error> {
        self.run(
            "SELECT id, bytes IS NOT NULL FROM pc WHERE image = ?1 AND address = ?2",
            |statement| {
                statement
                    .query_row(params![image, to_sql(address)], |row| {
                        Ok(KnownPc {
                            row: row.get(0)?,
                            has_bytes: row.get(1)?,
                        })
                    })
                    .optional()
            },
        )
    }

    /// Names the function at `address`; `size` is 0 where it is not known. The first name
    /// of an address stays.
    ///
    /// # Errors
    /// [`Error::StaleId`], and those of the database.
    pub fn symbol(
        &mut self,
        image: ImageId,
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
