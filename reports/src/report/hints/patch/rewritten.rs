//! A line of the source written anew, with a case for a value: text that compiles as it is.
//!
//! Only lines are taken that are one whole statement, and whose second writing means the same. Of
//! all others there is a pattern to fill in.

use super::targets::{MethodCall, only_callee};
use super::{HintKind, Told, qualified};
use crate::variables::Language;

/// Both cases of the statement that the told line is; `None` where that is no such statement, or
/// does not name what has the value.
pub(super) fn case(kind: HintKind, language: Language, told: &Told<'_>) -> Option<Vec<String>> {
    let line = told.source?.trim();
    let words = words(line);
    let is_c = matches!(language, Language::C | Language::Cpp);
    let variable = || {
        let variable = told.variable?;
        let known = with_number(line, &words, variable, told.typed)?;
        Some((format!("{variable} == {}", told.value), known))
    };
    let is_of_variable = matches!(
        kind,
        HintKind::SemiInvariantLoad
            | HintKind::SemiInvariantRegister
            | HintKind::Divisor
            | HintKind::Modulus
    );
    if !is_statement(language, line, &words) {
        let start = declared_from(language, line).filter(|_| is_of_variable)?;
        let (condition, known) = variable()?;
        let (declared, of) = line.split_at(start);
        let of = of.strip_suffix(';')?;
        // The name that is declared may be that of the variable.
        let known = known.strip_prefix(declared)?.strip_suffix(';')?;
        return Some(vec![match is_c {
            true => format!("{declared}__builtin_expect({condition}, 1) ? {known} : {of};"),
            false => format!("{declared}if {condition} {{ {known} }} else {{ {of} }};"),
        }]);
    }
    let (condition, known) = match kind {
        _ if is_of_variable => variable()?,
        HintKind::CopySize if is_c => {
            let (from, to) = last_argument(line, told.function)?;
            let size = line.get(from..to)?;
            let mut known = line.to_owned();
            known.replace_range(from..to, told.value);
            (format!("{size} == {}", told.value), known)
        }
        HintKind::IndirectTarget if is_c => {
            let method = MethodCall::of(told.value).filter(|_| language == Language::Cpp);
            match method.and_then(|method| method.in_line(line, &words)) {
                Some(texts) => texts,
                None => through_pointer(line, &words, qualified(told.value))?,
            }
        }
        _ => return None,
    };
    Some(match is_c {
        true => vec![
            format!("if (__builtin_expect({condition}, 1))"),
            format!("    {known}"),
            "else".to_owned(),
            format!("    {line}"),
        ],
        false => vec![
            format!("if {condition} {{"),
            format!("    {known}"),
            "} else {".to_owned(),
            format!("    {line}"),
            "}".to_owned(),
        ],
    })
}

/// The condition under which a pointer leads to a function, and the line with a direct call of it.
fn through_pointer(line: &str, words: &Words<'_>, target: &str) -> Option<(String, String)> {
    if !target.split("::").all(is_word) {
        return None;
    }
    let (from, to) = only_callee(line, words)?;
    let callee = line.get(from..to).filter(|callee| *callee != target)?;
    // A member of the same name is a function of a class, and no pointer.
    let last = |name: &str| name.rsplit(['.', '>', ':']).next().map(str::to_owned);
    if target.contains("::") && last(callee) == last(target) {
        return None;
    }
    let mut known = line.to_owned();
    known.replace_range(from..to, target);
    Some((format!("{callee} == {target}"), known))
}

/// Where what is behind the `=` of a line begins that declares one variable.
fn declared_from(language: Language, line: &str) -> Option<usize> {
    let at = line.find(" = ")?;
    let declared = line.get(..at)?;
    let is_declaration = match language {
        Language::Rust => declared.starts_with("let "),
        Language::C | Language::Cpp => {
            let is_of_type = |c: char| is_of_word(c) || c == ' ' || c == '*';
            let first = declared.split(' ').next()?;
            declared.contains(' ')
                && declared.chars().all(is_of_type)
                && !OPENING.contains(&first)
                && !PLAIN.contains(&first)
        }
        _ => false,
    };
    let of = line.get(at..)?;
    let is_one = !of.contains(',') && !of.contains('?') && is_balanced(line) && of.ends_with(';');
    (is_declaration && is_one && of.matches(';').count() == 1).then_some(at + " = ".len())
}

/// The variable that a line divides by, or takes a rest by, if there is one such place only.
pub(in super::super) fn divided_by(line: &str, kind: HintKind) -> Option<&str> {
    let sign = match kind {
        HintKind::Divisor => '/',
        HintKind::Modulus => '%',
        _ => return None,
    };
    let (_, behind) = line.split_once(sign)?;
    if behind.contains(sign) || behind.starts_with(['=', '*']) {
        return None;
    }
    let behind = behind.trim_start();
    let end = behind.find(|c| !is_of_word(c)).unwrap_or(behind.len());
    let (word, rest) = behind.split_at(end);
    let is_variable = is_word(word) && !rest.trim_start().starts_with(['(', '[', '.', ':', '-']);
    // `a / b - c` divides by b, and `a / b->c` does not.
    let is_less = rest.trim_start().starts_with('-') && !rest.trim_start().starts_with("->");
    (is_variable || is_word(word) && is_less).then_some(word)
}

/// Words with where they begin.
pub(super) type Words<'l> = Vec<(usize, &'l str)>;

/// Whether a character is one of a word.
pub(super) fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether a text is one word that does not begin with a digit.
pub(super) fn is_word(text: &str) -> bool {
    text.chars().all(is_of_word) && text.starts_with(|c: char| !c.is_ascii_digit())
}

/// The words of a line.
pub(super) fn words(line: &str) -> Words<'_> {
    let mut words = Vec::new();
    let mut start = None;
    for (at, c) in line.char_indices().chain([(line.len(), ' ')]) {
        match (is_of_word(c), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                words.extend(line.get(from..at).map(|word| (from, word)));
                start = None;
            }
            _ => {}
        }
    }
    words
}

/// What a line begins with that is more than a statement, or part of one.
const OPENING: [&str; 25] = [
    "break", "case", "const", "continue", "default", "defer", "do", "else", "fn", "for", "func",
    "go", "goto", "if", "import", "let", "loop", "match", "package", "static", "switch", "type",
    "use", "var", "while",
];
/// What a statement with none of its own begins with.
const PLAIN: [&str; 1] = ["return"];

/// Whether all brackets of a line are closed, and it has no block, text or comment.
fn is_balanced(line: &str) -> bool {
    let count = |c: char| line.matches(c).count();
    count('(') == count(')')
        && count('[') == count(']')
        && !line.contains(['{', '}', '"', '\'', '\\', '#'])
        && !line.contains("//")
        && !line.contains("/*")
        && !line.replace("::", "").contains(':')
}

/// Whether a line is one statement, and declares nothing that the rest needs.
fn is_statement(language: Language, line: &str, words: &Words<'_>) -> bool {
    let is_ended = match language {
        // A statement ends with its line, unless that ends with an operator.
        Language::Go => {
            let is_assignment = line.contains("= ") && !line.contains("==");
            line.ends_with(|c: char| is_of_word(c) || ")]".contains(c))
                && (is_assignment || line.starts_with("return "))
        }
        _ => line.ends_with(';') && line.matches(';').count() == 1,
    };
    let Some(&(at, first)) = words.first() else {
        return false;
    };
    // Two words in a row, or stars between two, declare something.
    let declares = words.get(1).is_some_and(|(second, _)| {
        let between = line.get(at + first.len()..*second).unwrap_or_default();
        between.chars().all(|c| c.is_whitespace() || c == '*')
    });
    // A line may be the end of a statement that began above.
    let begins = at == 0 && !line.starts_with(|c: char| c.is_ascii_digit());
    let is_whole = is_ended && is_balanced(line) && begins;
    is_whole && !OPENING.contains(&first) && (!declares || PLAIN.contains(&first))
}

/// The line with a number in place of a variable, which it reads and does not change.
fn with_number(line: &str, words: &Words<'_>, variable: &str, value: &str) -> Option<String> {
    let uses = || words.iter().filter(|(_, word)| *word == variable);
    let is_read = |at: usize| {
        let before = line.get(..at).unwrap_or_default().trim_end();
        let behind = line.get(at + variable.len()..).unwrap_or_default();
        let behind = behind.trim_start();
        let mut next = behind.chars();
        let (one, two) = (next.next(), next.next());
        let is_set = match (one, two) {
            (Some('='), two) => two != Some('='),
            (Some('+' | '-' | '*' | '/' | '%' | '&' | '|' | '^'), Some('=')) => true,
            (Some('+'), Some('+')) | (Some('-'), Some('-' | '>')) => true,
            (Some('<'), Some('<')) | (Some('>'), Some('>')) => next.next() == Some('='),
            (Some('(' | '[' | '.'), _) | (Some(':'), Some(':')) => true,
            _ => false,
        };
        let is_part = ["++", "--", "->", ".", "&", "::"]
            .iter()
            .any(|end| before.ends_with(end));
        !is_set && !is_part
    };
    if uses().next().is_none() || !uses().all(|(at, _)| is_read(*at)) {
        return None;
    }
    let mut known = line.to_owned();
    for (at, _) in uses().collect::<Vec<_>>().into_iter().rev() {
        // Behind a minus another one would be a sign of its own.
        let is_close = !known.get(..*at)?.ends_with([' ', '(']);
        let value = match is_close && value.starts_with('-') {
            true => &format!("({value})"),
            false => value,
        };
        known.replace_range(*at..at + variable.len(), value);
    }
    Some(known)
}

/// A text without the types and variables that `sizeof` is asked of.
fn without_sizes_of(text: &str) -> Option<String> {
    const SIZE: &str = "sizeof(";
    let mut rest = text;
    let mut plain = String::new();
    while let Some((before, of)) = rest.split_once(SIZE) {
        let (of, behind) = of.split_once(')')?;
        let is_name = |c: char| is_of_word(c) || " *".contains(c);
        plain.push_str(before);
        rest = behind;
        if !of.chars().all(is_name) {
            return None;
        }
    }
    plain.push_str(rest);
    Some(plain)
}

/// Where the last argument of a call to a function stands, if it can be read twice.
fn last_argument(line: &str, function: &str) -> Option<(usize, usize)> {
    let call = format!("{function}(");
    let start = line.find(&call)? + call.len();
    let (mut depth, mut from, mut to) = (0_usize, None, None);
    for (at, c) in line.char_indices().skip_while(|(at, _)| *at < start) {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' if depth > 0 => depth -= 1,
            ')' => {
                to = Some(at);
                break;
            }
            ',' if depth == 0 => from = Some(at + 1),
            _ => {}
        }
    }
    let (mut from, to) = (from?, to?);
    let argument = line.get(from..to)?;
    from += argument.len() - argument.trim_start().len();
    let argument = argument.trim();
    let is_plain = |c: char| is_of_word(c) || " .->+*[]".contains(c);
    let plain = without_sizes_of(argument)?;
    let changes = ["++", "--"].iter().any(|sign| argument.contains(sign));
    let is_name = argument.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let can_be = is_name && plain.chars().all(is_plain) && !changes;
    can_be.then_some((from, from + argument.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told<'a>(function: &'a str, variable: Option<&'a str>, source: &'a str) -> Told<'a> {
        Told {
            function,
            variable,
            value: "2",
            typed: "2",
            source: Some(source),
            ..Told::default()
        }
    }

    /// A statement is written with the number on one side, and as it was on the other.
    #[test]
    fn statements() {
        let line = "c = skip + (width * x) / group;";
        let lines = case(
            HintKind::Divisor,
            Language::C,
            &told("f", Some("group"), line),
        );
        let lines = lines.expect("it is a statement");
        assert_eq!(
            lines,
            [
                "if (__builtin_expect(group == 2, 1))",
                "    c = skip + (width * x) / 2;",
                "else",
                "    c = skip + (width * x) / group;"
            ]
        );
        let rust = case(
            HintKind::Modulus,
            Language::Rust,
            &told("f", Some("n"), "sum += x % n;"),
        );
        let rust = rust.expect("it is a statement");
        assert_eq!(rust[..2], ["if n == 2 {", "    sum += x % 2;"]);
    }

    /// What declares, changes the variable, is part of a statement or more than one, or names only
    /// a member of that name is left to the reader.
    #[test]
    fn what_is_no_such_statement() {
        for line in [
            "static int c = x / n;",
            "int c = x / n, d = 1;",
            "n = x / n;",
            "x /= n; y++;",
            "if (x / n) y++;",
            "} else x = y / n;",
            "+ x / n;",
            "x = f(&n) / n;",
            "x = y / own->n;",
            "x = y / n++;",
            "x = y / n[0];",
            "x = y / n",
            "x = y /* by n */ / n;",
        ] {
            let lines = case(HintKind::Divisor, Language::C, &told("f", Some("n"), line));
            assert_eq!(lines, None, "{line}");
        }
        let lines = case(
            HintKind::Divisor,
            Language::C,
            &told("f", Some("n"), "return x / n;"),
        );
        assert!(lines.is_some());
    }

    /// What declares a variable declares it once, with both cases behind the sign.
    #[test]
    fn declarations() {
        let of = |language, line| case(HintKind::Modulus, language, &told("f", Some("n"), line));
        assert_eq!(
            of(Language::C, "unsigned long at = hash % n;").expect("it declares one"),
            ["unsigned long at = __builtin_expect(n == 2, 1) ? hash % 2 : hash % n;"]
        );
        assert_eq!(
            of(Language::Rust, "let at = hash % n;").expect("it declares one"),
            ["let at = if n == 2 { hash % 2 } else { hash % n };"]
        );
        assert_eq!(
            of(Language::Rust, "let n = hash % n;").map(|lines| lines.len()),
            None
        );
        assert_eq!(of(Language::Go, "at := hash % n"), None);
    }

    /// Paths of Rust are no labels, and Go's statements end with their lines.
    #[test]
    fn other_languages() {
        let told = |source| Told {
            typed: "2u32",
            ..told("f", Some("base"), source)
        };
        let rust = case(
            HintKind::Divisor,
            Language::Rust,
            &told("total += u64::from(x / base);"),
        );
        assert_eq!(
            rust.expect("it is a statement")[..2],
            ["if base == 2 {", "    total += u64::from(x / 2u32);"]
        );
        let go = |line| case(HintKind::Divisor, Language::Go, &told(line));
        assert_eq!(
            go("sum += x / base").expect("it is a statement")[..1],
            ["if base == 2 {"]
        );
        assert_eq!(go("sum := x / base"), None);
        assert_eq!(go("sum += x / base +"), None);
        assert_eq!(go("f(x / base)"), None);
    }

    /// A number stands for the variable with its type.
    #[test]
    fn types_of_numbers() {
        let told = Told {
            value: "-7",
            typed: "-7",
            ..told("f", Some("d"), "q += x / d;")
        };
        let lines = case(HintKind::Divisor, Language::C, &told).expect("it is a statement");
        assert_eq!(
            lines[..2],
            ["if (__builtin_expect(d == -7, 1))", "    q += x / -7;"]
        );
    }

    /// A copy gets its number, if its size can be read twice.
    #[test]
    fn copies() {
        let line = "memcpy(to + at(i, 2), from, len);";
        let lines = case(HintKind::CopySize, Language::C, &told("memcpy", None, line));
        let lines = lines.expect("it is a call");
        assert_eq!(lines[0], "if (__builtin_expect(len == 2, 1))");
        assert_eq!(lines[1], "    memcpy(to + at(i, 2), from, 2);");
        let line = "memcpy(to, from, n * sizeof(int));";
        let lines = case(HintKind::CopySize, Language::C, &told("memcpy", None, line));
        let lines = lines.expect("it is a call");
        assert_eq!(lines[0], "if (__builtin_expect(n * sizeof(int) == 2, 1))");
        for line in [
            "memcpy(to, from, n++);",
            "memcpy(to, from, size(from));",
            "memcpy(to, from,",
            "copy(to, from, len);",
        ] {
            let lines = case(HintKind::CopySize, Language::C, &told("memcpy", None, line));
            assert_eq!(lines, None, "{line}");
        }
    }

    /// A call through a pointer becomes a direct one, whether that is a variable or a member.
    #[test]
    fn targets() {
        let of = |line| {
            let told = Told {
                value: "of_stat",
                ..told("f", None, line)
            };
            case(HintKind::IndirectTarget, Language::C, &told).map(|lines| lines[..2].to_vec())
        };
        assert_eq!(
            of("cost = model(k, sub[k], with) + costs[j];").expect("it calls once"),
            [
                "if (__builtin_expect(model == of_stat, 1))",
                "    cost = of_stat(k, sub[k], with) + costs[j];"
            ]
        );
        assert_eq!(
            of("g->out.print(g->ctx, text, 1);").expect("it calls once"),
            [
                "if (__builtin_expect(g->out.print == of_stat, 1))",
                "    of_stat(g->ctx, text, 1);"
            ]
        );
        assert_eq!(of("cost = model(other(k));"), None);
        assert_eq!(of("table[i].print(x);"), None);
    }

    /// The divisor is the word behind the sign, if it is no more than a word, and the only one.
    #[test]
    fn divisors() {
        let divisor = |line| divided_by(line, HintKind::Divisor);
        assert_eq!(divisor("c = (n * x) / group;"), Some("group"));
        assert_eq!(divisor("c = x/group - 1;"), Some("group"));
        for line in [
            "x / f(y)",
            "x / own->n",
            "x / n[1]",
            "x / y / z",
            "x /* a */",
            "x /= n",
            "x",
        ] {
            assert_eq!(divisor(line), None, "{line}");
        }
        assert_eq!(
            divided_by("at = h % size;", HintKind::Modulus),
            Some("size")
        );
    }
}
