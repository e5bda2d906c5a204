//! Queries that are followed for a client, over whatever it reads a stream by.
//!
//! | stream | made by |
//! |---|---|
//! | `tidewire.live.v1.Freshness/Watch` | `builtin/freshness.rs` |
//! | Server-Sent Events of a REST `GET` | `protocols/rest/events.rs` |
//!
//! Each answer is its own call: through the gates of its method, told to whoever observes, and
//! through all layers, so that rights that are taken away end the stream, and answers that are kept
//! cost nothing. How many are followed at once is bounded, and a drain ends them all.

use std::pin::Pin;
use std::sync::Arc;

use tidewire_service::{
    Answer, Call, Error, FollowOptions, Freshness, Head, Query, Reply, Result, Service, Stream,
    follow, follow_from,
};
use tokio::sync::OwnedSemaphorePermit;

use crate::app::{App, AppHandle};
use crate::runtime::clock::TokioClock;

/// The answers to one query.
pub(crate) struct FollowedQuery {
    answers: Stream<Result<Reply>>,
    stopping: Pin<Box<dyn Future<Output = ()> + Send>>,
    _place: OwnedSemaphorePermit,
}

/// What is next of a query that is followed.
pub(crate) enum FollowStep {
    /// The present answer.
    Answer(Result<Reply>),
    /// There will be no other.
    Over,
    /// The server stops; another may go on.
    Stopping,
}

impl App {
    /// Follows a query: from its present answer on, or from one that the client has been given.
    ///
    /// # Errors
    /// As many are followed as may be.
    pub(crate) fn follow(
        self: &Arc<Self>,
        query: Query,
        pace: FollowOptions,
        given: Option<Freshness>,
    ) -> Result<FollowedQuery> {
        let place = Arc::clone(&self.followers).try_acquire_owned().map_err(|_| {
            let max = self.limits.followers_max;
            let text = format!("limits.followers_max = {max} queries are followed already");
            Error::resource_exhausted(text)
        })?;
        let stopping = Box::pin(query.context().stopping());
        let service = Arc::new(Repeater(self.latest.clone()));
        let answers = match given {
            None => follow(service, query, pace, TokioClock),
            Some(given) => follow_from(given, service, query, pace, TokioClock),
        };
        Ok(FollowedQuery { answers, stopping, _place: place })
    }
}

impl FollowedQuery {
    /// Waits for the next answer.
    pub(crate) async fn next(&mut self) -> FollowStep {
        tokio::select! {
            biased;
            () = &mut self.stopping => FollowStep::Stopping,
            answer = self.answers.next() => match answer {
                Ok(Some(answer)) => FollowStep::Answer(answer),
                Ok(None) => FollowStep::Over,
                Err(error) => FollowStep::Answer(Err(error)),
            },
        }
    }
}

/// Makes the call again and again. Not a strong reference: a stream that nobody reads must not keep
/// a server that is gone.
struct Repeater(AppHandle);

impl Service for Repeater {
    fn call(&self, call: Call) -> Answer {
        let Some(app) = self.0.now() else {
            return Answer::ready(Err(Error::unavailable("the server stopped")));
        };
        let Call { target, mut context, body, codec, .. } = call;
        // Who calls is found out again.
        context.set_principal(None);
        Answer::pending(async move {
            let answer = app.answer(Head::new(target, context), body, codec, false).await;
            answer.map_err(|failed| failed.error)
        })
    }
}
