//! The page around the data: its style and script, and the rule that nothing else is loaded or run.

use sha2::{Digest as _, Sha256};

/// The page with marks where the rest goes.
const PAGE: &str = include_str!("page.html");
/// The mark of the data.
const DATA: &str = "@DATA@";
/// What the page looks like.
const STYLE: &str = include_str!("style.css");
/// The script in its parts, in order.
const SCRIPT: [&str; 9] = [
    include_str!("js/base.js"),
    include_str!("js/model.js"),
    include_str!("js/values.js"),
    include_str!("js/summary.js"),
    include_str!("js/flame.js"),
    include_str!("js/calls.js"),
    include_str!("js/functions.js"),
    include_str!("js/code.js"),
    include_str!("js/main.js"),
];

/// The page of some data, which are JSON.
pub(super) fn page(data: &str) -> String {
    let script = format!("\"use strict\";\n(() => {{\n{}}})();\n", SCRIPT.concat());
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; \
         form-action 'none'",
        base64(&Sha256::digest(&script)),
        base64(&Sha256::digest(STYLE)),
    );
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + script.len() + data.len());
    let mut rest = PAGE;
    // Each mark once, in the order of the page: what is put in is not looked at again.
    for (mark, text) in [
        ("@POLICY@", policy.as_str()),
        ("@STYLE@", STYLE),
        (DATA, data),
        ("@SCRIPT@", &script),
    ] {
        if let Some((before, behind)) = rest.split_once(mark) {
            page.push_str(before);
            match mark {
                DATA => push_as_text_of_script(&mut page, text),
                _ => page.push_str(text),
            }
            rest = behind;
        }
    }
    page.push_str(rest);
    page
}

/// Adds JSON as it may stand in an element of a page: nothing in it ends the element or begins a
/// comment, and no old reader takes it for the end of a line. These characters stand in strings
/// alone.
fn push_as_text_of_script(out: &mut String, json: &str) {
    for character in json.chars() {
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            // Carriage returns become line feeds where a page is read, and NUL a mark.
            '\u{7f}'..='\u{9f}' | '\u{feff}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => out.push(character),
        }
    }
}

/// Base 64 with padding, as policies have digests.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let mut group = [0; 3];
        for (to, from) in group.iter_mut().zip(chunk) {
            *to = *from;
        }
        let [a, b, c] = group.map(u32::from);
        let bits = a << 16 | b << 8 | c;
        for place in 0..4 {
            let index = (bits >> (18 - 6 * place)) & 63;
            let digit = DIGITS.get(index as usize).copied().unwrap_or(b'=');
            out.push(char::from(if place <= chunk.len() { digit } else { b'=' }));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digests are written as the standard writes them.
    #[test]
    fn base_64() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foobar", "Zm9vYmFy"),
            (&[0xfb, 0xff, 0xfe], "+//+"),
        ] {
            assert_eq!(base64(bytes), text);
        }
    }

    /// Whatever a name is, the page has one element of data, which holds the name unchanged.
    #[test]
    fn data_stays_in_its_element() {
        let name = "</script><script>alert(1)</script><!--\u{2028}\u{0}\r\u{202e}&lt;@SCRIPT@";
        let json = serde_json::to_string(&[name]).expect("a string is JSON");
        let page = page(&json);
        let open = "<script type=\"application/json\" id=\"data\">";
        let (_, rest) = page.split_once(open).expect("there is data");
        let (data, _) = rest.split_once("</script>").expect("it ends");
        assert!(!data.contains(['<', '>', '&', '\u{2028}', '\u{0}', '\r']));
        let read: Vec<String> = serde_json::from_str(data).expect("data are JSON");
        assert_eq!(read, [name]);
        assert_eq!(page.matches("<script").count(), 2);
    }

    /// Everything that the page refers to is in the page.
    #[test]
    fn no_network() {
        let page = page("{}");
        for word in [
            "http:", "https:", "//cdn", "@import", "url(", "src=", "eval(",
        ] {
            assert!(!page.contains(word), "{word}");
        }
        assert!(!SCRIPT.concat().contains("innerHTML"));
    }
}
