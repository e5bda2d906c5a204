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

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{Response, Uri, Version};
use tidewire_service::{Body, Call, Context, Error, HeldTags, Reply, Result};
use tidewire_wire::Exchange;

use self::request::{Looks, Messages};
pub(crate) use self::response::{error_response, whole};
use self::response::{many, one};
use crate::app::App;
use crate::app::prepare::mark;
use crate::limits::Limits;
use crate::request::body::{RawBody, RequestBody, UnreadBody, check_length};
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
    /// Until the service is called.
    context: Option<Context>,
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
    reason = "it is in a box, and most calls begin as the largest"
)]
enum Stage {
    /// On to the next one, or over.
    Moves,
    /// A GET, whose message is in its URL.
    Get(Uri),
    /// It is not called.
    Refused(Error),
    /// Its message is on its way; over HTTP/1.1 the library reads it only once it was asked for.
    Reads(Messages),
    /// The service runs.
    Running(PendingCall),
    /// Something has to be waited for before it is answered.
    Late(BoxedResponse<ResponseBody>),
}

const TAKEN: &str = "a call is polled until it is answered, once";

/// Each step gives the response, or `None` when it has set the stage of the next one.
impl RpcCall {
    /// A call whose head was let pass.
    pub(crate) fn new(
        app: Arc<App>,
        entry: Arc<Entry>,
        exchange: Exchange,
        request: InboundRequest,
    ) -> Box<Self> {
        let InboundRequest { uri, version, context, body, watch, .. } = request;
        let held = match exchange.is_get() {
            true => context.held_tags(),
            false => HeldTags::default(),
        };
        let mut leftover = None;
        let stage = match exchange.is_get() {
            true => Stage::Get(uri),
            false => match exchange.requests(app.limits.message_bytes_max) {
                Ok(requests) => {
                    let streams = exchange.kind().client_streams();
                    let pauses = body.pace.pauses && streams;
                    let looks = match streams || body.waits_to_be_asked() {
                        true => Looks::No,
                        false if version < Version::HTTP_2 => Looks::Twice,
                        false => Looks::Once,
                    };
                    let counter = watch.as_ref().map(Watch::counter);
                    let body = RequestBody::new(body, counter);
                    let coders = Arc::clone(&app.coders);
                    Stage::Reads(Messages {
                        body,
                        requests,
                        coders,
                        command: None,
                        pauses,
                        looks,
                        is_fed: false,
                    })
                }
                Err(error) => {
                    leftover = unread(&context, version, body, &app.limits);
                    Stage::Refused(error)
                }
            },
        };
        let context = Some(context);
        Box::new(Self { app, entry, exchange, version, context, watch, held, leftover, stage })
    }

    /// Calls the service with the message of a GET.
    fn get(&mut self, uri: &Uri) -> Option<Response<ResponseBody>> {
        let bytes_max = self.app.limits.message_bytes_max;
        match self.exchange.message_of_get(uri.query(), &self.app.coders, bytes_max) {
            Ok(message) => self.call(Body::Full(message), None),
            Err(error) => self.ended(Err(error)),
        }
    }

    /// Calls the service with messages as they come.
    fn call_with(&mut self, mut messages: Messages) -> Option<Response<ResponseBody>> {
        let mut command = self.app.commands.command(&self.entry.method);
        messages.command = command.as_mut().map(Command::awaited);
        messages.looks = Looks::No;
        self.leftover = messages.body.leftover(self.version);
        self.call(Body::frames(messages), command)
    }

    #[inline]
    fn call(&mut self, body: Body, command: Option<Command>) -> Option<Response<ResponseBody>> {
        let method = &self.entry.method;
        let command = command.or_else(|| self.app.commands.command(method));
        let context = self.context.take().expect(TAKEN);
        let call = Call::method(method.clone(), context, self.exchange.codec(), body);
        match run(&*self.entry.service, call, command) {
            Run::Ready(outcome) => self.ended(outcome.map(|reply| *reply)),
            Run::Pending(waiting) => {
                self.stage = Stage::Running(waiting);
                None
            }
        }
    }

    /// The call is over; what nobody read of the request is read beside the answer.
    fn ended(&mut self, outcome: Result<Reply>) -> Option<Response<ResponseBody>> {
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
    ) -> Option<Response<ResponseBody>> {
        let Self { app, entry, exchange, version, watch, held, .. } = self;
        let mut call = Self {
            app: Arc::clone(app),
            entry: Arc::clone(entry),
            exchange: *exchange,
            version: *version,
            context: None,
            // Whoever answers tells of it.
            watch: watch.take(),
            held: held.clone(),
            leftover: None,
            stage: Stage::Moves,
        };
        self.stage = Stage::Late(Box::pin(async move {
            match call.answer(outcome.await) {
                Some(response) => call.report(response),
                None => call.await,
            }
        }));
        None
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
    fn log(&mut self, error: &Error) {
        let path = &self.entry.method.path;
        Watch::within(&mut self.watch, || log(error, path));
    }

    /// The response for an outcome.
    #[inline]
    fn answer(&mut self, outcome: Result<Reply>) -> Option<Response<ResponseBody>> {
        let reply = match outcome {
            Ok(reply) => reply,
            Err(error) => {
                self.log(&error);
                return Some(error_response(&self.exchange, error));
            }
        };
        if self.exchange.is_single_reply() && matches!(reply.body, Body::Stream(_)) {
            return self.later(whole_reply(reply));
        }
        Some(self.finish(reply).unwrap_or_else(|error| {
            self.log(&error);
            error_response(&self.exchange, error)
        }))
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

/// What is read beside the answer to a request that is not called.
#[cold]
fn unread(
    context: &Context,
    version: Version,
    body: RawBody,
    limits: &Limits,
) -> Option<UnreadBody> {
    let declared = context.headers().get(CONTENT_LENGTH);
    let is_readable = check_length(declared, limits.body_bytes_max).is_ok();
    (version < Version::HTTP_2 && is_readable).then(|| UnreadBody::of(body))
}

impl Future for RpcCall {
    type Output = Response<ResponseBody>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let answered = match &mut this.stage {
                Stage::Reads(messages) if messages.looks != Looks::No => {
                    let looked = match messages.poll_message(cx) {
                        Poll::Pending if messages.looks == Looks::Twice => {
                            messages.looks = Looks::Once;
                            // What came with the head is there when the library was at work once
                            // more.
                            cx.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                        Poll::Pending | Poll::Ready(None) => {
                            messages.looks = Looks::No;
                            continue;
                        }
                        Poll::Ready(Some(message)) => message,
                    };
                    this.leftover = messages.body.leftover(this.version);
                    this.stage = Stage::Moves;
                    match looked {
                        Ok(message) => this.call(Body::Full(message), None),
                        Err(error) => this.ended(Err(error)),
                    }
                }
                Stage::Running(waiting) => {
                    let outcome = ready!(Pin::new(waiting).poll(cx));
                    // With it goes what it did not read of the request.
                    this.stage = Stage::Moves;
                    this.ended(outcome)
                }
                Stage::Late(late) => Some(ready!(late.as_mut().poll(cx))),
                stage => match std::mem::replace(stage, Stage::Moves) {
                    Stage::Reads(messages) => this.call_with(messages),
                    Stage::Get(uri) => this.get(&uri),
                    Stage::Refused(error) => this.ended(Err(error)),
                    _ => panic!("{TAKEN}"),
                },
            };
            if let Some(response) = answered {
                return Poll::Ready(this.report(response));
            }
        }
    }
}
