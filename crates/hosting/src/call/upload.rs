//! Bodies of pages on their way to a program: nobody holds a place of it by sending slowly.
//!
//! | request | takes a place | loses it while others wait, if its body comes slower than `limits.transfer_rate_min` |
//! |---|---|---|
//! | a page with a body | once all of the body is there, or its first [`HELD_BYTES`] | by 408 |
//! | gRPC, a stream of Connect or of a method, `Expect` | from its head on: its caller waits for the program to say something | by the same, if its caller has more places than whoever waits |
//! | an upgrade | from its head on | never by this |
//! | a unary method | from its head on; its message is read before | never by this |
//!
//! How fast a body is counts by the time that the gateway waits for it: a program that reads slowly
//! takes nobody's place away. It is slow once that time is [`WINDOW`] and fewer bytes came than the
//! rate wants, until it has caught up.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::{Stream, StreamExt};
use http::header::{CONTENT_TYPE, EXPECT};
use http::{HeaderValue, StatusCode};
use tidewire_service::{Body, Call, CallerKey, Error, Frame, Frames, Result, Target};
use tidewire_wire::unread::has_envelopes;
use tokio::time::{Instant, sleep_until};

use crate::service::inner::Inner;

/// Waits until a call may take a place, which most may at once.
///
/// # Errors
/// The body broke off, or the server gave it up.
pub(crate) async fn hold_back(inner: &Arc<Inner>, call: &mut Call) -> Result<()> {
    if !matches!(call.body, Body::Stream(_)) {
        return Ok(());
    }
    let mut rest = Upload {
        frames: std::mem::take(&mut call.body).into_frames(),
        pace: UploadRate::new(inner.transfer_rate_min()),
        share_of: None,
        inner: Arc::clone(inner),
    };
    if !is_held_back(call) {
        rest.share_of = Some(call.context.caller_key());
        call.body = Body::frames(rest.into_stream());
        return Ok(());
    }
    let mut held = BytesMut::new();
    while held.len() < HELD_BYTES {
        match rest.frames.next().await.transpose()? {
            Some(Frame::Data(data)) => held.extend_from_slice(&data),
            Some(trailers @ Frame::Trailers(_)) => {
                let frames = [Ok(Frame::Data(held.freeze())), Ok(trailers)];
                call.body = Body::frames(futures_util::stream::iter(frames));
                return Ok(());
            }
            None if held.is_empty() => return Ok(()),
            None => {
                call.body = Body::Full(held.freeze());
                return Ok(());
            }
        }
    }
    let first = futures_util::stream::iter([Ok(Frame::Data(held.freeze()))]);
    call.body = Body::frames(first.chain(rest.into_stream()));
    Ok(())
}

/// Whether it is a page, whose caller waits for nothing meanwhile.
fn is_held_back(call: &Call) -> bool {
    // First what needs no headers: a cached reply whose run has read them is its caller's alone.
    if !matches!(call.target, Target::Http(_)) {
        return false;
    }
    let headers = call.context.headers();
    let has_envelopes = |value: &HeaderValue| has_envelopes(value.as_bytes());
    !headers.contains_key(EXPECT)
        && !headers.get(CONTENT_TYPE).is_some_and(has_envelopes)
        && tidewire_proxy::upgrade_header(call).is_none()
}

/// The rest of a body, once its call has a place.
struct Upload {
    frames: std::pin::Pin<Box<dyn Frames>>,
    pace: UploadRate,
    /// The caller, whose place is safe while it has no more of them than others.
    share_of: Option<CallerKey>,
    inner: Arc<Inner>,
}

impl Upload {
    fn into_stream(self) -> impl Stream<Item = Result<Frame>> + Send {
        futures_util::stream::unfold(Some(self), async |upload| {
            let mut upload = upload?;
            let Self { frames, pace, share_of, inner } = &mut upload;
            tokio::select! {
                biased;
                frame = frames.next() => {
                    let frame = frame?;
                    if let Ok(Frame::Data(data)) = &frame {
                        pace.came(data.len() as u64);
                    }
                    Some((frame, Some(upload)))
                }
                error = pace.lost(inner, *share_of) => Some((Err(error), None)),
            }
        })
    }
}

/// How fast a body comes while it is waited for.
#[derive(Debug)]
struct UploadRate {
    /// How many bytes a second.
    rate_min: u64,
    /// How many came in this window.
    bytes: u64,
    /// What is left of it, and since when it passes.
    left: Duration,
    since: Option<Instant>,
}

impl UploadRate {
    fn new(rate_min: u64) -> Self {
        Self { rate_min, bytes: 0, left: WINDOW, since: None }
    }

    /// Waits until it is too slow and another call needs the place.
    async fn lost(&mut self, inner: &Inner, share_of: Option<CallerKey>) -> Error {
        let since = *self.since.insert(Instant::now());
        sleep_until(since + self.left).await;
        inner.until_place_is_needed(share_of).await;
        let rate = self.rate_min;
        let name = inner.name();
        let text = format!(
            "the request body came slower than limits.transfer_rate_min = {rate} bytes a second while \
             others waited for {name}"
        );
        Error::deadline_exceeded(text).with_http_status(StatusCode::REQUEST_TIMEOUT)
    }

    /// So many bytes came.
    fn came(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        let waited = self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        self.left = self.left.saturating_sub(waited);
        if self.bytes >= self.rate_min.saturating_mul(WINDOW.as_secs()) {
            (self.bytes, self.left) = (0, WINDOW);
        }
    }
}

/// How much of a body is read before its call takes a place.
const HELD_BYTES: usize = 64 << 10;
/// How long a body is waited for before it is slow.
const WINDOW: Duration = Duration::from_secs(5);
