//! Which page a request comes from: no page of another origin runs a command of this server.
//!
//! A browser sends cookies and client certificates by itself, and reaches servers of this machine
//! and of its network. A page of another origin may send some requests without asking first (a body
//! of bytes, a form, a beacon), so the answer comes too late to protect anybody.
//!
//! | request | a command runs |
//! |---|---|
//! | with neither `Sec-Fetch-Site` nor `Origin`, of another verb than `GET` | yes: it does not come from a page |
//! | a `GET` with neither, and `Referer` names the host that the request asks for | yes |
//! | a `GET` with neither, without `Referer`, and no browser sends it | yes |
//! | with `Sec-Fetch-Site: same-origin` | yes |
//! | with `Sec-Fetch-Site: none` and without `Origin` | yes: somebody typed it |
//! | with `Sec-Fetch-Site: none`, or without it, and `Origin` names the host that the request asks for | yes; its scheme is not compared, since TLS may end before this server |
//! | that a browser sends ahead of time (`Sec-Purpose`, `Purpose`, `X-Moz`), whatever else it says | no: a page of any origin may ask for that, and it says `Sec-Fetch-Site: none` |
//! | with an `Origin` of `cors.origins` | yes; one that `loopback` lets in only without cookies, unless `cors.credentials` is set |
//! | any other | no: 403 |
//!
//! A command is a method that is not a query, over any protocol, and a route for a verb other than
//! `GET`, `HEAD`, `OPTIONS` and `TRACE`. What is mounted (a program, a router of another framework)
//! decides for itself.
//!
//! Over plain HTTP, to a name that is not of their machine, browsers send neither header with a
//! `GET`. A page can leave out `Referer`, but neither forge it nor change `User-Agent`, which
//! begins with `Mozilla/` in every browser.

use http::header::{COOKIE, HOST, REFERER, USER_AGENT};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Uri};
use tidewire_service::{Error, Peer, Result};

use crate::gate::cors::Policy;

/// What browsers send for a page, and programs do not. Texts compare in fewer steps than names.
const ORIGIN: &str = "origin";
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// What says that nobody asked for a page yet: the standard one, and those before it.
const AHEAD_OF_TIME: [&str; 3] = ["sec-purpose", "purpose", "x-moz"];

/// Whether a verb changes nothing (RFC 9110, section 9.2.1).
pub(crate) fn is_safe(verb: &Method) -> bool {
    matches!(*verb, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
}

/// Lets a command of this server's own pages pass, of those that `cors` names, and of what is not a
/// page.
///
/// # Errors
/// 403 for a page of another origin.
pub(crate) fn check(parts: &Parts, cors: Option<&Policy>) -> Result<()> {
    if !is_safe(&parts.method) && !tells_of_a_page(&parts.headers) {
        return Ok(());
    }
    if AHEAD_OF_TIME.iter().any(|name| parts.headers.contains_key(*name)) {
        let why = "a browser sends this ahead of time (prefetch), which runs no command";
        return Err(Error::permission_denied(why));
    }
    if is_of_unnamed_page(parts) {
        return check_referer(parts, cors);
    }
    let origin = parts.headers.get(ORIGIN);
    // No browser sends one of them twice; who does gains nothing by the order.
    let origins = parts.headers.get_all(ORIGIN);
    let names_host = || origins.iter().all(|origin| is_of_host(origin, &parts.headers, &parts.uri));
    let sites = || parts.headers.get_all(SEC_FETCH_SITE).iter();
    let is_own = match parts.headers.contains_key(SEC_FETCH_SITE) {
        true if sites().all(|site| site == "same-origin") => true,
        // A page's service worker sends `none` too (Background Fetch), beside its origin.
        true => sites().all(|site| site == "same-origin" || site == "none") && names_host(),
        false => names_host(),
    };
    let is_one = origins.iter().count() <= 1;
    let is_named = cors.is_some_and(|policy| {
        is_one
            && policy.granted(&parts.headers).is_some()
            && !origin.is_some_and(|origin| withholds_cookies(policy, origin, &parts.headers))
    });
    if is_own || is_named { Ok(()) } else { Err(foreign(origin)) }
}

/// Whether a browser may have sent it for a page. Programs send none of these headers, and one look
/// at every name costs less than looking each of them up.
fn tells_of_a_page(headers: &HeaderMap) -> bool {
    let tells =
        |name: &str| name == ORIGIN || name == SEC_FETCH_SITE || AHEAD_OF_TIME.contains(&name);
    headers.keys().any(|name| tells(name.as_str()))
}

/// A request that says nothing of its page but, perhaps, in `Referer`.
fn is_of_unnamed_page(parts: &Parts) -> bool {
    let is_browser = |agent: &HeaderValue| agent.as_bytes().starts_with(b"Mozilla/");
    is_safe(&parts.method)
        && !parts.headers.contains_key(ORIGIN)
        && !parts.headers.contains_key(SEC_FETCH_SITE)
        && (parts.headers.contains_key(REFERER)
            || parts.headers.get_all(USER_AGENT).iter().any(is_browser))
}

#[cold]
fn check_referer(parts: &Parts, cors: Option<&Policy>) -> Result<()> {
    let mut pages = parts.headers.get_all(REFERER).iter();
    let (Some(page), None) = (pages.next(), pages.next()) else {
        return Err(Error::permission_denied(
            "a browser does not say which page it runs this command for; use POST or TLS, or let \
             the page send Referer",
        ));
    };
    let origin = origin_of(page).unwrap_or(HeaderValue::from_static("null"));
    let is_own = is_of_host(&origin, &parts.headers, &parts.uri);
    let is_named = cors.is_some_and(|policy| {
        policy.allows(&origin) && !withholds_cookies(policy, &origin, &parts.headers)
    });
    if is_own || is_named { Ok(()) } else { Err(foreign(Some(&origin))) }
}

fn withholds_cookies(policy: &Policy, origin: &HeaderValue, headers: &HeaderMap) -> bool {
    headers.contains_key(COOKIE) && policy.withholds_cookies(origin)
}

/// The origin of the page with a URL.
fn origin_of(page: &HeaderValue) -> Option<HeaderValue> {
    let (scheme, rest) = page.to_str().ok()?.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    HeaderValue::from_str(&format!("{scheme}://{authority}")).ok()
}

fn foreign(origin: Option<&HeaderValue>) -> Error {
    Error::permission_denied(match origin {
        Some(origin) if origin == "null" || origin.is_empty() => {
            "pages without an origin (a file, a sandboxed frame) may not run commands here"
                .to_owned()
        }
        Some(origin) => {
            format!("pages of {origin:?} may not run commands here; add it to cors.origins")
        }
        None => "pages of other origins may not run commands here; see cors.origins".to_owned(),
    })
}

/// Whether a browser says that the page is of another site, or of another origin of the same one:
/// then it is not one of this server, whatever it is called.
pub(crate) fn is_of_other_site(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    sites.any(|site| site != "same-origin" && site != "none")
}

/// Whether an origin is that of the host which a request asks for, whatever its scheme.
fn is_of_host(origin: &HeaderValue, headers: &HeaderMap, uri: &Uri) -> bool {
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = uri.authority().map(Authority::as_str).or(host);
    origin.zip(host).is_some_and(|((_, authority), host)| authority.eq_ignore_ascii_case(host))
}

/// Whether a page of this origin is one of the server that a request asks for. Where the request
/// came over TLS the page did, too: anybody between may have written one that came without.
pub(crate) fn is_own_page(
    origin: &HeaderValue,
    headers: &HeaderMap,
    uri: &Uri,
    peer: &Peer,
) -> bool {
    let is_as_safe = !peer.is_secure || origin.as_bytes().starts_with(b"https://");
    is_as_safe && is_of_host(origin, headers, uri)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::cors::Cors;
    use http::Request;

    #[test]
    fn only_pages_of_this_host_and_named_ones_run_commands() {
        let policy = Policy::new(&Cors::new(["https://app.example"])).unwrap();
        let all = Policy::new(&Cors::new(["*"])).unwrap();
        let local = Policy::new(&Cors::new(["loopback"])).unwrap();
        for (headers, cors, passes) in [
            (&[][..], None, true),
            (&[("origin", "http://shop.example:8080")], None, true),
            (&[("origin", "https://shop.example:8080")], None, true),
            (&[("origin", "http://SHOP.example:8080")], None, true),
            (&[("origin", "http://shop.example")], None, false),
            (&[("origin", "http://evil.example")], None, false),
            (&[("origin", "null")], None, false),
            (&[("origin", "https://app.example")], None, false),
            (&[("origin", "https://app.example")], policy.as_ref(), true),
            (&[("origin", "https://evil.example")], policy.as_ref(), false),
            (&[("origin", "null")], all.as_ref(), true),
            (&[("origin", "http://localhost:5173")], local.as_ref(), true),
            (&[("origin", "http://localhost:5173"), ("cookie", "a=b")], local.as_ref(), false),
            (&[("sec-fetch-site", "same-origin"), ("origin", "http://other.example")], None, true),
            (&[("sec-fetch-site", "none")], None, true),
            (&[("sec-fetch-site", "none"), ("origin", "http://evil.example")], None, false),
            (&[("sec-fetch-site", "none"), ("origin", "http://shop.example:8080")], None, true),
            (&[("sec-fetch-site", "cross-site")], None, false),
            (&[("sec-fetch-site", "same-site"), ("origin", "http://b.example")], None, false),
            (
                &[("sec-fetch-site", "cross-site"), ("origin", "http://shop.example:8080")],
                None,
                false,
            ),
            (
                &[("sec-fetch-site", "cross-site"), ("origin", "https://app.example")],
                policy.as_ref(),
                true,
            ),
            (&[("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")], None, false),
            (
                &[("origin", "http://shop.example:8080"), ("origin", "http://evil.example")],
                None,
                false,
            ),
            (
                &[("origin", "https://app.example"), ("origin", "https://evil.example")],
                policy.as_ref(),
                false,
            ),
        ] {
            let mut request = Request::post("/contacts").header(HOST, "shop.example:8080");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(check(&parts, cors).is_ok(), passes, "{headers:?}");
        }
    }

    #[test]
    fn a_get_of_a_browser_that_names_no_origin_comes_from_the_page_of_its_referer() {
        const BROWSER: (&str, &str) = ("user-agent", "Mozilla/5.0 (X11; Linux x86_64)");
        let policy = Policy::new(&Cors::new(["https://app.example"])).unwrap();
        let all = Policy::new(&Cors::new(["*"])).unwrap();
        for (headers, cors, passes) in [
            (&[("user-agent", "curl/8.5")][..], None, true),
            (&[("referer", "http://shop.example:8080/")], None, true),
            (&[("user-agent", "curl/8.5"), ("referer", "http://evil.example/")], None, false),
            (&[BROWSER], None, false),
            (&[BROWSER], policy.as_ref(), false),
            (&[BROWSER, ("referer", "http://shop.example:8080/a?b=c")], None, true),
            (&[BROWSER, ("referer", "https://SHOP.example:8080")], None, true),
            (&[BROWSER, ("referer", "http://shop.example:8081/")], None, false),
            (&[BROWSER, ("referer", "http://evil.example/shop.example:8080")], None, false),
            (&[BROWSER, ("referer", "http://evil.example?://shop.example:8080")], None, false),
            (&[BROWSER, ("referer", "http://shop.example:8080@evil.example/")], None, false),
            (&[BROWSER, ("referer", "shop.example:8080")], None, false),
            (&[BROWSER, ("referer", "https://app.example/page")], policy.as_ref(), true),
            (&[BROWSER, ("referer", "https://evil.example/page")], policy.as_ref(), false),
            (&[BROWSER, ("referer", "https://evil.example/page")], all.as_ref(), true),
            (
                &[BROWSER, ("referer", "http://shop.example:8080"), ("referer", "http://evil")],
                None,
                false,
            ),
            (&[BROWSER, ("sec-fetch-site", "none")], None, true),
            (&[("sec-fetch-site", "none"), ("sec-purpose", "prefetch;prerender")], None, false),
            (&[("sec-fetch-site", "same-origin"), ("sec-purpose", "prefetch")], None, false),
            (&[("purpose", "prefetch")], None, false),
            (&[("x-moz", "prefetch")], None, false),
            (
                &[("origin", "https://app.example"), ("sec-purpose", "prefetch")],
                policy.as_ref(),
                false,
            ),
            (&[BROWSER, ("origin", "http://shop.example:8080")], None, true),
        ] {
            let mut request = Request::get("/fire").header(HOST, "shop.example:8080");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(check(&parts, cors).is_ok(), passes, "{headers:?}");
        }
        let posted = Request::post("/fire").header(BROWSER.0, BROWSER.1).body(()).unwrap();
        assert!(check(&posted.into_parts().0, None).is_ok(), "browsers send Origin with a POST");
    }

    #[test]
    fn over_tls_a_page_that_came_without_it_is_not_the_servers_own() {
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("shop.example"))]);
        let uri = Uri::from_static("/");
        let plain = Peer::new(None);
        for (origin, over_plain, over_tls) in [
            ("http://shop.example", true, false),
            ("https://shop.example", true, true),
            ("https://evil.example", false, false),
            ("null", false, false),
        ] {
            let origin = HeaderValue::from_static(origin);
            assert_eq!(is_own_page(&origin, &headers, &uri, &plain), over_plain, "{origin:?}");
            let secure = plain.clone().over_tls();
            assert_eq!(is_own_page(&origin, &headers, &uri, &secure), over_tls, "{origin:?}");
        }
    }
}
