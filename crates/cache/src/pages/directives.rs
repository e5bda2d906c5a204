//! What `Cache-Control` says (RFC 9111, section 5.2), of a request or a response, and
//! `CDN-Cache-Control` (RFC 9213).
//!
//! A directive that is there twice counts as it was said first (section 4.2.1). A number of seconds
//! that is not one makes a response stale at once: that is what its author is least surprised by.

use std::time::Duration;

use http::HeaderMap;
use http::header::{CACHE_CONTROL, PRAGMA};

/// Directives, of a request or a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Directives {
    pub(crate) no_store: bool,
    pub(crate) no_cache: bool,
    /// Fields that `no-cache` or `private` names: they are not given again.
    pub(crate) omitted: Vec<String>,
    pub(crate) private: bool,
    pub(crate) public: bool,
    pub(crate) must_revalidate: bool,
    pub(crate) proxy_revalidate: bool,
    pub(crate) must_understand: bool,
    pub(crate) only_if_cached: bool,
    pub(crate) max_age: Option<Duration>,
    pub(crate) s_maxage: Option<Duration>,
    pub(crate) min_fresh: Option<Duration>,
    /// `max-stale` without a value is any.
    pub(crate) max_stale: Option<Duration>,
    pub(crate) stale_while_revalidate: Option<Duration>,
    pub(crate) stale_if_error: Option<Duration>,
    /// They are those of `CDN-Cache-Control`, beside which `Expires` counts for nothing.
    pub(crate) is_targeted: bool,
}

impl Directives {
    /// Those of a request; `Pragma: no-cache` is that of HTTP/1.0.
    pub(crate) fn of_request(headers: &HeaderMap) -> Self {
        let mut directives = Self::of_field(headers);
        if !headers.contains_key(CACHE_CONTROL) {
            let pragmas = headers.get_all(PRAGMA).iter().filter_map(|value| value.to_str().ok());
            let mut words = pragmas.flat_map(|value| value.split(','));
            directives.no_cache |= words.any(|word| word.trim().eq_ignore_ascii_case("no-cache"));
        }
        directives
    }

    /// Those of a response, of which the targeted ones count if they can be read.
    pub(crate) fn of_response(headers: &HeaderMap) -> Self {
        targeted(headers).unwrap_or_else(|| Self::of_field(headers))
    }

    fn of_field(headers: &HeaderMap) -> Self {
        let mut directives = Self::default();
        for value in headers.get_all(CACHE_CONTROL) {
            for item in items(&value.as_bytes().escape_ascii_lossy()) {
                let (name, value) = match item.split_once('=') {
                    Some((name, value)) => (name, Some(unquoted(value))),
                    None => (item.as_str(), None),
                };
                directives.take(&name.to_ascii_lowercase(), value.as_deref());
            }
        }
        directives
    }

    fn take(&mut self, name: &str, value: Option<&str>) {
        let fields = |value: &str| -> Vec<String> {
            value.split(',').map(|name| name.trim().to_ascii_lowercase()).collect()
        };
        match (name, value) {
            ("no-store", _) => self.no_store = true,
            ("no-cache", Some(names)) if !names.is_empty() => self.omitted.extend(fields(names)),
            ("no-cache", _) => self.no_cache = true,
            ("private", Some(names)) if !names.is_empty() => self.omitted.extend(fields(names)),
            ("private", _) => self.private = true,
            ("public", _) => self.public = true,
            ("must-revalidate", _) => self.must_revalidate = true,
            ("proxy-revalidate", _) => self.proxy_revalidate = true,
            ("must-understand", _) => self.must_understand = true,
            ("only-if-cached", _) => self.only_if_cached = true,
            ("max-stale", None) => self.max_stale = Some(Duration::MAX),
            (_, Some(value)) => {
                let seconds = seconds(value);
                if let Some(place) = self.of_seconds(name) {
                    place.get_or_insert(seconds);
                }
            }
            // A directive without the value that it needs says that something was meant.
            ("max-age" | "s-maxage", None) => {
                if let Some(place) = self.of_seconds(name) {
                    place.get_or_insert(Duration::ZERO);
                }
            }
            _ => {}
        }
    }

    fn of_seconds(&mut self, name: &str) -> Option<&mut Option<Duration>> {
        Some(match name {
            "max-age" => &mut self.max_age,
            "s-maxage" => &mut self.s_maxage,
            "min-fresh" => &mut self.min_fresh,
            "max-stale" => &mut self.max_stale,
            "stale-while-revalidate" => &mut self.stale_while_revalidate,
            "stale-if-error" => &mut self.stale_if_error,
            _ => return None,
        })
    }
}

/// Whom a response is for by its `Cache-Control`, which is read as the page cache reads it. What
/// `CDN-Cache-Control` says does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audience {
    /// It is `public`.
    pub is_all: bool,
    /// It is `private`, all of it and not some fields, or `no-store`, which counts for nothing
    /// beside `must-understand`.
    pub is_one: bool,
    /// It is `s-maxage` or `must-revalidate`: a shared cache may keep it although its request had
    /// `Authorization` (RFC 9111, section 3.5).
    pub is_shared: bool,
}

impl Audience {
    /// That of a response with these headers.
    pub fn of_response(headers: &HeaderMap) -> Self {
        let said = Directives::of_field(headers);
        Self {
            is_all: said.public,
            is_one: said.private || said.no_store && !said.must_understand,
            is_shared: said.s_maxage.is_some() || said.must_revalidate,
        }
    }
}

/// Seconds as they are written in a directive, no more than there are in 68 years (section 1.2.2).
fn seconds(value: &str) -> Duration {
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = if is_number { value.parse().unwrap_or(SECONDS_MAX) } else { 0 };
    Duration::from_secs(seconds.min(SECONDS_MAX))
}

const SECONDS_MAX: u64 = 1 << 31;

/// The items of a list, of which those in quotation marks may have commas.
fn items(text: &str) -> Vec<String> {
    let mut items = Vec::new();
    let mut item = String::new();
    let mut is_quoted = false;
    let mut is_escaped = false;
    for sign in text.chars() {
        match sign {
            ',' if !is_quoted => items.push(std::mem::take(&mut item)),
            _ => {
                match sign {
                    '"' if !is_escaped => is_quoted = !is_quoted,
                    _ => {}
                }
                is_escaped = is_quoted && sign == '\\' && !is_escaped;
                item.push(sign);
            }
        }
    }
    items.push(item);
    let items = items.into_iter().map(|item| item.trim().to_owned());
    items.filter(|item| !item.is_empty()).collect()
}

fn unquoted(value: &str) -> String {
    let inside = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    inside.map_or_else(|| value.to_owned(), |inside| inside.replace('\\', ""))
}

/// Bytes as text, in which `?` stands for each that is not ASCII.
trait Lossy {
    fn escape_ascii_lossy(&self) -> String;
}

impl Lossy for [u8] {
    fn escape_ascii_lossy(&self) -> String {
        self.iter().map(|byte| if byte.is_ascii() { char::from(*byte) } else { '?' }).collect()
    }
}

/// What `CDN-Cache-Control` says, if it is there, can be read, and says anything: a dictionary of
/// structured fields (RFC 8941), whose types have to be right.
fn targeted(headers: &HeaderMap) -> Option<Directives> {
    let values = headers.get_all("cdn-cache-control").iter();
    let values: Option<Vec<_>> = values.map(|value| value.to_str().ok()).collect();
    let text = values.filter(|values| !values.is_empty())?.join(",");
    let mut directives = Directives { is_targeted: true, ..Directives::default() };
    for item in items(&text) {
        let (key, value) = item.split_once('=').map_or((&*item, None), |(k, v)| (k, Some(v)));
        let (key, value) = match value {
            None => (without_parameters(key), None),
            Some(value) => (key, Some(without_parameters(value))),
        };
        let is_key = |(at, byte): (usize, u8)| match byte {
            b'a'..=b'z' | b'*' => true,
            b'0'..=b'9' | b'_' | b'-' | b'.' => at > 0,
            _ => false,
        };
        if key.is_empty() || !key.bytes().enumerate().all(is_key) {
            return None;
        }
        let mut fresh = directives.clone();
        if fresh.of_seconds(key).is_some() {
            let number = value.filter(|it| !it.is_empty() && it.len() <= 15)?;
            if !number.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            // Of a key that is there twice the last one counts.
            if let Some(place) = directives.of_seconds(key) {
                *place = Some(seconds(number));
            }
            continue;
        }
        match value {
            None | Some("?1") => directives.take(key, None),
            Some("?0") => {}
            Some(value) => {
                is_bare_item(value).then_some(())?;
                directives.take(key, Some(&unquoted(value)));
            }
        }
    }
    Some(directives)
}

fn without_parameters(text: &str) -> &str {
    let is_text = text.starts_with('"');
    if is_text { text } else { text.split(';').next().unwrap_or(text).trim_end() }
}

/// Whether it may be the value of a key that is not known.
fn is_bare_item(value: &str) -> bool {
    let first = value.bytes().next();
    first.is_some_and(|it| it.is_ascii_alphanumeric() || b"\"-*:(?".contains(&it))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn of(name: &'static str, value: &str) -> Directives {
        let value = HeaderValue::from_str(value).unwrap();
        Directives::of_response(&HeaderMap::from_iter([(HeaderName::from_static(name), value)]))
    }

    #[test]
    fn numbers_are_read_as_they_are_meant_or_make_stale() {
        for (text, expected) in [
            ("max-age=3600", Some(3600)),
            ("MaX-aGe=3600", Some(3600)),
            ("max-age=\"3600\"", Some(3600)),
            ("max-age=003600", Some(3600)),
            ("max-age=99999999999999999999", Some(1 << 31)),
            ("max-age=1800, max-age=1", Some(1800)),
            ("extension=\"max-age=3600\", max-age=1", Some(1)),
            ("max-age=1, extension=\"max-age=3600\"", Some(1)),
            ("a=\"\\\"max-age=7, \", max-age=1", Some(1)),
            ("max-age='3600'", Some(0)),
            ("max-age=-1", Some(0)),
            ("max-age=3600.5", Some(0)),
            ("max-age= 3600", Some(0)),
            ("max-age", Some(0)),
            ("max-age =3600", None),
            ("foo", None),
        ] {
            let found = of("cache-control", text).max_age.map(|age| age.as_secs());
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn names_in_quotes_are_fields_and_not_directives() {
        let directives = of("cache-control", "no-cache=\"Set-Cookie, b\", private=\"c\"");
        assert_eq!(directives.omitted, ["set-cookie", "b", "c"]);
        assert!(!directives.no_cache && !directives.private);
        let directives = of("cache-control", "No-CaChE, PRIVATE");
        assert!(directives.no_cache && directives.private);
    }

    #[test]
    fn what_is_for_cdns_counts_if_it_can_be_read() {
        let both = |targeted: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("cdn-cache-control", HeaderValue::from_str(targeted).unwrap());
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            Directives::of_response(&headers)
        };
        for (text, expected) in [
            ("max-age=10000", Some(10000)),
            ("foobar, max-age=60;a=b", Some(60)),
            ("max-age=10000, &&&&&", None),
            ("max-age=\"10000\"", None),
            ("max-age=1.5", None),
            ("Max-Age=10000", None),
        ] {
            let directives = both(text);
            assert_eq!(directives.max_age.map(|age| age.as_secs()), expected, "{text}");
            assert_eq!(directives.no_store, expected.is_none(), "{text}");
        }
    }
}
