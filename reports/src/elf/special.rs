//! C++ names of what compilers make beside functions: thunks, tables, guards.
//!
//! They are told in the words of binutils, which other tools have too (`nm -C`, `perf`, `gdb`):
//! whoever read a name there can ask for it.

/// What stands in front of the names of functions that compilers make of other functions.
const WORDS: [&str; 9] = [
    "covariant return thunk to ",
    "guard variable for ",
    "non-transaction clone for ",
    "non-virtual thunk to ",
    "TLS init function for ",
    "TLS wrapper function for ",
    "transaction clone for ",
    "typeinfo fn for ",
    "virtual thunk to ",
];

/// The words in front of a special name, which may be none, and what they are said of.
pub(crate) fn split(name: &str) -> (&str, &str) {
    let words = WORDS.iter().find(|words| name.starts_with(**words));
    name.split_at(words.map_or(0, |words| words.len()))
}

/// What a thunk is called, and the mangled name of the function that it leads to.
pub(super) fn thunk(name: &str) -> Option<(&'static str, String)> {
    let special = name.strip_prefix("_ZT")?;
    let (words, function) = match special.strip_prefix('c') {
        Some(offsets) => {
            let result = behind_offset(behind_offset(offsets)?)?;
            ("covariant return thunk to ", result)
        }
        None => match special.starts_with('h') {
            true => ("non-virtual thunk to ", behind_offset(special)?),
            false => ("virtual thunk to ", behind_offset(special)?),
        },
    };
    Some((words, format!("_Z{function}")))
}

/// What follows how far a thunk moves a pointer: `h` with one number, or `v` with two.
fn behind_offset(text: &str) -> Option<&str> {
    match text.strip_prefix('h') {
        Some(number) => behind_number(number),
        None => behind_number(behind_number(text.strip_prefix('v')?)?),
    }
}

/// What follows `12_` or, where it is negative, `n12_`.
fn behind_number(text: &str) -> Option<&str> {
    let digits = text.strip_prefix('n').unwrap_or(text);
    let behind = digits.trim_start_matches(|digit: char| digit.is_ascii_digit());
    (behind.len() < digits.len()).then_some(())?;
    behind.strip_prefix('_')
}

/// A special name that is no thunk, of which the words are not those of binutils.
pub(super) fn reworded(text: String) -> String {
    for (open, words) in [("{vtable(", "vtable for "), ("{vtt(", "VTT for ")] {
        if let Some(rest) = text.strip_prefix(open)
            && let Some((of, clone)) = rest.rsplit_once(")}")
        {
            return format!("{words}{of}{clone}");
        }
    }
    // The table of a base is within that of the whole: mangled names have the whole first.
    const WITHIN: &str = "construction vtable for ";
    if let Some((whole, base)) = text
        .strip_prefix(WITHIN)
        .and_then(|types| types.split_once("-in-"))
    {
        return format!("{WITHIN}{base}-in-{whole}");
    }
    text
}
