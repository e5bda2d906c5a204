//! How a person gets into the console without typing a token: a code in the fragment of an address.
//!
//! A code is good once, for a minute, and for what its maker may do. The page exchanges it for a
//! bearer token of this boot that lasts twelve hours. Neither is written anywhere; both are known
//! here by their text alone, and how long a comparison takes says nothing of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use subtle::ConstantTimeEq;
use tidewire_service::Principal;

use crate::token::random_hex;

/// Codes and bearer tokens of a console; clones share them.
#[derive(Clone, Default)]
pub struct SignIn(Arc<Mutex<Credentials>>);

#[derive(Default)]
struct Credentials {
    codes: Vec<Credential>,
    bearers: Vec<Credential>,
}

struct Credential {
    text: String,
    principal: Principal,
    until: Instant,
}

impl SignIn {
    /// A code for whoever started the program: it is good for everything.
    ///
    /// # Errors
    /// Where the system has no randomness.
    pub fn operator_code(&self) -> Result<String, crate::TokenError> {
        self.code(crate::guard::operator(), Instant::now())
    }

    /// A code for what `principal` may do.
    pub(crate) fn code(
        &self,
        principal: Principal,
        now: Instant,
    ) -> Result<String, crate::TokenError> {
        let text = random_hex::<16>()?;
        let credential = Credential { text: text.clone(), principal, until: now + CODE_LIFETIME };
        add(&mut self.0.lock().codes, credential, now, CODES_MAX);
        Ok(text)
    }

    /// The bearer token for a code, which is used up by that.
    pub(crate) fn exchange(
        &self,
        code: &str,
        now: Instant,
    ) -> Result<Option<(String, Principal)>, crate::TokenError> {
        let text = random_hex::<32>()?;
        let mut known = self.0.lock();
        let Some(place) = find(&known.codes, code.as_bytes(), now) else { return Ok(None) };
        let Credential { principal, .. } = known.codes.swap_remove(place);
        let principal = of_console(&principal);
        let bearer = Credential {
            text: text.clone(),
            principal: principal.clone(),
            until: now + BEARER_LIFETIME,
        };
        add(&mut known.bearers, bearer, now, BEARERS_MAX);
        Ok(Some((text, principal)))
    }

    /// Whose bearer token this is.
    pub(crate) fn principal(&self, bearer: &[u8], now: Instant) -> Option<Principal> {
        let known = self.0.lock();
        find(&known.bearers, bearer, now).map(|place| known.bearers[place].principal.clone())
    }
}

/// Whether somebody is known by a bearer token of a console: it opens no other, or it would be good
/// for ever.
pub(crate) fn is_of_console(principal: &Principal) -> bool {
    principal.issuer() == ISSUER
}

/// The same as known by a bearer token.
fn of_console(maker: &Principal) -> Principal {
    let known = Principal::new(ISSUER, maker.subject());
    maker.scopes().iter().fold(known, |known, scope| known.with_scope(scope))
}

/// Adds one; what is over goes, and the oldest of the same maker where there are too many.
fn add(all: &mut Vec<Credential>, one: Credential, now: Instant, max: usize) {
    all.retain(|known| known.until > now);
    let is_same = |known: &Credential| known.principal.subject() == one.principal.subject();
    if all.iter().filter(|known| is_same(known)).count() >= max
        && let Some(oldest) = all.iter().position(is_same)
    {
        all.remove(oldest);
    }
    all.push(one);
}

/// All are looked at, whichever it is.
fn find(all: &[Credential], shown: &[u8], now: Instant) -> Option<usize> {
    let mut found = None;
    for (place, known) in all.iter().enumerate() {
        let is_same: bool = known.text.as_bytes().ct_eq(shown).into();
        if is_same && known.until > now {
            found = Some(place);
        }
    }
    found
}

const ISSUER: &str = "console";
const CODE_LIFETIME: Duration = Duration::from_secs(60);
const BEARER_LIFETIME: Duration = Duration::from_secs(12 * 3600);
const CODES_MAX: usize = 16;
const BEARERS_MAX: usize = 64;

impl std::fmt::Debug for SignIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SignIn")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ACT, READ};

    fn reader() -> Principal {
        Principal::new("admin", "reader").with_scope(READ)
    }

    #[test]
    fn a_reader_signs_no_operator_out_and_a_console_opens_no_other() {
        let (sign_in, now) = (SignIn::default(), Instant::now());
        let code = sign_in.operator_code().unwrap();
        for _ in 0..2 * BEARERS_MAX {
            let of_reader = sign_in.code(reader(), now).unwrap();
            sign_in.exchange(&of_reader, now).unwrap().unwrap();
        }
        let (bearer, principal) = sign_in.exchange(&code, now).unwrap().unwrap();
        assert!(is_of_console(&principal) && principal.has_scope(ACT));
        for _ in 0..2 * BEARERS_MAX {
            let of_reader = sign_in.code(reader(), now).unwrap();
            sign_in.exchange(&of_reader, now).unwrap().unwrap();
        }
        assert_eq!(sign_in.principal(bearer.as_bytes(), now), Some(principal));
        assert!(sign_in.0.lock().bearers.len() <= BEARERS_MAX + 1);
    }

    #[test]
    fn a_code_is_good_once_and_for_a_minute() {
        let (sign_in, now) = (SignIn::default(), Instant::now());
        let code = sign_in.code(reader(), now).unwrap();
        let (bearer, _) = sign_in.exchange(&code, now).unwrap().unwrap();
        assert!(sign_in.exchange(&code, now).unwrap().is_none(), "twice");
        assert!(sign_in.principal(bearer.as_bytes(), now).is_some());
        assert!(sign_in.principal(code.as_bytes(), now).is_none(), "a code is not a bearer token");
        let late = sign_in.code(reader(), now).unwrap();
        assert!(sign_in.exchange(&late, now + CODE_LIFETIME).unwrap().is_none(), "late");
        assert!(sign_in.exchange("", now).unwrap().is_none());
        assert!(sign_in.exchange(&bearer, now).unwrap().is_none());
    }

    #[test]
    fn a_bearer_token_is_for_what_the_maker_of_the_code_may_and_ends_after_twelve_hours() {
        let (sign_in, now) = (SignIn::default(), Instant::now());
        let code = sign_in.code(reader(), now).unwrap();
        let (bearer, _) = sign_in.exchange(&code, now).unwrap().unwrap();
        let principal = sign_in.principal(bearer.as_bytes(), now).unwrap();
        assert!(principal.has_scope(READ) && !principal.has_scope(ACT));
        assert!(sign_in.principal(bearer.as_bytes(), now + BEARER_LIFETIME).is_none());
        // Of another boot.
        assert!(SignIn::default().principal(bearer.as_bytes(), now).is_none());
    }

    #[test]
    fn codes_and_bearer_tokens_are_bounded_and_the_oldest_goes() {
        let (sign_in, now) = (SignIn::default(), Instant::now());
        let first = sign_in.code(reader(), now).unwrap();
        let codes: Vec<_> = (0..CODES_MAX).map(|_| sign_in.code(reader(), now).unwrap()).collect();
        assert!(sign_in.exchange(&first, now).unwrap().is_none());
        assert!(sign_in.exchange(&codes[0], now).unwrap().is_some());
    }
}
