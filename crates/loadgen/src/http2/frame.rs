//! Frames. RFC 9113 §4 and §6.

pub(super) const HEADER: usize = 9;
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 0x1;
pub(super) const ACK: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;
pub(super) const PRIORITY: u8 = 0x20;

pub(super) const CANCEL: u32 = 8;

/// The nine bytes before every payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Header {
    pub(super) fn parse(input: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, stream @ ..] = *input.first_chunk::<HEADER>()?;
        Some(Self {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        })
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame.
pub(super) fn push(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    let length = (payload.len() as u32).to_be_bytes();
    let [a, b, c, d] = stream.to_be_bytes();
    out.extend_from_slice(&[length[1], length[2], length[3], kind, flags, a, b, c, d]);
    out.extend_from_slice(payload);
}

/// The payload without its padding and priority fields; `None` if they do not fit.
pub(super) fn content<'a>(header: &Header, payload: &'a [u8]) -> Option<&'a [u8]> {
    let mut content = payload;
    let mut padding = 0;
    if header.has(PADDED) {
        let (first, rest) = content.split_first()?;
        padding = usize::from(*first);
        content = rest;
    }
    if header.kind == HEADERS && header.has(PRIORITY) {
        content = content.get(5..)?;
    }
    content.get(..content.len().checked_sub(padding)?)
}
