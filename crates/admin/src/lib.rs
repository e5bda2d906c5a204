//! What a running system says of itself and lets be done: `tidewire.admin.v1`, its guard, its
//! metrics.
//!
//! | at | is | asks for |
//! |---|---|---|
//! | `/livez`, `/readyz` | whether the program runs, and takes calls | nothing |
//! | `/metrics` | all counts, for Prometheus | `admin.read` |
//! | `/`, `/console/…` | the console, and its sign-in (`console.rs`) | nothing |
//! | `/mcp` (feature `mcp`) | tools for assistants (`assistants.rs`) | `admin.read`, `admin.act` |
//! | `tidewire.admin.v1` over Connect, gRPC and REST (`/v1/…`) | the rest | `admin.read`, `admin.act` |
//!
//! It is its own server beside the one that it tells of ([`Builder::beside`]), on its own address:
//! loopback or a Unix socket. Whoever comes by TCP shows the token of a file that only its owner
//! can read (`token.rs`), or that of another file which is good for `admin.read` alone; who comes
//! by the socket owns it. Pages of browsers are kept out by what browsers say of themselves
//! (`guard.rs`), and nothing here says a secret.

#![doc = include_str!("../README.md")]

#[cfg(feature = "mcp")]
mod assistants;
mod bodies;
mod calls;
mod console;
mod exact;
mod guard;
mod headers;
mod invalidation_causes;
mod inventory;
mod loads;
mod memo;
mod metrics;
#[cfg(feature = "mock")]
mod mocks;
mod own_server;
mod pages;
mod probes;
mod processes;
pub mod proto;
pub mod redact;
mod service_table;
mod services;
mod settings;
mod sign_in;
mod system;
mod tail;
mod token;
mod try_it;
mod try_rest;
mod types;
#[cfg(feature = "mock")]
mod wishmock;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use tidewire_memo::Graph;
use tidewire_rest::{RestOptions, UnknownNames};
use tidewire_server::{Address, Builder, Handle, Server};
use tidewire_service::{Access, Call, RpcService};
use tidewire_telemetry::Metrics;

#[cfg(feature = "mock")]
use crate::proto::tidewire::admin::v1::MocksServer;
use crate::proto::tidewire::admin::v1::{
    CallsServer, LoadsServer, MemoServer, PagesServer, ProcessesServer, ServicesServer,
    SystemServer, TailServer,
};

pub use inventory::Inventory;
pub use loads::LoadProgram;
#[cfg(feature = "mock")]
pub use mocks::folder::{LoadRules, ReloadRules, RuleFolder, write_whole};
#[cfg(feature = "mock")]
pub use mocks::protos::{ProtoFolder, ReloadProtos};
use service_table::ServiceTable;
pub use settings::Setting;
pub use sign_in::SignIn;
pub use token::{Token, TokenError};
#[cfg(feature = "mock")]
pub use wishmock::{Wishmock, WishmockPorts};

/// Sets the level of the log; the text says what is wrong with one.
pub type SetLogLevel = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// What an admin listener tells of, beside the server itself.
///
/// ```
/// # mod tidewire {
/// #     pub mod admin { pub use tidewire_admin::*; } pub mod memo { pub use tidewire_memo::*; }
/// #     pub mod telemetry { pub use tidewire_telemetry::*; } pub use tidewire_server::*;
/// # }
/// use tidewire::{Address, Server};
/// use tidewire::admin::{Admin, Token};
/// use tidewire::memo::Graph;
/// use tidewire::telemetry::Metrics;
///
/// let metrics = Metrics::new();
/// let admin = Admin::new(Token::unknown()?, metrics.clone(), Graph::global());
/// let server = Server::builder()
///     .observer(metrics)
///     .beside(|handle| admin.server(Address::Tcp(([127, 0, 0, 1], 9090).into()), handle));
/// # Ok::<(), tidewire::admin::TokenError>(())
/// ```
#[derive(Clone)]
#[must_use = "nothing listens until a server is built from it"]
pub struct Admin {
    token: Token,
    read_token: Option<Token>,
    metrics: Metrics,
    graph: Graph,
    inventory: Inventory,
    settings: Arc<[Setting]>,
    set_log_level: Option<SetLogLevel>,
    sign_in: SignIn,
    begun: Instant,
}

impl Admin {
    /// Tells of `metrics` and `graph`, to whoever has the token.
    pub fn new(token: Token, metrics: Metrics, graph: Graph) -> Self {
        Self {
            token,
            read_token: None,
            metrics,
            graph,
            inventory: Inventory::default(),
            settings: Arc::default(),
            set_log_level: None,
            sign_in: SignIn::default(),
            begun: Instant::now(),
        }
    }

    /// Sets a token for whoever may read, and change nothing.
    pub fn read_token(mut self, token: Option<Token>) -> Self {
        self.read_token = token;
        self
    }

    /// Sets the settings that are shown.
    pub fn settings(mut self, settings: Vec<Setting>) -> Self {
        self.settings = settings.into();
        self
    }

    /// Tells of programs and mocks too, which may be added later.
    pub fn inventory(mut self, inventory: Inventory) -> Self {
        self.inventory = inventory;
        self
    }

    /// Sets who may sign in to the console.
    pub fn sign_in(mut self, sign_in: SignIn) -> Self {
        self.sign_in = sign_in;
        self
    }

    /// Lets the level of the log be set.
    pub fn log_level(mut self, set: SetLogLevel) -> Self {
        self.set_log_level = Some(set);
        self
    }

    /// The server, for [`Builder::beside`].
    pub fn server(self, listen: Address, handle: Handle) -> Builder {
        let ready = handle.clone();
        let shown = (self.clone(), handle.clone());
        let of_calls = handle.clone();
        let metrics = move |call: Call| {
            let text = metrics::text(&shown.0, &shown.1, &call.context);
            async move { Ok(text) }
        };
        let rules = tidewire_server::AccessRules::default()
            .otherwise(Access::scopes(&[READ]))
            .path("/livez", Access::Anonymous)
            .path("/readyz", Access::Anonymous);
        let rules = console::open(rules);
        let system = SystemServer::new(system::SystemApi::new(self.clone(), handle.clone()));
        let mut rest = RestOptions::default();
        rest.unknown_members = UnknownNames::Refused;
        let builder = console::serve(Server::builder(), self.sign_in.clone())
            .listen(listen)
            .docs(false)
            .layer(exact::layer(system.interface()))
            .rest(rest)
            .private_sockets(true)
            .gate(guard::Guard {
                operator: self.token.clone(),
                reader: self.read_token.clone(),
                sign_in: self.sign_in.clone(),
            })
            .access(rules)
            .route(Method::GET, "/livez", async |_: Call| Ok("ok\n"))
            .route(Method::GET, "/readyz", move |_: Call| {
                let ready = ready.is_ready();
                async move { probes::ready(ready) }
            })
            .route(Method::GET, "/metrics", metrics);
        let mut served = ServiceTable::default();
        let tail = TailServer::new(tail::TailApi::new(self.clone(), handle.clone()));
        let builder = served.add(builder, system).service(tail);
        let loads = loads::LoadsApi::new(handle.clone(), self.inventory.clone());
        let builder = served.add(builder, LoadsServer::new(loads));
        let builder = served.add(builder, ServicesServer::new(services::ServicesApi::new(handle)));
        let processes = ProcessesServer::new(processes::ProcessesApi(self.inventory.clone()));
        let builder = served.add(builder, processes);
        let builder =
            served.add(builder, PagesServer::new(pages::PagesApi(self.inventory.clone())));
        let calls = calls::CallsApi { metrics: self.metrics.clone(), handle: of_calls };
        let builder = served.add(builder, CallsServer::new(calls));
        let memo = MemoServer::new(memo::MemoApi::new(self.graph, self.metrics));
        let builder = served.add(builder, memo);
        #[cfg(feature = "mock")]
        let builder =
            served.add(builder, MocksServer::new(mocks::MocksApi(self.inventory.clone())));
        #[cfg(feature = "mcp")]
        let builder = assistants::serve(builder, served, self.inventory);
        builder
    }
}

/// The descriptors of `tidewire.admin.v1`: a `google.protobuf.FileDescriptorSet` with all imports.
pub fn descriptors() -> &'static [u8] {
    proto::DESCRIPTOR_SET
}

/// How many rows are in one reply, where so many are asked for.
fn limit(asked: u32) -> usize {
    match asked {
        0 => 100,
        asked => asked.min(1000) as usize,
    }
}

/// A time as messages have it.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Who may see.
const READ: &str = "admin.read";
/// Who may change what runs.
const ACT: &str = "admin.act";

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Admin")
    }
}
