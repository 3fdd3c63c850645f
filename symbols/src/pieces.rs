//! Reading a file piece by piece, within a limit for all pieces together.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use object::{ReadCache, ReadRef};

/// Bytes that may be held of all files that share it.
#[derive(Clone, Debug)]
pub struct Room(Rc<Cell<u64>>);

impl Room {
    /// Room for so many bytes.
    #[must_use]
    pub fn new(bytes: u64) -> Room {
        Room(Rc::new(Cell::new(bytes)))
    }

    /// Bytes that are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.0.get()
    }
}

/// A file whose bytes take from a room what they need, and give it back in the end.
#[derive(Debug)]
pub(crate) struct Metered {
    file: Rc<File>,
    room: Room,
    taken: u64,
    /// The reader's own position: others may read the same open file.
    position: u64,
}

impl Metered {
    fn take(&mut self, bytes: usize) -> io::Result<()> {
        let bytes = bytes as u64;
        let left = self.room.left().checked_sub(bytes);
        self.room.0.set(left.ok_or(io::ErrorKind::OutOfMemory)?);
        self.taken += bytes;
        Ok(())
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        self.room.0.set(self.room.left().saturating_add(self.taken));
    }
}

impl Read for Metered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.take(buffer.len())?;
        let read = self.file.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.take(buffer.len())?;
        self.file.read_exact_at(buffer, self.position)?;
        self.position += buffer.len() as u64;
        Ok(())
    }
}

impl Seek for Metered {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = match to {
            SeekFrom::Start(position) => position,
            SeekFrom::End(by) => self.file.metadata()?.len().saturating_add_signed(by),
            SeekFrom::Current(by) => self.position.saturating_add_signed(by),
        };
        Ok(self.position)
    }
}

/// Where bytes come from. What is read of a file is held as long as this is.
#[derive(Debug)]
pub(crate) enum Source {
    File {
        cache: Box<ReadCache<Metered>>,
        file: Rc<File>,
        room: Room,
    },
    Bytes(Rc<Vec<u8>>),
}

impl Source {
    pub(crate) fn of_file(file: File, room: &Room) -> Source {
        Source::of_shared(&Rc::new(file), room)
    }

    fn of_shared(file: &Rc<File>, room: &Room) -> Source {
        Source::File {
            cache: Box::new(ReadCache::new(Metered {
                file: Rc::clone(file),
                room: room.clone(),
                taken: 0,
                position: 0,
            })),
            file: Rc::clone(file),
            room: room.clone(),
        }
    }

    /// Gives `take` the bytes of a range, some at a time, without holding more than these. It is
    /// given an offset into the range and what is there, and says how much of that it is done with:
    /// the rest comes again with more behind it, as long as there is more.
    ///
    /// Fails where there is less room than all of it would take, so that a file of holes keeps
    /// nobody for long; where the file ends before, cannot be read, or has more than
    /// [`MOST_AT_ONCE`] without that anything can be done with it.
    pub(crate) fn scan(
        &self,
        range: Range<u64>,
        mut take: impl FnMut(u64, &[u8]) -> usize,
    ) -> Result<(), ()> {
        let (file, room) = match self {
            Source::File { file, room, .. } => (file, room),
            Source::Bytes(bytes) => {
                let range = usize::try_from(range.start)
                    .ok()
                    .zip(range.end.try_into().ok());
                let (start, end) = range.ok_or(())?;
                take(0, bytes.get(start..end).ok_or(())?);
                return Ok(());
            }
        };
        if range.end.saturating_sub(range.start) > room.left() {
            return Err(());
        }
        let mut buffer = Vec::new();
        let (mut offset, mut kept) = (range.start, 0);
        loop {
            let left = range.end.saturating_sub(offset) - kept as u64;
            let wanted = left.min(AT_ONCE as u64) as usize;
            if kept + wanted > MOST_AT_ONCE {
                return Err(());
            }
            buffer.resize(buffer.len().max(kept + wanted), 0);
            let (known, fresh) = buffer.split_at_mut(kept);
            let fresh = fresh.get_mut(..wanted).ok_or(())?;
            let at = offset + known.len() as u64;
            file.read_exact_at(fresh, at).map_err(drop)?;
            let whole = buffer.get(..kept + wanted).ok_or(())?;
            let done = take(offset - range.start, whole).min(whole.len());
            if wanted as u64 == left {
                return Ok(());
            }
            kept = whole.len() - done;
            buffer.copy_within(done..done + kept, 0);
            offset += done as u64;
        }
    }

    /// The same bytes, of which what is read is held apart.
    pub(crate) fn apart(&self) -> Source {
        match self {
            Source::File { file, room, .. } => Source::of_shared(file, room),
            Source::Bytes(bytes) => Source::Bytes(Rc::clone(bytes)),
        }
    }
}

/// Bytes that are read of what is looked through: they fit into a processor's cache.
const AT_ONCE: usize = 1 << 17;
/// And bytes that are looked at together at most, if nothing can be done with fewer.
const MOST_AT_ONCE: usize = 1 << 20;

/// The pieces of a [`Binary`](crate::Binary), for the parsers of `object`.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a>(pub(crate) &'a Source);

/// Names are looked up in pieces of this size, a little longer: a table has many of them, and few
/// reach further.
const CHUNK: u64 = 1 << 16;
const LONGER: u64 = 1 << 11;

impl<'a> ReadRef<'a> for Pieces<'a> {
    fn len(self) -> Result<u64, ()> {
        match self.0 {
            Source::File { cache, .. } => cache.len(),
            Source::Bytes(bytes) => Ok(bytes.len() as u64),
        }
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        match self.0 {
            Source::File { cache, .. } => {
                // Before anything is allocated for it.
                let end = offset.checked_add(size).ok_or(())?;
                if end > cache.len()? {
                    return Err(());
                }
                cache.read_bytes_at(offset, size)
            }
            Source::Bytes(bytes) => bytes.as_slice().read_bytes_at(offset, size),
        }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        if let Source::Bytes(bytes) = self.0 {
            return bytes.as_slice().read_bytes_at_until(range, delimiter);
        }
        let start = range.start / CHUNK * CHUNK;
        let left = self.len()?.checked_sub(start).ok_or(())?;
        let index = |at: u64| usize::try_from(at.saturating_sub(start)).map_err(|_| ());
        for size in [CHUNK + LONGER, 2 * CHUNK] {
            let chunk = self.read_bytes_at(start, size.min(left))?;
            let end = index(range.end)?.min(chunk.len());
            let text = chunk.get(index(range.start)?..end).ok_or(())?;
            if let Some(length) = memchr::memchr(delimiter, text) {
                return text.get(..length).ok_or(());
            }
        }
        Err(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name is found wherever it begins and ends in pieces, and one without an end is none.
    #[test]
    fn names_across_pieces() {
        use std::io::Write as _;

        let long = (LONGER * 2) as usize;
        let mut bytes = vec![0; 3 * CHUNK as usize];
        for (start, length) in [
            (10, 5),
            (CHUNK as usize - 3, 9),
            (2 * CHUNK as usize - 7, long),
        ] {
            bytes[start..start + length].fill(b'x');
        }
        let end = bytes.len();
        bytes[end - 4..].fill(b'x');
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&bytes).expect("is written");
        let source = Source::of_file(file, &Room::new(1 << 20));
        let length_at = |start: u64| {
            let text = Pieces(&source).read_bytes_at_until(start..bytes.len() as u64, 0);
            text.ok().map(<[u8]>::len)
        };
        assert_eq!(length_at(10), Some(5));
        assert_eq!(length_at(CHUNK - 3), Some(9));
        assert_eq!(length_at(2 * CHUNK - 7), Some(long));
        assert_eq!(length_at(20), Some(0));
        assert_eq!(length_at(end as u64 - 4), None);
    }

    /// What is looked through comes whole and in order, whatever is left for the next time. What is
    /// never done with is too much at some point, and what ends before it should is not all there.
    #[test]
    fn looking_through() {
        use std::io::Write as _;

        let bytes: Vec<u8> = (0..3 * AT_ONCE + 7).map(|at| (at % 251) as u8).collect();
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&bytes).expect("is written");
        let room = Room::new(bytes.len() as u64);
        for source in [
            Source::of_file(file, &room),
            Source::Bytes(Rc::new(bytes.clone())),
        ] {
            let mut seen = Vec::new();
            let looked = source.scan(5..bytes.len() as u64, |offset, some| {
                let offset = usize::try_from(offset).expect("an offset");
                assert_eq!(some, &bytes[5 + offset..][..some.len()]);
                seen.truncate(offset);
                seen.extend_from_slice(some);
                some.len() - some.len() % 1_000
            });
            assert!(looked.is_ok() && seen == bytes[5..]);
            assert!(
                source
                    .scan(0..bytes.len() as u64 + 1, |_, some| some.len())
                    .is_err()
            );
        }
        let long = tempfile::tempfile().expect("a file");
        long.set_len(1 << 40).expect("a long file");
        let again = long.try_clone().expect("the same file");
        let little = Source::of_file(again, &room);
        let looked = little.scan(0..1 << 40, |_, _| panic!("there is no room"));
        assert!(looked.is_err());
        let source = Source::of_file(long, &Room::new(u64::MAX));
        let mut most = 0;
        let looked = source.scan(0..1 << 40, |_, some| {
            most = most.max(some.len());
            0
        });
        assert!(looked.is_err() && most == MOST_AT_ONCE, "{most}");
    }

    /// Pieces take their room, and one that finds none is not read.
    #[test]
    fn room_is_kept() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(1 << 40).expect("a long file");
        let room = Room::new(100);
        let source = Source::of_file(file, &room);
        assert!(Pieces(&source).read_bytes_at(7, 101).is_err());
        assert!(Pieces(&source).read_bytes_at(1 << 39, 60).is_ok());
        assert!(Pieces(&source).read_bytes_at(0, 60).is_err());
        assert_eq!(room.left(), 40);
        drop(source);
        assert_eq!(room.left(), 100);
    }
}
