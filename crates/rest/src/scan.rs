//! Walking JSON text value by value, without a tree.
//!
//! What is walked over is checked to be JSON as far as splicing needs it: brackets, strings, commas
//! and literals; whoever decodes a value checks the rest.

use std::borrow::Cow;
use std::fmt;

/// Where in a JSON text we are.
#[derive(Debug, Clone)]
pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The next byte that is not white space; nothing is taken.
    pub(crate) fn peek(&mut self) -> Result<u8, ScanError> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied().ok_or_else(|| self.error("it ends too early"))
    }

    /// Takes the next byte if it is `wanted`.
    pub(crate) fn take(&mut self, wanted: u8) -> Result<bool, ScanError> {
        let found = self.peek()? == wanted;
        self.at += usize::from(found);
        Ok(found)
    }

    /// Takes the next byte, which has to be `wanted`.
    pub(crate) fn expect(&mut self, wanted: u8) -> Result<(), ScanError> {
        if self.take(wanted)? {
            return Ok(());
        }
        Err(self.error(match wanted {
            b'{' => "an object is expected",
            b'[' => "an array is expected",
            b':' => "a colon is expected",
            _ => "a name in quotes is expected",
        }))
    }

    /// Takes a comma before another member (`true`) or the closing bracket (`false`).
    pub(crate) fn more(&mut self, close: u8) -> Result<bool, ScanError> {
        if self.take(b',')? {
            return Ok(true);
        }
        if self.take(close)? {
            return Ok(false);
        }
        Err(self.error("a comma or a closing bracket is expected"))
    }

    /// Takes a string; what is between its quotes, still escaped.
    pub(crate) fn string(&mut self) -> Result<&'a [u8], ScanError> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            let rest = &self.text[self.at..];
            let stop = rest.iter().position(|b| matches!(b, b'"' | b'\\' | ..b' '));
            let stop = stop.ok_or_else(|| self.error("a string does not end"))?;
            self.at += stop + 1;
            match rest[stop] {
                b'"' => return Ok(&self.text[start..self.at - 1]),
                b'\\' if self.at < self.text.len() => self.at += 1,
                _ => return Err(self.error("a string holds a control character")),
            }
        }
    }

    /// Takes the name of a member and its colon; unescaped.
    pub(crate) fn name(&mut self) -> Result<Cow<'a, [u8]>, ScanError> {
        let raw = self.string()?;
        self.expect(b':')?;
        if !raw.contains(&b'\\') {
            return Ok(Cow::Borrowed(raw));
        }
        unescaped(raw).map(Cow::Owned).ok_or_else(|| self.error("a name has a wrong escape"))
    }

    /// Takes a value of any kind; its text.
    pub(crate) fn value(&mut self) -> Result<&'a [u8], ScanError> {
        self.peek()?;
        let start = self.at;
        self.skip(DEPTH_MAX)?;
        Ok(&self.text[start..self.at])
    }

    fn skip(&mut self, depth: usize) -> Result<(), ScanError> {
        let first = self.peek()?;
        let Some(deeper) = depth.checked_sub(1) else {
            return Err(self.error("it is nested too deeply"));
        };
        match first {
            b'"' => self.string().map(|_| ()),
            b'{' => {
                self.at += 1;
                if self.take(b'}')? {
                    return Ok(());
                }
                loop {
                    self.string()?;
                    self.expect(b':')?;
                    self.skip(deeper)?;
                    if !self.more(b'}')? {
                        return Ok(());
                    }
                }
            }
            b'[' => {
                self.at += 1;
                if self.take(b']')? {
                    return Ok(());
                }
                loop {
                    self.skip(deeper)?;
                    if !self.more(b']')? {
                        return Ok(());
                    }
                }
            }
            _ => self.literal(),
        }
    }

    /// Takes a number, `true`, `false` or `null`.
    fn literal(&mut self) -> Result<(), ScanError> {
        let rest = &self.text[self.at..];
        let length = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || b"+-.".contains(b));
        let word = &rest[..length.count()];
        let is_number = word.iter().all(|b| b.is_ascii_digit() || b"+-.eE".contains(b))
            && word.iter().find(|b| **b != b'-').is_some_and(u8::is_ascii_digit);
        if is_number || matches!(word, b"true" | b"false" | b"null") {
            self.at += word.len();
            return Ok(());
        }
        Err(self.error("a value is expected"))
    }

    /// Checks that nothing but white space is left.
    pub(crate) fn end(&mut self) -> Result<(), ScanError> {
        match self.peek() {
            Err(_) => Ok(()),
            Ok(_) => Err(self.error("there is more text after the value")),
        }
    }

    /// How many bytes were taken.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Goes back to an earlier [`position`](Self::position).
    pub(crate) fn go_back(&mut self, position: usize) {
        self.at = position;
    }

    pub(crate) fn error(&self, what: &'static str) -> ScanError {
        ScanError { what, at: self.at }
    }
}

/// What an escaped string says.
pub(crate) fn unescaped(raw: &[u8]) -> Option<Vec<u8>> {
    let quoted = [b"\"", raw, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).ok().map(String::into_bytes)
}

/// Appends `text` as a JSON string.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(stop) = rest.iter().position(|b| matches!(b, b'"' | b'\\' | ..b' ')) {
        out.extend_from_slice(&rest[..stop]);
        match rest[stop] {
            b'\n' => out.extend_from_slice(b"\\n"),
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            byte => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
        }
        rest = &rest[stop + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// What is no JSON, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScanError {
    what: &'static str,
    at: usize,
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not valid JSON at byte {}: {}", self.at + 1, self.what)
    }
}

impl std::error::Error for ScanError {}

/// How deep values nest.
pub(crate) const DEPTH_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_as_they_are() {
        for text in [
            r#"{"a":[1,-2.5e+3,true,null,{"b":"\"}"}],"c":{}}"#,
            "[ ]",
            "\"\\u00e9\\\\\"",
            "0",
            "null",
            "[[],[1 , 2]]",
        ] {
            let padded = format!(" \n{text}\t ");
            let mut scanner = Scanner::new(padded.as_bytes());
            assert_eq!(scanner.value().unwrap(), text.as_bytes());
            scanner.end().unwrap();
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [
            "",
            " ",
            "{",
            "}",
            "[1",
            "[1,",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "\"",
            "\"\\",
            "\"\n\"",
            "nul",
            "tru e",
            "-",
            "+1",
            "1x",
            "{\"a\" 1}",
            "[1 2]",
            "'a'",
            "1}, \"x\": {",
            ".5",
            "]",
        ] {
            let mut scanner = Scanner::new(text.as_bytes());
            let outcome = scanner.value().and_then(|_| scanner.end());
            assert!(outcome.is_err(), "{text:?} passed");
        }
        let deep = "[".repeat(100_000);
        assert!(Scanner::new(deep.as_bytes()).value().is_err());
    }

    #[test]
    fn whatever_is_json_is_taken_whole() {
        const PIECES: [&str; 14] =
            ["{", "}", "[", "]", "\"", ",", ":", "\\", " ", "1", "-", "\"a\"", "null", "é"];
        let mut random = 88_172_645_463_325_252_u64;
        let mut taken = 0;
        for _ in 0..200_000 {
            let mut text = String::new();
            for _ in 0..random % 9 + 1 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                text.push_str(PIECES[usize::try_from(random % 14).unwrap()]);
            }
            let mut scanner = Scanner::new(text.as_bytes());
            let outcome = scanner.value().and_then(|value| scanner.end().map(|()| value));
            if serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok() {
                assert_eq!(outcome, Ok(text.trim().as_bytes()), "{text}");
                taken += 1;
            }
        }
        assert!(taken > 1000, "{taken}");
    }

    #[test]
    fn strings_are_escaped_as_json_needs_it() {
        for text in ["", "plain", "a\"b\\c\n\t\u{1}é€😀", "\u{1f}"] {
            let mut out = Vec::new();
            write_string(&mut out, text);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
