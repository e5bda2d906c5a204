//! Text that others chose, on one line of a log.
//!
//! A caller can choose a path, a value that an error repeats, a name in a message. Written as it
//! is, a line end in it begins another line, which looks like one of the program, and escape
//! sequences recolour, hide or reorder what a terminal shows.

use std::fmt::{self, Write as _};

/// Shows a text with everything escaped that ends a line, steers a terminal, turns the direction
/// of text or is not seen: `\n`, `\u{1b}`, `\u{200b}`. All else, backslashes too, stays as it is.
///
/// ```
/// # mod tidewire { pub mod service { pub use tidewire_service::*; } }
/// use tidewire::service::OneLine;
/// assert_eq!(OneLine("a\nb \u{1b}[31m").to_string(), "a\\nb \\u{1b}[31m");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct OneLine<T>(pub T);

impl<T: fmt::Display> fmt::Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(EscapeWriter(f), "{}", self.0)
    }
}

/// Writes on what it is given, escaped.
struct EscapeWriter<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for EscapeWriter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, character)) = rest.char_indices().find(|(_, c)| is_steering(*c)) {
            self.0.write_str(&rest[..at])?;
            match character {
                '\n' => self.0.write_str("\\n")?,
                '\r' => self.0.write_str("\\r")?,
                '\t' => self.0.write_str("\\t")?,
                _ => write!(self.0, "{}", character.escape_unicode())?,
            }
            rest = &rest[at + character.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

/// Whether a character does more than to be seen, or is not seen: controls, line and paragraph
/// separators, what embeds, overrides or isolates a direction (Unicode, UAX 9), and what Unicode
/// 16 names `Default_Ignorable_Code_Point`, of which texts can differ that look the same.
///
/// It is the list of all crates: who escapes in another way than [`OneLine`] asks this.
pub fn is_steering(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    matches!(
        character,
        '\u{80}'..='\u{9f}'
            | '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_its_line_or_steers_a_terminal() {
        for (text, shown) in [
            ("no contact has id 7", "no contact has id 7"),
            ("é 漢 \"a\\b\"", "é 漢 \"a\\b\""),
            ("a\r\n2026 ERROR forged", "a\\r\\n2026 ERROR forged"),
            ("\u{1b}[2J\u{9b}31m\u{7f}", "\\u{1b}[2J\\u{9b}31m\\u{7f}"),
            ("a\tb\0", "a\\tb\\u{0}"),
            ("\u{202e}txt\u{2066}\u{2028}", "\\u{202e}txt\\u{2066}\\u{2028}"),
            ("a\u{200b}b\u{200d}\u{2060}\u{feff}", "a\\u{200b}b\\u{200d}\\u{2060}\\u{feff}"),
            ("\u{e0041}\u{ad}\u{fe0f}\u{61c}", "\\u{e0041}\\u{ad}\\u{fe0f}\\u{61c}"),
            ("", ""),
        ] {
            assert_eq!(OneLine(text).to_string(), shown);
        }
    }
}
