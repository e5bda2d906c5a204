//! What `Cache-Control` says (RFC 9111, section 5.2), of a request or a response, and
//! `CDN-Cache-Control` (RFC 9213).
//!
//! A directive that is there twice counts as it was said first (section 4.2.1). A number of seconds
//! that is not one makes a response stale at once: that is what its author is least surprised by.

use std::time::Duration;

use http::header::{CACHE_CONTROL, PRAGMA};
use http::{HeaderName, HeaderValue};
use tidewire_service::Headers;

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
    /// A part that cannot be read names `private`, `no-store` or `no-cache`.
    pub(crate) hints_at_one: bool,
    /// They are those of `CDN-Cache-Control`, beside which `Expires` counts for nothing.
    pub(crate) is_targeted: bool,
}

impl Directives {
    /// Those of a request; `Pragma: no-cache` is that of HTTP/1.0.
    pub(crate) fn of_request(headers: &Headers) -> Self {
        if headers.contains_key(CACHE_CONTROL) {
            return Self::of_values(headers.get_all(CACHE_CONTROL));
        }
        let mut directives = Self::default();
        if headers.contains_key(PRAGMA) {
            let pragmas = headers.get_all(PRAGMA).iter().filter_map(|value| value.to_str().ok());
            let mut words = pragmas.flat_map(|value| value.split(','));
            directives.no_cache |= words.any(|word| word.trim().eq_ignore_ascii_case("no-cache"));
        }
        directives
    }

    /// Those of a response, of which the targeted ones count if they can be read. If not, the
    /// response is for one caller if they name that at all, as it is if what cannot be read of
    /// `Cache-Control` does.
    pub(crate) fn of_response(headers: &Headers) -> Self {
        targeted(headers).unwrap_or_else(|| {
            let mut directives = Self::of_values(headers.get_all(CACHE_CONTROL));
            let values = headers.get_all(TARGETED).iter();
            directives.private |= directives.hints_at_one;
            directives.private |= values.map(HeaderValue::as_bytes).any(restricts);
            directives
        })
    }

    fn of_values<'a>(values: impl IntoIterator<Item = &'a HeaderValue>) -> Self {
        let mut directives = Self::default();
        for value in values {
            for item in items(&value.as_bytes().escape_ascii_lossy()) {
                directives.hints_at_one |= !is_directive(&item) && restricts(item.as_bytes());
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
    /// That of a response with these values of `Cache-Control`.
    pub fn of_values<'a>(values: impl IntoIterator<Item = &'a HeaderValue>) -> Self {
        let said = Directives::of_values(values);
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

const TARGETED: HeaderName = HeaderName::from_static("cdn-cache-control");

/// What `CDN-Cache-Control` says, if it is there, can be read, and says anything: a dictionary of
/// structured fields (RFC 8941), whose types have to be right.
fn targeted(headers: &Headers) -> Option<Directives> {
    if !headers.contains_key(TARGETED) {
        return None;
    }
    let values = headers.get_all(TARGETED).iter();
    let values: Option<Vec<_>> = values.map(|value| value.to_str().ok()).collect();
    let text = values.filter(|values| !values.is_empty())?.join(",");
    let mut directives = Directives { is_targeted: true, ..Directives::default() };
    for item in items(&text) {
        let (key, rest) = item.split_at(item.find(['=', ';']).unwrap_or(item.len()));
        let value = rest.strip_prefix('=').map(without_parameters);
        let parameters = &rest[value.map_or(0, |value| 1 + value.len())..];
        (is_key(key) && are_parameters(parameters)).then_some(())?;
        if let Some(place) = directives.of_seconds(key) {
            let number = value.filter(|it| !it.is_empty() && it.len() <= 15)?;
            if !number.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            // Of a key that is there twice the last one counts.
            *place = Some(seconds(number));
            continue;
        }
        match value {
            None | Some("?1") => directives.take(key, None),
            Some("?0") => {}
            Some(value) => {
                let is_text = value.starts_with('"');
                // Those may name fields, and nothing else.
                if !is_bare_item(value) || !is_text && RESTRICTIONS.contains(&key) {
                    return None;
                }
                directives.take(key, Some(&unquoted(value)));
            }
        }
    }
    Some(directives)
}

/// By which a response is for one caller, or not to be given again without asking.
const RESTRICTIONS: [&str; 3] = ["private", "no-store", "no-cache"];

/// Whether any word of a value is one of those, wherever it stands.
fn restricts(value: &[u8]) -> bool {
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let mut words = value.split(|byte| !is_of_word(byte));
    words.any(|word| RESTRICTIONS.iter().any(|it| word.eq_ignore_ascii_case(it.as_bytes())))
}

/// Whether it is a directive (RFC 9111, section 5.2): a token, which may have a value. A name in
/// single quotation marks is a token, and not meant as one.
fn is_directive(item: &str) -> bool {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&*+-.^_`|~".contains(&byte);
    let is_token = |text: &str| !text.is_empty() && text.bytes().all(is_of_token);
    let Some((name, value)) = item.split_once('=') else { return is_token(item) };
    is_token(name) && (is_token(value) || value.starts_with('"') && is_text(value))
}

fn is_key(key: &str) -> bool {
    let is_of_key = |(at, byte): (usize, u8)| match byte {
        b'a'..=b'z' | b'*' => true,
        b'0'..=b'9' | b'_' | b'-' | b'.' => at > 0,
        _ => false,
    };
    !key.is_empty() && key.bytes().enumerate().all(is_of_key)
}

/// A value without what follows it behind a semicolon that is in no text and no list.
fn without_parameters(text: &str) -> &str {
    let mut is_quoted = false;
    let mut is_escaped = false;
    let mut is_list = false;
    let end = text.bytes().position(|byte| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match byte {
            b'"' if !was_escaped => is_quoted = !is_quoted,
            b'\\' if is_quoted && !was_escaped => is_escaped = true,
            b'(' | b')' if !is_quoted => is_list = byte == b'(',
            _ => {}
        }
        byte == b';' && !is_quoted && !is_list
    });
    &text[..end.unwrap_or(text.len())]
}

/// Whether all of it is parameters, each of which begins with a semicolon.
fn are_parameters(text: &str) -> bool {
    let mut rest = text;
    while let Some(parameter) = rest.strip_prefix(';') {
        let parameter = parameter.trim_start_matches(' ');
        let this = without_parameters(parameter);
        let is_right = match this.split_once('=') {
            Some((key, value)) => {
                is_key(key) && (is_bare_item(value) || matches!(value, "?0" | "?1"))
            }
            None => is_key(this),
        };
        if !is_right {
            return false;
        }
        rest = &parameter[this.len()..];
    }
    rest.is_empty()
}

/// Whether it may be the value of a key that is not known.
fn is_bare_item(value: &str) -> bool {
    let (Some(first), Some(last)) = (value.bytes().next(), value.bytes().last()) else {
        return false;
    };
    let is_of_token =
        |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte);
    match first {
        b'"' => is_text(value),
        b'(' => last == b')' && !value[1..value.len() - 1].contains(['(', ')']),
        b':' => value.len() > 1 && last == b':' && !value.contains(' '),
        b'?' => false,
        _ => is_of_token(first) && value.bytes().all(is_of_token),
    }
}

/// Whether a quotation is all of it, and ends.
fn is_text(value: &str) -> bool {
    let mut is_escaped = false;
    let end = value.bytes().skip(1).position(|byte| {
        let was_escaped = std::mem::take(&mut is_escaped);
        is_escaped = byte == b'\\' && !was_escaped;
        byte == b'"' && !was_escaped
    });
    end.is_some_and(|end| end + 2 == value.len())
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn of(name: &'static str, value: &str) -> Directives {
        let value = HeaderValue::from_str(value).unwrap();
        Directives::of_response(&Headers::from_iter([(HeaderName::from_static(name), value)]))
    }

    #[test]
    fn what_cannot_be_read_and_names_private_makes_private() {
        for text in [
            "private; max-age=3600",
            "max-age=60; private",
            "no-store; no-cache",
            "no-cache no-store",
            "private max-age=60",
            "max-age=60, private;",
            "max-age=60, no-store max-age=0",
            "private:",
            "'private'",
            "\"private\"",
            "max-age=60, private =",
        ] {
            assert!(of("cache-control", text).private, "{text}");
            let said = Audience::of_values([&HeaderValue::from_static(text)]);
            assert!(!said.is_one, "{text}: others may read it otherwise");
        }
        for text in [
            "max-age=60; x=y",
            "public; max-age=60",
            "x=\"a, no-store, b\", max-age=60",
            "x=private, max-age=60",
            "max-age= 60",
            "x-private",
            "max-age=\"60\"",
            "no-cache=\"a, b\"",
        ] {
            assert!(!of("cache-control", text).private, "{text}");
        }
        for text in ["max-age=60;", "max-age=60;;a", "max-age=60;A", "max-age=60;a=", "public;"] {
            let headers = Headers::from_iter([
                (CACHE_CONTROL, HeaderValue::from_static("private")),
                (TARGETED, HeaderValue::from_str(text).unwrap()),
            ]);
            assert!(Directives::of_response(&headers).private, "{text}");
        }
        for text in ["max-age=60;a", "max-age=60; a=1;b=\"x;y\";c=?1"] {
            assert_eq!(
                of("cdn-cache-control", text).max_age,
                Some(Duration::from_secs(60)),
                "{text}"
            );
        }
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
            let mut headers = Headers::new();
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

    #[test]
    fn what_is_for_cdns_keeps_a_page_private_also_where_it_cannot_be_read() {
        let is_kept = |targeted: &[u8]| {
            let mut headers = Headers::new();
            headers.append("cdn-cache-control", HeaderValue::from_bytes(targeted).unwrap());
            let usual = HeaderValue::from_static("public, max-age=60, no-store, must-understand");
            headers.insert(CACHE_CONTROL, usual);
            !Directives::of_response(&headers).private
        };
        for text in [
            "Private",
            "NO-STORE",
            "No-Cache, max-age=60",
            "s-maxage=\"60\", private",
            "private, max-age=5.0",
            "private;a=b",
            "max-age=60, private;a=\"b\"",
            "max-age=60 private",
            "x=y private",
            "x=\"y, private",
            "private=1",
            "x=(a) private)",
            "no-cache=set-cookie",
            "&&&, no-store",
        ] {
            assert!(!is_kept(text.as_bytes()), "{text}");
        }
        assert!(!is_kept(b"x=\xff, private"));
        for text in [
            "Max-Age=5",
            "s-maxage=\"60\"",
            "&&&",
            "x-private, &&&",
            "x=(a \"private, b\");c, y=:cHJpdmF0ZQ==:, z=*/private, max-age=60",
        ] {
            assert!(is_kept(text.as_bytes()), "{text}");
        }
    }
}
