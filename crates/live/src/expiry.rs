//! Until when a session's credential is good, and what becomes of its watches then (section 7 of
//! the text).
//!
//! ```text
//!  good ── it expires ─▶ watches of values are suspect, and wait ── 30 s ─▶ they are made again,
//!    ▲                                   │                          which refuses, and ends, them
//!    └────────── a new credential ───────┘
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use tidewire_live_proto::{CallId, Change, Micros};

use crate::driver::micros;
use crate::link::{Link, State};

/// How long a watch waits for another credential.
const GRACE: Duration = Duration::from_secs(30);

/// The end of a session's credential.
#[derive(Debug, Default)]
pub(crate) struct CredentialLife {
    /// When it is, as far as that is known.
    ends: Option<Micros>,
    phase: Phase,
    /// Watched answers that are made again once there is a new one, or the grace is over.
    waiting: BTreeMap<CallId, Change>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Good,
    Grace,
    Over,
}

impl CredentialLife {
    /// A credential that is good for so long, if that is known.
    pub(crate) fn new(life: Option<Duration>, now: Micros) -> Self {
        let ends = life.map(|life| now.saturating_add(micros(life)));
        Self { ends, ..Self::default() }
    }

    /// When there is something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Micros> {
        let ends = self.ends?;
        match self.phase {
            Phase::Good => Some(ends),
            Phase::Grace => Some(ends.saturating_add(micros(GRACE))),
            Phase::Over => None,
        }
    }

    /// Takes a watched answer that is not to be made again yet; gives it back if it is.
    pub(crate) fn defer(&mut self, call: CallId, change: Change) -> Option<Change> {
        if self.phase != Phase::Grace {
            return Some(change);
        }
        self.waiting.insert(call, change);
        None
    }
}

impl State {
    /// Does what is due since the credential expired.
    pub(crate) fn look_at_expiry(&mut self, link: &Link) {
        // Where no credential ends the time is not asked for: this is done for each answer.
        let Some(due) = self.life.poll_timeout() else { return };
        if due > link.0.clock.now() {
            return;
        }
        match self.life.phase {
            Phase::Good => {
                self.life.phase = Phase::Grace;
                for call in self.watches.of_values() {
                    self.make_stale(link, call);
                }
            }
            Phase::Grace | Phase::Over => {
                self.life.phase = Phase::Over;
                for (call, change) in std::mem::take(&mut self.life.waiting) {
                    self.make_again(link, call, change);
                }
            }
        }
    }
}

/// For a field of the protocol: 0 is *not said*.
pub(crate) fn expires_ms(life: Option<Duration>) -> u64 {
    life.map_or(0, |life| u64::try_from(life.as_millis()).unwrap_or(u64::MAX).max(1))
}
