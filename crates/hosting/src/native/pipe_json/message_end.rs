//! Where a JSON object ends whose length nobody says: each byte is looked at once.

/// What is known of a message so far.
#[derive(Debug, Default)]
pub(super) struct MessageEnd {
    /// Objects and lists that are open.
    depth: usize,
    is_in_text: bool,
    is_escaped: bool,
    has_begun: bool,
}

/// How far a message has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// It goes on.
    More,
    /// The object is whole.
    Ended,
    /// It does not begin with a brace.
    NotAnObject,
    /// The object is whole, and something else follows it.
    Excess,
}

impl MessageEnd {
    /// Looks at the next bytes. Which bracket closes which is for the parser to see.
    pub(super) fn scan(&mut self, bytes: &[u8]) -> Progress {
        for (at, byte) in bytes.iter().enumerate() {
            if self.is_in_text {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.is_in_text = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'{' | b'[' if self.has_begun || *byte == b'{' => {
                    self.has_begun = true;
                    self.depth += 1;
                }
                _ if !self.has_begun && !is_before(*byte) => return Progress::NotAnObject,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        let rest = bytes[at + 1..].trim_ascii();
                        return if rest.is_empty() { Progress::Ended } else { Progress::Excess };
                    }
                }
                b'"' => self.is_in_text = true,
                _ => {}
            }
        }
        Progress::More
    }
}

/// What may be before an object: spaces, and the byte order mark that .NET's `StreamWriter` writes.
pub(super) fn is_before(byte: u8) -> bool {
    byte.is_ascii_whitespace() || BYTE_ORDER_MARK.contains(&byte)
}

const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

#[cfg(test)]
mod tests {
    use super::*;

    /// However it is cut.
    #[track_caller]
    fn check(text: &str, expected: Progress) {
        assert_eq!(MessageEnd::default().scan(text.as_bytes()), expected, "{text}");
        let mut end = MessageEnd::default();
        let bytes = text.as_bytes();
        let steps = bytes.chunks(1).map(|byte| end.scan(byte));
        let first = steps.into_iter().find(|progress| *progress != Progress::More);
        // What follows is seen only where it came together with the end.
        let expected = if expected == Progress::Excess { Progress::Ended } else { expected };
        assert_eq!(first.unwrap_or(Progress::More), expected, "{text}");
    }

    #[test]
    fn an_object_ends_with_its_last_brace() {
        for text in [
            "{}",
            r#"{"a": [1, {"b": "}]"}]}"#,
            r#"{"a": "\"}", "b": "\\"}"#,
            "\u{feff}{\"a\": 1}\r\n",
            "  \n{}",
        ] {
            check(text, Progress::Ended);
        }
        for text in ["", "  ", "{", r#"{"a": "}"#, r#"{"a": "\"}"#, r#"{"a": [}"#] {
            check(text, Progress::More);
        }
        for text in ["HTTP/1.1 200 OK", "[{}]", "\"{}\"", "}", "17"] {
            check(text, Progress::NotAnObject);
        }
        for text in ["{}{}", "{} x"] {
            check(text, Progress::Excess);
        }
    }
}
