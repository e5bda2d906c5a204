//! Text of a server as a terminal may see it.
//!
//! What a terminal would act on is shown as it is written in Rust: controls such as ESC and BEL,
//! line breaks, since a line of a server could pass for one of this program, what turns the
//! direction of text around, and what is not seen. Which characters those are is the same as in
//! logs: [`is_steering`].

use std::borrow::Cow;
use std::fmt::Write as _;

use tidewire::service::{OneLine, is_steering};

/// The same text; what is not plain character is escaped.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_steering) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(OneLine(text).to_string())
}

/// The same text of several lines; breaks and tabs stay.
pub(crate) fn printable_lines(text: &str) -> String {
    let lines =
        text.split('\n').map(|line| line.split('\t').map(printable).collect::<Vec<_>>().join("\t"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The same JSON, with what is not plain character as JSON escapes it.
pub(crate) fn printable_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match is_steering(c) {
            true => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // To a text always.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            false => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_escaped() {
        let check = |text, expected: &str| assert_eq!(printable(text), expected, "{text:?}");
        check("no ✓ – grün, 你好", "no ✓ – grün, 你好");
        check("a\x1b[31mb\x07", r"a\u{1b}[31mb\u{7}");
        check("a\r\nb\tc", r"a\r\nb\tc");
        check("\u{9b}31m\u{7f}", r"\u{9b}31m\u{7f}");
        check("\u{202e}txt.exe", r"\u{202e}txt.exe");
        check("a\u{200b}b\u{feff}\u{e0041}", r"a\u{200b}b\u{feff}\u{e0041}");
        assert_eq!(printable_lines("a\x1b:\n\tb\r\n"), "a\\u{1b}:\n\tb\\r\n");
        assert_eq!(printable_json("{\"a\":\"\u{9b}\u{7f}ü\"}"), r#"{"a":"\u009b\u007fü"}"#);
        assert_eq!(printable_json("\"\u{200b}\u{e0041}\""), r#""\u200b\udb40\udc41""#);
    }
}
