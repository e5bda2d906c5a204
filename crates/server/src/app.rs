//! The server as its protocols see it: its settings for now, and what all calls use. It knows no
//! protocol.
//!
//! Calls that no HTTP request carries run here too, once (`answer.rs`) or again and again
//! (`follow.rs`).

pub(crate) mod answer;
pub(crate) mod follow;
pub(crate) mod prepare;

use std::ops::Deref;
use std::sync::Arc;

use tidewire_cache::ReplyCache;
use tidewire_service::{Gate, Interface, Method, Observer, Target};
use tidewire_wire::Coders;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::gate::GateState;
use crate::gate::access::AccessGate;
use crate::gate::callers::CallerAddresses;
use crate::gate::cors::Policy;
use crate::gate::hosts::Hosts;
use crate::gate::open::OpenTargets;
use crate::limits::Limits;
use crate::request::command::Commands;
use crate::runtime::latest::LatestHandle;
use crate::runtime::stop::Stop;
use crate::runtime::usage::Counters;
use crate::services::methods::Methods;
use crate::services::routes::Routes;
use crate::socket::activity::UnreadBytes;
use crate::socket::prepared::PreparedReplies;

/// Leads to a server by the settings that it has now.
pub(crate) type AppHandle = LatestHandle<App>;

/// What answers requests: a server by the settings that it has for now.
pub(crate) struct App {
    /// How often the settings were changed before.
    pub(crate) edition: u64,
    pub(crate) limits: Limits,
    pub(crate) cors: Option<Arc<Policy>>,
    pub(crate) callers: Option<Box<CallerAddresses>>,
    pub(crate) gates: Vec<Arc<dyn Gate>>,
    pub(crate) open: OpenTargets,
    pub(crate) access: Option<Arc<AccessGate>>,
    pub(crate) shared: Arc<Shared>,
}

impl Deref for App {
    type Target = Shared;

    #[inline]
    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// What all calls of a server share, whatever becomes of its settings and whatever their protocol.
pub(crate) struct Shared {
    /// Leads to the settings that it has now.
    pub(crate) latest: AppHandle,
    pub(crate) edition_parts: EditionParts,
    pub(crate) methods: Methods,
    /// The services of the program, with their schemas.
    pub(crate) interfaces: Arc<[Interface]>,
    pub(crate) coders: Arc<Coders>,
    pub(crate) routes: Routes,
    pub(crate) hosts: Hosts,
    pub(crate) commands: Commands,
    /// Whether requests are checked against the rules of their schema.
    pub(crate) validates: bool,
    /// Whether gates see the host as a header although it came otherwise: those of the program may
    /// look at it.
    pub(crate) shows_host: bool,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: Stop,
    /// Whether replies may misbehave on purpose.
    pub(crate) faults: bool,
    /// Whether routes at paths of methods take gRPC-Web with JSON.
    pub(crate) web_json_to_routes: bool,
    /// Whether methods are given the host of HTTP/2.
    pub(crate) methods_see_host: bool,
    /// Whether `/docs` is the docs page.
    pub(crate) has_docs: bool,
    /// The bytes of replies that nobody reads yet.
    pub(crate) waiting: Arc<UnreadBytes>,
    /// Places for queries that are followed.
    pub(crate) followers: Arc<Semaphore>,
    pub(crate) counters: Arc<Counters>,
    /// Cached replies over HTTP/1.1 that leave as they lie.
    pub(crate) prepared: Arc<PreparedReplies>,
    /// The share of new traces that are sampled, where there are traces.
    pub(crate) traces: Option<f64>,
}

/// What an edition of the settings is made of beside them.
pub(crate) struct EditionParts {
    pub(crate) state: GateState,
    pub(crate) of_program: Vec<Arc<dyn Gate>>,
    /// The methods that rules may be for.
    pub(crate) served: Vec<Method>,
    pub(crate) cache: Option<ReplyCache>,
    pub(crate) has_document: bool,
}

impl App {
    /// The gates that a request passes.
    #[inline]
    pub(crate) fn gates_of(&self, target: &Target) -> &[Arc<dyn Gate>] {
        if self.open.has(target) { &self.open.gates } else { &self.gates }
    }

    /// Whether anything looks at requests before they are called.
    #[inline]
    pub(crate) fn watches(&self) -> bool {
        !self.gates.is_empty() || !self.observers.is_empty() || self.traces.is_some()
    }
}
