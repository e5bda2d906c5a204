//! Path templates of `google.api.http`.
//!
//! ```text
//! Template  = "/" [ Segments ] [ ":" LITERAL ]
//! Segments  = Segment { "/" Segment }
//! Segment   = "*" | "**" | LITERAL | "{" FieldPath [ "=" Segments ] "}"
//! FieldPath = IDENT { "." IDENT }
//! ```
//!
//! `*` is one segment that is not empty, `**` is any number of them and is there once; `{name}` is
//! `{name=*}`. What a variable covers is a range of segments, so its value is a slice of the path.
//! The specification wants `**` to be last; published interfaces have segments after it
//! (`/v1/{parent=documents/**}/{collection_id}`), which are counted from the end of a path.
//! Source: the comments of `google/api/http.proto`, "Path template syntax".

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// As it was written.
    pub text: String,
    /// What each segment of a path has to be.
    pub segments: Vec<Segment>,
    /// The named parts, in order.
    pub variables: Vec<Variable>,
    /// The part after the last colon, as in `/contacts:page`.
    pub verb: Option<String>,
}

/// What one segment of a path has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// This text, percent-decoded.
    Literal(String),
    /// One segment that is not empty.
    Any,
    /// Any number of segments, also none.
    Rest,
}

/// A named part of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// The request field, `name` or `contact.id`.
    pub field: String,
    /// The segments it covers.
    pub segments: Range<usize>,
    /// Whether it is exactly `*`; if not, an encoded slash stays encoded.
    pub single: bool,
}

impl Template {
    /// Parses a template.
    ///
    /// ```
    /// use tidewire_proto::http::Template;
    /// let template = Template::parse("/shelves/{shelf}/notes/{id}")?;
    /// assert_eq!(template.variables[1].field, "id");
    /// assert_eq!(template.capture(&template.variables[1], "/shelves/a/notes/7"), "7");
    /// # Ok::<(), tidewire_proto::http::TemplateError>(())
    /// ```
    ///
    /// # Errors
    /// Where and why it is invalid.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut parser = Parser { text, at: 0, segments: Vec::new(), variables: Vec::new() };
        if text.len() > TEMPLATE_BYTES_MAX {
            return Err(parser.error(format!("longer than {TEMPLATE_BYTES_MAX} bytes")));
        }
        parser.expect('/')?;
        if !matches!(parser.peek(), None | Some(':')) {
            parser.segments(Position::Path)?;
        }
        let verb = if parser.take(':') { Some(parser.literal()?) } else { None };
        if parser.at < text.len() {
            return Err(parser.error("unexpected text after the template".to_owned()));
        }
        let Parser { segments, variables, .. } = parser;
        Ok(Self { text: text.to_owned(), segments, variables, verb })
    }

    /// The slice of `path` that a variable covers; empty where the path ends before it.
    pub fn capture<'p>(&self, variable: &Variable, path: &'p str) -> &'p str {
        let path = match &self.verb {
            Some(verb) => path.get(..path.len().saturating_sub(verb.len() + 1)).unwrap_or(path),
            None => path,
        };
        let path = path.strip_prefix('/').unwrap_or(path);
        let Range { start, end } = self.covered(variable, path);
        if start >= end {
            return "";
        }
        let Some(start) = segment_start(path, start) else { return "" };
        let end = segment_start(path, end).map_or(path.len(), |next| next - 1);
        path.get(start..end).unwrap_or_default()
    }

    /// The segments of a path that a variable covers: those after a `**` are counted from the end.
    fn covered(&self, variable: &Variable, path: &str) -> Range<usize> {
        let count = || if path.is_empty() { 0 } else { slashes(path).count() + 1 };
        let rest = self.segments.iter().position(|segment| *segment == Segment::Rest);
        let at = |index: usize| match rest {
            Some(rest) if index > rest => count().saturating_sub(self.segments.len() - index),
            _ => index,
        };
        at(variable.segments.start)..at(variable.segments.end)
    }
}

/// Where segment `index` of a path without its leading slash begins.
fn segment_start(path: &str, index: usize) -> Option<usize> {
    match index.checked_sub(1) {
        None => Some(0),
        Some(before) => slashes(path).nth(before).map(|slash| slash + 1),
    }
}

/// Where the slashes of a path are.
fn slashes(path: &str) -> impl Iterator<Item = usize> {
    let bytes = path.bytes().enumerate();
    bytes.filter(|(_, byte)| *byte == b'/').map(|(slash, _)| slash)
}

/// Percent-decodes what a variable matched.
///
/// A variable of several segments keeps `%2F` as it is, so that an encoded slash is told from a
/// separator.
///
/// # Errors
/// When it is not UTF-8 then, or a `%` is not followed by two hexadecimal digits.
pub fn decode(raw: &str, single: bool) -> Result<Cow<'_, str>, &'static str> {
    if !raw.contains('%') {
        return Ok(Cow::Borrowed(raw));
    }
    let mut decoded = Vec::with_capacity(raw.len());
    let mut rest = raw.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let hex = after.get(..2).and_then(|two| Some((hex(two[0])?, hex(two[1])?)));
        let (high, low) = hex.ok_or("a % is not followed by two hexadecimal digits")?;
        rest = &after[2..];
        match high << 4 | low {
            b'/' if !single => decoded.extend_from_slice(&[b'%', after[0], after[1]]),
            byte => decoded.push(byte),
        }
    }
    String::from_utf8(decoded).map(Cow::Owned).map_err(|_| "it is not UTF-8 after percent-decoding")
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    segments: Vec<Segment>,
    variables: Vec<Variable>,
}

/// Where a segment is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Path,
    Variable,
}

impl Parser<'_> {
    fn segments(&mut self, inside: Position) -> Result<(), TemplateError> {
        loop {
            self.segment(inside)?;
            if !self.take('/') {
                return Ok(());
            }
        }
    }

    fn segment(&mut self, inside: Position) -> Result<(), TemplateError> {
        if self.segments.len() >= SEGMENTS_MAX {
            return Err(self.error(format!("more than {SEGMENTS_MAX} segments")));
        }
        if self.take('{') {
            if inside == Position::Variable {
                return Err(self.error("a variable inside a variable".to_owned()));
            }
            return self.variable();
        }
        let segment = if self.text[self.at..].starts_with("**") {
            if self.segments.contains(&Segment::Rest) {
                return Err(self.error("`**` can be there once".to_owned()));
            }
            self.at += 2;
            Segment::Rest
        } else if self.take('*') {
            Segment::Any
        } else {
            Segment::Literal(self.literal()?)
        };
        self.segments.push(segment);
        Ok(())
    }

    fn variable(&mut self) -> Result<(), TemplateError> {
        let field = self.field_path()?;
        let start = self.segments.len();
        if self.take('=') {
            self.segments(Position::Variable)?;
        } else {
            self.segments.push(Segment::Any);
        }
        self.expect('}')?;
        if self.variables.iter().any(|known| known.field == field) {
            return Err(self.error(format!("variable {field} occurs twice")));
        }
        let segments = start..self.segments.len();
        let single = self.segments[start..] == [Segment::Any];
        self.variables.push(Variable { field, segments, single });
        Ok(())
    }

    fn field_path(&mut self) -> Result<String, TemplateError> {
        let start = self.at;
        loop {
            let rest = &self.text[self.at..];
            let length = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_');
            let length = length.count();
            if length == 0 || rest.as_bytes()[0].is_ascii_digit() {
                return Err(self.error("a field name is expected".to_owned()));
            }
            self.at += length;
            if !self.take('.') {
                return Ok(self.text[start..self.at].to_owned());
            }
        }
    }

    fn literal(&mut self) -> Result<String, TemplateError> {
        let rest = &self.text[self.at..];
        let length = rest.find(['/', '{', '}', '*', ':', '=', '?', '#']).unwrap_or(rest.len());
        let raw = &rest[..length];
        if raw.is_empty() {
            return Err(self.error("a segment is empty".to_owned()));
        }
        if raw.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(self.error("a segment holds a space or a control character".to_owned()));
        }
        let literal = decode(raw, true).map_err(|why| self.error(format!("a segment: {why}")))?;
        self.at += length;
        Ok(literal.into_owned())
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += if found { wanted.len_utf8() } else { 0 };
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), TemplateError> {
        if self.take(wanted) {
            return Ok(());
        }
        Err(self.error(format!("`{wanted}` is expected")))
    }

    fn error(&self, why: String) -> TemplateError {
        TemplateError { text: self.text.to_owned(), column: self.at + 1, why }
    }
}

/// Why a text is not a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    text: String,
    column: usize,
    why: String,
}

impl TemplateError {
    /// Where the text stops being a template, in characters from 1.
    pub fn column(&self) -> usize {
        self.column
    }

    /// What is wrong there.
    pub fn why(&self) -> &str {
        &self.why
    }
}

impl std::error::Error for TemplateError {}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, column, why } = self;
        write!(f, "template {text:?} at column {column}: {why}")
    }
}

/// The longest template in bytes.
const TEMPLATE_BYTES_MAX: usize = 1024;

/// The most segments of a template, which bounds how deep a match goes.
pub const SEGMENTS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let shown = match Template::parse(text) {
            Err(error) => format!("error {}: {}", error.column, error.why),
            Ok(template) => {
                let segments: Vec<_> = template.segments.iter().map(show).collect();
                let variables: Vec<_> = template
                    .variables
                    .iter()
                    .map(|v| format!("{}={}..{}", v.field, v.segments.start, v.segments.end))
                    .collect();
                let verb = template.verb.map_or_else(String::new, |verb| format!(" :{verb}"));
                format!("{} {}{verb}", segments.join("/"), variables.join(","))
            }
        };
        assert_eq!(shown.trim(), expected, "{text}");
    }

    fn show(segment: &Segment) -> &str {
        match segment {
            Segment::Literal(text) => text,
            Segment::Any => "*",
            Segment::Rest => "**",
        }
    }

    #[test]
    fn templates_of_the_specification_parse() {
        check("/v1/messages/{message_id}", "v1/messages/* message_id=2..3");
        check("/v1/{name=messages/*}", "v1/messages/* name=1..3");
        check("/v1/{name=shelves/*/books/*}", "v1/shelves/*/books/* name=1..5");
        check(
            "/v1/messages/{message_id}/{sub.subfield}",
            "v1/messages/*/* message_id=2..3,sub.subfield=3..4",
        );
        check(
            "/v1/users/{user_id}/messages/{message_id}",
            "v1/users/*/messages/* user_id=2..3,message_id=4..5",
        );
        check(
            "/v1/{parent=projects/*}/topics:publish",
            "v1/projects/*/topics parent=1..3 :publish",
        );
        check("/v1/{path=**}:download", "v1/** path=1..2 :download");
        check("/v1/files/{name=a/**}", "v1/files/a/** name=2..4");
        check("/{id}", "* id=0..1");
        check("/v1/{a=docs/**}/{b}:run", "v1/docs/**/* a=1..3,b=3..4 :run");
        check("/**", "**");
        check("/", "");
        check("/v1/caf%C3%A9", "v1/café");
    }

    #[test]
    fn what_is_no_template_is_refused_with_the_column() {
        check("v1/x", "error 1: `/` is expected");
        check("/v1//x", "error 5: a segment is empty");
        check("/v1/", "error 5: a segment is empty");
        check("/v1/{", "error 6: a field name is expected");
        check("/v1/{id", "error 8: `}` is expected");
        check("/v1/{1d}", "error 6: a field name is expected");
        check("/v1/{a.}", "error 8: a field name is expected");
        check("/v1/{a={b}}", "error 9: a variable inside a variable");
        check("/v1/{a=**}/**", "error 12: `**` can be there once");
        check("/v1/{a=**/**}", "error 11: `**` can be there once");
        check("/v1/%zz", "error 5: a segment: a % is not followed by two hexadecimal digits");
        check("/v1/%ff", "error 5: a segment: it is not UTF-8 after percent-decoding");
        check("/v1/{a}/{a}", "error 12: variable a occurs twice");
        check("/v1/x:", "error 7: a segment is empty");
        check("/v1/x:a/b", "error 8: unexpected text after the template");
        check("/v1/a*", "error 6: unexpected text after the template");
        check("/v1/a b", "error 5: a segment holds a space or a control character");
        check("/v1/x?y=1", "error 6: unexpected text after the template");
        assert!(Template::parse(&"/a".repeat(65)).is_err());
        assert!(Template::parse(&"/aaaaaaaa".repeat(200)).is_err());
    }

    #[test]
    fn a_variable_is_a_slice_of_the_path() {
        let check = |text: &str, path: &str, expected: &[&str]| {
            let template = Template::parse(text).unwrap();
            let found: Vec<_> =
                template.variables.iter().map(|v| template.capture(v, path)).collect();
            assert_eq!(found, expected, "{text} {path}");
        };
        check("/v1/{name=shelves/*}/x/{y}", "/v1/shelves/7/x/z", &["shelves/7", "z"]);
        check("/v1/{path=**}", "/v1/a//b/", &["a//b/"]);
        check("/v1/{path=**}", "/v1", &[""]);
        check("/v1/{path=**}:get", "/v1/a/b:get", &["a/b"]);
        check("/v1/{name=files/**}", "/v1/files/a/b", &["files/a/b"]);
        check("/{id}:undo", "/7:8:undo", &["7:8"]);
        check("/{name=**}/x", "/a/b/x", &["a/b"]);
        check("/{name=**}/x", "/x", &[""]);
        check("/v1/{a=docs/**}/{b}", "/v1/docs/1/2/three", &["docs/1/2", "three"]);
        check("/v1/{a=docs/**}/{b}", "/v1/docs/three", &["docs", "three"]);
        check("/{a=**}/{b}/{c=x/*}", "/1/2/3/x/4", &["1/2", "3", "x/4"]);
        check("/{a}/**/{b}", "/1//2/", &["1", ""]);
    }

    #[test]
    fn an_encoded_slash_stays_encoded_in_a_variable_of_several_segments() {
        assert_eq!(decode("a%2Fb%20c", true).unwrap(), "a/b c");
        assert_eq!(decode("a%2Fb%2fc%20d/e", false).unwrap(), "a%2Fb%2fc d/e");
        assert_eq!(decode("%E2%82%AC", true).unwrap(), "€");
        assert!(decode("%ff", true).is_err());
        assert!(decode("%2", true).is_err());
        assert!(decode("%zz", true).is_err());
    }
}
