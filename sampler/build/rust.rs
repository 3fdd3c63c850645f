//! Writes Rust of the types that a C header shares.

use std::fmt::Write as _;

use crate::btf::{Btf, Field, Type};

/// Writes into text, which does not fail.
macro_rules! line {
    ($out:expr, $($what:tt)*) => {
        let _ = writeln!($out, $($what)*);
    };
}

/// What each generated file begins with: how a value lies in memory.
const PRELUDE: &str = "\
/// A value of what is shared, as it lies in memory.
pub(crate) trait Plain: Sized {
    /// From exactly its bytes.
    fn get(bytes: &[u8]) -> Self;
    /// Into exactly its bytes.
    fn put(&self, bytes: &mut [u8]);
}

macro_rules! plain {
    ($($integer:ty)*) => {$(
        impl Plain for $integer {
            #[inline]
            fn get(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<Self>()];
                own.copy_from_slice(bytes);
                Self::from_ne_bytes(own)
            }

            #[inline]
            fn put(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}

plain!(u8 u16 u32 u64 i8 i16 i32 i64);

impl<T: Plain + Copy + Default, const N: usize> Plain for [T; N] {
    #[inline]
    fn get(bytes: &[u8]) -> Self {
        let mut all = [T::default(); N];
        for (one, bytes) in all.iter_mut().zip(bytes.chunks_exact(size_of::<T>())) {
            *one = T::get(bytes);
        }
        all
    }

    #[inline]
    fn put(&self, bytes: &mut [u8]) {
        for (one, bytes) in self.iter().zip(bytes.chunks_exact_mut(size_of::<T>())) {
            one.put(bytes);
        }
    }
}
";

/// Rust of the types that the fields of `struct shared` have.
pub(crate) fn types(btf: &Btf) -> Result<String, String> {
    let mut out = PRELUDE.to_owned();
    for field in btf.fields_of("shared")? {
        match btf.get(field.of) {
            Type::Structure {
                name,
                bytes,
                fields,
            } => structure(&mut out, btf, name, *bytes, fields)?,
            Type::Enumeration { name, members } => enumeration(&mut out, name, members)?,
            _ => return Err(format!("{} is nothing that can be shared", field.name)),
        }
    }
    Ok(out)
}

fn structure(
    out: &mut String,
    btf: &Btf,
    name: &str,
    bytes: u32,
    fields: &[Field],
) -> Result<(), String> {
    let rust = camel(name);
    let mut end = 0;
    let (mut declared, mut pinned) = (String::new(), String::new());
    let (mut got, mut put) = (String::new(), String::new());
    for Field {
        name: field,
        of,
        bits,
    } in fields
    {
        let (kind, size) = layout(btf, *of)
            .ok_or_else(|| format!("struct {name}: {field} has no type that can be shared"))?;
        let at = bits / 8;
        if bits % 8 != 0 || at != end {
            return Err(format!("struct {name}: a gap, or bits, before {field}"));
        }
        end = at + size;
        line!(declared, "    pub(crate) {field}: {kind},");
        line!(
            pinned,
            "const _: () = assert!(std::mem::offset_of!({rust}, {field}) == {at});"
        );
        line!(got, "            {field}: Plain::get(&bytes[{at}..{end}]),");
        line!(put, "        self.{field}.put(&mut bytes[{at}..{end}]);");
    }
    if end != bytes {
        return Err(format!("struct {name}: a gap at its end"));
    }
    line!(
        out,
        "
/// `struct {name}`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct {rust} {{
{declared}}}

const _: () = assert!(size_of::<{rust}>() == {bytes});
{pinned}
impl {rust} {{
    /// Its bytes.
    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; {bytes}] {{
        let mut bytes = [0; {bytes}];
        self.put(&mut bytes);
        bytes
    }}
}}

impl Default for {rust} {{
    /// All zero.
    fn default() -> Self {{
        Self::get(&[0; {bytes}])
    }}
}}

impl Plain for {rust} {{
    #[inline]
    fn get(bytes: &[u8]) -> Self {{
        Self {{
{got}        }}
    }}

    #[inline]
    fn put(&self, bytes: &mut [u8]) {{
{put}    }}
}}"
    );
    Ok(())
}

/// The Rust type of a field, and its bytes.
fn layout(btf: &Btf, of: u32) -> Option<(String, u32)> {
    Some(match btf.get(of) {
        Type::Integer { bytes, signed } => {
            let letter = if *signed { 'i' } else { 'u' };
            (format!("{letter}{}", 8 * bytes), *bytes)
        }
        Type::Array { of, len } => {
            let (kind, bytes) = layout(btf, *of)?;
            (format!("[{kind}; {len}]"), bytes * len)
        }
        Type::Structure { name, bytes, .. } => (camel(name), *bytes),
        _ => return None,
    })
}

fn enumeration(out: &mut String, name: &str, members: &[(String, i32)]) -> Result<(), String> {
    if members.iter().any(|(_, number)| *number < 0) {
        return Err(format!("enum {name}: a number below zero"));
    }
    if name.ends_with("_bits") || name.ends_with("_limits") {
        for (member, number) in members {
            line!(
                out,
                "
/// Of `enum {name}`.
pub(crate) const {member}: u32 = {number};"
            );
        }
        return Ok(());
    }
    let rust = camel(name);
    let start = common(members);
    let (mut declared, mut of) = (String::new(), String::new());
    for (member, number) in members {
        let short = camel(&member[start..]);
        line!(declared, "    {short} = {number},");
        line!(of, "            {number} => Self::{short},");
    }
    line!(
        out,
        "
/// `enum {name}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum {rust} {{
{declared}}}

impl {rust} {{
    /// The one of this number, if there is one.
    #[inline]
    pub(crate) const fn of(number: u32) -> Option<Self> {{
        Some(match number {{
{of}            _ => return None,
        }})
    }}
}}"
    );
    Ok(())
}

/// How many bytes all members' names have in common, up to behind a `_`.
pub(crate) fn common(members: &[(String, i32)]) -> usize {
    let Some((first, _)) = members.first() else {
        return 0;
    };
    let ends = first.match_indices('_').map(|(at, _)| at + 1);
    let shared = ends.filter(|end| {
        members
            .iter()
            .all(|(name, _)| name.len() > *end && name.starts_with(&first[..*end]))
    });
    shared.max().unwrap_or(0)
}

/// `some_words` or `SOME_WORDS` as `SomeWords`.
pub(crate) fn camel(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + &rest.to_ascii_lowercase()
    });
    words.collect()
}
