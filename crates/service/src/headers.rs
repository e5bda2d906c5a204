//! Headers and trailers of answers: a map that takes no room while it is empty.
//!
//! Replies, errors and streams are moved many times on their way out, and most have no headers and
//! no their own trailers; so what they seldom hold is kept aside. Requests nearly always have
//! headers, which a [`Context`](crate::Context) holds as the [`HeaderMap`] that came.

use std::fmt::Display;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{Error, Result};

/// The headers or the trailers of an answer: a [`HeaderMap`], a pointer wide and empty without one.
///
/// ```
/// use tidewire_service::Headers;
/// let mut trailers = Headers::default();
/// assert!(trailers.is_empty());
/// trailers.insert("checksum", http::HeaderValue::from_static("1a2b"));
/// assert_eq!(trailers["checksum"], "1a2b");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Option<Box<HeaderMap>>);

impl Headers {
    /// The map by itself.
    #[inline]
    pub fn into_map(self) -> HeaderMap {
        self.0.map_or_else(HeaderMap::new, |map| *map)
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|map| map.is_empty())
    }
}

impl From<HeaderMap> for Headers {
    fn from(map: HeaderMap) -> Self {
        Self((!map.is_empty()).then(|| Box::new(map)))
    }
}

impl Deref for Headers {
    type Target = HeaderMap;

    fn deref(&self) -> &HeaderMap {
        static NONE: LazyLock<HeaderMap> = LazyLock::new(HeaderMap::new);
        self.0.as_deref().unwrap_or_else(|| &NONE)
    }
}

impl DerefMut for Headers {
    fn deref_mut(&mut self) -> &mut HeaderMap {
        self.0.get_or_insert_default()
    }
}

/// A header of what a program gives for its name and its value.
///
/// # Errors
/// [`Code::Internal`](crate::Code::Internal) where one of them cannot be that; it names the
/// header, and not the value, which may be a secret.
pub(crate) fn header<N, V>(name: N, value: V) -> Result<(HeaderName, HeaderValue)>
where
    N: TryInto<HeaderName, Error: Display>,
    V: TryInto<HeaderValue, Error: Display>,
{
    let name = name.try_into().map_err(|error| {
        let advice = "it is letters, digits and hyphens, as in x-request-id";
        Error::internal(format!("name of a header: {error}: {advice}"))
    })?;
    let value = value.try_into().map_err(|error| {
        let advice = "leave out line feeds and other control characters";
        Error::internal(format!("header {name}: {error}: {advice}"))
    })?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use crate::{Body, Call, Code, Context, Reply};
    use http::header::VIA;
    use http::{HeaderMap, HeaderValue, Method, Uri};

    fn all<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a HeaderValue> {
        headers.get_all(name).iter().collect()
    }

    #[test]
    fn set_replaces_and_append_adds_on_everything_that_has_headers() {
        let mut reply = Reply::new(());
        let mut call = Call::http(Method::GET, Uri::from_static("/"), Context::default(), "");
        let mut error = crate::Error::not_found("no such item");
        for value in ["a", "b"] {
            reply.set_header("X-Of", value).unwrap();
            call.set_header("x-of", value.to_owned()).unwrap();
            error.set_header("x-of", value).unwrap();
            reply.append_header(VIA, HeaderValue::from_static(value)).unwrap();
            call.append_header("via", value).unwrap();
            error.append_header("via", value).unwrap();
            reply.append_trailer("via", value).unwrap();
            reply.set_trailer("x-count", 7_u64).unwrap();
        }
        for headers in [&*reply.headers, call.context.headers(), error.headers()] {
            assert_eq!(all(headers, "x-of"), ["b"]);
            assert_eq!(all(headers, "via"), ["a", "b"]);
        }
        assert_eq!(all(&reply.trailers, "via"), ["a", "b"]);
        assert_eq!(all(&reply.trailers, "x-count"), ["7"]);
        let reply = reply.with_header("via", "c").unwrap().with_trailer("via", "d").unwrap();
        assert_eq!(all(&reply.headers, "via"), ["c"]);
        assert_eq!(all(&reply.trailers, "via"), ["d"]);
        assert_eq!(Context::default().with_header("via", "e").unwrap().header("Via").unwrap(), "e");
    }

    #[test]
    fn what_is_no_header_is_an_error_that_names_it_and_hides_its_value() {
        let mut reply = Reply::new(Body::Empty);
        let error = reply.set_header("x-place", "secret\r\nset-cookie: a=b").unwrap_err();
        assert_eq!(error.code(), Code::Internal);
        assert!(error.message().starts_with("header x-place: "), "{error}");
        assert!(error.message().contains("line feeds") && !error.message().contains("secret"));
        let error = reply.append_header("x place", "a").unwrap_err();
        assert!(error.message().starts_with("name of a header: "), "{error}");
        assert!(reply.headers.is_empty());
    }
}
