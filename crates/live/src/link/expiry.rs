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

use crate::session_clock::{SessionClock, micros};

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

/// What is due since a credential expired.
pub(crate) enum Expired {
    /// Watches of values are suspect.
    Suspect,
    /// These are made again.
    Again(BTreeMap<CallId, Change>),
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

    /// What is due now, which is done by whoever asks.
    pub(crate) fn poll_expired(&mut self, clock: SessionClock) -> Option<Expired> {
        // Where no credential ends the time is not asked for: this is done for each answer.
        let due = self.poll_timeout()?;
        if due > clock.now() {
            return None;
        }
        Some(match self.phase {
            Phase::Good => {
                self.phase = Phase::Grace;
                Expired::Suspect
            }
            Phase::Grace | Phase::Over => {
                self.phase = Phase::Over;
                Expired::Again(std::mem::take(&mut self.waiting))
            }
        })
    }
}

/// For a field of the protocol: 0 is *not said*.
pub(crate) fn expires_ms(life: Option<Duration>) -> u64 {
    life.map_or(0, |life| u64::try_from(life.as_millis()).unwrap_or(u64::MAX).max(1))
}
