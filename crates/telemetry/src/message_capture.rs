//! Messages of calls that are recorded: texts, never the messages themselves.
//!
//! Who shows a message decides what of it may be seen, as it goes by; the text is all that is kept,
//! and of it a bounded part.

use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use tidewire_service::{Codec, Method, Side};

/// Makes a text of a message: without what nobody is to see.
pub type ShowMessage = Arc<dyn Fn(&Method, Side, Codec, &[u8]) -> String + Send + Sync>;

/// The messages of a call, as texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Messages {
    /// Those of the request.
    pub request: Vec<String>,
    /// Those of the reply.
    pub reply: Vec<String>,
    /// How many more there were of both, or were cut.
    pub cut: u64,
}

/// Until when messages are captured, and how they are shown.
pub(crate) struct Capture {
    pub(crate) until: Instant,
    pub(crate) show: ShowMessage,
}

/// The messages of a call that is not over.
pub(crate) struct CapturedMessages {
    show: ShowMessage,
    method: Method,
    messages: Mutex<Messages>,
}

impl CapturedMessages {
    pub(crate) fn new(show: ShowMessage, method: Method) -> Self {
        Self { show, method, messages: Mutex::default() }
    }

    pub(crate) fn message(&self, side: Side, codec: Codec, message: &[u8]) {
        let room = |messages: &mut Messages| {
            let of_side = match side {
                Side::Request => &messages.request,
                Side::Reply => &messages.reply,
            };
            TEXT_MAX
                - of_side.iter().map(|text| text.len().max(TEXT_MIN)).sum::<usize>().min(TEXT_MAX)
        };
        if room(&mut self.messages()) == 0 {
            self.messages().cut += 1;
            return;
        }
        let mut text = (self.show)(&self.method, side, codec, message);
        let mut messages = self.messages();
        let room = room(&mut messages);
        if text.len() > room {
            text.truncate(text.floor_char_boundary(room));
            messages.cut += 1;
        }
        match side {
            Side::Request => messages.request.push(text),
            Side::Reply => messages.reply.push(text),
        }
    }

    /// All of them, at the end.
    pub(crate) fn take(&self) -> Messages {
        std::mem::take(&mut self.messages())
    }

    fn messages(&self) -> parking_lot::MutexGuard<'_, Messages> {
        self.messages.lock()
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").field("until", &self.until).finish_non_exhaustive()
    }
}

impl fmt::Debug for CapturedMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Captured")
    }
}

/// How much is kept of either side of a call; of all calls that are kept eight megabytes.
const TEXT_MAX: usize = 4096;
/// What a text counts for at least, so that many short ones are bounded too.
const TEXT_MIN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_service::{Spec, StreamKind};

    fn captured(show: impl Fn(&[u8]) -> String + Send + Sync + 'static) -> CapturedMessages {
        let spec = Spec::dynamic("a.B", "Get", StreamKind::Bidi, ["", ""]);
        let show: ShowMessage = Arc::new(move |_, _, _, message| show(message));
        CapturedMessages::new(show, Arc::new(spec).into())
    }

    #[test]
    fn of_either_side_a_bounded_part_is_kept_and_the_rest_counted() {
        let captured = captured(|message| "ä".repeat(message.len()));
        captured.message(Side::Request, Codec::Json, b"four");
        for _ in 0..10_000 {
            captured.message(Side::Reply, Codec::Json, b"");
        }
        captured.message(Side::Request, Codec::Json, &[b'a'; 5000]);
        captured.message(Side::Request, Codec::Json, b"one more");
        let messages = captured.take();
        assert_eq!(messages.request[0], "ääää");
        let length: usize = messages.request.iter().map(String::len).sum();
        assert!((4000..=TEXT_MAX).contains(&length), "{length}");
        assert_eq!(messages.reply.len(), TEXT_MAX / TEXT_MIN);
        assert_eq!(messages.cut, 10_000 - (TEXT_MAX / TEXT_MIN) as u64 + 2);
    }
}
