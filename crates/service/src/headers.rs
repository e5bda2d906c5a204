//! Headers and trailers: names of HTTP with their values.
//!
//! The methods are those of [`http::HeaderMap`], whose names engineers know. It is inside and stays
//! hidden, so that something else may take its place: conversions by [`From`] are the one bridge to
//! it, for whoever speaks to hyper or tower. Which names the methods take is in `header_names.rs`.
//!
//! Requests nearly always have headers, so a [`Context`](crate::Context) holds them in place. What
//! is moved often and has seldom any holds [`ThinHeaders`](crate::ThinHeaders).

use std::fmt::{self, Display};
use std::ops::Index;

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::{Error, InsertName, LookupName, Result};

/// The headers or the trailers of a message: a name may have several values, whose order is kept.
///
/// Names compare without regard to case. Without headers it allocates nothing.
///
/// ```
/// use http::HeaderValue;
/// use tidewire_service::Headers;
///
/// let mut headers = Headers::default();
/// headers.insert("checksum", HeaderValue::from_static("1a2b"));
/// headers.append("via", HeaderValue::from_static("1.1 a"));
/// headers.append("via", HeaderValue::from_static("1.1 b"));
/// assert_eq!(headers["Checksum"], "1a2b");
/// assert_eq!(headers.get_all("via").iter().collect::<Vec<_>>(), ["1.1 a", "1.1 b"]);
///
/// let map = http::HeaderMap::from(headers);
/// assert_eq!(map.len(), 3);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(HeaderMap);

impl Headers {
    /// No headers.
    pub fn new() -> Self {
        Self::default()
    }

    /// No headers, with room for those of this many names.
    pub fn with_capacity(names: usize) -> Self {
        Self(HeaderMap::with_capacity(names))
    }

    /// Makes room for the headers of this many more names.
    pub fn reserve(&mut self, names: usize) {
        self.0.reserve(names);
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many values there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// How many names there are.
    #[inline]
    pub fn keys_len(&self) -> usize {
        self.0.keys_len()
    }

    /// For how many names there is room.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Whether there is a header of this name.
    #[inline]
    pub fn contains_key(&self, name: impl LookupName) -> bool {
        name.found_in(self)
    }

    /// What is inside.
    #[inline]
    pub(crate) const fn map(&self) -> &HeaderMap {
        &self.0
    }

    /// The first value of a header.
    #[inline]
    pub fn get(&self, name: impl LookupName) -> Option<&HeaderValue> {
        self.0.get(name)
    }

    /// The first value of a header, to be changed.
    #[inline]
    pub fn get_mut(&mut self, name: impl LookupName) -> Option<&mut HeaderValue> {
        self.0.get_mut(name)
    }

    /// All values of a header, in their order.
    #[inline]
    pub fn get_all(&self, name: impl LookupName) -> HeaderValues<'_> {
        HeaderValues(self.0.get_all(name))
    }

    /// Sets a header in place of all earlier ones of the same name, and gives the first of them.
    ///
    /// # Panics
    /// At more than 24,576 names.
    #[inline]
    pub fn insert(&mut self, name: impl InsertName, value: HeaderValue) -> Option<HeaderValue> {
        self.0.insert(name, value)
    }

    /// Adds a header behind earlier ones of the same name, and says whether there were any.
    ///
    /// # Panics
    /// At more than 24,576 names.
    #[inline]
    pub fn append(&mut self, name: impl InsertName, value: HeaderValue) -> bool {
        self.0.append(name, value)
    }

    /// The same for headers whose number nobody bounds.
    ///
    /// # Errors
    /// There are 24,576 names already, which is when [`append`](Self::append) panics.
    pub fn try_append(
        &mut self,
        name: impl InsertName,
        value: HeaderValue,
    ) -> Result<bool, header::MaxSizeReached> {
        self.0.try_append(name, value)
    }

    /// The place of a header, to set it where it is absent.
    #[inline]
    pub fn entry(&mut self, name: impl InsertName) -> HeaderEntry<'_> {
        HeaderEntry(self.0.entry(name))
    }

    /// Removes all headers of a name, and gives the first of them.
    #[inline]
    pub fn remove(&mut self, name: impl LookupName) -> Option<HeaderValue> {
        self.0.remove(name)
    }

    /// Removes all headers, and keeps the room that they had.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Each value with its name; values of one name stand together, in their order.
    #[inline]
    pub fn iter(&self) -> HeadersIter<'_> {
        HeadersIter(self.0.iter())
    }

    /// Each name once.
    pub fn keys(&self) -> impl Iterator<Item = &HeaderName> {
        self.0.keys()
    }

    /// Each value.
    pub fn values(&self) -> impl Iterator<Item = &HeaderValue> {
        self.0.values()
    }

    /// Each value, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut HeaderValue> {
        self.0.values_mut()
    }
}

impl fmt::Debug for Headers {
    /// Prints names and values, but no value that is [sensitive](HeaderValue::is_sensitive).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<HeaderMap> for Headers {
    #[inline]
    fn from(map: HeaderMap) -> Self {
        Self(map)
    }
}

impl From<Headers> for HeaderMap {
    #[inline]
    fn from(headers: Headers) -> Self {
        headers.0
    }
}

impl<N: LookupName> Index<N> for Headers {
    type Output = HeaderValue;

    /// # Panics
    /// Where there is no header of this name.
    #[inline]
    fn index(&self, name: N) -> &HeaderValue {
        &self.0[name]
    }
}

impl FromIterator<(HeaderName, HeaderValue)> for Headers {
    fn from_iter<I: IntoIterator<Item = (HeaderName, HeaderValue)>>(headers: I) -> Self {
        Self(headers.into_iter().collect())
    }
}

impl Extend<(HeaderName, HeaderValue)> for Headers {
    /// Appends each.
    fn extend<I: IntoIterator<Item = (HeaderName, HeaderValue)>>(&mut self, headers: I) {
        self.0.extend(headers);
    }
}

impl Extend<(Option<HeaderName>, HeaderValue)> for Headers {
    /// Sets the headers that another one is made of, in place of those of the same names: a value
    /// without a name belongs to the name before it.
    fn extend<I: IntoIterator<Item = (Option<HeaderName>, HeaderValue)>>(&mut self, headers: I) {
        self.0.extend(headers);
    }
}

impl IntoIterator for Headers {
    type Item = (Option<HeaderName>, HeaderValue);
    type IntoIter = HeadersIntoIter;

    /// Each value; the name stands with the first of its values.
    fn into_iter(self) -> HeadersIntoIter {
        HeadersIntoIter(self.0.into_iter())
    }
}

impl<'a> IntoIterator for &'a Headers {
    type Item = (&'a HeaderName, &'a HeaderValue);
    type IntoIter = HeadersIter<'a>;

    fn into_iter(self) -> HeadersIter<'a> {
        self.iter()
    }
}

/// The place of one header; see [`Headers::entry`].
#[derive(Debug)]
pub struct HeaderEntry<'a>(header::Entry<'a, HeaderValue>);

impl<'a> HeaderEntry<'a> {
    /// The first value of the header, which is this one where it was absent.
    #[inline]
    pub fn or_insert(self, value: HeaderValue) -> &'a mut HeaderValue {
        self.0.or_insert(value)
    }

    /// The first value of the header, which is what `value` gives where it was absent.
    #[inline]
    pub fn or_insert_with(self, value: impl FnOnce() -> HeaderValue) -> &'a mut HeaderValue {
        self.0.or_insert_with(value)
    }
}

/// The values of one header; see [`Headers::get_all`].
#[derive(Debug)]
pub struct HeaderValues<'a>(header::GetAll<'a, HeaderValue>);

impl<'a> HeaderValues<'a> {
    /// Each value.
    #[inline]
    pub fn iter(&self) -> HeaderValuesIter<'a> {
        HeaderValuesIter(self.0.iter())
    }
}

impl PartialEq for HeaderValues<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<'a> IntoIterator for HeaderValues<'a> {
    type Item = &'a HeaderValue;
    type IntoIter = HeaderValuesIter<'a>;

    fn into_iter(self) -> HeaderValuesIter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &HeaderValues<'a> {
    type Item = &'a HeaderValue;
    type IntoIter = HeaderValuesIter<'a>;

    fn into_iter(self) -> HeaderValuesIter<'a> {
        self.iter()
    }
}

/// Iterates over the values of one header.
#[derive(Debug)]
pub struct HeaderValuesIter<'a>(header::ValueIter<'a, HeaderValue>);

impl<'a> Iterator for HeaderValuesIter<'a> {
    type Item = &'a HeaderValue;

    #[inline]
    fn next(&mut self) -> Option<&'a HeaderValue> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl DoubleEndedIterator for HeaderValuesIter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back()
    }
}

/// Iterates over [`Headers`].
#[derive(Debug)]
pub struct HeadersIter<'a>(header::Iter<'a, HeaderValue>);

impl<'a> Iterator for HeadersIter<'a> {
    type Item = (&'a HeaderName, &'a HeaderValue);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

/// Iterates over [`Headers`] that are taken apart.
#[derive(Debug)]
pub struct HeadersIntoIter(header::IntoIter<HeaderValue>);

impl Iterator for HeadersIntoIter {
    type Item = (Option<HeaderName>, HeaderValue);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
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
    use super::*;
    use crate::{Body, Call, Code, Context, Reply};
    use http::header::{AGE, VIA};
    use http::{Method, Uri};

    fn all<'a>(headers: &'a Headers, name: &str) -> Vec<&'a HeaderValue> {
        headers.get_all(name).iter().collect()
    }

    #[test]
    fn set_replaces_and_append_adds_on_everything_that_has_headers() {
        let mut reply = Reply::new(());
        let mut call = Call::http(Method::GET, Uri::from_static("/"), Context::default(), "");
        let mut error = Error::not_found("no such item");
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
        for headers in [&reply.headers, call.context.headers(), error.headers()] {
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

    #[test]
    fn headers_are_found_changed_and_removed_by_names_of_any_kind() {
        let mut headers = Headers::from_iter([(VIA, HeaderValue::from_static("a"))]);
        assert!(headers.append(&VIA, HeaderValue::from_static("b")));
        assert!(!headers.append("x-of", HeaderValue::from_static("c")));
        assert_eq!((headers.len(), headers.keys_len(), headers.is_empty()), (3, 2, false));
        for found in [headers.get("Via"), headers.get(VIA), headers.get("via".to_owned())] {
            assert_eq!(found.unwrap(), "a");
        }
        assert!(headers.contains_key("X-Of") && !headers.contains_key("not a name"));
        assert_eq!(headers.get_all(VIA).iter().next_back().unwrap(), "b");
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["via", "x-of"]);
        assert_eq!(headers.values().collect::<Vec<_>>(), ["a", "b", "c"]);
        *headers.get_mut("x-of").unwrap() = HeaderValue::from_static("d");
        assert_eq!(headers.remove("x-of").unwrap(), "d");
        assert_eq!(headers.insert(VIA, HeaderValue::from_static("e")).unwrap(), "a");
        assert_eq!(format!("{headers:?}"), r#"{"via": "e"}"#);
        headers.entry(VIA).or_insert(HeaderValue::from_static("f"));
        headers.entry(AGE).or_insert_with(|| HeaderValue::from_static("7"));
        assert_eq!(headers.values().collect::<Vec<_>>(), ["e", "7"]);
        headers.clear();
        assert_eq!(headers, Headers::new());
    }

    #[test]
    fn headers_of_another_replace_those_of_the_same_name_and_pairs_are_added() {
        let value = HeaderValue::from_static;
        let mut headers = Headers::from_iter([(VIA, value("a")), (AGE, value("1"))]);
        headers.extend(Headers::from_iter([(VIA, value("b")), (VIA, value("c"))]));
        headers.extend([(AGE, value("2"))]);
        assert_eq!(all(&headers, "via"), ["b", "c"]);
        assert_eq!(all(&headers, "age"), ["1", "2"]);
        let map = HeaderMap::from(headers.clone());
        assert_eq!(map.get_all(VIA).iter().collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(Headers::from(map), headers);
    }
}
