//! Headers and trailers of answers: a map that takes no room while it is empty.
//!
//! Replies, errors and streams are moved many times on their way out, and most have no headers and
//! no their own trailers; so what they seldom hold is kept aside. Requests nearly always have
//! headers, which a [`Context`](crate::Context) holds as the [`HeaderMap`] that came.

use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use http::HeaderMap;

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
