//! Headers and trailers of answers, which take no room while there are none.
//!
//! Replies, errors and frames are moved many times on their way out, and most have no headers and
//! no trailers. So these are kept aside, behind a pointer that is there only if there are any.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{Headers, HeadersIntoIter, HeadersIter};

/// [`Headers`] that are one pointer wide; all of their methods are here, too.
///
/// ```
/// use tidewire_service::{Headers, Reply};
///
/// let mut reply = Reply::text("hello");
/// reply.headers.insert("checksum", http::HeaderValue::from_static("1a2b"));
/// assert_eq!(reply.headers["checksum"], "1a2b");
/// let headers: Headers = reply.headers.into();
/// assert_eq!(headers.len(), 2);
/// ```
#[derive(Clone, Default)]
pub struct ThinHeaders(Option<Box<Headers>>);

impl ThinHeaders {
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|headers| headers.is_empty())
    }
}

impl Deref for ThinHeaders {
    type Target = Headers;

    #[inline]
    fn deref(&self) -> &Headers {
        static NONE: LazyLock<Headers> = LazyLock::new(Headers::new);
        self.0.as_deref().unwrap_or_else(|| &NONE)
    }
}

impl DerefMut for ThinHeaders {
    #[inline]
    fn deref_mut(&mut self) -> &mut Headers {
        self.0.get_or_insert_default()
    }
}

impl PartialEq for ThinHeaders {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for ThinHeaders {}

impl fmt::Debug for ThinHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl From<Headers> for ThinHeaders {
    #[inline]
    fn from(headers: Headers) -> Self {
        Self((!headers.is_empty()).then(|| Box::new(headers)))
    }
}

impl From<ThinHeaders> for Headers {
    #[inline]
    fn from(headers: ThinHeaders) -> Self {
        headers.0.map_or_else(Self::new, |headers| *headers)
    }
}

impl From<HeaderMap> for ThinHeaders {
    #[inline]
    fn from(map: HeaderMap) -> Self {
        Headers::from(map).into()
    }
}

impl From<ThinHeaders> for HeaderMap {
    #[inline]
    fn from(headers: ThinHeaders) -> Self {
        Headers::from(headers).into()
    }
}

impl FromIterator<(HeaderName, HeaderValue)> for ThinHeaders {
    fn from_iter<I: IntoIterator<Item = (HeaderName, HeaderValue)>>(headers: I) -> Self {
        Headers::from_iter(headers).into()
    }
}

impl IntoIterator for ThinHeaders {
    type Item = (Option<HeaderName>, HeaderValue);
    type IntoIter = HeadersIntoIter;

    fn into_iter(self) -> HeadersIntoIter {
        Headers::from(self).into_iter()
    }
}

impl<'a> IntoIterator for &'a ThinHeaders {
    type Item = (&'a HeaderName, &'a HeaderValue);
    type IntoIter = HeadersIter<'a>;

    fn into_iter(self) -> HeadersIter<'a> {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frame, Reply};

    /// Replies and frames are moved often: what they seldom have adds no more than pointers.
    #[test]
    fn headers_are_a_pointer_wide_where_there_are_seldom_any() {
        assert_eq!(size_of::<ThinHeaders>(), size_of::<usize>());
        assert_eq!(size_of::<Headers>(), size_of::<HeaderMap>());
        assert!(size_of::<Frame>() <= 5 * size_of::<usize>());
        assert!(size_of::<Reply<()>>() < size_of::<Headers>() * 2);
    }

    #[test]
    fn what_is_empty_again_equals_what_never_had_any() {
        let mut headers = ThinHeaders::default();
        headers.insert("a", HeaderValue::from_static("b"));
        assert_eq!(headers.iter().count(), 1);
        headers.clear();
        assert!(headers.is_empty());
        assert_eq!(headers, ThinHeaders::default());
    }
}
