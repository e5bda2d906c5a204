//! The way in of a server with gates or observers: by its head, before its body is read.
//!
//! | request | observed | passes gates |
//! |---|---|---|
//! | a browser's question for other origins | no | no: it carries no credentials |
//! | REST, plain HTTP, a path that nothing is at | yes | yes |
//! | Connect, gRPC, gRPC-Web, an unknown method | not yet: the library that speaks them hides the outcome | yes |
//!
//! A server without any does not come here.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use tidewire_service::{Error, Gate, Head, HttpTarget, Phase, Protocol, Result, Target, admit};
use tokio::time::Instant;

use crate::connection::{Connection, ResponseBody};
use crate::isolate::panicked;
use crate::observe::{Admitted, Ended, Watch};
use crate::plain;
use crate::rest::Found;

impl Connection {
    /// Answers one request that is watched.
    pub(crate) async fn enter(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<ResponseBody>, Infallible> {
        let (mut parts, body) = request.into_parts();
        let (target, protocol) = self.target(&parts);
        let headers = std::mem::take(&mut parts.headers);
        let extensions = std::mem::take(&mut parts.extensions);
        let deadline = deadline(&headers, protocol);
        let context = plain::context(headers, extensions, protocol)
            .with_peer(Arc::clone(&self.peer))
            .with_stopping(self.stopping.clone())
            .with_deadline(deadline.map(Instant::into_std));
        let mut head = Head::new(target, context);
        let observers = if is_rpc(protocol) { &[][..] } else { &self.app.observers };
        let watch = Watch::begin(observers, &self.app.stop, &mut head);
        watch.phase(Phase::Gates);
        let admitted = pass(&self.app.gates, &mut head, deadline).await;
        let (_, mut context, guards) = head.into_parts();
        watch.keep(guards);
        parts.headers = std::mem::take(context.headers_mut());
        let verb = parts.method.clone();
        let response = match admitted {
            Err(error) => self.refuse(parts, body, protocol, &error).await?,
            Ok(()) => {
                parts.extensions = std::mem::take(context.extensions_mut());
                parts.extensions.insert(Admitted { context, watch: Arc::clone(&watch) });
                self.route(Request::from_parts(parts, body)).await?
            }
        };
        Ok(watch.response(response, &verb).map(ResponseBody::watched))
    }

    /// What a request is for, by its head.
    fn target(&self, parts: &Parts) -> (Target, Protocol) {
        let path = parts.uri.path();
        let spoken = rpc_protocol(&parts.headers);
        if self.app.methods.find(path).is_some() {
            let target = match self.app.methods.method(path) {
                Some(method) => Target::Method(method),
                None => Target::Unknown(path.into()),
            };
            return (target, spoken);
        }
        if let Found::Binding(binding, _) = self.app.rest.find(&parts.method, path) {
            return (Target::Method(binding.method.clone()), Protocol::Rest);
        }
        if self.app.routes.is_empty_at(&parts.uri) && self.is_rpc(parts) {
            return (Target::Unknown(path.into()), spoken);
        }
        let target = HttpTarget::new(parts.method.clone(), parts.uri.clone());
        (Target::Http(target), Protocol::Http)
    }
}

const fn is_rpc(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::Connect | Protocol::Grpc | Protocol::GrpcWeb)
}

/// The RPC protocol of a content type.
fn rpc_protocol(headers: &HeaderMap) -> Protocol {
    let content_type = headers.get(http::header::CONTENT_TYPE);
    let content_type = content_type.map_or(&b""[..], |value| value.as_bytes());
    if content_type.starts_with(b"application/grpc-web") {
        Protocol::GrpcWeb
    } else if content_type.starts_with(b"application/grpc") {
        Protocol::Grpc
    } else {
        Protocol::Connect
    }
}

/// Asks the gates: no longer than the caller waits, and a panic refuses.
async fn pass(gates: &[Arc<dyn Gate>], head: &mut Head, deadline: Option<Instant>) -> Result<()> {
    if gates.is_empty() {
        return Ok(());
    }
    let asked = AssertUnwindSafe(admit(gates, head)).catch_unwind();
    let asked = async { asked.await.unwrap_or_else(|panic| Err(panicked(&*panic))) };
    match deadline {
        None => asked.await,
        Some(at) => tokio::time::timeout_at(at, asked).await.unwrap_or_else(|_| {
            Err(Error::deadline_exceeded("the deadline passed while a gate decided")
                .with_cause(Ended::Deadline))
        }),
    }
}

/// How long the caller waits, as far as its headers say it well.
fn deadline(headers: &HeaderMap, protocol: Protocol) -> Option<Instant> {
    let left = match protocol {
        Protocol::Grpc | Protocol::GrpcWeb => {
            let text = headers.get("grpc-timeout")?.to_str().ok()?;
            let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
            let amount: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
            match unit {
                "H" => Duration::from_secs(amount * 3600),
                "M" => Duration::from_secs(amount * 60),
                "S" => Duration::from_secs(amount),
                "m" => Duration::from_millis(amount),
                "u" => Duration::from_micros(amount),
                "n" => Duration::from_nanos(amount),
                _ => return None,
            }
        }
        _ => {
            let text = headers.get("connect-timeout-ms")?.to_str().ok()?;
            Duration::from_millis(text.parse().ok().filter(|_| text.len() <= 10)?)
        }
    };
    Instant::now().checked_add(left)
}
