//! The `Location` of a service whose route was taken off the paths that it sees.

use http::HeaderValue;
use http::header::LOCATION;
use tidewire_service::Reply;

/// Puts the prefix before a `Location` on this host: the program does not know that it is below
/// one. One that has it already is of a program that does.
pub(crate) fn relocate(reply: &mut Reply, prefix: &str, host: Option<&str>) {
    let Some(location) = reply.headers.get(LOCATION).and_then(|value| value.to_str().ok()) else {
        return;
    };
    let of_host = |rest: &str| {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let is_here = host.is_some_and(|host| rest[..end].eq_ignore_ascii_case(host));
        is_here.then_some(location.len() - rest.len() + end)
    };
    // Where its path begins, if it leads to this host.
    let start = match location.split_once("://") {
        Some(("http" | "https", rest)) => of_host(rest),
        _ if location.starts_with("//") => of_host(&location[2..]),
        _ => location.starts_with('/').then_some(0),
    };
    let Some(start) = start else { return };
    let (origin, path) = location.split_at(start);
    let is_below = |rest: &str| rest.is_empty() || rest.starts_with(['/', '?', '#']);
    if path.strip_prefix(prefix).is_some_and(is_below) {
        return;
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    if let Ok(value) = HeaderValue::from_str(&format!("{origin}{prefix}{slash}{path}")) {
        reply.headers.insert(LOCATION, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_on_this_host_has_the_prefix_that_was_taken_off() {
        for (location, expected) in [
            ("/login?next=%2F", "/shop/login?next=%2F"),
            ("/", "/shop/"),
            ("/shop/login", "/shop/login"),
            ("/shop", "/shop"),
            ("/shopping", "/shop/shopping"),
            ("login", "login"),
            ("?page=2", "?page=2"),
            ("http://a.example/x", "http://a.example/shop/x"),
            ("https://A.example", "https://A.example/shop/"),
            ("//a.example/x", "//a.example/shop/x"),
            ("https://b.example/x", "https://b.example/x"),
            ("https://a.example.evil/x", "https://a.example.evil/x"),
            ("mailto:ada", "mailto:ada"),
        ] {
            let mut reply = Reply::text("").with_header(LOCATION, location).unwrap();
            relocate(&mut reply, "/shop", Some("a.example"));
            assert_eq!(reply.headers.get(LOCATION).unwrap(), expected, "{location}");
        }
    }
}
