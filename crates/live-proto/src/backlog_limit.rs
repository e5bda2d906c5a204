//! What bounds the answers that are held for a peer, and what comes of one that is too much.
//!
//! | the peer | bound |
//! |---|---|
//! | is connected, and does not read | `output_hard_max` |
//! | is away | `parked_answers_max` |
//! | is one of many whose answers are too much together | that of all sessions; see [`Session::set_over_budget`] |

use tidewire_service::Error;

use crate::callee::{UNREAD, over};
use crate::config::Config;
use crate::session::{Phase, Session};
use crate::slots::CallId;

/// The bound that a reply would break.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BacklogLimit {
    /// `output_hard_max`.
    Connection(usize),
    /// `parked_answers_max`.
    Parked(usize),
    /// That of all sessions together.
    All,
}

impl Session {
    /// Which bound another body of this size would break; one that is alone breaks none.
    pub(crate) fn bound_over(&self, bytes: usize) -> Option<BacklogLimit> {
        let held = self.pool.held;
        let Config { output_hard_max, parked_answers_max, .. } = self.config;
        let (max, own) = match self.phase {
            Phase::Open => (output_hard_max, BacklogLimit::Connection(output_hard_max)),
            _ => (parked_answers_max, BacklogLimit::Parked(parked_answers_max)),
        };
        match held {
            0 => None,
            _ if held + bytes > max => Some(own),
            _ => self.is_over_budget.then_some(BacklogLimit::All),
        }
    }

    /// An answer is not kept. Without a connection the caller of a query will ask again, since this
    /// side does not know it then.
    #[cold]
    pub(crate) fn refuse_reply(&mut self, call: CallId, bytes: usize, bound: BacklogLimit) {
        let is_query = self.incoming.of(call).is_some_and(|served| served.command == 0);
        if self.phase != Phase::Open && is_query {
            return self.remove_served(call.index());
        }
        let held = self.pool.held + bytes;
        let names = &self.config.bound_names;
        let error = match bound {
            BacklogLimit::Connection(max) => over(UNREAD, held, names.output_hard_max, max),
            BacklogLimit::Parked(max) => {
                over("answers for a peer that is away", held, "parked_answers_max", max)
            }
            BacklogLimit::All => Error::resource_exhausted(format!(
                "answers that no peer reads are over {}; read those at hand first",
                names.output_all_max
            )),
        };
        self.fail_to_answer(call, &error);
    }
}
