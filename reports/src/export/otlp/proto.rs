//! The messages of OpenTelemetry's profiles (`profiles.v1development`), as their definition has
//! them: field numbers, names and types. What is never written is left out.

use prost::{Message, Oneof};

/// Profiles as files have them.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfilesData {
    /// By what was profiled.
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_profiles: Vec<ResourceProfiles>,
    /// What all of them refer to by its place.
    #[prost(message, optional, tag = "2")]
    pub(super) dictionary: Option<ProfilesDictionary>,
}

/// What profiles refer to by its place; in each table the first thing is an empty one.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfilesDictionary {
    /// Images.
    #[prost(message, repeated, tag = "1")]
    pub(super) mapping_table: Vec<Mapping>,
    /// Instructions.
    #[prost(message, repeated, tag = "2")]
    pub(super) location_table: Vec<Location>,
    /// Functions.
    #[prost(message, repeated, tag = "3")]
    pub(super) function_table: Vec<Function>,
    /// Links to traces: there are none.
    #[prost(message, repeated, tag = "4")]
    pub(super) link_table: Vec<Link>,
    /// Strings.
    #[prost(string, repeated, tag = "5")]
    pub(super) string_table: Vec<String>,
    /// Attributes.
    #[prost(message, repeated, tag = "6")]
    pub(super) attribute_table: Vec<KeyValueAndUnit>,
    /// Stacks.
    #[prost(message, repeated, tag = "7")]
    pub(super) stack_table: Vec<Stack>,
}

/// The profiles of a host.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceProfiles {
    /// The host.
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    /// By who made them.
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_profiles: Vec<ScopeProfiles>,
}

/// What is profiled.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    /// What is known of it.
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
}

/// The profiles that one program made.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeProfiles {
    /// The program.
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<InstrumentationScope>,
    /// The profiles.
    #[prost(message, repeated, tag = "2")]
    pub(super) profiles: Vec<Profile>,
}

/// A program that makes profiles.
#[derive(Clone, PartialEq, Message)]
pub(super) struct InstrumentationScope {
    /// Its name.
    #[prost(string, tag = "1")]
    pub(super) name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

/// A profile of one type of value.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Profile {
    /// What the values of samples are.
    #[prost(message, optional, tag = "1")]
    pub(super) sample_type: Option<ValueType>,
    /// The samples.
    #[prost(message, repeated, tag = "2")]
    pub(super) samples: Vec<Sample>,
    /// When it began, in nanoseconds of the Unix epoch.
    #[prost(fixed64, tag = "3")]
    pub(super) time_unix_nano: u64,
    /// How long it took.
    #[prost(uint64, tag = "4")]
    pub(super) duration_nano: u64,
    /// What was counted from one interrupt to the next.
    #[prost(message, optional, tag = "5")]
    pub(super) period_type: Option<ValueType>,
    /// How much of it, on average.
    #[prost(int64, tag = "6")]
    pub(super) period: i64,
}

/// A link to a trace.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Link {}

/// What a number is, as strings.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ValueType {
    /// Of what.
    #[prost(int32, tag = "1")]
    pub(super) type_strindex: i32,
    /// In what.
    #[prost(int32, tag = "2")]
    pub(super) unit_strindex: i32,
}

/// Interrupts with one stack and one set of attributes.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Sample {
    /// The stack.
    #[prost(int32, tag = "1")]
    pub(super) stack_index: i32,
    /// The attributes.
    #[prost(int32, repeated, tag = "2")]
    pub(super) attribute_indices: Vec<i32>,
    /// What they add up to.
    #[prost(int64, repeated, tag = "4")]
    pub(super) values: Vec<i64>,
}

/// An image.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Message)]
pub(super) struct Mapping {
    /// Its first address.
    #[prost(uint64, tag = "1")]
    pub(super) memory_start: u64,
    /// The address behind it.
    #[prost(uint64, tag = "2")]
    pub(super) memory_limit: u64,
    /// Its path, as a string.
    #[prost(int32, tag = "4")]
    pub(super) filename_strindex: i32,
    /// Its attributes.
    #[prost(int32, repeated, tag = "5")]
    pub(super) attribute_indices: Vec<i32>,
}

/// A stack.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Message)]
pub(super) struct Stack {
    /// Its locations, the innermost first.
    #[prost(int32, repeated, tag = "1")]
    pub(super) location_indices: Vec<i32>,
}

/// An instruction.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Location {
    /// Its image.
    #[prost(int32, tag = "1")]
    pub(super) mapping_index: i32,
    /// Its address.
    #[prost(uint64, tag = "2")]
    pub(super) address: u64,
    /// The functions that it is in, the innermost first.
    #[prost(message, repeated, tag = "3")]
    pub(super) lines: Vec<Line>,
    /// Its attributes.
    #[prost(int32, repeated, tag = "4")]
    pub(super) attribute_indices: Vec<i32>,
}

/// A function at a location.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Line {
    /// The function.
    #[prost(int32, tag = "1")]
    pub(super) function_index: i32,
    /// The line, 0 where it is not known.
    #[prost(int64, tag = "2")]
    pub(super) line: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Function {
    /// Its name, as a string.
    #[prost(int32, tag = "1")]
    pub(super) name_strindex: i32,
    /// Its source file, as a string.
    #[prost(int32, tag = "3")]
    pub(super) filename_strindex: i32,
}

/// An attribute of the dictionary.
#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValueAndUnit {
    /// Its key, as a string.
    #[prost(int32, tag = "1")]
    pub(super) key_strindex: i32,
    /// Its value.
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

/// An attribute.
#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    /// Its key.
    #[prost(string, tag = "1")]
    pub(super) key: String,
    /// Its value.
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyValue {
    /// The value.
    #[prost(oneof = "Value", tags = "1, 3")]
    pub(super) value: Option<Value>,
}

/// See [`AnyValue`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Oneof)]
pub(super) enum Value {
    /// Text.
    #[prost(string, tag = "1")]
    StringValue(String),
    /// A number.
    #[prost(int64, tag = "3")]
    IntValue(i64),
}
