//! Legal spellings that the parser does not know, written in ways that it does.
//!
//! | written | read as |
//! |---|---|
//! | a byte order mark | nothing |
//! | `extensions 20 [verification = …]` | `extensions 20 to 20 [verification = …]` |
//! | `"\ud83d\ude00"`, and `"\ud83d"` alone | `"\U0001f600"`, `"\xed\xa0\xbd"` |
//! | `default = 18446744073709551616` | `default = 18446744073709551616.` |
//! | `option (o) = -inf`, `-nan` | `-1e999`, ` nan` |
//! | `optional M m = 2000000000`, in a message set | another number; see [`numbers`](crate::text::numbers) |
//! | a file of an edition | a file of proto2; see [`edition`](crate::text::edition) |
//!
//! Places are those of the text as it was written: what was put in is counted out again.

use prost_reflect::prost_types::SourceCodeInfo;

use crate::text::edition::{Refusal, Walk};
use crate::text::lexemes::{Kind, Lexeme, lexemes};
use crate::text::numbers::{self, RealNumbers, StandIn};

/// A text for the parser, and where it differs from the one that was written.
#[derive(Debug, Default)]
pub(crate) struct MendedText {
    /// The text for the parser.
    pub(crate) text: String,
    /// Where something was put in, as a place of the new text, and how many bytes.
    added: Vec<(usize, usize)>,
    /// The numbers of fields that others stand for.
    pub(crate) numbers: RealNumbers,
    /// What a file of an edition may not say, by its byte in the source.
    pub(crate) refused: Vec<Refusal>,
}

/// Writes `source` for the parser.
pub(crate) fn mend(source: &str, is_edition: bool) -> MendedText {
    let mut mended = MendedText::default();
    let mut walk = is_edition.then(Walk::default);
    let mut copied = 0;
    let mut before = [""; 3];
    for lexeme in lexemes(source) {
        let stand_in = of_field(&lexeme, before).then(|| numbers::stand_in(lexeme.text)).flatten();
        mended.numbers.extend(stand_in.map(|number| (number.stand_in, number.real)));
        let number = stand_in.map(|StandIn { stand_in, .. }| {
            (lexeme.offset..lexeme.end(), format!("{stand_in:>width$}", width = lexeme.text.len()))
        });
        let [_, last @ ..] = before;
        let of_edition = walk.as_mut().and_then(|walk| walk.instead(&lexeme));
        if let Some((range, instead)) =
            number.or(of_edition).or_else(|| instead(&lexeme, last, source))
        {
            mended.text.push_str(&source[copied..range.start]);
            let start = mended.text.len();
            mended.text.push_str(&instead);
            copied = range.end;
            if let Some(more) = instead.len().checked_sub(range.len()).filter(|more| *more > 0) {
                mended.added.push((start + range.len(), more));
            }
        }
        before = [before[1], before[2], lexeme.text];
    }
    mended.text.push_str(&source[copied..]);
    mended.refused = walk.map(|walk| walk.refused).unwrap_or_default();
    mended
}

impl MendedText {
    /// The byte of the source that the byte `offset` of the new text stands for.
    pub(crate) fn offset(&self, offset: usize) -> usize {
        let mut counted_out = 0;
        for (start, more) in &self.added {
            counted_out += offset.saturating_sub(*start).min(*more);
        }
        offset - counted_out
    }

    /// Makes the places of `info` those of the source.
    pub(crate) fn restore(&self, info: &mut SourceCodeInfo) {
        if self.added.is_empty() {
            return;
        }
        let starts = std::iter::once(0).chain(self.text.match_indices('\n').map(|(at, _)| at + 1));
        let starts: Vec<usize> = starts.collect();
        let column = |line: i32, column: i32| {
            let start = usize::try_from(line).ok().and_then(|line| starts.get(line))?;
            let offset = start + usize::try_from(column).ok()?;
            i32::try_from(self.offset(offset) - self.offset(*start)).ok()
        };
        for location in &mut info.location {
            let span = location.span.clone();
            let places = match span[..] {
                [line, from, to] => [Some((line, from, 1)), Some((line, to, 2))],
                [line, from, last, to] => [Some((line, from, 1)), Some((last, to, 3))],
                _ => [None; 2],
            };
            for (line, at, index) in places.into_iter().flatten() {
                location.span[index] = column(line, at).unwrap_or(at);
            }
        }
    }
}

/// Whether a number is that of a field: behind a type, a name and `=`.
fn of_field(lexeme: &Lexeme<'_>, [of_type, name, equals]: [&str; 3]) -> bool {
    let is_word = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    lexeme.kind == Kind::Number
        && equals == "="
        && is_word(name)
        && is_word(of_type)
        && of_type != "option"
}

/// What is written instead of a part of `source`, if `lexeme` asks for it. It is never shorter.
fn instead(
    lexeme: &Lexeme<'_>,
    before: [&str; 2],
    source: &str,
) -> Option<(std::ops::Range<usize>, String)> {
    let all = lexeme.offset..lexeme.end();
    match (lexeme.kind, lexeme.text, before) {
        (Kind::Mark, "[", [previous, number])
            if is_lone_number(previous, number, source, lexeme) =>
        {
            Some((lexeme.offset..lexeme.offset, format!(" to {number} ")))
        }
        (Kind::Word, "inf", ["=", "-"]) => Some((all, "1e999".to_owned())),
        (Kind::Word, "nan", ["=", "-"]) => {
            let sign = source[..lexeme.offset].rfind('-')?;
            Some((sign..lexeme.end(), source[sign..lexeme.end()].replacen('-', " ", 1)))
        }
        (Kind::Number, digits, _) if is_above_u64(digits) => Some((all, format!("{digits}."))),
        (Kind::Quoted, text, _) if text.contains("\\u") => {
            Some((all, join_surrogates(text))).filter(|(_, instead)| instead != text)
        }
        _ => None,
    }
}

/// Whether the bracket `at` follows the last number of `extensions …`, with no `to` before it.
fn is_lone_number(previous: &str, number: &str, source: &str, at: &Lexeme<'_>) -> bool {
    if !number.starts_with(|c: char| c.is_ascii_digit()) || !["extensions", ","].contains(&previous)
    {
        return false;
    }
    let statement = source[..at.offset].rfind("extensions").map(|start| &source[start..at.offset]);
    statement.is_some_and(|text| !text.contains([';', '{', '}', '[', '=']))
}

fn is_above_u64(digits: &str) -> bool {
    digits.len() >= 20
        && !digits.starts_with('0')
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && digits.parse::<u64>().is_err()
}

/// `text`, a string in its quotes, with each `\uD8xx\uDCxx` written as one `\U`, for which the
/// string is closed and opened again behind it, which keeps its length. Half of such a pair is
/// three bytes, which a field of bytes may have and a string not.
fn join_surrogates(text: &str) -> String {
    let quote = &text[..1];
    let mut joined = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        joined.push_str(&rest[..at]);
        rest = &rest[at..];
        let unit = |from: usize| {
            let escape = rest.get(from..from + 6)?.strip_prefix("\\u")?;
            u16::from_str_radix(escape, 16).ok()
        };
        let units = unit(0).zip(unit(6)).map(|(high, low)| [high, low]);
        let found = units.and_then(|units| String::from_utf16(&units).ok());
        match found.and_then(|found| found.chars().next().filter(|c| c.len_utf16() == 2)) {
            Some(found) => {
                joined.push_str(&format!("\\U{:08x}{quote}{quote}", u32::from(found)));
                rest = &rest[12..];
            }
            None if unit(0).is_some_and(|unit| (0xd800..0xe000).contains(&unit)) => {
                let half = unit(0).map_or(0, u32::from);
                let bytes = [0xe0 | half >> 12, 0x80 | half >> 6 & 0x3f, 0x80 | half & 0x3f];
                joined.extend(bytes.map(|byte| format!("\\x{byte:02x}")));
                rest = &rest[6..];
            }
            None => {
                let length = rest.chars().take(2).map(char::len_utf8).sum();
                joined.push_str(&rest[..length]);
                rest = &rest[length..];
            }
        }
    }
    joined + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_parser_does_not_know_is_written_differently() {
        let check = |source: &str, expected: &str| assert_eq!(mend(source, false).text, expected);
        check("extensions 20 [a = 1];", "extensions 20  to 20 [a = 1];");
        check("extensions 5, 20 [a = 1];", "extensions 5, 20  to 20 [a = 1];");
        check("extensions 5 to 20 [a = 1];", "extensions 5 to 20 [a = 1];");
        check("a b = 1 [c = { d: [1, 2 ] }];", "a b = 1 [c = { d: [1, 2 ] }];");
        check("[default = - inf]", "[default = - 1e999]");
        check("option (a) = - nan;", "option (a) =   nan;");
        check("option (a) = { b: -nan };", "option (a) = { b: -nan };");
        check("optional M m = 2147483646;", "optional M m =  536870910;");
        check("optional M m = 0x7ffffffe;", "optional M m =  536870910;");
        check("optional M m = 2147483647;", "optional M m = 2147483647;");
        check("enum E { A = 600000000; }", "enum E { A = 600000000; }");
        check("option o = 600000000;", "option o = 600000000;");
        check("int32 a = 1 [default = 600000000];", "int32 a = 1 [default = 600000000];");
        check("= 18446744073709551615;", "= 18446744073709551615;");
        check("= 18446744073709551616;", "= 18446744073709551616.;");
        check(r#"'a\ud83d\ude00b'"#, r#"'a\U0001f600''b'"#);
        check(r#""\\ud83d\ude00""#, r#""\\ud83d\xed\xb8\x80""#);
        check(r#""\\ud83d""#, r#""\\ud83d""#);
        check(r#""\ud83d\u0041""#, r#""\xed\xa0\xbd\u0041""#);
        check(r#"'\ude00'"#, r#"'\xed\xb8\x80'"#);
    }

    #[test]
    fn places_are_those_of_the_source() {
        let source = "a [default = -inf]; b 18446744073709551616 c";
        let mended = mend(source, false);
        for word in ["a", "default", ";", "b", "c"] {
            let at = mended.text.find(word).expect("it is there");
            assert_eq!(mended.offset(at), source.find(word).expect("it is there"), "{word}");
        }
    }
}
