//! What caches of HTTP are told of an answer that is kept here too.
//!
//! | header | value | source |
//! |---|---|---|
//! | `cache-control` | `no-cache`: keep it and ask each time; `max-age`, `stale-while-revalidate`, `stale-if-error` where set; `immutable` where declared; `private` where a caller's | RFC 9111, 5861, 8246 |
//! | `vary` | what of the request the answer depends on | RFC 9110, section 12.5.5 |
//! | `age` | seconds since it was computed | RFC 9111, section 5.1 |
//! | `cache-status` | `tidewire; hit`, or `tidewire; fwd=miss; stored` | RFC 9211 |
//!
//! A header that the service set itself stays. The tag (`etag`) is made where the reply is written,
//! of the validator.

use std::time::Duration;

use http::HeaderValue;
use http::header::{AGE, CACHE_CONTROL, HeaderMap, HeaderName, VARY};
use tidewire_service::{Caching, Headers, Lifetime};

use crate::scope::Scope;

/// The headers that are the same for all answers of a method.
#[derive(Debug)]
pub(crate) struct Rules {
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether replies are one caller's.
    is_private: bool,
}

/// Where an answer came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    Memory,
    Service,
}

/// A year, for ever by the measure of caches.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Rules {
    pub(crate) fn new(
        scope: &Scope,
        credentials: &[HeaderName],
        lifetime: Lifetime,
        is_page: bool,
        caching: Caching,
    ) -> Self {
        let mut vary = Vec::new();
        let whose = match scope {
            Scope::Public => "public",
            Scope::Vary(names) => {
                vary.extend(names.iter());
                "public"
            }
            _ => {
                vary.extend(["authorization", "cookie"]);
                vary.extend(credentials.iter().map(HeaderName::as_str));
                "private"
            }
        };
        if is_page {
            vary.push("accept");
        }
        let cache_control = format!("{whose}, {}", life(lifetime, caching));
        let no_cache = HeaderValue::from_static("no-cache");
        let mut told =
            vec![(CACHE_CONTROL, HeaderValue::try_from(cache_control).unwrap_or(no_cache))];
        let vary = HeaderValue::try_from(vary.join(", ")).ok().filter(|vary| !vary.is_empty());
        told.extend(vary.map(|vary| (VARY, vary)));
        Self { headers: told, is_private: whose == "private" }
    }

    /// What is told of an answer that has these its own headers, which stay, and comes from memory
    /// at this age; `None` for one that was computed just now. No header names a client
    /// certificate, so that a caller's reply to one who has it is never given again without asking.
    pub(crate) fn cache_headers(
        &self,
        own: &Headers,
        age: Option<Duration>,
        has_certificate: bool,
    ) -> HeaderMap {
        let mut told = HeaderMap::with_capacity(TOLD_HEADERS);
        for (name, value) in own.iter() {
            told.append(name, value.clone());
        }
        if has_certificate && self.is_private {
            told.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        }
        for (name, value) in &self.headers {
            told.entry(name).or_insert_with(|| value.clone());
        }
        told.entry(CACHE_STATUS).or_insert(if age.is_some() { HIT } else { STORED });
        if let Some(age) = age {
            told.entry(AGE).or_insert_with(|| match age.as_secs() {
                0 => HeaderValue::from_static("0"),
                seconds => HeaderValue::from(seconds),
            });
        }
        told
    }
}

/// What an answer is told of by, with its tag and its type: room for them makes the map once.
const TOLD_HEADERS: usize = 6;
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
const HIT: HeaderValue = HeaderValue::from_static("tidewire; hit");
const STORED: HeaderValue = HeaderValue::from_static("tidewire; fwd=miss; stored");

fn life(lifetime: Lifetime, caching: Caching) -> String {
    if lifetime == Lifetime::Immutable {
        return format!("max-age={}, immutable", YEAR.as_secs());
    }
    let Some(max_age) = caching.max_age else { return "no-cache".to_owned() };
    let mut text = format!("max-age={max_age}");
    for (name, seconds) in [
        ("stale-while-revalidate", caching.stale_while_revalidate),
        ("stale-if-error", caching.stale_if_error),
    ] {
        if let Some(seconds) = seconds {
            text.push_str(&format!(", {name}={seconds}"));
        }
    }
    text
}
