//! A plain HTTP request: the body goes out and comes back as it is.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use tidewire::http::header::{CONTENT_TYPE, HeaderValue};
use tidewire::http::{self, Uri};
use tidewire::service::Frame;
use tidewire::{Body, Call, Context, Service};
use tidewire_client::Protocol;

use super::detect::Server;
use super::outcome;
use super::output::Output;
use super::reach::Reach;
use super::rpc::next_frame;
use super::watch::Watch;
use crate::failure::Failure;

/// A request by its verb and path.
pub(crate) struct Plain {
    pub(crate) verb: http::Method,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
}

impl Plain {
    /// Sends the request and prints what comes back.
    pub(crate) async fn run(
        self,
        server: &Server,
        reach: &Reach,
        watch: &Watch,
        out: &Output,
    ) -> Result<ExitCode, Failure> {
        let client = reach
            .client(&server.url, Protocol::Connect, server.http, &watch.trace())
            .map_err(Failure::usage)?;
        let uri: Uri = self
            .path
            .parse()
            .with_context(|| format!("{} cannot be a path", self.path))
            .map_err(Failure::usage)?;
        let mut headers = reach.headers();
        if !self.body.is_empty() && !headers.contains_key(CONTENT_TYPE) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let deadline = reach.deadline.map(|deadline| Instant::now() + deadline);
        let context = Context::new(headers).with_deadline(deadline);
        let body = if self.body.is_empty() { Body::Empty } else { Body::Full(self.body.into()) };
        watch.begin();
        let answered = client.call(Call::http(self.verb, uri, context, body)).await;
        let mut reply = answered.map_err(|error| outcome::failure(&error, watch, None))?;
        out.head(watch, &reply.headers)?;
        let mut last = b'\n';
        loop {
            let frame = next_frame(&mut reply.body).await;
            match frame.map_err(|error| outcome::failure(&error, watch, None))? {
                Some(Frame::Data(chunk)) => {
                    last = chunk.last().copied().unwrap_or(last);
                    out.write(&chunk)?;
                }
                Some(Frame::Trailers(late)) => reply.trailers = late,
                None => break,
            }
        }
        if last != b'\n' && out.is_standard() {
            out.write(b"\n")?;
        }
        out.trailers(watch, &reply.trailers)?;
        watch.show_timing();
        match reply.status.as_u16() {
            500.. => Err(status_failure(reply.status, 5)),
            400.. => Err(status_failure(reply.status, 4)),
            _ => Ok(ExitCode::SUCCESS),
        }
    }
}

fn status_failure(status: http::StatusCode, code: u8) -> Failure {
    let hint = match status {
        http::StatusCode::UNAUTHORIZED => format!("; {}", outcome::CREDENTIAL),
        _ => String::new(),
    };
    Failure { error: anyhow::anyhow!("the server answered {status}{hint}"), code }
}
