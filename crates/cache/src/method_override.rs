//! What an operator says of one method, in place of what its `.proto` says.

use std::time::Duration;

use tidewire_service::{CacheScope, Caching, Lifetime, Spec};

use crate::scope::Scope;

/// What holds for one method; what is `None` is as its `.proto` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MethodOverride {
    /// Whether replies are cached, and who may share them.
    pub cache: Option<CacheSetting>,
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
    /// What is said here, and what `service` says of all its methods where nothing is.
    pub(crate) fn or(&self, service: &Self) -> Self {
        Self {
            cache: self.cache.clone().or_else(|| service.cache.clone()),
            ttl: self.ttl.or(service.ttl),
            immutable: self.immutable.or(service.immutable),
            coalesce: self.coalesce.or(service.coalesce),
            caching: self.caching.or(service.caching),
        }
    }

    /// The first setting that refines how replies are cached.
    pub(crate) fn refinement(&self) -> Option<&'static str> {
        let Caching { max_age, stale_while_revalidate, stale_if_error } = self.caching;
        let set = [
            ("ttl", self.ttl.is_some()),
            ("immutable", self.immutable == Some(true)),
            ("coalesce", self.coalesce == Some(true)),
            ("max_age", max_age.is_some()),
            ("stale_while_revalidate", stale_while_revalidate.is_some()),
            ("stale_if_error", stale_if_error.is_some()),
        ];
        set.iter().find(|(_, is_set)| *is_set).map(|(name, _)| *name)
    }

    /// Whether replies of a method are cached, and who shares them.
    pub(crate) fn scope(&self, spec: &Spec) -> Scope {
        self.cache_of(spec).into()
    }

    /// The same as a method says it.
    pub(crate) fn cache_of(&self, spec: &Spec) -> Option<CacheScope> {
        match &self.cache {
            Some(CacheSetting::Off) => None,
            Some(CacheSetting::On(scope)) => Some(scope.clone()),
            None => spec.cache.clone(),
        }
    }

    /// The facts of a method under these terms.
    pub(crate) fn over(&self, spec: &Spec) -> Effective {
        let scope = self.scope(spec);
        if !scope.is_cached() {
            return Effective::of_page(None);
        }
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
            scope,
            lifetime,
            coalesces: self.coalesce.unwrap_or(spec.coalesce),
            caching: self.caching.or(spec.caching),
        }
    }
}

/// Whether replies are cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheSetting {
    /// No: each call runs the method.
    Off,
    /// They are, for these callers.
    On(CacheScope),
}

/// What holds for one method.
pub(crate) struct Effective {
    pub(crate) scope: Scope,
    pub(crate) lifetime: Lifetime,
    pub(crate) coalesces: bool,
    pub(crate) caching: Caching,
}

impl Effective {
    /// What holds for plain pages, and for what is not cached.
    pub(crate) fn of_page(cache: Option<CacheScope>) -> Self {
        Self {
            scope: cache.into(),
            lifetime: Lifetime::Unknown,
            coalesces: false,
            caching: Caching::NONE,
        }
    }
}

/// A method as settings name it.
pub(crate) fn method_name(spec: &Spec) -> &str {
    spec.path.trim_start_matches('/')
}
