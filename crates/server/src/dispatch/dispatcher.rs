//! What answers the requests of one connection: by which settings, for whom, and what they may do
//! to the connection.

use std::sync::Arc;

use parking_lot::Mutex;
use tidewire_service::{Peer, Signal};

use crate::app::App;
use crate::dispatch::server_state::ServerState;
use crate::protocols::live::upgrade::Takeover;
use crate::socket::gather::GatherHandle;

/// What answers the requests of one connection.
#[derive(Clone)]
pub(crate) struct Dispatcher {
    pub(crate) app: Arc<App>,
    pub(crate) server: Arc<ServerState>,
    pub(crate) peer: Arc<Peer>,
    /// A separate copy, so that requests on different connections share no reference count.
    pub(crate) stopping: Signal,
    /// Says that the connection is to go away, as a reply's script may want it.
    pub(crate) goes_away: Signal,
    pub(crate) gathering: GatherHandle,
    /// Set when the connection, or a stream of it, is to go on as a live one.
    pub(crate) taken: Arc<Mutex<Option<Takeover>>>,
}

impl Dispatcher {
    pub(crate) fn new(
        server: Arc<ServerState>,
        app: Arc<App>,
        peer: Arc<Peer>,
        gathering: GatherHandle,
    ) -> Self {
        Self {
            app,
            server,
            peer,
            stopping: Signal::new(),
            goes_away: Signal::new(),
            gathering,
            taken: Arc::default(),
        }
    }

    /// What is to go on as a live connection: all of it, or of HTTP/2 the stream that was answered
    /// last.
    pub(crate) fn take_over(&self) -> Option<Takeover> {
        self.taken.lock().take()
    }

    /// The same, by the settings that the server has now.
    #[inline]
    pub(crate) fn up_to_date(&mut self) -> &Self {
        if self.server.latest.edition() != self.app.edition {
            self.app = self.server.latest.now();
        }
        self
    }
}
