//! Words as shells and cargo take them.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

/// What stands between words of [`ENCODED`].
const BETWEEN: &str = "\x1f";
/// The variable of rustc's flags, which cargo cuts where there are spaces.
pub(crate) const PLAIN: &str = "RUSTFLAGS";
/// The one in which flags may have spaces. Where it is, cargo does not look at the other.
pub(crate) const ENCODED: &str = "CARGO_ENCODED_RUSTFLAGS";

/// A word as a shell takes it.
pub(crate) fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%^".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    if !text.contains(char::is_control) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    // Messages show no control characters as they are, nor do all shells know a way to write them.
    let mut printed = String::new();
    for c in text.chars() {
        let _ = match c {
            '%' => write!(printed, "%%"),
            '\\' => write!(printed, r"\\"),
            '\'' => write!(printed, r"'\''"),
            c if c.is_ascii_control() => write!(printed, r"\{:03o}", u32::from(c)),
            c => write!(printed, "{c}"),
        };
    }
    format!("\"$(printf -- '{printed}')\"")
}

/// Whether a shell takes a word as it is.
pub(crate) fn is_plain(word: &OsStr) -> bool {
    quoted(word).as_str() == word
}

/// Whether there is a space in a word, or what else words are cut at.
pub(crate) fn has_space(word: &OsString) -> bool {
    word.to_string_lossy().contains(char::is_whitespace)
}

/// The variable by which cargo gives rustc these flags, and its value. Where the environment has
/// the one that comes first for cargo, it has to be that one.
pub(crate) fn rust_flags(flags: &[OsString], is_encoded: bool) -> (&'static str, OsString) {
    match is_encoded || flags.iter().any(has_space) {
        true => (ENCODED, flags.join(OsStr::new(BETWEEN))),
        false => (PLAIN, flags.join(OsStr::new(" "))),
    }
}

/// The flags of rustc that a value of these variables has.
pub(crate) fn flags_of(name: &str, value: &OsStr) -> Vec<OsString> {
    let text = value.to_string_lossy();
    let words: Vec<&str> = match name == ENCODED {
        true => text.split(BETWEEN).collect(),
        false => text.split_whitespace().collect(),
    };
    let words = words.into_iter().filter(|word| !word.is_empty());
    words.map(OsString::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words are one word for a shell, whatever is in them.
    #[test]
    fn words() {
        for (word, expected) in [
            ("-fprofile-use=/p/a", "-fprofile-use=/p/a"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
        ] {
            assert_eq!(quoted(OsStr::new(word)), expected);
        }
        for word in ["a\x1fb 100%", "a\tb\\n'c", "-x\x1f-y z"] {
            let script = format!("printf %s {}", quoted(OsStr::new(word)));
            let output = std::process::Command::new("sh")
                .args(["-c", &script])
                .output()
                .expect("the shell runs");
            assert_eq!(String::from_utf8_lossy(&output.stdout), word, "{script}");
        }
    }

    /// Flags with spaces go to the variable that can hold them, and come back from both.
    #[test]
    fn flags_of_rust() {
        let of = |words: &[&str], is_encoded| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            rust_flags(&words, is_encoded)
        };
        assert_eq!(of(&["-a", "-b"], false), (PLAIN, OsString::from("-a -b")));
        assert_eq!(of(&["-a"], true), (ENCODED, OsString::from("-a")));
        let (name, value) = of(&["-a", "-b c"], false);
        assert_eq!((name, value.to_str()), (ENCODED, Some("-a\x1f-b c")));
        assert_eq!(flags_of(name, &value), ["-a", "-b c"]);
        assert_eq!(flags_of(PLAIN, OsStr::new(" -a  -b")), ["-a", "-b"]);
    }
}
