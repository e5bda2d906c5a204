//! Calls that somebody makes by hand: over the listener of the server, so that what comes back is
//! what any client gets.
//!
//! There is no address to choose: a request goes to this server or nowhere. A call is a task that
//! holds its events until they are received; while a hundred wait it reads no more, so an endless
//! stream takes no more room than a short one. A call that nobody receives from for a minute ends.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use tidewire_client::{Client, Protocol, Tls};
use tidewire_schema::Schema;
use tidewire_server::{Address, Handle};
use tidewire_service::{
    Body, Call, Code, Codec, Context, Error, Frame, Method, Reply, Result, Service as _,
};
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;

use crate::proto::tidewire::admin::v1::{CallEvent, OpenCallRequest, ReceiveReply};
use crate::{headers, micros, own_server, token, try_rest};

/// The calls that run, or whose end was not received yet.
#[derive(Clone, Default)]
pub(crate) struct TriedCalls(Arc<Mutex<HashMap<String, Arc<TriedCall>>>>);

struct TriedCall {
    schema: Schema,
    method: Method,
    began: Instant,
    /// Where messages go, until the stream of them was closed.
    sender: Mutex<Option<mpsc::Sender<Result<Bytes>>>>,
    events: Mutex<Events>,
    /// There is another event, or there is room again.
    changed: Notify,
    room: Notify,
    task: Mutex<Option<AbortHandle>>,
}

#[derive(Default)]
struct Events {
    waiting: VecDeque<CallEvent>,
    last: u64,
    ended: bool,
    received: Option<Instant>,
}

impl TriedCalls {
    /// Begins a call, and returns its name.
    pub(crate) fn open(
        &self,
        handle: &Handle,
        schema: Schema,
        method: Method,
        request: OpenCallRequest,
    ) -> Result<String> {
        let client = client(handle, &request.protocol)?;
        let timeout = match request.timeout_ms {
            0 => TIMEOUT,
            asked => Duration::from_millis(asked).min(TIMEOUT_MAX),
        };
        let context = Context::new(headers::to_send(&request.headers)?);
        let context = context.with_deadline(Instant::now() + timeout);
        let (call, sender) = match &*request.protocol {
            REST => {
                let sent = request.rest.as_option().cloned().unwrap_or_default();
                (try_rest::call(&schema, &method, sent, context)?, None)
            }
            _ => {
                let mut first = Vec::with_capacity(request.messages.len());
                for message in &request.messages {
                    first.push(encode(&schema, &method, message)?);
                }
                let (body, sender) = body(&method, first)?;
                (Call::method(method.clone(), context, Codec::Proto, body), sender)
            }
        };
        let tried = Arc::new(TriedCall {
            schema,
            method,
            began: Instant::now(),
            sender: Mutex::new(sender),
            events: Mutex::default(),
            changed: Notify::new(),
            room: Notify::new(),
            task: Mutex::default(),
        });
        let name = token::random_hex::<8>().map_err(|why| Error::internal(why.to_string()))?;
        let mut calls = self.0.lock();
        calls.retain(|_, call| !call.is_abandoned());
        if calls.len() >= CALLS_MAX {
            forget_one_that_ended(&mut calls);
        }
        if calls.len() >= CALLS_MAX {
            let text = format!("{CALLS_MAX} calls are open already; end one of them");
            return Err(Error::resource_exhausted(text));
        }
        calls.insert(name.clone(), Arc::clone(&tried));
        let task = tokio::spawn(Arc::clone(&tried).run(client, call));
        *tried.task.lock() = Some(task.abort_handle());
        Ok(name)
    }

    fn call(&self, name: &str) -> Result<Arc<TriedCall>> {
        let gone =
            || Error::not_found("this call is over, or nobody received from it for a minute");
        self.0.lock().get(name).cloned().ok_or_else(gone)
    }

    /// Sends one more message.
    pub(crate) async fn send(&self, name: &str, message: &str) -> Result<()> {
        let call = self.call(name)?;
        let message = encode(&call.schema, &call.method, message)?;
        let sender = call.sender.lock().clone();
        let over = || Error::failed_precondition("this call sends no more messages");
        sender.ok_or_else(over)?.send(Ok(message)).await.map_err(|_| over())
    }

    /// Ends the stream of messages.
    pub(crate) fn close_send(&self, name: &str) -> Result<()> {
        *self.call(name)?.sender.lock() = None;
        Ok(())
    }

    /// Ends a call.
    pub(crate) fn cancel(&self, name: &str) -> Result<()> {
        self.call(name)?.cancel();
        Ok(())
    }

    /// The events after a number, once there are any.
    pub(crate) async fn receive(&self, name: &str, after: u64) -> Result<ReceiveReply> {
        let call = self.call(name)?;
        let reply = call.receive(after).await;
        if reply.ended && reply.events.is_empty() {
            self.0.lock().remove(name);
        }
        Ok(reply)
    }
}

impl TriedCall {
    async fn run(self: Arc<Self>, client: Client, call: Call) {
        let alive = Arc::clone(&self);
        let outcome = tokio::select! {
            outcome = self.answer(client, call) => outcome,
            () = alive.abandoned() => Err(Error::new(Code::Canceled, "nobody received from it")),
        };
        self.end(outcome.err().as_ref());
    }

    async fn answer(&self, client: Client, call: Call) -> Result<()> {
        let is_rest = call.spec().is_none();
        let mut reply = client.call(call).await?;
        if is_rest {
            return self.answer_by_rest(reply).await;
        }
        self.event("headers", |event| {
            event.headers = headers::without_secrets(reply.headers.iter())
        })
        .await;
        let body = std::mem::take(&mut reply.body);
        let mut trailers = reply.trailers;
        let mut frames = body.into_frames();
        while let Some(frame) = frames.next().await {
            match frame? {
                Frame::Data(message) => {
                    let message =
                        self.schema.decode(&self.method.output, Codec::Proto, &message)?;
                    let text = message.encode(Codec::Json)?;
                    let text = String::from_utf8_lossy(&text).into_owned();
                    self.event("message", |event| event.message = text).await;
                }
                Frame::Trailers(last) => trailers = last,
            }
        }
        if !trailers.is_empty() {
            self.event("trailers", |event| {
                event.headers = headers::without_secrets(trailers.iter())
            })
            .await;
        }
        Ok(())
    }

    /// Takes note of a response of plain HTTP: its status, its body line by line where the method
    /// streams, and the error that it says.
    async fn answer_by_rest(&self, reply: Reply) -> Result<()> {
        let status = reply.status;
        self.event("headers", |event| {
            event.headers = headers::without_secrets(reply.headers.iter());
            event.headers.insert(0, try_rest::status(status));
        })
        .await;
        let is_stream = self.method.kind.server_streams() && status.is_success();
        let mut held = Vec::new();
        let mut frames = reply.body.into_frames();
        while let Some(frame) = frames.next().await {
            let Frame::Data(bytes) = frame? else { continue };
            held.extend_from_slice(&bytes);
            if held.len() > EVENTS_BYTES_MAX {
                return Err(Error::resource_exhausted("the response is too long to be shown"));
            }
            while let Some(end) = held.iter().position(|byte| is_stream && *byte == b'\n') {
                let line: Vec<u8> = held.drain(..=end).collect();
                self.text(&line).await;
            }
        }
        if !status.is_success() {
            return Err(try_rest::error(status, &held));
        }
        self.text(&held).await;
        Ok(())
    }

    /// Takes note of a message that is text already.
    async fn text(&self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes).trim().to_owned();
        if !text.is_empty() {
            self.event("message", |event| event.message = text).await;
        }
    }

    /// Takes note of an event once there is room.
    async fn event(&self, what: &str, fill: impl FnOnce(&mut CallEvent)) {
        loop {
            let room = self.room.notified();
            if self.has_room() {
                break;
            }
            room.await;
        }
        self.push(what, fill);
    }

    /// Whether fewer events wait than are kept, in number and in bytes.
    fn has_room(&self) -> bool {
        let events = self.events.lock();
        let bytes: usize = events.waiting.iter().map(|event| event.message.len()).sum();
        events.waiting.len() < EVENTS_MAX && bytes < EVENTS_BYTES_MAX
    }

    /// Adds an event, unless the call has ended: nothing comes after its end. The last event and
    /// that there is no other are seen at once.
    fn push(&self, what: &str, fill: impl FnOnce(&mut CallEvent)) {
        let mut events = self.events.lock();
        if events.ended {
            return;
        }
        events.ended = what == END;
        events.last += 1;
        let mut event = CallEvent {
            number: events.last,
            what: what.to_owned(),
            at_us: micros(self.began.elapsed()),
            ..Default::default()
        };
        fill(&mut event);
        events.waiting.push_back(event);
        drop(events);
        self.changed.notify_waiters();
    }

    fn end(&self, error: Option<&Error>) {
        *self.sender.lock() = None;
        self.push(END, |event| {
            event.code = error.map_or("ok", |error| error.code().as_str()).to_owned();
            event.error = error.map_or_else(String::new, |error| error.message().to_owned());
            event.headers = error
                .map(|error| headers::without_secrets(error.headers().iter()))
                .unwrap_or_default();
        });
    }

    fn cancel(&self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
        self.end(Some(&Error::new(Code::Canceled, "you cancelled it")));
    }

    async fn receive(&self, after: u64) -> ReceiveReply {
        let until = tokio::time::sleep(WAIT);
        tokio::pin!(until);
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let reply = self.now(after);
            if reply.ended || !reply.events.is_empty() {
                return reply;
            }
            tokio::select! {
                () = changed => {}
                () = &mut until => return reply,
            }
        }
    }

    fn now(&self, after: u64) -> ReceiveReply {
        let mut events = self.events.lock();
        events.received = Some(Instant::now());
        events.waiting.retain(|event| event.number > after);
        let waiting = events.waiting.iter().cloned().collect();
        let ended = events.ended;
        drop(events);
        self.room.notify_waiters();
        ReceiveReply { events: waiting, ended, ..Default::default() }
    }

    fn is_abandoned(&self) -> bool {
        let last = self.events.lock().received.unwrap_or(self.began);
        last.elapsed() > ABANDONED
    }

    async fn abandoned(&self) {
        while !self.is_abandoned() {
            tokio::time::sleep(WAIT).await;
        }
    }
}

/// Makes room for a call: of those that have ended, whose end may not have been received, the one
/// that began first is forgotten.
fn forget_one_that_ended(calls: &mut HashMap<String, Arc<TriedCall>>) {
    let ended = calls.iter().filter(|(_, call)| call.events.lock().ended);
    let first = ended.min_by_key(|(_, call)| call.began).map(|(name, _)| name.clone());
    if let Some(first) = first {
        calls.remove(&first);
    }
}

/// What calls the server over its own listener.
fn client(handle: &Handle, protocol: &str) -> Result<Client> {
    let protocol = match protocol {
        // Plain HTTP goes by any client of HTTP.
        "" | "connect" | REST => Protocol::Connect,
        "grpc" => Protocol::Grpc,
        "grpc-web" => Protocol::GrpcWeb,
        "live" => Protocol::Live,
        other => {
            let text = format!("{other:?} is not connect, grpc, grpc-web, live or rest");
            return Err(Error::invalid_argument(text));
        }
    };
    let address = own_server::address(handle)?;
    let certificate = own_server::certificate(handle, &address)?;
    let url = match (&address, &certificate) {
        (Address::Tcp(address), None) => format!("http://{address}"),
        (Address::Tcp(address), Some(_)) => format!("https://{address}"),
        (other, _) => other.to_string(),
    };
    let mut builder = Client::builder(url).protocol(protocol);
    if let Some(certificate) = certificate {
        builder = builder.tls(Tls::new().only_certificate(&certificate.pem[..]));
    }
    builder.build().map_err(|why| Error::failed_precondition(why.to_string()))
}

/// What a call sends, and where more goes.
#[allow(clippy::type_complexity)]
fn body(method: &Method, first: Vec<Bytes>) -> Result<(Body, Option<mpsc::Sender<Result<Bytes>>>)> {
    if !method.kind.client_streams() {
        let [message] = <[Bytes; 1]>::try_from(first)
            .map_err(|_| Error::invalid_argument("send one message: this method takes one"))?;
        return Ok((Body::Full(message), None));
    }
    let (sender, receiver) = mpsc::channel(8);
    let rest = futures_util::stream::unfold(receiver, async |mut receiver| {
        receiver.recv().await.map(|message| (message, receiver))
    });
    let first = futures_util::stream::iter(first.into_iter().map(Ok));
    Ok((Body::stream(first.chain(rest)), Some(sender)))
}

fn encode(schema: &Schema, method: &Method, text: &str) -> Result<Bytes> {
    let message = schema.decode_exactly(&method.input, text.as_bytes())?;
    message.encode(Codec::Proto)
}

const REST: &str = "rest";
/// What the last event of a call is.
const END: &str = "end";
const TIMEOUT: Duration = Duration::from_secs(30);
const TIMEOUT_MAX: Duration = Duration::from_secs(3600);
/// How long `Receive` waits for an event.
const WAIT: Duration = Duration::from_secs(5);
const ABANDONED: Duration = Duration::from_secs(60);
const CALLS_MAX: usize = 16;
const EVENTS_MAX: usize = 100;
/// One event may be over it, so that any message is seen.
const EVENTS_BYTES_MAX: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_service::{Spec, StreamKind};

    fn call() -> Arc<TriedCall> {
        Arc::new(TriedCall {
            schema: Schema::from_descriptors(Bytes::new()).unwrap(),
            method: Arc::new(Spec::dynamic("Cart", "Price", StreamKind::Unary, ["A", "B"])).into(),
            began: Instant::now(),
            sender: Mutex::default(),
            events: Mutex::default(),
            changed: Notify::new(),
            room: Notify::new(),
            task: Mutex::default(),
        })
    }

    #[test]
    fn whoever_hears_that_a_call_is_over_hears_how_it_ended() {
        for _ in 0..300 {
            let call = call();
            std::thread::scope(|scope| {
                scope.spawn(|| call.end(None));
                let reply = loop {
                    let reply = call.now(0);
                    if reply.ended {
                        break reply;
                    }
                    std::thread::yield_now();
                };
                assert_eq!(reply.events.last().map(|event| &*event.code), Some("ok"));
            });
        }
    }

    #[test]
    fn nothing_comes_after_the_end_of_a_call() {
        let call = call();
        call.cancel();
        call.push("message", |_| {});
        call.end(None);
        let events = call.now(0).events;
        let said: Vec<_> = events.iter().map(|event| (&*event.what, &*event.code)).collect();
        assert_eq!(said, [("end", "canceled")]);
    }
}
