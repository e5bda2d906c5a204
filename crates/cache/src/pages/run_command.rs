//! Commands on their way: what becomes of them without their caller, and what they end then.
//!
//! | a command | ends |
//! |---|---|
//! | answered | what its response names, also where its caller is gone by then; it is over when the response is complete (`command_response.rs`) |
//! | that was not sent, or that its caller broke off before all of it was there | nothing: no program acts on an incomplete request (RFC 9112, section 8) |
//! | whose outcome is not known, since its program ended, broke off or is late | all pages of its service, and what its service ever named in a response; the same once more when a late answer comes |
//! | of gRPC whose caller gave it up | nothing: it is given up at the program, too |

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::StreamExt as _;
use http::Method;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use tidewire_service::{Body, Call, Frame, LateAnswer, LateListener, Reply, Result};
use tracing::Instrument as _;

use super::command::Command;
use super::command_response::until_complete;
use super::commands::tags_changed;
use super::page_cache::PageCache;

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
        let Some(running) = self.0.take() else { return Poll::Ready(reply) };
        Poll::Ready(match reply {
            Ok(reply) => Ok(until_complete(running.command, reply)),
            Err(error) => {
                running.command.fail(&error, running.upload.is_broken());
                Err(error)
            }
        })
    }
}

impl Drop for CommandAnswer {
    fn drop(&mut self) {
        let Some(RunningCommand { answer, command, upload, is_grpc }) = self.0.take() else {
            return;
        };
        if is_grpc || !upload.is_complete() {
            command.settle();
            return;
        }
        let cache = command.cache.clone();
        let Some(slot) = cache.0.orphans.take(&command.service) else { return };
        cache.0.runtime.run(Box::pin(async move {
            match answer.await {
                // What it says after its head is for nobody.
                Ok(reply) => drop(until_complete(command, reply)),
                Err(error) => command.fail(&error, upload.is_broken()),
            }
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
