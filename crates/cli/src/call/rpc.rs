//! One call of a method: JSON in, JSON out, whichever side streams.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use tidewire::server::TokioClock;
use tidewire::service::{FollowOptions, Frame, Query, StreamKind, follow};
use tidewire::{Body, Call, Code, Codec, Context, Error, Method, Service};
use tidewire_client::{Client, HttpVersion, Protocol};

use super::detect::Server;
use super::input::{self, Input};
use super::outcome;
use super::output::Output;
use super::printable::printable;
use super::reach::Reach;
use super::watch::Watch;
use crate::broken_pipe::has_no_reader;
use crate::catalog::Catalog;
use crate::failure::Failure;

/// A call that is ready to be made.
pub(crate) struct Rpc<'a> {
    pub(crate) server: &'a Server,
    /// `None` is what the server speaks.
    pub(crate) protocol: Option<Protocol>,
    pub(crate) reach: &'a Reach,
    pub(crate) known: &'a Catalog,
    pub(crate) method: &'a Method,
    pub(crate) watch: &'a Watch,
    pub(crate) out: &'a Output,
    /// Whether new answers are waited for.
    pub(crate) follows: bool,
}

impl Rpc<'_> {
    /// Makes the call and prints what comes back.
    pub(crate) async fn run(&self, input: &Input) -> Result<ExitCode, Failure> {
        let wrong = Arc::new(OnceLock::new());
        let body = self.body(input, &wrong)?;
        let protocol = self.protocol.unwrap_or(match self.server {
            _ if self.follows => Protocol::Live,
            Server { is_live: true, .. } => Protocol::Live,
            Server { speaks_grpc: true, .. } => Protocol::Grpc,
            _ => Protocol::Connect,
        });
        let outcome = match body {
            // What was refused because of its content type was not looked at: it may be sent again.
            Body::Full(message) if self.protocol.is_none() && protocol == Protocol::Connect => {
                let first = self.once(protocol, Body::Full(message.clone())).await;
                let refused =
                    self.watch.history().status.is_some_and(|status| status.as_u16() == 415);
                match first {
                    Err(CallError::Call(_)) if refused => {
                        self.watch.note("not Connect; trying gRPC-Web");
                        self.once(Protocol::GrpcWeb, Body::Full(message)).await
                    }
                    outcome => outcome,
                }
            }
            body => self.once(protocol, body).await,
        };
        self.watch.show_timing();
        if let Err(CallError::Call(error)) = &outcome {
            self.out.head(self.watch, error.headers())?;
            self.out.trailers(self.watch, error.trailers())?;
        }
        match outcome {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(CallError::Output(error)) if has_no_reader(&error) => Ok(ExitCode::SUCCESS),
            Err(CallError::Output(error)) => Err(error.into()),
            Err(CallError::Usage(error)) => Err(Failure::usage(error)),
            Err(CallError::Call(error)) => match wrong.get() {
                Some(why) => Err(Failure::usage(anyhow!("{why}"))),
                None if protocol == Protocol::Live => {
                    Err(outcome::live_failure(&error, self.known))
                }
                None => Err(outcome::failure(&error, self.watch, Some(self.known))),
            },
        }
    }

    /// The request; `wrong` is set when what a stream is made of turns out to be wrong.
    fn body(&self, input: &Input, wrong: &Arc<OnceLock<String>>) -> Result<Body, Failure> {
        let known = self.known;
        let type_name = &*self.method.input;
        let follows = matches!(input, Input::Nothing | Input::Standard);
        if !self.method.kind.client_streams() {
            let messages = input.messages(known, type_name).map_err(Failure::usage)?;
            let is_given = *input != Input::Nothing;
            let path = self.method.path.trim_start_matches('/');
            let message = input::one(messages, is_given, path).map_err(Failure::usage)?;
            return Ok(Body::Full(message.into()));
        }
        if !follows {
            let messages = input.messages(known, type_name).map_err(Failure::usage)?;
            let messages = messages.into_iter().map(|message| Ok(message.into()));
            return Ok(Body::stream(futures_util::stream::iter(messages)));
        }
        if io::stdin().is_terminal() {
            invite(self.method);
        }
        let messages = Input::follow(known.clone(), type_name.to_owned());
        let wrong = Arc::clone(wrong);
        Ok(Body::stream(futures_util::stream::unfold(
            (messages, wrong),
            |(mut messages, wrong)| async move {
                let message = messages.recv().await?;
                if let Err(error) = &message {
                    let _ = wrong.set(error.message().to_owned());
                }
                Some((message.map(Into::into), (messages, wrong)))
            },
        )))
    }

    async fn once(&self, protocol: Protocol, body: Body) -> Result<(), CallError> {
        let client = self.client(protocol).map_err(CallError::Usage)?;
        self.watch.begin();
        self.watch.note(&format!("{} by {}", self.method.path, protocol.as_str()));
        let deadline = self.reach.deadline.map(|deadline| Instant::now() + deadline);
        let context = Context::new(self.reach.headers()).with_deadline(deadline);
        let call = Call::method(self.method.clone(), context, Codec::Proto, body);
        if self.follows {
            return self.follow(client, call).await;
        }
        let mut reply = client.call(call).await.map_err(CallError::Call)?;
        self.out.head(self.watch, &reply.headers).map_err(CallError::Output)?;
        let pretty = self.method.kind == StreamKind::Unary && self.out.is_terminal();
        let mut trailers = reply.trailers;
        while let Some(frame) = next_frame(&mut reply.body).await.map_err(CallError::Call)? {
            match frame {
                Frame::Data(message) => self.print(&message, pretty)?,
                Frame::Trailers(late) => trailers = late,
            }
        }
        self.out.trailers(self.watch, &trailers).map_err(CallError::Output)
    }

    /// Prints the answer, and each that differs from the one before. A server that goes away once
    /// it has answered may come back: it is asked again until it does.
    async fn follow(&self, client: Client, call: Call) -> Result<(), CallError> {
        if !self.method.is_query() || self.method.kind != StreamKind::Unary {
            let text = "only the answers of unary queries (NO_SIDE_EFFECTS) are watched";
            return Err(CallError::Usage(anyhow!("{}: {text}", self.method.path)));
        }
        let query = call.buffered().await.map_err(CallError::Call)?;
        let client = Arc::new(client);
        let mut followed = FollowedQuery { shown: None, wait: FIRST_WAIT };
        loop {
            match self.follow_once(client.clone(), query.clone(), &mut followed).await {
                Err(CallError::Call(error)) if followed.shown.is_some() && is_away(&error) => {
                    let FollowedQuery { wait, .. } = &mut followed;
                    if *wait == FIRST_WAIT {
                        let text = error.message();
                        let text = format!("the server is away ({text}); it is waited for");
                        let _ = writeln!(io::stderr(), "{}", printable(&text));
                    }
                    tokio::time::sleep(*wait).await;
                    *wait = (*wait * 2).min(LONGEST_WAIT);
                }
                outcome => return outcome,
            }
        }
    }

    async fn follow_once(
        &self,
        client: Arc<Client>,
        query: Query,
        followed: &mut FollowedQuery,
    ) -> Result<(), CallError> {
        let pace =
            FollowOptions::default().with_timeout(self.reach.deadline.unwrap_or(WATCH_TIMEOUT));
        let mut answers = follow(client, query, pace, TokioClock);
        let mut has_freshness = false;
        while let Some(answer) = answers.next().await.map_err(CallError::Call)? {
            let reply = answer.map_err(CallError::Call)?;
            has_freshness = reply.freshness.is_known();
            followed.wait = FIRST_WAIT;
            let message = reply.body.collect(usize::MAX).await.map_err(CallError::Call)?;
            if followed.shown.as_deref() != Some(&*message) {
                self.print(&message, false)?;
                followed.shown = Some(message.to_vec());
            }
        }
        if !has_freshness {
            self.watch.note("the server does not tell when this answer changes");
        }
        Ok(())
    }

    fn client(&self, protocol: Protocol) -> anyhow::Result<Client> {
        // gRPC and bidirectional streams need HTTP/2.
        let needs_http2 = protocol == Protocol::Grpc || self.method.kind == StreamKind::Bidi;
        let http = match self.server.http {
            HttpVersion::Http1 if needs_http2 => HttpVersion::Auto,
            http => http,
        };
        let trace = self.watch.trace();
        match self.follows {
            true => self.reach.watching(&self.server.url, protocol, &trace),
            false => self.reach.client(&self.server.url, protocol, http, &trace),
        }
    }

    fn print(&self, message: &[u8], pretty: bool) -> Result<(), CallError> {
        let decoded = self.known.schema.decode(&self.method.output, Codec::Proto, message);
        let json = decoded.and_then(|message| message.encode(Codec::Json));
        let json = json.map_err(|error| {
            CallError::Call(Error::internal(format!(
                "the reply does not fit the schema: {}",
                error.message()
            )))
        })?;
        let text = String::from_utf8_lossy(&json);
        let text = if pretty { spread(&text) } else { text.into_owned() };
        self.out.write(format!("{text}\n").as_bytes()).map_err(CallError::Output)
    }
}

/// A query that is followed, over several connections.
struct FollowedQuery {
    /// The message that was printed last.
    shown: Option<Vec<u8>>,
    /// How long to wait when the server is away the next time it is asked.
    wait: Duration,
}

/// Whether an error is that of a server that may come back.
fn is_away(error: &Error) -> bool {
    error.code() == Code::Unavailable
}

/// Between two attempts to reach a server that is away.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How long an answer may take that is watched, unless said otherwise.
const WATCH_TIMEOUT: Duration = Duration::from_secs(30);

enum CallError {
    Usage(anyhow::Error),
    Call(Error),
    Output(io::Error),
}

/// The next frame of a body; `None` at its end.
pub(crate) async fn next_frame(body: &mut Body) -> tidewire::Result<Option<Frame>> {
    match body {
        Body::Empty => Ok(None),
        Body::Full(_) => match std::mem::take(body) {
            Body::Full(bytes) => Ok(Some(Frame::Data(bytes))),
            _ => Ok(None),
        },
        Body::Stream(frames) => futures_util::StreamExt::next(frames).await.transpose(),
    }
}

fn invite(method: &Method) {
    let _ = writeln!(
        io::stderr(),
        "type a {} as JSON and press Enter; Ctrl-D ends the requests",
        method.input
    );
}

/// One line of JSON over several lines, in the same order.
fn spread(json: &str) -> String {
    let mut out = String::new();
    let mut depth = 0_usize;
    let mut in_text = false;
    let mut escaped = false;
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    let mut chars = json.chars().peekable();
    while let Some(c) = chars.next() {
        if in_text {
            out.push(c);
            in_text = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            continue;
        }
        match c {
            '{' | '[' => {
                out.push(c);
                if let Some(end) = chars.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            '"' => {
                in_text = true;
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_json_is_spread_in_its_order() {
        let check = |json, expected| assert_eq!(spread(json), expected, "{json}");
        check("{}", "{}");
        check(
            r#"{"b":1,"a":[{"c":"x,{\"}"},[]]}"#,
            "{\n  \"b\": 1,\n  \"a\": [\n    {\n      \"c\": \"x,{\\\"}\"\n    },\n    []\n  ]\n}",
        );
        check(r#"{"a":"\\"}"#, "{\n  \"a\": \"\\\\\"\n}");
    }
}
