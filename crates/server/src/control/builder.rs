//! Putting a server together: its settings. `assembly.rs` makes the parts of them, `start.rs` runs
//! those.

mod assembly;
mod parts;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tidewire_cache::ReplyCache;
use tidewire_listen::Address;
use tidewire_rest::RestOptions;
use tidewire_service::{Gate, Interface, Layer, Observer, RpcService, Service, ServiceSource};

use crate::control::builder::parts::{OfferedSource, Route};
use crate::control::handle::Handle;
use crate::control::reload::ReloadHandle;
use crate::gate;
use crate::gate::access::AccessRules;
use crate::gate::callers::CallerAddresses;
use crate::gate::cors::Cors;
use crate::gate::hosts::Hosts;
use crate::limits::Limits;
use crate::services::command_keys::CommandKeys;

/// One port, all protocols; see [`Server::builder`].
#[derive(Debug)]
pub struct Server(());

impl Server {
    /// A server without services that listens on `127.0.0.1:8080` unless told otherwise.
    ///
    /// ```no_run
    /// use http::Method;
    /// use tidewire_service::{Call, Reply};
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = tidewire_server::Server::builder()
    ///     .route(Method::GET, "/hello", async |_: Call| Ok("hello"))
    ///     .start()
    ///     .await?;
    /// server.until_stopped().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> Builder {
        Builder {
            services: Vec::new(),
            offer: None,
            routes: Vec::new(),
            layers: Vec::new(),
            inner_layers: Vec::new(),
            memo: None,
            gates: Vec::new(),
            access: AccessRules::default(),
            traces: None,
            beside: None,
            private_sockets: false,
            observers: Vec::new(),
            listen: Vec::new(),
            limits: Limits::default(),
            reflection: None,
            docs: None,
            front_page: None,
            rest: RestOptions::default(),
            faults: false,
            web_json_to_routes: false,
            methods_see_host: false,
            cors: Cors::default(),
            hosts: Hosts::any(),
            callers: CallerAddresses::default(),
            validation: true,
            command_keys: CommandKeys::default(),
            reload: ReloadHandle::default(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

/// A server being put together.
///
/// What stands around services is said once, and holds for every protocol:
///
/// ```
/// # mod tidewire { pub use http; pub use tidewire_server::*; pub use tidewire_service::*; }
/// use tidewire::http;
/// use tidewire::{Call, Error, Head, Server};
///
/// fn authenticate(head: &mut Head) -> tidewire::Result<()> {
///     match head.context.header("authorization") {
///         Some(_) => Ok(()),
///         None => Err(Error::unauthenticated("send authorization")),
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder()
///     .listen(std::net::SocketAddr::from(([127, 0, 0, 1], 0)))
///     .gate(authenticate)
///     .route(http::Method::GET, "/hello/{name}", async |call: Call| {
///         Ok(format!("Hello, {}!", call.param::<String>("name")?))
///     })
///     .start()
///     .await?;
/// assert!(server.url().starts_with("http://127.0.0.1:"));
/// assert!(server.drain().await);
/// # Ok(())
/// # }
/// ```
#[must_use = "a server does nothing until it is started"]
pub struct Builder {
    services: Vec<(Interface, Arc<dyn Service>)>,
    offer: Option<OfferedSource>,
    routes: Vec<Route>,
    layers: Vec<Arc<dyn Layer>>,
    inner_layers: Vec<Arc<dyn Layer>>,
    memo: Option<ReplyCache>,
    gates: Vec<Arc<dyn Gate>>,
    access: AccessRules,
    traces: Option<f64>,
    private_sockets: bool,
    beside: Option<Box<dyn FnOnce(Handle) -> Self + Send>>,
    observers: Vec<Arc<dyn Observer>>,
    listen: Vec<Address>,
    limits: Limits,
    reflection: Option<bool>,
    docs: Option<bool>,
    front_page: Option<String>,
    rest: RestOptions,
    faults: bool,
    web_json_to_routes: bool,
    methods_see_host: bool,
    cors: Cors,
    hosts: Hosts,
    callers: CallerAddresses,
    validation: bool,
    command_keys: CommandKeys,
    reload: ReloadHandle,
    #[cfg(feature = "tls")]
    tls: Option<tidewire_listen::Tls>,
}

impl Builder {
    /// Serves the methods of a service over all RPC protocols.
    pub fn service(mut self, service: impl RpcService) -> Self {
        self.services.push((service.interface(), Arc::new(service)));
        self
    }

    /// Serves services that may be others while the server runs: their methods, what reflection and
    /// health say of them and their rules of validation follow at once. REST bindings,
    /// `/openapi.json` and rules of access are those of the start.
    pub fn offer(mut self, offer: impl ServiceSource) -> Self {
        self.offer = Some(OfferedSource { source: Arc::new(offer), validation_switch: None });
        self
    }

    /// The same as [`offer`](Self::offer), of services that themselves refuse requests that break
    /// rules of validation, so that they see them: a mock logs what it refuses. `switch` is told at
    /// the start of the server whether they are to refuse them ([`validation`](Self::validation)).
    pub fn offer_validated(
        mut self,
        offer: impl ServiceSource,
        switch: impl FnOnce(bool) + Send + 'static,
    ) -> Self {
        let validation_switch = Some(Box::new(switch) as Box<dyn FnOnce(bool) + Send>);
        self.offer = Some(OfferedSource { source: Arc::new(offer), validation_switch });
        self
    }

    /// Serves a plain HTTP handler at a verb and a path template, such as `/echo/{text}`.
    ///
    /// `{name}` matches one segment, `{*name}` the rest; [`Call::param`] gives what matched.
    ///
    /// [`Call::param`]: tidewire_service::Call::param
    pub fn route(self, verb: Method, template: &str, service: impl Service) -> Self {
        self.add_route(Some(verb), template, service)
    }

    /// Serves everything at and below a prefix; the service sees the path without it.
    ///
    /// Wrap a `tower::Service` or an `axum::Router` by [`tower`](crate::tower). Mounted at `/` it
    /// gets whatever no route or method takes.
    pub fn mount(self, prefix: &str, service: impl Service) -> Self {
        self.add_route(None, prefix, service)
    }

    fn add_route(mut self, verb: Option<Method>, template: &str, service: impl Service) -> Self {
        let service: Arc<dyn Service> = Arc::new(service);
        self.routes.push(Route { verb, template: template.to_owned(), service });
        self
    }

    /// Wraps every service and handler; the first layer added sees a call first. What a gate
    /// refuses meets no layer.
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.layers.push(Arc::new(layer));
        self
    }

    /// Wraps every service and handler inside of what keeps answers: such a layer sees the calls
    /// that are computed, not those that are answered from memory.
    pub fn inner_layer(mut self, layer: impl Layer) -> Self {
        self.inner_layers.push(Arc::new(layer));
        self
    }

    /// Answers queries from memory until what their answers were made of changes: inside of all
    /// layers but the inner ones. Handlers declare what they read by sources and memos of the graph
    /// of `cache`, whose time the server tells while it runs.
    pub fn memo(mut self, cache: ReplyCache) -> Self {
        self.memo = Some(cache);
        self
    }

    /// Lets requests pass by their heads, before a body is read; the first gate added is asked
    /// first.
    ///
    /// Gates see every request of every protocol, also for what does not exist, but not the
    /// question of a browser for other origins, and what everybody may ask for: health, unless a
    /// rule asks who calls, and what [`AccessRules::reflection`] opens.
    pub fn gate(mut self, gate: impl Gate) -> Self {
        self.gates.push(Arc::new(gate));
        self
    }

    /// Sets who may call what, in place of what `.proto` files say. It is asked after all gates:
    /// those say who calls ([`Context::set_principal`](tidewire_service::Context::set_principal)).
    pub fn access(mut self, rules: AccessRules) -> Self {
        self.access = rules;
        self
    }

    /// Tells of every request of every protocol, and of its one end; not of the question of a
    /// browser for other origins, which is answered before anything else.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Gives each request a place in a trace (W3C Trace Context) and an id (`x-request-id`), which
    /// observers and handlers find among its headers, and the caller among those of the reply. Of
    /// the traces that begin here this share is sampled, from 0 to 1. Off unless set.
    pub fn traces(mut self, sampled: f64) -> Self {
        self.traces = Some(sampled);
        self
    }

    /// Lets only the program's owner connect to its Unix sockets (mode 0600, not by the umask).
    pub fn private_sockets(mut self, on: bool) -> Self {
        self.private_sockets = on;
        self
    }

    /// Starts another server with this one, on its own addresses; it goes on while this drains.
    pub fn beside(mut self, make: impl FnOnce(Handle) -> Self + Send + 'static) -> Self {
        self.beside = Some(Box::new(make));
        self
    }

    /// Adds an address to listen on; without any it is `127.0.0.1:8080`.
    pub fn listen(mut self, address: impl Into<Address>) -> Self {
        self.listen.push(address.into());
        self
    }

    /// Sets the bounds.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Switches server reflection on or off; by default it is on where every address is local.
    pub fn reflection(mut self, on: impl Into<Option<bool>>) -> Self {
        self.reflection = on.into();
        self
    }

    /// Switches `/docs` on or off, a page that describes the services and calls them from a
    /// browser. By default it is on where reflection is on, every address is local and nothing of
    /// the program takes its path. Its rule of access is [`AccessRules::reflection`].
    /// Switched on, it goes before a mount at `/`; routes at `/docs` itself stay.
    pub fn docs(mut self, on: impl Into<Option<bool>>) -> Self {
        self.docs = on.into();
        self
    }

    /// Answers `/` with this text and the names of the services, where reflection is on and nothing
    /// of the program is at `/`; a browser is sent to `/docs` where that is on.
    pub fn front_page(mut self, text: impl Into<String>) -> Self {
        self.front_page = Some(text.into());
        self
    }

    /// Sets how REST requests are read and replies are printed.
    pub fn rest(mut self, options: RestOptions) -> Self {
        self.rest = options;
        self
    }

    /// Lets replies misbehave as their [`Script`](tidewire_service::Script) says: for mocks and
    /// tests of clients. By default scripts are ignored.
    pub fn faults(mut self, on: bool) -> Self {
        self.faults = on;
        self
    }

    /// Gives a route at the path of a method what says that it is gRPC-Web with JSON and has no
    /// header `x-user-agent`, as pages that know no envelopes send it. By default the method does.
    pub fn web_json_to_routes(mut self, on: bool) -> Self {
        self.web_json_to_routes = on;
        self
    }

    /// Gives methods the host that a caller over HTTP/2 asked for as header `host`, at the cost of
    /// a copy; over HTTP/1.1 they have it. Upstreams are told of it.
    pub fn methods_see_host(mut self, on: bool) -> Self {
        self.methods_see_host = on;
        self
    }

    /// Sets the hosts that the server answers for; any by default. See [`Hosts`].
    pub fn hosts(mut self, hosts: Hosts) -> Self {
        self.hosts = hosts;
        self
    }

    /// Sets from which addresses calls are taken, and which proxies are believed about their
    /// callers; by default calls are taken from everywhere, and no proxy is believed.
    pub fn callers(mut self, callers: CallerAddresses) -> Self {
        self.callers = callers;
        self
    }

    /// Lets pages of other origins call from a browser; by default none may.
    pub fn cors(mut self, cors: Cors) -> Self {
        self.cors = cors;
        self
    }

    /// Switches off, or on again, that requests are checked against the rules of their schema
    /// (protovalidate, protoc-gen-validate, `REQUIRED`): after all layers of the server, just
    /// before the service and its own layers; see `Validate` of the schema.
    pub fn validation(mut self, on: bool) -> Self {
        self.validation = on;
        self
    }

    /// Says that these methods (`shop.v1.Orders/Create`) store the key of each command in its
    /// transaction ([`Context::command_key`](tidewire_service::Context::command_key)), and keep it
    /// for `kept`. Live clients then send a command again whose session was lost.
    pub fn command_keys<M: AsRef<str>>(mut self, methods: &[M], kept: Duration) -> Self {
        self.command_keys.add(methods, kept);
        self
    }

    /// What gives the server other settings once it runs.
    pub fn reload_handle(&self) -> ReloadHandle {
        self.reload.hand_out()
    }

    /// Speaks TLS on every TCP address.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: tidewire_listen::Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Whether a rule of [`AccessRules::path`] is for anything that is served so far as plain HTTP,
    /// or is at one of these `templates` (`/pages/{*rest}`), which are answered by what is mounted
    /// later. What is mounted at `/` may have a page anywhere.
    pub fn has_path_of<'t>(&self, rule: &str, templates: impl Iterator<Item = &'t str>) -> bool {
        let mut here: Vec<_> = templates.map(str::to_owned).collect();
        for Route { verb, template, .. } in &self.routes {
            let bare = template.trim_end_matches('/');
            match verb {
                Some(_) => here.push(template.to_string()),
                None => here.extend([bare.to_owned(), format!("{bare}/{{*rest}}")]),
            }
        }
        here.extend(self.front_page.iter().map(|_| "/".to_owned()));
        gate::access_paths::is_for_any(rule, here.iter().map(String::as_str))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("listen", &self.listen)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

// Last, so that documentation shows its methods of the builder behind those above.
mod start;
