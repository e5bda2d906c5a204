//! The reply of a plain HTTP service as a response, and whom caches on the way may give it to.

use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, EXPIRES, HeaderValue, TRAILER, VARY,
};
use http::{HeaderMap, Response};
use tidewire_cache::Audience;
use tidewire_service::{Body, Context, Frame, Headers, HeldTags, Reply, ThinHeaders, settle_vary};

use crate::response::etag::add_etag;

/// The response for a reply, around what `wrap` makes of its body.
#[inline]
pub(crate) fn response<B>(mut reply: Reply, wrap: impl FnOnce(Body) -> B) -> Response<B> {
    if has_vary(&reply) {
        settle_vary(&mut reply.headers);
    }
    response_of(reply, wrap)
}

/// The same for a page of plain HTTP, which may depend on what the gateway says of its caller.
#[inline]
pub(crate) fn page<B>(mut reply: Reply, wrap: impl FnOnce(Body) -> B) -> Response<B> {
    if has_vary(&reply) {
        settle_vary(&mut reply.headers);
        if names_gateway_header(&reply.headers) {
            for_one(&mut reply.headers);
        }
    }
    response_of(reply, wrap)
}

#[inline]
fn has_vary(reply: &Reply) -> bool {
    !reply.headers.is_empty() && reply.headers.contains_key(VARY)
}

/// The response for a reply whose `Vary` is as it is sent.
#[inline]
fn response_of<B>(mut reply: Reply, wrap: impl FnOnce(Body) -> B) -> Response<B> {
    if reply.freshness.validator().is_some() || reply.is_unchanged() {
        add_etag(&mut reply, &HeldTags::default(), "");
    }
    if !reply.trailers.is_empty() {
        announce(&mut reply);
    }
    let Reply { status, headers, body, trailers, .. } = reply;
    let body = if trailers.is_empty() { body } else { with_trailers(body, trailers) };
    let mut response = Response::new(wrap(body));
    *response.status_mut() = status;
    // The map that was there is empty and owns nothing; its destructor would look for what it owns.
    std::mem::forget(std::mem::replace(response.headers_mut(), headers.into()));
    response
}

/// Says that no cache on the way may give this to anybody without asking, where nothing else was
/// said: the reply of a method to `GET` is cached only if the method asks for it, and caches that
/// are told nothing keep a reply for as long as they see fit (RFC 9111, section 4.2.2).
pub(crate) fn uncached(headers: &mut HeaderMap) {
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("private, no-cache"));
}

/// By what a page may be its caller's alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credential {
    /// A gate found out who calls.
    Known,
    /// None did, and the request has `Authorization`, which the program may look at.
    Authorization,
}

impl Credential {
    /// That of a request.
    #[inline]
    pub(crate) fn of(context: &Context) -> Option<Self> {
        if context.caller_kind().is_known {
            return Some(Self::Known);
        }
        context.headers().contains_key(AUTHORIZATION).then_some(Self::Authorization)
    }
}

/// Says that a page is its caller's, unless it says itself whose it is: it was made for a caller
/// with a credential, and no cache on the way knows every header that a caller may be known by.
/// Beside `Authorization`, which caches know, `s-maxage` and `must-revalidate` say it, too (RFC
/// 9111, section 3.5). What some caches read before `Cache-Control` goes, unless the page is for
/// all by that.
///
/// `private` goes before what was there: of a directive that is there twice the first one counts,
/// and a quotation that does not end would take in what follows. What gRPC says passes as
/// it is.
pub(crate) fn callers_own(headers: &mut HeaderMap, credential: Credential) {
    let is_grpc = |it: &HeaderValue| it.as_bytes().starts_with(b"application/grpc");
    if headers.get(CONTENT_TYPE).is_some_and(is_grpc) {
        return;
    }
    let says = Audience::of_values(headers.get_all(CACHE_CONTROL));
    let is_shared = says.is_shared && credential == Credential::Authorization;
    if (says.is_all || is_shared) && !says.is_one {
        return;
    }
    if !says.is_one {
        let said: Vec<_> = headers.get_all(CACHE_CONTROL).iter().cloned().collect();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("private"));
        said.into_iter().for_each(|line| _ = headers.append(CACHE_CONTROL, line));
    }
    TARGETED.iter().for_each(|name| _ = headers.remove(*name));
}

/// Says that no cache on the way may give a page to anybody without asking, whoever it was made
/// for: it depends on what only the gateway adds to requests (`Vary: Tidewire-Principal`). No
/// request that such a cache sees has that header, so all would be the same to it.
fn for_one(headers: &mut Headers) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.remove(EXPIRES);
    TARGETED.iter().for_each(|name| _ = headers.remove(*name));
}

/// What some caches read in place of `Cache-Control`.
const TARGETED: [&str; 3] = ["cdn-cache-control", "surrogate-control", "x-accel-expires"];

fn names_gateway_header(headers: &Headers) -> bool {
    let lines = headers.get_all(VARY).iter();
    let mut names = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    names.any(|name| {
        let start = name.trim_ascii_start().get(..GATEWAY_HEADERS.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(GATEWAY_HEADERS))
    })
}

/// What the names of those headers begin with.
const GATEWAY_HEADERS: &[u8] = b"tidewire-";

/// Names the trailers that will follow the body: over HTTP/1.1 no others are sent (RFC 9110,
/// section 6.6.2).
fn announce<T>(reply: &mut Reply<T>) {
    for name in reply.trailers.keys() {
        reply.headers.append(TRAILER, HeaderValue::from(name.clone()));
    }
}

fn with_trailers(body: Body, trailers: ThinHeaders) -> Body {
    let end = futures_util::stream::once(async { Ok(Frame::Trailers(trailers)) });
    let frames = http_body_util::BodyStream::new(body);
    Body::frames(futures_util::StreamExt::chain(
        futures_util::StreamExt::filter_map(frames, async |frame| match frame {
            Ok(frame) => frame.into_data().ok().map(|data| Ok(Frame::Data(data))),
            Err(error) => Some(Err(error)),
        }),
        end,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `Cache-Control` says once the page is its caller's, and whether targeted fields stay.
    fn callers_own_page(cache_control: &str, credential: Credential) -> (String, bool) {
        let mut headers = HeaderMap::new();
        if !cache_control.is_empty() {
            headers.insert(CACHE_CONTROL, HeaderValue::from_str(cache_control).unwrap());
        }
        TARGETED.iter().for_each(|it| _ = headers.insert(*it, HeaderValue::from_static("9")));
        callers_own(&mut headers, credential);
        let said: Vec<_> = headers.get_all(CACHE_CONTROL).iter().collect();
        let said: Vec<_> = said.iter().map(|line| line.to_str().unwrap()).collect();
        let targeted = TARGETED.iter().filter(|name| headers.contains_key(**name)).count();
        assert!([0, TARGETED.len()].contains(&targeted), "{cache_control}");
        (said.join("|"), targeted > 0)
    }

    #[test]
    fn a_page_of_a_known_caller_is_his_unless_it_says_that_it_is_for_all() {
        for (cache_control, expected) in [
            ("", "private"),
            ("max-age=60", "private|max-age=60"),
            ("no-cache", "private|no-cache"),
            ("max-age=60, PUBLIC", "max-age=60, PUBLIC"),
            ("s-maxage=60", "private|s-maxage=60"),
            ("max-age=60, must-revalidate", "private|max-age=60, must-revalidate"),
            ("no-store", "no-store"),
            ("no-store, must-understand", "private|no-store, must-understand"),
            ("public, private", "public, private"),
            ("private=\"a\"", "private|private=\"a\""),
            ("x=\"a, public, b\"", "private|x=\"a, public, b\""),
            ("x=\"a, no-store, b\"", "private|x=\"a, no-store, b\""),
            ("x=\"a, private, b\"", "private|x=\"a, private, b\""),
            ("x=\"a\\\", public\"", "private|x=\"a\\\", public\""),
            ("x=\", public", "private|x=\", public"),
        ] {
            let (said, is_for_all) = callers_own_page(cache_control, Credential::Known);
            assert_eq!(said, expected, "{cache_control}");
            assert_eq!(is_for_all, expected.ends_with("PUBLIC"), "{cache_control}");
        }
    }

    #[test]
    fn a_page_beside_authorization_is_its_callers_unless_it_says_that_caches_may_share_it() {
        for (cache_control, expected, is_shared) in [
            ("", "private", false),
            ("max-age=60", "private|max-age=60", false),
            ("public, max-age=60", "public, max-age=60", true),
            ("s-maxage=60", "s-maxage=60", true),
            ("max-age=60, must-revalidate", "max-age=60, must-revalidate", true),
            ("private, s-maxage=60", "private, s-maxage=60", false),
            ("no-store", "no-store", false),
        ] {
            let found = callers_own_page(cache_control, Credential::Authorization);
            assert_eq!(found, (expected.to_owned(), is_shared), "{cache_control}");
        }
    }

    #[test]
    fn a_page_that_depends_on_what_the_gateway_says_is_for_one_whoever_it_was_made_for() {
        for (vary, is_own) in
            [("Tidewire-Principal", true), ("accept, tidewire-PRINCIPAL", true), ("accept", false)]
        {
            let mut reply = Reply::new(Body::Empty);
            reply.headers.insert(VARY, HeaderValue::from_static(vary));
            let shared = HeaderValue::from_static("public, max-age=60");
            reply.headers.insert(CACHE_CONTROL, shared.clone());
            let surrogate = http::HeaderName::from_static("surrogate-control");
            reply.headers.insert(surrogate, shared);
            let response = page(reply, |body| body);
            let expected = if is_own { "private, no-cache" } else { "public, max-age=60" };
            assert_eq!(response.headers()[CACHE_CONTROL], expected, "{vary}");
            assert_eq!(response.headers().contains_key("surrogate-control"), !is_own);
        }
    }
}
