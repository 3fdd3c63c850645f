//! Names of functions as people read them in a column.
//!
//! Names in C++ and Rust carry their parameters' types, and those of templates the types in those.
//! As in other profilers' reports, text leaves out the parameters of a function and what it
//! returns. What is still too wide loses type arguments, the innermost first.

use crate::elf::special;
use crate::render::{MAX_WIDTH, clean};

/// Stands for what was left out.
const GAP: &str = "...";

/// How text shows names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// As wide as a column.
    Short,
    /// Whole.
    Full,
}

impl Names {
    /// A name as text shows it.
    pub(crate) fn shown(self, name: &str) -> String {
        match self {
            Names::Short => clean(&short(name)),
            Names::Full => clean(name),
        }
    }
}

/// A name without its parameters, in at most [`MAX_WIDTH`] characters.
pub(crate) fn short(name: &str) -> String {
    let name = without_parameters(name);
    let groups = groups(&name);
    let deepest = groups.iter().map(|group| group.depth).max().unwrap_or(0);
    let mut fitting = name.clone();
    for depth in (0..=deepest).rev() {
        if width(&fitting) <= MAX_WIDTH {
            break;
        }
        fitting = folded(&name, &groups, depth);
    }
    cut(&fitting)
}

/// `f` of `void f<int>(int, char) const`: a function without its parameters and what it returns.
///
/// The words in front of a special name are no type that is returned.
pub(crate) fn without_parameters(name: &str) -> String {
    let (words, function) = special::split(name);
    format!("{words}{}", without_own_parameters(function))
}

/// As [`without_parameters`], of a name that is not special.
fn without_own_parameters(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = 0;
    for group in groups(name) {
        let Some((before, after)) = name.get(rest..group.open).zip(name.get(group.close + 1..))
        else {
            continue;
        };
        if group.depth == 0 && group.kind == '(' && is_parameters(before, after) {
            out.push_str(before);
            rest = name.len() - without_qualifiers(after).len();
        }
    }
    if rest == 0 {
        return name.to_owned();
    }
    let start = start_of_name(&out);
    out.push_str(name.get(rest..).unwrap_or_default());
    out.split_off(start)
}

/// Whether what stands between a function's name and the rest of it are its parameters: not a
/// part of the name, nor of what is returned, nor of a file's name.
fn is_parameters(before: &str, after: &str) -> bool {
    const BEHIND: [&str; 5] = ["::", "+0x", "@plt", " [", " ("];
    let named = before
        .chars()
        .next_back()
        .is_some_and(|last| !last.is_whitespace() && last != ':');
    let after = without_qualifiers(after);
    let ends = after.is_empty() || BEHIND.iter().any(|behind| after.starts_with(behind));
    named && ends
}

/// What comes behind the qualifiers of a member function.
fn without_qualifiers(mut after: &str) -> &str {
    while let Some(rest) = [" const", " volatile", " &&", " &", "&&", "&"]
        .iter()
        .find_map(|qualifier| after.strip_prefix(qualifier))
    {
        after = rest;
    }
    after
}

/// Where a function's name begins behind the type that it returns.
fn start_of_name(text: &str) -> usize {
    let groups = groups(text);
    let outside = |at: usize| {
        groups
            .iter()
            .all(|group| at < group.open || group.close < at)
    };
    // Operators have spaces in their names.
    let end = text.find("operator").unwrap_or(text.len());
    let mut spaces = text
        .get(..end)
        .unwrap_or_default()
        .char_indices()
        .filter(|(at, character)| *character == ' ' && outside(*at));
    spaces.next_back().map_or(0, |(at, _)| at + 1)
}

/// Something between brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    /// `<` or `(`.
    kind: char,
    /// Where the brackets are, in bytes.
    open: usize,
    close: usize,
    /// Groups around it.
    depth: usize,
}

/// Longest name that is looked into, in bytes; a longer one is cut as it is.
const MAX_READ: usize = 2048;

/// What is between angle brackets and parentheses in a name, by where it begins. Brackets that
/// are none (operators, arrows) do not count, nor does what is never closed.
fn groups(name: &str) -> Vec<Group> {
    if name.len() > MAX_READ {
        return Vec::new();
    }
    let mut found: Vec<Group> = Vec::new();
    let mut open: Vec<(char, usize)> = Vec::new();
    let mut skip_to = 0;
    let mut previous = ' ';
    for (at, character) in name.char_indices() {
        if at >= skip_to {
            match character {
                '<' | '(' => open.push((character, at)),
                '>' if previous == '-' => {}
                '>' | ')' => close(&mut open, &mut found, character, at),
                _ => {}
            }
            if let Some(behind) = name
                .get(at..)
                .and_then(|rest| rest.strip_prefix("operator"))
            {
                skip_to = name.len() - behind.len() + sign(behind);
            }
        }
        previous = character;
    }
    found.sort_unstable_by_key(|group| group.open);
    let mut around: Vec<usize> = Vec::new();
    for group in &mut found {
        around.retain(|end| group.open < *end);
        group.depth = around.len();
        around.push(group.close);
    }
    found
}

/// Ends the innermost group that this bracket can end; what was begun in it was none.
fn close(open: &mut Vec<(char, usize)>, found: &mut Vec<Group>, bracket: char, at: usize) {
    let index = if bracket == '>' {
        // A comparison in parentheses ends nothing outside of them.
        let last = open.len().checked_sub(1);
        last.filter(|last| open.get(*last).is_some_and(|(begun, _)| *begun == '<'))
    } else {
        open.iter().rposition(|(begun, _)| *begun == '(')
    };
    let Some(index) = index else { return };
    if let Some((kind, begun)) = open.drain(index..).next() {
        found.push(Group {
            kind,
            open: begun,
            close: at,
            depth: 0,
        });
    }
}

/// Length of the sign of the operator whose name goes on so, in bytes.
fn sign(behind: &str) -> usize {
    if behind.starts_with("()") || behind.starts_with("[]") {
        return 2;
    }
    let end = behind.find(|character| !"<>=-*+/%^&|~!,".contains(character));
    end.unwrap_or(behind.len())
}

/// A name without what is in the type arguments at this depth and deeper.
fn folded(name: &str, groups: &[Group], depth: usize) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = 0;
    for group in groups {
        if group.depth == depth && group.close - group.open > GAP.len() {
            out.push_str(name.get(rest..=group.open).unwrap_or_default());
            out.push_str(GAP);
            rest = group.close;
        }
    }
    out.push_str(name.get(rest..).unwrap_or_default());
    out
}

/// A text of at most [`MAX_WIDTH`] characters: of a longer one the beginning and the end.
fn cut(text: &str) -> String {
    let length = width(text);
    if length <= MAX_WIDTH {
        return text.to_owned();
    }
    let head = (MAX_WIDTH - GAP.len()) / 2;
    let tail = MAX_WIDTH - GAP.len() - head;
    let beginning: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{beginning}{GAP}{end}")
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parameters, qualifiers and results go; what only looks like them stays.
    #[test]
    fn parameters() {
        for (whole, expected) in [
            ("main", "main"),
            ("f(int, char)", "f"),
            ("ns::f(int)", "ns::f"),
            ("ns::c::f(std::vector<int>) const", "ns::c::f"),
            ("ns::c::f() const &", "ns::c::f"),
            ("void f<int>(int)", "f<int>"),
            ("std::vector<a, b>& ns::g<c d>(c d)", "ns::g<c d>"),
            ("f(int)+0x12", "f+0x12"),
            ("f(int)@plt", "f@plt"),
            (
                "non-virtual thunk to C::g(long)",
                "non-virtual thunk to C::g",
            ),
            (
                "covariant return thunk to C::g<int>(long) const",
                "covariant return thunk to C::g<int>",
            ),
            ("guard variable for f(int)::x", "guard variable for f::x"),
            ("f(int) [clone .cold]", "f [clone .cold]"),
            ("f(int) (.isra.0)", "f (.isra.0)"),
            ("(anonymous namespace)::f", "(anonymous namespace)::f"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            (
                "ns::(anonymous namespace)::f(a)",
                "ns::(anonymous namespace)::f",
            ),
            ("c::operator()(int) const", "c::operator()"),
            ("c::operator<(c const&)", "c::operator<"),
            ("void c::operator<< <int>(int)", "c::operator<< <int>"),
            ("c::operator->() const", "c::operator->"),
            (
                "c::operator unsigned int() const",
                "c::operator unsigned int",
            ),
            (
                "f(int)::{lambda(int)#1}::operator()(int) const",
                "f::{lambda(int)#1}::operator()",
            ),
            ("<a::B<C> as d::E>::f", "<a::B<C> as d::E>::f"),
            ("<fn(A) -> B as c::D>::f", "<fn(A) -> B as c::D>::f"),
            ("copy (1).so+0x40", "copy (1).so+0x40"),
            ("copy(1).so+0x40", "copy(1).so+0x40"),
            ("[kernel]", "[kernel]"),
            ("f(int", "f(int"),
            (")f(", ")f("),
        ] {
            assert_eq!(without_parameters(whole), expected, "{whole}");
        }
    }

    /// Type arguments go from the inside out, until the name fits.
    #[test]
    fn type_arguments() {
        let tree = "std::_Rb_tree<std::string, std::pair<std::string const, std::vector<int>>, \
                    std::less<std::string>>::_M_insert_<std::string>(std::string&&)";
        assert_eq!(short(tree), "std::_Rb_tree<...>::_M_insert_<...>");
        let map = "std::map<int, std::vector<std::pair<int, std::pair<long, long>>>>::at(int)";
        assert_eq!(short(map), "std::map<int, std::vector<std::pair<...>>>::at");
        let closure =
            "<core::iter::adapters::map::Map<alloc::vec::IntoIter<T>, F> as Iterator>::next";
        assert_eq!(
            short(closure),
            "<core::iter::adapters::map::Map<...> as Iterator>::next"
        );
    }

    /// What does not fit without type arguments loses its middle, and no name is too wide.
    #[test]
    fn width_is_bounded() {
        let long = format!("begin_{}_end", "x".repeat(300));
        let shown = short(&long);
        assert_eq!(width(&shown), MAX_WIDTH);
        assert!(
            shown.starts_with("begin_") && shown.ends_with("_end"),
            "{shown}"
        );
        for odd in [
            "<".repeat(500),
            "(<".repeat(400),
            ">".repeat(300),
            "ä<ö>(".repeat(99),
        ] {
            assert!(width(&short(&odd)) <= MAX_WIDTH, "{odd}");
        }
        assert_eq!(Names::Full.shown(&long), long);
        assert_eq!(Names::Short.shown("a\u{1b}(int)"), "a\\u{1b}");
    }
}
