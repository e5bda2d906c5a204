//! Passing requests to real upstreams, and all the ways in which those misbehave.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

mod clock;
mod commands;
mod grpc;
mod interim;
mod origin;
mod pages;
mod passing;
mod rfc9111;
mod trouble;
mod upgrades;

use std::sync::{Arc, mpsc};

use http::{HeaderName, HeaderValue, Method};
use tidewire_proxy::{Upstream, UpstreamSettings};
use tidewire_service::{Body, Call, Context, Error, Headers, Peer, Reply, Service};

/// An upstream with servers at these URLs.
fn upstream(urls: &[&str]) -> Upstream {
    upstream_with(urls, |_| {})
}

fn upstream_with(urls: &[&str], change: impl FnOnce(&mut UpstreamSettings)) -> Upstream {
    let mut settings = UpstreamSettings::new("shop", urls.iter().copied());
    change(&mut settings);
    Upstream::new(settings, |client| client).unwrap()
}

fn call(method: Method, target: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Call {
    let mut map = Headers::new();
    map.insert("host", HeaderValue::from_static("shop.example"));
    for (name, value) in headers {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
    }
    let peer = Arc::new(Peer::new(Some(([192, 0, 2, 7], 1234).into())));
    let context = Context::new(map).with_peer(peer);
    Call::http(method, target.parse().unwrap(), context, body)
}

async fn get(service: &impl Service, target: &str) -> Result<String, Error> {
    text(service.call(call(Method::GET, target, &[], Body::Empty)).await?).await
}

/// The clock of a test that has one thread stands still until this is dropped.
struct StoppedClock(#[expect(dead_code, reason = "it is dropped")] mpsc::Sender<()>);

impl StoppedClock {
    fn stop() -> Self {
        tokio::time::pause();
        let (ends, ended) = mpsc::channel();
        // Beside work of this kind a paused clock does not go on by itself.
        drop(tokio::task::spawn_blocking(move || ended.recv()));
        Self(ends)
    }
}

impl Drop for StoppedClock {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

async fn text(reply: Reply) -> Result<String, Error> {
    let bytes = reply.body.collect(1 << 24).await?;
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}
