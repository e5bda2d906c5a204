//! Who may come to an admin listener: asked of the head of every request, in this order.
//!
//! | asked | refused |
//! |---|---|
//! | `Host` is this machine, by number or `localhost`, whatever the port | 421: a page whose name was bound to this machine |
//! | `Origin`, where one is sent, is `Host` | 403: a page of another origin |
//! | `Sec-Fetch-Site`, where it is sent, is `same-origin`; for what is not a method also `none` | 403: the same |
//! | what is sent is JSON or protobuf | 415: what a form of any page may send |
//! | a token, unless the request came by a Unix socket; files of the console ask for none | 401 |
//! | for what changes something: the token is good for that | 403 |
//!
//! Who shows the token that is for reading may read, and is refused with 403 whatever changes
//! something. The console has other tokens (`sign_in.rs`). There are no cookies and no headers for
//! other origins. Probes pass without a token.

use std::time::Instant;

use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::{StatusCode, Uri};
use tidewire_service::{
    Admission, Authorization, Error, Gate, Head, Headers, Principal, Result, Target,
};

use crate::{ACT, READ, SignIn, Token};

/// Who has which token: that of the operator, and that of whoever may only read, where there is
/// one.
pub(crate) struct Guard {
    pub(crate) operator: Token,
    pub(crate) reader: Option<Token>,
    /// Who came by the console.
    pub(crate) sign_in: SignIn,
}

impl Guard {
    fn decide(&self, head: &mut Head) -> Result<()> {
        let by_socket = head.context.peer().is_none_or(|peer| peer.address.is_none());
        let headers = head.context.headers();
        is_ours(headers)?;
        let is_method = matches!(&head.target, Target::Method(_));
        if is_method && headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "none") {
            return Err(Error::permission_denied("methods are not called from an address bar"));
        }
        if is_method && !is_data(headers) {
            let text = "send JSON or protobuf";
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(Error::invalid_argument(text).with_http_status(status));
        }
        let principal =
            if by_socket { Some(operator()) } else { self.principal_of_token(headers)? };
        head.context.set_principal(principal);
        Ok(())
    }

    /// Whose token was shown, where one was.
    pub(crate) fn principal_of_token(&self, headers: &Headers) -> Result<Option<Principal>> {
        let token = match Authorization::of(headers)? {
            Authorization::None => return Ok(None),
            Authorization::Bearer(token) => token,
            Authorization::Other => b"",
        };
        // Both are looked at, whichever it is.
        let is_reader = self.reader.as_ref().is_some_and(|reader| reader.is(token));
        match (self.operator.is(token), is_reader) {
            (true, _) => Ok(Some(operator())),
            (false, true) => Ok(Some(Principal::new("admin", "reader").with_scope(READ))),
            (false, false) => {
                let unknown = || {
                    Error::unauthenticated(
                        "this is not the token of admin.token_file, nor of admin.read_token_file, \
                         nor of a console of this run",
                    )
                };
                let of_console = self.sign_in.principal(token, Instant::now());
                of_console.map(Some).ok_or_else(unknown)
            }
        }
    }
}

pub(crate) fn operator() -> Principal {
    Principal::new("admin", "operator").with_scope(READ).with_scope(ACT)
}

impl Gate for Guard {
    fn admit(&self, head: &mut Head) -> Admission {
        Admission::Ready(self.decide(head))
    }
}

/// Whether a request is not a page's but our own.
pub(crate) fn is_ours(headers: &Headers) -> Result<()> {
    // Of a request over HTTP/2 the server has made it of `:authority`.
    let host = headers.get(HOST).map(|host| host.to_str().unwrap_or_default());
    if host.is_some_and(|host| !is_here(host)) {
        let text = "this host is not served here; call 127.0.0.1, [::1] or localhost";
        let status = StatusCode::MISDIRECTED_REQUEST;
        return Err(Error::permission_denied(text).with_http_status(status));
    }
    let foreign = || Err(Error::permission_denied("pages of other origins are not answered"));
    if let Some(origin) = headers.get(ORIGIN) {
        let origin = origin.to_str().unwrap_or_default();
        let of = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if of.is_none() || of != host {
            return foreign();
        }
    }
    let site = headers.get(SEC_FETCH_SITE).map(|site| site.as_bytes());
    if site.is_some_and(|site| site != b"same-origin" && site != b"none") {
        return foreign();
    }
    Ok(())
}

const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Whether a body is said to be JSON or protobuf, and not only not said to be something else.
pub(crate) fn is_said_to_be_data(headers: &Headers) -> bool {
    headers.contains_key(CONTENT_TYPE) && is_data(headers)
}

/// Whether a host is this machine by number, or `localhost`.
fn is_here(host: &str) -> bool {
    let Ok(uri) = host.parse::<Uri>() else { return false };
    let Some(authority) = uri.authority() else { return false };
    !host.contains('@') && matches!(authority.host(), "127.0.0.1" | "[::1]" | "localhost")
}

/// Whether a body, where one is said to come, is JSON or protobuf.
pub(crate) fn is_data(headers: &Headers) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else { return true };
    let text = value.to_str().unwrap_or_default().to_ascii_lowercase();
    let kind = text.split(';').next().unwrap_or_default().trim();
    let known = ["application/json", "application/proto", "application/grpc"];
    known.contains(&kind)
        || kind.starts_with("application/connect+")
        || kind.starts_with("application/grpc+")
        || kind.starts_with("application/grpc-web")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::AUTHORIZATION;
    use http::{HeaderName, HeaderValue};

    fn headers(lines: &[(&'static str, &'static str)]) -> Headers {
        let line = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn a_host_is_this_machine_by_number_or_localhost() {
        for (host, here) in [
            ("127.0.0.1:8081", true),
            ("127.0.0.1", true),
            ("localhost:1", true),
            ("[::1]:8081", true),
            ("evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example:8081", false),
            ("evil.example:8081@127.0.0.1", false),
            ("127.0.0.1@evil.example", false),
            ("127.1", false),
            ("0.0.0.0:8081", false),
            ("", false),
            ("a b", false),
        ] {
            assert_eq!(is_here(host), here, "{host:?}");
        }
    }

    #[test]
    fn pages_of_other_origins_are_recognised_by_what_browsers_say() {
        let host = ("host", "127.0.0.1:8081");
        for (more, ours) in [
            (None, true),
            (Some(("origin", "http://127.0.0.1:8081")), true),
            (Some(("origin", "http://127.0.0.1:8082")), false),
            (Some(("origin", "http://localhost:8081")), false),
            (Some(("origin", "null")), false),
            (Some(("origin", "")), false),
            (Some(("origin", "https://evil.example")), false),
            (Some(("sec-fetch-site", "same-origin")), true),
            (Some(("sec-fetch-site", "none")), true),
            (Some(("sec-fetch-site", "same-site")), false),
            (Some(("sec-fetch-site", "cross-site")), false),
        ] {
            let lines: Vec<_> = [host].into_iter().chain(more).collect();
            assert_eq!(is_ours(&headers(&lines)).is_ok(), ours, "{more:?}");
        }
    }

    #[test]
    fn a_token_is_shown_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let guard = Guard {
            operator: Token::of_file(&path).unwrap(),
            reader: None,
            sign_in: SignIn::default(),
        };
        let token = format!("Bearer {}", std::fs::read_to_string(&path).unwrap().trim());
        let mut headers = Headers::new();
        headers.append(AUTHORIZATION, token.parse().unwrap());
        assert!(guard.principal_of_token(&headers).unwrap().is_some());
        for other in ["Bearer x", &token] {
            headers.append(AUTHORIZATION, other.parse().unwrap());
            let error = guard.principal_of_token(&headers).unwrap_err();
            assert_eq!(error.message(), "authorization is sent twice");
        }
    }

    #[test]
    fn what_a_form_sends_is_no_data() {
        for (kind, data) in [
            ("application/json; charset=utf-8", true),
            ("application/connect+proto", true),
            ("application/grpc", true),
            ("text/plain", false),
            ("text/plain; application/json", false),
            ("application/x-www-form-urlencoded", false),
            ("multipart/form-data; boundary=a", false),
            ("application/jsonx", false),
        ] {
            assert_eq!(is_data(&headers(&[("content-type", kind)])), data, "{kind}");
        }
        assert!(is_data(&Headers::new()));
    }
}
