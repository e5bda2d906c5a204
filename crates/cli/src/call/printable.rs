//! Text of a server as a terminal may see it.
//!
//! What a terminal would act on is shown as it is written in Rust: controls such as ESC and BEL,
//! line breaks, since a line of a server could pass for one of this program, and what turns the
//! direction of text around.

use std::borrow::Cow;

/// The same text; what is not plain character is escaped.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if acts(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    Cow::Owned(out)
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
        match acts(c) {
            // All of these are of the first plane.
            true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    out
}

fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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
        assert_eq!(printable_lines("a\x1b:\n\tb\r\n"), "a\\u{1b}:\n\tb\\r\n");
        assert_eq!(printable_json("{\"a\":\"\u{9b}\u{7f}ü\"}"), r#"{"a":"\u009b\u007fü"}"#);
    }
}
