//! Encodings of instructions.

use super::bytes::{Reader, put};
use super::head::{Ids, pack, unpack};
use super::{Bad, CODE_BITS, Encoding, address_in, later, offset_of};
use crate::MAX_INSTRUCTION;

/// Packs the encodings at addresses of one bucket, which lie in order.
pub(crate) fn encode_code(rows: &[Encoding]) -> Vec<u8> {
    let (mut addresses, mut lengths, mut all) = (Vec::new(), Vec::new(), Vec::new());
    let mut offset = 0;
    for (address, bytes) in rows {
        let next = offset_of(CODE_BITS, *address);
        put(&mut addresses, next - offset);
        offset = next;
        // At most 15.
        lengths.push(bytes.len() as u8);
        all.extend_from_slice(bytes);
    }
    pack(&Ids::default(), rows.len(), &[&addresses, &lengths, &all])
}

/// Unpacks encodings.
pub(crate) fn decode_code(bucket: u64, blob: &[u8]) -> Result<Vec<Encoding>, Bad> {
    let unpacked = unpack(blob)?;
    let [mut addresses, mut lengths, mut all]: [Reader<'_>; 3] = unpacked.columns()?;
    let mut rows: Vec<Encoding> = Vec::with_capacity(unpacked.front.rows);
    let mut offset = 0;
    for _ in 0..unpacked.front.rows {
        offset = later(CODE_BITS, offset, addresses.number()?)?;
        let address = address_in(CODE_BITS, bucket, offset);
        if rows.last().is_some_and(|(last, _)| *last >= address) {
            return Err(Bad("has its rows out of order"));
        }
        let length = usize::from(lengths.byte()?);
        if !(1..=MAX_INSTRUCTION).contains(&length) {
            return Err(Bad("has an instruction of no or more than 15 bytes"));
        }
        rows.push((address, all.take(length)?.to_vec()));
    }
    for column in [addresses, lengths, all] {
        column.end()?;
    }
    Ok(rows)
}
