//! Function ranges of the unwind table.

use std::collections::BTreeMap;

use gimli::UnwindSection as _;

use crate::headers::{AnyHeaders, of_either};

/// Start to end of each row of `.eh_frame`, whose bytes are `data`; `None` where there is none.
pub(crate) fn frames(headers: &AnyHeaders<'_>, data: &[u8]) -> Option<BTreeMap<u64, u64>> {
    let address_of = |name| of_either!(headers, file => Some(file.range(file.section(name)?.1).0));
    let mut bases = gimli::BaseAddresses::default().set_eh_frame(address_of(".eh_frame")?);
    if let Some(text) = address_of(".text") {
        bases = bases.set_text(text);
    }
    if let Some(got) = address_of(".got") {
        bases = bases.set_got(got);
    }
    let mut unwind = gimli::EhFrame::new(data, gimli::LittleEndian);
    unwind.set_address_size(if headers.is_64() { 8 } else { 4 });
    let mut entries = unwind.entries(&bases);
    let mut frames = Vec::new();
    // What rows have in common stands before many of them, and is parsed once.
    let mut last: Option<(gimli::EhFrameOffset, gimli::CommonInformationEntry<_>)> = None;
    let mut common = |section: &gimli::EhFrame<_>, bases: &gimli::BaseAddresses, at| match &last {
        Some((known, common)) if *known == at => Ok(common.clone()),
        _ => {
            let common = section.cie_from_offset(bases, at)?;
            last = Some((at, common.clone()));
            Ok(common)
        }
    };
    // Every entry consumes bytes of the section, so this ends.
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let Ok(frame) = partial.parse(&mut common) else {
            continue;
        };
        let start = frame.initial_address();
        if let Some(end) = start.checked_add(frame.len()).filter(|end| *end > start) {
            frames.push((start, end));
        }
    }
    // Of rows with the same start the last one counts.
    Some(frames.into_iter().collect())
}
