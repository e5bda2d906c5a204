//! A request stream over REST: one message a line (NDJSON).
//!
//! Lines are bounded while they arrive, with the white space around their message; the body as a
//! whole is not bounded, since it is never held. Empty lines are skipped, `\r\n` ends a line too.

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use tidewire_service::{Error, Result};

/// The lines of a body that arrives in pieces.
#[derive(Debug)]
pub struct Lines {
    buffer: BytesMut,
    /// How much of the buffer holds no line end.
    searched: usize,
    line_bytes_max: usize,
    /// The number of the line that was given last.
    number: u64,
    is_over: bool,
}

impl Lines {
    /// No line so far, and none over `line_bytes_max`.
    pub fn new(line_bytes_max: usize) -> Self {
        let buffer = BytesMut::new();
        Self { buffer, searched: 0, line_bytes_max, number: 0, is_over: false }
    }

    /// Adds what arrived.
    pub fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    /// Nothing more will arrive; the last line needs no end.
    pub fn end(&mut self) {
        self.is_over = true;
    }

    /// Takes the next line that is not empty, and its number from 1.
    ///
    /// # Errors
    /// 413 for a line over the limit; nothing follows it.
    pub fn next_line(&mut self) -> Result<Option<(u64, Bytes)>> {
        loop {
            let rest = &self.buffer[self.searched..];
            let end = rest.iter().position(|b| *b == b'\n').map(|end| self.searched + end);
            // Counted with the white space around it: what has arrived so far decides alike.
            if end.unwrap_or(self.buffer.len()) > self.line_bytes_max {
                return Err(self.too_long(self.number + 1));
            }
            let line = match end {
                Some(end) => self.buffer.split_to(end + 1).freeze(),
                None if self.is_over && !self.buffer.is_empty() => self.buffer.split().freeze(),
                None => {
                    self.searched = self.buffer.len();
                    return Ok(None);
                }
            };
            self.searched = 0;
            self.number += 1;
            let line = trimmed(line);
            if !line.is_empty() {
                return Ok(Some((self.number, line)));
            }
        }
    }

    /// Nothing follows a line that is too long.
    fn too_long(&mut self, number: u64) -> Error {
        self.is_over = true;
        self.buffer.clear();
        self.searched = 0;
        Error::resource_exhausted(format!(
            "line {number} of the request is over limits.message_bytes_max = {} bytes; send less \
             or raise the limit",
            self.line_bytes_max
        ))
        .with_http_status(StatusCode::PAYLOAD_TOO_LARGE)
    }
}

fn trimmed(line: Bytes) -> Bytes {
    let kept = line.trim_ascii();
    if kept.len() == line.len() { line.clone() } else { line.slice_ref(kept) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&str], max: usize) -> Vec<String> {
        let mut lines = Lines::new(max);
        let mut found = Vec::new();
        for chunk in chunks.iter().copied().map(Some).chain([None]) {
            match chunk {
                Some(chunk) => lines.push(chunk.as_bytes()),
                None => lines.end(),
            }
            loop {
                match lines.next_line() {
                    Ok(Some((number, line))) => {
                        found.push(format!("{number} {}", str::from_utf8(&line).unwrap()));
                    }
                    Ok(None) => break,
                    Err(error) => {
                        found.push(error.message().chars().take(24).collect());
                        return found;
                    }
                }
            }
        }
        found
    }

    #[test]
    fn lines_are_found_wherever_chunks_end() {
        assert_eq!(
            lines(&["{}\n{\"a\"", ":1}\r\n\n  \n", "[", "]"], 9),
            ["1 {}", "2 {\"a\":1}", "5 []"]
        );
        assert_eq!(lines(&[], 9), [""; 0]);
        assert_eq!(lines(&["\n", "\n"], 9), [""; 0]);
    }

    #[test]
    fn a_line_over_the_limit_is_an_error() {
        assert_eq!(
            lines(&["{}\n", "1234", "5678", "9\n{}"], 8),
            ["1 {}", "line 2 of the request is"]
        );
        assert_eq!(lines(&["123456789\n"], 8), ["line 1 of the request is"]);
    }
}
