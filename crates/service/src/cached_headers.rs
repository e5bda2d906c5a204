//! Which headers of a call reach a program or an upstream whose reply is cached: those in the key,
//! since nobody sees which headers it reads.
//!
//! | `cache` | headers |
//! |---|---|
//! | `PUBLIC` | `traceparent` |
//! | `VARY` | the named ones, `traceparent` |
//! | `CALLER` | `authorization`, `cookie`, `traceparent`, `tracestate` |
//!
//! Headers that only a gateway or a proxy may say are never among them.

use http::HeaderName;

use crate::{CacheScope, Context, Headers, is_of_gateway, is_of_proxy};

impl Context {
    /// The headers that a reply cached for `scope` may depend on, and a program or an upstream is
    /// sent: `traceparent`; with `VARY` those that it names; with `CALLER` `authorization`,
    /// `cookie` and `tracestate`. No other part of the context is read.
    #[must_use]
    pub fn headers_of_cached(&self, scope: &CacheScope) -> Headers {
        let mut headers = Headers::new();
        let mut take = |name: &str| {
            if !is_of_gateway(name)
                && !is_of_proxy(name)
                && let Ok(known) = name.parse::<HeaderName>()
            {
                for value in self.header_values(name) {
                    headers.append(known.clone(), value.clone());
                }
            }
        };
        let is_shared = matches!(scope, CacheScope::Public | CacheScope::Vary(_));
        match scope {
            CacheScope::Public => {}
            CacheScope::Vary(names) => names.iter().for_each(take),
            CacheScope::Caller => ["authorization", "cookie"].into_iter().for_each(&mut take),
        }
        // The span is the gateway's own; what else the caller says of its trace is not for others.
        let trace = self.trace().filter(|(name, _)| !is_shared || name.as_str() == "traceparent");
        trace.for_each(|(name, value)| _ = headers.append(name, value.clone()));
        headers
    }
}
