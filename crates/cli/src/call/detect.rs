//! What a server speaks: TLS or not, gRPC or not.
//!
//! ```text
//! http:  health by gRPC over HTTP/2 ─ answered ─▶ gRPC, or HTTP/2 without it
//!                                   └ broken ───▶ GET over HTTP/1.1 ─ answered ─▶ HTTP/1.1
//!                                                                   └ broken ───▶ TLS? ─▶ https, or say so
//! https: the same, the version of HTTP being chosen in the handshake
//! ```
//!
//! The questions change nothing on the server and carry none of the caller's headers.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use tidewire::http;
use tidewire::service::Spec;
use tidewire::service::StreamKind;
use tidewire::{Call, Code, Codec, Context, Error, Service};
use tidewire_client::{HttpVersion, Protocol};

use super::outcome::{UNREACHABLE, exit_code};
use super::printable::printable;
use super::reach::Reach;
use super::target::Target;
use super::watch::{Watch, WatchHistory};
use crate::failure::Failure;

/// A server, and what it speaks.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) url: String,
    /// Whether it answers gRPC, which needs HTTP/2.
    pub(crate) speaks_grpc: bool,
    /// Which HTTP it is spoken with where TLS does not choose.
    pub(crate) http: HttpVersion,
    /// Whether its URL is one of the live protocol.
    pub(crate) is_live: bool,
}

impl Server {
    /// A server of which nothing is asked.
    pub(crate) fn at(url: &str) -> Self {
        Self { url: url.to_owned(), speaks_grpc: false, http: HttpVersion::Auto, is_live: false }
    }
}

/// Finds out what a server speaks.
pub(crate) async fn detect(
    target: &Target,
    reach: &Reach,
    watch: &Watch,
) -> Result<Server, Failure> {
    let urls = target.urls();
    if let [url] = &urls[..]
        && target.is_live()
    {
        return Ok(Server { is_live: true, ..Server::at(url) });
    }
    let mut first = None;
    for url in &urls {
        let answer = match ask(url, reach).await {
            // Without a port the two URLs are two places.
            Err(_) if target.has_no_port() && urls.last() != Some(url) => continue,
            answer => answer?,
        };
        match answer {
            Answer::Speaks(server) => {
                let grpc = if server.speaks_grpc { "gRPC" } else { "HTTP without gRPC" };
                watch.note(&format!("{url} speaks {grpc}"));
                return Ok(server);
            }
            Answer::Broken(error) if first.is_none() => first = Some(error),
            Answer::Broken(_) => {}
        }
    }
    let error = first.unwrap_or_else(|| Error::unavailable("the server does not answer"));
    Err(explain(target, reach, &error).await)
}

enum Answer {
    Speaks(Server),
    /// It is there and speaks something else.
    Broken(Error),
}

/// Asks at one URL; an error when nobody is there.
async fn ask(url: &str, reach: &Reach) -> Result<Answer, Failure> {
    let (seen, error) = health(url, reach).await?;
    if seen.status.is_some() {
        let speaks_grpc = seen.content_type.starts_with("application/grpc");
        let http = if url.starts_with("https:") { HttpVersion::Auto } else { HttpVersion::Http2 };
        let server = Server { speaks_grpc, http, ..Server::at(url) };
        return Ok(Answer::Speaks(server));
    }
    let Some(error) = error else {
        return Err(unreachable(&Error::unavailable("the server does not answer")));
    };
    if !seen.is_connected || error.code() == Code::DeadlineExceeded {
        return Err(unreachable(&error));
    }
    let (seen, plain) = get(url, reach).await?;
    if seen.status.is_some() {
        let server = Server { http: HttpVersion::Http1, ..Server::at(url) };
        return Ok(Answer::Speaks(server));
    }
    if seen.is_secured || !url.starts_with("https:") {
        return Ok(Answer::Broken(plain.unwrap_or(error)));
    }
    Ok(Answer::Broken(error))
}

/// A call of the health service by gRPC: any answer will do.
async fn health(url: &str, reach: &Reach) -> Result<(WatchHistory, Option<Error>), Failure> {
    let watch = Watch::new(false);
    let client = reach.client(url, Protocol::Grpc, HttpVersion::Auto, &watch.trace());
    let client = client.map_err(Failure::usage)?;
    let spec = Spec::dynamic("grpc.health.v1.Health", "Check", StreamKind::Unary, ["", ""]);
    let method = std::sync::Arc::new(spec);
    let call = Call::method(method, context(reach), Codec::Proto, tidewire::Body::Empty);
    let error = client.call(call).await.err();
    Ok((watch.history(), error))
}

/// A plain request over whatever HTTP is spoken but HTTP/2 without TLS.
async fn get(url: &str, reach: &Reach) -> Result<(WatchHistory, Option<Error>), Failure> {
    let watch = Watch::new(false);
    let client = reach.client(url, Protocol::Connect, HttpVersion::Auto, &watch.trace());
    let client = client.map_err(Failure::usage)?;
    let uri = http::Uri::from_static("/");
    let call = Call::http(http::Method::HEAD, uri, context(reach), tidewire::Body::Empty);
    let error = client.call(call).await.err();
    Ok((watch.history(), error))
}

fn context(reach: &Reach) -> Context {
    let patience = reach.deadline.map_or(PATIENCE, |deadline| deadline.min(PATIENCE));
    Context::default().with_deadline(Instant::now() + patience)
}

fn unreachable(error: &Error) -> Failure {
    let code = match error.code() {
        Code::DeadlineExceeded => exit_code(Code::DeadlineExceeded),
        _ => UNREACHABLE,
    };
    Failure { error: anyhow!(printable(error.message()).into_owned()), code }
}

/// Says what a server that is there speaks instead.
async fn explain(target: &Target, reach: &Reach, error: &Error) -> Failure {
    let urls = target.urls();
    let url = urls.first().map(String::as_str).unwrap_or_default();
    if let Some(place) = url.strip_prefix("http://")
        && target.is_certain()
    {
        let watch = Watch::new(false);
        if let Ok(client) = reach.unverified(&format!("https://{place}"), &watch.trace()) {
            let uri = http::Uri::from_static("/");
            let call = Call::http(http::Method::HEAD, uri, context(reach), tidewire::Body::Empty);
            let _ = client.call(call).await;
        }
        let seen = watch.history();
        if seen.is_secured {
            let what = if seen.alpn.as_deref() == Some("h2") { "gRPC" } else { "HTTP" };
            let text = format!("the server speaks {what} only over TLS; write https://{place}");
            return Failure { error: anyhow!(text), code: UNREACHABLE };
        }
    }
    unreachable(error)
}

/// How long a question may take.
const PATIENCE: Duration = Duration::from_secs(5);
