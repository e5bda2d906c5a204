//! Status line and the few header fields that decide where an answer ends.

use crate::reply::Reply;

/// How the end of the body is told. RFC 9112 §6.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Framing {
    Sized(u64),
    Chunked,
    #[default]
    UntilClosed,
}

/// What a head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) framing: Framing,
    /// The target closes the connection after this answer.
    pub(super) closes: bool,
}

impl Head {
    /// Parses a head including its empty line and hands every field to `reply`.
    pub(super) fn parse(head: &[u8], reply: &mut Reply) -> Result<Self, &'static str> {
        let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
        let status_line = lines.next().unwrap_or_default();
        let (version, status) = status_line_parts(status_line).ok_or("not an HTTP/1.1 answer")?;
        let mut parsed = Self { status, framing: Framing::UntilClosed, closes: version == b'0' };
        reply.status = status;
        for line in lines.filter(|line| !line.is_empty()) {
            let colon = memchr::memchr(b':', line).ok_or("a header without a colon")?;
            let name = &line[..colon];
            let value = line[colon + 1..].trim_ascii();
            reply.header(name, value);
            parsed.field(name, value)?;
        }
        Ok(parsed)
    }

    fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        if name.eq_ignore_ascii_case(b"content-length") {
            let text = std::str::from_utf8(value).map_err(|_| "a bad content-length")?;
            let length = text.parse().map_err(|_| "a bad content-length")?;
            if self.framing != Framing::Chunked {
                self.framing = Framing::Sized(length);
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if value.to_ascii_lowercase().ends_with(b"chunked") {
                self.framing = Framing::Chunked;
            }
        } else if name.eq_ignore_ascii_case(b"connection") {
            let value = value.to_ascii_lowercase();
            if memchr::memmem::find(&value, b"close").is_some() {
                self.closes = true;
            } else if memchr::memmem::find(&value, b"keep-alive").is_some() {
                self.closes = false;
            }
        }
        Ok(())
    }
}

/// The minor version digit and the status of `HTTP/1.x NNN …`.
fn status_line_parts(line: &[u8]) -> Option<(u8, u16)> {
    let rest = line.strip_prefix(b"HTTP/1.")?;
    let (minor, rest) = rest.split_first()?;
    let digits = rest.strip_prefix(b" ")?.get(..3)?;
    let status = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((*minor, status))
}
