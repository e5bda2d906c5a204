//! The credential in the header `authorization` (RFC 9110, section 11.6.2; RFC 6750).

use http::header::AUTHORIZATION;

use crate::{Error, Headers, Result};

/// What a request shows in the header `authorization`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authorization<'a> {
    /// The header is absent.
    None,
    /// A bearer token, as it was sent.
    Bearer(&'a [u8]),
    /// A credential of another scheme.
    Other,
}

impl<'a> Authorization<'a> {
    /// Reads the header; the scheme compares without regard to case.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` where the header occurs more than once.
    pub fn of(headers: &'a Headers) -> Result<Self> {
        const SCHEME: &[u8] = b"bearer ";
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let Some(value) = values.next() else { return Ok(Self::None) };
        if values.next().is_some() {
            return Err(Error::unauthenticated("authorization is sent twice"));
        }
        Ok(match value.as_bytes().split_at_checked(SCHEME.len()) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case(SCHEME) => Self::Bearer(token),
            _ => Self::Other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_bearer_token_is_told_from_other_schemes_and_sent_once() {
        let check = |sent: &[&'static str]| {
            let mut headers = Headers::new();
            for value in sent {
                headers.append(AUTHORIZATION, HeaderValue::from_static(value));
            }
            match Authorization::of(&headers) {
                Ok(Authorization::Bearer(token)) => String::from_utf8(token.to_vec()).unwrap(),
                Ok(other) => format!("{other:?}"),
                Err(error) => error.message().to_owned(),
            }
        };
        assert_eq!(check(&[]), "None");
        assert_eq!(check(&["Bearer abc"]), "abc");
        assert_eq!(check(&["bEARER abc def"]), "abc def");
        assert_eq!(check(&["Bearer "]), "");
        assert_eq!(check(&["Bearer"]), "Other");
        assert_eq!(check(&["Basic abc"]), "Other");
        assert_eq!(check(&["Bearer a", "Bearer a"]), "authorization is sent twice");
    }
}
