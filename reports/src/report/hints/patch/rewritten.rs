//! A line of the source written anew, with a case for a value: text that compiles as it is.
//!
//! Only lines are taken that are one whole statement, and whose second writing means the same. Of
//! all others there is a pattern to fill in.

use super::{HintKind, Language, Told};

/// Both cases of the statement that the told line is; `None` where that is no such statement, or
/// does not name what has the value.
pub(super) fn case(kind: HintKind, language: Language, told: &Told<'_>) -> Option<Vec<String>> {
    let line = told.source?.trim();
    let words = words(line);
    if !is_statement(line, &words) {
        return None;
    }
    let (condition, known) = match kind {
        HintKind::SemiInvariantLoad | HintKind::Divisor | HintKind::Modulus => {
            let variable = told.variable?;
            let known = with_number(line, &words, variable, told.value)?;
            (format!("{variable} == {}", told.value), known)
        }
        HintKind::CopySize if language == Language::C => {
            let (from, to) = last_argument(line, told.function)?;
            let size = line.get(from..to)?;
            let mut known = line.to_owned();
            known.replace_range(from..to, told.value);
            (format!("{size} == {}", told.value), known)
        }
        HintKind::IndirectTarget if language == Language::C && is_word(told.value) => {
            let (from, to) = only_callee(line, &words)?;
            let callee = line.get(from..to).filter(|callee| *callee != told.value)?;
            let mut known = line.to_owned();
            known.replace_range(from..to, told.value);
            (format!("{callee} == {}", told.value), known)
        }
        _ => return None,
    };
    Some(match language {
        Language::C => vec![
            format!("if (__builtin_expect({condition}, 1))"),
            format!("    {known}"),
            "else".to_owned(),
            format!("    {line}"),
        ],
        Language::Rust => vec![
            format!("if {condition} {{"),
            format!("    {known}"),
            "} else {".to_owned(),
            format!("    {line}"),
            "}".to_owned(),
        ],
    })
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
type Words<'l> = Vec<(usize, &'l str)>;

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether a text is one word that does not begin with a digit.
fn is_word(text: &str) -> bool {
    text.chars().all(is_of_word) && text.starts_with(|c: char| !c.is_ascii_digit())
}

fn words(line: &str) -> Words<'_> {
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

/// Whether a line is one statement, and declares nothing that the rest needs.
fn is_statement(line: &str, words: &Words<'_>) -> bool {
    /// What a line begins with that is more than a statement, or part of one.
    const OPENING: [&str; 12] = [
        "if", "else", "for", "while", "do", "switch", "case", "default", "goto", "let", "const",
        "static",
    ];
    /// What a statement with none of its own begins with.
    const PLAIN: [&str; 1] = ["return"];
    let count = |c: char| line.matches(c).count();
    let is_whole = line.ends_with(';')
        && count(';') == 1
        && count('(') == count(')')
        && count('[') == count(']')
        && !line.contains(['{', '}', '"', '\'', ':', '\\', '#'])
        && !line.contains("//")
        && !line.contains("/*");
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
    is_whole && begins && !OPENING.contains(&first) && (!declares || PLAIN.contains(&first))
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
            (Some('(' | '[' | '.'), _) => true,
            _ => false,
        };
        let is_part = ["++", "--", "->", ".", "&"]
            .iter()
            .any(|end| before.ends_with(end));
        !is_set && !is_part
    };
    if uses().next().is_none() || !uses().all(|(at, _)| is_read(*at)) {
        return None;
    }
    let mut known = line.to_owned();
    for (at, _) in uses().collect::<Vec<_>>().into_iter().rev() {
        known.replace_range(*at..at + variable.len(), value);
    }
    Some(known)
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
    let changes = ["++", "--"].iter().any(|sign| argument.contains(sign));
    let is_name = argument.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let can_be = is_name && argument.chars().all(is_plain) && !changes;
    can_be.then_some((from, from + argument.len()))
}

/// Where what is called stands, if a line calls once.
fn only_callee(line: &str, words: &Words<'_>) -> Option<(usize, usize)> {
    let mut calls = words.iter().filter(|(at, word)| {
        let behind = line.get(at + word.len()..).unwrap_or_default();
        behind.starts_with('(') && !["return", "sizeof"].contains(word)
    });
    let (&(at, word), None) = (calls.next()?, calls.next()) else {
        return None;
    };
    // What a member belongs to.
    let before = line.get(..at)?;
    let is_of_path = |c: char| is_of_word(c) || ".->".contains(c);
    let from = before.rfind(|c| !is_of_path(c)).map_or(0, |last| last + 1);
    // Behind a minus or a bracket stands more than the parts of a structure.
    let path = line.get(from..at)?;
    let is_path = path
        .replace("->", ".")
        .split('.')
        .all(|part| part.is_empty() || is_word(part))
        && !path.starts_with(['.', '-', '>'])
        && !line.get(..from)?.ends_with([']', ')']);
    is_path.then_some((from, at + word.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told<'a>(function: &'a str, variable: Option<&'a str>, source: &'a str) -> Told<'a> {
        Told {
            function,
            variable,
            value: "2",
            arguments: &[],
            taken: false,
            source: Some(source),
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
            "int c = x / n;",
            "struct part *c = x / n;",
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

    /// A copy gets its number, if its size can be read twice.
    #[test]
    fn copies() {
        let line = "memcpy(to + at(i, 2), from, len);";
        let lines = case(HintKind::CopySize, Language::C, &told("memcpy", None, line));
        let lines = lines.expect("it is a call");
        assert_eq!(lines[0], "if (__builtin_expect(len == 2, 1))");
        assert_eq!(lines[1], "    memcpy(to + at(i, 2), from, 2);");
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
