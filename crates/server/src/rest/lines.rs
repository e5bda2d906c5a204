//! A request stream over REST: one message a line (NDJSON), or the chunks of a raw body.
//!
//! Lines are bounded by `limits.message_bytes_max` while they arrive; the body as a whole is not
//! bounded, since it is never held. Empty lines are skipped, `\r\n` ends a line too.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use http_body::Body as _;
use tidewire_service::{Body, Error, Result};

/// The lines of a body.
pub(crate) struct Lines {
    body: Option<Body>,
    buffer: BytesMut,
    /// How much of the buffer holds no line end.
    searched: usize,
    line_bytes_max: usize,
    /// The number of the line that was given last.
    number: u64,
}

impl Lines {
    pub(crate) fn new(body: Body, line_bytes_max: usize) -> Self {
        let buffer = BytesMut::new();
        Self { body: Some(body), buffer, searched: 0, line_bytes_max, number: 0 }
    }

    /// Takes the next line that is not empty from what has arrived.
    fn line(&mut self) -> Option<Bytes> {
        while let Some(end) = self.buffer[self.searched..].iter().position(|b| *b == b'\n') {
            let line = self.buffer.split_to(self.searched + end + 1).freeze();
            self.searched = 0;
            self.number += 1;
            let line = trimmed(line);
            if !line.is_empty() {
                return Some(line);
            }
        }
        self.searched = self.buffer.len();
        None
    }

    /// Nothing follows a line that is too long.
    fn too_long(&mut self, number: u64) -> Error {
        self.body = None;
        self.buffer.clear();
        self.searched = 0;
        Error::resource_exhausted(format!(
            "line {number} of the request is over limits.message_bytes_max = {} bytes; send less \
             or raise the limit",
            self.line_bytes_max
        ))
        .with_http_status(http::StatusCode::PAYLOAD_TOO_LARGE)
    }
}

impl Stream for Lines {
    /// A line and its number.
    type Item = Result<(u64, Bytes)>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(line) = this.line() {
                if line.len() > this.line_bytes_max {
                    return Poll::Ready(Some(Err(this.too_long(this.number))));
                }
                return Poll::Ready(Some(Ok((this.number, line))));
            }
            let Some(body) = &mut this.body else { return Poll::Ready(None) };
            if this.buffer.len() > this.line_bytes_max {
                return Poll::Ready(Some(Err(this.too_long(this.number + 1))));
            }
            match std::task::ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        this.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => {
                    this.body = None;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    // The last line needs no end.
                    this.body = None;
                    this.buffer.extend_from_slice(b"\n");
                }
            }
        }
    }
}

fn trimmed(line: Bytes) -> Bytes {
    let kept = line.trim_ascii();
    if kept.len() == line.len() { line.clone() } else { line.slice_ref(kept) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;

    fn lines(chunks: &[&'static str], max: usize) -> Vec<String> {
        let chunks: Vec<_> =
            chunks.iter().map(|chunk| Ok(Bytes::from_static(chunk.as_bytes()))).collect();
        let lines = Lines::new(Body::stream(futures_util::stream::iter(chunks)), max);
        let shown = lines.map(|line| match line {
            Ok((number, line)) => format!("{number} {}", str::from_utf8(&line).unwrap()),
            Err(error) => error.message().chars().take(24).collect(),
        });
        let mut shown = Box::pin(shown);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut out = Vec::new();
        while let Poll::Ready(Some(line)) = shown.as_mut().poll_next(&mut cx) {
            out.push(line);
        }
        out
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
