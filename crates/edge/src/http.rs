//! What caches of HTTP are told of an answer that is kept here too.
//!
//! | header | value | source |
//! |---|---|---|
//! | `cache-control` | `no-cache`: keep it and ask each time; `max-age`, `stale-while-revalidate`, `stale-if-error` where set; `immutable` where declared; `private` where a caller's | RFC 9111, 5861, 8246 |
//! | `vary` | what of the request the answer depends on | RFC 9110, section 12.5.5 |
//! | `age` | seconds since it was computed | RFC 9111, section 5.1 |
//! | `cache-status` | `tidewire; hit`, or `tidewire; fwd=miss; stored` | RFC 9211 |
//!
//! A header that the service set itself stays. The tag (`etag`) is made where the reply is written, of the
//! validator.

use std::time::Duration;

use http::HeaderValue;
use http::header::{CACHE_CONTROL, HeaderMap, HeaderName, VARY};
use tidewire_service::{Caching, Headers, Lifetime, Sharing};

/// The headers that are the same for all answers of a method.
#[derive(Debug)]
pub(crate) struct Rules(HeaderMap);

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
        sharing: &Sharing,
        lifetime: Lifetime,
        is_page: bool,
        caching: Caching,
    ) -> Self {
        let mut vary = Vec::new();
        let whose = match sharing {
            Sharing::Public => "public",
            Sharing::Vary(names) => {
                vary.extend(names.iter());
                "public"
            }
            _ => {
                vary.extend(["authorization", "cookie"]);
                "private"
            }
        };
        if is_page {
            vary.push("accept");
        }
        let cache_control = format!("{whose}, {}", life(lifetime, caching));
        let no_cache = HeaderValue::from_static("no-cache");
        let mut told = HeaderMap::new();
        told.insert(CACHE_CONTROL, HeaderValue::try_from(cache_control).unwrap_or(no_cache));
        if let Some(vary) = HeaderValue::try_from(vary.join(", ")).ok().filter(|it| !it.is_empty())
        {
            told.insert(VARY, vary);
        }
        told.insert(CACHE_STATUS, HIT);
        Self(told)
    }

    /// What is told of an answer from memory that has these headers of its own, which stay; its age is
    /// not among them.
    pub(crate) fn told(&self, own: &Headers) -> HeaderMap {
        let mut told = self.0.clone();
        if own.is_empty() {
            return told;
        }
        own.keys().for_each(|name| _ = told.remove(name));
        own.iter().for_each(|(name, value)| _ = told.append(name, value.clone()));
        told
    }
}

/// Says of an answer with the headers of one from memory that it was computed just now.
pub(crate) fn say_stored(headers: &mut HeaderMap) {
    if let Some(status) = headers.get_mut(CACHE_STATUS)
        && *status == HIT
    {
        *status = HeaderValue::from_static("tidewire; fwd=miss; stored");
    }
}

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
const HIT: HeaderValue = HeaderValue::from_static("tidewire; hit");

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
