//! The chunked transfer coding, read to its end. RFC 9112 §7.1.

use crate::reply::Reply;

#[derive(Debug)]
enum State {
    Size,
    Data { remaining: u64 },
    DataEnd,
    Trailer,
    Broken(&'static str),
}

/// Where in a chunked body the reader stands.
#[derive(Debug)]
pub(super) struct ChunkReader {
    state: State,
    line: Vec<u8>,
}

const LINE_MAX: usize = 16 * 1024;

impl Default for ChunkReader {
    fn default() -> Self {
        Self { state: State::Size, line: Vec::new() }
    }
}

impl ChunkReader {
    /// A body that was found unreadable already.
    pub(super) fn broken(what: &'static str) -> Self {
        Self { state: State::Broken(what), line: Vec::new() }
    }

    /// Consumes input; true at the end of the body.
    pub(super) fn receive(
        &mut self,
        input: &mut &[u8],
        reply: &mut Reply,
    ) -> Result<bool, &'static str> {
        loop {
            match &mut self.state {
                State::Broken(what) => return Err(what),
                State::Data { remaining } => {
                    let part = usize::try_from(*remaining).unwrap_or(usize::MAX).min(input.len());
                    reply.body(&input[..part]);
                    *input = &input[part..];
                    *remaining -= part as u64;
                    if *remaining > 0 {
                        return Ok(false);
                    }
                    self.state = State::DataEnd;
                }
                _ => {
                    let Some(at) = memchr::memchr(b'\n', input) else {
                        self.line.extend_from_slice(input);
                        *input = &[];
                        return if self.line.len() > LINE_MAX {
                            Err("a chunk header is too long")
                        } else {
                            Ok(false)
                        };
                    };
                    self.line.extend_from_slice(&input[..at]);
                    *input = &input[at + 1..];
                    if self.line_ended(reply)? {
                        return Ok(true);
                    }
                }
            }
        }
    }

    fn line_ended(&mut self, reply: &mut Reply) -> Result<bool, &'static str> {
        let line = std::mem::take(&mut self.line);
        let line = line.trim_ascii_end();
        match self.state {
            State::Size => {
                let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
                let text =
                    std::str::from_utf8(digits.trim_ascii()).map_err(|_| "a bad chunk size")?;
                let remaining = u64::from_str_radix(text, 16).map_err(|_| "a bad chunk size")?;
                self.state =
                    if remaining == 0 { State::Trailer } else { State::Data { remaining } };
            }
            State::DataEnd if line.is_empty() => self.state = State::Size,
            State::DataEnd => return Err("a chunk is longer than its size"),
            State::Trailer if line.is_empty() => return Ok(true),
            State::Trailer => {
                if let Some(colon) = memchr::memchr(b':', line) {
                    reply.header(&line[..colon], line[colon + 1..].trim_ascii());
                }
            }
            State::Data { .. } | State::Broken(_) => {}
        }
        Ok(false)
    }
}
