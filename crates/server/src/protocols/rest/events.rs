//! Server-Sent Events: the answer to a REST `GET` with `accept: text/event-stream`, and each new
//! one.
//!
//! | the answer | response |
//! |---|---|
//! | says when it ends, or fails and says so | 200: an event now, and one for each change (`app/follow.rs`) |
//! | is what the client has that comes back | 200, and only what changes from now on |
//! | never changes | 200 with its event; 204 to whoever comes back with it, which ends the asking |
//! | does not say when it ends | 406 |
//! | fails | as over REST; a browser then does not come back |
//!
//! A drain ends the stream, and the client comes back to whoever takes connections then; when is
//! left to chance a little, so that not all come back at once.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tidewire_rest::{Binding, COMMENT, EVENTS, failed_event, retry_event};
use tidewire_service::{
    Body, Call, Error, FollowOptions, Freshness, Lifetime, Reply, Result, WatchMode,
};

use crate::app::App;
use crate::app::follow::{FollowStep, FollowedQuery};
use crate::gate;
use crate::protocols::rest::compress::contains;
use crate::request::failure_log::log;

/// A stream of events.
struct Events {
    binding: Arc<Binding>,
    /// What is sent before anything is waited for.
    first: Option<Bytes>,
    /// `None` once the last event was sent.
    following: Option<FollowedQuery>,
}

/// The response to a client that wants the answers to a query as events.
///
/// # Errors
/// Those of the first answer, and 406 where nothing would tell of another.
pub(crate) async fn response(
    app: &Arc<App>,
    binding: &Arc<Binding>,
    mut call: Call,
) -> Result<Response<Body>> {
    let held = binding.held_event(call.context.headers());
    call.context.set_held(held.into_iter().collect());
    call.context.set_watching(WatchMode::Begins);
    let query = call.buffered().await?;
    let answer = app.run_admitted(query.clone().into_call(), false).await;
    let answer = answer.map_err(|failed| failed.error);
    let freshness = match &answer {
        Ok(reply) => reply.freshness.clone(),
        Err(error) if error.freshness().is_known() => error.freshness().clone(),
        Err(_) => return answer.map(|_| Response::default()),
    };
    if !freshness.is_known() {
        let text = "nothing tells when this answer changes; ask for application/json";
        return Err(Error::failed_precondition(text).with_http_status(StatusCode::NOT_ACCEPTABLE));
    }
    let is_held = answer.as_ref().is_ok_and(Reply::is_unchanged);
    let is_last = freshness.lifetime() == Lifetime::Immutable;
    let following = match is_last {
        true if is_held => {
            let mut response = Response::new(Body::Empty);
            *response.status_mut() = StatusCode::NO_CONTENT;
            return Ok(response);
        }
        true => None,
        false => Some(app.follow(query, FollowOptions::default(), Some(freshness))?),
    };
    let mut first = retry_event(retry()).to_vec();
    if !is_held {
        first.extend_from_slice(&event(binding, answer)?);
    }
    let first = Some(first.into());
    let events = Events { binding: Arc::clone(binding), first, following };
    Ok(with_headers(Response::new(Body::stream(futures_util::stream::unfold(
        events,
        |mut events| async move { Some((Ok(events.next().await?), events)) },
    )))))
}

impl Events {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let following = self.following.as_mut()?;
        let Ok(next) = tokio::time::timeout(KEEP_ALIVE, following.next()).await else {
            return Some(Bytes::from_static(COMMENT));
        };
        let FollowStep::Answer(answer) = next else {
            self.following = None;
            return None;
        };
        if answer.as_ref().is_err_and(|error| !error.freshness().is_known()) {
            self.following = None;
        }
        Some(event(&self.binding, answer).unwrap_or_else(|error| {
            self.following = None;
            error_event(&self.binding, &error)
        }))
    }
}

/// An answer as an event.
///
/// # Errors
/// Of a reply that has no JSON form.
fn event(binding: &Binding, answer: Result<Reply>) -> Result<Bytes> {
    let reply = match answer {
        Ok(reply) => reply,
        Err(error) => return Ok(error_event(binding, &error)),
    };
    let Reply { body, freshness, .. } = reply;
    let message = match body {
        Body::Full(message) => message,
        _ => Bytes::new(),
    };
    let printed = match Freshness::keeper(&freshness, &message) {
        Some(keeper) => binding.print_kept(message, &**keeper)?,
        None => binding.print(message)?,
    };
    Ok(binding.event(&printed.body, freshness.validator()))
}

fn error_event(binding: &Binding, error: &Error) -> Bytes {
    log(error, &binding.method().path);
    failed_event(&binding.options().errors.print(error).body)
}

/// Says that nobody on the way keeps, changes or holds up what comes (RFC 9111, section 5.2.2;
/// nginx).
fn with_headers(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENTS));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// Lets caches know that there are two kinds of responses, where they may answer without asking.
pub(crate) fn vary(binding: &Binding, response: &mut Response<Body>) {
    let says = response.headers().get(CACHE_CONTROL);
    let is_cached = says.is_some_and(|value| contains(value.as_bytes(), b"max-age"));
    if is_cached && binding.is_followable() {
        gate::vary::vary(response.headers_mut(), "accept");
    }
}

/// When a client comes back, in milliseconds: at random from one second to five.
fn retry() -> u64 {
    1_000 + RandomState::new().hash_one(0_u8) % 4_000
}

/// The longest silence: proxies end a connection after one of 30 s or 60 s.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
