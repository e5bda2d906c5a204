//! Heads, methods and random numbers for the tests.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use tidewire_service::{Idempotency, Spec, StreamKind};
use tidewire_wire::{Exchange, Head, Refusal, negotiate};

/// A method of a kind; unary ones are queries.
pub(crate) fn method(kind: StreamKind) -> Spec {
    let spec = Spec::new("a.B", "C", "/a.B/C", kind, ["a.Q", "a.R"]);
    match kind {
        StreamKind::Unary => spec.idempotency(Idempotency::NoSideEffects),
        _ => spec,
    }
}

pub(crate) const KINDS: [StreamKind; 4] =
    [StreamKind::Unary, StreamKind::Client, StreamKind::Server, StreamKind::Bidi];

/// Headers of lines `name: value`.
pub(crate) fn headers(lines: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        headers.append(HeaderName::try_from(name).unwrap(), HeaderValue::try_from(value).unwrap());
    }
    headers
}

/// A POST over HTTP/2.
pub(crate) fn post(kind: StreamKind, lines: &[&str]) -> Result<Exchange, Refusal> {
    asked("POST", None, Version::HTTP_2, Some(&method(kind)), lines)
}

pub(crate) fn asked(
    verb: &str,
    query: Option<&str>,
    version: Version,
    method: Option<&Spec>,
    lines: &[&str],
) -> Result<Exchange, Refusal> {
    let (verb, headers) = (Method::try_from(verb).unwrap(), headers(lines));
    negotiate(&Head { verb: &verb, query, version, headers: &headers }, method)
}

/// What a response says in one line each: status, headers sorted, body with escapes, trailers.
pub(crate) fn shown(mut response: tidewire_wire::Response) -> String {
    let list = |headers: &HeaderMap| {
        let mut lines: Vec<_> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.as_bytes().escape_ascii()))
            .collect();
        lines.sort_unstable();
        lines.join(" | ")
    };
    let (status, head) = (response.status.as_u16(), list(&response.headers));
    let length = response.body.len();
    let body = response.body.collect::<Vec<_>>().concat();
    assert_eq!(body.len(), length);
    let trailers = response.trailers.take().map(|trailers| format!(" + {}", list(&trailers)));
    format!("{status} [{head}] {}{}", body.escape_ascii(), trailers.unwrap_or_default())
}

/// [`shown`], with a body of text as the bytes that it stands for.
pub(crate) fn said(mut response: tidewire_wire::Response) -> String {
    use base64::Engine as _;
    let content_type = response.headers["content-type"].to_str().unwrap();
    if content_type.starts_with("application/grpc-web-text") {
        let text = response.body.collect::<Vec<_>>().concat();
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
        response.body = bytes::Bytes::from(bytes).into();
    }
    shown(response)
}

/// xorshift64*: enough to choose splits by.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }
}

/// The same each time, so that a failure is of the change that it fails for; `WIRE_SEED=n` tries
/// others.
pub(crate) fn seed() -> u64 {
    std::env::var("WIRE_SEED").ok().map_or(1, |seed| seed.parse().unwrap())
}
