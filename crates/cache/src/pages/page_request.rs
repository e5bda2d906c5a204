//! What of a request counts for a page: its key, what it says of caching, and who makes it.
//!
//! The key is the service, the scheme, the host and the whole target with its query, as they
//! arrived; a `HEAD` has that of its `GET`. Headers that make some servers answer for another path
//! or host than that of the request are not passed on by a cacheable request: what they name is
//! not in the key, so that one caller could choose what others get.

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, IF_MATCH, IF_UNMODIFIED_SINCE, RANGE};
use http::{HeaderName, Method, Uri};
use tidewire_service::{Body, Call, Headers};

use super::directives::Directives;

/// What is asked for, as far as a page is concerned.
#[derive(Debug)]
pub(crate) struct PageRequest {
    pub(crate) key: Key,
    pub(crate) directives: Directives,
    pub(crate) is_head: bool,
    pub(crate) is_range: bool,
    /// A hash of the caller; `None` for one that shows no credential.
    pub(crate) caller: Option<u64>,
}

/// What a page is found by, before `Vary`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key(Box<str>);

impl Key {
    /// The key of a target at an origin; `prefix` was taken off its path.
    pub(crate) fn new(service: &str, origin: &Origin, target: &str) -> Self {
        let Origin { scheme, host, prefix } = origin;
        let parts = [service, scheme, host, prefix, target];
        let length = parts.iter().map(|part| part.len() + 1).sum();
        let mut key = String::with_capacity(length);
        for part in parts {
            // No part of it has a line break.
            key.push_str(part);
            key.push('\n');
        }
        key.pop();
        Self(key.into())
    }

    /// The target, without the prefix.
    pub(crate) fn target(&self) -> &str {
        self.0.rsplit('\n').next().unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_of(&self, service: &str) -> bool {
        self.0.split('\n').next() == Some(service)
    }

    /// What changes of it are counted by.
    pub(crate) fn hash(&self) -> u64 {
        hash(self)
    }
}

/// Where a request goes: its scheme and host, and what was taken off its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) scheme: &'static str,
    pub(crate) host: String,
    pub(crate) prefix: String,
}

impl Origin {
    /// That of a request, whose headers the gateway has set.
    pub(crate) fn of(headers: &Headers, uri: &Uri) -> Self {
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let scheme = match text(&X_FORWARDED_PROTO).or_else(|| uri.scheme_str()) {
            Some("https") => "https",
            _ => "http",
        };
        let host = uri.authority().map(http::uri::Authority::as_str).or_else(|| text(&HOST));
        let prefix = text(&X_FORWARDED_PREFIX).unwrap_or_default().to_owned();
        Self { scheme, host: host_of(host.unwrap_or_default(), scheme), prefix }
    }
}

/// A host as hosts are compared: without the port that its scheme has anyway.
pub(crate) fn host_of(host: &str, scheme: &str) -> String {
    let usual = if scheme == "https" { ":443" } else { ":80" };
    host.strip_suffix(usual).unwrap_or(host).to_ascii_lowercase()
}

impl PageRequest {
    /// What a request asks for; `None` for one that no page answers, and none is made of.
    pub(crate) fn of(service: &str, call: &Call, is_upgrade: bool) -> Option<Self> {
        let target = call.http_target()?;
        let headers = call.context.headers();
        let is_head = target.method == Method::HEAD;
        if !is_head && target.method != Method::GET
            || !matches!(call.body, Body::Empty)
            || is_upgrade
            || is_grpc(headers)
            || headers.contains_key(IF_MATCH)
            || headers.contains_key(IF_UNMODIFIED_SINCE)
        {
            return None;
        }
        Self::of_target(service, call)
    }

    /// The page that the response to a `POST` may be (RFC 9110, section 9.3.3).
    pub(crate) fn posted(service: &str, call: &Call) -> Option<Self> {
        let is_post = call.http_target().is_some_and(|target| target.method == Method::POST);
        let headers = call.context.headers();
        let is_plain = !is_grpc(headers) && !headers.contains_key(RANGE);
        (is_post && is_plain).then(|| Self::of_target(service, call))?
    }

    fn of_target(service: &str, call: &Call) -> Option<Self> {
        let target = call.http_target()?;
        let headers = call.context.headers();
        let whole = target.uri.path_and_query().map_or("/", |whole| whole.as_str());
        if whole.len() > TARGET_BYTES_MAX {
            return None;
        }
        let origin = Origin::of(headers, &target.uri);
        Some(Self {
            key: Key::new(service, &origin, whole),
            directives: Directives::of_request(headers),
            is_head: target.method == Method::HEAD,
            is_range: headers.contains_key(RANGE),
            caller: caller(call),
        })
    }
}

fn is_grpc(headers: &Headers) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map(http::HeaderValue::as_bytes);
    content_type.is_some_and(|it| it.starts_with(b"application/grpc"))
}

/// Who makes a request that shows any credential (RFC 9111, section 3.5): `Authorization`, what a
/// gate found out, or a certificate.
fn caller(call: &Call) -> Option<u64> {
    let context = &call.context;
    let certificates = context.peer().map_or(&[][..], |peer| &peer.certificates);
    let principal = context.principal();
    let has_authorization = context.headers().contains_key(AUTHORIZATION);
    if principal.is_none() && certificates.is_empty() && !has_authorization {
        return None;
    }
    let authorization = context.headers().get_all(AUTHORIZATION);
    let mut said = String::new();
    if let Some(principal) = principal {
        let _ = write!(said, "{:?}", principal.to_header());
    }
    let values: Vec<&[u8]> = authorization.iter().map(http::HeaderValue::as_bytes).collect();
    Some(hash(&(said, values, certificates)))
}

/// Takes out what would make some servers answer for something else than the key says.
pub(crate) fn without_overrides(headers: &mut Headers) {
    // Hardly any request has one.
    if headers.keys().any(|name| OVERRIDES.contains(&name.as_str())) {
        OVERRIDES.iter().for_each(|name| _ = headers.remove(*name));
    }
}

/// A hash that nobody outside can foresee.
pub(crate) fn hash(value: &impl std::hash::Hash) -> u64 {
    static STATE: OnceLock<RandomState> = OnceLock::new();
    STATE.get_or_init(RandomState::new).hash_one(value)
}

const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");
const OVERRIDES: [&str; 8] = [
    "x-original-url",
    "x-rewrite-url",
    "x-original-host",
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
];

const TARGET_BYTES_MAX: usize = 16 << 10;
