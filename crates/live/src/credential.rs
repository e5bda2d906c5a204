//! A credential in place of another, within a session (section 7 of the text).
//!
//! | the new one | what is done |
//! |---|---|
//! | is of the same principal | it is taken, and that is said |
//! | is refused | the old one stays in force while it is good, and that is said |
//! | is of another principal, or of nobody | the session ends: `unauthenticated` |
//!
//! Who asks while it is looked at asks with the new one. A connection that is lost meanwhile leaves
//! no session: whose it would be is not known.

use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tidewire_live_proto::{Reason, Violation};
use tidewire_service::Error;

use crate::link::{Link, State};

/// Credentials that came in place of others.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    /// How many came.
    seen: u64,
    /// How many of them were looked at, or gave way to later ones.
    known: u64,
}

impl Credentials {
    /// Whether one is looked at.
    pub(crate) const fn is_unknown(&self) -> bool {
        self.seen != self.known
    }
}

impl State {
    /// Finds out whose the session would be with the headers that have just come.
    pub(crate) fn look_at_credential(&mut self, link: &Link) {
        let Some(host) = &link.0.host else { return };
        let headers = self.session.peer_headers().to_maps().0;
        let Some(mut identity) = host.identify(headers, self.peer.clone()) else { return };
        self.credentials.seen += 1;
        // Most are known at once; a call that comes with it is asked by whoever it says.
        match identity.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => self.know_credential(outcome),
            Poll::Pending => {
                let (number, link) = (self.credentials.seen, link.clone());
                link.0.tasks.clone().spawn(async move {
                    let outcome = identity.await;
                    let mut state = link.lock();
                    if state.credentials.seen == number {
                        state.know_credential(outcome);
                        state.hear_all(&link);
                        state.wake();
                    }
                });
            }
        }
    }

    fn know_credential(&mut self, outcome: Result<Bytes, Violation>) {
        self.credentials.known = self.credentials.seen;
        match outcome {
            Ok(principal) if principal == self.principal => self.session.credential(Ok(0)),
            Ok(_) => {
                let text = "the credential is of another principal than the session";
                self.session.end(Reason::Unauthenticated, text);
            }
            Err(refused) => {
                let error = Error::unauthenticated(refused.message.into_owned());
                self.session.credential(Err(&error));
            }
        }
    }
}
