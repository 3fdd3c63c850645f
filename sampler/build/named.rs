//! Writes Rust of an enumeration of which each number has a name and a meaning.

use crate::btf::{Btf, Type};
use crate::rust::{camel, common};

/// An enumeration that has a text and a meaning for each of its numbers, from 0 on: `texts` has
/// both, one after the other, each with a zero behind it.
pub(crate) fn enumeration(btf: &Btf, wanted: &str, texts: &[u8]) -> Result<String, String> {
    let fields = btf.fields_of("named")?;
    let member = fields.iter().find(|field| field.name == wanted);
    let Some(Type::Enumeration { name, members }) = member.map(|field| btf.get(field.of)) else {
        return Err(format!("there is no enum {wanted} among the named ones"));
    };
    let texts = std::str::from_utf8(texts).map_err(|error| error.to_string())?;
    let texts: Vec<&str> = texts.split('\0').collect();
    if members
        .iter()
        .map(|(_, number)| *number)
        .ne(0..members.len() as i32)
        || texts.len() < 2 * members.len()
        || texts[2 * members.len()..]
            .iter()
            .any(|text| !text.is_empty())
    {
        return Err(format!("enum {name} and its names differ"));
    }
    let rust = camel(name);
    let start = common(members);
    let rows: Vec<(String, &str, &str)> = members
        .iter()
        .zip(texts.chunks_exact(2))
        .map(|((member, _), text)| (camel(&member[start..]), text[0], text[1]))
        .collect();
    let all =
        |line: fn(&(String, &str, &str)) -> String| -> String { rows.iter().map(line).collect() };
    let declared = all(|(of, _, meaning)| format!("    /// {meaning}\n    {of},\n"));
    let names = all(|(of, name, _)| format!("            Self::{of} => {name:?},\n"));
    let meanings = all(|(of, _, meaning)| format!("            Self::{of} => {meaning:?},\n"));
    let all = all(|(of, ..)| format!("        Self::{of},\n"));
    Ok(format!(
        "
/// What the handler counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum {rust} {{
{declared}}}

impl {rust} {{
    /// All of them, in the handler's order.
    pub const ALL: [Self; {}] = [
{all}    ];

    /// Its name: lower-case words joined by `_`.
    pub const fn name(self) -> &'static str {{
        match self {{
{names}        }}
    }}

    /// A sentence that says what it counts.
    pub const fn meaning(self) -> &'static str {{
        match self {{
{meanings}        }}
    }}
}}
",
        members.len()
    ))
}
