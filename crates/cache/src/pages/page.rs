//! A stored response: how old it is, whether a request may have it, and what it is given as.

use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, ACCEPT_LANGUAGE, AGE, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, DATE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED,
    RANGE, VARY,
};
use http::{HeaderName, HeaderValue, StatusCode};
use tidewire_service::{
    Body, Code, Error, Headers, Reply, ThinHeaders, headers_without, is_of_connection,
};

use super::conditions::{self, Part};
use super::directives::Directives;
use super::page_request::{Key, PageRequest, hash};
use super::policy::Policy;
use crate::own_headers::own;
use crate::weight;

/// A stored response.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) headers: ThinHeaders,
    pub(crate) body: Bytes,
    pub(crate) policy: Policy,
    /// When it arrived, or was found to be right.
    pub(crate) since: Instant,
    /// The headers of a request that it depends on, with their values.
    pub(crate) varies: Vec<(HeaderName, Vec<u8>)>,
    /// Whose it is; `None` is anybody who is not known.
    pub(crate) caller: Option<u64>,
    pub(crate) tags: Vec<Box<str>>,
}

/// What a request may do with a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is fresh, or its caller takes it stale.
    Give,
    /// It is given, and validated meanwhile.
    GiveAndValidate,
    /// It is validated first.
    Validate,
    /// The same, because the request says so.
    ValidateAsAsked,
}

/// Why there is no response to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The service failed, or says that it did.
    Failed,
    /// It cannot be reached: the cache is disconnected (RFC 9111, section 4.2.4).
    Unreachable,
}

impl Failure {
    pub(crate) fn of(error: &Error) -> Self {
        match error.code() {
            Code::Unavailable | Code::DeadlineExceeded => Self::Unreachable,
            _ => Self::Failed,
        }
    }
}

impl Page {
    /// How old it is (RFC 9111, section 4.2.3).
    pub(crate) fn age(&self, now: Instant) -> Duration {
        self.policy.age + now.saturating_duration_since(self.since)
    }

    /// For how long it is fresh still, in seconds; negative once it is stale.
    pub(crate) fn left(&self, now: Instant) -> i64 {
        let whole = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        whole(self.policy.lifetime) - whole(self.age(now))
    }

    /// Whether a request with these headers, of this caller, may have it (section 4.1).
    pub(crate) fn is_for(&self, headers: &Headers, caller: Option<u64>) -> bool {
        (self.policy.is_public || self.caller == caller)
            && (self.status != StatusCode::PARTIAL_CONTENT
                || conditions::is_of_this(headers, &self.headers))
            && self.varies.iter().all(|(name, value)| normal(headers, name) == *value)
    }

    /// Whether a new response takes the place of this one.
    pub(crate) fn is_replaced_by(&self, other: &Self) -> bool {
        let is_same_caller =
            self.caller == other.caller || self.policy.is_public && other.policy.is_public;
        is_same_caller && self.varies == other.varies
    }

    /// What a request with these directives may do with it (sections 4.2.4 and 5.2.1).
    pub(crate) fn use_for(&self, request: &Directives, now: Instant) -> Use {
        let age = self.age(now);
        let policy = &self.policy;
        let is_stale = age >= policy.lifetime;
        let staleness = age.saturating_sub(policy.lifetime);
        let takes_stale =
            !policy.never_stale && request.max_stale.is_some_and(|it| it >= staleness);
        let left = policy.lifetime.saturating_sub(age);
        if request.no_cache
            || request.max_age.is_some_and(|max| age > max && !takes_stale)
            || request.min_fresh.is_some_and(|min| left < min)
        {
            return Use::ValidateAsAsked;
        }
        if policy.must_validate {
            return Use::Validate;
        }
        if !is_stale || takes_stale {
            return Use::Give;
        }
        // As soon as it is stale for so long (RFC 5861, section 3).
        if staleness < policy.stale_while_revalidate && request.max_age.is_none() {
            return Use::GiveAndValidate;
        }
        Use::Validate
    }

    /// Whether it is given in place of an error (RFC 5861, section 4).
    pub(crate) fn is_for_errors(
        &self,
        failure: Failure,
        request: &Directives,
        now: Instant,
    ) -> bool {
        let asked = request
            .stale_if_error
            .filter(|_| !self.policy.never_stale && !self.policy.must_validate);
        let mut allowed = self.policy.stale_if_error.max(asked.unwrap_or_default());
        if failure == Failure::Unreachable {
            allowed = allowed.max(self.policy.stale_if_unreachable);
        }
        let staleness = self.age(now).saturating_sub(self.policy.lifetime);
        !request.no_cache && staleness < allowed
    }

    /// The conditions that ask whether it is still right (section 4.3.1), in place of the caller's.
    pub(crate) fn ask(&self, headers: &mut Headers) {
        for name in [IF_NONE_MATCH, IF_MODIFIED_SINCE, RANGE, IF_RANGE] {
            headers.remove(name);
        }
        for (validator, condition) in [(ETAG, IF_NONE_MATCH), (LAST_MODIFIED, IF_MODIFIED_SINCE)] {
            if let Some(value) = self.headers.get(validator) {
                headers.insert(condition, value.clone());
            }
        }
    }

    /// Whether it can be asked for whether it is right.
    pub(crate) fn has_validator(&self) -> bool {
        self.headers.contains_key(ETAG) || self.headers.contains_key(LAST_MODIFIED)
    }

    /// Whether a 304 is of this page, and not of another one (section 4.3.4).
    pub(crate) fn is_named_by(&self, headers: &Headers) -> bool {
        match headers.get(ETAG) {
            Some(tag) => {
                let opaque = |tag: &HeaderValue| {
                    let bytes = tag.as_bytes();
                    bytes.strip_prefix(b"W/").unwrap_or(bytes).to_vec()
                };
                self.headers.get(ETAG).is_some_and(|own| opaque(own) == opaque(tag))
            }
            None => true,
        }
    }

    /// The headers that it has once a 304 with these came (section 3.2).
    pub(crate) fn headers_with(&self, fresh: &Headers) -> ThinHeaders {
        let mut headers = self.headers.clone();
        let fresh = stored_headers(fresh.clone(), &[]);
        for name in fresh.keys() {
            if !is_of_content(name) {
                headers.remove(name);
            }
        }
        for (name, value) in &*fresh {
            if !is_of_content(name) {
                headers.append(name.clone(), value.clone());
            }
        }
        own(&mut headers);
        headers
    }

    /// The page as the answer to a request.
    pub(crate) fn give(&self, asked: &PageRequest, request: &Headers, now: Instant) -> Reply {
        let is_whole = self.status == StatusCode::OK;
        let age = HeaderValue::from(self.age(now).as_secs());
        let is_part = self.status == StatusCode::PARTIAL_CONTENT;
        if (is_whole || is_part) && conditions::is_held(request, &self.headers) {
            let mut reply = Reply::empty(StatusCode::NOT_MODIFIED);
            let is_kept = |name: &&HeaderName| {
                let is_content = name.as_str().starts_with("content-");
                !is_content || **name == CONTENT_LOCATION || **name == CONTENT_SECURITY_POLICY
            };
            for name in self.headers.keys().filter(is_kept) {
                for value in self.headers.get_all(name) {
                    reply.headers.append(name.clone(), value.clone());
                }
            }
            reply.headers.insert(AGE, age);
            return reply;
        }
        let mut headers = self.headers.clone();
        headers.insert(AGE, age);
        let bytes = self.body.len();
        let part = match is_whole && asked.is_range && !asked.is_head {
            true => conditions::part(request, &self.headers, bytes),
            false => Part::All,
        };
        let (status, body) = match part {
            Part::All => (self.status, self.body.clone()),
            Part::Of(range) => {
                let text = format!("bytes {}-{}/{bytes}", range.start, range.end - 1);
                headers.insert(CONTENT_RANGE, content_range(&text));
                (StatusCode::PARTIAL_CONTENT, self.body.slice(range))
            }
            Part::None => {
                headers.insert(CONTENT_RANGE, content_range(&format!("bytes */{bytes}")));
                (StatusCode::RANGE_NOT_SATISFIABLE, Bytes::new())
            }
        };
        if !matches!(status, StatusCode::NO_CONTENT) {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        let body = if asked.is_head { Body::Empty } else { Body::Full(body) };
        Reply::new(body).with_status(status).with_headers(headers)
    }

    /// What it takes on the heap, with its key.
    pub(crate) fn bytes(&self, key: &Key) -> usize {
        let varies = self.varies.iter().map(|(_, value)| value.len() + 64);
        let tags = self.tags.iter().map(|tag| 2 * tag.len() + 96);
        weight::shared(&self.body)
            + weight::headers(&self.headers)
            + varies.sum::<usize>()
            + tags.sum::<usize>()
            + 2 * weight::heap_bytes(key.len())
            + weight::heap_bytes(size_of::<Self>())
            + ENTRY_BYTES
    }
}

/// The headers of a response that are stored (section 3.1): without those of its connection, those
/// for this cache alone, and those that it says are not to be given again.
pub(crate) fn stored_headers(headers: Headers, omitted: &[String]) -> ThinHeaders {
    let kept = headers_without(headers, |name| {
        is_of_connection(name)
            || matches!(name, "age" | "cache-status" | "proxy-authentication-info")
            || omitted.iter().any(|omitted| omitted == name)
    });
    kept.into()
}

/// Adds the time of arrival where a response does not say when it was made (RFC 9110, section
/// 6.6.1).
pub(crate) fn set_date(headers: &mut ThinHeaders, wall: SystemTime) {
    if !headers.contains_key(DATE)
        && let Ok(date) = HeaderValue::from_str(&httpdate::fmt_http_date(wall))
    {
        headers.insert(DATE, date);
    }
}

/// The headers of a request that its response depends on, as it has them: those that `Vary` names,
/// and of a part `Range`. `None` where there are too many.
pub(crate) fn varies(
    status: StatusCode,
    response: &Headers,
    request: &Headers,
) -> Option<Vec<(HeaderName, Vec<u8>)>> {
    let mut names = Vec::new();
    for value in response.get_all(VARY) {
        for name in value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            if !name.is_empty() {
                names.push(HeaderName::from_bytes(name).ok()?);
            }
        }
    }
    if status == StatusCode::PARTIAL_CONTENT {
        names.push(RANGE);
    }
    names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
    names.dedup();
    if names.len() > VARIES_MAX {
        return None;
    }
    let of = |name: HeaderName| {
        let value = normal(request, &name);
        (name, value)
    };
    Some(names.into_iter().map(of).collect())
}

/// The values of a header as they are compared: one list, without the space around its items. An
/// absent one is not an empty one. Long ones are a hash.
///
/// In `Accept-Language` and `Accept-Encoding` neither case nor order counts, nor a weight of 1 (RFC
/// 9110, section 12.5).
fn normal(headers: &Headers, name: &HeaderName) -> Vec<u8> {
    let mut values = headers.get_all(name).iter().peekable();
    if values.peek().is_none() {
        return Vec::new();
    }
    let mut whole = vec![b':'];
    let items = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let items = items.map(<[u8]>::trim_ascii);
    if matches!(*name, ACCEPT_LANGUAGE | ACCEPT_ENCODING) {
        let mut items: Vec<_> = items.filter(|item| !item.is_empty()).map(weighted).collect();
        items.sort_unstable();
        items.dedup();
        items.iter().for_each(|item| whole.extend_from_slice(item));
    } else {
        for item in items {
            whole.extend_from_slice(item);
            whole.push(b',');
        }
    }
    if whole.len() > VALUE_BYTES_MAX {
        return [hash(&whole).to_le_bytes(), hash(&(0_u8, &whole)).to_le_bytes()].concat();
    }
    whole
}

/// An item with its weight as it is compared: in lower case, without space, without a weight of 1.
fn weighted(item: &[u8]) -> Vec<u8> {
    let mut item: Vec<u8> =
        item.iter().filter(|byte| !byte.is_ascii_whitespace()).copied().collect();
    item.make_ascii_lowercase();
    if let Some(at) = item.windows(3).position(|three| three == b";q=")
        && matches!(&item[at + 3..], b"1" | b"1." | b"1.0" | b"1.00" | b"1.000")
    {
        item.truncate(at);
    }
    item.push(b',');
    item
}

/// The tags of a response (`Cache-Tag`).
pub(crate) fn tags(headers: &Headers) -> Vec<Box<str>> {
    let values = headers.get_all(CACHE_TAG).iter().filter_map(|value| value.to_str().ok());
    let mut tags: Vec<Box<str>> = values
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|tag| !tag.is_empty() && tag.len() <= TAG_BYTES_MAX)
        .take(TAGS_MAX)
        .map(Into::into)
        .collect();
    tags.sort_unstable();
    tags.dedup();
    tags
}

/// Whether a field is of the bytes that are stored, which a 304 does not have.
fn is_of_content(name: &HeaderName) -> bool {
    matches!(name.as_str(), "content-length" | "content-encoding" | "content-range")
}

fn content_range(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("bytes */*"))
}

/// Names what ends a page.
const CACHE_TAG: HeaderName = HeaderName::from_static("cache-tag");
const TAGS_MAX: usize = 256;
const TAG_BYTES_MAX: usize = 1024;
const VARIES_MAX: usize = 32;
const VALUE_BYTES_MAX: usize = 256;
/// About what a page takes in the tables that it is found by.
const ENTRY_BYTES: usize = 320;

/// The length of its body that a head says.
pub(super) fn declared_length(headers: &Headers) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
