//! Which hosted service a path of plain HTTP belongs to.
//!
//! | route | matches | does not match |
//! |---|---|---|
//! | `/shop/*` | `/shop`, `/shop/`, `/shop/a/b` | `/shopX`, `/Shop` |
//! | `/shop` | `/shop` | `/shop/`, `/shop/a` |
//! | `/*` | everything | |
//!
//! Routes with a `host` are asked before those without; among each the longest wins. Paths are
//! compared as they arrive, without decoding, as is usual among proxies. A path that programs could
//! read as one elsewhere (`/shop/..;/admin`) is refused.

use parking_lot::RwLock;
use std::fmt;
use std::sync::Arc;

use tidewire_service::{Answer, Call, Error, Peer, Progress, Service, Target, without_prefix};

use crate::forwarded;
use crate::grpc_caller::GrpcCaller;
use crate::location::relocate;

/// Where a service is found: a route, perhaps of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The route without `/*` and without a slash at its end.
    prefix: String,
    has_paths_below: bool,
    host: Option<String>,
    strips_prefix: bool,
}

/// Services by their sites: a [`Service`] itself. Clones share what is where.
#[derive(Clone, Default)]
pub struct Routes {
    places: Arc<RwLock<Vec<Arc<RouteEntry>>>>,
    is_https: bool,
}

/// A service at its site.
struct RouteEntry {
    site: Route,
    service: Box<dyn Service>,
}

impl Route {
    /// A site by its route: `/shop/*` for a path and all below it, `/shop` for it alone.
    ///
    /// # Errors
    /// A route that does not start with `/`, or has a `*` elsewhere than at its end.
    pub fn new(route: &str) -> Result<Self, RouteError> {
        let (prefix, has_paths_below) = match route.strip_suffix("/*") {
            Some(prefix) => (prefix, true),
            None => (route, false),
        };
        let is_path = prefix.starts_with('/') || (prefix.is_empty() && has_paths_below);
        let is_plain = prefix.bytes().all(|byte| byte.is_ascii_graphic())
            && !prefix.contains(['*', '{', '}', '?', '#', '%'])
            && !prefix.contains("//")
            && !has_dot_segments(prefix);
        if !is_path || !is_plain || (has_paths_below && prefix.ends_with('/')) {
            return Err(RouteError(format!(
                "route {route:?} is invalid; write \"/shop/*\" for /shop and all below it, \"/shop\" \
                 for that path alone, or \"/*\" for everything, in ASCII and without %"
            )));
        }
        let prefix = prefix.to_owned();
        Ok(Self { prefix, has_paths_below, host: None, strips_prefix: false })
    }

    /// Sets the host that requests have to ask for, without a port.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into().to_ascii_lowercase());
        self
    }

    /// The route without its host, as it is written: `/shop/*`.
    pub fn path(&self) -> String {
        let below = if self.has_paths_below { "/*" } else { "" };
        format!("{}{below}", self.prefix)
    }

    /// The host that requests have to ask for, in lower case.
    pub fn required_host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Takes the route off the paths that the service sees; `X-Forwarded-Prefix` says it.
    #[must_use]
    pub fn strip_prefix(mut self, on: bool) -> Self {
        self.strips_prefix = on;
        self
    }

    /// Whether requests for this host and path belong here.
    fn matches<'a>(&self, host: impl Fn() -> Option<&'a str>, path: &str) -> bool {
        let is_host = self.host.as_deref().is_none_or(|wanted| {
            host().is_some_and(|host| name_of(host).eq_ignore_ascii_case(wanted))
        });
        let Some(rest) = path.strip_prefix(&self.prefix) else { return false };
        is_host && (rest.is_empty() || self.has_paths_below && rest.starts_with('/'))
    }

    /// What sites are compared by: the greatest that matches wins.
    fn rank(&self) -> (bool, usize, bool) {
        (self.host.is_some(), self.prefix.len(), !self.has_paths_below)
    }
}

impl Routes {
    /// No sites yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says whether callers speak TLS with this server, for `X-Forwarded-Proto`.
    #[must_use]
    pub fn https(mut self, on: bool) -> Self {
        self.is_https = on;
        self
    }

    /// Adds a service.
    ///
    /// # Errors
    /// When another one is at the same site.
    pub fn add(&mut self, site: Route, service: impl Service) -> Result<(), RouteError> {
        let is_same = |known: &Route| {
            known.prefix == site.prefix
                && known.host == site.host
                && known.has_paths_below == site.has_paths_below
        };
        let mut sites = self.places.write();
        if sites.iter().any(|known| is_same(&known.site)) {
            return Err(RouteError(format!("route {site} occurs twice; remove one of the two")));
        }
        sites.push(Arc::new(RouteEntry { site, service: Box::new(service) }));
        sites.sort_by_key(|place| std::cmp::Reverse(place.site.rank()));
        Ok(())
    }

    /// Puts the services of `other` in the place of these, all at once.
    pub fn set(&self, other: Self) {
        let others = std::mem::take(&mut *other.places.write());
        *self.places.write() = others;
    }

    fn find<'a>(&self, host: impl Fn() -> Option<&'a str>, path: &str) -> Option<Arc<RouteEntry>> {
        let sites = self.places.read();
        sites.iter().find(|place| place.site.matches(&host, path)).cloned()
    }
}

impl Service for Routes {
    fn call(&self, mut call: Call) -> Answer {
        match GrpcCaller::of(&mut call) {
            Ok(None) => self.answer(call),
            Ok(Some(caller)) => caller.tell(self.answer(call)),
            Err(error) => Answer::ready(Err(error)),
        }
    }
}

impl Routes {
    fn answer(&self, mut call: Call) -> Answer {
        let Target::Http(target) = &mut call.target else {
            return Answer::ready(Err(Error::unimplemented("only plain HTTP requests go here")));
        };
        if has_dot_segments(target.uri.path()) {
            let text = "a path has no segments . and .. when it is sent; resolve them first";
            return Answer::ready(Err(Error::invalid_argument(text)));
        }
        // Of most sites none has a host to be compared.
        let host = || forwarded::host(call.context.headers(), &target.uri);
        let Some(place) = self.find(host, target.uri.path()) else {
            let text = format!("nothing is at {}", target.uri.path());
            return Answer::ready(Err(Error::not_found(text)));
        };
        let RouteEntry { site, service } = &*place;
        let prefix = site.strips_prefix.then_some(site.prefix.as_str());
        let peer = call.context.peer();
        let address = peer.and_then(Peer::address_header);
        let is_https = peer.map_or(self.is_https, |peer| peer.is_secure);
        let headers = call.context.headers_mut();
        forwarded::set(headers, &target.uri, address, is_https, prefix);
        if let Some(prefix) = prefix {
            target.uri = without_prefix(&target.uri, prefix.len());
        }
        let Some(prefix) = prefix else { return service.call(call) };
        let host = forwarded::host(call.context.headers(), &target.uri).map(str::to_owned);
        let prefix = prefix.to_owned();
        match service.call(call).into_progress() {
            Progress::Ready(outcome) => Answer::from(Progress::Ready(outcome.map(|mut reply| {
                relocate(&mut reply, &prefix, host.as_deref());
                reply
            }))),
            Progress::Pending(pending) => Answer::pending(async move {
                let mut reply = pending.await?;
                relocate(&mut reply, &prefix, host.as_deref());
                Ok(reply)
            }),
        }
    }
}

/// Whether a segment of a path is `.` or `..` to somebody: as it is, encoded, with parameters
/// behind a semicolon, which servlet containers take off before they look, with spaces, which some
/// file systems leave out, or before a NUL, at which C ends a name.
fn has_dot_segments(path: &str) -> bool {
    // Most paths have nothing that could be a dot.
    if !path.bytes().any(|byte| matches!(byte, b'.' | b'%')) {
        return false;
    }
    let read = path.contains('%').then(|| {
        let plain = path.to_ascii_lowercase();
        ENCODED.iter().fold(plain, |path, (encoded, byte)| path.replace(encoded, byte))
    });
    let mut segments = read.as_deref().unwrap_or(path).split(['/', '\\']);
    segments.any(|segment| matches!(segment.split([';', '?', '#', '\0']).next(), Some("." | "..")))
}

/// What segments are told from each other by, and from `..`; and what parsers of URLs leave out.
const ENCODED: [(&str, &str); 11] = [
    ("%00", "\0"),
    ("%09", ""),
    ("%0a", ""),
    ("%0d", ""),
    ("%20", ""),
    ("%2e", "."),
    ("%2f", "/"),
    ("%5c", "\\"),
    ("%3b", ";"),
    ("%3f", "?"),
    ("%23", "#"),
];

/// `host` without `:port` and without the dot of the root; an IPv6 address keeps its brackets.
fn name_of(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let below = if self.has_paths_below { "/*" } else { "" };
        write!(f, "{}{}{below}", self.host.as_deref().unwrap_or_default(), self.prefix)
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sites = self.places.read();
        f.debug_list().entries(sites.iter().map(|place| &place.site)).finish()
    }
}

/// A route that cannot be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteError(String);

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RouteError {}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::Method;
    use tidewire_service::{Context, Reply};

    /// A service that says its name, the path that it sees and the prefix.
    fn named(name: &'static str) -> impl Service {
        move |call: Call| async move {
            let target = call.http_target().expect("plain HTTP");
            let prefix = call.context.header("x-forwarded-prefix");
            let prefix = prefix.map_or("", |prefix| prefix.to_str().expect("text"));
            Ok(Reply::text(format!("{name} {} {prefix}", target.uri)))
        }
    }

    fn sites() -> Routes {
        let mut sites = Routes::new();
        let mut add = |site: Route, name| sites.add(site, named(name)).unwrap();
        add(Route::new("/shop/*").unwrap(), "shop");
        add(Route::new("/shop/admin/*").unwrap().strip_prefix(true), "admin");
        add(Route::new("/about").unwrap(), "about");
        add(Route::new("/*").unwrap().host("docs.example"), "docs");
        sites
    }

    async fn ask(host: &'static str, path: &str) -> String {
        let headers = tidewire_service::Headers::from_iter([(
            http::header::HOST,
            HeaderValue::from_static(host),
        )]);
        let uri = path.parse().unwrap();
        let call =
            Call::http(Method::GET, uri, Context::new(headers), tidewire_service::Body::Empty);
        match sites().call(call).await {
            Ok(reply) => {
                let text = reply.body.collect(1 << 10).await.unwrap();
                String::from_utf8_lossy(&text).trim_end().to_owned()
            }
            Err(error) => error.to_string(),
        }
    }

    #[tokio::test]
    async fn the_longest_route_wins_and_only_whole_segments_match() {
        for (host, path, expected) in [
            ("a.example", "/shop", "shop /shop"),
            ("a.example", "/shop/", "shop /shop/"),
            ("a.example", "/shop/x?y=1&z", "shop /shop/x?y=1&z"),
            ("a.example", "/shopX", "not_found: nothing is at /shopX"),
            ("a.example", "/shop/admin", "admin / /shop/admin"),
            ("a.example", "/shop/admin?q", "admin /?q /shop/admin"),
            ("a.example", "/shop/admin/a/b?q", "admin /a/b?q /shop/admin"),
            ("a.example", "/shop/administrator", "shop /shop/administrator"),
            ("a.example", "/about", "about /about"),
            ("a.example", "/about/us", "not_found: nothing is at /about/us"),
            ("DOCS.example:8080", "/shop/x", "docs /shop/x"),
            ("docs.example.:8080", "/shop/admin/x", "docs /shop/admin/x"),
        ] {
            assert_eq!(ask(host, path).await, expected, "{host}{path}");
        }
    }

    #[tokio::test]
    async fn a_path_that_a_program_could_read_as_one_elsewhere_is_refused() {
        for path in [
            "/shop/..",
            "/shop/./x",
            "/shop/../admin",
            "/shop;x=1/../admin",
            "/shop/..;/admin",
            "/shop/..;x=1/admin",
            "/shop/.;/admin",
            "/shop/%2e%2E/admin",
            "/shop/.%2e;x/admin",
            "/shop/.%09./admin",
            "/shop/..%0a",
            "/shop/..%3fx",
            "/shop/..%3bx/admin",
            "/shop/..%2fadmin",
            "/shop/x%5C..%5Cadmin",
            "/shop/..\\admin",
            "/shop/..%20/admin",
            "/shop/.%20./admin",
            "/shop/..%00/admin",
            "/shop/..%00x",
        ] {
            let said = ask("a.example", path).await;
            assert!(said.starts_with("invalid_argument"), "{path}: {said}");
        }
        for path in [
            "/shop/...",
            "/shop/..a",
            "/shop/a;b/c",
            "/shop/a..;b",
            "/shop/a%20..b/%20",
            "/shop/x?y=/../z",
            "/shop/%252e%252e",
        ] {
            assert_eq!(ask("a.example", path).await, format!("shop {path}"));
        }
    }

    #[test]
    fn what_is_no_route_is_refused() {
        for route in [
            "",
            "/\u{fc}/*",
            "/a b",
            "/a%20b",
            "shop",
            "/sh*p",
            "/*/a",
            "/a//b",
            "shop/*",
            "//*",
            "/a/{b}",
            "/a?b",
            "/a/../b",
            "/a/..;/b/*",
            "/a/.",
        ] {
            assert!(Route::new(route).is_err(), "{route}");
        }
        let error = sites().add(Route::new("/shop/*").unwrap(), named("b")).unwrap_err();
        assert_eq!(error.to_string(), "route /shop/* occurs twice; remove one of the two");
    }
}
