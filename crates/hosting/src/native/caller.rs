//! Who calls, as a program is told, and with whose rights it calls on.
//!
//! | a call | the header `tidewire-principal` |
//! |---|---|
//! | a unary query that is cached `PUBLIC` or `VARY` | none: its reply is for others too |
//! | any other, a page included | who calls, if a gate found out |
//!
//! | a program calls | it is |
//! |---|---|
//! | with a credential | whoever that is of, as for anybody |
//! | without | itself: `service/NAME` of the issuer `tidewire`, without scopes |
//! | with `tidewire-rights: caller`, as part of a call that it answers | the caller of that call, as the program was told, or nobody |
//!
//! So a program has no rights but its own and those of whom it is just answering.

use tidewire_service::{
    CALLER_RIGHTS, CacheScope, Call, Context, Error, Headers, Principal, RIGHTS_HEADER, Result,
    StreamKind, Target,
};

/// Who calls, as far as a program may know.
#[derive(Debug)]
pub(crate) enum Caller {
    /// The program is not told.
    Untold,
    /// The principal; nobody where there is none.
    Told(Option<Principal>),
}

/// With whose rights a program calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rights {
    /// As itself.
    Own,
    /// As the caller of the call that it answers.
    Caller,
}

impl Caller {
    /// Who makes a call that a program is to answer. What it may not know is not read, since that
    /// would make a reply its caller's own.
    pub(crate) fn of(call: &Call) -> Self {
        match is_told(&call.target) {
            true => Self::Told(call.context.principal().cloned()),
            false => Self::Untold,
        }
    }

    /// The same, where it is known.
    pub(crate) fn principal(self) -> Option<Principal> {
        match self {
            Self::Told(principal) => principal,
            Self::Untold => None,
        }
    }

    /// Makes a call of the program one with the rights of this caller.
    ///
    /// # Errors
    /// The program is not told who that is.
    pub(crate) fn lend(&self, context: &mut Context) -> Result<()> {
        match self {
            Self::Told(principal) => {
                context.set_principal(principal.clone());
                Ok(())
            }
            Self::Untold => Err(Error::failed_precondition(
                "the reply is cached for others too, so that no call within has its caller's \
                 rights; declare cache: CALLER, or none",
            )),
        }
    }
}

impl Rights {
    /// What a program asks for by its headers, of which this one goes no further.
    ///
    /// # Errors
    /// It asks for what there is not.
    pub(crate) fn take(headers: &mut Headers) -> Result<Self> {
        let is_known = headers.get_all(RIGHTS_HEADER).iter().all(|value| value == CALLER_RIGHTS);
        match headers.remove(RIGHTS_HEADER) {
            None => Ok(Self::Own),
            Some(_) if is_known => Ok(Self::Caller),
            Some(_) => Err(Error::invalid_argument("tidewire-rights is \"caller\", or absent")),
        }
    }
}

/// How a program is known where it calls as itself.
pub(crate) fn itself(service: &str) -> Principal {
    Principal::new(ISSUER, format!("service/{service}"))
}

fn is_told(target: &Target) -> bool {
    let Target::Method(method) = target else { return true };
    let is_shared = matches!(method.cache, Some(CacheScope::Public | CacheScope::Vary(_)));
    method.kind != StreamKind::Unary || !is_shared
}

/// The issuer of programs.
const ISSUER: &str = "tidewire";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use http::HeaderValue;
    use tidewire_service::{Body, Idempotency, Spec};

    fn ada() -> Principal {
        Principal::new("https://id.example", "ada")
    }

    fn call(cache: Option<CacheScope>, kind: StreamKind) -> Call {
        let mut spec = Spec::dynamic("a.v1.A", "Get", kind, ["", ""]);
        (spec.cache, spec.idempotency) = (cache, Idempotency::NoSideEffects);
        let mut context = Context::default();
        context.set_principal(ada());
        Call::of_target(Target::Method(Arc::new(spec).into()), context, Body::Empty)
    }

    #[test]
    fn a_program_is_not_told_who_asks_for_a_reply_that_is_for_others_too() {
        let unary = |cache| Caller::of(&call(cache, StreamKind::Unary));
        for cache in [CacheScope::Public, CacheScope::vary(&["tidewire-principal"])] {
            let caller = unary(Some(cache));
            assert!(matches!(caller, Caller::Untold));
            assert!(caller.lend(&mut Context::default()).is_err());
        }
        for cache in [Some(CacheScope::Caller), None] {
            let mut context = Context::default();
            let caller = unary(cache);
            caller.lend(&mut context).unwrap();
            assert_eq!((context.principal(), caller.principal()), (Some(&ada()), Some(ada())));
        }
        let streamed = Caller::of(&call(Some(CacheScope::Public), StreamKind::Server));
        assert_eq!(streamed.principal(), Some(ada()), "streams are not cached");
    }

    #[test]
    fn rights_are_the_programs_own_unless_it_asks() {
        let asked = |values: &[&'static str]| {
            let mut headers = Headers::new();
            for value in values {
                headers.append(RIGHTS_HEADER, HeaderValue::from_static(value));
            }
            let rights = Rights::take(&mut headers);
            assert!(headers.is_empty());
            rights.map_err(|error| error.code())
        };
        assert_eq!(asked(&[]), Ok(Rights::Own));
        assert_eq!(asked(&["caller"]), Ok(Rights::Caller));
        for wrong in [&["root"][..], &["caller", "root"], &[""]] {
            assert_eq!(asked(wrong), Err(tidewire_service::Code::InvalidArgument));
        }
    }
}
