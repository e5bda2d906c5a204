//! Header compression. RFC 7541.
//!
//! Requests of a run repeat, so their fields are put into the target's table once per connection
//! and named by index afterwards ([`Block`]). Answers are decoded in full, dynamic table included.

use std::collections::VecDeque;

use super::huffman;

const TABLE_MAX: usize = 4096;
const STATIC: usize = 61;

/// The header block of a request in the three ways it may be sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Block {
    /// Always valid: literals that touch no table.
    pub(crate) plain: Vec<u8>,
    /// Puts every field into the table of a fresh connection; empty if they do not fit.
    pub(crate) first: Vec<u8>,
    /// Names the fields that `first` put there.
    pub(crate) again: Vec<u8>,
}

impl Block {
    pub(crate) fn encode(&mut self, fields: &[(&str, &str)]) {
        self.plain.clear();
        self.first.clear();
        self.again.clear();
        for (name, value) in fields {
            literal(0x10, name.as_bytes(), value.as_bytes(), &mut self.plain);
        }
        let size: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
        if size > TABLE_MAX {
            return;
        }
        for (index, (name, value)) in fields.iter().enumerate() {
            literal(0x40, name.as_bytes(), value.as_bytes(), &mut self.first);
            integer(STATIC + fields.len() - index, 7, 0x80, &mut self.again);
        }
    }
}

/// Appends a literal field with a literal name, without Huffman coding.
fn literal(kind: u8, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    for text in [name, value] {
        integer(text.len(), 7, 0, out);
        out.extend_from_slice(text);
    }
}

/// An integer with a prefix of `bits`. RFC 7541 §5.1.
fn integer(value: usize, bits: u32, flags: u8, out: &mut Vec<u8>) {
    let limit = (1 << bits) - 1;
    if value < limit {
        out.push(flags | value as u8);
        return;
    }
    out.push(flags | limit as u8);
    let mut rest = value - limit;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

type Field = (Vec<u8>, Vec<u8>);

/// The decoding side of one connection.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: VecDeque<Field>,
    size: usize,
    size_max: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

/// The block does not follow the RFC.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HpackError;

impl Decoder {
    pub(crate) fn new() -> Self {
        Self {
            table: VecDeque::new(),
            size: 0,
            size_max: TABLE_MAX,
            name: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Hands every field of a complete block to `field`.
    pub(crate) fn decode(
        &mut self,
        mut block: &[u8],
        mut field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), HpackError> {
        while let Some(first) = block.first().copied() {
            if first & 0x80 != 0 {
                let index = read_integer(&mut block, 7)?;
                let (name, value) = self.at(index)?;
                field(name, value);
            } else if first & 0xe0 == 0x20 {
                self.size_max = read_integer(&mut block, 5)?.min(TABLE_MAX);
                self.evict();
            } else {
                let indexed = first & 0x40 != 0;
                let index = read_integer(&mut block, if indexed { 6 } else { 4 })?;
                let mut name = std::mem::take(&mut self.name);
                let mut value = std::mem::take(&mut self.value);
                name.clear();
                value.clear();
                if index == 0 {
                    read_string(&mut block, &mut name)?;
                } else {
                    name.extend_from_slice(self.at(index)?.0);
                }
                read_string(&mut block, &mut value)?;
                field(&name, &value);
                if indexed {
                    self.size += name.len() + value.len() + 32;
                    self.table.push_front((name.clone(), value.clone()));
                    self.evict();
                }
                (self.name, self.value) = (name, value);
            }
        }
        Ok(())
    }

    fn at(&self, index: usize) -> Result<(&[u8], &[u8]), HpackError> {
        if index > STATIC {
            let (name, value) = self.table.get(index - STATIC - 1).ok_or(HpackError)?;
            return Ok((name, value));
        }
        let (name, value) = STATIC_TABLE.get(index.wrapping_sub(1)).ok_or(HpackError)?;
        Ok((name.as_bytes(), value.as_bytes()))
    }

    fn evict(&mut self) {
        while self.size > self.size_max {
            let Some((name, value)) = self.table.pop_back() else { return };
            self.size -= name.len() + value.len() + 32;
        }
    }
}

fn read_integer(input: &mut &[u8], bits: u32) -> Result<usize, HpackError> {
    let limit = (1 << bits) - 1;
    let (first, mut rest) = input.split_first().ok_or(HpackError)?;
    let mut value = usize::from(*first) & limit;
    if value == limit {
        let mut shift = 0;
        loop {
            let (byte, after) = rest.split_first().ok_or(HpackError)?;
            rest = after;
            value += usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift > 28 {
                return Err(HpackError);
            }
        }
    }
    *input = rest;
    Ok(value)
}

fn read_string(input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let coded = input.first().is_some_and(|first| first & 0x80 != 0);
    let length = read_integer(input, 7)?;
    let (text, rest) = input.split_at_checked(length).ok_or(HpackError)?;
    *input = rest;
    if !coded {
        out.extend_from_slice(text);
    } else if !huffman::decode(text, out) {
        return Err(HpackError);
    }
    Ok(())
}

/// RFC 7541, appendix A.
#[rustfmt::skip]
const STATIC_TABLE: [(&str, &str); STATIC] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"),
    (":path", "/index.html"), (":scheme", "http"), (":scheme", "https"), (":status", "200"),
    (":status", "204"), (":status", "206"), (":status", "304"), (":status", "400"),
    (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""),
    ("accept", ""), ("access-control-allow-origin", ""), ("age", ""), ("allow", ""),
    ("authorization", ""), ("cache-control", ""), ("content-disposition", ""),
    ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""),
    ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""),
    ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""),
    ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""),
    ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""),
    ("via", ""), ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(decoder: &mut Decoder, block: &[u8]) -> String {
        let mut text = String::new();
        let result = decoder.decode(block, |name, value| {
            let show = String::from_utf8_lossy;
            text.push_str(&format!("{}={};", show(name), show(value)));
        });
        assert_eq!(result, Ok(()));
        text
    }

    #[test]
    fn answers_of_the_rfc_are_decoded_with_their_table() {
        // RFC 7541, C.6.1 and C.6.2.
        let mut decoder = Decoder::new();
        let first = b"\x48\x82\x64\x02\x58\x85\xae\xc3\x77\x1a\x4b\x61\x96\xd0\x7a\xbe\x94\x10\x54\
            \xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff\x6e\x91\x9d\x29\xad\
            \x17\x18\x63\xc7\x8f\x0b\x97\xc8\xe9\xae\x82\xae\x43\xd3";
        let text = decoded(&mut decoder, first);
        assert_eq!(
            text,
            ":status=302;cache-control=private;date=Mon, 21 Oct 2013 20:13:21 GMT;\
             location=https://www.example.com;"
        );
        let second = decoded(&mut decoder, b"\x48\x83\x64\x0e\xff\xc1\xc0\xbf");
        assert!(second.starts_with(":status=307;cache-control=private;date=Mon"), "{second}");
    }

    #[test]
    fn a_repeated_request_is_named_by_index() {
        let fields = [(":method", "POST"), (":path", "/p.S/M"), ("te", "trailers")];
        let mut block = Block::default();
        block.encode(&fields);
        let mut decoder = Decoder::new();
        let first = decoded(&mut decoder, &block.first);
        assert_eq!(first, ":method=POST;:path=/p.S/M;te=trailers;");
        assert_eq!(decoded(&mut decoder, &block.again), first);
        assert_eq!(decoded(&mut Decoder::new(), &block.plain), first);
        assert_eq!(block.again.len(), 3);
    }

    #[test]
    fn a_cut_or_unknown_block_is_malformed() {
        let mut decoder = Decoder::new();
        for block in [&b"\x40\x05ab"[..], b"\xff", b"\xbe", b"\x80"] {
            assert_eq!(decoder.decode(block, |_, _| {}), Err(HpackError), "{block:x?}");
        }
    }
}
