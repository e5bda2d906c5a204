//! Interim responses (1xx) over HTTP/1.1: they are written before the response of their call.
//!
//! The HTTP library sends none but `100 Continue`, so that they go past it, where it has nothing
//! left to write and flushes:
//!
//! ```text
//! upstream ─ send ─▶ queue ─ wakes ─▶ library polls the call ─▶ flushes ─▶ Gather takes the queue
//! ```
//!
//! | what comes | is |
//! |---|---|
//! | while the call waits for its response | written with the next flush |
//! | just before the response | written first: the response waits for that flush |
//! | after it, or for a call before | dropped |
//!
//! Over HTTP/2 none are sent: the library has no means for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Context;

use futures_util::task::AtomicWaker;
use http::StatusCode;
use parking_lot::Mutex;
use tidewire_service::Headers;

/// The interim responses of the call that a connection waits for.
#[derive(Default)]
pub(crate) struct InterimQueue {
    /// The number of the last call.
    last: AtomicU64,
    /// The number of the call whose response has not begun; 0 for none.
    current: AtomicU64,
    has_some: AtomicBool,
    queued: Mutex<QueuedBytes>,
    waker: AtomicWaker,
}

/// What is to be written, and for which call.
#[derive(Default)]
struct QueuedBytes {
    call: u64,
    bytes: Vec<u8>,
}

impl InterimQueue {
    /// A call begins; returns its number.
    pub(crate) fn begin(&self) -> u64 {
        let call = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.current.store(call, Ordering::Release);
        call
    }

    /// Whether the response of a call may still be preceded.
    pub(crate) fn is_open(&self) -> bool {
        self.current.load(Ordering::Relaxed) != 0
    }

    /// The response begins.
    pub(crate) fn close(&self) {
        self.current.store(0, Ordering::Release);
    }

    /// Wakes this task once there is something.
    pub(crate) fn watch(&self, cx: &Context<'_>) {
        self.waker.register(cx.waker());
    }

    pub(crate) fn has_some(&self) -> bool {
        self.has_some.load(Ordering::Acquire)
    }

    /// Appends what is to be written now.
    pub(crate) fn take_into(&self, target: &mut Vec<u8>) {
        let mut queued = self.queued.lock();
        self.has_some.store(false, Ordering::Release);
        if queued.call == self.current.load(Ordering::Acquire) {
            target.extend_from_slice(&queued.bytes);
        }
        queued.bytes.clear();
    }

    /// Takes an interim response of this call.
    pub(crate) fn send(&self, call: u64, status: StatusCode, headers: &Headers) {
        let mut queued = self.queued.lock();
        if call != self.current.load(Ordering::Acquire) {
            return;
        }
        if queued.call != call {
            *queued = QueuedBytes { call, bytes: Vec::new() };
        }
        let before = queued.bytes.len();
        write(&mut queued.bytes, status, headers);
        if queued.bytes.len() > BYTES_MAX {
            queued.bytes.truncate(before);
        }
        let has_some = !queued.bytes.is_empty();
        self.has_some.store(has_some, Ordering::Release);
        drop(queued);
        self.waker.wake();
    }
}

fn write(bytes: &mut Vec<u8>, status: StatusCode, headers: &Headers) {
    let reason = status.canonical_reason().unwrap_or_default();
    bytes.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).as_bytes());
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            bytes.extend_from_slice(part);
        }
    }
    bytes.extend_from_slice(b"\r\n");
}

/// How much waits for one flush; what is more is dropped.
const BYTES_MAX: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn written(queue: &InterimQueue) -> String {
        let mut bytes = Vec::new();
        queue.take_into(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn what_comes_while_a_call_waits_is_written_and_nothing_else() {
        let queue = InterimQueue::default();
        let hints = Headers::from_iter([("link".parse().unwrap(), "</a>".parse().unwrap())]);
        let first = queue.begin();
        queue.send(first, StatusCode::PROCESSING, &Headers::new());
        queue.send(first, StatusCode::EARLY_HINTS, &hints);
        assert!(queue.has_some());
        let text = "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
        assert_eq!(written(&queue), text);
        assert!(!queue.has_some());
        // Of the call before, and after a response has begun.
        let second = queue.begin();
        queue.send(first, StatusCode::PROCESSING, &hints);
        assert!(!queue.has_some());
        queue.send(second, StatusCode::PROCESSING, &hints);
        queue.close();
        assert_eq!(written(&queue), "");
        queue.send(second, StatusCode::PROCESSING, &hints);
        assert!(!queue.has_some());
    }

    #[test]
    fn no_more_than_a_bound_waits() {
        let queue = InterimQueue::default();
        let call = queue.begin();
        let large =
            Headers::from_iter([("a".parse().unwrap(), "x".repeat(9_000).parse().unwrap())]);
        (0..1000).for_each(|_| queue.send(call, StatusCode::EARLY_HINTS, &large));
        assert_eq!(written(&queue).matches("103").count(), 3);
    }
}
