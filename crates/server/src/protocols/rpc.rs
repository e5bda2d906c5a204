//! Connect, gRPC and gRPC-Web: from an agreed head to a response.
//!
//! What the protocols are as bytes is the crate `wire`; here its state machines meet the HTTP
//! library: messages are read when the service asks for them, and replies written as they come.
//!
//! ```text
//! body ─▶ Messages (request.rs) ─▶ Call ─▶ run_call.rs ─▶ Reply ─▶ one or many (response.rs)
//! ```
//!
//! A message that came with its head is in the call at once; whether it did is not looked where the
//! client sends it only once it is read (`Expect: 100-continue`). Over HTTP/1.1 what nobody read of
//! the request is read beside the answer, since closing would break the client's sending.
//!
//! A call is one future, in one allocation, for the whole way; what few calls have to wait for
//! (a rest of the request, a single reply that comes as a stream) is a separate boxed future.

mod request;
mod response;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{Response, Version};
use tidewire_service::{Body, Call, Context, HeldTags, Reply, Result};
use tidewire_wire::Exchange;

use self::request::Messages;
pub(crate) use self::response::{error_response, whole};
use self::response::{many, one};
use crate::app::App;
use crate::app::prepare::mark;
use crate::request::body::{RequestBody, UnreadBody, check_length};
use crate::request::command::Command;
use crate::request::failure_log::log;
use crate::request::inbound::InboundRequest;
use crate::request::observe::Watch;
use crate::request::run_call::{PendingCall, Run, run};
use crate::request::single_message::whole_reply;
use crate::response::body::{BoxedResponse, ResponseBody};
use crate::response::etag::{add_etag, tag_compressed};
use crate::response::faults;
use crate::response::page::{self, uncached};
use crate::services::entry::Entry;

/// One call of a method on its way.
pub(crate) struct RpcCall {
    app: Arc<App>,
    entry: Arc<Entry>,
    exchange: Exchange,
    version: Version,
    watch: Option<Watch>,
    /// What the caller of a GET holds.
    held: HeldTags,
    /// What nobody read of the request.
    leftover: Option<UnreadBody>,
    stage: Stage,
}

/// How far a call has come.
#[expect(
    clippy::large_enum_variant,
    reason = "it is in a box, and every call begins as the largest"
)]
enum Stage {
    /// Its head was let pass.
    Begun(Option<InboundRequest>),
    /// Its message is not there yet; over HTTP/1.1 the library reads it only once it was asked for.
    Asked(Option<Box<(Context, Messages)>>),
    /// The service runs.
    Running(PendingCall),
    /// Something has to be waited for before it is answered.
    Late(BoxedResponse<ResponseBody>),
}

/// What comes after a stage.
#[expect(
    clippy::large_enum_variant,
    reason = "a stage that comes next is a small one, and is written in place"
)]
enum StageResult {
    Stage(Stage),
    Answer(Response<ResponseBody>),
}

const TAKEN: &str = "a call is polled until it is answered, once";

impl RpcCall {
    /// A call whose head was let pass.
    pub(crate) fn new(
        app: Arc<App>,
        entry: Arc<Entry>,
        exchange: Exchange,
        mut request: InboundRequest,
    ) -> Self {
        let version = request.version;
        let watch = request.watch.take();
        let held = match exchange.is_get() {
            true => request.context.held_tags(),
            false => HeldTags::default(),
        };
        let stage = Stage::Begun(Some(request));
        Self { app, entry, exchange, version, watch, held, leftover: None, stage }
    }

    /// The message, or what it will come by.
    #[inline]
    fn begin(&mut self, request: InboundRequest, cx: &mut TaskContext<'_>) -> StageResult {
        let InboundRequest { uri, context, body, .. } = request;
        let bytes_max = self.app.limits.message_bytes_max;
        if self.exchange.is_get() {
            let message = self.exchange.message_of_get(uri.query(), &self.app.coders, bytes_max);
            return match message {
                Ok(message) => self.call(context, Body::Full(message), None),
                Err(error) => self.ended(Err(error)),
            };
        }
        let requests = match self.exchange.requests(bytes_max) {
            Ok(requests) => requests,
            Err(error) => {
                let limits = &self.app.limits;
                let readable =
                    check_length(context.headers().get(CONTENT_LENGTH), limits.body_bytes_max)
                        .is_ok();
                if self.version < Version::HTTP_2 && readable {
                    self.leftover = Some(UnreadBody::of(body));
                }
                return self.ended(Err(error));
            }
        };
        let streams = self.exchange.kind().client_streams();
        let pauses = body.pace.pauses && streams;
        let body = RequestBody::new(body, self.watch.as_ref().map(|watch| watch.counter()));
        let coders = Arc::clone(&self.app.coders);
        let command = None;
        let looks = !streams && !body.waits_to_be_asked();
        let is_fed = false;
        let mut messages = Messages { body, requests, coders, command, pauses, looks, is_fed };
        if !looks {
            return self.call_with(context, messages);
        }
        match messages.poll_message(cx) {
            Poll::Pending if self.version < Version::HTTP_2 => {
                // What came with the head is there when the library was at work once more.
                cx.waker().wake_by_ref();
                StageResult::Stage(Stage::Asked(Some(Box::new((context, messages)))))
            }
            looked => self.after_first_read(looked, context, messages),
        }
    }

    /// Goes on after the first read of the body.
    fn after_first_read(
        &mut self,
        looked: Poll<Option<Result<Bytes>>>,
        context: Context,
        mut messages: Messages,
    ) -> StageResult {
        messages.looks = false;
        match looked {
            Poll::Ready(Some(Ok(message))) => {
                self.leftover = messages.body.leftover(self.version);
                self.call(context, Body::Full(message), None)
            }
            Poll::Ready(Some(Err(error))) => {
                self.leftover = messages.body.leftover(self.version);
                drop(messages);
                self.ended(Err(error))
            }
            Poll::Ready(None) | Poll::Pending => self.call_with(context, messages),
        }
    }

    /// Calls the service with messages as they come.
    fn call_with(&mut self, context: Context, mut messages: Messages) -> StageResult {
        let mut command = self.app.commands.command(&self.entry.method);
        messages.command = command.as_mut().map(Command::awaited);
        self.leftover = messages.body.leftover(self.version);
        self.call(context, Body::frames(messages), command)
    }

    #[inline]
    fn call(&mut self, context: Context, body: Body, command: Option<Command>) -> StageResult {
        let method = &self.entry.method;
        let command = command.or_else(|| self.app.commands.command(method));
        let call = Call::method(method.clone(), context, self.exchange.codec(), body);
        match run(&*self.entry.service, call, command) {
            Run::Ready(outcome) => self.ended(outcome.map(|reply| *reply)),
            Run::Pending(waiting) => StageResult::Stage(Stage::Running(waiting)),
        }
    }

    /// The call is over; what nobody read of the request is read beside the answer.
    fn ended(&mut self, outcome: Result<Reply>) -> StageResult {
        let Some(leftover) = self.leftover.take().filter(UnreadBody::is_some) else {
            return self.answer(outcome);
        };
        let app = Arc::clone(&self.app);
        self.later(async move {
            leftover.read_on(&app.limits).await;
            outcome
        })
    }

    /// Answers once a reply is there that can be sent as it is.
    fn later(
        &mut self,
        outcome: impl Future<Output = Result<Reply>> + Send + 'static,
    ) -> StageResult {
        let Self { app, entry, exchange, version, watch, held, .. } = self;
        // Whoever answers tells of it.
        let app = Arc::clone(app);
        let entry = Arc::clone(entry);
        let watch = watch.take();
        let held = held.clone();
        let exchange = *exchange;
        let version = *version;
        StageResult::Stage(Stage::Late(Box::pin(async move {
            let outcome = outcome.await;
            let stage = Stage::Begun(None);
            let mut call =
                Self { app, entry, exchange, version, watch, held, leftover: None, stage };
            match call.answer(outcome) {
                StageResult::Answer(response) => call.report(response),
                StageResult::Stage(stage) => {
                    call.stage = stage;
                    call.await
                }
            }
        })))
    }

    /// The response, told to whoever observes.
    #[inline]
    fn report(&mut self, mut response: Response<ResponseBody>) -> Response<ResponseBody> {
        if self.exchange.is_get() {
            uncached(response.headers_mut());
        }
        match self.watch.take() {
            Some(watch) => watch.response(response),
            None => response,
        }
    }

    #[cold]
    fn log(&mut self, error: &tidewire_service::Error) {
        let path = &self.entry.method.path;
        Watch::within(&mut self.watch, || log(error, path));
    }

    /// The response for an outcome.
    #[inline]
    fn answer(&mut self, outcome: Result<Reply>) -> StageResult {
        let reply = match outcome {
            Ok(reply) => reply,
            Err(error) => {
                self.log(&error);
                return StageResult::Answer(error_response(&self.exchange, error));
            }
        };
        if self.exchange.is_single_reply() && matches!(reply.body, Body::Stream(_)) {
            return self.later(whole_reply(reply));
        }
        let response = self.finish(reply).unwrap_or_else(|error| {
            self.log(&error);
            error_response(&self.exchange, error)
        });
        StageResult::Answer(response)
    }

    /// The response for a reply that is not a stream where it has to be one message.
    ///
    /// # Errors
    /// Of a message that cannot be sent.
    fn finish(&mut self, mut reply: Reply) -> Result<Response<ResponseBody>> {
        let Self { app, exchange, .. } = &*self;
        let script = app.faults.then(|| reply.script().cloned()).flatten();
        let loses_end = faults::loses_trailers(script.as_ref());
        let is_get = exchange.is_get();
        let hit = app.cached_hit(&*self.entry.service, self.version, &reply.freshness);
        if is_get {
            add_etag(&mut reply, &self.held, "");
            if reply.is_unchanged() {
                // As the whole answer would (RFC 9110, section 15.4.5).
                tidewire_service::vary(&mut reply.headers, "accept-encoding");
                let mut response = page::response(reply, ResponseBody::plain);
                mark(&mut response, hit);
                return Ok(response);
            }
        }
        let mut response = if exchange.is_single_reply() {
            one(exchange, reply, &app.coders, loses_end)?
        } else {
            let seen = (&app.coders, self.watch.clone());
            many(*exchange, &self.entry.method, reply, seen, loses_end)
        };
        if is_get && let Some(coding) = response.headers().get(CONTENT_ENCODING).cloned() {
            tag_compressed(response.headers_mut(), coding.to_str().unwrap_or_default());
        }
        if let Some(script) = script {
            response.extensions_mut().insert(script);
        }
        mark(&mut response, hit);
        Ok(response)
    }
}

impl Future for RpcCall {
    type Output = Response<ResponseBody>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let next = match &mut this.stage {
                Stage::Begun(request) => {
                    let request = request.take().expect(TAKEN);
                    let next = this.begin(request, cx);
                    if let StageResult::Stage(stage @ Stage::Asked(_)) = next {
                        this.stage = stage;
                        return Poll::Pending;
                    }
                    next
                }
                Stage::Asked(asked) => {
                    let (context, mut messages) = *asked.take().expect(TAKEN);
                    let looked = messages.poll_message(cx);
                    this.after_first_read(looked, context, messages)
                }
                Stage::Running(waiting) => {
                    let outcome = ready!(Pin::new(waiting).poll(cx));
                    // With it goes what it did not read of the request.
                    this.stage = Stage::Begun(None);
                    this.ended(outcome)
                }
                Stage::Late(late) => StageResult::Answer(ready!(late.as_mut().poll(cx))),
            };
            match next {
                StageResult::Stage(stage) => this.stage = stage,
                StageResult::Answer(response) => return Poll::Ready(this.report(response)),
            }
        }
    }
}
