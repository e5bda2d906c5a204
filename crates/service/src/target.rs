//! What a call is for: a method of a service, or a plain HTTP request.

use std::borrow::Cow;
use std::sync::Arc;

use http::Uri;

use crate::{CacheScope, Method, StreamKind};

/// What a call is for.
///
/// ```
/// # mod tidewire { pub use http; pub mod service { pub use tidewire_service::*; } }
/// use tidewire::http;
/// use tidewire::service::{HttpTarget, Target};
///
/// let target = HttpTarget::new(http::Method::GET, http::Uri::from_static("/health?verbose"));
/// assert_eq!(Target::Http(target).describe(), "GET /health");
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Target {
    /// A method of a service.
    Method(Method),
    /// A plain HTTP request.
    Http(HttpTarget),
    /// A method that an RPC protocol asks for and no service has, by its path. Gates and observers
    /// see such requests; services do not.
    Unknown(Box<str>),
}

/// The request line of a plain HTTP request, and what the route found in its path.
///
/// A handler's test says what the route would have found in the path:
///
/// ```
/// # mod tidewire {
/// #     pub use http;
/// #     pub use tidewire_service::*;
/// #     pub mod service { pub use tidewire_service::*; }
/// # }
/// use std::sync::Arc;
/// use tidewire::http;
/// use tidewire::service::{HttpTarget, PathParams, Target};
/// use tidewire::{Body, Call, Context};
///
/// let mut params = PathParams::default();
/// params.push(Arc::from("id"), "7".to_owned());
/// let target = HttpTarget::new(http::Method::GET, http::Uri::from_static("/orders/7"));
/// let target = Target::Http(target.with_params(params));
/// let call = Call::of_target(target, Context::default(), Body::Empty);
/// assert_eq!(call.param::<u64>("id")?, 7);
/// # Ok::<(), tidewire::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpTarget {
    /// The verb.
    pub method: http::Method,
    /// Path and query as they arrived.
    pub uri: Uri,
    /// The parts of the path that the route names, percent-decoded.
    pub params: PathParams,
}

/// The named parts of a matched path, percent-decoded, in the order of the route.
///
/// ```
/// # mod tidewire { pub mod service { pub use tidewire_service::*; } }
/// use std::sync::Arc;
/// use tidewire::service::PathParams;
///
/// let mut params = PathParams::default();
/// params.push(Arc::from("id"), "a b".to_owned()); // `/orders/a%20b` at `/orders/{id}`
/// assert_eq!(params.value("id"), Some("a b"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathParams(Vec<(Arc<str>, String)>);

impl PathParams {
    /// The value of the part called `name`.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| &**known == name).map(|(_, value)| value.as_str())
    }

    /// Adds a part.
    pub fn push(&mut self, name: Arc<str>, value: String) {
        self.0.push((name, value));
    }

    /// All parts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, value.as_str()))
    }
}

impl HttpTarget {
    /// A target without named parts of its path.
    #[inline]
    pub fn new(method: http::Method, uri: Uri) -> Self {
        Self { method, uri, params: PathParams::default() }
    }

    /// Sets the named parts of the path.
    #[must_use]
    #[inline]
    pub fn with_params(mut self, params: PathParams) -> Self {
        self.params = params;
        self
    }
}

impl Target {
    /// What the target is called in a log line: `/shop.v1.Contacts/Get` or `GET /health`.
    pub fn describe(&self) -> String {
        match self {
            Self::Method(method) => method.path.to_string(),
            Self::Http(target) => format!("{} {}", target.method, target.uri.path()),
            Self::Unknown(path) => path.to_string(),
        }
    }

    /// Who shares the replies, where they are cached; of unary methods only.
    pub fn cache_scope(&self) -> Option<&CacheScope> {
        match self {
            Self::Method(method) if method.kind == StreamKind::Unary => method.cache.as_ref(),
            _ => None,
        }
    }
}

/// A URI whose path has lost its first `bytes`, as what is mounted below a prefix sees it; the
/// query stays.
pub fn without_prefix(uri: &Uri, bytes: usize) -> Uri {
    let whole = uri.path_and_query().map_or("/", |whole| whole.as_str());
    let rest = whole.get(bytes..).unwrap_or_default();
    let rest = if rest.starts_with('/') { Cow::Borrowed(rest) } else { format!("/{rest}").into() };
    rest.parse().unwrap_or_else(|_| Uri::from_static("/"))
}
