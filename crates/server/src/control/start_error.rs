//! Why a server does not start, or takes no other settings, and what to do about it.

use std::fmt;
use std::io;

use tidewire_listen::Address;

use crate::gate::access_error::AccessError;
use crate::gate::cors::CorsError;
use crate::limits::LimitsError;
use crate::services::reloadable::RulesError;
use crate::services::routes::RouteError;

/// Why a server did not start.
///
/// ```
/// # mod tidewire {
/// #     pub use http;
/// #     pub use tidewire_server::*;
/// #     pub use tidewire_service::*;
/// #     pub mod server { pub use tidewire_server::*; }
/// # }
/// use tidewire::http;
/// use tidewire::server::StartError;
/// use tidewire::{Call, Server};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let started = Server::builder()
///     .listen(std::net::SocketAddr::from(([127, 0, 0, 1], 0)))
///     .route(http::Method::GET, "/orders/{id}", async |_: Call| Ok("by id"))
///     .route(http::Method::GET, "/orders/{name}", async |_: Call| Ok("by name"))
///     .start()
///     .await;
/// assert!(matches!(started, Err(StartError::Route(_))), "one path, two handlers");
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// An address cannot be listened on.
    Listen {
        /// The address.
        address: Address,
        /// What the system says.
        cause: io::Error,
    },
    /// A route cannot be served.
    Route(RouteError),
    /// A REST route cannot be served.
    Rest(tidewire_rest::RestError),
    /// A bound is outside of what it may be.
    Limits(LimitsError),
    /// The settings for other origins cannot work.
    Cors(CorsError),
    /// Two services have a method at the same path.
    DuplicateMethod(String),
    /// The docs page is switched on, and reflection, which publishes the same, is off.
    DocsWithoutReflection,
    /// The descriptors of a service do not fit together, as reflection needs them to.
    Descriptors(String),
    /// A rule for requests of a service does not compile.
    Rules {
        /// The service.
        service: String,
        /// The rules, with file, line and column.
        cause: tidewire_schema::SchemaError,
    },
    /// The thread that tells the memo graph the time cannot be started.
    Memo(io::Error),
    /// A rule of whoever may call is for nothing that is served.
    Access(AccessError),
    /// A method's replies are cached for everybody, and not everybody may call it.
    PublicCache {
        /// The method, `shop.v1.Items/Get`.
        method: String,
        /// Who may call it.
        access: tidewire_service::Access,
    },
    /// Cache settings are for what is not a served query, or refine what is not cached.
    Terms(tidewire_cache::OverrideError),
    /// Keys are said to be kept by what is not a unary command that is served.
    CommandKeys(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { address, cause } if cause.kind() == io::ErrorKind::AddrInUse => write!(
                f,
                "{address} is in use by another program; stop it, or listen elsewhere: server.listen in \
                 tidewire.toml, or TIDEWIRE_SERVER_LISTEN (port 0 is any free port)"
            ),
            Self::Listen { address, .. } => write!(f, "cannot listen on {address}"),
            Self::Route(error) => error.fmt(f),
            Self::Rest(error) => error.fmt(f),
            Self::Limits(error) => error.fmt(f),
            Self::Cors(error) => error.fmt(f),
            Self::DuplicateMethod(path) => {
                write!(f, "method {path} is served twice; remove one of the services")
            }
            Self::DocsWithoutReflection => f.write_str(
                "server.docs is on and reflection is off, but the page shows the schema; set \
                 server.reflection = true too, or remove server.docs",
            ),
            Self::Descriptors(why) => write!(f, "the services' descriptors do not fit: {why}"),
            Self::Rules { service, cause } => write!(f, "{service} cannot be served: {cause}"),
            Self::Memo(_) => f.write_str("the clock of the memo graph cannot be started"),
            Self::Terms(error) => error.fmt(f),
            Self::CommandKeys(method) => {
                write!(
                    f,
                    "command_keys names {method}, which is not a unary command of this server"
                )
            }
            Self::Access(error) => error.fmt(f),
            Self::PublicCache { method, access } => write!(
                f,
                "{method} has cache: PUBLIC, but only {} may call it, and HTTP caches would give its \
                 replies to everybody; set cache: CALLER in its .proto or memo.methods, or let everybody \
                 call it",
                describe(access)
            ),
        }
    }
}

fn describe(access: &tidewire_service::Access) -> &'static str {
    match access {
        tidewire_service::Access::Authenticated => "authenticated callers",
        _ => "callers with certain scopes",
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen { cause, .. } if cause.kind() != io::ErrorKind::AddrInUse => Some(cause),
            Self::Memo(cause) => Some(cause),
            Self::Listen { .. }
            | Self::Route(_)
            | Self::Rest(_)
            | Self::Limits(_)
            | Self::Cors(_)
            | Self::DuplicateMethod(_)
            | Self::Terms(_)
            | Self::CommandKeys(_)
            | Self::Access(_)
            | Self::PublicCache { .. }
            | Self::DocsWithoutReflection
            | Self::Descriptors(_)
            | Self::Rules { .. } => None,
        }
    }
}

impl From<RouteError> for StartError {
    fn from(error: RouteError) -> Self {
        Self::Route(error)
    }
}

impl From<RulesError> for StartError {
    fn from(error: RulesError) -> Self {
        let RulesError { service, cause } = error;
        Self::Rules { service, cause }
    }
}
