//! Header compression. RFC 7541.

/// Appends a literal field that is never indexed, without Huffman coding.
pub(crate) fn literal(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.push(0x10);
    string(name, out);
    string(value, out);
}

fn string(text: &[u8], out: &mut Vec<u8>) {
    integer(text.len(), 7, 0, out);
    out.extend_from_slice(text);
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
