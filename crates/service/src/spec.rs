//! What is known of a method before any call of it: names, kind, promises.
//!
//! Static facts only; what belongs to one request is in [`Context`](crate::Context). Generated code
//! holds a [`Spec`] in a `static`; a schema loaded at run time shares one by reference count.
//! [`Method`] is a handle to either.
//!
//! | declared in the `.proto` | here | consequence |
//! |---|---|---|
//! | `idempotency_level = NO_SIDE_EFFECTS` | [`Spec::is_query`] | may be memoized, watched, sent by GET |
//! | `idempotency_level = IDEMPOTENT` | [`Idempotency::Idempotent`] | may be retried |
//! | `(tidewire.v1.method).cache` | [`CacheScope`] | replies are cached, and who shares them |
//! | `.ttl`, `.immutable`, `.coalesce` | same names | for how long a cached reply is right; who waits for one run |
//! | `(tidewire.v1.method).access`, `.scopes` | [`Access`] | who may call |
//! | `(tidewire.v1.method).max_age`, `.stale_while_revalidate`, `.stale_if_error` | [`Caching`] | what caches of HTTP are told |

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::Access;

/// The facts of one method.
///
/// What a gate, a layer or an observer knows of the method that is called:
///
/// ```
/// # mod tidewire { pub mod service { pub use tidewire_service::*; } }
/// use tidewire::service::{Idempotency, Spec, StreamKind};
///
/// let messages = ["shop.v1.GetRequest", "shop.v1.Contact"];
/// let spec = Spec::dynamic("shop.v1.Contacts", "Get", StreamKind::Unary, messages)
///     .idempotency(Idempotency::NoSideEffects);
/// assert_eq!(spec.path, "/shop.v1.Contacts/Get");
/// assert!(spec.is_query());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spec {
    /// The service's full name, `shop.v1.Contacts`.
    pub service: Cow<'static, str>,
    /// The method's name, `GetContact`.
    pub method: Cow<'static, str>,
    /// The path that RPC protocols use, `/shop.v1.Contacts/GetContact`.
    pub path: Cow<'static, str>,
    /// Which sides stream.
    pub kind: StreamKind,
    /// What a repeated call does.
    pub idempotency: Idempotency,
    /// The request's full message name.
    pub input: Cow<'static, str>,
    /// The reply's full message name.
    pub output: Cow<'static, str>,
    /// Whether replies are cached, and who may share them; `None` where each call runs the method.
    pub cache: Option<CacheScope>,
    /// How long an answer stays good without a recorded dependency, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// Whether the answer for a request never changes.
    pub immutable: bool,
    /// Whether calls with the same request may be answered by one run although nothing is kept.
    pub coalesce: bool,
    /// The HTTP status of a success over REST; 200 when not declared.
    pub http_status: Option<u16>,
    /// What caches of HTTP are told.
    pub caching: Caching,
    /// Who may call; `None` where the server decides.
    pub access: Option<Access>,
}

/// For how long caches of HTTP may answer, although nobody tells them of changes; in seconds, as
/// they count. What is not said is `None`.
///
/// ```
/// # mod tidewire { pub mod service { pub use tidewire_service::*; } }
/// use tidewire::service::Caching;
///
/// let of_method = Caching { max_age: Some(60), ..Caching::NONE };
/// let of_server = Caching { max_age: Some(5), stale_if_error: Some(600), ..Caching::NONE };
/// let both = of_method.or(of_server);
/// assert_eq!((both.max_age, both.stale_if_error), (Some(60), Some(600)));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caching {
    /// Without asking (`max-age`, RFC 9111, section 5.2.2.1).
    pub max_age: Option<u64>,
    /// How much longer while they ask (RFC 5861, section 3).
    pub stale_while_revalidate: Option<u64>,
    /// How much longer while asking fails (RFC 5861, section 4).
    pub stale_if_error: Option<u64>,
}

impl Caching {
    /// Nothing is said.
    pub const NONE: Self =
        Self { max_age: None, stale_while_revalidate: None, stale_if_error: None };

    /// What is said here, and `other` where nothing is.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            max_age: self.max_age.or(other.max_age),
            stale_while_revalidate: self.stale_while_revalidate.or(other.stale_while_revalidate),
            stale_if_error: self.stale_if_error.or(other.stale_if_error),
        }
    }
}

/// Which sides of a call send a stream of messages.
///
/// ```
/// # mod tidewire { pub mod service { pub use tidewire_service::*; } }
/// use tidewire::service::StreamKind;
///
/// assert!(StreamKind::Server.server_streams());
/// assert!(!StreamKind::Server.client_streams());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// One request, one reply.
    Unary,
    /// Many requests, one reply.
    Client,
    /// One request, many replies.
    Server,
    /// Many of both, in any order.
    Bidi,
}

/// What calling a method twice does (`idempotency_level` in the `.proto`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Idempotency {
    /// Not declared: each call may change something.
    Unknown,
    /// A query: nothing is changed by any number of calls.
    NoSideEffects,
    /// A command that may be repeated without changing more than the first call did.
    Idempotent,
}

/// Who may share a cached reply.
///
/// Of a plain HTTP handler it is said where the handler is served:
///
/// ```
/// # mod tidewire { pub use tidewire_service::*; pub mod service { pub use tidewire_service::*; } }
/// use tidewire::service::CacheScope;
/// use tidewire::{Call, Service};
///
/// async fn page(_: Call) -> tidewire::Result<&'static str> {
///     Ok("the same for everybody who reads English")
/// }
/// let served = page.cached(CacheScope::vary(&["accept-language"]));
/// assert_eq!(served.cache(), Some(CacheScope::vary(&["accept-language"])));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheScope {
    /// Everyone.
    Public,
    /// The same caller only (principal, client certificate, `authorization`, `cookie`).
    Caller,
    /// Callers who sent the same values of these headers.
    Vary(Names),
}

/// Names of headers, in lower case, or of scopes: fixed ones of generated code, or those of a
/// schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names(NameList);

#[derive(Debug, Clone, PartialEq, Eq)]
enum NameList {
    Fixed(&'static [&'static str]),
    Shared(Arc<[String]>),
}

impl CacheScope {
    /// Callers who sent the same values of these headers; names are lower case.
    pub const fn vary(names: &'static [&'static str]) -> Self {
        Self::Vary(Names::fixed(names))
    }

    /// [`vary`](Self::vary) with names that are known only at run time.
    pub fn vary_dynamic(names: Vec<String>) -> Self {
        Self::Vary(Names::shared(names))
    }
}

impl Names {
    pub(crate) const fn fixed(names: &'static [&'static str]) -> Self {
        Self(NameList::Fixed(names))
    }

    pub(crate) fn shared(names: Vec<String>) -> Self {
        Self(NameList::Shared(names.into()))
    }

    /// Each name.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let (fixed, shared): (&[&str], &[String]) = match &self.0 {
            NameList::Fixed(names) => (names, &[]),
            NameList::Shared(names) => (&[], names),
        };
        fixed.iter().copied().chain(shared.iter().map(String::as_str))
    }
}

impl StreamKind {
    /// Whether the client may send more than one message.
    pub const fn client_streams(self) -> bool {
        matches!(self, Self::Client | Self::Bidi)
    }

    /// Whether the server may send more than one message.
    pub const fn server_streams(self) -> bool {
        matches!(self, Self::Server | Self::Bidi)
    }
}

impl Spec {
    /// A method that promises nothing: a command whose answers are never kept.
    ///
    /// `path` is `/service/method`; it is given apart so that generated code is a constant.
    /// `messages` are the full names of the request and the reply.
    pub const fn new(
        service: &'static str,
        method: &'static str,
        path: &'static str,
        kind: StreamKind,
        messages: [&'static str; 2],
    ) -> Self {
        Self {
            service: Cow::Borrowed(service),
            method: Cow::Borrowed(method),
            path: Cow::Borrowed(path),
            kind,
            idempotency: Idempotency::Unknown,
            input: Cow::Borrowed(messages[0]),
            output: Cow::Borrowed(messages[1]),
            cache: None,
            ttl_ms: None,
            immutable: false,
            coalesce: false,
            http_status: None,
            caching: Caching::NONE,
            access: None,
        }
    }

    /// A method of a schema that is known only at run time.
    pub fn dynamic(service: &str, method: &str, kind: StreamKind, messages: [&str; 2]) -> Self {
        Self {
            service: service.to_owned().into(),
            method: method.to_owned().into(),
            path: format!("/{service}/{method}").into(),
            input: messages[0].to_owned().into(),
            output: messages[1].to_owned().into(),
            ..Self::new("", "", "", kind, ["", ""])
        }
    }

    /// Sets what a repeated call does.
    #[must_use]
    pub const fn idempotency(mut self, idempotency: Idempotency) -> Self {
        self.idempotency = idempotency;
        self
    }

    /// Caches the replies of this query, and sets who may share them.
    #[must_use]
    pub const fn cache(mut self, scope: CacheScope) -> Self {
        std::mem::forget(self.cache.replace(scope));
        self
    }

    /// Sets how long an answer stays good by itself, in milliseconds.
    #[must_use]
    pub const fn ttl_ms(mut self, ttl_ms: u64) -> Self {
        self.ttl_ms = Some(ttl_ms);
        self
    }

    /// Declares that the answer for a request never changes.
    #[must_use]
    pub const fn immutable(mut self) -> Self {
        self.immutable = true;
        self
    }

    /// Declares that calls with the same request may be answered by one run although nothing is
    /// kept.
    #[must_use]
    pub const fn coalesce(mut self) -> Self {
        self.coalesce = true;
        self
    }

    /// Sets the HTTP status of a success over REST.
    #[must_use]
    pub const fn http_status(mut self, status: u16) -> Self {
        self.http_status = Some(status);
        self
    }

    /// Sets what caches of HTTP are told.
    #[must_use]
    pub const fn caching(mut self, caching: Caching) -> Self {
        self.caching = caching;
        self
    }

    /// Sets who may call.
    #[must_use]
    pub const fn access(mut self, access: Access) -> Self {
        std::mem::forget(self.access.replace(access));
        self
    }

    /// How long an answer stays good by itself.
    pub fn ttl(&self) -> Option<Duration> {
        self.ttl_ms.map(Duration::from_millis)
    }

    /// Whether the method is a query: it changes nothing, so it may be memoized, watched, retried
    /// and cancelled. Any other method is a command, which runs to completion.
    pub fn is_query(&self) -> bool {
        self.idempotency == Idempotency::NoSideEffects
    }
}

/// A handle to the [`Spec`] of a method, static or shared; cheap to clone.
///
/// ```
/// # mod tidewire { pub use tidewire_service::*; pub mod service { pub use tidewire_service::*; } }
/// use tidewire::Method;
/// use tidewire::service::{Spec, StreamKind};
///
/// static GET: Spec =
///     Spec::new("shop.v1.Contacts", "Get", "/shop.v1.Contacts/Get", StreamKind::Unary, ["A", "B"]);
/// let method = Method::from(&GET);
/// assert_eq!(method.service, "shop.v1.Contacts");
/// assert!(!method.is_query(), "whatever does not say so is a command");
/// ```
#[derive(Clone)]
pub struct Method(Handle);

#[derive(Clone)]
enum Handle {
    Static(&'static Spec),
    Shared(Arc<Spec>),
}

impl Deref for Method {
    type Target = Spec;

    fn deref(&self) -> &Spec {
        match &self.0 {
            Handle::Static(spec) => spec,
            Handle::Shared(spec) => spec,
        }
    }
}

impl From<&'static Spec> for Method {
    fn from(spec: &'static Spec) -> Self {
        Self(Handle::Static(spec))
    }
}

impl From<Arc<Spec>> for Method {
    fn from(spec: Arc<Spec>) -> Self {
        Self(Handle::Shared(spec))
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}
