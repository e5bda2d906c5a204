//! Whether a response is stored (RFC 9111, section 3), and how long it is fresh (section 4.2).
//!
//! | a response is stored if | because |
//! |---|---|
//! | it answers a `GET`, with a status other than 304 | that one is of a page that is stored |
//! | with 206 it is one part, which was asked for | it is given for the same `Range` again; parts are not put together |
//! | it is not `no-store`, nor its request; not `private` | section 3 |
//! | its `Vary` is not `*` | no request would ever match |
//! | its caller is nobody, or it is `public`, `s-maxage` or `must-revalidate` | section 3.5 |
//! | it sets no cookie, unless that is asked for | a cookie is somebody's |
//! | it is fresh for a while, or can be validated | else it would never be used |

use std::time::{Duration, SystemTime};

use http::StatusCode;
use http::header::{AGE, CONTENT_RANGE, DATE, ETAG, EXPIRES, LAST_MODIFIED, SET_COOKIE, VARY};
use tidewire_service::Headers;

use super::directives::Directives;
use super::settings::PageSettings;

/// How a stored response may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Policy {
    /// How old it was when it arrived.
    pub(crate) age: Duration,
    pub(crate) lifetime: Duration,
    /// It is not used without validation.
    pub(crate) must_validate: bool,
    /// It is not used once it is stale, whatever its caller says.
    pub(crate) never_stale: bool,
    pub(crate) stale_while_revalidate: Duration,
    pub(crate) stale_if_error: Duration,
    /// The same while its service cannot be reached.
    pub(crate) stale_if_unreachable: Duration,
    /// It is everybody's, known or not.
    pub(crate) is_public: bool,
    /// Fields that are not given again.
    pub(crate) omitted: Vec<String>,
}

/// When a response came, and what its request was like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) wall: SystemTime,
    /// How long it took.
    pub(crate) delay: Duration,
    pub(crate) is_credentialed: bool,
    pub(crate) is_no_store: bool,
    /// A part was asked for.
    pub(crate) is_range: bool,
}

impl Policy {
    /// The policy of a response to a `GET`; `None` if it must not be stored, or is of no use.
    pub(crate) fn of(
        status: StatusCode,
        headers: &Headers,
        arrival: Arrival,
        settings: &PageSettings,
    ) -> Option<Self> {
        let directives = Directives::of_response(headers);
        let is_understood = directives.must_understand && is_known(status);
        let is_final = status.as_u16() >= 200
            && status != StatusCode::NOT_MODIFIED
            && (status != StatusCode::PARTIAL_CONTENT || arrival.is_range && is_one_part(headers));
        if !is_final
            || is_of_request(status)
            || arrival.is_no_store
            || directives.no_store && !is_understood
            || directives.must_understand && !is_known(status)
            || directives.private
            || varies_on_all(headers)
            || headers.contains_key(SET_COOKIE)
                && !settings.set_cookie
                && !directives.omitted.iter().any(|name| name == SET_COOKIE.as_str())
        {
            return None;
        }
        let is_for_known =
            directives.public || directives.s_maxage.is_some() || directives.must_revalidate;
        if arrival.is_credentialed && !is_for_known {
            return None;
        }
        let lifetime = lifetime(status, headers, &directives, arrival.wall, settings)?;
        let stale_if_error = directives.stale_if_error.or(settings.stale_if_error);
        let refuses_stale = directives.must_revalidate || directives.proxy_revalidate;
        let never_stale = refuses_stale || directives.s_maxage.is_some();
        let policy = Self {
            age: initial_age(headers, arrival),
            lifetime,
            must_validate: directives.no_cache,
            never_stale,
            stale_while_revalidate: directives
                .stale_while_revalidate
                .filter(|_| !refuses_stale && !directives.no_cache)
                .unwrap_or_default(),
            stale_if_error: stale_if_error
                .filter(|_| !refuses_stale && !directives.no_cache)
                .unwrap_or_default(),
            stale_if_unreachable: match stale_if_error {
                None if !never_stale && !directives.no_cache => settings.stale_if_unreachable,
                _ => Duration::ZERO,
            },
            is_public: directives.public,
            omitted: directives.omitted,
        };
        let can_be_validated = headers.contains_key(ETAG) || headers.contains_key(LAST_MODIFIED);
        let is_of_use = can_be_validated || !policy.must_validate && !lifetime.is_zero();
        is_of_use.then_some(policy)
    }
}

/// Whether a response says itself how long it is fresh.
pub(crate) fn is_explicit(headers: &Headers) -> bool {
    let directives = Directives::of_response(headers);
    let has_age = directives.s_maxage.or(directives.max_age).is_some();
    has_age || headers.contains_key(EXPIRES) && !directives.is_targeted
}

/// How long a response is fresh, by the first that is said; `None` if it may not be stored at all,
/// since nothing is said and its status says nothing about the next request.
fn lifetime(
    status: StatusCode,
    headers: &Headers,
    directives: &Directives,
    wall: SystemTime,
    settings: &PageSettings,
) -> Option<Duration> {
    if let Some(seconds) = directives.s_maxage.or(directives.max_age) {
        return Some(seconds);
    }
    let date = date(headers, DATE.as_str()).unwrap_or(wall);
    if headers.contains_key(EXPIRES) && !directives.is_targeted {
        let expires = self::date(headers, EXPIRES.as_str());
        let life = expires.and_then(|expires| expires.duration_since(date).ok());
        return Some(life.unwrap_or_default());
    }
    let is_heuristic = directives.public || is_heuristically_cacheable(status);
    if !is_heuristic {
        return directives.no_cache.then_some(Duration::ZERO);
    }
    let modified = self::date(headers, LAST_MODIFIED.as_str());
    let age = modified.and_then(|modified| date.duration_since(modified).ok());
    Some((age.unwrap_or_default() / 10).min(settings.heuristic_max))
}

/// Section 4.2.3. Of several ages the first counts (section 5.1), and what is not a
/// number is ignored.
fn initial_age(headers: &Headers, arrival: Arrival) -> Duration {
    let date = date(headers, DATE.as_str());
    let apparent = date.and_then(|date| arrival.wall.duration_since(date).ok());
    let said = headers.get(AGE).and_then(|age| age.to_str().ok()?.split(',').next());
    let said = said.map(str::trim).filter(|age| age.bytes().all(|byte| byte.is_ascii_digit()));
    let said = said.filter(|age| !age.is_empty());
    let said = said.map_or(0, |age| age.parse::<u64>().unwrap_or(1 << 31).min(1 << 31));
    let corrected = Duration::from_secs(said) + arrival.delay;
    corrected.max(apparent.unwrap_or_default())
}

/// The date in a header; of several the first.
pub(crate) fn date(headers: &Headers, name: &str) -> Option<SystemTime> {
    super::date::parse(headers.get(name)?.to_str().ok()?)
}

/// Whether a page depends on more than a request says: on anything, or on what the gateway tells of
/// the caller, such as `Tidewire-Principal`, which no request can have.
fn varies_on_all(headers: &Headers) -> bool {
    let values = headers.get_all(VARY).iter();
    let is_told = |name: &[u8]| {
        name.get(..GATEWAY_PREFIX.len()).is_some_and(|it| it.eq_ignore_ascii_case(GATEWAY_PREFIX))
    };
    values
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .any(|name| name == b"*" || is_told(name))
}

/// What the names of headers begin with that only the gateway can set.
const GATEWAY_PREFIX: &[u8] = b"tidewire-";

/// Whether a status is about how this request was made, by what is not in the key of a page: its
/// conditions and range, its length and its headers. Another caller would be given its mistake.
/// A target that is too long (414) is in the key.
fn is_of_request(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 408 | 411..=413 | 415..=417 | 421 | 429 | 431)
}

/// Whether a response with 206 is one part of its page, and not several in one body.
fn is_one_part(headers: &Headers) -> bool {
    let mut ranges = headers.get_all(CONTENT_RANGE).iter();
    let first = ranges.next().is_some_and(|range| range.as_bytes().starts_with(b"bytes "));
    first && ranges.next().is_none()
}

/// RFC 9110, section 15.1.
fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// Whether what a cache has to do for the status is known here: those of RFC 9110.
fn is_known(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200..=206 | 300..=303 | 305 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 500..=505
    )
}

/// Whether a response is a failure, instead of which an older one may be used (RFC 5861, section
/// 4).
pub(super) fn is_failure(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502..=504)
}
