//! What goes after a body: a map of headers that is nearly always empty, and then a pointer wide.
//!
//! A reply is moved many times on its way out, so what it seldom holds is kept aside.

use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use http::HeaderMap;

/// The trailers of a reply: a [`HeaderMap`] that takes no room while it is empty.
///
/// ```
/// use tidewire_service::Trailers;
/// let mut trailers = Trailers::default();
/// assert!(trailers.is_empty());
/// trailers.insert("checksum", http::HeaderValue::from_static("1a2b"));
/// assert_eq!(trailers["checksum"], "1a2b");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Trailers(Option<Box<HeaderMap>>);

impl Trailers {
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

impl From<HeaderMap> for Trailers {
    fn from(map: HeaderMap) -> Self {
        Self((!map.is_empty()).then(|| Box::new(map)))
    }
}

impl Deref for Trailers {
    type Target = HeaderMap;

    fn deref(&self) -> &HeaderMap {
        static NONE: LazyLock<HeaderMap> = LazyLock::new(HeaderMap::new);
        self.0.as_deref().unwrap_or_else(|| &NONE)
    }
}

impl DerefMut for Trailers {
    fn deref_mut(&mut self) -> &mut HeaderMap {
        self.0.get_or_insert_default()
    }
}
