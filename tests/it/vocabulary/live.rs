//! Asking over the live protocol, with the outcome as HTTP would tell it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidewire::http::{Method, Uri};
use tidewire::service::{Idempotency, Spec, StreamKind};
use tidewire::{Call, Client, Codec, Context, Error, Headers, Reply, Service};
use tokio::time::Instant;

use super::Way;
use crate::harness::Response;

/// Asks for the thing with this name on its own connection.
pub(super) async fn ask(way: Way, address: SocketAddr, name: &str, headers: &str) -> Response {
    let scheme = if way == Way::Live { "ws" } else { "tcp" };
    let client = Client::builder(format!("{scheme}://{address}")).build().unwrap();
    match client.call(call(way, name, headers)).await {
        Ok(reply) => answered(reply).await,
        Err(error) => failed(&error),
    }
}

/// The call: `connect-timeout-ms` among the header lines is its deadline.
pub(super) fn call(way: Way, name: &str, headers: &str) -> Call {
    let mut context = Context::default();
    for line in headers.lines() {
        let (header, value) = line.split_once(": ").unwrap();
        if header == "connect-timeout-ms" {
            let left = Duration::from_millis(value.parse().unwrap());
            // By the clock that `late` moves on.
            context = context.with_deadline((Instant::now() + left).into_std());
            continue;
        }
        let header: tidewire::http::HeaderName = header.parse().unwrap();
        context.headers_mut().append(header, value.parse().unwrap());
    }
    if way == Way::LivePlain {
        let uri: Uri = format!("/plain/{name}").parse().unwrap();
        return Call::http(Method::GET, uri, context, "");
    }
    let mut spec = Spec::dynamic("test.v1.Things", "Get", StreamKind::Unary, ["", ""]);
    spec.idempotency = Idempotency::NoSideEffects;
    let message = format!(r#"{{"name":"{name}"}}"#);
    Call::method(Arc::new(spec), context, Codec::Json, message)
}

async fn answered(reply: Reply) -> Response {
    let (status, head) = (reply.status.as_u16(), lines(&reply.headers));
    let body = reply.body.collect(usize::MAX).await.unwrap().to_vec();
    Response { status, head, body }
}

fn failed(error: &Error) -> Response {
    let body = format!("{}: {}", error.code(), error.message()).into_bytes();
    Response { status: error.http_status().as_u16(), head: lines(error.headers()), body }
}

fn lines(headers: &Headers) -> String {
    let line = |(name, value): (&_, &tidewire::http::HeaderValue)| {
        format!("{name}: {}\n", value.to_str().unwrap())
    };
    headers.iter().map(line).collect()
}
