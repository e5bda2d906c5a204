//! What a caller of HTTP says that it holds: `If-None-Match` (RFC 9110, section 13.1.2).
//!
//! Only tags that are validators, or those of a compressed form of one, count, compared weakly: a
//! tag of somebody else names nothing here. `*` is any current reply.

use http::HeaderValue;
use http::header::IF_NONE_MATCH;

use crate::{Headers, Validator};

/// At most as many tags are looked at; a cache sends one or two.
const TAGS_MAX: usize = 16;

/// Whether there is one.
#[inline]
pub(crate) fn is_there(headers: &Headers) -> bool {
    headers.contains_key(IF_NONE_MATCH)
}

/// The validators in the header.
pub(crate) fn of_headers(headers: &Headers) -> Vec<Validator> {
    if !is_there(headers) {
        return Vec::new();
    }
    let values = headers.get_all(IF_NONE_MATCH).into_iter();
    let tags = values.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
    tags.take(TAGS_MAX).filter_map(|tag| validator(tag.trim(), "")).collect()
}

/// Whether the caller holds any reply at all: `*`.
pub(crate) fn is_any(headers: &Headers) -> bool {
    headers.get(IF_NONE_MATCH).is_some_and(|value| value.as_bytes().trim_ascii() == b"*")
}

/// The content that a tag names: `"CONTENT"`, `"CONTENT.EDITION"` where there is an edition, and
/// behind that the coding of a compressed form, `-gzip`.
fn validator(tag: &str, edition: &str) -> Option<Validator> {
    let strong = tag.strip_prefix("W/").unwrap_or(tag);
    let text = strong.strip_prefix('"')?.strip_suffix('"')?;
    let text = ["-gzip", "-zstd"].iter().find_map(|end| text.strip_suffix(end)).unwrap_or(text);
    match edition {
        "" => text.parse().ok(),
        _ => text.strip_suffix(edition)?.strip_suffix('.')?.parse().ok(),
    }
}

/// The tags by which a caller says what it holds; see
/// [`Context::held_tags`](crate::Context::held_tags).
#[derive(Debug, Clone, Default)]
pub struct HeldTags(Vec<HeaderValue>);

impl HeldTags {
    pub(crate) fn of(headers: &Headers) -> Self {
        match is_there(headers) {
            true => Self(headers.get_all(IF_NONE_MATCH).into_iter().cloned().collect()),
            false => Self::default(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The content that the tags name, of those whose bytes were made of it in this edition: the
    /// same content may be printed in several ways. The empty edition is the content as it is.
    pub fn validators(&self, edition: &str) -> Vec<Validator> {
        self.tags().filter_map(|tag| validator(tag, edition)).collect()
    }

    /// The tag that names this content in this edition, as a strong one: what the answer that is
    /// held came with, so that a cache knows which of its answers is still right (RFC 9111, section
    /// 4.3.4).
    pub fn naming(&self, content: Validator, edition: &str) -> Option<HeaderValue> {
        let tag = self.tags().find(|tag| validator(tag, edition) == Some(content))?;
        HeaderValue::from_str(tag.strip_prefix("W/").unwrap_or(tag)).ok()
    }

    fn tags(&self) -> impl Iterator<Item = &str> {
        let values = self.0.iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|text| text.split(',')).take(TAGS_MAX).map(str::trim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_that_are_validators_count_strong_or_weak_and_others_do_not() {
        let one = Validator::new([0xab; 16]);
        let other = Validator::new([0x01; 16]);
        for (text, expected) in [
            (format!("\"{one}\""), vec![one]),
            (format!("W/\"{one}\", \"{other}\""), vec![one, other]),
            (format!("\"abc\" ,  \"{one}\" "), vec![one]),
            (format!("{one}"), vec![]),
            (format!("\"{one}-gzip\", W/\"{other}-zstd\""), vec![one, other]),
            (format!("\"{one}-br\""), vec![]),
            ("*".to_owned(), vec![]),
            (format!("\"{}\"", one.to_string().to_uppercase()), vec![]),
        ] {
            let mut headers = Headers::new();
            headers.append(IF_NONE_MATCH, HeaderValue::from_str(&text).expect("a header value"));
            assert_eq!(of_headers(&headers), expected, "{text}");
        }
    }

    #[test]
    fn a_tag_of_one_edition_names_nothing_in_another() {
        let one = Validator::new([0xab; 16]);
        let mut headers = Headers::new();
        let tags = format!("\"{one}.e1\", W/\"{one}.e2-gzip\", \"{one}\"");
        headers.append(IF_NONE_MATCH, HeaderValue::from_str(&tags).expect("a header value"));
        let held = HeldTags::of(&headers);
        for (edition, tag) in [
            ("", Some(format!("\"{one}\""))),
            ("e1", Some(format!("\"{one}.e1\""))),
            ("e2", Some(format!("\"{one}.e2-gzip\""))),
            ("e3", None),
            ("1", None),
        ] {
            assert_eq!(held.validators(edition).first(), tag.as_ref().map(|_| &one), "{edition}");
            let naming = held.naming(one, edition);
            assert_eq!(
                naming.as_ref().map(HeaderValue::as_bytes),
                tag.as_ref().map(|t| t.as_bytes())
            );
        }
    }
}
