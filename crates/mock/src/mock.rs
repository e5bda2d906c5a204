//! A mock: services of a schema, answered by rules or else from the schema.
//!
//! ```text
//! call ─▶ decode ─▶ validate ─▶ session ─▶ select ─▶ plan ─▶ play ─▶ reply
//!   └────────────────────────▶ log ◀────────────────────────────────┘
//! ```
//!
//! What answers is one [`Set`]: the schema and its rules. A reload puts another in its place at
//! once; calls that have begun end with the one that they began with.

mod answer;
mod build;
pub(crate) mod explain;
mod faults;
mod listing;
mod reactive;
mod reload;
mod request;
mod running;
mod stubs;
pub(crate) mod verify;

use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tidewire_schema::Schema;
use tidewire_service::{
    Answer, Call, Clock, Error, Interface, Method, RpcService, Service, ServiceSource, Signal,
};
use tidewire_validate::RuleSet;

pub use self::build::{MockBuilder, Respond, ResponseBuilder};
pub use self::listing::{MethodRules, SessionInfo};
pub use self::reload::ReloadReport;
use self::stubs::Stubs;
use crate::generate::GenerateOptions;
use crate::rules::MethodResponses;
use crate::state::log::Log;
use crate::state::sessions::{LockedSessions, Sessions};

/// Services that exist only as `.proto` files and rules.
///
/// Clones share everything. [`services`](Self::services) is what a server serves; a generated
/// client speaks to one of them in-process.
#[derive(Clone)]
pub struct Mock(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    current: RwLock<Arc<Set>>,
    sessions: Mutex<Sessions>,
    log: Mutex<Log>,
    timer: Arc<dyn Clock>,
    /// A moment by the timer, and in milliseconds since 1970.
    origin: (Instant, u64),
    seed: u64,
    violate: f64,
    missing: DefaultReply,
    /// Whether requests that break rules of validation are refused.
    validates: AtomicBool,
    faults: RwLock<faults::FaultsByMethod>,
    /// The real service, for calls that no rule answers.
    upstream: Option<Arc<dyn RealService>>,
    /// Another number each time that the services are others.
    edition: AtomicU64,
    /// How many stubs were added.
    stubs_added: AtomicU64,
    /// How many calls there were: chance differs from call to call.
    calls: AtomicU64,
}

/// The real service behind a mock; see [`MockBuilder::upstream`].
pub trait RealService: Send + Sync {
    /// Answers a call, whose messages are of a schema and in protobuf.
    fn answer(&self, schema: &Schema, call: Call) -> Answer;
}

/// What a method without rules answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DefaultReply {
    /// A message made from the schema.
    #[default]
    Generated,
    /// [`Code::Unimplemented`](tidewire_service::Code::Unimplemented), as wishmock.
    Unimplemented,
}

/// A schema and its rules.
#[derive(Clone)]
pub(crate) struct Set {
    pub(crate) schema: Schema,
    /// By path.
    pub(crate) methods: HashMap<String, MockedMethod>,
    pub(crate) generate_options: GenerateOptions,
}

/// A method and what answers it.
#[derive(Clone)]
pub(crate) struct MockedMethod {
    pub(crate) method: Method,
    pub(crate) file_rules: Option<MethodResponses>,
    /// They go before the responses of files.
    pub(crate) stubs: Stubs,
    /// Fires when other rules answer it.
    pub(crate) changed: Signal,
    /// The rules of validation of its requests, once they were asked for.
    request_rules: OnceLock<Option<Arc<RuleSet>>>,
}

impl MockedMethod {
    /// The rules of validation of its requests; `None` where there are none, or they do not
    /// compile: then a server with validation answers its calls with what is wrong with them.
    pub(crate) fn request_rules(&self, schema: &Schema) -> Option<Arc<RuleSet>> {
        let compile = || RuleSet::of(schema, [&*self.method.input]).ok().map(Arc::new);
        self.request_rules.get_or_init(compile).clone()
    }
}

/// A service of a mock; see [`Mock::services`].
#[derive(Clone, Debug)]
pub struct MockedService {
    mock: Mock,
    interface: Interface,
}

impl Mock {
    /// The services that there are now; a server is given the mock itself, as an [`ServiceSource`].
    pub fn services(&self) -> Vec<MockedService> {
        let set = self.set();
        let interfaces =
            set.schema.services().filter_map(|name| set.schema.interface(name).ok().flatten());
        interfaces.map(|interface| MockedService { mock: self.clone(), interface }).collect()
    }

    /// The schema that it answers with now.
    pub fn schema(&self) -> Schema {
        self.set().schema.clone()
    }

    /// Refuses requests that break the rules of validation of their schema from now on, with
    /// [`Code::InvalidArgument`](tidewire_service::Code::InvalidArgument), or no longer. Refused
    /// calls are in the log. Off unless set; a server that serves the mock sets it as its own.
    pub fn set_validation(&self, on: bool) {
        self.0.validates.store(on, Ordering::Release);
    }

    /// Milliseconds since 1970.
    pub(crate) fn now_millis(&self) -> u64 {
        let (origin, millis) = self.0.origin;
        let since = self.0.timer.now().saturating_duration_since(origin);
        millis + u64::try_from(since.as_millis()).unwrap_or(0)
    }

    pub(crate) fn set(&self) -> Arc<Set> {
        Arc::clone(&self.0.current.read())
    }

    pub(crate) fn sessions(&self) -> LockedSessions<'_> {
        LockedSessions::of(&self.0.sessions)
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, Log> {
        self.0.log.lock()
    }
}

impl Service for Mock {
    fn call(&self, call: Call) -> Answer {
        match call.spec().cloned() {
            Some(method) => answer::answer(self, &method, call),
            None => Answer::ready(Err(Error::unimplemented("a mock has methods only"))),
        }
    }
}

impl ServiceSource for Mock {
    fn edition(&self) -> u64 {
        self.0.edition.load(Ordering::Acquire)
    }

    fn services(&self) -> Vec<(Interface, Arc<dyn Service>)> {
        let services = Self::services(self).into_iter();
        services.map(|one| (one.interface.clone(), Arc::new(one) as Arc<dyn Service>)).collect()
    }
}

impl Service for MockedService {
    fn call(&self, call: Call) -> Answer {
        self.mock.call(call)
    }
}

impl RpcService for MockedService {
    fn interface(&self) -> Interface {
        self.interface.clone()
    }
}

impl fmt::Debug for Mock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mock").field("schema", &self.set().schema).finish_non_exhaustive()
    }
}
