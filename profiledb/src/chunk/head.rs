//! What is around the columns: version, checksum, dictionaries, and the compression.

use std::cell::RefCell;

use zstd::bulk::{Compressor, Decompressor};

use super::bytes::{Reader, folded, put, put_real};
use super::{Bad, MOST_RAW};

/// The first byte of a blob.
const VERSION: u8 = 1;
/// That of a blob with sums in front of its columns, which need not be unpacked for them.
const WITH_SUMS: u8 = 2;

/// Bytes in front of what the checksum is of.
pub(super) const FRONT: usize = 5;

/// The level of the compression. See `docs/decisions/066-packed-flushes.md` for what others cost
/// and save.
const LEVEL: i32 = 3;

/// Ids that rows refer to, by their place.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ids {
    /// Lists that were reached less often than this were kept by a draw; 0: none were.
    pub(crate) tau: f64,
    /// Rows of the table `process`, with how even its windows came for each window; 0: not known.
    pub(crate) processes: Vec<(i64, f32)>,
    /// Rows of the table `image`, of callers and callees.
    pub(crate) images: Vec<i64>,
    /// Rows of the table `parameter`.
    pub(crate) parameters: Vec<i64>,
}

impl Ids {
    /// Those of rows that are neither kept by a draw nor known by windows.
    pub(super) fn of_places(processes: Dictionary, images: Dictionary) -> Ids {
        let processes = processes.into_ids().into_iter();
        Ids {
            tau: 0.0,
            processes: processes.map(|id| (id, 0.0)).collect(),
            images: images.into_ids(),
            parameters: Vec::new(),
        }
    }
}

/// What interrupts of a blob add up to: how many they are, and what they stand for.
pub(super) type Sums = (u64, u64);

/// Packs columns.
pub(super) fn pack(ids: &Ids, rows: usize, columns: &[&[u8]]) -> Vec<u8> {
    pack_with(ids, rows, columns, None)
}

/// As [`pack`], with sums in front.
pub(super) fn pack_with(ids: &Ids, rows: usize, columns: &[&[u8]], sums: Option<Sums>) -> Vec<u8> {
    let mut raw = Vec::with_capacity(columns.iter().map(|column| column.len() + 3).sum());
    for column in columns {
        put(&mut raw, column.len() as u64);
    }
    for column in columns {
        raw.extend_from_slice(column);
    }
    let mut blob = vec![0; FRONT];
    write_ids(&mut blob, ids);
    put(&mut blob, rows as u64);
    if let Some((samples, weight)) = sums {
        blob[0] = WITH_SUMS;
        put(&mut blob, samples);
        put(&mut blob, weight);
    }
    put(&mut blob, raw.len() as u64);
    compress(&raw, &mut blob);
    seal(&mut blob);
    blob
}

/// Sets the checksum, and the version unless it is set.
pub(super) fn seal(blob: &mut [u8]) {
    let sum = crc32fast::hash(&blob[FRONT..]);
    if blob[0] == 0 {
        blob[0] = VERSION;
    }
    blob[1..FRONT].copy_from_slice(&sum.to_le_bytes());
}

fn write_ids(blob: &mut Vec<u8>, ids: &Ids) {
    put_real(blob, ids.tau);
    put(blob, ids.processes.len() as u64);
    let mut last = 0;
    for &(process, even) in &ids.processes {
        put_difference(blob, &mut last, process);
        let is_known = even > 0.0;
        blob.push(u8::from(is_known));
        if is_known {
            blob.extend(even.to_le_bytes());
        }
    }
    for dictionary in [&ids.images, &ids.parameters] {
        put(blob, dictionary.len() as u64);
        let mut last = 0;
        for &id in dictionary {
            put_difference(blob, &mut last, id);
        }
    }
}

fn put_difference(blob: &mut Vec<u8>, last: &mut i64, id: i64) {
    put(blob, folded(id.wrapping_sub(*last)));
    *last = id;
}

fn read_ids(reader: &mut Reader<'_>) -> Result<Ids, Bad> {
    let tau = reader.real()?;
    let count = reader.count(reader.left())?;
    let mut processes = Vec::with_capacity(count);
    let mut last = 0;
    for _ in 0..count {
        let process = difference(reader, &mut last)?;
        let even = match reader.byte()? {
            0 => 0.0,
            1 => f32::from_le_bytes(reader.array()?),
            _ => return Err(Bad("has an evenness of no known kind")),
        };
        if !(0.0..=1.0).contains(&even) {
            return Err(Bad("has windows that are more than even"));
        }
        processes.push((process, even));
    }
    let mut dictionary = || {
        let count = reader.count(reader.left())?;
        let mut ids = Vec::with_capacity(count);
        let mut last = 0;
        for _ in 0..count {
            ids.push(difference(reader, &mut last)?);
        }
        Ok(ids)
    };
    Ok(Ids {
        tau,
        processes,
        images: dictionary()?,
        parameters: dictionary()?,
    })
}

fn difference(reader: &mut Reader<'_>, last: &mut i64) -> Result<i64, Bad> {
    *last = last.wrapping_add(reader.signed()?);
    Ok(*last)
}

thread_local! {
    // Setting one up costs more than a small blob.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Appends the compressed bytes, or these themselves if that cannot be.
fn compress(raw: &[u8], blob: &mut Vec<u8>) {
    let compressed = COMPRESSOR.with_borrow_mut(|kept| {
        if kept.is_none() {
            *kept = Compressor::new(LEVEL).ok();
        }
        kept.as_mut()?.compress(raw).ok()
    });
    match compressed.filter(|compressed| compressed.len() < raw.len()) {
        Some(compressed) => {
            blob.push(1);
            blob.extend(compressed);
        }
        None => {
            blob.push(0);
            blob.extend(raw);
        }
    }
}

fn decompress(reader: &mut Reader<'_>, length: usize) -> Result<Vec<u8>, Bad> {
    let is_compressed = reader.byte()?;
    let bytes = reader.take(reader.left())?;
    let raw = match is_compressed {
        0 => bytes.to_vec(),
        1 => {
            let raw = DECOMPRESSOR.with_borrow_mut(|kept| {
                if kept.is_none() {
                    *kept = Decompressor::new().ok();
                }
                kept.as_mut()?.decompress(bytes, length).ok()
            });
            raw.ok_or(Bad("cannot be decompressed"))?
        }
        _ => return Err(Bad("is compressed in an unknown way")),
    };
    match raw.len() == length {
        true => Ok(raw),
        false => Err(Bad("has not the length that it says")),
    }
}

/// A blob whose columns can be read.
pub(super) struct Unpacked {
    pub(super) front: Front,
    raw: Vec<u8>,
}

/// What stands in front of the columns.
pub(super) struct Front {
    pub(super) ids: Ids,
    pub(super) rows: usize,
    /// What its interrupts add up to, where it says that.
    pub(super) sums: Option<Sums>,
    length: usize,
}

impl Front {
    /// Unpacks the columns, which follow in the reader.
    pub(super) fn unpack(self, mut reader: Reader<'_>) -> Result<Unpacked, Bad> {
        let raw = decompress(&mut reader, self.length)?;
        Ok(Unpacked { front: self, raw })
    }

    /// Checks that this is what all interrupts add up to, where the blob says that.
    pub(super) fn check(&self, all: Sums) -> Result<(), Bad> {
        match self.sums {
            Some(sums) if sums != all => Err(Bad("has not the sums that it says")),
            _ => Ok(()),
        }
    }
}

/// Checks a blob as a whole, and reads what is in front of its columns, which follow in the reader.
pub(super) fn open(blob: &[u8]) -> Result<(Front, Reader<'_>), Bad> {
    let (mut reader, version) = checked(blob)?;
    let ids = read_ids(&mut reader)?;
    let rows = reader.number()?;
    let sums = match version {
        WITH_SUMS => Some((reader.number()?, reader.number()?)),
        _ => None,
    };
    let length = usize::try_from(reader.number()?).unwrap_or(usize::MAX);
    if length > MOST_RAW {
        return Err(Bad("says that it is larger than any"));
    }
    // Each row has a byte of its own in some column.
    let rows = usize::try_from(rows).unwrap_or(usize::MAX);
    if rows > length {
        return Err(Bad("says that it has more rows than it can"));
    }
    let front = Front {
        ids,
        rows,
        sums,
        length,
    };
    Ok((front, reader))
}

/// Checks a blob as a whole, and unpacks it.
pub(super) fn unpack(blob: &[u8]) -> Result<Unpacked, Bad> {
    let (front, reader) = open(blob)?;
    front.unpack(reader)
}

/// The parameters that the lists of a blob are of.
pub(crate) fn parameters(blob: &[u8]) -> Result<Vec<i64>, Bad> {
    Ok(read_ids(&mut checked(blob)?.0)?.parameters)
}

/// The same blob under other ids; `None`, if one of its ids has no other.
pub(crate) fn relabelled(
    blob: &[u8],
    process: impl Fn(i64) -> Option<i64>,
    image: impl Fn(i64) -> Option<i64>,
    parameter: impl Fn(i64) -> Option<i64>,
) -> Result<Option<Vec<u8>>, Bad> {
    let (mut reader, version) = checked(blob)?;
    let ids = read_ids(&mut reader)?;
    let all = |ids: &[i64], new: &dyn Fn(i64) -> Option<i64>| -> Option<Vec<i64>> {
        ids.iter().map(|id| new(*id)).collect()
    };
    let of_processes = ids.processes.iter();
    let processes = of_processes.map(|(id, even)| Some((process(*id)?, *even)));
    let (Some(processes), Some(images), Some(parameters)) = (
        processes.collect(),
        all(&ids.images, &image),
        all(&ids.parameters, &parameter),
    ) else {
        return Ok(None);
    };
    let ids = Ids {
        tau: ids.tau,
        processes,
        images,
        parameters,
    };
    let mut other = vec![0; FRONT];
    other[0] = version;
    write_ids(&mut other, &ids);
    other.extend_from_slice(reader.take(reader.left())?);
    seal(&mut other);
    Ok(Some(other))
}

/// What is behind the checksum, and the version.
fn checked(blob: &[u8]) -> Result<(Reader<'_>, u8), Bad> {
    let mut reader = Reader::new(blob);
    let version = reader.byte()?;
    if ![VERSION, WITH_SUMS].contains(&version) {
        return Err(Bad("is of a version that is not known"));
    }
    let sum = u32::from_le_bytes(reader.array()?);
    let rest = blob.get(FRONT..).unwrap_or_default();
    match crc32fast::hash(rest) == sum {
        true => Ok((reader, version)),
        false => Err(Bad("has not the checksum that it says")),
    }
}

impl Unpacked {
    /// Its columns.
    pub(super) fn columns<const N: usize>(&self) -> Result<[Reader<'_>; N], Bad> {
        let mut all = Reader::new(&self.raw);
        let mut lengths = [0; N];
        for length in &mut lengths {
            *length = usize::try_from(all.number()?).unwrap_or(usize::MAX);
        }
        let mut columns = [Reader::new(&[]); N];
        for (column, length) in columns.iter_mut().zip(lengths) {
            *column = Reader::new(all.take(length)?);
        }
        all.end()?;
        Ok(columns)
    }

    pub(super) fn process(&self, index: usize) -> Result<(i64, f32), Bad> {
        let process = self.front.ids.processes.get(index).copied();
        process.ok_or(Bad("refers to a process that it does not name"))
    }

    pub(super) fn image(&self, index: usize) -> Result<i64, Bad> {
        let image = self.front.ids.images.get(index).copied();
        image.ok_or(Bad("refers to an image that it does not name"))
    }
}

/// Finds the place of each id in a dictionary that is being made.
#[derive(Default)]
pub(super) struct Dictionary {
    ids: Vec<i64>,
}

impl Dictionary {
    pub(super) fn of(ids: impl Iterator<Item = i64>) -> Self {
        let mut ids: Vec<i64> = ids.collect();
        ids.sort_unstable();
        ids.dedup();
        Self { ids }
    }

    pub(super) fn place(&self, id: i64) -> u64 {
        self.ids.partition_point(|known| *known < id) as u64
    }

    pub(super) fn into_ids(self) -> Vec<i64> {
        self.ids
    }
}

/// The same blob with its columns as they are, not compressed.
#[cfg(test)]
pub(super) fn plain(blob: &[u8]) -> Result<Vec<u8>, Bad> {
    let sums = open(blob)?.0.sums;
    with_sums(blob, sums)
}

/// The same with other sums in front, or none.
#[cfg(test)]
pub(super) fn with_sums(blob: &[u8], sums: Option<Sums>) -> Result<Vec<u8>, Bad> {
    let unpacked = unpack(blob)?;
    let mut plain = vec![0; FRONT];
    write_ids(&mut plain, &unpacked.front.ids);
    put(&mut plain, unpacked.front.rows as u64);
    if let Some((samples, weight)) = sums {
        plain[0] = WITH_SUMS;
        put(&mut plain, samples);
        put(&mut plain, weight);
    }
    put(&mut plain, unpacked.raw.len() as u64);
    plain.push(0);
    plain.extend(unpacked.raw);
    seal(&mut plain);
    Ok(plain)
}
