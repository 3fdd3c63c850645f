//! Calls through pointers, and of virtual functions.

use super::rewritten::{Words, is_of_word, is_word};
use super::{qualified, split_qualified};

/// A member function that a call reaches.
#[derive(Debug, Clone, Copy)]
pub(super) struct MethodCall<'a> {
    class: &'a str,
    method: &'a str,
    is_const: bool,
}

impl<'a> MethodCall<'a> {
    /// Of a name with its class, or its namespace.
    pub(super) fn of(target: &'a str) -> Option<MethodCall<'a>> {
        let (class, method) = split_qualified(qualified(target))?;
        let can_be_named = !class.contains(['(', '{', '[']) && is_word(method);
        can_be_named.then_some(MethodCall {
            class,
            method,
            is_const: target.ends_with(" const"),
        })
    }

    /// The condition under which an object is of the class, and the direct call up to its
    /// arguments.
    fn texts(&self, object: &str) -> (String, String) {
        let class = self.class;
        let of_const = if self.is_const { "const " } else { "" };
        (
            format!("typeid({object}) == typeid({class})"),
            format!(
                "static_cast<{of_const}{class} &>({object}).{class}::{}",
                self.method
            ),
        )
    }

    /// What has to hold for the case to be taken, and to compile.
    pub(super) fn condition_of_type(&self) -> String {
        format!(
            "/* if objects are of {} itself: a class derived from it may have its function; needs \
             <typeinfo> */",
            self.class
        )
    }

    /// A pattern to fill in.
    pub(super) fn pattern(&self) -> Vec<String> {
        let (condition, call) = self.texts("*object");
        vec![
            format!("if (__builtin_expect({condition}, 1))"),
            format!("    {call}(...);"),
            "else".to_owned(),
            "    /* as it is */".to_owned(),
        ]
    }

    /// The condition, and a line of the source with the direct call, if it calls a member of this
    /// name once.
    pub(super) fn in_line(&self, line: &str, words: &Words<'_>) -> Option<(String, String)> {
        let mut calls = words.iter().filter(|(at, word)| {
            let behind = line.get(at + word.len()..).unwrap_or_default();
            *word == self.method && behind.starts_with('(')
        });
        let (&(at, word), None) = (calls.next()?, calls.next()) else {
            return None;
        };
        let before = line.get(..at)?;
        let (before, is_pointer) = match before.strip_suffix("->") {
            Some(before) => (before, true),
            None => (before.strip_suffix('.')?, false),
        };
        let from = path_start(before);
        let object = before.get(from..).filter(|object| is_path(object))?;
        let is_whole = !before.get(..from)?.ends_with([']', ')', ':']);
        let object = match is_pointer {
            true => format!("*{object}"),
            false => object.to_owned(),
        };
        let (condition, call) = self.texts(&object);
        let behind = line.get(at + word.len()..)?;
        let known = format!("{}{call}{behind}", before.get(..from)?);
        is_whole.then_some((condition, known))
    }
}

/// Where what is called stands, if a line calls once.
pub(super) fn only_callee(line: &str, words: &Words<'_>) -> Option<(usize, usize)> {
    let mut calls = words.iter().filter(|(at, word)| {
        let behind = line.get(at + word.len()..).unwrap_or_default();
        behind.starts_with('(') && !["return", "sizeof"].contains(word)
    });
    let (&(at, word), None) = (calls.next()?, calls.next()) else {
        return None;
    };
    // What a member belongs to.
    let before = line.get(..at)?;
    let from = path_start(before);
    // Behind a minus or a bracket stands more than the parts of a structure.
    let path = line.get(from..at)?;
    let is_whole = !line.get(..from)?.ends_with([']', ')']);
    let is_alone = path.is_empty()
        || path
            .strip_suffix("->")
            .or(path.strip_suffix('.'))
            .is_some_and(is_path);
    (is_alone && is_whole).then_some((from, at + word.len()))
}

/// Where the variable or the member of one begins that a text ends with.
fn path_start(text: &str) -> usize {
    let is_of_path = |c: char| is_of_word(c) || ".->".contains(c);
    text.rfind(|c| !is_of_path(c)).map_or(0, |last| last + 1)
}

/// Whether a text is a variable or a member of one.
fn is_path(text: &str) -> bool {
    text.replace("->", ".")
        .split('.')
        .all(|part| !part.is_empty() && is_word(part))
}

#[cfg(test)]
mod tests {
    use super::super::rewritten::words;
    use super::*;

    fn in_line(target: &str, line: &str) -> Option<(String, String)> {
        MethodCall::of(target)?.in_line(line, &words(line))
    }

    /// A virtual call becomes a direct one behind a test for the object's type, in its statement.
    #[test]
    fn methods() {
        let (condition, known) =
            in_line("Square::area(long) const", "total += shape->area(k);").expect("it is one");
        assert_eq!(condition, "typeid(*shape) == typeid(Square)");
        assert_eq!(
            known,
            "total += static_cast<const Square &>(*shape).Square::area(k);"
        );
        let (_, known) = in_line("a::B<c::D>::run()", "own->shape.run();").expect("it is one");
        assert_eq!(
            known,
            "static_cast<a::B<c::D> &>(own->shape).a::B<c::D>::run();"
        );
        for (target, line) in [
            ("Square::area(long) const", "total += at(i)->area(k);"),
            ("Square::area(long) const", "total += shape->size(k);"),
            ("Square::area(long) const", "total += shapes[i]->area(k);"),
            ("Square::area(long) const", "total += area(k);"),
            ("area(long)", "total += shape->area(k);"),
            ("f()::{lambda()#1}::area() const", "total += shape->area();"),
        ] {
            assert_eq!(in_line(target, line), None, "{target} {line}");
        }
    }

    /// Without a line the pattern names the class.
    #[test]
    fn patterns() {
        let lines = MethodCall::of("Square::area(long) const")
            .expect("it has a class")
            .pattern();
        assert_eq!(
            lines[0],
            "if (__builtin_expect(typeid(*object) == typeid(Square), 1))"
        );
        assert_eq!(
            lines[1],
            "    static_cast<const Square &>(*object).Square::area(...);"
        );
    }
}
