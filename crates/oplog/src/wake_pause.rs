//! The least pause between what hosts do because they were woken.
//!
//! A lone change is told and heard of at once. Where many are written, each host tells and polls
//! only so often, and one poll finds what was told of meanwhile.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// See the module.
#[derive(Debug)]
pub(crate) struct WakePause {
    /// Not before this.
    until: Option<Instant>,
}

impl WakePause {
    /// A host that has just begun has rested.
    pub(crate) fn new() -> Self {
        Self { until: None }
    }

    /// Something begins that the host was woken for.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.until = Some(now + LEAST);
    }

    /// Until when it rests still.
    fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }

    /// Waits for an event, and until the host has rested.
    ///
    /// # Cancel safety
    /// Where that of the event is: it is not taken before.
    pub(crate) async fn before<T>(&self, event: impl Future<Output = T>) -> T {
        if let Some(until) = self.until(Instant::now()) {
            sleep_until(until).await;
        }
        event.await
    }
}

/// Long beside a poll, and so short that of many changes half are heard of within 3 ms.
const LEAST: Duration = Duration::from_millis(3);

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::sync::Notify;

    use super::*;

    #[test]
    fn wake_ups_without_a_pause_are_polls_with_one_and_a_lone_one_waits_for_nothing() {
        let begun = Instant::now();
        let mut pause = WakePause::new();
        let mut polls = Vec::new();
        // Woken at each of these moments, in milliseconds.
        for woken in (0..10).chain([1000, 2000, 2001]) {
            let at = begun + Duration::from_millis(woken);
            let poll = pause.until(at).unwrap_or(at);
            let since = poll.duration_since(begun).as_millis();
            if polls.last() != Some(&since) {
                polls.push(since);
            }
            if poll == at {
                pause.begin(at);
            }
        }
        assert_eq!(polls, [0, 3, 6, 9, 1000, 2000, 2003]);
    }

    #[tokio::test]
    async fn an_event_that_comes_while_a_host_rests_is_there_afterwards() {
        let mut pause = WakePause::new();
        let woken = Notify::new();
        woken.notify_one();
        pause.begin(Instant::now() + Duration::from_hours(1));
        assert_eq!(pause.before(woken.notified()).now_or_never(), None);
        assert_eq!(WakePause::new().before(woken.notified()).now_or_never(), Some(()));
    }
}
