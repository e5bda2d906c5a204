//! The Huffman code of header strings. RFC 7541 §5.2 and appendix B.
//!
//! The code is canonical: symbols sorted by length and value have rising codes, so the lengths are
//! the whole table. Only decoding is needed; what a load generator sends is indexed anyway.

/// Decodes `input` onto `out`; false if it is not a valid code.
pub(crate) fn decode(input: &[u8], out: &mut Vec<u8>) -> bool {
    let mut code = 0_u32;
    let mut length = 0_u8;
    for byte in input {
        for bit in (0..8).rev() {
            code = code << 1 | u32::from(byte >> bit & 1);
            length += 1;
            if length > 30 {
                return false;
            }
            let rank = &RANKS[length as usize];
            if code < rank.first_code + rank.count {
                out.push(SYMBOLS[(rank.first_symbol + code - rank.first_code) as usize]);
                (code, length) = (0, 0);
            }
        }
    }
    // What is left must be the start of the end-of-string symbol: all ones, less than a byte.
    length < 8 && code == (1 << length) - 1
}

/// The codes of one length.
#[derive(Clone, Copy)]
struct Rank {
    first_code: u32,
    count: u32,
    first_symbol: u32,
}

static RANKS: [Rank; 31] = ranks();
static SYMBOLS: [u8; 256] = symbols();

const fn ranks() -> [Rank; 31] {
    let mut ranks = [Rank { first_code: 0, count: 0, first_symbol: 0 }; 31];
    let mut length = 1;
    let mut code = 0;
    let mut symbol = 0;
    while length <= 30 {
        code <<= 1;
        let mut count = 0;
        let mut value = 0;
        while value < 256 {
            if LENGTHS[value] as usize == length {
                count += 1;
            }
            value += 1;
        }
        ranks[length] = Rank { first_code: code, count, first_symbol: symbol };
        code += count;
        symbol += count;
        length += 1;
    }
    ranks
}

const fn symbols() -> [u8; 256] {
    let mut symbols = [0; 256];
    let mut at = 0;
    let mut length = 1;
    while length <= 30 {
        let mut value = 0;
        while value < 256 {
            if LENGTHS[value] == length {
                symbols[at] = value as u8;
                at += 1;
            }
            value += 1;
        }
        length += 1;
    }
    symbols
}

/// Bits in the code of each byte value.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_the_rfc_are_decoded() {
        let mut out = Vec::new();
        let wire = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert!(decode(&wire, &mut out));
        assert_eq!(out, b"www.example.com");
        assert!(!decode(&[0xff, 0xff], &mut Vec::new()));
    }
}
