//! By what a response was chosen, in one line.
//!
//! A `Vary` header may have several lines (RFC 9110, section 5.3), but there are caches that look
//! at one of them only: nginx before 1.23 takes the last, and would give the reply of one caller to
//! another.

use bytes::Bytes;
use http::HeaderMap;
use http::header::{HeaderValue, VARY};

/// Adds a name to `Vary` unless it is there, and leaves one line of it.
///
/// ```
/// use http::{HeaderMap, HeaderValue, header::VARY};
///
/// let mut headers = HeaderMap::new();
/// tidewire_wire::vary(&mut headers, "accept");
/// tidewire_wire::vary(&mut headers, "accept-encoding");
/// assert_eq!(headers[VARY], "accept, accept-encoding");
/// ```
pub fn vary(headers: &mut HeaderMap, name: &'static str) {
    let mut lines = headers.get_all(VARY).iter();
    match (lines.next(), lines.next()) {
        (None, _) => {
            headers.insert(VARY, HeaderValue::from_static(name));
            return;
        }
        (Some(line), None) if has(line, name) => return,
        _ => {}
    }
    let length: usize = headers.get_all(VARY).iter().map(|line| line.len() + 2).sum();
    let mut all = Vec::with_capacity(length + name.len());
    let mut is_there = false;
    for line in headers.get_all(VARY) {
        if !all.is_empty() {
            all.extend_from_slice(b", ");
        }
        all.extend_from_slice(line.as_bytes());
        is_there |= has(line, name);
    }
    if !is_there {
        all.extend_from_slice(b", ");
        all.extend_from_slice(name.as_bytes());
    }
    // Values and names of headers, joined, are one.
    if let Ok(all) = HeaderValue::from_maybe_shared(Bytes::from(all)) {
        headers.insert(VARY, all);
    }
}

fn has(line: &HeaderValue, name: &str) -> bool {
    let mut names = line.as_bytes().split(|byte| *byte == b',');
    names.any(|known| known.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_line_with_each_name_once() {
        for (before, after) in [
            (&[][..], "origin"),
            (&["accept"][..], "accept, origin"),
            (&["Accept, Origin"], "Accept, Origin"),
            (&["accept", "x-tenant,cookie"], "accept, x-tenant,cookie, origin"),
            (&["origin", "accept"], "origin, accept"),
            (&["*"], "*, origin"),
            (&["original"], "original, origin"),
        ] {
            let mut headers = HeaderMap::new();
            for value in before {
                headers.append(VARY, HeaderValue::from_static(value));
            }
            vary(&mut headers, "origin");
            let lines: Vec<_> = headers.get_all(VARY).iter().collect();
            assert_eq!(lines, [after], "{before:?}");
        }
    }
}
