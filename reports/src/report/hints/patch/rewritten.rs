//! A line of the source written anew, with a case for a value: text that compiles as it is.
//!
//! Only lines are taken that are one whole statement, and whose second writing means the same. Of
//! all others there is a pattern to fill in.

use super::targets::{MethodCall, only_callee};
use super::{HintKind, qualified};
use crate::variables::Language;

/// A line with a case: its statement twice, once as it is known to be under a condition. `None`
/// where it is no such statement, and declares nothing that both cases may be behind the sign of.
pub(super) fn both(
    language: Language,
    line: &str,
    condition: &str,
    known: &str,
) -> Option<Vec<String>> {
    let is_c = matches!(language, Language::C | Language::Cpp);
    if !is_statement(language, line, &words(line)) {
        let (declared, of) = line.split_at(declared_from(language, line)?);
        let of = of.strip_suffix(';')?;
        let known = known.strip_prefix(declared)?.strip_suffix(';')?;
        return Some(vec![match is_c {
            true => format!("{declared}__builtin_expect({condition}, 1) ? {known} : {of};"),
            false => format!("{declared}if {condition} {{ {known} }} else {{ {of} }};"),
        }]);
    }
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

/// Both cases of a line that copies, or calls through a pointer.
pub(super) fn of_call(
    kind: HintKind,
    language: Language,
    line: &str,
    function: &str,
    value: &str,
) -> Option<Vec<String>> {
    let words = words(line);
    let can_be = matches!(language, Language::C | Language::Cpp);
    if !can_be || !is_statement(language, line, &words) {
        return None;
    }
    let (condition, known) = match kind {
        HintKind::CopySize => {
            let (from, to) = last_argument(line, function)?;
            let size = line.get(from..to)?;
            let mut known = line.to_owned();
            known.replace_range(from..to, value);
            (format!("{size} == {value}"), known)
        }
        HintKind::IndirectTarget => {
            let method = MethodCall::of(value).filter(|_| language == Language::Cpp);
            match method.and_then(|method| method.in_line(line, &words)) {
                Some(texts) => texts,
                None => through_pointer(line, &words, qualified(value))?,
            }
        }
        _ => return None,
    };
    both(language, line, &condition, &known)
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
            let declared = declared.strip_prefix("const ").unwrap_or(declared);
            let first = declared.split(' ').next()?;
            declared.contains(' ')
                && declared.chars().all(is_of_type)
                && !OPENING.contains(&first)
                && !PLAIN.contains(&first)
        }
        _ => false,
    };
    let of = line.get(at..)?;
    let is_one = !of.contains([',', '?']) && is_balanced(line) && of.ends_with(';');
    // Behind a colon nothing can be set.
    let sets_one = ["==", "!=", "<=", ">="]
        .iter()
        .fold(of.to_owned(), |of, sign| of.replace(sign, ""))
        .matches('=')
        .count()
        == 1
        && !of.contains("<<=")
        && !of.contains(">>=");
    let is_whole = is_one && sets_one && of.matches(';').count() == 1;
    (is_declaration && is_whole).then_some(at + " = ".len())
}

/// The variable that a line divides by, or takes a rest by, if there is one such place only.
pub(in super::super) fn divided_by(line: &str, kind: HintKind) -> Option<&str> {
    divisor(line, kind).map(|(_, name)| name)
}

/// That, with where it stands.
pub(super) fn divisor(line: &str, kind: HintKind) -> Option<(usize, &str)> {
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
    let at = line.len() - behind.len();
    (is_variable || is_word(word) && is_less).then_some((at, word))
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

/// Where a line that does not change a variable reads it.
pub(super) fn reads(line: &str, variable: &str) -> Option<Vec<usize>> {
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
    let words = words(line).into_iter();
    let uses: Vec<usize> = words
        .filter_map(|(at, word)| (word == variable).then_some(at))
        .collect();
    (!uses.is_empty() && uses.iter().all(|at| is_read(*at))).then_some(uses)
}

/// Whether what stands at a place of a line is calculated with, or compared.
pub(super) fn is_calculated(line: &str, at: usize, name: &str) -> bool {
    let before = line.get(..at).unwrap_or_default().trim_end();
    let behind = line.get(at + name.len()..).unwrap_or_default().trim_start();
    let is_sign = |c: char| "+-*/%".contains(c);
    let is_compared = ["==", "!=", "<=", ">="];
    before.ends_with(is_sign)
        || behind.starts_with(is_sign)
        || is_compared
            .iter()
            .any(|sign| before.ends_with(sign) || behind.starts_with(sign))
}

/// A line with a number in place of a variable.
pub(super) fn with_number(line: &str, at: usize, variable: &str, number: &str) -> Option<String> {
    let mut known = line.to_owned();
    // Behind a minus another one would be a sign of its own.
    let is_close = !known.get(..at)?.ends_with([' ', '(']);
    let number = match is_close && number.starts_with('-') {
        true => &format!("({number})"),
        false => number,
    };
    known.replace_range(at..at + variable.len(), number);
    Some(known)
}

/// Whether a line calls something.
pub(super) fn calls(line: &str) -> bool {
    words(line).iter().any(|(at, word)| {
        let behind = line.get(at + word.len()..).unwrap_or_default();
        behind.starts_with('(') && !["return", "sizeof"].contains(word)
    })
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
mod tests;
