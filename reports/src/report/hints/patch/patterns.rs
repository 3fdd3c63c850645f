//! Patterns to fill in, where a line of the source cannot be written anew.

use super::targets::MethodCall;
use super::{HintKind, Told, is_within_function, short, source_name};
use crate::variables::Language;

/// The lines of a patch; none in a language that has no patterns.
pub(super) fn lines(kind: HintKind, language: Language, told: &Told<'_>) -> Vec<String> {
    match language {
        Language::C | Language::Cpp => in_c(kind, language, told),
        Language::Rust => in_rust(kind, told),
        Language::Go | Language::Assembly | Language::Other => Vec::new(),
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

fn in_c(kind: HintKind, language: Language, told: &Told<'_>) -> Vec<String> {
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
        HintKind::SemiInvariantLoad | HintKind::SemiInvariantRegister => {
            let v = told.variable.unwrap_or("v");
            vec![
                format!("if (__builtin_expect({v} == {value}, 1)) {{"),
                format!("    ... /* what follows, with {value} in place of {v} */"),
                "} else {".to_owned(),
                "    ... /* as it is */".to_owned(),
                "}".to_owned(),
            ]
        }
        HintKind::Divisor | HintKind::Modulus => {
            let d = divided_by(kind, told).unwrap_or("...");
            let sign = sign(kind);
            let (value, by) = match told.divisor {
                Some(by) => (by, by),
                None => (value, told.typed),
            };
            vec![format!(
                "__builtin_expect({d} == {value}, 1) ? ... {sign} {by} : ... {sign} {d}"
            )]
        }
        HintKind::CopySize => vec![
            format!("if (__builtin_expect(size == {value}, 1))"),
            format!("    {f}(..., {value});"),
            "else".to_owned(),
            format!("    {f}(..., size);"),
        ],
        HintKind::IndirectTarget => {
            let value = source_name(value);
            let method = MethodCall::of(&value).filter(|_| language == Language::Cpp);
            if let Some(method) = method.filter(|_| !is_within_function(&value)) {
                let lines = method.pattern();
                return [vec![method.condition_of_type()], lines].concat();
            }
            let target = match value.rsplit_once(")::") {
                Some((_, local)) => short(local),
                None => short(&value),
            };
            vec![
                format!("if (__builtin_expect(callee == {target}, 1))"),
                format!("    {target}(...);"),
                "else".to_owned(),
                "    callee(...);".to_owned(),
            ]
        }
        HintKind::PredictableBranch => branch_in_c(told),
        HintKind::StridedPrefetch => vec![
            "/* in front of the load; try 4 to 32 steps ahead, and measure */".to_owned(),
            format!(
                "__builtin_prefetch((const char *)(...) + 8 * {});",
                step(value)
            ),
        ],
        HintKind::RedundantLoad => vec![
            "/* load it once, into a variable, unless others may store to it in between */"
                .to_owned(),
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
        HintKind::SemiInvariantLoad | HintKind::SemiInvariantRegister => {
            let v = told.variable.unwrap_or("v");
            vec![
                format!("match {v} {{"),
                format!(
                    "    {value} => {{ ... /* what follows, with {value} in place of {v} */ }}"
                ),
                "    _ => { ... /* as it is */ }".to_owned(),
                "}".to_owned(),
            ]
        }
        HintKind::Divisor | HintKind::Modulus => {
            let sign = sign(kind);
            let of = divided_by(kind, told);
            let (of, d) = (of.unwrap_or("..."), of.unwrap_or("d"));
            let value = told.divisor.unwrap_or(value);
            vec![format!(
                "match {of} {{ {value} => ... {sign} {value}, {d} => ... {sign} {d} }}"
            )]
        }
        HintKind::CopySize => copy_in_rust(&f, value),
        HintKind::IndirectTarget => vec![
            "// a test for this function, or an enum in place of a trait object, so that it is called"
                .to_owned(),
            format!("// directly: {value}"),
        ],
        HintKind::PredictableBranch => {
            let rare = told
                .lines
                .map(|[_, rare]| format!(", from line {rare} on,"));
            let rare = rare.unwrap_or_default();
            vec![
                format!("// {}", direction(told)),
                format!("// move the rare side{rare} into a function of its own, marked #[cold]"),
            ]
        }
        HintKind::StridedPrefetch => vec![
            "// in front of the load; try 4 to 32 steps ahead, and measure".to_owned(),
            "// std::arch::x86_64::_mm_prefetch::<_MM_HINT_T0>(".to_owned(),
            format!(
                "//     address.cast::<i8>().wrapping_offset(8 * {}))",
                step(value)
            ),
        ],
        HintKind::RedundantLoad => {
            vec![
                "// load it once, into a variable, unless calls may change it in between"
                    .to_owned(),
            ]
        }
    }
}

/// A case for a size: of a copy between slices, a comparison, or a fill.
fn copy_in_rust(function: &str, size: &str) -> Vec<String> {
    let of = |size: &str| match () {
        () if function.contains("cmp") => Some(format!("...[..{size}] == ...[..{size}]")),
        () if function.contains("memcpy") => {
            Some(format!("...[..{size}].copy_from_slice(&...[..{size}])"))
        }
        () if function.contains("memset") => Some(format!("...[..{size}].fill(...)")),
        () => None,
    };
    let Some((known, otherwise)) = of(size).zip(of("size")) else {
        return Vec::new();
    };
    vec![
        "match size {".to_owned(),
        format!("    {size} => {known},"),
        format!("    size => {otherwise},"),
        "}".to_owned(),
    ]
}

/// The name of what is divided by: what has the value, unless the line divides by another one, or
/// by what is computed from it.
fn divided_by<'a>(kind: HintKind, told: &Told<'a>) -> Option<&'a str> {
    let name = told.variable.filter(|_| told.divisor.is_none())?;
    let of_line = told.source.and_then(|line| super::divided_by(line, kind));
    of_line
        .is_none_or(|of_line| of_line == name)
        .then_some(name)
}

/// A step as a factor.
fn step(value: &str) -> &str {
    value.trim_start_matches('+')
}

fn sign(kind: HintKind) -> char {
    match kind {
        HintKind::Divisor => '/',
        _ => '%',
    }
}

/// The rare or common direction of a branch, for the compiler.
fn branch_in_c(told: &Told<'_>) -> Vec<String> {
    // Two digits below 1.
    let probability = (told.share.floor() / 100.0).clamp(0.9, 0.99);
    let (condition, holds) = match condition(told) {
        Some((condition, holds)) => (condition, if holds { "1" } else { "0" }.to_owned()),
        None => {
            let holds = match told.lines {
                Some([taken, _]) => format!("/* 1 or 0, what leads to line {taken} */"),
                None => "/* 1 or 0, what jumps */".to_owned(),
            };
            ("condition", holds)
        }
    };
    vec![
        format!("/* {} */", direction(told)),
        format!("__builtin_expect_with_probability({condition}, {holds}, {probability:.2})"),
    ]
}

/// What is known of a branch that is nearly always taken.
fn direction(told: &Told<'_>) -> String {
    match (condition(told), told.lines) {
        (Some((_, true)), _) => "the condition nearly always holds".to_owned(),
        (Some((_, false)), _) => "the condition hardly ever holds".to_owned(),
        (None, Some([taken, not])) => {
            format!("control nearly always jumps to line {taken}, and hardly ever goes to {not}")
        }
        (None, None) => {
            "the jump is nearly always taken: whether the condition holds then is not known"
                .to_owned()
        }
    }
}

/// The condition of the line that a branch is on, and whether it holds where the branch is taken.
/// What is behind a line that is an `if` alone is where the condition holds.
fn condition<'a>(told: &Told<'a>) -> Option<(&'a str, bool)> {
    let (source, line, [taken, not]) = (told.source?.trim(), told.line?, told.lines?);
    let source = source.strip_prefix('}').unwrap_or(source).trim_start();
    let source = source.strip_prefix("else").unwrap_or(source).trim_start();
    let behind = source.strip_prefix("if")?;
    let behind = behind.strip_suffix('{').unwrap_or(behind).trim();
    let condition = match behind.strip_prefix('(') {
        Some(inner) => inner.strip_suffix(')')?,
        None if behind.len() < source.len() - "if".len() => behind,
        None => return None,
    };
    // What the source expects already is no part of the condition.
    let expected = condition.strip_prefix("__builtin_expect(");
    let expected = expected.and_then(|inner| inner.strip_suffix(')')?.rsplit_once(','));
    let condition = expected.map_or(condition, |(condition, _)| condition);
    // Of several conditions a branch decides one.
    let is_one = !condition.is_empty()
        && !["&&", "||", "?", ";"]
            .iter()
            .any(|sign| condition.contains(sign));
    let body = line + 1;
    match (taken == body, not == body) {
        (true, false) if is_one && not > body => Some((condition, true)),
        (false, true) if is_one && taken > body => Some((condition, false)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(source: &str, lines: [u32; 2]) -> Vec<String> {
        let told = Told {
            source: Some(source),
            line: Some(47),
            lines: Some(lines),
            share: 97.6,
            ..Told::default()
        };
        lines_of(&told)
    }

    fn lines_of(told: &Told<'_>) -> Vec<String> {
        lines(HintKind::PredictableBranch, Language::C, told)
    }

    /// Whether a condition holds is told where the line is an `if` with its body behind it.
    #[test]
    fn conditions() {
        assert_eq!(
            branch("if (p[i] < 250) {", [52, 48])[1],
            "__builtin_expect_with_probability(p[i] < 250, 0, 0.97)"
        );
        assert_eq!(
            branch("} else if (x)", [48, 52])[1],
            "__builtin_expect_with_probability(x, 1, 0.97)"
        );
        assert_eq!(
            branch("if (__builtin_expect(f(a, b), 0)) {", [48, 52])[1],
            "__builtin_expect_with_probability(f(a, b), 1, 0.97)"
        );
        for (source, lines) in [
            ("if (a && b) {", [52, 48]),
            ("while (a) {", [52, 48]),
            ("if (a) f();", [52, 48]),
            ("if (a) {", [44, 48]),
            ("if (a) {", [52, 53]),
        ] {
            let told = branch(source, lines);
            let taken = lines[0];
            assert!(
                told[1].contains(&format!("leads to line {taken}")),
                "{told:?}"
            );
            assert!(told[1].contains("(condition,"), "{told:?}");
        }
        let unknown = lines_of(&Told::default());
        assert!(unknown[0].contains("is not known"), "{unknown:?}");
    }

    /// The size has a name that is none of the pattern's.
    #[test]
    fn copies() {
        let told = Told {
            function: "memcpy",
            value: "16",
            ..Told::default()
        };
        let lines = lines(HintKind::CopySize, Language::C, &told);
        assert_eq!(lines[0], "if (__builtin_expect(size == 16, 1))");
    }
}
