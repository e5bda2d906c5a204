//! What caches of HTTP are told of an answer that is kept here too.
//!
//! | header | value | source |
//! |---|---|---|
//! | `cache-control` | `no-cache`: keep it and ask each time; `max-age`, `stale-while-revalidate`, `stale-if-error` where set; `immutable` where declared; `private` where a caller's, and where `VARY` and the caller is known | RFC 9111, 5861, 8246 |
//! | `vary` | what of the request the answer depends on | RFC 9110, section 12.5.5 |
//! | `age` | seconds since it was computed | RFC 9111, section 5.1 |
//! | `cache-status` | `tidewire; hit`, or `tidewire; fwd=miss; stored` | RFC 9211 |
//!
//! A header that the service set itself stays. The tag (`etag`) is made where the reply is written,
//! of the validator.

use std::time::Duration;

use http::HeaderValue;
use http::header::{AGE, CACHE_CONTROL, HeaderName, VARY};
use tidewire_service::{Caching, Headers, Lifetime, vary_by};

use crate::scope::Scope;
use crate::settings::Settings;

/// The headers that are the same for all answers of a method.
#[derive(Debug)]
pub(crate) struct Rules {
    headers: Vec<(HeaderName, HeaderValue)>,
    /// What is said of an answer from memory, of this second, that says nothing of it itself.
    hit: Headers,
    /// Whether replies are one caller's.
    is_private: bool,
    /// The headers in place of these for a caller that is known, of `VARY`: who else may have the
    /// reply is for the access rules to say, and no HTTP cache asks them.
    for_known: Option<Vec<(HeaderName, HeaderValue)>>,
}

/// What a method declares, as it decides the headers of its replies.
pub(crate) struct CacheDeclaration {
    pub(crate) lifetime: Lifetime,
    /// Whether they are of a plain HTTP handler.
    pub(crate) is_page: bool,
    pub(crate) caching: Caching,
}

/// How a caller showed who it is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Credentials {
    /// Whether it has shown a client certificate.
    pub(crate) has_certificate: bool,
    /// Whether it has a principal.
    pub(crate) is_known: bool,
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
    pub(crate) fn new(scope: &Scope, settings: &Settings, terms: CacheDeclaration) -> Self {
        let CacheDeclaration { lifetime, is_page, caching } = terms;
        let credentials = || {
            let usual = ["authorization", "cookie"].into_iter();
            usual.chain(settings.credential_headers.iter().map(HeaderName::as_str))
        };
        let accept = is_page.then_some("accept");
        let life = life(lifetime, caching);
        let private_life = if settings.certificates { NO_CACHE } else { &life };
        let private = |names: &mut dyn Iterator<Item = &str>| {
            headers(format!("private, {private_life}"), &mut names.chain(accept))
        };
        match scope {
            Scope::Public => {
                Self::of(headers(format!("public, {life}"), &mut accept.into_iter()), false, None)
            }
            Scope::Vary(names) => Self::of(
                headers(format!("public, {life}"), &mut names.iter().chain(accept)),
                false,
                Some(private(&mut names.iter().chain(credentials()))),
            ),
            _ => Self::of(private(&mut credentials()), true, None),
        }
    }

    fn of(
        headers: Vec<(HeaderName, HeaderValue)>,
        is_private: bool,
        for_known: Option<Vec<(HeaderName, HeaderValue)>>,
    ) -> Self {
        let of_memory = [(CACHE_STATUS, HIT), (AGE, HeaderValue::from_static("0"))];
        let mut hit = Headers::with_capacity(TOLD_HEADERS);
        hit.extend(headers.iter().cloned().chain(of_memory));
        Self { headers, hit, is_private, for_known }
    }

    /// The headers of an answer: `own`, and what HTTP caches are told. `age` is `None` for one that
    /// was computed just now. No header names a client certificate, so that a caller's reply to one
    /// who has it is never given again without asking.
    pub(crate) fn cache_headers(
        &self,
        own: &Headers,
        age: Option<Duration>,
        credentials: Credentials,
    ) -> Headers {
        let for_known = self.for_known.as_ref().filter(|_| credentials.is_known);
        let has_to_ask = credentials.has_certificate && (self.is_private || for_known.is_some());
        let is_usual = for_known.is_none() && !has_to_ask && !own.keys().any(is_told);
        if let Some(age) = age.filter(|_| is_usual) {
            let mut told = self.hit.clone();
            if age.as_secs() > 0 {
                told.insert(AGE, HeaderValue::from(age.as_secs()));
            }
            own.iter().for_each(|(name, value)| _ = told.append(name, value.clone()));
            return told;
        }
        let mut told = Headers::with_capacity(TOLD_HEADERS);
        for (name, value) in own.iter() {
            told.append(name, value.clone());
        }
        if has_to_ask {
            told.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        }
        for (name, value) in for_known.unwrap_or(&self.headers) {
            if name == VARY {
                // What the answer says itself takes away nothing of what is known.
                vary_by(&mut told, value);
            } else {
                told.entry(name).or_insert_with(|| value.clone());
            }
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

/// Whether a header is one of those that are added here.
fn is_told(name: &HeaderName) -> bool {
    [CACHE_CONTROL, VARY, AGE, CACHE_STATUS].contains(name)
}

/// The headers that are added here, the tag, the type, the length and one of the handler: room for
/// them allocates the map once.
const TOLD_HEADERS: usize = 8;
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
const HIT: HeaderValue = HeaderValue::from_static("tidewire; hit");
const STORED: HeaderValue = HeaderValue::from_static("tidewire; fwd=miss; stored");

/// Keep it, and ask each time.
const NO_CACHE: &str = "no-cache";

fn headers(
    cache_control: String,
    vary: &mut dyn Iterator<Item = &str>,
) -> Vec<(HeaderName, HeaderValue)> {
    let no_cache = HeaderValue::from_static(NO_CACHE);
    let mut told = vec![(CACHE_CONTROL, HeaderValue::try_from(cache_control).unwrap_or(no_cache))];
    let mut names = Vec::new();
    for name in vary {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let vary = HeaderValue::try_from(names.join(", ")).ok().filter(|vary| !vary.is_empty());
    told.extend(vary.map(|vary| (VARY, vary)));
    told
}

fn life(lifetime: Lifetime, caching: Caching) -> String {
    if lifetime == Lifetime::Immutable {
        return format!("max-age={}, immutable", YEAR.as_secs());
    }
    let Some(max_age) = caching.max_age else { return NO_CACHE.to_owned() };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_says_that_it_depends_on_does_not_take_away_what_is_known() {
        let names = headers("public, no-cache".to_owned(), &mut ["x-tenant", "accept"].into_iter());
        let rules = Rules::of(names, false, None);
        for (own, expected) in [
            (&[][..], "x-tenant, accept"),
            (&["cookie"][..], "cookie, x-tenant, accept"),
            (&["Accept", "cookie"], "Accept, cookie, x-tenant"),
            (&["*"], "*"),
        ] {
            let mut said = Headers::new();
            own.iter().for_each(|line| _ = said.append(VARY, HeaderValue::from_static(line)));
            let told = rules.cache_headers(&said, None, Credentials::default());
            let lines: Vec<_> = told.get_all(VARY).iter().collect();
            assert_eq!(lines, [expected], "{own:?}");
        }
    }
}
