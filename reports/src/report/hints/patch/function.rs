//! A function of the source as text: whether a line of it begins a statement, and whether the
//! function leaves a variable as it was called with.
//!
//! What is read here is no grammar. All that is not plain counts as a change.

use super::rewritten::{is_of_word, words};
use crate::variables::Language;

/// A function of the source.
#[derive(Debug)]
pub(super) struct Function {
    language: Language,
    /// From its name on, up to the bracket that ends it, without comments, texts and characters.
    text: String,
    /// Where its body begins.
    body: usize,
    /// Where the line begins that is looked at.
    line: usize,
}

impl Function {
    /// The function of this name, from the line that it is named on, of which one is looked at.
    pub(super) fn new(
        language: Language,
        name: &str,
        lines: &[String],
        looked_at: usize,
    ) -> Option<Function> {
        let text = plain(language, &lines.join("\n"));
        // What a template is made for, and where a function belongs to, stand elsewhere.
        let name = name.split('<').next()?.rsplit(['.', ':']).next()?;
        let body = text.find('{')?;
        let head = text.get(..body)?;
        if !words(head).iter().any(|(_, word)| *word == name) {
            return None;
        }
        let end = closing(&text, body)?;
        let line = text.split_inclusive('\n').take(looked_at).map(str::len);
        let line: usize = line.sum();
        let text = text.get(..end)?.to_owned();
        // Of several texts that a preprocessor chooses from, one is compiled.
        let is_plain = !text.lines().any(|line| line.trim_start().starts_with('#'))
            || language == Language::Rust;
        (is_plain && (body..end).contains(&line)).then_some(Function {
            language,
            text,
            body,
            line,
        })
    }

    /// Whether the line begins a statement.
    pub(super) fn begins_statement(&self) -> bool {
        let before = self.text.get(self.body..self.line).unwrap_or_default();
        let count = |c: char| before.matches(c).count();
        let before = before.trim_end();
        let last = before.lines().next_back().unwrap_or_default().trim();
        let is_case = || last.starts_with("case ") || last.starts_with("default");
        let is_behind = match before.chars().next_back() {
            Some('{' | '}' | ';') => true,
            Some(':') => is_case(),
            Some(')') => is_control(before) || self.language == Language::Go,
            Some(_) if self.language == Language::Go => {
                before.ends_with(|c| is_of_word(c) || c == ']')
            }
            Some(_) => ["else", "do"].contains(&last) || last == "} else",
            None => false,
        };
        count('(') == count(')') && count('[') == count(']') && is_behind
    }

    /// Whether a parameter has the value all over the function that it is called with: nothing
    /// changes it, hides it, or hands it on where it may be changed.
    pub(super) fn leaves(&self, parameter: &str) -> bool {
        let body = self.text.get(self.body..).unwrap_or_default();
        let words = words(body);
        let is_odd = |word: &str| ["asm", "__asm__", "volatile", "_Atomic"].contains(&word);
        let all: Vec<&str> = self.text.split(|c| !is_of_word(c)).collect();
        let mut uses = words.iter().filter(|(_, word)| *word == parameter);
        !all.into_iter().any(is_odd)
            && uses.all(|(at, word)| {
                let before = body.get(..*at).unwrap_or_default().trim_end();
                let behind = body.get(at + word.len()..).unwrap_or_default();
                is_only_read(before, behind.trim_start())
            })
    }
}

/// Whether what stands between two texts is plainly read, or no variable.
fn is_only_read(before: &str, behind: &str) -> bool {
    /// Words that an expression may stand behind.
    const READERS: [&str; 10] = [
        "return", "else", "case", "sizeof", "if", "while", "as", "in", "do", "match",
    ];
    let is_member = before.ends_with("->") || before.ends_with('.') && !before.ends_with("..");
    if is_member {
        return true;
    }
    let is_declared = before.ends_with(is_of_word) && {
        let last = before.rsplit(|c| !is_of_word(c)).next();
        !last.is_some_and(|last| READERS.contains(&last))
    };
    let is_referred = before.ends_with('&') && !before.ends_with("&&");
    let is_stepped = ["++", "--", ">>", "::"]
        .iter()
        .any(|sign| before.ends_with(sign))
        || ["++", "--", "::"]
            .iter()
            .any(|sign| behind.starts_with(sign));
    !is_declared
        && !is_referred
        && !is_stepped
        && !is_set(behind)
        && !is_handed_on(before, behind)
        && !is_pointed(before, behind)
}

/// Whether a text sets what stands in front of it.
fn is_set(behind: &str) -> bool {
    let sign: String = behind
        .chars()
        .take_while(|c| "=+-*/%&|^<>!:".contains(*c))
        .collect();
    let is_compared = ["==", "!=", "<=", ">="]
        .iter()
        .any(|of| sign.starts_with(of));
    let is_arm = sign.starts_with("=>");
    is_arm || !is_compared && sign.contains('=')
}

/// Whether what stands between two texts is alone in brackets or a list: it is handed on to what
/// may be a macro or take a reference, or is a pattern.
fn is_handed_on(before: &str, behind: &str) -> bool {
    let begins = before.ends_with(['(', ',', '{', '|', '[']);
    let ends = behind.starts_with([')', ',', '}', '|']) && !behind.starts_with("||");
    // Several may be set at once.
    let is_first = before.ends_with([';', '}', ')', ']']) && behind.starts_with(',');
    let is_condition = before.ends_with('(') && {
        let before = before.trim_end_matches('(').trim_end();
        ["if", "while", "switch", "return", "sizeof"]
            .iter()
            .any(|word| ends_with_word(before, word))
    };
    begins && ends && !is_condition || is_first || behind.starts_with('@')
}

/// Whether what stands between two texts may be declared as a pointer or reference.
fn is_pointed(before: &str, behind: &str) -> bool {
    before.ends_with('*') && {
        let before = before.trim_end_matches('*').trim_end();
        let of = before.trim_end_matches(|c| is_of_word(c) || c == ' ');
        let begins = of.trim_end().ends_with([';', '{', '}']);
        begins && behind.starts_with([';', '=', ',', ')', '['])
    }
}

fn ends_with_word(text: &str, word: &str) -> bool {
    text.strip_suffix(word)
        .is_some_and(|before| !before.ends_with(is_of_word))
}

/// Whether a text ends with the brackets of a condition or a loop.
fn is_control(text: &str) -> bool {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let before = text.get(..at).unwrap_or_default().trim_end();
            let words = ["if", "for", "while", "switch"];
            return words.iter().any(|word| ends_with_word(before, word));
        }
    }
    false
}

/// Where the bracket is closed that is opened at a place.
fn closing(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < open) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Whether a text names something, in no comment and no text of its own.
pub(super) fn names(language: Language, text: &str, name: &str) -> bool {
    words(&plain(language, text))
        .iter()
        .any(|(_, word)| *word == name)
}

/// A text with blanks in place of comments, texts and characters, up to one that is not plain.
fn plain(language: Language, text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        // Of raw texts other rules hold.
        let is_raw = c == '`' || c == '"' && plain.ends_with(['R', 'r', '#']);
        let length = blank(language, rest);
        let (seen, behind) = rest.split_at(length.max(c.len_utf8()));
        match length {
            _ if is_raw => break,
            0 => plain.push(c),
            _ => plain.extend(seen.chars().map(|c| if c == '\n' { '\n' } else { ' ' })),
        }
        rest = behind;
    }
    plain
}

/// How long the comment, text or character is that a text begins with.
fn blank(language: Language, text: &str) -> usize {
    let up_to = |end: &str, from: usize| {
        let behind = text.get(from..).and_then(|behind| behind.find(end));
        behind.map_or(text.len(), |at| from + at)
    };
    if text.starts_with("//") {
        return up_to("\n", 0);
    }
    if text.starts_with("/*") {
        return (up_to("*/", 2) + 2).min(text.len());
    }
    let quote = match text.chars().next() {
        Some(quote @ ('"' | '\'')) => quote,
        _ => return 0,
    };
    // A lifetime is no character.
    let is_lifetime = || {
        let mut behind = text.chars().skip(1);
        let (first, second) = (behind.next(), behind.next());
        first != Some('\\') && second != Some('\'')
    };
    if quote == '\'' && language == Language::Rust && is_lifetime() {
        return 0;
    }
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(language: Language, text: &str, looked_at: usize) -> Option<Function> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        Function::new(language, "f", &lines, looked_at)
    }

    /// A name is one where it is a word of the code, not of a comment or a text.
    #[test]
    fn named() {
        for (text, is_named) in [
            ("static int get(void *);\n", true),
            ("a = get;", true),
            (
                "/* get */ char *s = \"get\"; // get\nint get2, forget;",
                false,
            ),
        ] {
            assert_eq!(names(Language::C, text, "get"), is_named, "{text}");
        }
    }

    /// A function whose body this is, with a division by `w` at its end.
    fn leaves(language: Language, body: &str) -> bool {
        let text = format!("int f(int x, int w)\n{{\n{body}\ns += x / w;\n}}\nint w = 3;\n");
        let function = function(language, &text, 2).expect("it is a function");
        function.leaves("w")
    }

    /// A parameter that is only read has the value that the function was called with.
    #[test]
    fn what_is_left_alone() {
        for body in [
            "int s = 0;",
            "for (int i = 0; i < w; i++) { s += w * i - w; }",
            "if (w == 10 && w <= x) return w;",
            "if (w) x = a[w] << w;",
            "c->w = own.w; // w = 3;",
            "puts(\"w = 3\"); /* w++ */ char c = 'w'; puts(\"error\");",
            "x = sizeof(w) + g(w + 1, x * w);",
        ] {
            assert!(leaves(Language::C, body), "{body}");
        }
        assert!(leaves(
            Language::Rust,
            "let q: &'static u32 = y; let z = w as u64;"
        ));
    }

    /// A parameter that is set, stepped, hidden, referred to, or handed on may have another value.
    #[test]
    fn what_is_changed() {
        for body in [
            "w = w * 2 + 1;",
            "if (x) w += 3;",
            "w <<= 1;",
            "w++;",
            "--w;",
            "int w = x;",
            "for (int w : all) {}",
            "int *w;",
            "T &w = x;",
            "g(&w);",
            "swap(x, w);",
            "DIV(w);",
            "std::cin >> w;",
            "auto g = [&w] {};",
            "asm(\"\");",
            "volatile int y;",
        ] {
            assert!(!leaves(Language::Cpp, body), "{body}");
        }
        for body in [
            "let w = w * 2 + 1;",
            "let mut w = w;",
            "if let Some(w) = y {}",
            "for w in 0..3 {}",
            "match x { w => 3, }",
            "let g = |w| w + 1;",
            "let Own { w, .. } = own;",
        ] {
            assert!(!leaves(Language::Rust, body), "{body}");
        }
    }

    /// A function with a text of other rules is not read.
    #[test]
    fn raw_texts() {
        let text = "fn f(w: u32) {\nlet a = r#\"\"w\"#;\ns += w;\n}";
        assert!(function(Language::Rust, text, 2).is_none());
        let behind = format!("fn f(w: u32) {{\ns += w;\n}}\n{text}");
        assert!(function(Language::Rust, &behind, 1).is_some());
    }

    /// A line begins a statement behind the end of one, a block, or a condition.
    #[test]
    fn beginnings() {
        let begins = |before: &str| {
            let open = before.matches('{').count();
            let text = format!("int f(int w) {{\n{before}\ns += w;\n}}{}", "}".repeat(open));
            let looked_at = 1 + before.lines().count();
            function(Language::C, &text, looked_at).map(|of| of.begins_statement())
        };
        for before in [
            "x = 3;",
            "if (a) {",
            "if (a(b))",
            "else",
            "case 3:",
            "x = 3; // y",
        ] {
            assert_eq!(begins(before), Some(true), "{before}");
        }
        for before in ["x =", "x = a ? b :", "g(a)", "for (x = 1;", "x = y +"] {
            assert_ne!(begins(before), Some(true), "{before}");
        }
        // What a preprocessor chooses is not read.
        assert_eq!(begins("#if A"), None);
    }

    /// A text is a function if it has its name in front of the body that the line is in.
    #[test]
    fn what_is_no_function() {
        for text in [
            "int g(int w) {\ns += w;\n}",
            "int f(int w);\ns += w;",
            "int f() {\n}\ns += w;\n",
        ] {
            let looked_at = text
                .lines()
                .position(|line| line == "s += w;")
                .expect("it is there");
            assert!(function(Language::C, text, looked_at).is_none(), "{text}");
        }
    }
}
