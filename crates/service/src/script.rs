//! Replies that misbehave on purpose, for those who want to know what their client does then.
//!
//! A mock says what is to go wrong and when; the server that sends the reply does it, where it was
//! built to allow faults, and otherwise sends the reply as if there were no script.

use std::time::Duration;

use http::HeaderValue;

/// What goes wrong with a reply, in order.
///
/// A reply that is slow and then breaks off, for the test of a client:
///
/// ```
/// # mod tidewire { pub use tidewire_service::*; pub mod service { pub use tidewire_service::*; } }
/// use std::time::Duration;
/// use tidewire::service::{Fault, Script};
/// use tidewire::Reply;
///
/// let script = Script::new(Fault::HeadDelay(Duration::from_millis(200)))
///     .then(Fault::TruncateAfter(3));
/// let reply = Reply::text("hello").with_script(script);
/// assert_eq!(reply.script().map(|script| script.faults().len()), Some(2));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script(Vec<Fault>);

/// One thing that goes wrong with a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Before the head is sent, nothing happens for this long.
    HeadDelay(Duration),
    /// Before each message nothing happens for this long.
    FrameDelay(Duration),
    /// The stream is reset after this many messages; a connection of HTTP/1.1 is closed.
    ResetAfter(usize),
    /// The connection says that it goes away after this many messages.
    GoAwayAfter(usize),
    /// The body ends after this many bytes, whatever its length was said to be.
    TruncateAfter(u64),
    /// The body is sent in pieces of this many bytes, with this pause between them.
    Dribble {
        /// Bytes a piece.
        bytes: usize,
        /// The pause between two pieces.
        every: Duration,
    },
    /// The trailers are not sent.
    LoseTrailers,
    /// The answer claims this content type.
    ContentType(HeaderValue),
}

impl Script {
    /// A script of one fault.
    pub fn new(fault: Fault) -> Self {
        Self(vec![fault])
    }

    /// Adds a fault.
    #[must_use]
    pub fn then(mut self, fault: Fault) -> Self {
        self.0.push(fault);
        self
    }

    /// Each fault, in order.
    pub fn faults(&self) -> &[Fault] {
        &self.0
    }
}
