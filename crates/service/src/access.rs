//! Who may call a method: what its `.proto` says, or an operator in its place.
//!
//! Whether a call is let pass is decided by a [`Gate`](crate::Gate) that authenticates; here is
//! only what is asked of a caller.

use crate::{Names, Principal};

/// Who may call a method.
///
/// ```
/// # mod tidewire { pub use tidewire_service::*; pub mod service { pub use tidewire_service::*; } }
/// use tidewire::Principal;
/// use tidewire::service::Access;
///
/// let access = Access::scopes(&["orders.read", "orders.write"]);
/// let ada = Principal::new("https://id.example", "ada").with_scope("orders.read");
/// assert_eq!(access.lacking(&ada).collect::<Vec<_>>(), ["orders.write"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Everybody, also without credentials.
    Anonymous,
    /// Everybody who is known.
    Authenticated,
    /// Who is known, and has all of these scopes.
    Scopes(Names),
}

impl Access {
    /// Who has all of these scopes.
    pub const fn scopes(scopes: &'static [&'static str]) -> Self {
        Self::Scopes(Names::fixed(scopes))
    }

    /// [`scopes`](Self::scopes) that are known only at run time.
    pub fn scopes_dynamic(scopes: Vec<String>) -> Self {
        Self::Scopes(Names::shared(scopes))
    }

    /// The scopes that a caller lacks; none for a caller who may call.
    pub fn lacking<'a>(
        &'a self,
        principal: &'a Principal,
    ) -> impl Iterator<Item = &'a str> + use<'a> {
        let wanted = match self {
            Self::Scopes(scopes) => Some(scopes),
            _ => None,
        };
        let wanted = wanted.into_iter().flat_map(Names::iter);
        wanted.filter(|scope| !principal.has_scope(scope))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_lacks_the_scopes_that_it_does_not_have() {
        let ada = Principal::new("id.example", "ada").with_scope("read");
        let lacks = |access: &Access| access.lacking(&ada).map(str::to_owned).collect::<Vec<_>>();
        assert!(lacks(&Access::Anonymous).is_empty() && lacks(&Access::Authenticated).is_empty());
        assert!(lacks(&Access::scopes(&["read"])).is_empty());
        assert_eq!(lacks(&Access::scopes_dynamic(vec!["read".into(), "write".into()])), ["write"]);
    }
}
