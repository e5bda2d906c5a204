//! What an operator says of one method, in place of what its `.proto` says.

use std::fmt;
use std::time::Duration;

use tidewire_service::{Caching, Lifetime, Sharing, Spec};

/// What holds for one method; what is `None` is as its `.proto` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MethodOverride {
    /// Who may share an answer.
    pub sharing: Option<Sharing>,
    /// How long an answer is kept although it recorded no dependency.
    pub ttl: Option<Duration>,
    /// Whether the answer for a request never changes. `false` takes back what the `.proto` says.
    pub immutable: Option<bool>,
    /// Whether calls with the same request may be answered by one run although nothing is kept.
    pub coalesce: Option<bool>,
    /// What caches of HTTP are told.
    pub caching: Caching,
}

impl MethodOverride {
    /// The facts of a method under these terms.
    pub(crate) fn over(&self, spec: &Spec) -> Effective {
        let declared = match spec.ttl() {
            Some(life) => Lifetime::For(life),
            None if spec.immutable => Lifetime::Immutable,
            None => Lifetime::Unknown,
        };
        let lifetime = match (self.ttl, self.immutable) {
            (Some(life), _) => Lifetime::For(life),
            (None, Some(true)) => Lifetime::Immutable,
            (None, Some(false)) if declared == Lifetime::Immutable => Lifetime::Unknown,
            (None, _) => declared,
        };
        Effective {
            sharing: self.sharing.clone().unwrap_or_else(|| spec.sharing.clone()),
            lifetime,
            coalesces: self.coalesce.unwrap_or(spec.coalesce),
            caching: self.caching.or(spec.caching),
        }
    }
}

/// What holds for one method.
pub(crate) struct Effective {
    pub(crate) sharing: Sharing,
    pub(crate) lifetime: Lifetime,
    pub(crate) coalesces: bool,
    pub(crate) caching: Caching,
}

impl Effective {
    /// What holds for plain pages.
    pub(crate) fn of_page() -> Self {
        Self {
            sharing: Sharing::Caller,
            lifetime: Lifetime::Unknown,
            coalesces: false,
            caching: Caching::NONE,
        }
    }
}

/// Terms for what is not a method whose answers could be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverrideError {
    method: String,
    why: String,
}

impl OverrideError {
    /// The method that was named, `shop.v1.Items/Get`.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// What is wrong with terms for `method`, if anything is, where `served` is what there is.
    pub(crate) fn find<'a>(
        method: &str,
        served: impl Iterator<Item = &'a Spec> + Clone,
    ) -> Option<Self> {
        let error = |why: String| Some(Self { method: method.to_owned(), why });
        let Some(spec) = served.clone().find(|spec| name(spec) == method) else {
            let service = method.split('/').next().unwrap_or_default();
            let others: Vec<_> = served
                .filter(|spec| spec.service == service && spec.is_query())
                .map(|spec| name(spec).to_owned())
                .collect();
            return error(match &others[..] {
                [] => "which is not served; write the full name of a query, such as \
                       shop.v1.Items/Get"
                    .to_owned(),
                others => format!("which is not served; there is {}", others.join(", ")),
            });
        };
        if !spec.is_query() {
            return error(
                "which is a command: its answers are never kept; mark it in its .proto with \
                 idempotency_level = NO_SIDE_EFFECTS if it changes nothing, or remove this"
                    .to_owned(),
            );
        }
        None
    }
}

/// A method as settings name it.
pub(crate) fn name(spec: &Spec) -> &str {
    spec.path.trim_start_matches('/')
}

impl fmt::Display for OverrideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memo.methods has {:?}, {}", self.method, self.why)
    }
}

impl std::error::Error for OverrideError {}
