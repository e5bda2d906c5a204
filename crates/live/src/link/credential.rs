//! A credential in place of another, within a session (section 7 of the text).
//!
//! | the new one | what is done |
//! |---|---|
//! | is of the same principal | it is taken, that is said, and watched answers are made with it |
//! | is refused | the old one stays in force while it is good, and that is said |
//! | is of another principal, or of nobody | the session ends: `unauthenticated` |
//!
//! Who asks while it is looked at asks with the new one. A connection that is lost or taken over
//! meanwhile leaves no session: whose it would be is not known. Of several the last is looked at.

use std::task::{Context, Poll, Waker};

use tidewire_live_proto::{Reason, Violation};
use tidewire_service::Error;
use tokio::task::AbortHandle;

use crate::host::Identity;
use crate::link::expiry::{CredentialLife, expires_ms};
use crate::link::{Link, State};

/// The credential that came in place of another, while it is looked at.
#[derive(Debug, Default)]
pub(crate) struct NewCredential {
    /// How many came: what is found out of an earlier one is of no use.
    number: u64,
    look: Option<AbortHandle>,
}

impl NewCredential {
    /// Whether there is one.
    pub(crate) const fn is_unknown(&self) -> bool {
        self.look.is_some()
    }
}

impl State {
    /// Finds out whose the session would be with the headers that have just come.
    pub(crate) fn look_at_credential(&mut self, link: &Link) {
        let Some(host) = &link.0.host else { return };
        let headers = self.session.peer_headers().to_maps().headers;
        let Some(mut identity) = host.identify(headers, self.peer.clone()) else { return };
        self.credential.number += 1;
        self.credential.look.take().iter().for_each(AbortHandle::abort);
        // Most are known at once; a call that comes with it is asked by whoever it says.
        match identity.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => self.know_credential(link, outcome),
            Poll::Pending => {
                let number = self.credential.number;
                let link = link.clone();
                let look = link.0.tasks.clone().spawn(async move {
                    let outcome = identity.await;
                    let mut state = link.lock();
                    if state.credential.number == number && state.credential.look.take().is_some() {
                        state.know_credential(&link, outcome);
                        state.hear_all(&link);
                        state.wake();
                    }
                });
                self.credential.look = Some(look.abort_handle());
            }
        }
    }

    fn know_credential(&mut self, link: &Link, outcome: Result<Identity, Violation>) {
        match outcome {
            Ok(Identity { principal, expires_in }) if principal == self.principal => {
                let before = self.session.accepted_headers().to_maps().headers;
                self.session.credential(Ok(expires_ms(expires_in)));
                self.life = CredentialLife::new(expires_in, link.0.clock.now());
                let now = self.session.peer_headers().to_maps().headers;
                self.ask_anew(link, &before, &now);
            }
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
