//! The place of a request in a trace, and its id: W3C Trace Context and `x-request-id`.
//!
//! A request keeps the trace that it comes with, or begins one; within it is a new span, so that
//! calls made on its behalf ([`Context::outgoing`]) are below it. What comes and cannot be is as if
//! it had not come. The id is the caller's, where that is fit for a log, or that of the trace; the
//! reply says it again.
//!
//! ```text
//! traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
//!              └ version └ trace                   └ span           └ sampled
//! ```
//!
//! It is off unless [`Builder::traces`](crate::Builder::traces) says otherwise, and costs nothing
//! then.

use http::{HeaderName, HeaderValue};
use tidewire_service::{Context, Headers, ParentSpan};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Gives a request its place and its id, which is returned; of new traces this share is sampled.
pub(crate) fn mark(context: &mut Context, sampled: f64) -> HeaderValue {
    let parent = TraceParent::of(context.headers());
    if let Some(parent) = &parent {
        context.extensions_mut().insert(ParentSpan(parent.span));
    }
    let headers = context.headers_mut();
    if parent.is_none() {
        // It belongs to a trace that is not gone on with (Trace Context, section 3.3.1.1).
        headers.remove(TRACESTATE);
    }
    let begin = || TraceParent {
        trace: hex::<32>(fastrand::u128(1..)),
        span: *NO_SPAN,
        flags: if fastrand::f64() < sampled { *b"01" } else { *b"00" },
    };
    let TraceParent { trace, flags, .. } = parent.unwrap_or_else(begin);
    let span = hex::<16>(fastrand::u64(1..).into());
    let parts = [b"00-".as_slice(), &trace, b"-", &span, b"-", &flags];
    insert(headers, TRACEPARENT, &parts.concat());
    match headers.get(REQUEST_ID).filter(|id| is_fit(id.as_bytes())) {
        Some(id) => id.clone(),
        None => insert(headers, REQUEST_ID, &trace),
    }
}

/// The span of one that begins a trace.
const NO_SPAN: &[u8; 16] = &[b'0'; 16];

/// What a `traceparent` says.
struct TraceParent {
    trace: [u8; 32],
    span: [u8; 16],
    flags: [u8; 2],
}

impl TraceParent {
    /// The one that came, if that is one.
    fn of(headers: &Headers) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let (value, None) = (values.next()?.as_bytes(), values.next()) else { return None };
        let (version, rest) = value.split_at_checked(2)?;
        // Later versions may say more behind it (section 3.2.4).
        let ends = match version {
            b"00" => rest.len() == 53,
            b"ff" => false,
            _ => is_hex(version) && (rest.len() == 53 || rest.get(53) == Some(&b'-')),
        };
        let trace = rest.get(1..33)?;
        let span = rest.get(34..50)?;
        let flags = rest.get(51..53)?;
        let dashes = [0, 33, 50].iter().all(|at| rest[*at] == b'-');
        let is_set = |id: &[u8]| is_hex(id) && id.iter().any(|digit| *digit != b'0');
        let is_one = ends && dashes && is_set(trace) && is_set(span) && is_hex(flags);
        let trace = trace.try_into().ok()?;
        let span = span.try_into().ok()?;
        let flags = flags.try_into().ok()?;
        is_one.then_some(Self { trace, span, flags })
    }
}

fn is_hex(text: &[u8]) -> bool {
    text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether an id may stand in a log and in a reply.
fn is_fit(id: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
    (1..=128).contains(&id.len()) && id.iter().all(allowed)
}

fn hex<const DIGITS: usize>(number: u128) -> [u8; DIGITS] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|at| HEX[(number >> (4 * (DIGITS - 1 - at)) & 15) as usize])
}

fn insert(headers: &mut Headers, name: HeaderName, value: &[u8]) -> HeaderValue {
    let value = HeaderValue::from_bytes(value).expect("digits are a value");
    headers.insert(name, value.clone());
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(lines: &[(&'static str, &str)]) -> (Headers, String) {
        let lines = lines.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        let mut context = Context::new(lines.collect::<Headers>());
        let id = mark(&mut context, 0.0);
        (context.headers().clone(), id.to_str().unwrap().to_owned())
    }

    fn traceparent(headers: &Headers) -> &str {
        headers[TRACEPARENT].to_str().unwrap()
    }

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    #[test]
    fn a_trace_goes_on_with_a_span_of_its_own() {
        let came = format!("00-{TRACE}-b7ad6b7169203331-01");
        let (headers, id) = marked(&[("traceparent", &came), ("tracestate", "a=1")]);
        let parts: Vec<_> = traceparent(&headers).split('-').collect();
        assert_eq!((parts[0], parts[1], parts[3]), ("00", TRACE, "01"));
        assert!(parts[2] != "b7ad6b7169203331" && parts[2].len() == 16, "{parts:?}");
        assert_eq!((headers[TRACESTATE].to_str().unwrap(), &*id), ("a=1", TRACE));
        let later = format!("cc-{TRACE}-b7ad6b7169203331-01-more");
        assert!(traceparent(&marked(&[("traceparent", &later)]).0).contains(TRACE));
    }

    #[test]
    fn what_is_no_trace_is_not_gone_on_with() {
        for came in [
            String::new(),
            "00".to_owned(),
            format!("00-{TRACE}-b7ad6b7169203331"),
            format!("00-{TRACE}-b7ad6b7169203331-01-more"),
            format!("ff-{TRACE}-b7ad6b7169203331-01"),
            format!("00-{}-b7ad6b7169203331-01", TRACE.to_uppercase()),
            format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{TRACE}x-b7ad6b716920333-01"),
            format!("00_{TRACE}-b7ad6b7169203331-01"),
        ] {
            let (headers, id) = marked(&[("traceparent", &came), ("tracestate", "a=1")]);
            let trace = traceparent(&headers);
            assert!(!trace.contains(TRACE) && trace.len() == 55, "{came:?}: {trace}");
            assert!(!headers.contains_key(TRACESTATE), "{came:?}");
            assert_eq!(id, trace[3..35], "{came:?}");
        }
    }

    #[test]
    fn an_id_that_is_fit_for_a_log_is_kept() {
        assert_eq!(marked(&[("x-request-id", "a-1:B")]).1, "a-1:B");
        for bad in ["", "a b", "a\tb", "\"", &"x".repeat(129), "<script>"] {
            let (headers, id) = marked(&[("x-request-id", bad)]);
            assert_ne!(id, bad);
            assert_eq!(headers[REQUEST_ID].to_str().unwrap(), id);
        }
    }
}
