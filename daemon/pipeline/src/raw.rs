//! Raw recordings: everything that went into the collector, so that it can be run again.
//!
//! ```text
//! magic (8 bytes) | header | entry | entry | ...
//! ```
//! The header is JSON, an entry is in the format of postcard; each has its length and its checksum
//! before it (CRC-32 of length and bytes; four bytes each, little-endian). Entries are the records
//! in order of time, and what else was done between them; behind each stand the answers that the
//! collector got about processes meanwhile. The last one says that it is the last.
//!
//! A recording holds registers, stacks and memory of other people's programs: the file is readable
//! by its owner alone, and samples in denied images and of processes that are not dumpable are
//! written without any of it.

mod error;

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sampler::{MmapIdentity, Pid, Record, SignalHandlers};
use serde::{Deserialize, Serialize};

pub use self::error::Error;
use machine::host::Answer;
use machine::system::page_check::PageEvidence;

const MAGIC: &[u8; 8] = b"VCPIRAW\x0a";
/// The versions before, which have less: they are read as well.
const MAGICS_BEFORE: [&[u8; 8]; 2] = [b"VCPIRAW\x08", b"VCPIRAW\x09"];
/// What it begins with in all versions.
const MAGIC_OF_ALL: &[u8] = b"VCPIRAW";
/// The longest entry: far more than any record needs.
const MAX_ENTRY: u32 = 64 << 20;

/// What must be known to run the collector again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version of vcpid.
    pub version: String,
    /// When the recording began, ns of the Unix epoch.
    pub started: i64,
    /// Name of the machine.
    pub host: String,
    /// Release of its kernel.
    pub kernel: String,
    /// Build id of the kernel in hexadecimal.
    pub kernel_build_id: Option<String>,
    /// The address of the kernel's code.
    pub kernel_text: u64,
    /// The command that was recorded.
    pub command: String,
    /// What took the samples.
    pub engine: String,
    /// The clock of the samples.
    pub clock: String,
    /// The unit of that clock.
    pub unit: String,
    /// Cycles of the processor in a unit.
    pub cycles_per_unit: f64,
    /// Mean interval between samples, in the clock's unit.
    pub period: u64,
    /// [`Settings::window`](crate::collector::Settings::window).
    pub window: u32,
    /// [`Settings::capture`](crate::collector::Settings::capture), by name.
    pub capture: String,
    /// [`Settings::by_caller`](crate::collector::Settings::by_caller).
    pub by_caller: bool,
    /// [`Settings::seed`](crate::collector::Settings::seed).
    pub seed: u64,
    /// [`Settings::allow_secrets`](crate::collector::Settings::allow_secrets).
    pub allow_secrets: bool,
    /// Wall clock minus sample clock, ns.
    pub clock_offset: i64,
    /// The collector's own process.
    pub own_pid: u32,
    /// What the processor has, by the kernel's names. Older recordings do not say.
    #[serde(default)]
    pub processor: String,
}

impl CollectorInput {
    /// A record, with all that is known of it.
    pub(crate) fn of(record: Record, evidence: Option<PageEvidence>) -> Self {
        let capture = match &record {
            Record::Sample(sample) => sample.capture.as_ref(),
            _ => None,
        };
        match capture.and_then(|capture| capture.handlers) {
            Some(handlers) => Self::Handled(record, evidence, handlers),
            None => Self::Record(record, evidence),
        }
    }
}

/// Puts into a sample what its record had no room for.
pub fn with_handlers(mut record: Record, handlers: SignalHandlers) -> Record {
    if let Record::Sample(sample) = &mut record
        && let Some(capture) = &mut sample.capture
    {
        capture.handlers = Some(handlers);
    }
    record
}

/// One thing that went into the collector.
#[derive(Debug, Serialize, Deserialize)]
pub enum CollectorInput {
    /// A record, and what the page check found for it.
    Record(Record, Option<PageEvidence>),
    /// What the machine said when it was asked about a process.
    Answer(Pid, Answer),
    /// A process that ran already was read at this time.
    Scan(Pid, u64),
    /// A flush was due here.
    Flush,
    /// Nothing comes any more: the collector ended in good order.
    End,
    /// A sample with what its record has no room for: which exceptions the program had handlers
    /// for.
    Handled(Record, Option<PageEvidence>, SignalHandlers),
    /// Somebody may write a file through a mapping.
    Written(MmapIdentity),
}

/// Writes a recording.
#[derive(Debug)]
pub struct Writer {
    file: BufWriter<File>,
    buffer: Vec<u8>,
    /// The first write that failed; nothing is written after it.
    failed: Option<io::Error>,
}

impl Writer {
    /// Makes a new file, readable by its owner alone. One that is there already is left as it is.
    ///
    /// # Errors
    /// There is a file, or there can be none.
    pub fn create(path: &Path, header: &Header) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path);
        let file = file.map_err(|error| refusal(path, error))?;
        let mut file = BufWriter::with_capacity(1 << 18, file);
        serde_json::to_vec(header)
            .map_err(io::Error::from)
            .and_then(|header| {
                file.write_all(MAGIC)?;
                write_entry(&mut file, &header)?;
                // An empty file would be anybody's.
                file.flush()
            })
            .map_err(|error| Error::Write(path.to_owned(), error))?;
        Ok(Self {
            file,
            buffer: Vec::new(),
            failed: None,
        })
    }

    /// Adds an entry. A failure is kept until [`Self::finish`]: a full disk must not stop the
    /// collection.
    pub(crate) fn write(&mut self, entry: &CollectorInput) {
        if self.failed.is_some() {
            return;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        match postcard::to_extend(entry, buffer) {
            Ok(bytes) => {
                if let Err(error) = write_entry(&mut self.file, &bytes) {
                    self.failed = Some(error);
                }
                self.buffer = bytes;
            }
            Err(error) => self.failed = Some(io::Error::other(error)),
        }
    }

    /// Writes the end and what is buffered.
    ///
    /// # Errors
    /// The first failure of any write.
    pub fn finish(mut self) -> io::Result<()> {
        self.write(&CollectorInput::End);
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.file.flush(),
        }
    }
}

/// Why there can be no new file.
fn refusal(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists(path.to_owned()),
        _ => Error::Make(path.to_owned(), error),
    }
}

fn write_entry(file: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    file.write_all(&len.to_le_bytes())?;
    file.write_all(&checksum(len, bytes).to_le_bytes())?;
    file.write_all(bytes)
}

/// Of an entry, its length included: zeros, as a file has that was not written in full, are no
/// entry.
fn checksum(len: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&len.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// What reading says of a file that ends within an entry.
fn cut(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            io::Error::other("the file ends within it: its collector was killed, or the file cut")
        }
        _ => error,
    }
}

/// Reads a recording.
#[derive(Debug)]
pub struct Reader {
    file: BufReader<File>,
    buffer: Vec<u8>,
    /// Entries read so far, for messages.
    entries: u64,
    /// The last entry was read.
    ended: bool,
}

impl Reader {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// The file cannot be read, or is no recording of this version or the one before.
    pub fn open(path: &Path) -> Result<(Self, Header), Error> {
        let named = || path.to_owned();
        let file = File::open(path).map_err(|error| Error::Open(named(), error))?;
        let mut reader = Self {
            file: BufReader::with_capacity(1 << 18, file),
            buffer: Vec::new(),
            entries: 0,
            ended: false,
        };
        let mut magic = [0; MAGIC.len()];
        let read = reader.file.read_exact(&mut magic);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::Short(named()),
            _ => Error::Header(named(), error.into()),
        })?;
        if &magic != MAGIC && !MAGICS_BEFORE.contains(&&magic) {
            return Err(match magic.starts_with(MAGIC_OF_ALL) {
                true => Error::Version {
                    path: named(),
                    version: magic[7],
                },
                false => Error::Foreign(named()),
            });
        }
        let filled = reader.fill();
        if !filled.map_err(|error| Error::Header(named(), error.into()))? {
            return Err(Error::NoHeader(named()));
        }
        let header = serde_json::from_slice(&reader.buffer);
        let header = header.map_err(|error| Error::Header(named(), error.into()))?;
        Ok((reader, header))
    }

    /// The next entry; `None` at the end.
    ///
    /// # Errors
    /// A file that ends before its end, or holds something else than what was written.
    pub fn next_entry(&mut self) -> Result<Option<CollectorInput>, Error> {
        let at = self.entries;
        let filled = self.fill();
        if !filled.map_err(|error| Error::Damaged(at, error.into()))? {
            if self.ended {
                return Ok(None);
            }
            return Err(Error::Cut(at));
        }
        self.entries += 1;
        let entry = postcard::from_bytes(&self.buffer);
        match entry.map_err(|error| Error::Damaged(at, error.into()))? {
            _ if self.ended => Err(Error::BehindEnd(at)),
            CollectorInput::End => {
                self.ended = true;
                self.next_entry()
            }
            entry => Ok(Some(entry)),
        }
    }

    /// Reads a length, a checksum and as many bytes; false at the end of the file.
    fn fill(&mut self) -> io::Result<bool> {
        let mut before = [0; 8];
        if self.file.by_ref().take(1).read(&mut before[..1])? == 0 {
            return Ok(false);
        }
        self.file.read_exact(&mut before[1..]).map_err(cut)?;
        let [a, b, c, d, e, f, g, h] = before;
        let (len, expected) = (
            u32::from_le_bytes([a, b, c, d]),
            u32::from_le_bytes([e, f, g, h]),
        );
        if len > MAX_ENTRY {
            return Err(io::Error::other(format!(
                "it claims to have {len} bytes, which no entry has"
            )));
        }
        self.buffer.clear();
        // Grows with what is there, whatever the length claims.
        let read = self
            .file
            .by_ref()
            .take(len.into())
            .read_to_end(&mut self.buffer)?;
        if read < len as usize {
            return Err(cut(io::ErrorKind::UnexpectedEof.into()));
        }
        if checksum(len, &self.buffer) != expected {
            return Err(io::Error::other("its checksum is not that of its bytes"));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            version: "1".to_owned(),
            started: 1,
            host: String::new(),
            kernel: String::new(),
            kernel_build_id: None,
            kernel_text: 0,
            command: "x".to_owned(),
            engine: "ring".to_owned(),
            clock: "cpu-clock".to_owned(),
            unit: "ns".to_owned(),
            cycles_per_unit: 1.5,
            period: 9,
            window: 16,
            capture: "dest".to_owned(),
            by_caller: false,
            seed: 3,
            allow_secrets: false,
            clock_offset: -5,
            own_pid: 7,
            processor: "sse2 avx2".to_owned(),
        }
    }

    /// What was read ahead has the number that it had in recordings of versions that went by plans.
    #[test]
    fn outcomes() {
        use sampler::{Outcome, PlanFailure, WayEnd};
        let cause = PlanFailure::Forbidden;
        let (tag, step) = (7, 3);
        let wanted: [(&[u8], Outcome); 8] = [
            (&[0], Outcome::NotTried),
            (&[1, 7], Outcome::Complete { tag }),
            (&[2, 7, 3, 1], Outcome::Failed { tag, step, cause }),
            (&[3, 7], Outcome::Thinned { tag }),
            (&[4], Outcome::MemoryDenied),
            (&[5], Outcome::ValuesDenied),
            (&[6], Outcome::NotDumpable),
            (
                &[7, 0],
                Outcome::Followed {
                    end: WayEnd::Length,
                },
            ),
        ];
        for (bytes, outcome) in wanted {
            assert_eq!(postcard::from_bytes(bytes), Ok(outcome));
        }
    }

    /// What is written is read again; a file cut anywhere is said to be so, as is one with a bit of
    /// any byte changed, and hostile lengths allocate nothing.
    #[test]
    fn written_and_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("raw");
        let mut writer = Writer::create(&path, &header()).expect("a file");
        for time in [1, 2] {
            writer.write(&CollectorInput::Record(Record::Throttle { time }, None));
        }
        writer.write(&CollectorInput::Answer(
            Pid(3),
            Answer::Comm(Some("c".to_owned())),
        ));
        writer.finish().expect("written");
        assert!(
            Writer::create(&path, &header()).is_err(),
            "it is there already"
        );

        let bytes = std::fs::read(&path).expect("bytes");
        let read = |bytes: &[u8]| -> Result<usize, Box<dyn std::error::Error>> {
            std::fs::write(&path, bytes)?;
            let (mut reader, read) = Reader::open(&path)?;
            assert_eq!(read, header());
            let mut entries = 0;
            while reader.next_entry()?.is_some() {
                entries += 1;
            }
            Ok(entries)
        };
        assert_eq!(read(&bytes).expect("all of it"), 3);
        assert!((0..bytes.len()).all(|len| read(&bytes[..len]).is_err()));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            assert!(read(&changed).is_err(), "byte {at}");
        }
        let mut hostile = bytes.clone();
        hostile.extend([0xff; 4]);
        assert!(read(&hostile).is_err());
    }
}
