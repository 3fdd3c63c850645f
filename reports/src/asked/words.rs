//! Words of functions' names, as far as mangled names have them.

/// Words of names that stand in no mangled name as they are: others are written for them.
pub(super) const WRITTEN_OTHERWISE: [&str; 69] = [
    "allocator",
    "anonymous",
    "as",
    "auto",
    "basic_iostream",
    "basic_istream",
    "basic_ostream",
    "basic_string",
    "bool",
    "char",
    "char16_t",
    "char32_t",
    "char8_t",
    "char_traits",
    "clone",
    "closure",
    "const",
    "construction",
    "decltype",
    "delete",
    "double",
    "dyn",
    "extern",
    "f32",
    "f64",
    "false",
    "float",
    "fn",
    "for",
    "guard",
    "i128",
    "i16",
    "i32",
    "i64",
    "i8",
    "impl",
    "int",
    "iostream",
    "isize",
    "istream",
    "lambda",
    "long",
    "mut",
    "namespace",
    "new",
    "nullptr",
    "nullptr_t",
    "operator",
    "ostream",
    "restrict",
    "shim",
    "short",
    "signed",
    "sizeof",
    "std",
    "str",
    "string",
    "thunk",
    "true",
    "typeinfo",
    "u128",
    "u16",
    "u32",
    "u64",
    "u8",
    "unsigned",
    "usize",
    "void",
    "volatile",
];

/// More words of names that stand in no mangled name: what is said of what is named. A function may
/// have any of them as its own name, too.
pub(super) const SAID_BESIDE: [&str; 33] = [
    "_Complex",
    "_Imaginary",
    "__float128",
    "__int128",
    "alignof",
    "arg",
    "covariant",
    "decimal128",
    "decimal32",
    "decimal64",
    "f128",
    "f16",
    "function",
    "global",
    "half",
    "init",
    "initialization",
    "name",
    "noexcept",
    "non",
    "parameter",
    "reference",
    "return",
    "temporary",
    "throw",
    "transaction",
    "type",
    "unnamed",
    "unsafe",
    "variable",
    "virtual",
    "wchar_t",
    "wrapper",
];

/// The longest word of a name that mangling leaves as it is.
pub(super) fn part(name: &str) -> Option<&str> {
    if !name.is_ascii() {
        return None;
    }
    let is_word = |word: &&str| {
        word.starts_with(|first: char| !first.is_ascii_digit())
            && WRITTEN_OTHERWISE.binary_search(word).is_err()
    };
    let words =
        name.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    words
        .filter(|word| !word.is_empty())
        .filter(is_word)
        .max_by_key(|word| word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is searched for in tables is a word that stands there whatever the mangling.
    #[test]
    fn words() {
        assert!(WRITTEN_OTHERWISE.is_sorted() && SAID_BESIDE.is_sorted());
        for (name, expected) in [
            ("main", Some("main")),
            ("llvm::InstCombinePass::run", Some("InstCombinePass")),
            ("std::string::find(char const*)", Some("find")),
            (
                "<alloc::vec::Vec<T> as core::ops::Drop>::drop",
                Some("alloc"),
            ),
            ("operator new(unsigned long)", None),
            ("gr\u{fc}n", None),
            ("0x1234", None),
        ] {
            assert_eq!(part(name), expected, "{name}");
        }
    }
}
