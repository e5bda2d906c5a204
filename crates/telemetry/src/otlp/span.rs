//! The observer that makes a span of each request, and what a span says.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use buffa::MessageField;
use http::Uri;
use tidewire_service::{
    Code, End, EndReason, Head, Headers, Observation, Observer, ParentSpan, Phase, Phases,
    Protocol, Service, Target,
};

use super::export::Exporter;
use super::proto::tidewire::otlp as proto;

/// The observer that makes spans of requests.
///
/// It is for servers whose requests have a place in a trace; of others there are no spans.
#[must_use = "it is an observer, and does nothing until a server has it"]
pub struct Spans(Arc<Exporter>);

impl Spans {
    /// Spans of a program called `name`, which are sent to this path of a collector.
    ///
    /// The collector is a service of plain HTTP; its deadline bounds how long it may take. Needs a
    /// runtime of tokio from the first span on.
    pub fn new(collector: impl Service, path: Uri, name: impl Into<String>) -> Self {
        Self(Arc::new(Exporter::new(collector, path, name.into())))
    }
}

impl std::fmt::Debug for Spans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Spans")
    }
}

impl Observer for Spans {
    fn begin(&self, head: &Head) -> Arc<dyn Observation> {
        match span_start(head) {
            Some(span) => Arc::new(Open { exporter: Arc::clone(&self.0), span: Mutex::new(span) }),
            None => Arc::new(UnsampledRequest),
        }
    }
}

/// A request of a trace that nobody wants.
struct UnsampledRequest;

impl Observation for UnsampledRequest {
    fn phases(&self) -> Phases {
        Phases::NONE
    }

    fn end(&self, _: &End) {}
}

/// A request that is not over.
struct Open {
    exporter: Arc<Exporter>,
    span: Mutex<SpanStart>,
}

/// What is known of a request so far.
struct SpanStart {
    span: proto::Span,
    is_method: bool,
}

fn span_start(head: &Head) -> Option<SpanStart> {
    let Head { target, context, .. } = head;
    let mut span = placed(context.headers())?;
    let parent = context.extensions().get::<ParentSpan>();
    if let Some(id) = parent.and_then(|ParentSpan(digits)| bytes(std::str::from_utf8(digits).ok()?))
    {
        span.parent_span_id = id;
        span.flags |= PARENT_IS_KNOWN | PARENT_IS_REMOTE;
    }
    span.kind = SERVER;
    span.start_nanoseconds = now();
    (span.name, span.attributes) = name_and_attributes(target);
    if let Some(peer) = context.peer().and_then(|peer| peer.address) {
        span.attributes.push(attribute("client.address", peer.ip().to_string()));
    }
    let protocol = context.protocol().map_or("inside", Protocol::as_str);
    span.attributes.push(attribute("rpc.system", protocol));
    Some(SpanStart { span, is_method: matches!(target, Target::Method(_)) })
}

impl Observation for Open {
    fn phase(&self, phase: Phase) {
        let name = match phase {
            Phase::Queued => "queued",
            Phase::Gates => "gates",
            Phase::Handler => "handler",
            Phase::Memo => "memo",
            Phase::Computed => "computed",
            Phase::FirstByte => "first byte",
            Phase::Written => "written",
            _ => return,
        };
        let event =
            proto::Event { nanoseconds: now(), name: name.to_owned(), ..Default::default() };
        self.span.lock().span.events.push(event);
    }

    fn end(&self, end: &End) {
        let mut begun = self.span.lock();
        let is_method = begun.is_method;
        let mut span = std::mem::take(&mut begun.span);
        drop(begun);
        span.end_nanoseconds = now().max(span.start_nanoseconds);
        if let Some(program) = &end.program {
            span.attributes.push(attribute("tidewire.program", &**program));
        }
        if let Some(status) = end.status {
            let status =
                proto::Value { number: Some(status.as_u16().into()), ..Default::default() };
            span.attributes.push(valued("http.response.status_code", status));
        }
        if is_method {
            let code = end.code.map_or("ok", Code::as_str);
            span.attributes.push(attribute("rpc.response.status_code", code));
        }
        if is_fault(end) {
            let message = end.code.map_or("", Code::as_str).to_owned();
            let status = proto::Status { message, code: ERROR, ..Default::default() };
            span.status = MessageField::some(status);
        }
        self.exporter.send(span);
    }
}

/// Whether this server is at fault: what a caller did wrong is not an error (semantic conventions
/// of HTTP and RPC).
fn is_fault(end: &End) -> bool {
    use Code::{DataLoss, DeadlineExceeded, Internal, Unavailable, Unimplemented, Unknown};
    matches!(end.how, EndReason::Panicked | EndReason::Deadline | EndReason::Drained)
        || end.status.is_some_and(|status| status.is_server_error())
        || matches!(
            end.code,
            Some(Unknown | DeadlineExceeded | Unimplemented | Internal | Unavailable | DataLoss)
        )
}

/// What a span is called, of few names, and what says more.
fn name_and_attributes(target: &Target) -> (String, Vec<proto::Attribute>) {
    match target {
        Target::Method(method) => {
            let name = method.path.trim_start_matches('/').to_owned();
            let service = attribute("rpc.service", method.service.to_string());
            (name, vec![service, attribute("rpc.method", method.method.to_string())])
        }
        Target::Http(http) => {
            let verb = http.method.to_string();
            let path = attribute("url.path", http.uri.path());
            (verb.clone(), vec![attribute("http.request.method", verb), path])
        }
        _ => ("unknown".to_owned(), Vec::new()),
    }
}

/// The place of a request in its trace, where that is sampled: of the header that the server made.
fn placed(headers: &Headers) -> Option<proto::Span> {
    let text = headers.get("traceparent")?.to_str().ok()?;
    let flags = u8::from_str_radix(text.get(53..55)?, 16).ok()?;
    let span = proto::Span {
        trace_id: bytes(text.get(3..35)?)?,
        span_id: bytes(text.get(36..52)?)?,
        trace_state: headers.get("tracestate").and_then(|it| it.to_str().ok()).unwrap_or("").into(),
        flags: flags.into(),
        ..Default::default()
    };
    (flags & SAMPLED != 0).then_some(span)
}

/// The bytes that hexadecimal digits are.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = (0..digits.len()).step_by(2).map(|at| digits.get(at..at + 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

pub(crate) fn attribute(key: &str, value: impl Into<String>) -> proto::Attribute {
    valued(key, proto::Value { text: Some(value.into()), ..Default::default() })
}

fn valued(key: &str, value: proto::Value) -> proto::Attribute {
    let value = MessageField::some(value);
    proto::Attribute { key: key.to_owned(), value, ..Default::default() }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().try_into().unwrap_or(u64::MAX)
}

const SERVER: i32 = 2;
const ERROR: i32 = 2;
const SAMPLED: u8 = 1;
const PARENT_IS_KNOWN: u32 = 0x100;
const PARENT_IS_REMOTE: u32 = 0x200;
