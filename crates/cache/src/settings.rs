//! What can be set of a reply cache, and for one method.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use tidewire_service::{Caching, FormsBudget, Spec};

use crate::method_override::{self, CacheSetting, MethodOverride};
use crate::mismatch::OnMismatch;
use crate::turns::Turns;

/// What can be set.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) caller_ttl: Duration,
    pub(crate) compute_timeout: Duration,
    pub(crate) key_bytes_max: usize,
    pub(crate) reply_bytes_max: usize,
    /// What other forms of answers may take, all together.
    pub(crate) room: Arc<FormsBudget>,
    /// What caches of HTTP are told where a method says nothing.
    pub(crate) caching: Caching,
    /// Which hits are checked.
    pub(crate) verify: Arc<Turns>,
    pub(crate) on_mismatch: OnMismatch,
    /// Headers, beside `authorization` and `cookie`, by which a caller may say who it is.
    pub(crate) credential_headers: Vec<HeaderName>,
    /// Whether a caller may be known by a client certificate, which no `vary` can name.
    pub(crate) certificates: bool,
    /// By the method's name, `shop.v1.Items/Get`, or its service's, `shop.v1.Items/*`.
    pub(crate) methods: BTreeMap<String, MethodOverride>,
}

impl Settings {
    /// What is set for a method, or for its service.
    pub(crate) fn of(&self, spec: &Spec) -> MethodOverride {
        let of = |name: &str| self.methods.get(name).cloned().unwrap_or_default();
        let mut of_service = of(&format!("{}/*", spec.service));
        // What a method says itself is more exact; but all of a service can be turned off.
        if spec.cache.is_some() && of_service.cache != Some(CacheSetting::Off) {
            of_service.cache = None;
        }
        of(method_override::method_name(spec)).or(&of_service)
    }
}
