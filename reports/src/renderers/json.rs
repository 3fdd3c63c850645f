//! Answers as JSON.

use std::fmt::Write as _;

use super::Renderer;
use crate::failure::Failure;
use crate::model::{Model, Shape};
use crate::names::Names;
use crate::render::is_unsafe;

/// JSON, laid out to be read.
pub(super) struct Json;

impl Renderer for Json {
    fn render(&self, model: &dyn Model, _names: Names) -> Result<String, Failure> {
        Ok(escaped(&model.pretty()?))
    }

    fn nothing(&self, shape: Shape) -> Option<&'static str> {
        Some(match shape {
            Shape::Rows => "[]",
            Shape::Object => "{}",
        })
    }
}

/// Controls that JSON would let through as they are, but a terminal obeys, are escaped.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        if character != '\n' && is_unsafe(character) {
            // All of them are below U+10000, so one escape does.
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// JSON with controls in it reads back as the same name.
    #[test]
    fn json_escapes_controls() {
        let name = "a\u{1b}\u{9b}\u{202e}\"\\b";
        let out = escaped(&serde_json::to_string_pretty(&[name]).expect("serialises"));
        assert!(!out.chars().any(|c| c != '\n' && is_unsafe(c)));
        let back: Vec<String> = serde_json::from_str(&out).expect("is JSON");
        assert_eq!(back, [name]);
    }
}
