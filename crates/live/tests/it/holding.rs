//! Answers that are held over connections that are cut: told of all at once, and asked for again
//! only where something changed.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use tidewire_live::{AnswerState, ByteStream, WatchGuard, Watcher};
use tidewire_service::{Body, Lifetime};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::pair::{Connect, Dials, Served, client, command, pair, query, text};

/// What was told of one answer.
#[derive(Default)]
struct Words(Mutex<Vec<AnswerState>>, Notify);

impl Watcher for Words {
    fn tell(&self, word: AnswerState) {
        self.0.lock().unwrap().push(word);
        self.1.notify_one();
    }
}

impl Words {
    /// Waits for a word; gives all up to it.
    async fn until(&self, word: AnswerState) -> Vec<AnswerState> {
        loop {
            if self.0.lock().unwrap().contains(&word) {
                return std::mem::take(&mut *self.0.lock().unwrap());
            }
            self.1.notified().await;
        }
    }

    fn none(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }
}

type Remote = Arc<tidewire_live::Remote<Dials<Connect>>>;

/// A client of a server, and what cuts its present connection.
fn cuttable() -> (Remote, Arc<Served>, impl Fn()) {
    let served = Arc::new(Served::new());
    let wire = Arc::new(Mutex::new(None::<AbortHandle>));
    let (server, present) = (Arc::clone(&served), Arc::clone(&wire));
    let remote = client(move || {
        let (near, mut inner) = tokio::io::duplex(64 << 10);
        let (mut outer, far) = tokio::io::duplex(64 << 10);
        server.serve(ByteStream::new(far));
        let passes = tokio::spawn(async move {
            let _ = tokio::io::copy_bidirectional(&mut inner, &mut outer).await;
        });
        *present.lock().unwrap() = Some(passes.abort_handle());
        Ok(near)
    });
    let cut = move || wire.lock().unwrap().take().expect("a connection").abort();
    (remote, served, cut)
}

async fn held(remote: &Remote, name: &str) -> (String, Arc<Words>, WatchGuard) {
    let words = Arc::new(Words::default());
    let link = remote.link();
    let (reply, hold) = link.call_held(query(name, Body::Empty), words.clone()).await.unwrap();
    (text(Ok(reply)).await.unwrap(), words, hold.expect("it is watched"))
}

#[tokio::test(start_paused = true)]
async fn what_did_not_change_is_confirmed_by_the_resumed_session_and_the_rest_is_asked_for_again() {
    let (remote, served, cut) = cuttable();
    let (_, same, _keeps_same) = held(&remote, "Same").await;
    let (_, changed, _keeps_changed) = held(&remote, "Value").await;
    cut();
    assert_eq!(same.until(AnswerState::Unconfirmed).await, [AnswerState::Unconfirmed]);
    assert_eq!(changed.until(AnswerState::Unconfirmed).await, [AnswerState::Unconfirmed]);
    served.echo.change(1);
    assert_eq!(same.until(AnswerState::Confirmed).await, [AnswerState::Confirmed]);
    assert_eq!(changed.until(AnswerState::Stale).await, [AnswerState::Suspect, AnswerState::Stale]);
    assert_eq!(served.echo.same.load(Ordering::SeqCst), 1, "it was not asked for again");
    let (value, ..) = held(&remote, "Value").await;
    assert_eq!(value, "1");
}

#[tokio::test(start_paused = true)]
async fn what_is_stale_is_never_confirmed_whatever_becomes_of_the_connection() {
    let (remote, served, cut) = cuttable();
    let (_, same, _keeps_same) = held(&remote, "Same").await;
    let (_, words, _keeps) = held(&remote, "Value").await;
    served.echo.change(1);
    assert_eq!(words.until(AnswerState::Stale).await, [AnswerState::Stale]);
    cut();
    same.until(AnswerState::Confirmed).await;
    assert!(words.none(), "nothing after it");
}

#[tokio::test(start_paused = true)]
async fn what_changed_and_is_the_same_again_is_confirmed_too() {
    let (remote, served, cut) = cuttable();
    let (_, words, _keeps) = held(&remote, "Value").await;
    cut();
    words.until(AnswerState::Unconfirmed).await;
    served.echo.change(0);
    assert_eq!(
        words.until(AnswerState::Confirmed).await,
        [AnswerState::Suspect, AnswerState::Confirmed]
    );
    served.echo.change(1);
    assert_eq!(words.until(AnswerState::Stale).await, [AnswerState::Stale]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_over_tells_of_nothing_it_held_and_a_dropped_hold_is_told_of_nothing() {
    let (remote, served) = pair();
    let (_, kept, _keeps) = held(&remote, "Value").await;
    let (_, dropped, hold) = held(&remote, "Value").await;
    drop(hold);
    served.echo.change(1);
    assert_eq!(kept.until(AnswerState::Stale).await, [AnswerState::Stale]);
    assert!(dropped.none());
    let (_, kept, _keeps) = held(&remote, "Value").await;
    remote.link().end(tidewire_live::Reason::Bye, "");
    assert_eq!(kept.until(AnswerState::Suspect).await, [AnswerState::Suspect]);
    assert_eq!(held(&remote, "Value").await.0, "1", "of a new session");
}

#[tokio::test]
async fn a_watcher_may_drop_what_it_holds_while_it_is_told() {
    /// Drops its hold with the first word.
    struct Drops(Mutex<Option<WatchGuard>>);
    impl Watcher for Drops {
        fn tell(&self, _: AnswerState) {
            drop(self.0.lock().unwrap().take());
        }
    }
    let (remote, _served) = pair();
    for _ in 0..10 {
        let drops = Arc::new(Drops(Mutex::new(None)));
        let call = query("Value", Body::Empty);
        let (_, hold) = remote.link().call_held(call, drops.clone()).await.unwrap();
        *drops.0.lock().unwrap() = hold;
        remote.call(command("Change")).await.unwrap();
        assert!(drops.0.lock().unwrap().is_none(), "told before the reply");
    }
    assert_eq!(remote.link().usage().calls_out, 0);
}

#[tokio::test]
async fn an_answer_that_is_outdated_when_it_is_given_says_that_it_is_over() {
    let (remote, _served) = pair();
    let words = Arc::new(Words::default());
    let call = query("Outdated", Body::Empty);
    let (reply, hold) = remote.link().call_held(call, words).await.unwrap();
    assert!(hold.is_none());
    assert_eq!(reply.freshness.lifetime(), Lifetime::For(std::time::Duration::ZERO));
}
