//! The text of a patch: what a hint comes to in the source.

mod arguments;
mod function;
mod patterns;
mod ready;
mod rewritten;
mod targets;

use serde::Serialize;

pub(super) use arguments::with_names;
pub(super) use ready::ready;
pub(super) use rewritten::divided_by;

use crate::variables::Language;

/// What can be specialised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HintKind {
    /// An argument of a function.
    ConstantArgument,
    /// What a load brings.
    SemiInvariantLoad,
    /// What a register holds: a variable of a function or a loop.
    SemiInvariantRegister,
    /// What is divided by.
    Divisor,
    /// What a rest is taken by.
    Modulus,
    /// How much is copied, set or compared.
    CopySize,
    /// What is called through a pointer.
    IndirectTarget,
    /// The direction of a branch.
    PredictableBranch,
    /// How far a load's addresses are apart.
    StridedPrefetch,
    /// That a load brings what was loaded just before.
    RedundantLoad,
}

impl HintKind {
    /// Whether the time that it could save can be predicted.
    pub(super) fn is_predictable(self) -> bool {
        self != HintKind::StridedPrefetch
    }

    /// In words.
    pub(super) fn words(self) -> &'static str {
        match self {
            HintKind::ConstantArgument => "constant argument",
            HintKind::SemiInvariantLoad => "semi-invariant load",
            HintKind::SemiInvariantRegister => "semi-invariant register",
            HintKind::Divisor => "divisor",
            HintKind::Modulus => "modulus",
            HintKind::CopySize => "copy size",
            HintKind::IndirectTarget => "indirect target",
            HintKind::PredictableBranch => "predictable branch",
            HintKind::StridedPrefetch => "strided prefetch",
            HintKind::RedundantLoad => "redundant load",
        }
    }
}

/// What a patch names.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Told<'a> {
    /// The function that is specialised or called.
    pub(super) function: &'a str,
    /// What has the value, if it has a name.
    pub(super) variable: Option<&'a str>,
    /// The value as it is written in the source.
    pub(super) value: &'a str,
    /// That, as it is written where it must have the variable's type.
    pub(super) typed: &'a str,
    /// What is divided by, where that is not the value but computed from it.
    pub(super) divisor: Option<&'a str>,
    /// The division gives a quotient and a rest that are both used.
    pub(super) gives_both: bool,
    /// It is an argument of the function.
    pub(super) is_argument: bool,
    /// The names of all arguments, where they are known.
    pub(super) arguments: &'a [String],
    /// Where a branch leads that is taken, and where one that is not.
    pub(super) lines: Option<[u32; 2]>,
    /// The line of the source, and its number.
    pub(super) source: Option<&'a str>,
    pub(super) line: Option<u32>,
    /// The share of the value in percent.
    pub(super) share: f64,
}

/// What a patch can be taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PatchIs {
    /// It stands in place of the line.
    Ready,
    /// A reader fills it in.
    Pattern,
}

impl PatchIs {
    /// What lines are that are no ready patch; `None` where they are none, or say why there is
    /// none.
    pub(super) fn of(lines: &[String]) -> Option<PatchIs> {
        let first = lines.first()?;
        (!first.contains(NO_PATCH)).then_some(PatchIs::Pattern)
    }
}

/// What stands before a function's name in the parameter of a size that it is called with.
pub(super) const SIZE_OF: &str = "size of ";

/// What is said in place of a patch begins so.
const NO_PATCH: &str = "no patch:";

/// The pattern to fill in; none in a language that patches are not written in.
pub(super) fn patch(kind: HintKind, language: Language, told: &Told<'_>) -> Vec<String> {
    let divisor = told.divisor;
    let sign = divisor.filter(|divisor| is_sign_of(divisor, told.value));
    let told = match sign {
        Some(value) => &Told {
            value,
            typed: value,
            divisor: None,
            ..*told
        },
        None => told,
    };
    if told.gives_both {
        // One line with a case leaves the division to the other.
        let kind = match told.is_argument {
            true => HintKind::ConstantArgument,
            false => HintKind::SemiInvariantRegister,
        };
        let about = "one division gives quotient and rest: the case is for all that uses it";
        let about = comment(language, about);
        return about
            .into_iter()
            .chain(patterns::lines(kind, language, told))
            .collect();
    }
    patterns::lines(kind, language, told)
}

/// Whether a negative number is what low bits are with their sign.
fn is_sign_of(number: &str, low: &str) -> bool {
    let (Ok(number), Ok(low)) = (number.parse::<i64>(), low.parse::<i64>()) else {
        return false;
    };
    number < 0 && low > 0 && [8, 16, 32].iter().any(|bits| number + (1 << bits) == low)
}

/// Why the number in the source is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unclear {
    /// The upper bit is set, and whether that is a sign is for a type to say that is not known.
    Sign,
    /// Code reads some low bits alone.
    Part,
}

/// What is said in place of a patch where the number is not known that the source has.
pub(super) fn without_number(
    language: Language,
    why: Unclear,
    value: &str,
    variable: Option<&str>,
) -> Vec<String> {
    let variable = variable.unwrap_or("this");
    let about = match why {
        Unclear::Sign => {
            format!("{NO_PATCH} what number {value} is depends on the type of {variable}")
        }
        Unclear::Part => {
            format!("{NO_PATCH} {value} is what the code reads of {variable}, not all")
        }
    };
    comment(language, &about).into_iter().collect()
}

/// A comment, in languages that patches are written in.
fn comment(language: Language, text: &str) -> Option<String> {
    match language {
        Language::C | Language::Cpp => Some(format!("/* {text} */")),
        Language::Rust | Language::Go => Some(format!("// {text}")),
        Language::Assembly | Language::Other => None,
    }
}

/// The name of a function with its classes and namespaces, without its parameters and result.
fn qualified(name: &str) -> &str {
    let name = name.trim_start_matches("(anonymous namespace)::");
    let end = outside(name).find(|(_, c)| *c == '(').map(|(at, _)| at);
    let name = end.and_then(|end| name.get(..end)).unwrap_or(name);
    // Functions of templates are told with their result.
    let start = outside(name).filter(|(_, c)| *c == ' ').last();
    start.and_then(|(at, _)| name.get(at + 1..)).unwrap_or(name)
}

/// A function's name as the source may say it: what a thunk leads to, and what is in a namespace
/// without a name as where that is.
fn source_name(name: &str) -> String {
    let name = name.rsplit("thunk to ").next().unwrap_or(name);
    name.replace("(anonymous namespace)::", "")
}

/// Whether a name belongs to what a function declares, which nobody else can name.
fn is_within_function(name: &str) -> bool {
    name.contains(")::")
}

/// What stands before the last part of a qualified name, and that part.
fn split_qualified(name: &str) -> Option<(&str, &str)> {
    let (at, _) = outside(name).filter(|(_, c)| *c == ':').last()?;
    Some((name.get(..at)?.strip_suffix(':')?, name.get(at + 1..)?))
}

/// The characters of a name that are in no angle brackets.
fn outside(name: &str) -> impl Iterator<Item = (usize, char)> {
    let mut depth = 0_usize;
    name.char_indices().filter(move |(_, c)| {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    })
}

/// The last part of a function's name, without its parameters.
fn short(name: &str) -> String {
    let name = qualified(name);
    let last = split_qualified(name).map_or(name, |(_, last)| last);
    // What has no name goes by that of its image, `!` and its address.
    let last = last.rsplit('!').next().unwrap_or(last);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let word: String = last.chars().take_while(|c| is_word(*c)).collect();
    match word.is_empty() {
        true => "f".to_owned(),
        false => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told<'a>(arguments: &'a [String], variable: Option<&'a str>) -> Told<'a> {
        Told {
            function: "shapes::Area::blend(int, long)",
            variable,
            value: "4",
            typed: "4",
            arguments,
            ..Told::default()
        }
    }

    /// A patch tests for the value and passes it on as a number, by the names that the source has.
    #[test]
    fn arguments_are_named() {
        let names = ["to", "n"].map(str::to_owned);
        let lines = patch(
            HintKind::ConstantArgument,
            Language::C,
            &told(&names, Some("n")),
        );
        assert_eq!(
            lines[1..],
            [
                "if (__builtin_expect(n == 4, 1))",
                "    return blend_any(to, 4);",
                "return blend_any(to, n);"
            ]
        );
        let lines = patch(HintKind::ConstantArgument, Language::Rust, &told(&[], None));
        assert_eq!(lines[2], "    4 => blend_any(..., 4, ...),");
    }

    /// A division becomes one by a number on one side; what is divided is for the reader.
    #[test]
    fn divisions() {
        let c = patch(HintKind::Modulus, Language::C, &told(&[], Some("m")));
        assert_eq!(c, ["__builtin_expect(m == 4, 1) ? ... % 4 : ... % m"]);
        let rust = patch(HintKind::Divisor, Language::Rust, &told(&[], Some("m")));
        assert_eq!(rust, ["match m { 4 => ... / 4, m => ... / m }"]);
        let unnamed = patch(HintKind::Divisor, Language::C, &told(&[], None));
        assert_eq!(
            unnamed,
            ["__builtin_expect(... == 4, 1) ? ... / 4 : ... / ..."]
        );
        // The line divides by another one.
        let other = Told {
            source: Some("q = x / d;"),
            ..told(&[], Some("m"))
        };
        assert_eq!(patch(HintKind::Divisor, Language::C, &other), unnamed);
    }

    /// Of a division by what is computed from the value, what it divides by is compared.
    #[test]
    fn computed_divisors() {
        let told = Told {
            divisor: Some("104"),
            ..told(&[], Some("m"))
        };
        let rust = patch(HintKind::Divisor, Language::Rust, &told);
        assert_eq!(rust, ["match ... { 104 => ... / 104, d => ... / d }"]);
        let c = patch(HintKind::Modulus, Language::C, &told);
        assert_eq!(
            c,
            ["__builtin_expect(... == 104, 1) ? ... % 104 : ... % ..."]
        );
    }

    /// The low bits of a negative divisor are no other number.
    #[test]
    fn negative_divisors() {
        let told = Told {
            value: "249",
            typed: "249",
            divisor: Some("-7"),
            ..told(&[], None)
        };
        let rust = patch(HintKind::Divisor, Language::Rust, &told);
        assert_eq!(rust, ["match ... { -7 => ... / -7, d => ... / d }"]);
        assert!(is_sign_of("-7", "4294967289"));
        assert!(!is_sign_of("-7", "7"));
        assert!(!is_sign_of("7", "7"));
    }

    /// What says why there is no patch is none.
    #[test]
    fn kinds_of_patches() {
        let told = told(&[], Some("m"));
        let lines = patch(HintKind::Modulus, Language::C, &told);
        assert_eq!(PatchIs::of(&lines), Some(PatchIs::Pattern));
        let none = without_number(Language::C, Unclear::Sign, "0xf0000000", None);
        assert_eq!(PatchIs::of(&none), None);
        assert_eq!(PatchIs::of(&[]), None);
    }

    /// A comparison is no copy, in Rust either.
    #[test]
    fn comparisons() {
        let of = |function| {
            let told = Told {
                function,
                ..told(&[], None)
            };
            patch(HintKind::CopySize, Language::Rust, &told).join("\n")
        };
        assert!(of("memcpy").contains("copy_from_slice"));
        for function in ["memcmp", "bcmp", "__memcmp_avx2_movbe"] {
            let lines = of(function);
            assert!(lines.contains("==") && !lines.contains("copy"), "{lines}");
        }
        assert!(of("memset").contains("fill"));
        assert_eq!(of("memmove"), "");
    }

    /// No pattern is code that compiles where names happen to exist.
    #[test]
    fn patterns_are_no_code() {
        for kind in [
            HintKind::SemiInvariantLoad,
            HintKind::Divisor,
            HintKind::CopySize,
            HintKind::IndirectTarget,
        ] {
            for language in [Language::C, Language::Rust] {
                let lines = patch(kind, language, &told(&[], Some("m")));
                let is_comment = lines.iter().all(|line| line.starts_with("//"));
                let is_open = lines.iter().any(|line| line.contains("..."));
                assert!(is_comment || is_open, "{lines:?}");
            }
        }
    }

    /// A division that gives both results goes only if all that uses it has the case.
    #[test]
    fn both_results() {
        let told = Told {
            gives_both: true,
            source: Some("sum += x % m;"),
            ..told(&[], Some("m"))
        };
        let of = |told| patch(HintKind::Modulus, Language::C, told);
        let lines = of(&told);
        assert_eq!(lines[1], "if (__builtin_expect(m == 4, 1)) {");
        assert!(
            lines.iter().all(|line| !line.contains("x % 4")),
            "{lines:?}"
        );
        let argument = Told {
            is_argument: true,
            ..told
        };
        assert_eq!(of(&argument)[3], "    return blend_any(..., 4, ...);");
    }

    /// No C is written in other languages.
    #[test]
    fn other_languages() {
        for kind in [
            HintKind::ConstantArgument,
            HintKind::SemiInvariantLoad,
            HintKind::CopySize,
            HintKind::IndirectTarget,
            HintKind::PredictableBranch,
            HintKind::StridedPrefetch,
            HintKind::RedundantLoad,
            HintKind::Modulus,
        ] {
            for language in [Language::Go, Language::Other, Language::Assembly] {
                let lines = patch(kind, language, &told(&[], Some("m")));
                assert_eq!(lines, Vec::<String>::new(), "{kind:?} {language:?}");
            }
        }
    }

    /// Names are those of functions, whatever their classes, templates and parameters are.
    #[test]
    fn names_of_functions() {
        for (name, expected) in [
            (
                "std::__cxx11::basic_string<char, std::traits<char> >::_M_append(char const*)",
                "_M_append",
            ),
            ("std::__cxx11::basic_string<...>::_M_append", "_M_append"),
            ("(anonymous namespace)::Area::blend(int)", "blend"),
            ("void fill<int>(int*, int)", "fill"),
            ("Area::get() const", "get"),
            ("prog!fn_1234", "fn_1234"),
            ("operator()", "operator"),
        ] {
            assert_eq!(short(name), expected, "{name}");
        }
    }

    /// What a number means without its type, or without its upper bits, is not written.
    #[test]
    fn numbers_without_a_type() {
        let of = |language, why| without_number(language, why, "0xfffffff9", Some("d"));
        assert_eq!(
            of(Language::C, Unclear::Sign),
            ["/* no patch: what number 0xfffffff9 is depends on the type of d */"]
        );
        assert_eq!(
            of(Language::Rust, Unclear::Part),
            ["// no patch: 0xfffffff9 is what the code reads of d, not all"]
        );
        assert!(of(Language::Other, Unclear::Sign).is_empty());
    }
}
