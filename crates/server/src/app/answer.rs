//! Calls that no HTTP request carries: those of live connections, of hosted programs and of queries
//! that are followed. They are gated, observed and run like those of every protocol.
//!
//! | a call | answered |
//! |---|---|
//! | of a method that is there | by its service, through `request/run_call.rs` |
//! | of a method that is not | UNIMPLEMENTED, which names those that are; *not run* |
//! | of a command, sent as a query | FAILED_PRECONDITION; *not run* |
//! | of plain HTTP | by the route at its path, or 404 |
//!
//! A command whose deadline passes goes on, so what its caller is told then is *unknown*.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use futures_util::TryFutureExt;
use tidewire_live::{AnswerFuture, CallFailure};
use tidewire_service::{
    Body, Call, Codec, Error, Frame, Frames, Head, HttpTarget, Messages, Outcome, Phase, Reply,
    Result, Target,
};

use crate::app::App;
use crate::request::admission::admitted;
use crate::request::deadline::Deadline;
use crate::request::failure::is_late;
use crate::request::failure_log::log;
use crate::request::observe::Watch;
use crate::request::run_call::run;
use crate::request::single_message::whole_reply;
use crate::services::entry::Entry;
use crate::services::routes;

/// The answer to a call that is not run.
pub(crate) fn error_answer(error: Error) -> AnswerFuture {
    Box::pin(std::future::ready(Err(CallFailure::not_run(error))))
}

impl App {
    /// Answers a call that no request of HTTP carries: through the gates, and told to whoever
    /// observes.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        mut head: Head,
        body: Body,
        codec: Codec,
        is_command: bool,
    ) -> Result<Reply, CallFailure> {
        let watch = Watch::begin(&self.observers, &self.stop, &mut head);
        watch.phase(Phase::Gates);
        let admitted = admitted(self.gates_of(&head.target), &mut head, false).await;
        let (call, guards) = Call::from_head(head, body);
        let watch = watch.keep(guards, call.context.principal());
        let outcome = match admitted {
            Ok(()) => {
                watch.phase(Phase::Handler);
                self.run_admitted(call.with_codecs(codec, codec), is_command).await
            }
            Err(error) => Err(CallFailure::not_run(error)),
        };
        observed(watch, outcome)
    }

    /// Runs a call that was let pass: from now on, and its answer is awaited.
    pub(crate) fn run_admitted(self: &Arc<Self>, mut call: Call, is_command: bool) -> AnswerFuture {
        let entry = match &call.target {
            Target::Method(method) => self.methods.find(&method.path),
            Target::Http(http) => {
                let (service, target) = match self.routes.find(&http.method, &http.uri) {
                    Ok(routes::RouteMatch::Service(service, params)) => {
                        let target = HttpTarget::new(http.method.clone(), http.uri.clone());
                        (service, target.with_params(params))
                    }
                    Ok(routes::RouteMatch::Mounted(service, uri)) => {
                        let uri = uri.map_or_else(|| http.uri.clone(), |uri| *uri);
                        (service, HttpTarget::new(http.method.clone(), uri))
                    }
                    Ok(_) => {
                        let text = format!("nothing is at {}", http.uri.path());
                        return error_answer(Error::not_found(text));
                    }
                    Err(error) => return error_answer(error),
                };
                call.target = Target::Http(target);
                match std::mem::take(&mut call.body).limit(self.limits.body_bytes_max) {
                    Ok(body) => call.body = body,
                    Err(error) => return error_answer(error),
                }
                return Box::pin(run(&**service, call, None).outcome().map_err(CallFailure::from));
            }
            _ => None,
        };
        let Some(entry) = entry else {
            return error_answer(self.methods.unknown(&call.describe()));
        };
        if !entry.method.is_query() && !is_command {
            let text = format!("{} is a command, and came as a query", entry.method.path);
            return error_answer(Error::failed_precondition(text));
        }
        if entry.method.kind.client_streams() || !matches!(call.body, Body::Stream(_)) {
            return self.run_method(&entry, call);
        }
        let app = Arc::clone(self);
        let entry = entry.into_owned();
        Box::pin(async move {
            app.read_message(&mut call).await.map_err(CallFailure::not_run)?;
            app.run_method(&entry, call).await
        })
    }

    fn run_method(&self, entry: &Entry, call: Call) -> AnswerFuture {
        let max = self.limits.message_bytes_max;
        if call.body.len().is_some_and(|bytes| bytes > max) {
            let text = format!("a message is over limits.message_bytes_max = {max} bytes");
            return error_answer(Error::resource_exhausted(text));
        }
        let method = entry.method.clone();
        let command = self.commands.command(&method);
        let is_unary_command = command.is_some();
        let running = run(&*entry.service, call, command);
        Box::pin(async move {
            let outcome = match running.outcome().await {
                Ok(reply) if !method.kind.server_streams() && reply.body.len().is_none() => {
                    Box::pin(whole_reply(reply)).await
                }
                outcome => outcome,
            };
            outcome.map_err(|error| {
                log(&error, &method.path);
                let outcome = match error.outcome() {
                    // Said by this server of this call; what a handler's own calls became is not.
                    Outcome::NotRun if !error.is_upstream() => Outcome::NotRun,
                    // A program that ended in it, say.
                    Outcome::Unknown if is_unary_command && !error.is_upstream() => {
                        Outcome::Unknown
                    }
                    _ if is_unary_command && is_late(&error) => Outcome::Unknown,
                    _ => Outcome::Answered,
                };
                CallFailure { error, outcome }
            })
        })
    }

    /// Reads the one message of a call: large ones come in pieces.
    async fn read_message(&self, call: &mut Call) -> Result<()> {
        match Deadline::of_call(&call.context) {
            Some(deadline) => tokio::time::timeout_at(deadline.at, call.message())
                .await
                .unwrap_or_else(|_| Err(deadline.error()))?,
            None => call.message().await?,
        };
        Ok(())
    }
}

/// Tells who observes what became of a call, at the end of its answer.
fn observed(watch: Watch, outcome: Result<Reply, CallFailure>) -> Result<Reply, CallFailure> {
    watch.phase(Phase::FirstByte);
    let mut reply = match outcome {
        Ok(reply) => reply,
        Err(failed) => {
            watch.failed(&failed.error);
            watch.over();
            return Err(failed);
        }
    };
    reply.body = match reply.body {
        Body::Stream(frames) => Body::batches(ObservedItems { frames, watch }),
        whole => {
            watch.sent(whole.len().unwrap_or_default());
            watch.over();
            whole
        }
    };
    Ok(reply)
}

/// The items of an answer that is observed.
struct ObservedItems {
    frames: Pin<Box<dyn Frames>>,
    watch: Watch,
}

impl ObservedItems {
    fn saw(&self, frame: Option<&Result<Frame>>) {
        match frame {
            Some(Ok(Frame::Data(item))) => self.watch.sent(item.len()),
            Some(Ok(Frame::Trailers(_))) => {}
            Some(Err(error)) => {
                self.watch.failed(error);
                self.watch.over();
            }
            None => self.watch.over(),
        }
    }
}

impl futures_core::Stream for ObservedItems {
    type Item = Result<Frame>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Self::Item>> {
        let frame = ready!(self.frames.as_mut().poll_next(cx));
        self.saw(frame.as_ref());
        Poll::Ready(frame)
    }
}

impl Frames for ObservedItems {
    fn poll_messages(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        messages: &mut Messages,
    ) -> Poll<Option<Result<Frame>>> {
        let before = messages.payload_bytes();
        let frame = self.frames.as_mut().poll_messages(cx, messages);
        self.watch.sent(messages.payload_bytes() - before);
        let frame = ready!(frame);
        self.saw(frame.as_ref());
        Poll::Ready(frame)
    }
}
