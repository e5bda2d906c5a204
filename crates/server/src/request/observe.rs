//! What becomes of one request, told to whoever observes, once.
//!
//! A request that is observed, or that gates looked at, has one [`Watch`], in one allocation: held
//! by its future and then by its body, it ends when the last of them is gone. So the end is told
//! exactly once, however the request ends, and guards are dropped after it. An observer that panics
//! is told no more of that moment; the request goes on, and other observers are told.

use parking_lot::Mutex;
use std::borrow::Cow;
use std::cell::RefCell;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::Frame;
use tidewire_service::{
    Code, Codec, Context, End, EndReason, Error, Head, Observation, Observer, Permits, Phase,
    Phases, Principal, Side, Target,
};

use crate::request::failure::RequestFailure;
use crate::request::repeat::{RepeatedHead, WatchedRequest};
use crate::request::trace::REQUEST_ID;
use crate::runtime::stop::{Stage, Stop};
use crate::socket::prepared::{CachedHit, HitWatch};

/// One request that is watched; the end is told when the last of its clones is gone.
pub(crate) struct Watch(Arc<RequestRecord>);

/// What is known of a request. Whatever holds its context can tell a phase, and a command counts
/// bytes that it reads: both may outlive the request, and do not keep it from its end.
struct RequestRecord {
    /// Who observes, in their order; most servers have one.
    first: Option<Arc<dyn Observation>>,
    more: Box<[Arc<dyn Observation>]>,
    /// The phases that somebody wants to be told.
    wanted: Phases,
    wants_messages: bool,
    /// The phases that it reached, and the end.
    reached: AtomicU8,
    watches: AtomicUsize,
    guards: Mutex<Permits>,
    stop: Stop,
    begun: Instant,
    http: WatchedHttp,
    /// Its head, where it has come before and may come again.
    repeated: OnceLock<Arc<RepeatedHead>>,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    /// What `content-length` says of its answer; all bits where nothing does.
    length_out: AtomicU64,
    target: Target,
    program: OnceLock<Arc<str>>,
    caller: OnceLock<Principal>,
    outcome: Outcome,
}

/// What is known of a request of HTTP before it is watched.
#[derive(Default)]
pub(crate) struct WatchedHttp {
    /// What its answer says again.
    pub(crate) id: Option<HeaderValue>,
    /// Its answer has no body, whatever that says.
    pub(crate) is_head: bool,
}

/// Counts the bytes of a request's body.
pub(crate) struct Counter(Arc<RequestRecord>);

impl Counter {
    pub(crate) fn add(&self, bytes: usize) {
        self.0.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Watch {
    /// Tells every observer of a request, and lets its context reach them.
    pub(crate) fn begin(observers: &[Arc<dyn Observer>], stop: &Stop, head: &mut Head) -> Self {
        Self::of_request(observers, stop, head, WatchedHttp::default())
    }

    /// The same of a request of HTTP.
    pub(crate) fn of_request(
        observers: &[Arc<dyn Observer>],
        stop: &Stop,
        head: &mut Head,
        http: WatchedHttp,
    ) -> Self {
        let mut first = None;
        let mut more = Vec::new();
        let mut wanted = Phases::NONE;
        let mut wants_messages = false;
        for observer in observers {
            let Some(told) = shielded(|| observer.begin(head)) else { continue };
            let wants = shielded(|| (told.phases(), told.wants_messages()));
            let (phases, messages) = wants.unwrap_or((Phases::NONE, false));
            wanted = wanted.or(phases);
            wants_messages |= messages;
            match first {
                None => first = Some(told),
                Some(_) => more.push(told),
            }
        }
        let is_observed = first.is_some();
        let seen = Arc::new(RequestRecord {
            first,
            more: more.into(),
            wanted,
            wants_messages,
            reached: AtomicU8::default(),
            watches: AtomicUsize::new(1),
            guards: Mutex::default(),
            stop: stop.clone(),
            begun: head.arrived().unwrap_or_else(|| tokio::time::Instant::now().into_std()),
            http,
            repeated: OnceLock::new(),
            bytes_in: AtomicU64::default(),
            bytes_out: AtomicU64::default(),
            length_out: AtomicU64::new(u64::MAX),
            target: head.target.clone(),
            program: OnceLock::new(),
            caller: OnceLock::new(),
            outcome: Outcome::default(),
        });
        if is_observed {
            head.context.observe(Arc::clone(&seen) as Arc<dyn Observation>);
        }
        Self(seen)
    }

    /// Keeps what gates left until the end, and whom they found to call.
    #[inline]
    pub(crate) fn keep(self, guards: Permits, caller: Option<&Principal>) -> Self {
        if !guards.is_empty() {
            *self.0.guards.lock() = guards;
        }
        if let Some(caller) = caller.filter(|_| self.0.first.is_some()) {
            let _ = self.0.caller.set(caller.clone());
        }
        self
    }

    /// Takes note of the head of a request that has come before, if the next may be let pass by
    /// it: gates left this context.
    pub(crate) fn repeats(&self, head: Option<RepeatedHead>, admitted: &Context) {
        if let Some(head) = head.filter(|head| head.is_as_admitted(admitted)) {
            let _ = self.0.repeated.set(Arc::new(head));
        }
    }

    /// What a line of the log says of the request.
    pub(crate) fn described(&self) -> RequestDescription<'_> {
        let RequestRecord { target, http: WatchedHttp { id, .. }, program, .. } = &*self.0;
        RequestDescription {
            call: match target {
                Target::Method(method) => Cow::Borrowed(&*method.path),
                Target::Http(http) => format!("{} {}", http.method, http.uri.path()).into(),
                Target::Unknown(path) => Cow::Borrowed(&**path),
                _ => Cow::Borrowed("other"),
            },
            id: id.as_ref().and_then(|id| id.to_str().ok()),
            program: program.get().map(|name| &**name),
        }
    }

    /// Runs what answers the request `watch`, or a part of that: what is logged meanwhile is of it.
    pub(crate) fn within<T>(watch: &mut Option<Self>, run: impl FnOnce() -> T) -> T {
        struct Current<'w>(&'w mut Option<Watch>);
        impl Drop for Current<'_> {
            fn drop(&mut self) {
                CURRENT.with_borrow_mut(|current| std::mem::swap(current, self.0));
            }
        }
        if watch.is_none() {
            return run();
        }
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, watch));
        let _current = Current(watch);
        run()
    }

    /// Looks at the request that is answered on this thread now, if that is known.
    pub(crate) fn with_current<T>(look: impl FnOnce(Option<&Self>) -> T) -> T {
        CURRENT.with_borrow(|current| look(current.as_ref()))
    }

    /// Where what is read of the request's body is counted.
    pub(crate) fn counter(&self) -> Counter {
        Counter(Arc::clone(&self.0))
    }

    /// Takes note of an error that comes after the response's head.
    pub(crate) fn failed(&self, error: &Error) {
        self.0.outcome.add(Some(RequestFailure::new(error)));
    }

    /// Takes note of the response's head, and follows its body.
    pub(crate) fn response<B: WatchedBody>(self, mut response: Response<B>) -> Response<B> {
        if let Some(id) = &self.0.http.id {
            response.headers_mut().entry(REQUEST_ID).or_insert_with(|| id.clone());
        }
        let failed = response.extensions().get::<RequestFailure>().copied();
        let status = response.status();
        self.0.outcome.set(status, failed);
        self.phase(Phase::FirstByte);
        if let Some(hit) = response.extensions_mut().get_mut::<CachedHit>() {
            hit.watched = self.again(status);
        }
        // A body that is empty, or is left out, is never asked for a frame; one that is as long as
        // was said is not asked whether it ends.
        if self.0.http.is_head || response.body().is_end_stream() {
            self.over();
        } else if let Some(length) = length(response.headers()) {
            self.0.length_out.store(length, Ordering::Relaxed);
        }
        response.body_mut().watch(self);
        response
    }

    /// Takes note of what a body has to say, and whether it has no more.
    #[inline]
    pub(crate) fn frame(&self, frame: Option<&Result<Frame<Bytes>, Error>>, is_last: bool) {
        match frame {
            Some(Ok(frame)) => self.sent(frame.data_ref().map_or(0, Bytes::len)),
            Some(Err(error)) => self.failed(error),
            None => {}
        }
        let is_whole = || {
            let length = self.0.length_out.load(Ordering::Relaxed);
            self.0.bytes_out.load(Ordering::Relaxed) >= length
        };
        if frame.is_none() || is_last || is_whole() {
            self.over();
        }
    }

    /// By what the next request of the same bytes is watched.
    fn again(&self, status: StatusCode) -> HitWatch {
        let record = &*self.0;
        let Some(head) = record.repeated.get().cloned() else { return HitWatch::Unknown };
        let phases = Phases::of_bits(record.reached.load(Ordering::Relaxed));
        if phases.has(Phase::Computed) || record.program.get().is_some() {
            return HitWatch::Unknown;
        }
        HitWatch::Known(Arc::new(WatchedRequest {
            head,
            phases,
            status,
            bytes_in: record.bytes_in.load(Ordering::Relaxed),
        }))
    }

    /// Tells all of a request that was answered as one before, by a body of so many bytes.
    pub(crate) fn repeat(self, before: &WatchedRequest, bytes_out: usize) {
        for phase in FROM_MEMORY.into_iter().filter(|phase| before.phases.has(*phase)) {
            self.phase(phase);
        }
        self.0.bytes_in.store(before.bytes_in, Ordering::Relaxed);
        self.0.outcome.set(before.status, None);
        self.sent(bytes_out);
        self.over();
    }

    pub(crate) fn phase(&self, phase: Phase) {
        self.0.phase(phase);
    }

    /// Takes note of bytes of an answer.
    pub(crate) fn sent(&self, bytes: usize) {
        self.0.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The last of the answer was given, which may be said again.
    pub(crate) fn over(&self) {
        self.0.outcome.add(None);
        self.phase(Phase::Written);
    }
}

thread_local! {
    /// The request that is answered on this thread now.
    static CURRENT: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// A request as a line of the log names it.
pub(crate) struct RequestDescription<'w> {
    /// `/shop.v1.Items/Get`, or `GET /page`.
    pub(crate) call: Cow<'w, str>,
    /// Its id, where requests have one.
    pub(crate) id: Option<&'w str>,
    /// The hosted program that was given it.
    pub(crate) program: Option<&'w str>,
}

/// What `content-length` says.
fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl Clone for Watch {
    fn clone(&self) -> Self {
        self.0.watches.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.0.watches.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.ended();
        }
    }
}

/// What is known of how a request ended.
struct RequestOutcome {
    how: Option<EndReason>,
    code: Option<Code>,
    status: Option<StatusCode>,
}

impl RequestRecord {
    fn ended(&self) {
        let RequestOutcome { how, code, status } = self.outcome.get();
        let gone = || {
            if self.stop.has_reached(Stage::CutOff) {
                EndReason::Drained
            } else {
                EndReason::Canceled
            }
        };
        let mut end = End::new(how.unwrap_or_else(gone));
        (end.code, end.status) = (code, status);
        end.bytes_in = self.bytes_in.load(Ordering::Relaxed);
        end.bytes_out = self.bytes_out.load(Ordering::Relaxed);
        end.phases = Phases::of_bits(self.reached.fetch_or(ENDED, Ordering::Relaxed));
        end.program = self.program.get().cloned();
        end.caller = self.caller.get().cloned();
        if self.first.is_some() {
            let now = tokio::time::Instant::now().into_std();
            end.took = now.saturating_duration_since(self.begun);
        }
        self.end(&end);
        // After the end was told.
        let mut guards = self.guards.lock();
        if !guards.is_empty() {
            let left = std::mem::take(&mut *guards);
            drop(guards);
            drop(left);
        }
    }

    #[cold]
    fn tell(&self, phase: Phase) {
        for told in self.each() {
            shielded(|| told.phase(phase));
        }
    }

    fn each(&self) -> impl Iterator<Item = &Arc<dyn Observation>> {
        self.first.iter().chain(&self.more)
    }
}

/// The phases before the last of what is answered from memory and waits for nothing.
const FROM_MEMORY: [Phase; 4] = [Phase::Gates, Phase::Handler, Phase::Memo, Phase::FirstByte];

/// The bit of the end, which is over those of all phases.
const ENDED: u8 = 1 << 7;

/// Each phase is told once and in their order, and none after the end.
impl Observation for RequestRecord {
    fn phase(&self, phase: Phase) {
        let reached = 1 << phase as u8;
        // One that is further has a higher bit.
        let is_new = || self.reached.fetch_or(reached, Ordering::Relaxed) < reached;
        if self.reached.load(Ordering::Relaxed) < reached && is_new() && self.wanted.has(phase) {
            self.tell(phase);
        }
    }

    fn program(&self, name: &Arc<str>) {
        if self.program.set(Arc::clone(name)).is_ok() {
            self.each().for_each(|told| _ = shielded(|| told.program(name)));
        }
    }

    fn wants_messages(&self) -> bool {
        self.wants_messages
    }

    fn message(&self, side: Side, codec: Codec, message: &Bytes) {
        for told in self.each() {
            shielded(|| told.message(side, codec, message));
        }
    }

    fn end(&self, end: &End) {
        for told in self.each() {
            shielded(|| told.end(end));
        }
    }
}

/// What is known of a request's end so far, in one number: status, code and how, from below; 0 is
/// not known.
#[derive(Default)]
struct Outcome(AtomicU32);

impl Outcome {
    const CODE: u32 = 16;
    const HOW: u32 = 24;

    /// What the response's head says.
    fn set(&self, status: StatusCode, failed: Option<RequestFailure>) {
        let of = |failed: RequestFailure| Self::code(failed.code) | Self::how(failed.how);
        let known = u32::from(status.as_u16()) | failed.map_or(0, of);
        self.0.store(known, Ordering::Relaxed);
    }

    /// What comes after it: a failure, or that all was answered. What was known before stays.
    fn add(&self, failed: Option<RequestFailure>) {
        let (code, how) = match failed {
            Some(failed) => (Self::code(failed.code), Self::how(failed.how)),
            None => (0, Self::how(EndReason::Answered)),
        };
        let added = |known: u32| {
            let code = if known & Self::code_mask() == 0 { code } else { 0 };
            let how = if known >> Self::HOW == 0 { how } else { 0 };
            Some(known | code | how)
        };
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
    }

    fn get(&self) -> RequestOutcome {
        let known = self.0.load(Ordering::Relaxed);
        let how = (known >> Self::HOW).checked_sub(1).map(|number| HOWS[number as usize]);
        let code = Code::from_number(((known & Self::code_mask()) >> Self::CODE) as _);
        RequestOutcome { how, code, status: StatusCode::from_u16(known as u16).ok() }
    }

    const fn code_mask() -> u32 {
        0xff << Self::CODE
    }

    fn code(code: Code) -> u32 {
        (code.number() as u32) << Self::CODE
    }

    fn how(how: EndReason) -> u32 {
        let number = HOWS.iter().position(|known| *known == how).unwrap_or_default();
        (number as u32 + 1) << Self::HOW
    }
}

const HOWS: [EndReason; 5] = [
    EndReason::Answered,
    EndReason::Canceled,
    EndReason::Deadline,
    EndReason::Panicked,
    EndReason::Drained,
];

/// A body that tells a watch of its frames.
pub(crate) trait WatchedBody: http_body::Body {
    /// Tells this one from now on.
    fn watch(&mut self, watch: Watch);
}

/// A response that comes later, and is watched.
pub(crate) struct WatchedResponse<F> {
    pub(crate) response: F,
    pub(crate) watch: Option<Watch>,
}

impl<F, B> Future for WatchedResponse<F>
where
    F: Future<Output = Result<Response<B>, Infallible>> + Unpin,
    B: WatchedBody,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let Self { response, watch } = &mut *self;
        let polled = Watch::within(watch, || Pin::new(response).poll(cx));
        let response = ready!(polled)?;
        Poll::Ready(Ok(match self.watch.take() {
            Some(watch) => watch.response(response),
            None => response,
        }))
    }
}

/// What an observer makes of something; `None` when it panics.
fn shielded<T>(told: impl FnOnce() -> T) -> Option<T> {
    let outcome = catch_unwind(AssertUnwindSafe(told));
    outcome.inspect_err(|_| tracing::error!("an observer panicked; the request goes on")).ok()
}
