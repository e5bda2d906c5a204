//! The side of a hosted process: what it says of itself.
//!
//! The process dials, over the socket that it inherited, and says that it is ready as soon as it is
//! greeted. What belongs to the call that it answers: `running.rs`.

use std::sync::Arc;

use tidewire_live_proto::{Config, Metadata, Session, Violation};
use tidewire_service::{Call, Headers, Reply, Result};
use tokio_util::task::TaskTracker;

use crate::driver::Connection;
use crate::host::Host;
use crate::link::Link;
use crate::session_clock::SessionClock;
use crate::transport::Transport;

/// A hosted process, as its own program has it; clones are the same.
#[derive(Debug, Clone)]
pub struct Process(Link);

impl Process {
    /// A process whose calls are answered by `host`. `config` offers and requires `HOSTED`.
    pub fn new(config: Config, host: Arc<dyn Host>) -> Self {
        let session = Session::dialer(config);
        Self(Link::of_process(session, SessionClock::start(), host, TaskTracker::new()))
    }

    /// Serves until the host ends the connection: why, if that was not an ordinary end.
    pub async fn run(&self, transport: impl Transport) -> Option<Violation> {
        let now = self.0.0.clock.now();
        self.0.lock().session.connect(now);
        Connection::new(&self.0, transport, None).run().await;
        self.0.expire();
        self.0.why_over()
    }

    /// Says that sources changed: the host hears it before any later reply.
    pub fn changed(&self, source: &str, key: &str) {
        let mut state = self.0.lock();
        state.session.changed([(source.as_bytes(), key.as_bytes())]);
        state.wake();
    }

    /// Says how many jobs run that are not calls.
    pub fn busy(&self, jobs: u64) {
        let mut state = self.0.lock();
        state.session.busy(jobs);
        state.wake();
    }

    /// Writes a line to the log of the host: 1 trace, 2 debug, 3 info, 4 warn, 5 error.
    pub fn log(&self, level: u8, text: &str, fields: &Headers) {
        let fields = Metadata::from_maps(fields, &Headers::new());
        let mut state = self.0.lock();
        state.session.log(level, text, &fields);
        state.wake();
    }

    /// Calls the host: as a part of the call that this task answers, if it does.
    ///
    /// # Errors
    /// As [`Link::call`].
    ///
    /// # Cancel safety
    /// As [`Link::call`].
    pub async fn call(&self, call: Call) -> Result<Reply> {
        self.0.call(call).await
    }
}
