//! The tag of a response (`ETag`), and when it is `304 Not Modified`.

use http::header::{ETAG, HeaderValue};
use http::{HeaderMap, StatusCode};
use tidewire_service::{Body, HeldTags, Reply, Validator};

/// Names the content of a reply for whoever asks again (`If-None-Match`): RFC 9110, section 8.8.3.
///
/// The validator names the bytes as the service gave them, so it stands for that one
/// representation; what is printed from it gets its `edition` behind it, and what is compressed on
/// the way its coding. Each is *unchanged* by the tag that it came with.
pub(crate) fn add_etag(reply: &mut Reply, held: &HeldTags, edition: &str) {
    if reply.is_unchanged()
        && let Some(tag) =
            reply.freshness.validator().and_then(|content| held.naming(content, edition))
    {
        reply.headers.insert(ETAG, tag);
    }
    match reply.headers.get(ETAG) {
        None => {
            if let Some(tag) = reply.freshness.validator().and_then(|it| strong_tag(it, edition)) {
                reply.headers.insert(ETAG, tag);
            }
        }
        Some(tag) if !edition.is_empty() => {
            if let Some(tag) = own_content(tag).and_then(|content| strong_tag(content, edition)) {
                reply.headers.insert(ETAG, tag);
            }
        }
        Some(_) => {}
    }
    if reply.is_unchanged() {
        reply.status = StatusCode::NOT_MODIFIED;
        reply.body = Body::Empty;
    }
}

/// The tag of this content in this edition; the empty one is the content as it is.
fn strong_tag(content: Validator, edition: &str) -> Option<HeaderValue> {
    let dot: &[u8] = if edition.is_empty() { b"" } else { b"." };
    let digits = content.digits();
    let parts = [b"\"", &digits[..], dot, edition.as_bytes(), b"\""];
    // As long as they are, so that the value takes it as it is.
    let mut tag = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| tag.extend_from_slice(part));
    HeaderValue::try_from(tag).ok()
}

/// The content that a tag names by itself, if it is one that was made here.
fn own_content(tag: &HeaderValue) -> Option<Validator> {
    tag.to_str().ok()?.strip_prefix('"')?.strip_suffix('"')?.parse().ok()
}

/// Lets a tag name the bytes that are sent, which were compressed on the way (RFC 9110, section
/// 8.8.3): one that was made here gets the coding behind it, which
/// [`Context::caller_validators`] knows; of another we do not know who reads it, so it becomes a
/// weak one.
///
/// [`Context::caller_validators`]: tidewire_service::Context::caller_validators
pub(crate) fn tag_compressed(headers: &mut HeaderMap, coding: &str) {
    let Some(tag) = headers.get_mut(ETAG) else { return };
    let text = tag.to_str().unwrap_or_default();
    if text.starts_with("W/") {
        return;
    }
    let own = text.trim_matches('"');
    let other = match own.split('.').next().unwrap_or_default().parse::<Validator>() {
        Ok(_) => format!("\"{own}-{coding}\"").into_bytes(),
        Err(_) => [b"W/", tag.as_bytes()].concat(),
    };
    if let Ok(other) = HeaderValue::from_bytes(&other) {
        *tag = other;
    }
}
