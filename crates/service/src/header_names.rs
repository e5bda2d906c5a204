//! What names a header of [`Headers`](crate::Headers): a constant of HTTP, or a text.
//!
//! Nobody else implements these traits, so that what is inside of `Headers` may change.

use http::HeaderName;

/// Names a header that may be there: a [`HeaderName`], a text, or a reference to one of them. The
/// case of letters does not count.
pub trait LookupName: sealed::Lookup {}

impl<N: sealed::Lookup> LookupName for N {}

/// Names a header that is set: a [`HeaderName`], a reference to one, or a text in the program.
///
/// # Panics
/// Where such a text is not the name of a header. What comes from outside is parsed to a
/// [`HeaderName`].
pub trait InsertName: sealed::Insert {}

impl<N: sealed::Insert> InsertName for N {}

mod sealed {
    use http::header::{AsHeaderName, IntoHeaderName};

    use super::HeaderName;
    use crate::Headers;

    pub trait Lookup: AsHeaderName + Sized {
        /// Whether there is a header of this name.
        #[inline]
        fn found_in(self, headers: &Headers) -> bool {
            headers.map().contains_key(self)
        }
    }

    impl Lookup for HeaderName {
        #[inline]
        fn found_in(self, headers: &Headers) -> bool {
            (&self).found_in(headers)
        }
    }
    impl Lookup for &HeaderName {
        #[inline]
        fn found_in(self, headers: &Headers) -> bool {
            // Few names are compared sooner than one is hashed.
            match headers.keys_len() {
                ..=FEW => headers.keys().any(|name| name == self),
                _ => headers.map().contains_key(self),
            }
        }
    }
    impl Lookup for &str {}
    impl Lookup for String {}
    impl Lookup for &String {}

    pub trait Insert: IntoHeaderName {}

    impl Insert for HeaderName {}
    impl Insert for &HeaderName {}
    impl Insert for &'static str {}

    const FEW: usize = 8;
}
