//! Who a caller is, as a keyed hash: what may be shared with the same caller only is kept under it.
//!
//! Everything that a handler can learn of its caller without becoming private goes in: the
//! principal (issuer, subject, scopes, claims), the client's certificate, `authorization` and
//! `cookie`. The key is drawn once a process, so that nothing that is kept or shown gives a
//! credential away, and nobody can compute two identities that collide.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use http::header::{AUTHORIZATION, COOKIE};
use siphasher::sip128::{Hasher128, SipHasher24};
use tidewire_service::{Context, Names, ParentCalls, Protocol};

use crate::scope::Scope;

/// Whom an answer is kept for; 0 is everyone.
pub(crate) type Identity = u128;

/// Whom an answer to a call in this context may be shared with.
pub(crate) fn of(scope: &Scope, context: &Context) -> Identity {
    match scope {
        Scope::Public => 0,
        Scope::Vary(names) => of_headers(names, context),
        Scope::Caller => of_caller(context),
        Scope::Call => of_call(context),
    }
}

fn of_caller(context: &Context) -> Identity {
    let headers = context.headers();
    let shows = headers.contains_key(AUTHORIZATION) || headers.contains_key(COOKIE);
    let has_certificate = context.peer().is_some_and(|peer| !peer.certificates.is_empty());
    if !shows && !has_certificate && context.principal().is_none() {
        // Whoever shows nothing is the same caller, and by far the most frequent one.
        static NOBODY: LazyLock<Identity> = LazyLock::new(|| Parts::new(b'n').finish());
        return *NOBODY;
    }
    let mut parts = Parts::new(b'c');
    match context.principal() {
        None => parts.count(0),
        Some(principal) => {
            parts.count(1);
            parts.add(principal.issuer().as_bytes());
            parts.add(principal.subject().as_bytes());
            parts.count(principal.scopes().len());
            principal.scopes().iter().for_each(|scope| parts.add(scope.as_bytes()));
            for (name, value) in principal.claims() {
                parts.add(name.as_bytes());
                parts.add(value.to_string().as_bytes());
            }
        }
    }
    let certificates = context.peer().map_or(&[][..], |peer| &peer.certificates);
    parts.count(certificates.len());
    certificates.iter().for_each(|certificate| parts.add(certificate));
    parts.header(context, AUTHORIZATION.as_str());
    parts.header(context, COOKIE.as_str());
    parts.finish()
}

/// Which programs serve the calls that a call is part of. A call within a program gets a place
/// there at once; calls from outside queue. So calls share a run only if they are within the same
/// programs. Otherwise the outer calls could hold all places of a program while the calls within
/// them wait for a run that is queued for one of those places.
pub(crate) fn of_chain(chain: &ParentCalls) -> Identity {
    let mut holders: Vec<_> = chain.holders().collect();
    holders.sort_unstable();
    holders.dedup();
    let mut parts = Parts::new(b'i');
    holders.iter().for_each(|holder| parts.add(&holder.to_be_bytes()));
    parts.finish()
}

/// Everything of a call but its peer's address and its extensions.
fn of_call(context: &Context) -> Identity {
    let mut parts = Parts::new(b'w');
    parts.add(&of_caller(context).to_be_bytes());
    parts.add(context.protocol().map_or("", Protocol::as_str).as_bytes());
    parts.count(context.headers().len());
    for (name, value) in context.headers() {
        parts.add(name.as_str().as_bytes());
        parts.add(value.as_bytes());
    }
    parts.finish()
}

fn of_headers(names: &Names, context: &Context) -> Identity {
    let mut parts = Parts::new(b'v');
    names.iter().for_each(|name| parts.header(context, name));
    parts.finish()
}

/// A hash of parts, each with its length, so that no two lists of parts are hashed alike.
struct Parts(SipHasher24);

impl Parts {
    fn new(kind: u8) -> Self {
        /// Drawn from the system's source of randomness by the standard library.
        static KEYS: LazyLock<[u64; 2]> =
            LazyLock::new(|| [RandomState::new().hash_one(1), RandomState::new().hash_one(2)]);
        let mut parts = Self(SipHasher24::new_with_keys(KEYS[0], KEYS[1]));
        parts.0.write_u8(kind);
        parts
    }

    fn count(&mut self, count: usize) {
        self.0.write_u64(count as u64);
    }

    fn add(&mut self, part: &[u8]) {
        self.count(part.len());
        self.0.write(part);
    }

    fn header(&mut self, context: &Context, name: &str) {
        let values = context.headers().get_all(name);
        self.count(values.iter().count());
        values.iter().for_each(|value| self.add(value.as_bytes()));
    }

    fn finish(self) -> Identity {
        // 0 stands for everyone.
        self.0.finish128().as_u128().max(1)
    }
}
