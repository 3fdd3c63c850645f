//! Programs that move their text to anonymous memory at the same addresses, to have it in huge
//! pages.
//!
//! What lies there then is the file's code if it is so byte by byte, and cannot be written. That is
//! looked at once, when the memory becomes executable; a later change of rights is a new mapping.

use addresses::{ProcessAddress, ProcessRange};
use sampler::Pid;

use super::Process;
use crate::images::Images;
use crate::mapping::Mapping;
use crate::system::procfs;

/// Bytes that are compared at most.
const MAX_TEXT: u64 = 128 << 20;
/// Texts of a process that gave way to anonymous memory, of which so many are remembered.
const MAX_TEXTS: usize = 8;
/// Bytes that are compared at once.
const PIECE: usize = 1 << 20;

/// Takes note of a program's text that an anonymous mapping takes the place of.
pub(super) fn note(process: &mut Process, mapping: &Mapping) {
    let last = ProcessAddress(mapping.range.end.0.saturating_sub(1));
    for address in [mapping.range.start, last] {
        if let Some(old) = process.maps.find(address)
            && old.is_file()
            && old.executable
            && !process.texts.contains(old)
        {
            if process.texts.len() >= MAX_TEXTS {
                process.texts.remove(0);
            }
            process.texts.push(*old);
        }
    }
}

/// An executable mapping as one of the text that lay at its addresses, if it holds that.
pub(super) fn text_of(
    mapping: &Mapping,
    process: &Process,
    live: Option<Pid>,
    images: &mut Images,
) -> Option<Mapping> {
    let pid = live?;
    if mapping.is_writable() || mapping.range.bytes() > MAX_TEXT {
        return None;
    }
    let covers = |text: &&Mapping| text.range.covers(mapping.range);
    let known = process.texts.iter().rev().filter(covers);
    // Of a process that ran before the start, what was there before is not known: the file goes on.
    let in_front = mapping.range.start.0.checked_sub(1);
    let in_front = in_front.and_then(|address| process.maps.find(ProcessAddress(address)));
    let in_front = in_front.filter(|front| front.is_file());
    let candidates: Vec<Mapping> = known.chain(in_front).copied().collect();
    candidates.into_iter().find_map(|text| {
        let moved = mapping.moved(&text);
        let through = Some((pid, text.range));
        holds(&moved, pid, through, images).then_some(moved)
    })
}

/// Whether memory holds what the file has at a mapping's place.
fn holds(
    mapping: &Mapping,
    pid: Pid,
    through: Option<(Pid, ProcessRange)>,
    images: &mut Images,
) -> bool {
    let Some(elf) = images.elf(mapping.image, through) else {
        return false;
    };
    if mapping.bias(&elf.segments).is_none() {
        return false;
    }
    let Some(memory) = procfs::memory(pid) else {
        return false;
    };
    let (mut there, mut file) = (vec![0; PIECE], vec![0; PIECE]);
    let mut done = 0;
    while done < mapping.range.bytes() {
        let left = mapping.range.bytes() - done;
        let length = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        let (there, file) = (&mut there[..length], &mut file[..length]);
        file.fill(0);
        let read = memory.read(mapping.range.start.0 + done, there);
        if !read || !elf.contents.read(mapping.file_offset + done, file) || there != file {
            return false;
        }
        done += length as u64;
    }
    true
}
