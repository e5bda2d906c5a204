//! By what a response was chosen, in one line.
//!
//! A `Vary` header may have several lines (RFC 9110, section 5.3), but there are caches that look
//! at one of them only: nginx before 1.23 takes the last, and would give the reply of one caller to
//! another. nginx and Varnish know `Vary: *` only where that is all of the value (section 12.5.5
//! has no other form), so nothing is added to it.

use bytes::Bytes;
use http::header::{HeaderValue, VARY};

use crate::Headers;

/// Adds a name to `Vary` unless it is there, and leaves one line of it.
///
/// ```
/// use http::{HeaderValue, header::VARY};
/// use tidewire_service::Headers;
///
/// let mut headers = Headers::new();
/// tidewire_service::vary(&mut headers, "accept");
/// tidewire_service::vary(&mut headers, "accept-encoding");
/// assert_eq!(headers[VARY], "accept, accept-encoding");
/// headers.insert(VARY, HeaderValue::from_static("*"));
/// tidewire_service::vary(&mut headers, "origin");
/// assert_eq!(headers[VARY], "*");
/// ```
pub fn vary(headers: &mut Headers, name: &'static str) {
    vary_by(headers, &HeaderValue::from_static(name));
}

/// Adds a list of names to `Vary`, each unless it is there, and leaves one line of it: `*` where
/// any of them is that.
pub fn vary_by(headers: &mut Headers, added: &HeaderValue) {
    if let Some(line) = vary_line(|| headers.get_all(VARY).iter(), added) {
        headers.insert(VARY, line);
    }
}

/// What stands in place of these lines of `Vary` once a list of names is added to them; `None`
/// where they stay.
pub fn vary_line<'a, I>(lines: impl Fn() -> I, added: &HeaderValue) -> Option<HeaderValue>
where
    I: Iterator<Item = &'a HeaderValue>,
{
    let mut before = lines();
    match (before.next(), before.next()) {
        (None, _) if !has(added, ALL) => return Some(added.clone()),
        (Some(line), None) if !has(line, ALL) && names(added).all(|name| has(line, name)) => {
            return None;
        }
        _ => {}
    }
    if has(added, ALL) || lines().any(|line| has(line, ALL)) {
        return Some(HeaderValue::from_static("*"));
    }
    let length: usize = lines().map(|line| line.len() + 2).sum();
    let mut all = Vec::with_capacity(length + ROOM);
    lines().for_each(|line| push(&mut all, line.as_bytes()));
    for name in names(added).filter(|name| !lines().any(|line| has(line, name))) {
        push(&mut all, name);
    }
    // Values and names of headers, joined, are one.
    HeaderValue::from_maybe_shared(Bytes::from(all)).ok()
}

/// Leaves `*` alone in `Vary` where it is among what that says.
pub fn settle_vary(headers: &mut Headers) {
    if headers.contains_key(VARY) && headers.get_all(VARY).iter().any(|line| has(line, ALL)) {
        headers.insert(VARY, HeaderValue::from_static("*"));
    }
}

const ALL: &[u8] = b"*";

/// For the name that is added.
const ROOM: usize = 32;

fn push(all: &mut Vec<u8>, names: &[u8]) {
    if !all.is_empty() {
        all.extend_from_slice(b", ");
    }
    all.extend_from_slice(names);
}

fn names(line: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    line.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

fn has(line: &HeaderValue, name: &[u8]) -> bool {
    names(line).any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(lines: &[&'static str]) -> Headers {
        lines.iter().map(|line| (VARY, HeaderValue::from_static(line))).collect()
    }

    fn lines(headers: &Headers) -> Vec<&str> {
        headers.get_all(VARY).iter().map(|line| line.to_str().unwrap()).collect()
    }

    #[test]
    fn there_is_one_line_with_each_name_once() {
        for (before, after) in [
            (&[][..], "origin"),
            (&["accept"][..], "accept, origin"),
            (&["Accept, Origin"], "Accept, Origin"),
            (&["accept", "x-tenant,cookie"], "accept, x-tenant,cookie, origin"),
            (&["origin", "accept"], "origin, accept"),
            (&["*"], "*"),
            (&["accept", "*"], "*"),
            (&["origin, *"], "*"),
            (&["\t* ,accept", "x"], "*"),
            (&["original"], "original, origin"),
        ] {
            let mut headers = with(before);
            vary(&mut headers, "origin");
            assert_eq!(lines(&headers), [after], "{before:?}");
        }
    }

    #[test]
    fn of_a_list_each_name_that_is_missing_is_added() {
        for (before, added, after) in [
            (&[][..], "a, b", "a, b"),
            (&["B"][..], "a, b", "B, a"),
            (&["b,a"], "a, b", "b,a"),
            (&["b", "c"], "a, b", "b, c, a"),
            (&["b"], "*", "*"),
            (&[], "a, *", "*"),
        ] {
            let mut headers = with(before);
            vary_by(&mut headers, &HeaderValue::from_static(added));
            assert_eq!(lines(&headers), [after], "{before:?} {added}");
        }
    }

    #[test]
    fn what_names_nothing_but_names_stays_as_it_is() {
        for (before, after) in
            [(&[][..], &[][..]), (&["a", "b"][..], &["a", "b"][..]), (&["a", "*"], &["*"])]
        {
            let mut headers = with(before);
            settle_vary(&mut headers);
            assert_eq!(lines(&headers), after);
        }
    }
}
