//! The text of a patch: what a hint comes to in the source.

mod rewritten;

use serde::Serialize;

pub(super) use rewritten::divided_by;

/// What can be specialised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HintKind {
    /// An argument of a function.
    ConstantArgument,
    /// What a load brings.
    SemiInvariantLoad,
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
}

impl HintKind {
    /// In words.
    pub(super) fn words(self) -> &'static str {
        match self {
            HintKind::ConstantArgument => "constant argument",
            HintKind::SemiInvariantLoad => "semi-invariant load",
            HintKind::Divisor => "divisor",
            HintKind::Modulus => "modulus",
            HintKind::CopySize => "copy size",
            HintKind::IndirectTarget => "indirect target",
            HintKind::PredictableBranch => "predictable branch",
        }
    }
}

/// The language of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    /// C, C++ and what else has their compilers' built-in functions.
    C,
    /// Rust.
    Rust,
}

/// What a patch names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told<'a> {
    /// The function that is specialised or called.
    pub(super) function: &'a str,
    /// What has the value, if it has a name.
    pub(super) variable: Option<&'a str>,
    /// The value as it is written in the source.
    pub(super) value: &'a str,
    /// The names of all arguments, where they are known.
    pub(super) arguments: &'a [String],
    /// The branch is taken that often.
    pub(super) taken: bool,
    /// The line of the source.
    pub(super) source: Option<&'a str>,
}

/// The lines of the patch.
pub(super) fn patch(kind: HintKind, language: Language, told: &Told<'_>) -> Vec<String> {
    let of_line = rewritten::case(kind, language, told);
    of_line.unwrap_or_else(|| match language {
        Language::C => in_c(kind, told),
        Language::Rust => in_rust(kind, told),
    })
}

/// The last part of a function's name, without its parameters.
fn short(name: &str) -> String {
    let name = name.split(['(', '<']).next().unwrap_or(name);
    // What has no name goes by that of its image, `!` and its address.
    let last = name.rsplit(['!', ':']).next().unwrap_or(name);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let word: String = last.chars().take_while(|c| is_word(*c)).collect();
    match word.is_empty() {
        true => "f".to_owned(),
        false => word,
    }
}

/// The arguments of a call, one of them being `value`; `..` where names are not known.
fn arguments(told: &Told<'_>, value: &str) -> String {
    match told.variable {
        Some(variable) if told.arguments.iter().any(|name| name == variable) => {
            let all = told.arguments.iter();
            let all = all.map(|name| if name == variable { value } else { name });
            all.collect::<Vec<_>>().join(", ")
        }
        _ => format!("..., {value}, ..."),
    }
}

fn in_c(kind: HintKind, told: &Told<'_>) -> Vec<String> {
    let value = told.value;
    let f = short(told.function);
    match kind {
        HintKind::ConstantArgument => {
            let n = told.variable.unwrap_or("n");
            vec![
                format!("/* {f}_any: the body of {f}, static inline, always_inline */"),
                format!("if (__builtin_expect({n} == {value}, 1))"),
                format!("    return {f}_any({});", arguments(told, value)),
                format!("return {f}_any({});", arguments(told, n)),
            ]
        }
        HintKind::SemiInvariantLoad => {
            let v = told.variable.unwrap_or("v");
            vec![
                format!("if (__builtin_expect({v} == {value}, 1)) {{"),
                format!("    /* what follows, with {value} in place of {v} */"),
                "} else {".to_owned(),
                "    /* as it is */".to_owned(),
                "}".to_owned(),
            ]
        }
        HintKind::Divisor | HintKind::Modulus => {
            let d = told.variable.unwrap_or("d");
            let sign = if kind == HintKind::Divisor { '/' } else { '%' };
            vec![format!(
                "__builtin_expect({d} == {value}, 1) ? x {sign} {value} : x {sign} {d}"
            )]
        }
        HintKind::CopySize => vec![
            format!("if (__builtin_expect(n == {value}, 1))"),
            format!("    {f}(..., {value});"),
            "else".to_owned(),
            format!("    {f}(..., n);"),
        ],
        HintKind::IndirectTarget => {
            let target = short(value);
            vec![
                format!("if (__builtin_expect(callee == {target}, 1))"),
                format!("    {target}(...);"),
                "else".to_owned(),
                "    callee(...);".to_owned(),
            ]
        }
        HintKind::PredictableBranch => vec![
            "/* the compiler knows the condition; this is its common direction */".to_owned(),
            format!(
                "__builtin_expect_with_probability(condition, /* jump {} */, 0.99)",
                if told.taken { "taken" } else { "not taken" }
            ),
        ],
    }
}

fn in_rust(kind: HintKind, told: &Told<'_>) -> Vec<String> {
    let value = told.value;
    let f = short(told.function);
    match kind {
        HintKind::ConstantArgument => {
            let n = told.variable.unwrap_or("n");
            vec![
                format!("// {f}_any: the body of {f}, #[inline(always)]"),
                format!("match {n} {{"),
                format!("    {value} => {f}_any({}),", arguments(told, value)),
                format!("    _ => {f}_any({}),", arguments(told, n)),
                "}".to_owned(),
            ]
        }
        HintKind::SemiInvariantLoad => {
            let v = told.variable.unwrap_or("v");
            vec![
                format!("match {v} {{"),
                format!("    {value} => {{ /* what follows, with {value} in place of {v} */ }}"),
                "    _ => { /* as it is */ }".to_owned(),
                "}".to_owned(),
            ]
        }
        HintKind::Divisor | HintKind::Modulus => {
            let d = told.variable.unwrap_or("d");
            let sign = if kind == HintKind::Divisor { '/' } else { '%' };
            vec![format!(
                "match {d} {{ {value} => x {sign} {value}, {d} => x {sign} {d} }}"
            )]
        }
        HintKind::CopySize => vec![
            "match n {".to_owned(),
            format!("    {value} => to[..{value}].copy_from_slice(&from[..{value}]),"),
            "    n => to[..n].copy_from_slice(&from[..n]),".to_owned(),
            "}".to_owned(),
        ],
        HintKind::IndirectTarget => vec![
            "// an enum in place of the trait object, so that match calls it directly:".to_owned(),
            format!("// {value}"),
        ],
        HintKind::PredictableBranch => {
            vec!["// move the rare side into a function of its own, marked #[cold]".to_owned()]
        }
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
            arguments,
            taken: false,
            source: None,
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

    /// A division becomes one by a number on one side.
    #[test]
    fn divisions() {
        let c = patch(HintKind::Modulus, Language::C, &told(&[], Some("m")));
        assert_eq!(c, ["__builtin_expect(m == 4, 1) ? x % 4 : x % m"]);
        let rust = patch(HintKind::Divisor, Language::Rust, &told(&[], Some("m")));
        assert_eq!(rust, ["match m { 4 => x / 4, m => x / m }"]);
    }
}
