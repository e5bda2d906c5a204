//! The way of spans to the collector: a bounded queue, and the one task that sends.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use buffa::{Message, MessageField};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Uri};
use tidewire_service::{Call, Context, Error, Headers, Result, Service};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::proto::tidewire::otlp as proto;
use super::span::attribute;

/// Where spans are put when they are over.
pub(crate) struct Exporter {
    collector: Arc<Collector>,
    /// Made with the first span, since there is a runtime then.
    queue: OnceLock<Queue>,
    dropped: AtomicU64,
}

/// Who is sent to, and what is said of this program.
struct Collector {
    service: Arc<dyn Service>,
    path: Uri,
    resource: proto::Resource,
}

struct Queue {
    sender: mpsc::Sender<proto::Span>,
    /// The task that sends; it ends with this.
    task: AbortHandle,
}

impl Exporter {
    pub(crate) fn new(service: impl Service, path: Uri, name: String) -> Self {
        let name = attribute("service.name", name);
        let resource = proto::Resource { attributes: vec![name], ..Default::default() };
        Self {
            collector: Arc::new(Collector { service: Arc::new(service), path, resource }),
            queue: OnceLock::new(),
            dropped: AtomicU64::new(0),
        }
    }

    /// Puts a span into the queue, or drops it where that is full.
    pub(crate) fn send(&self, span: proto::Span) {
        let queue = self.queue.get_or_init(|| {
            let (sender, receiver) = mpsc::channel(QUEUE_MAX);
            let task = tokio::spawn(run(Arc::clone(&self.collector), receiver));
            Queue { sender, task: task.abort_handle() }
        });
        if queue.sender.try_send(span).is_err() {
            let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
            if dropped.is_power_of_two() {
                tracing::warn!(dropped, "spans were dropped: traces.endpoint does not keep up");
            }
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Sends spans as they come, many at once.
async fn run(collector: Arc<Collector>, mut spans: mpsc::Receiver<proto::Span>) {
    let mut batch = Vec::new();
    while spans.recv_many(&mut batch, BATCH_MAX).await > 0 {
        // The rest of this second may come along.
        let rest = async {
            while batch.len() < BATCH_MAX {
                let Some(span) = spans.recv().await else { return };
                batch.push(span);
            }
        };
        // What was received before the time is over is in the batch.
        let _ = tokio::time::timeout(SEND_INTERVAL, rest).await;
        let count = batch.len();
        match collector.export(std::mem::take(&mut batch)).await {
            Ok(None) => {}
            Ok(Some(refused)) => {
                let proto::PartialSuccess { rejected_spans, error_message, .. } = refused;
                tracing::warn!(rejected_spans, count, "traces.endpoint: {error_message}");
            }
            Err(error) => {
                tracing::warn!(%error, count, "traces.endpoint did not take spans; they are dropped");
            }
        }
    }
}

impl Collector {
    /// Sends spans; what of them was refused.
    async fn export(&self, spans: Vec<proto::Span>) -> Result<Option<proto::PartialSuccess>> {
        let call = Call::http(Method::POST, self.path.clone(), head(), self.encoded(spans));
        let reply = self.service.call(call).await?;
        let status = reply.status;
        let body = reply.body.collect(ANSWER_BYTES_MAX).await?;
        if !status.is_success() {
            return Err(Error::unavailable(format!("answered {status}")));
        }
        // A collector may answer in its own words; that it took the spans is said by the status.
        let reply = proto::ExportReply::decode_from_slice(&body).unwrap_or_default();
        let refused = reply.partial_success.into_option();
        Ok(refused.filter(|refused| refused.rejected_spans > 0))
    }

    fn encoded(&self, spans: Vec<proto::Span>) -> Vec<u8> {
        let name = "tidewire".to_owned();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let scope = MessageField::some(proto::Scope { name, version, ..Default::default() });
        let of_scope = proto::ScopeSpans { scope, spans, ..Default::default() };
        let resource = MessageField::some(self.resource.clone());
        let of_resource =
            proto::ResourceSpans { resource, scope_spans: vec![of_scope], ..Default::default() };
        let request =
            proto::ExportRequest { resource_spans: vec![of_resource], ..Default::default() };
        request.encode_to_vec()
    }
}

fn head() -> Context {
    let mut headers = Headers::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
    Context::new(headers)
}

const QUEUE_MAX: usize = 8192;
const BATCH_MAX: usize = 512;
const SEND_INTERVAL: Duration = Duration::from_secs(1);
const ANSWER_BYTES_MAX: usize = 1 << 20;
