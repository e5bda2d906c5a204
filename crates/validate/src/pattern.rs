//! Regular expressions as rules mean them: RE2's dialect, run in linear time by the `regex` crate.
//!
//! Where the two dialects differ, the pattern is rewritten: `\d`, `\s`, `\w` and `\b` are of ASCII
//! in RE2; `[` and doubled `&` or `~` have no meaning inside a class of RE2; `\Q…\E` quotes.

use regex::bytes::{Regex, RegexBuilder};

/// The most memory that one compiled pattern may take.
const BYTES_MAX: usize = 1 << 20;

/// Compiles a pattern.
///
/// # Errors
/// What is wrong with it, in one line.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(&rewritten(pattern)).size_limit(BYTES_MAX).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            format!("the pattern takes more than {BYTES_MAX} bytes of memory; make it simpler")
        }
        other => {
            let text = other.to_string();
            text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
    })
}

fn rewritten(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('Q') if !in_class => quote(&mut chars, &mut out),
                Some(escaped) => out.push_str(&escape(escaped, in_class)),
                None => out.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                // A bracket that comes first stands for itself.
                if chars.next_if_eq(&']').is_some() {
                    out.push_str("\\]");
                }
            }
            '[' if chars.peek() == Some(&':') => out.push('['),
            '[' | '&' | '~' if in_class => out.extend(['\\', c]),
            ':' if in_class && out.ends_with('[') && !out.ends_with("\\[") => {
                out.push(':');
                // A POSIX class runs to its own bracket.
                for c in chars.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            other => out.push(other),
        }
    }
    out
}

fn quote(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    let mut text = String::new();
    while let Some(c) = chars.next() {
        if c == '\\' && chars.next_if_eq(&'E').is_some() {
            break;
        }
        text.push(c);
    }
    out.push_str(&regex::escape(&text));
}

fn escape(escaped: char, in_class: bool) -> String {
    let plain = match escaped {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => "[\\t\\n\\f\\r ]",
        'S' => "[^\\t\\n\\f\\r ]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        'b' if !in_class => "(?-u:\\b)",
        'B' if !in_class => "(?-u:\\B)",
        other => return format!("\\{other}"),
    };
    plain.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dialect_is_that_of_re2() {
        for (pattern, text, matches) in [
            (r"^\d+$", "٣", false),
            (r"^[\d_]+$", "1_2", true),
            (r"^[[a]+$", "[a", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[]a]+$", "]", true),
            (r"^[[:alpha:]-]+$", "a-b", true),
            (r"\Qa.b\E", "axb", false),
            (r"^.$", "ü", true),
            (r"\bfoo\b", "a foo", true),
        ] {
            let found = compile(pattern).expect(pattern).is_match(text.as_bytes());
            assert_eq!(found, matches, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_without_sense_or_bounds_is_refused() {
        assert!(compile("(").is_err());
        assert!(compile("((a{100}){100}){100}").is_err());
        assert!(compile(r"(?=a)").is_err());
    }
}
