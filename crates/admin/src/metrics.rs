//! `/metrics`: all counts, as Prometheus reads them, or as OpenMetrics where that is asked for.

use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use tidewire_server::Handle;
use tidewire_service::{Context, Reply};
use tidewire_telemetry::{Exposition, Format};

use crate::Admin;

/// The text of `/metrics`.
pub(crate) fn text(admin: &Admin, handle: &Handle, context: &Context) -> Reply {
    let accept = context.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::asked_by(accept.unwrap_or_default());
    let mut text = Exposition::new(format);
    admin.metrics.expose(&mut text);
    let usage = handle.usage();
    let mut one = |name, kind, about, value: u64| {
        text.family(name, kind, about);
        text.sample("", &[], value);
    };
    one("tidewire_ready", "gauge", "Whether it takes calls.", handle.is_ready().into());
    one(
        "tidewire_connections_open",
        "gauge",
        "Connections that are open.",
        usage.connections_open as u64,
    );
    one(
        "tidewire_connections_accepted_total",
        "counter",
        "Connections that were accepted.",
        usage.connections_accepted,
    );
    one(
        "tidewire_calls_waiting",
        "gauge",
        "Calls that wait for a place.",
        usage.calls_waiting as u64,
    );
    one(
        "tidewire_commands_running",
        "gauge",
        "Commands that run in tasks of the server.",
        usage.commands_running as u64,
    );
    let stats = admin.graph.stats();
    one("tidewire_memo_bytes", "gauge", "What kept values take.", stats.bytes as u64);
    one("tidewire_memo_nodes", "gauge", "Values, and their dependencies.", stats.nodes as u64);
    one("tidewire_memo_started_total", "counter", "Computations that began.", stats.started);
    one("tidewire_memo_joined_total", "counter", "Callers who joined one.", stats.joined);
    one("tidewire_memo_verified_total", "counter", "Values found unchanged.", stats.verified);
    one("tidewire_memo_removed_total", "counter", "Values that went.", stats.removed);
    text.family("tidewire_limit_reached_total", "counter", "How often each bound was reached.");
    for (bound, times) in &usage.reached {
        text.sample("", &[("limit", bound.key().to_owned())], times);
    }
    let content_type = HeaderValue::from_static(format.content_type());
    let mut reply = Reply::text(text.into_text());
    reply.headers.insert(CONTENT_TYPE, content_type);
    reply
}
