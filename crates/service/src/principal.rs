//! Who calls, as an authenticating [`Gate`](crate::Gate) found out.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// Who calls: set by a gate, read by services, and part of what makes two callers different for
/// answers that are kept for one caller only.
///
/// ```
/// # use tidewire_service as tidewire;
/// use tidewire::Principal;
/// let ada = Principal::new("https://id.example", "ada").with_scope("contacts.write");
/// assert!(ada.has_scope("contacts.write"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal(Arc<Claims>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Claims {
    issuer: String,
    subject: String,
    scopes: Vec<String>,
    claims: BTreeMap<String, Value>,
}

impl Principal {
    /// The caller whom `issuer` knows as `subject`.
    pub fn new(issuer: impl Into<String>, subject: impl Into<String>) -> Self {
        Self(Arc::new(Claims {
            issuer: issuer.into(),
            subject: subject.into(),
            scopes: Vec::new(),
            claims: BTreeMap::new(),
        }))
    }

    /// Adds something that the caller is allowed to do.
    #[must_use]
    pub fn with_scope(mut self, scope: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.0).scopes.push(scope.into());
        self
    }

    /// Adds something else that is known of the caller.
    #[must_use]
    pub fn with_claim(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        Arc::make_mut(&mut self.0).claims.insert(name.into(), value.into());
        self
    }

    /// Whether both are clones of one, which is a quick look: of two that were made apart it says
    /// no, although they may be equal.
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Who vouches for the caller.
    pub fn issuer(&self) -> &str {
        &self.0.issuer
    }

    /// The caller's name with its issuer.
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// What the caller is allowed to do.
    pub fn scopes(&self) -> &[String] {
        &self.0.scopes
    }

    /// Whether the caller is allowed to do this.
    pub fn has_scope(&self, scope: &str) -> bool {
        self.0.scopes.iter().any(|known| known == scope)
    }

    /// Something else that is known of the caller.
    pub fn claim(&self, name: &str) -> Option<&Value> {
        self.0.claims.get(name)
    }

    /// All that is known of the caller beside name and scopes, by name.
    pub fn claims(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.claims.iter().map(|(name, value)| (name.as_str(), value))
    }
}
