//! What commands end (RFC 9111, section 4.4): the pages of their target and of what they name, and
//! those with the tags that they say they have changed.

use std::sync::Arc;

use http::HeaderName;
use tidewire_service::Reply;

use super::page_cache::PageCache;
use super::page_request::{Key, Origin, host_of};

/// Ends what the response to a command says that it has changed; returns how many changes that is.
pub(super) fn tags_changed(cache: &PageCache, service: &Arc<str>, reply: &Reply) -> u64 {
    let mut count = 0;
    for value in reply.headers.get_all(CHANGED) {
        let tags = value.to_str().unwrap_or_default().split(',').map(str::trim);
        for tag in tags.filter(|tag| !tag.is_empty()) {
            cache.0.named.add(service, tag);
            cache.changed(tag);
            count += 1;
        }
    }
    count
}

/// Takes off the reply to anything but a command what it says that it changed, and logs that
/// nothing ends.
pub(super) fn ignore(cache: &PageCache, service: &Arc<str>, target: &str, reply: &mut Reply) {
    if reply.headers.contains_key(CHANGED) {
        reply.headers.remove(CHANGED);
        cache.0.ignored.log(service, target, cache.0.runtime.now());
    }
}

/// Ends what a command says that it has changed, and the pages that it was sent to or names
/// (RFC 9111, section 4.4). Returns how many changes that is.
pub(super) fn changed(
    cache: &PageCache,
    service: &Arc<str>,
    origin: &Origin,
    target: &str,
    reply: &Reply,
) -> u64 {
    let mut count = tags_changed(cache, service, reply);
    if !reply.status.is_success() && !reply.status.is_redirection() {
        return count;
    }
    let mut table = cache.0.table.lock();
    table.key_changed(&Key::new(service, origin, target));
    count += 1;
    for name in ["location", "content-location"] {
        let named = reply.headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(other) = named.and_then(|named| resolved(origin, target, named)) {
            table.key_changed(&Key::new(service, origin, &other));
            count += 1;
        }
    }
    count
}

/// Whether the response to a command says that it is what a `GET` of its target would bring (RFC
/// 9110, section 9.3.3).
pub(super) fn is_of_target(origin: &Origin, target: &str, reply: &Reply) -> bool {
    let named = reply.headers.get("content-location").and_then(|value| value.to_str().ok());
    let named = named.and_then(|named| resolved(origin, target, named));
    reply.status.is_success() && named.as_deref() == Some(target)
}

/// The path and query of a reference at the same origin; `None` for one elsewhere.
fn resolved(origin: &Origin, target: &str, reference: &str) -> Option<String> {
    let reference = reference.split('#').next().unwrap_or_default();
    let absolute = match reference.split_once("://") {
        Some(("http", rest)) if origin.scheme == "http" => Some(rest),
        Some(("https", rest)) if origin.scheme == "https" => Some(rest),
        Some((scheme, _)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            return None;
        }
        _ => reference.strip_prefix("//"),
    };
    if let Some(rest) = absolute {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let is_here = host_of(&rest[..end], origin.scheme) == origin.host;
        let slash = if rest[end..].starts_with('/') { "" } else { "/" };
        return is_here.then(|| format!("{slash}{}", &rest[end..]));
    }
    let path = target.split('?').next().unwrap_or("/");
    Some(match reference {
        "" => target.to_owned(),
        reference if reference.starts_with('/') => reference.to_owned(),
        query if query.starts_with('?') => format!("{path}{query}"),
        relative => {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            without_dots(&format!("{folder}/{relative}"))
        }
    })
}

/// A path without segments `.` and `..` (RFC 3986, section 5.2.4).
fn without_dots(path: &str) -> String {
    let (path, query) = path.split_once('?').map_or((path, ""), |(path, query)| (path, query));
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => _ = segments.pop(),
            segment => segments.push(segment),
        }
    }
    let question = if query.is_empty() { "" } else { "?" };
    format!("/{}{question}{query}", segments.join("/"))
}

/// By which a program says, in the response to a command, what it has changed.
pub(super) const CHANGED: HeaderName = HeaderName::from_static("tidewire-changed");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_at_their_origin_alone() {
        let origin =
            Origin { scheme: "http", host: "shop.example".to_owned(), prefix: String::new() };
        for (reference, expected) in [
            ("/b?c", Some("/b?c")),
            ("/b#c", Some("/b")),
            ("b", Some("/a/b")),
            ("./b/../c", Some("/a/c")),
            ("../../b", Some("/b")),
            ("?q", Some("/a/x?q")),
            ("", Some("/a/x?y")),
            ("http://shop.example", Some("/")),
            ("http://shop.example?q", Some("/?q")),
            ("http://Shop.Example:80/b", Some("/b")),
            ("//shop.example/b", Some("/b")),
            ("/b?u=http://other.example/", Some("/b?u=http://other.example/")),
            ("https://shop.example/b", None),
            ("http://shop.example:81/b", None),
            ("http://other.example/b", None),
            ("//other.example/b", None),
            ("ftp://shop.example/b", None),
        ] {
            let found = resolved(&origin, "/a/x?y", reference);
            assert_eq!(found.as_deref(), expected, "{reference}");
        }
    }
}
