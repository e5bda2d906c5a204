//! Which pages of other origins may call from a browser: cross-origin resource sharing, by
//! <https://fetch.spec.whatwg.org/#http-cors-protocol>.
//!
//! | request | with an allowed origin | with another |
//! |---|---|---|
//! | `OPTIONS` with `Origin` and `Access-Control-Request-Method` | 204 before routing: what is allowed, and for how long | 204 that allows nothing |
//! | any other with `Origin` | the response may be read, with the headers named here | as without this |
//!
//! What is allowed is what Connect, gRPC-Web and REST need
//! (<https://connectrpc.com/docs/cors>), and headers of the application's own by name. Off unless
//! origins are given, and then one branch a request.

use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HeaderName, ORIGIN,
};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use tidewire_service::Body;

use crate::gate::vary::vary;

/// Which pages of other origins may call from a browser, and how.
///
/// ```
/// let cors = tidewire_server::Cors::new(["https://app.example"]);
/// let server = tidewire_server::Server::builder().cors(cors);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cors {
    /// The origins as browsers send them, `https://app.example`; `loopback` for pages that this
    /// machine serves at any port (`localhost`, names below it, `127.0.0.1`, `[::1]`); `*` for all.
    /// None by default.
    pub origins: Vec<String>,
    /// Whether browsers send cookies and client certificates along; no by default. Not with `*`.
    pub credentials: bool,
    /// How long a browser remembers what is allowed; 2 h by default, more than which none does.
    pub max_age: Duration,
    /// Request headers of the application's own, or `*` for any; those of the protocols and
    /// `authorization` are always allowed.
    pub headers: Vec<String>,
    /// Reply headers of the application's own that pages may read, or `*` for all that a reply has;
    /// those of the protocols always may be read. A trailer of a unary Connect reply is
    /// `trailer-NAME`.
    pub exposed_headers: Vec<String>,
}

impl Default for Cors {
    fn default() -> Self {
        Self {
            origins: Vec::new(),
            credentials: false,
            max_age: Duration::from_secs(2 * 60 * 60),
            headers: Vec::new(),
            exposed_headers: Vec::new(),
        }
    }
}

impl Cors {
    /// Pages of these origins may call.
    pub fn new<O: Into<String>>(origins: impl IntoIterator<Item = O>) -> Self {
        Self { origins: origins.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Whether it can work: as a server finds out at start.
    ///
    /// # Errors
    /// `*` together with credentials; what is not an origin, or not the name of a header.
    pub fn check(&self) -> Result<(), CorsError> {
        Policy::new(self).map(|_| ())
    }
}

/// Settings for other origins that cannot work; see [`Cors::check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorsError {
    key: &'static str,
    text: String,
}

impl CorsError {
    fn new(key: &'static str, text: String) -> Self {
        Self { key, text }
    }

    /// The setting that it is about, `cors.origins`.
    pub fn key(&self) -> &str {
        self.key
    }
}

impl fmt::Display for CorsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for CorsError {}

/// [`Cors`] as the headers that it becomes.
pub(crate) struct Policy {
    /// `None` are all.
    origins: Option<Vec<HeaderValue>>,
    /// Whether pages of this machine are among them.
    loopback: bool,
    credentials: bool,
    max_age: HeaderValue,
    headers: HeaderValue,
    /// Whether a page may send any header.
    any_header: bool,
    exposed: HeaderValue,
    /// Whether a page may read every header of a reply.
    all_exposed: bool,
}

impl Policy {
    /// Checks the settings; `None` when no origin is allowed.
    pub(crate) fn new(cors: &Cors) -> Result<Option<Self>, CorsError> {
        let any = cors.origins.iter().any(|origin| origin == "*");
        if any && cors.credentials {
            return Err(CorsError::new(
                "cors.credentials",
                "cors.origins = \"*\" and cors.credentials = true exclude each other, since any \
                 page could act for whoever opens it; name the origins or set cors.credentials = \
                 false"
                    .into(),
            ));
        }
        let has = |list: &[String], word| list.iter().any(|it| it == word);
        let origins = cors.origins.iter().filter(|it| !["*", LOOPBACK].contains(&&***it));
        let origins = origins.map(|text| origin(text)).collect::<Result<Vec<_>, _>>()?;
        let policy = Self {
            origins: (!any).then_some(origins),
            loopback: has(&cors.origins, LOOPBACK),
            credentials: cors.credentials,
            max_age: cors.max_age.as_secs().into(),
            headers: names("cors.headers", REQUEST_HEADERS, &cors.headers)?,
            any_header: has(&cors.headers, "*"),
            exposed: names("cors.exposed_headers", REPLY_HEADERS, &cors.exposed_headers)?,
            all_exposed: has(&cors.exposed_headers, "*"),
        };
        Ok((!cors.origins.is_empty()).then_some(policy))
    }

    /// The answer to a browser that asks whether it may send a request.
    pub(crate) fn preflight<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        let headers = request.headers();
        if *request.method() != Method::OPTIONS
            || !headers.contains_key(ORIGIN)
            || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
        {
            return None;
        }
        let mut response = Response::new(Body::Empty);
        *response.status_mut() = StatusCode::NO_CONTENT;
        let granted = self.granted(headers);
        let wanted = headers.get(ACCESS_CONTROL_REQUEST_HEADERS).filter(|_| self.any_header);
        let allowed = wanted.unwrap_or(&self.headers).clone();
        let headers = response.headers_mut();
        if granted.is_some() {
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed);
            if self.any_header {
                vary(headers, "access-control-request-headers");
            }
            headers.insert(ACCESS_CONTROL_MAX_AGE, self.max_age.clone());
        }
        self.mark(granted, headers);
        Some(response)
    }

    /// Whether pages of an origin may call.
    pub(crate) fn allows(&self, origin: &HeaderValue) -> bool {
        self.origins.is_none() || self.names(origin)
    }

    /// Whether an origin is named, or is of this machine and those are: all are, is not.
    pub(crate) fn names(&self, origin: &HeaderValue) -> bool {
        let is_listed = || self.origins.as_ref().is_some_and(|origins| origins.contains(origin));
        self.loopback && is_of_this_machine(origin) || is_listed()
    }

    /// Whether a page is let in by `loopback` alone, without credentials: any program of this
    /// machine may have given it out, and cookies are sent to all ports of a host alike.
    pub(crate) fn withholds_cookies(&self, origin: &HeaderValue) -> bool {
        let is_listed = self.origins.as_ref().is_none_or(|origins| origins.contains(origin));
        self.loopback && !self.credentials && !is_listed && is_of_this_machine(origin)
    }

    /// The headers of a reply that pages may read.
    fn exposed(&self, headers: &HeaderMap) -> HeaderValue {
        if !self.all_exposed {
            return self.exposed.clone();
        }
        let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        names.extend(REPLY_HEADERS.split(", ").filter(|name| !headers.contains_key(*name)));
        HeaderValue::from_str(&names.join(", ")).unwrap_or_else(|_| self.exposed.clone())
    }

    /// The origin that a request comes from, as the response has to name it, if it is allowed.
    pub(crate) fn granted(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN).filter(|origin| self.allows(origin))?;
        Some(if self.origins.is_none() { HeaderValue::from_static("*") } else { origin.clone() })
    }

    /// Says in a response who may read it. Caches must tell callers apart in either case.
    fn mark(&self, granted: Option<HeaderValue>, headers: &mut HeaderMap) {
        vary(headers, "origin");
        let Some(origin) = granted else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        if self.credentials {
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
    }
}

/// The future of a response that says who may read it.
pub(crate) struct CorsFuture<F> {
    pub(crate) response: F,
    pub(crate) policy: Arc<Policy>,
    pub(crate) granted: Option<HeaderValue>,
}

impl<F, B> Future for CorsFuture<F>
where
    F: Future<Output = Result<Response<B>, Infallible>> + Unpin,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<F::Output> {
        Pin::new(&mut self.response).poll(cx).map_ok(|mut response| {
            let granted = self.granted.take();
            let headers = response.headers_mut();
            if granted.is_some() {
                let exposed = self.policy.exposed(headers);
                headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
            }
            self.policy.mark(granted, headers);
            response
        })
    }
}

/// An origin as browsers send it: lower case, without a path and without the port that it has
/// anyway.
fn origin(text: &str) -> Result<HeaderValue, CorsError> {
    let uri = text.parse::<Uri>().ok();
    let sent = uri.as_ref().and_then(|uri| {
        let scheme = uri.scheme_str()?;
        let host = uri.host()?;
        if host.contains('*') {
            return None;
        }
        let port = match (scheme, uri.port_u16()) {
            ("http", Some(80)) | ("https", Some(443)) | (_, None) => String::new(),
            (_, Some(port)) => format!(":{port}"),
        };
        Some(format!("{scheme}://{host}{port}").to_lowercase())
    });
    let refused = |help: &str| {
        let text = format!("cors.origins: {text:?} is not an origin as browsers send it; {help}");
        CorsError::new("cors.origins", text)
    };
    match sent {
        Some(sent) if sent == text => HeaderValue::from_str(text)
            .map_err(|_| refused("write \"https://app.example\", or \"*\" for all")),
        Some(sent) => Err(refused(&format!("write {sent:?}"))),
        None => Err(refused("write \"https://app.example\", or \"*\" for all")),
    }
}

/// Whether an origin is a page that a server of this machine gave out, at any port. Names below
/// `localhost` lead nowhere else (RFC 6761, section 6.3).
fn is_of_this_machine(origin: &HeaderValue) -> bool {
    let text = origin.to_str().unwrap_or_default();
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let Some(authority) = rest.and_then(|rest| rest.parse::<Authority>().ok()) else {
        return false;
    };
    let host = authority.host();
    let is_address =
        || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    let is_whole = !authority.as_str().contains('@');
    is_whole && (host == "localhost" || host.ends_with(".localhost") || is_address())
}

/// The names of the protocols and of the application as one header.
fn names(
    key: &'static str,
    protocols: &str,
    application: &[String],
) -> Result<HeaderValue, CorsError> {
    let mut all = protocols.to_owned();
    for name in application.iter().filter(|name| *name != "*") {
        let parsed: HeaderName = name.parse().map_err(|_| {
            CorsError::new(
                key,
                format!("{key}: {name:?} is not the name of a header; write x-name"),
            )
        })?;
        all = all + ", " + parsed.as_str();
    }
    Ok(HeaderValue::from_str(&all).expect("names of headers are ASCII"))
}

/// The word for pages of this machine.
const LOOPBACK: &str = "loopback";

/// Connect needs `GET` and `POST`, gRPC-Web `POST`, REST the others.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";

/// What clients of Connect, gRPC-Web and REST send.
const REQUEST_HEADERS: &str = "content-type, content-encoding, connect-protocol-version, \
    connect-timeout-ms, connect-accept-encoding, connect-content-encoding, grpc-timeout, \
    grpc-encoding, grpc-accept-encoding, x-grpc-web, x-user-agent, authorization";

/// What they read in replies; browsers themselves undo `content-encoding`.
const REPLY_HEADERS: &str = "grpc-status, grpc-message, grpc-status-details-bin, grpc-encoding, \
    connect-content-encoding, content-encoding, retry-after, www-authenticate";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_of_pages_of_this_machine_count_with_credentials_or_a_name_only() {
        let page = HeaderValue::from_static("http://localhost:5173");
        for (origins, credentials, expected) in [
            (&["loopback"][..], false, true),
            (&["loopback"], true, false),
            (&["loopback", "http://localhost:5173"], false, false),
            (&["http://localhost:5173"], false, false),
            (&["*", "loopback"], false, false),
        ] {
            let mut cors = Cors::new(origins.iter().copied());
            cors.credentials = credentials;
            let policy = Policy::new(&cors).unwrap().unwrap();
            assert_eq!(policy.withholds_cookies(&page), expected, "{origins:?} {credentials}");
        }
    }

    #[test]
    fn loopback_are_pages_of_this_machine_and_no_others() {
        let policy = Policy::new(&Cors::new(["loopback", "https://app.example"])).unwrap().unwrap();
        for (origin, expected) in [
            ("http://localhost:5173", true),
            ("https://localhost", true),
            ("http://shop.localhost:3000", true),
            ("http://127.0.0.1:8080", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:5173", true),
            ("https://app.example", true),
            ("https://localhost.evil.example", false),
            ("https://evil-localhost", false),
            ("http://127.0.0.1.evil.example", false),
            ("http://localhost@evil.example", false),
            ("http://evil.example#localhost", false),
            ("http://10.0.0.1", false),
            ("http://[::2]", false),
            ("file://localhost", false),
            ("null", false),
            ("", false),
        ] {
            let value = HeaderValue::from_static(origin);
            assert_eq!(
                (policy.allows(&value), policy.names(&value)),
                (expected, expected),
                "{origin}"
            );
        }
    }

    #[test]
    fn any_header_may_be_sent_and_all_be_read_where_that_is_set() {
        let mut cors = Cors::new(["https://app.example"]);
        cors.headers = vec!["*".to_owned()];
        cors.exposed_headers = vec!["*".to_owned()];
        cors.credentials = true;
        let policy = Policy::new(&cors).unwrap().unwrap();
        let asked = Request::options("/a")
            .header(ORIGIN, "https://app.example")
            .header(ACCESS_CONTROL_REQUEST_METHOD, "POST")
            .header(ACCESS_CONTROL_REQUEST_HEADERS, "x-mock-session,x-tenant")
            .body(())
            .unwrap();
        let response = policy.preflight(&asked).unwrap();
        assert_eq!(response.headers()[ACCESS_CONTROL_ALLOW_HEADERS], "x-mock-session,x-tenant");
        let reply = [(HeaderName::from_static("x-total"), HeaderValue::from_static("3"))];
        let exposed = policy.exposed(&reply.into_iter().collect());
        let names: Vec<_> = exposed.to_str().unwrap().split(", ").collect();
        assert!(names.contains(&"x-total") && names.contains(&"grpc-status"), "{names:?}");
    }

    fn check(cors: &Cors, expected: &str) {
        let text = cors.check().map_or_else(|error| error.to_string(), |()| "fine".to_owned());
        assert_eq!(text, expected, "{cors:?}");
    }

    #[test]
    fn settings_that_cannot_work_are_refused_with_what_to_write() {
        check(&Cors::default(), "fine");
        check(&Cors::new(["https://app.example", "http://[::1]:5173"]), "fine");
        check(&Cors::new(["capacitor://localhost"]), "fine");
        let refused = |text: &str, help: &str| {
            let expected =
                format!("cors.origins: {text:?} is not an origin as browsers send it; {help}");
            check(&Cors::new([text]), &expected);
        };
        refused("https://App.example/", "write \"https://app.example\"");
        refused("https://app.example:443", "write \"https://app.example\"");
        refused("http://app.example:8080/page", "write \"http://app.example:8080\"");
        refused("app.example", "write \"https://app.example\", or \"*\" for all");
        refused("null", "write \"https://app.example\", or \"*\" for all");
        refused("https://*.example", "write \"https://app.example\", or \"*\" for all");
        let headers = vec!["x y".to_owned()];
        check(
            &Cors { headers, ..Cors::new(["*"]) },
            "cors.headers: \"x y\" is not the name of a header; write x-name",
        );
        check(
            &Cors { credentials: true, ..Cors::new(["*"]) },
            "cors.origins = \"*\" and cors.credentials = true exclude each other, since any page \
             could act for whoever opens it; name the origins or set cors.credentials = false",
        );
    }
}
