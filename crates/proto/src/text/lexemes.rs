//! A `.proto` as words, numbers, strings and marks, comments left out.
//!
//! What is looked at before the parser sees the text ([`bounds`](crate::text::bounds)) and what is
//! written differently for it ([`mend`](crate::text::mend)) need no more than this.

/// One lexeme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lexeme<'a> {
    /// The byte at which it begins.
    pub(crate) offset: usize,
    /// Its text, the quotes of a string included.
    pub(crate) text: &'a str,
    /// What it is.
    pub(crate) kind: Kind,
}

/// What a lexeme is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name or a keyword.
    Word,
    /// An integer or a float, without its sign.
    Number,
    /// A string in its quotes.
    Quoted,
    /// One character of anything else.
    Mark,
}

impl Lexeme<'_> {
    /// The byte after it.
    pub(crate) fn end(&self) -> usize {
        self.offset + self.text.len()
    }
}

/// The lexemes of `source`, which may be anything.
pub(crate) fn lexemes(source: &str) -> impl Iterator<Item = Lexeme<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += blank(&source[at..]);
        let rest = &source[at..];
        let first = rest.chars().next()?;
        let (kind, length) = match first {
            '"' | '\'' => (Kind::Quoted, quoted(rest)),
            c if is_word(c) && !c.is_ascii_digit() => (Kind::Word, run(rest, is_word)),
            c if c.is_ascii_digit() || c == '.' && rest[1..].starts_with(is_digit) => {
                (Kind::Number, number(rest))
            }
            c => (Kind::Mark, c.len_utf8()),
        };
        let lexeme = Lexeme { offset: at, text: &rest[..length], kind };
        at += length;
        Some(lexeme)
    })
}

/// How much of `text` is blank or comment. `#` begins a comment too: where it does not, the file
/// is wrong at that place and the parser says so.
fn blank(text: &str) -> usize {
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let after = if rest.starts_with("//") || rest.starts_with('#') {
            rest.find('\n').map_or("", |end| &rest[end..])
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or("", |end| &rest[end + 2..])
        } else {
            return text.len() - rest.len();
        };
        rest = after;
    }
}

/// The length of the string that `text` begins with; one that is never closed ends with its line.
fn quoted(text: &str) -> usize {
    let quote = text.as_bytes()[0];
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'\n' => return at,
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            byte if byte == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of the number that `text` begins with: `1.5e-3` is one.
fn number(text: &str) -> usize {
    let is_hex = text.starts_with("0x") || text.starts_with("0X");
    let mut before = ' ';
    run(text, |c| {
        let is_sign = matches!(c, '+' | '-') && !is_hex && matches!(before, 'e' | 'E');
        before = c;
        is_sign || c == '.' || is_word(c)
    })
}

fn run(text: &str, mut is_part: impl FnMut(char) -> bool) -> usize {
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_cut_into_lexemes_without_its_comments() {
        let check = |source: &str, expected: &[(usize, &str, Kind)]| {
            let found: Vec<_> = lexemes(source).map(|l| (l.offset, l.text, l.kind)).collect();
            assert_eq!(found, expected, "{source}");
        };
        check("", &[]);
        check("// a", &[]);
        check("/* never closed", &[]);
        check(
            "a=1;",
            &[
                (0, "a", Kind::Word),
                (1, "=", Kind::Mark),
                (2, "1", Kind::Number),
                (3, ";", Kind::Mark),
            ],
        );
        check("a /* b */ _c1", &[(0, "a", Kind::Word), (10, "_c1", Kind::Word)]);
        check(
            "1.5e-3 .5f 0x1e-",
            &[
                (0, "1.5e-3", Kind::Number),
                (7, ".5f", Kind::Number),
                (11, "0x1e", Kind::Number),
                (15, "-", Kind::Mark),
            ],
        );
        check(r#""a\"/*" 'b"'"#, &[(0, r#""a\"/*""#, Kind::Quoted), (8, r#"'b"'"#, Kind::Quoted)]);
        check("\"open\nü", &[(0, "\"open", Kind::Quoted), (6, "ü", Kind::Mark)]);
    }
}
