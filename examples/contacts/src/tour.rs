//! The page at `/`: what to try, in a browser, answered by the running server.
//!
//! Its files are those of `tour/`, part of the program and served as they are. The policy lets them
//! load each other and ask this server, nothing else.

use tidewire::http::Method;
use tidewire::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use tidewire::{Body, Builder, Call, Reply, Result};

/// Adds the page and what it loads.
pub(crate) fn add_to(builder: Builder) -> Builder {
    FILES.iter().fold(builder, |builder, (path, kind, content)| {
        builder.route(Method::GET, path, async move |_: Call| file(kind, content))
    })
}

fn file(kind: &'static str, content: &'static str) -> Result<Reply> {
    Reply::new(Body::from(content))
        .with_header(CONTENT_TYPE, kind)?
        .with_header(CONTENT_SECURITY_POLICY, POLICY)?
        .with_header(X_CONTENT_TYPE_OPTIONS, "nosniff")?
        // A newer build has a newer page.
        .with_header(CACHE_CONTROL, "no-cache")
}

/// Path, content type and content.
const FILES: [(&str, &str, &str); 6] = [
    ("/", "text/html; charset=utf-8", include_str!("../tour/index.html")),
    ("/tour/style.css", "text/css; charset=utf-8", include_str!("../tour/style.css")),
    ("/tour/tour.js", "text/javascript; charset=utf-8", include_str!("../tour/tour.js")),
    ("/tour/calls.js", "text/javascript; charset=utf-8", include_str!("../tour/calls.js")),
    // Built by web/build.mjs; `cargo xtask ci typescript` says whether it is current.
    ("/tour/live.js", "text/javascript; charset=utf-8", include_str!("../tour/live.js")),
    ("/tour/icon.svg", "image/svg+xml", include_str!("../tour/icon.svg")),
];

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
