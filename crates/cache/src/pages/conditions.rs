//! Conditions and ranges of a request, against a stored page (RFC 9110, sections 13 and 14).

use std::ops::Range;

use http::HeaderName;
use http::header::{DATE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED, RANGE};
use tidewire_service::Headers;

use super::policy::date;

/// Whether the caller holds what is stored: `If-None-Match`, else `If-Modified-Since`.
pub(crate) fn is_held(request: &Headers, page: &Headers) -> bool {
    if request.contains_key(IF_NONE_MATCH) {
        let held = request.get_all(IF_NONE_MATCH).iter();
        let tag = page.get(ETAG).map(|tag| weak(tag.as_bytes()));
        return held.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).any(|held| {
            let held = held.trim_ascii();
            held == b"*" || tag.is_some_and(|tag| weak(held) == tag)
        });
    }
    let Some(since) = date(request, IF_MODIFIED_SINCE.as_str()) else { return false };
    // RFC 9111, section 4.3.2: without the one, when it was made counts.
    let modified = date(page, LAST_MODIFIED.as_str()).or_else(|| date(page, DATE.as_str()));
    modified.is_some_and(|modified| modified <= since)
}

/// The tag without what says that it is a weak one.
fn weak(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// What is asked for of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    All,
    Of(Range<usize>),
    /// Nothing that there is: 416.
    None,
}

/// The part of a page of so many bytes that a request asks for. Several parts at once are all of
/// it.
pub(crate) fn part(request: &Headers, page: &Headers, bytes: usize) -> Part {
    let Some(range) = request.get(RANGE).and_then(|range| range.to_str().ok()) else {
        return Part::All;
    };
    let Some(range) = range.strip_prefix("bytes=").filter(|it| !it.contains(',')) else {
        return Part::All;
    };
    if !is_of_this(request, page) {
        return Part::All;
    }
    let Some((first, last)) = range.trim().split_once('-') else { return Part::All };
    let number = |text: &str| -> Option<usize> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(usize::MAX))
    };
    let range = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(bytes),
        (Some(first), None) if last.is_empty() => first..bytes,
        (None, Some(count)) if first.is_empty() => bytes.saturating_sub(count)..bytes,
        _ => return Part::All,
    };
    if range.start >= bytes || range.is_empty() { Part::None } else { Part::Of(range) }
}

/// Whether the caller's other parts are of the stored page: `If-Range`, which only a strong
/// validator answers.
pub(crate) fn is_of_this(request: &Headers, page: &Headers) -> bool {
    let Some(wanted) = request.get(IF_RANGE) else { return true };
    if wanted.as_bytes().starts_with(b"\"") {
        return page.get(ETAG) == Some(wanted);
    }
    let same = |name: HeaderName| page.get(name) == Some(wanted);
    !wanted.as_bytes().starts_with(b"W/") && same(LAST_MODIFIED)
}
