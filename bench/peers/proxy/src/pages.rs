//! The pages of the suite, as the origin has them and as the floor has them in memory.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

const PAGE_BYTES: usize = 1024;
const LARGE_BYTES: usize = 100 * 1024;
const KEPT: &str = "max-age=3600";
const PASSED: &str = "no-store";

/// Made once: an answer takes no copy of them.
pub struct Pages {
    page: Bytes,
    large: Bytes,
}

impl Default for Pages {
    fn default() -> Self {
        let filled = |bytes| Bytes::from(vec![b'x'; bytes]);
        Self { page: filled(PAGE_BYTES), large: filled(LARGE_BYTES) }
    }
}

impl Pages {
    /// The answer to a `GET` of this path; each number below `/pages/` is a page of its own.
    pub fn answer(&self, path: &str) -> Response<Full<Bytes>> {
        match path {
            "/page" => text(KEPT, self.page.clone()),
            "/large" => text(KEPT, self.large.clone()),
            "/pass" => text(PASSED, Bytes::from_static(b"Hello, World!")),
            _ => match path.strip_prefix("/pages/") {
                Some(number) => text(KEPT, format!("{number:x<PAGE_BYTES$}").into()),
                None => {
                    let mut missing = Response::default();
                    *missing.status_mut() = StatusCode::NOT_FOUND;
                    missing
                }
            },
        }
    }
}

/// The answer to a `POST`: what it sent.
pub fn echo(body: Bytes) -> Response<Full<Bytes>> {
    text(PASSED, body)
}

/// An answer that no cache keeps.
pub fn unkept(body: String) -> Response<Full<Bytes>> {
    text(PASSED, body.into())
}

fn text(kept: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(body));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(kept));
    answer
}
