//! Regular expressions of JavaScript, matched in bounded time.
//!
//! The engine below is another one: what JavaScript spells differently is translated. Without the
//! flag `u` JavaScript sees a character beyond 16 bits as two halves; here both are characters of a
//! private plane, in the pattern and in the text. Matching that goes back and forth more than a
//! million steps is given up, and does not match.
//!
//! | JavaScript | here |
//! |---|---|
//! | `\d`, `\w`, `\b` | ASCII only |
//! | `[^]`, `[]` | any character, none |
//! | `\/`, `\cJ`, `\x41`, `\u0041`, `\u{41}` | the character |
//! | `(?<a>…)`, `\k<a>` | the same |
//! | `$` without `m` | the very end |

use std::borrow::Cow;
use std::fmt::Write;

/// A pattern with its flags.
#[derive(Debug)]
pub(crate) struct Pattern {
    regex: fancy_regex::Regex,
    /// Matches at the start only: `y`.
    is_sticky: bool,
    /// Text is seen in halves of 16 bits.
    is_halved: bool,
}

const STEPS_MAX: usize = 1_000_000;
const SIZE_MAX: usize = 1 << 20;

/// Where the halves of characters beyond 16 bits live: the last plane, from here.
const HALVES: u32 = 0x0010_0000;

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// What is wrong with it or with its flags, in one line.
    pub(crate) fn new(pattern: &str, flags: &str) -> Result<Self, String> {
        for (index, flag) in flags.char_indices() {
            if !"dgimsuvy".contains(flag) {
                return Err(format!("there is no flag {flag}; flags are i, m, s, u, g, y"));
            }
            if flags[..index].contains(flag) {
                return Err(format!("the flag {flag} occurs twice"));
            }
        }
        let has = |flag: char| flags.contains(flag);
        let is_halved = !has('u') && !has('v');
        let mut translated = String::new();
        if has('y') {
            translated.push_str(r"\A(?:");
        }
        Translation { rest: pattern, dot_all: has('s'), is_halved, out: &mut translated }.run()?;
        if has('y') {
            translated.push(')');
        }
        let regex = fancy_regex::RegexBuilder::new(&translated)
            .case_insensitive(has('i'))
            .multi_line(has('m'))
            .backtrack_limit(STEPS_MAX)
            .delegate_size_limit(SIZE_MAX)
            .build()
            .map_err(|error| error.to_string().replace('\n', " "))?;
        Ok(Self { regex, is_sticky: has('y'), is_halved })
    }

    /// Whether it matches somewhere in a text; not if that takes too many steps.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let text = if self.is_halved { halved(text) } else { Cow::Borrowed(text) };
        match self.is_sticky {
            true => {
                self.regex.find(&*text).is_ok_and(|found| found.is_some_and(|at| at.start() == 0))
            }
            false => self.regex.is_match(&*text).unwrap_or(false),
        }
    }
}

/// A text with each character beyond 16 bits as its two halves.
fn halved(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| u32::from(c) < 0x1_0000) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().fold(String::new(), |mut out, c| {
        push_halved(&mut out, c);
        out
    }))
}

fn push_halved(out: &mut String, c: char) {
    let mut halves = [0; 2];
    match c.encode_utf16(&mut halves) {
        [_] => out.push(c),
        halves => out.extend(halves.iter().filter_map(|half| half_as_char(u32::from(*half)))),
    }
}

fn half_as_char(half: u32) -> Option<char> {
    char::from_u32(HALVES + (half - 0xD800))
}

struct Translation<'p, 'o> {
    rest: &'p str,
    dot_all: bool,
    is_halved: bool,
    out: &'o mut String,
}

impl Translation<'_, '_> {
    fn run(mut self) -> Result<(), String> {
        while let Some(c) = self.take() {
            match c {
                '\\' => self.escape(false)?,
                '[' => self.class()?,
                '.' if self.dot_all => self.out.push_str(r"(?s:.)"),
                '.' => self.out.push_str(r"[^\n\r\u{2028}\u{2029}]"),
                '(' => self.group()?,
                '{' if !self.is_repetition() => self.out.push_str(r"\{"),
                ']' => self.out.push_str(r"\]"),
                other => self.character(other),
            }
        }
        Ok(())
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn character(&mut self, c: char) {
        match self.is_halved {
            true => push_halved(self.out, c),
            false => self.out.push(c),
        }
    }

    /// A group: of the kinds that JavaScript has.
    fn group(&mut self) -> Result<(), String> {
        self.out.push('(');
        let Some(rest) = self.rest.strip_prefix('?') else { return Ok(()) };
        let kinds = [":", "=", "!", "<=", "<!"];
        let is_name = rest.starts_with('<') && !rest.starts_with("<=") && !rest.starts_with("<!");
        if !is_name && !kinds.iter().any(|kind| rest.starts_with(kind)) {
            return Err("what follows (? is not a group of JavaScript".to_owned());
        }
        Ok(())
    }

    /// Whether what follows `{` is a repetition: `3}`, `3,}`, `3,5}`.
    fn is_repetition(&self) -> bool {
        let Some((inside, _)) = self.rest.split_once('}') else { return false };
        let (from, to) = inside.split_once(',').unwrap_or((inside, ""));
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        !from.is_empty() && digits(from) && digits(to)
    }

    /// What stands in brackets.
    fn class(&mut self) -> Result<(), String> {
        for (text, meaning) in [("^]", r"(?s:.)"), ("]", r"(?!)")] {
            if let Some(rest) = self.rest.strip_prefix(text) {
                self.rest = rest;
                self.out.push_str(meaning);
                return Ok(());
            }
        }
        self.out.push('[');
        if let Some(rest) = self.rest.strip_prefix('^') {
            self.rest = rest;
            self.out.push('^');
        }
        loop {
            match self.take() {
                None => return Err("a [ is not closed".to_owned()),
                Some(']') => {
                    self.out.push(']');
                    return Ok(());
                }
                Some('\\') => self.escape(true)?,
                Some(c @ ('[' | '&' | '~' | '^')) => {
                    self.out.push('\\');
                    self.out.push(c);
                }
                Some(c) => self.character(c),
            }
        }
    }

    fn escape(&mut self, in_class: bool) -> Result<(), String> {
        let Some(c) = self.take() else { return Err(r"a \ at the end".to_owned()) };
        match c {
            'd' if in_class => self.out.push_str("0-9"),
            'w' if in_class => self.out.push_str("0-9A-Za-z_"),
            'd' => self.out.push_str("[0-9]"),
            'w' => self.out.push_str("[0-9A-Za-z_]"),
            'D' => self.out.push_str("[^0-9]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            's' if in_class => self.out.push_str(r"\s\u{feff}"),
            's' => self.out.push_str(r"[\s\u{feff}]"),
            'S' => self.out.push_str(r"[^\s\u{feff}]"),
            'b' if in_class => self.out.push_str(r"\u{8}"),
            'b' => self.out.push_str(WORD_BOUNDARY),
            'B' => self.out.push_str(NO_WORD_BOUNDARY),
            'n' | 'r' | 't' | 'f' | 'v' => {
                self.out.push('\\');
                self.out.push(c);
            }
            '0' if !self.rest.starts_with(|c: char| c.is_ascii_digit()) => self.number(0),
            '1'..='9' if !in_class => {
                self.out.push('\\');
                self.out.push(c);
                while let Some(digit) = self.rest.chars().next().filter(char::is_ascii_digit) {
                    self.out.push(digit);
                    self.take();
                }
            }
            'k' if self.rest.starts_with('<') => self.out.push_str(r"\k"),
            'c' => match self.take() {
                Some(letter) if letter.is_ascii_alphabetic() => self.number(u32::from(letter) % 32),
                _ => return Err(r"\c wants a letter".to_owned()),
            },
            'x' => match self.hex(2) {
                Some(number) => self.number(number),
                None => self.out.push('x'),
            },
            'u' => self.code_point()?,
            'p' | 'P' if !self.is_halved => {
                let Some((name, rest)) =
                    self.rest.strip_prefix('{').and_then(|rest| rest.split_once('}'))
                else {
                    return Err(format!(r"\{c} wants a property in braces"));
                };
                self.rest = rest;
                let _ = write!(self.out, r"\{c}{{{name}}}");
            }
            other if other.is_ascii_punctuation() => {
                self.out.push('\\');
                self.out.push(other);
            }
            // Any other letter stands for itself.
            other => self.character(other),
        }
        Ok(())
    }

    fn code_point(&mut self) -> Result<(), String> {
        if !self.is_halved
            && let Some(rest) = self.rest.strip_prefix('{')
        {
            let Some((digits, rest)) = rest.split_once('}') else {
                return Err(r"\u{ is not closed".to_owned());
            };
            let number = u32::from_str_radix(digits, 16)
                .map_err(|_| r"\u{…} wants a hexadecimal number".to_owned())?;
            self.rest = rest;
            self.number(number);
            return Ok(());
        }
        match self.hex(4) {
            Some(number) => self.number(number),
            None => self.out.push('u'),
        }
        Ok(())
    }

    /// So many hexadecimal digits.
    fn hex(&mut self, digits: usize) -> Option<u32> {
        let text = self.rest.get(..digits)?;
        let number = u32::from_str_radix(text, 16).ok()?;
        self.rest = &self.rest[digits..];
        Some(number)
    }

    /// The character of a number; a half of one where it is one.
    fn number(&mut self, number: u32) {
        let c = match number {
            0xD800..=0xDFFF => half_as_char(number),
            other => char::from_u32(other),
        };
        for c in c
            .map(
                |c| {
                    if self.is_halved { halved(&c.to_string()).into_owned() } else { c.to_string() }
                },
            )
            .iter()
            .flat_map(|text| text.chars())
        {
            let _ = write!(self.out, r"\u{{{:x}}}", u32::from(c));
        }
    }
}

/// Between what is a word in ASCII and what is not.
const WORD_BOUNDARY: &str =
    "(?:(?<=[0-9A-Za-z_])(?![0-9A-Za-z_])|(?<![0-9A-Za-z_])(?=[0-9A-Za-z_]))";
const NO_WORD_BOUNDARY: &str =
    "(?:(?<=[0-9A-Za-z_])(?=[0-9A-Za-z_])|(?<![0-9A-Za-z_])(?![0-9A-Za-z_]))";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_javascript() {
        for (pattern, flags, text, matches) in [
            ("^ab+c$", "", "abbc", true),
            ("^b$", "m", "a\nb\nc", true),
            ("^b$", "", "a\nb\nc", false),
            ("a.c", "", "a\nc", false),
            ("a.c", "s", "a\nc", true),
            ("^.$", "", "😀", false),
            ("^.$", "u", "😀", true),
            ("^..$", "", "😀", true),
            ("😀+", "u", "😀😀", true),
            (r"^\p{Lu}\p{Ll}+$", "u", "Élan", true),
            (r"^\w+$", "", "é", false),
            (r"\bcat\b", "", "a cat.", true),
            (r"\bcat\b", "", "concat", false),
            (r"c$", "", "c\n", false),
            ("^[^]+$", "", "a\nb", true),
            ("[]", "", "a", false),
            (r"^(\w+) \1$", "", "ho ho", true),
            (r"^(?<a>x+)-\k<a>$", "", "xx-xx", true),
            (r"(?<=\$)\d+", "", "costs $5", true),
            (r"^\d$", "", "٣", false),
            ("b", "y", "ab", false),
            ("b", "y", "ba", true),
            (r"^\d{3}$", "", "123", true),
            (r"^\d{3}$", "", "1234", false),
            (r"^(?=.*\d)(?=.*[a-z]).{4,}$", "", "abc1", true),
            ("a{", "", "a{", true),
            ("a{,2}", "", "a{,2}", true),
            (r"[a[]", "", "[", true),
            (r"\/", "", "/", true),
            (r"\x41\u0042", "", "AB", true),
            ("^STRASSE$", "i", "straße", false),
            ("", "", "anything", true),
        ] {
            let compiled =
                Pattern::new(pattern, flags).unwrap_or_else(|why| panic!("{pattern}: {why}"));
            assert_eq!(compiled.matches(text), matches, "/{pattern}/{flags} on {text:?}");
        }
        for (pattern, flags) in [("(", ""), ("a", "q"), ("a", "ii"), ("[a", ""), ("(?i)a", "")] {
            assert!(Pattern::new(pattern, flags).is_err(), "/{pattern}/{flags}");
        }
    }

    #[test]
    fn a_pattern_that_explodes_does_not_match() {
        let pattern = Pattern::new(r"^(a+)+\1$", "").unwrap();
        assert!(!pattern.matches(&("a".repeat(60) + "b")));
        assert!(Pattern::new(&"(a{1000}){1000}".repeat(10), "").is_err());
    }
}
