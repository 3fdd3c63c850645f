//! The code that was mapped in a process: what may have moved the bases of FS and GS.

use addresses::ProcessRange;

use crate::mapping::Mapping;
use crate::place::ImageId;

/// The code that was mapped in one process since it began.
#[derive(Clone, Debug, Default)]
pub(crate) struct CodeSeen {
    /// What is as the files have it.
    pub(crate) of_files: Vec<CodeOfFile>,
    /// Some was of no file, or could be written.
    pub(crate) has_other: bool,
}

/// Code as it was mapped from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodeOfFile {
    pub(crate) image: ImageId,
    pub(crate) range: ProcessRange,
    /// Where in the file it begins.
    pub(crate) file_offset: u64,
}

/// Mappings of code that are told apart in one process.
const CODE_SEEN: usize = 2048;

impl CodeSeen {
    pub(super) fn add(&mut self, mapping: &Mapping) {
        // The kernel's page of old system calls is at the end of the upper half.
        if !mapping.executable || mapping.range.start.0 >> 63 != 0 {
            return;
        }
        let is_file = mapping.never_writable && !mapping.is_anon();
        let code = CodeOfFile {
            image: mapping.image,
            range: mapping.range,
            file_offset: mapping.file_offset,
        };
        if is_file && self.of_files.contains(&code) {
            return;
        }
        let is_known = is_file && self.of_files.len() < CODE_SEEN;
        self.has_other |= !is_known;
        if is_known {
            self.of_files.push(code);
        }
    }
}
