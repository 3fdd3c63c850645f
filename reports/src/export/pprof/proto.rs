//! The messages of `profile.proto`, as pprof defines them: field numbers, names and types.

use prost::Message;

/// A profile.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Profile {
    /// What the values of a sample are.
    #[prost(message, repeated, tag = "1")]
    pub(crate) sample_type: Vec<ValueType>,
    /// The samples.
    #[prost(message, repeated, tag = "2")]
    pub(crate) sample: Vec<Sample>,
    /// The images.
    #[prost(message, repeated, tag = "3")]
    pub(crate) mapping: Vec<Mapping>,
    /// The instructions.
    #[prost(message, repeated, tag = "4")]
    pub(crate) location: Vec<Location>,
    /// The functions.
    #[prost(message, repeated, tag = "5")]
    pub(crate) function: Vec<Function>,
    /// All strings; the first one is empty.
    #[prost(string, repeated, tag = "6")]
    pub(crate) string_table: Vec<String>,
    /// When it began, in nanoseconds of the Unix epoch.
    #[prost(int64, tag = "9")]
    pub(crate) time_nanos: i64,
    /// How long it took.
    #[prost(int64, tag = "10")]
    pub(crate) duration_nanos: i64,
    /// What was counted from one interrupt to the next.
    #[prost(message, optional, tag = "11")]
    pub(crate) period_type: Option<ValueType>,
    /// How much of it, on average.
    #[prost(int64, tag = "12")]
    pub(crate) period: i64,
    /// Sentences for the reader, as strings.
    #[prost(int64, repeated, tag = "13")]
    pub(crate) comment: Vec<i64>,
    /// The type of value that is shown first, as a string.
    #[prost(int64, tag = "14")]
    pub(crate) default_sample_type: i64,
}

/// What a number is, as strings.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ValueType {
    /// Of what.
    #[prost(int64, tag = "1")]
    pub(crate) r#type: i64,
    /// In what.
    #[prost(int64, tag = "2")]
    pub(crate) unit: i64,
}

/// Interrupts with one stack and one set of labels.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Sample {
    /// Ids of locations, the innermost first.
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) location_id: Vec<u64>,
    /// A number for each type of value.
    #[prost(int64, repeated, tag = "2")]
    pub(crate) value: Vec<i64>,
    /// What else is known of them.
    #[prost(message, repeated, tag = "3")]
    pub(crate) label: Vec<Label>,
}

/// Something that is known of a sample: a string or a number.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Label {
    /// What it is, as a string.
    #[prost(int64, tag = "1")]
    pub(crate) key: i64,
    /// A string.
    #[prost(int64, tag = "2")]
    pub(crate) str: i64,
    /// A number.
    #[prost(int64, tag = "3")]
    pub(crate) num: i64,
    /// The number's unit, as a string.
    #[prost(int64, tag = "4")]
    pub(crate) num_unit: i64,
}

/// An image.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Mapping {
    /// Its id, from 1.
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    /// Its first address.
    #[prost(uint64, tag = "2")]
    pub(crate) memory_start: u64,
    /// The address behind it.
    #[prost(uint64, tag = "3")]
    pub(crate) memory_limit: u64,
    /// The place in the file of its first address.
    #[prost(uint64, tag = "4")]
    pub(crate) file_offset: u64,
    /// Its path, as a string.
    #[prost(int64, tag = "5")]
    pub(crate) filename: i64,
    /// Its build id, as a string.
    #[prost(int64, tag = "6")]
    pub(crate) build_id: i64,
    /// Nobody needs to look for function names.
    #[prost(bool, tag = "7")]
    pub(crate) has_functions: bool,
    /// Nobody needs to look for source files.
    #[prost(bool, tag = "8")]
    pub(crate) has_filenames: bool,
    /// Nobody needs to look for source lines.
    #[prost(bool, tag = "9")]
    pub(crate) has_line_numbers: bool,
    /// Nobody needs to look for inlined functions.
    #[prost(bool, tag = "10")]
    pub(crate) has_inline_frames: bool,
}

/// An instruction.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Location {
    /// Its id, from 1.
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    /// The id of its image.
    #[prost(uint64, tag = "2")]
    pub(crate) mapping_id: u64,
    /// Its address.
    #[prost(uint64, tag = "3")]
    pub(crate) address: u64,
    /// The functions that it is in, the innermost first.
    #[prost(message, repeated, tag = "4")]
    pub(crate) line: Vec<Line>,
}

/// A function at a location.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Line {
    /// The id of the function.
    #[prost(uint64, tag = "1")]
    pub(crate) function_id: u64,
    /// The line, 0 where it is not known.
    #[prost(int64, tag = "2")]
    pub(crate) line: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Function {
    /// Its id, from 1.
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    /// Its name, as a string.
    #[prost(int64, tag = "2")]
    pub(crate) name: i64,
    /// Its mangled name, as a string.
    #[prost(int64, tag = "3")]
    pub(crate) system_name: i64,
    /// Its source file, as a string.
    #[prost(int64, tag = "4")]
    pub(crate) filename: i64,
    /// Its first line.
    #[prost(int64, tag = "5")]
    pub(crate) start_line: i64,
}
