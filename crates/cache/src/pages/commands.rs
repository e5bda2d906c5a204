//! What commands end (RFC 9111, section 4.4): the pages of their target and of what they name, and
//! those with the tags that they say they have changed.
//!
//! | a command | ends |
//! |---|---|
//! | answered | what its response names, also where its caller is gone by then |
//! | that was not sent, or that its caller broke off before all of it was there | nothing: no program acts on an incomplete request (RFC 9112, section 8) |
//! | whose outcome is not known, since its program ended, broke off or is late | all pages of its service, and what its service ever named in a response; the same once more when a late answer comes |
//! | of gRPC whose caller gave it up | nothing: it is given up at the program, too |

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use futures_util::StreamExt as _;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderName, Method};
use parking_lot::Mutex;
use tidewire_service::{
    Answer, Body, Call, Frame, LateAnswer, LateListener, Outcome, Reply, Result, Service,
};
use tracing::Instrument as _;

use super::PageCache;
use super::page_request::{Key, Origin, host_of};

/// A service whose pages are not kept, and whose commands say what they have changed.
pub(crate) struct Changes {
    cache: PageCache,
    name: Arc<str>,
    service: Arc<dyn Service>,
}

impl Changes {
    pub(crate) fn new(cache: &PageCache, name: &Arc<str>, service: Arc<dyn Service>) -> Self {
        Self { cache: cache.clone(), name: Arc::clone(name), service }
    }
}

impl Service for Changes {
    fn call(&self, call: Call) -> Answer {
        if !is_command(&call) {
            return self.service.call(call);
        }
        let Self { cache, name, service } = self;
        let service = Arc::clone(service);
        let of = cache.clone();
        let by = Arc::clone(name);
        Answer::pending(run(cache, name, call, |call| async move {
            let mut reply = service.call(call).await?;
            tags_changed(&of, &by, &reply);
            reply.headers.remove(CHANGED);
            Ok(reply)
        }))
    }
}

/// Whether a request may change something. `CONNECT` opens a tunnel, or a WebSocket.
pub(super) fn is_command(call: &Call) -> bool {
    call.http_target()
        .is_some_and(|target| !target.method.is_safe() && target.method != Method::CONNECT)
}

/// A command on its way. Dropped once all of it was sent, it goes on without its caller, and what
/// it changes is heard.
pub(super) struct CommandAnswer(Option<RunningCommand>);

struct RunningCommand {
    answer: LateAnswer,
    command: Command,
    upload: Arc<Upload>,
    /// It ends with its caller, as that protocol has it.
    is_grpc: bool,
}

/// Passes a command on.
pub(super) fn run<F>(
    cache: &PageCache,
    service: &Arc<str>,
    mut call: Call,
    pass: impl FnOnce(Call) -> F,
) -> CommandAnswer
where
    F: Future<Output = Result<Reply>> + Send + 'static,
{
    let content_type = call.context.headers().get(CONTENT_TYPE);
    let is_grpc = content_type.is_some_and(|it| it.as_bytes().starts_with(b"application/grpc"));
    let command = Command::begin(cache, service);
    let listener = LateCommands { cache: cache.clone(), service: Arc::clone(service) };
    call.context.set_late_listener(Arc::new(listener));
    let upload = Upload::of(&mut call);
    let answer = Box::pin(pass(call).in_current_span());
    CommandAnswer(Some(RunningCommand { answer, command, upload, is_grpc }))
}

impl Future for CommandAnswer {
    type Output = Result<Reply>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let running = self.0.as_mut().expect("not polled once it is ready");
        let reply = std::task::ready!(running.answer.as_mut().poll(cx));
        if let Some(running) = self.0.take() {
            running.command.end(&reply, &running.upload);
        }
        Poll::Ready(reply)
    }
}

impl Drop for CommandAnswer {
    fn drop(&mut self) {
        let Some(RunningCommand { answer, mut command, upload, is_grpc }) = self.0.take() else {
            return;
        };
        if is_grpc || !upload.is_complete() {
            command.is_settled = true;
            return;
        }
        let cache = command.cache.clone();
        let Some(slot) = cache.0.orphans.take(&command.service) else { return };
        cache.0.runtime.run(Box::pin(async move {
            let reply = answer.await;
            command.end(&reply, &upload);
            drop(slot);
        }));
    }
}

/// How much of a command's body has come.
#[derive(Debug, Default)]
struct Upload {
    is_complete: AtomicBool,
    is_broken: AtomicBool,
}

impl Upload {
    /// Watches over the body of a call.
    fn of(call: &mut Call) -> Arc<Self> {
        let upload = Arc::<Self>::default();
        let Body::Stream(mut frames) = std::mem::take(&mut call.body) else {
            upload.is_complete.store(true, Ordering::Relaxed);
            return upload;
        };
        let length = call.context.headers().get(CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        let seen = Arc::clone(&upload);
        let mut bytes = 0;
        call.body = Body::frames(futures_util::stream::poll_fn(move |cx| {
            let frame = std::task::ready!(frames.poll_next_unpin(cx));
            match &frame {
                Some(Ok(Frame::Data(data))) => bytes += data.len() as u64,
                Some(Ok(Frame::Trailers(_))) => {}
                Some(Err(_)) => seen.is_broken.store(true, Ordering::Relaxed),
                None => seen.is_complete.store(true, Ordering::Relaxed),
            }
            // Who passes it on may not ask for more than it said.
            if length == Some(bytes) {
                seen.is_complete.store(true, Ordering::Relaxed);
            }
            Poll::Ready(frame)
        }));
        upload
    }

    fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Relaxed)
    }

    fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }
}

/// A command under way. Dropped without an end, it may have changed anything.
struct Command {
    cache: PageCache,
    service: Arc<str>,
    is_settled: bool,
    /// Dropped last: other hosts are told that this one runs a command.
    _hold: Option<Hold>,
}

/// What is held while a command runs.
pub(super) type Hold = Box<dyn Any + Send + Sync>;

impl Command {
    fn begin(cache: &PageCache, service: &Arc<str>) -> Self {
        let hold = cache.0.holds.get().map(|hold| hold());
        Self { cache: cache.clone(), service: Arc::clone(service), is_settled: false, _hold: hold }
    }

    fn end(mut self, reply: &Result<Reply>, upload: &Upload) {
        self.is_settled = match reply {
            Ok(_) => true,
            Err(error) => error.outcome() == Outcome::NotRun || upload.is_broken(),
        };
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        if !self.is_settled {
            self.cache.may_have_changed(&self.service);
        }
    }
}

/// Hears of answers to commands of a service that come too late.
struct LateCommands {
    cache: PageCache,
    service: Arc<str>,
}

impl LateListener for LateCommands {
    fn hear(&self, answer: LateAnswer) {
        // Without a slot its connection is closed; its pages have ended.
        let Some(slot) = self.cache.0.late.take(&self.service) else { return };
        let command = Command::begin(&self.cache, &self.service);
        self.cache.0.runtime.run(Box::pin(async move {
            if let Ok(reply) = answer.await {
                tags_changed(&command.cache, &command.service, &reply);
            }
            // Whatever it was, pages were made since its caller was told that it is late.
            drop(command);
            drop(slot);
        }));
    }
}

/// How many commands of each service go on without a caller.
#[derive(Debug)]
pub(super) struct Slots {
    most: usize,
    taken: Arc<Mutex<TakenSlots>>,
}

#[derive(Debug, Default)]
struct TakenSlots {
    by_service: HashMap<Arc<str>, usize>,
    /// Who waits until there are none.
    waiting: Vec<Waker>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
struct Slot {
    service: Arc<str>,
    taken: Arc<Mutex<TakenSlots>>,
}

impl Slots {
    pub(super) fn new(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    fn take(&self, service: &Arc<str>) -> Option<Slot> {
        let mut taken = self.taken.lock();
        let count = taken.by_service.entry(Arc::clone(service)).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Slot { service: Arc::clone(service), taken: Arc::clone(&self.taken) })
    }

    pub(super) fn poll_empty(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut taken = self.taken.lock();
        if taken.by_service.is_empty() {
            return Poll::Ready(());
        }
        taken.waiting.push(cx.waker().clone());
        Poll::Pending
    }

    pub(super) fn count(&self) -> usize {
        self.taken.lock().by_service.values().sum()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        if let Some(count) = taken.by_service.get_mut(&self.service) {
            *count -= 1;
            if *count == 0 {
                taken.by_service.remove(&self.service);
            }
        }
        if taken.by_service.is_empty() {
            taken.waiting.drain(..).for_each(Waker::wake);
        }
    }
}

/// The tags that the commands of each service have ever named, without what is below them: for
/// `items/7` it is `items`.
#[derive(Debug, Default)]
pub(super) struct NamedTags(Mutex<HashMap<Arc<str>, Roots>>);

#[derive(Debug, Default, Clone)]
struct Roots {
    tags: BTreeSet<String>,
    /// There are more than are kept.
    is_all: bool,
}

impl NamedTags {
    fn add(&self, service: &Arc<str>, tag: &str) {
        let root = tag.split('/').next().unwrap_or_default();
        let mut services = self.0.lock();
        let roots = services.entry(Arc::clone(service)).or_default();
        if !roots.tags.contains(root) {
            match roots.tags.len() < ROOTS_MAX {
                true => _ = roots.tags.insert(root.to_owned()),
                false => roots.is_all = true,
            }
        }
    }

    /// What of other services a service may have changed; `None` is anything.
    pub(super) fn of(&self, service: &str) -> Option<BTreeSet<String>> {
        match self.0.lock().get(service) {
            Some(roots) if roots.is_all => None,
            Some(roots) => Some(roots.tags.clone()),
            None => Some(BTreeSet::new()),
        }
    }
}

/// Ends what the response to a command says that it has changed; returns how many changes that is.
fn tags_changed(cache: &PageCache, service: &Arc<str>, reply: &Reply) -> u64 {
    let mut count = 0;
    for value in reply.headers.get_all(CHANGED) {
        let tags = value.to_str().unwrap_or_default().split(',').map(str::trim);
        for tag in tags.filter(|tag| !tag.is_empty()) {
            cache.0.named.add(service, tag);
            cache.changed(tag);
            count += 1;
        }
    }
    count
}

/// Ends what a command says that it has changed, and the pages that it was sent to or names
/// (RFC 9111, section 4.4). Returns how many changes that is.
pub(super) fn changed(
    cache: &PageCache,
    service: &Arc<str>,
    origin: &Origin,
    target: &str,
    reply: &Reply,
) -> u64 {
    let mut count = tags_changed(cache, service, reply);
    if !reply.status.is_success() && !reply.status.is_redirection() {
        return count;
    }
    let mut table = cache.0.table.lock();
    table.key_changed(&Key::new(service, origin, target));
    count += 1;
    for name in ["location", "content-location"] {
        let named = reply.headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(other) = named.and_then(|named| resolved(origin, target, named)) {
            table.key_changed(&Key::new(service, origin, &other));
            count += 1;
        }
    }
    count
}

/// Whether the response to a command says that it is what a `GET` of its target would bring (RFC
/// 9110, section 9.3.3).
pub(super) fn is_of_target(origin: &Origin, target: &str, reply: &Reply) -> bool {
    let named = reply.headers.get("content-location").and_then(|value| value.to_str().ok());
    let named = named.and_then(|named| resolved(origin, target, named));
    reply.status.is_success() && named.as_deref() == Some(target)
}

/// The path and query of a reference at the same origin; `None` for one elsewhere.
fn resolved(origin: &Origin, target: &str, reference: &str) -> Option<String> {
    let reference = reference.split('#').next().unwrap_or_default();
    let absolute = match reference.split_once("://") {
        Some(("http", rest)) if origin.scheme == "http" => Some(rest),
        Some(("https", rest)) if origin.scheme == "https" => Some(rest),
        Some((scheme, _)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            return None;
        }
        _ => reference.strip_prefix("//"),
    };
    if let Some(rest) = absolute {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let is_here = host_of(&rest[..end], origin.scheme) == origin.host;
        let slash = if rest[end..].starts_with('/') { "" } else { "/" };
        return is_here.then(|| format!("{slash}{}", &rest[end..]));
    }
    let path = target.split('?').next().unwrap_or("/");
    Some(match reference {
        "" => target.to_owned(),
        reference if reference.starts_with('/') => reference.to_owned(),
        query if query.starts_with('?') => format!("{path}{query}"),
        relative => {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            without_dots(&format!("{folder}/{relative}"))
        }
    })
}

/// A path without segments `.` and `..` (RFC 3986, section 5.2.4).
fn without_dots(path: &str) -> String {
    let (path, query) = path.split_once('?').map_or((path, ""), |(path, query)| (path, query));
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => _ = segments.pop(),
            segment => segments.push(segment),
        }
    }
    let question = if query.is_empty() { "" } else { "?" };
    format!("/{}{question}{query}", segments.join("/"))
}

/// By which a program says, in the response to a command, what it has changed.
pub(super) const CHANGED: HeaderName = HeaderName::from_static("tidewire-changed");

/// How many of them are kept of a service; one that names more has named all.
const ROOTS_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_at_their_origin_alone() {
        let origin =
            Origin { scheme: "http", host: "shop.example".to_owned(), prefix: String::new() };
        for (reference, expected) in [
            ("/b?c", Some("/b?c")),
            ("/b#c", Some("/b")),
            ("b", Some("/a/b")),
            ("./b/../c", Some("/a/c")),
            ("../../b", Some("/b")),
            ("?q", Some("/a/x?q")),
            ("", Some("/a/x?y")),
            ("http://shop.example", Some("/")),
            ("http://shop.example?q", Some("/?q")),
            ("http://Shop.Example:80/b", Some("/b")),
            ("//shop.example/b", Some("/b")),
            ("/b?u=http://other.example/", Some("/b?u=http://other.example/")),
            ("https://shop.example/b", None),
            ("http://shop.example:81/b", None),
            ("http://other.example/b", None),
            ("//other.example/b", None),
            ("ftp://shop.example/b", None),
        ] {
            let found = resolved(&origin, "/a/x?y", reference);
            assert_eq!(found.as_deref(), expected, "{reference}");
        }
    }
}
