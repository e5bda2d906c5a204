//! Names in SQL, and names made of texts: the same in PostgreSQL and SQLite.

/// A name as SQL has it.
pub(crate) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A number of texts that stays the same over versions of Rust, as 16 digits: FNV-1a.
pub(crate) fn fingerprint(texts: &[&str]) -> String {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0xff]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
