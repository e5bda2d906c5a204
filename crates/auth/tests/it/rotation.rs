//! Keys that are fetched when they are needed, that rotate, and that cannot be had.

use std::time::Duration;

use serde_json::json;
use tidewire_auth::Keys;
use tidewire_service::Code;
use tracing::Level;

use crate::issuer::{Checked, Published, Signer, claims, settle, with};
use crate::log::levels;

#[tokio::test]
async fn keys_are_fetched_once_however_many_wait_for_them() {
    let signer = Signer::ecdsa("a");
    let published = Published::of(&[signer.jwk()]);
    let checked = Checked::new(&published);
    assert_eq!(published.fetched(), 0);
    let token = signer.sign(&claims());
    let all = (0..50).map(|_| checked.of(&token));
    for of in futures(all).await {
        of.unwrap().unwrap();
    }
    assert_eq!(published.fetched(), 1);
}

/// Polls all of them in turn.
async fn futures<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = all.map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|cx| {
        for (one, outcome) in waiting.iter_mut().filter(|(_, outcome)| outcome.is_none()) {
            if let std::task::Poll::Ready(ready) = one.as_mut().poll(cx) {
                *outcome = Some(ready);
            }
        }
        match waiting.iter().all(|(_, outcome)| outcome.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    waiting.into_iter().filter_map(|(_, outcome)| outcome).collect()
}

#[tokio::test]
async fn a_new_key_is_found_at_once_and_an_old_one_is_dropped_with_what_it_verified() {
    let (old, new) = (Signer::ecdsa("old"), Signer::ecdsa("new"));
    let published = Published::of(&[old.jwk()]);
    let checked = Checked::new(&published);
    let (of_old, of_new) = (old.sign(&claims()), new.sign(&claims()));
    checked.of(&of_old).await.unwrap();
    checked.pass(20);
    checked.of(&of_old).await.unwrap();
    published.publish(&[new.jwk()]);
    checked.of(&of_new).await.unwrap();
    assert_eq!(published.fetched(), 2);
    let error = checked.of(&of_old).await.unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated, "although it was verified before: {error}");
}

#[tokio::test]
async fn a_key_that_was_withdrawn_while_nobody_called_is_refused_at_the_first_call() {
    let (old, new) = (Signer::ecdsa("old"), Signer::ecdsa("new"));
    let published = Published::of(&[old.jwk()]);
    let checked = Checked::new(&published);
    let of_old = old.sign(&claims());
    checked.of(&of_old).await.unwrap();
    published.publish(&[new.jwk()]);
    checked.pass(306);
    let error = checked.of(&of_old).await.unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated, "{error}");
}

#[tokio::test]
async fn tokens_of_unknown_keys_do_not_make_the_issuer_be_asked_each_time() {
    let (known, unknown) = (Signer::ecdsa("known"), Signer::ecdsa("unknown"));
    let published = Published::of(&[known.jwk()]);
    let checked = Checked::new(&published);
    checked.of(&known.sign(&claims())).await.unwrap();
    for _ in 0..100 {
        checked.of(&unknown.sign(&claims())).await.unwrap_err();
    }
    assert_eq!(published.fetched(), 2, "it was asked just before");
    checked.pass(10);
    for _ in 0..100 {
        checked.of(&unknown.sign(&claims())).await.unwrap_err();
    }
    assert_eq!(published.fetched(), 3);
}

#[tokio::test]
async fn keys_that_cannot_be_had_again_are_used_on_and_without_any_a_call_may_be_tried_again() {
    let signer = Signer::ecdsa("a");
    let published = Published::default();
    let checked = Checked::new(&published);
    let token = signer.sign(&claims());
    let error = checked.of(&token).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    published.publish(&[signer.jwk()]);
    assert_eq!(checked.of(&token).await.unwrap_err().code(), Code::Unavailable, "not so soon");
    checked.pass(10);
    checked.of(&token).await.unwrap();
    published.break_down();
    checked.pass(301);
    checked.of(&token).await.unwrap();
    settle().await;
    let fetched = published.fetched();
    checked.of(&token).await.unwrap();
    assert_eq!(published.fetched(), fetched, "not so soon");
}

#[tokio::test]
async fn an_issuer_that_publishes_no_key_any_more_has_no_good_token() {
    let signer = Signer::ecdsa("a");
    let published = Published::of(&[signer.jwk()]);
    let checked = Checked::new(&published);
    let token = signer.sign(&claims());
    checked.of(&token).await.unwrap();
    for nothing in [vec![], vec![json!({"kty": "oct", "k": "c2VjcmV0", "kid": "a"})]] {
        published.publish(&nothing);
        checked.pass(301);
        checked.renew(&token).await;
        let error = checked.of(&token).await.unwrap_err();
        assert_eq!(error.code(), Code::Unauthenticated, "{error}");
        published.publish(&[signer.jwk()]);
        checked.pass(10);
        checked.of(&token).await.unwrap();
    }
}

#[tokio::test]
async fn keys_that_are_read_often_are_read_again_as_soon_after_it_failed() {
    let signer = Signer::ecdsa("a");
    let published = Published::of(&[signer.jwk()]);
    let checked = Checked::with(Keys::new(published.clone()).refresh(Duration::from_secs(1)));
    checked.of(&signer.sign(&claims())).await.unwrap();
    published.break_down();
    checked.pass(1);
    checked.renew(&signer.sign(&claims())).await;
    checked.of(&signer.sign(&claims())).await.unwrap();
    let new = Signer::ecdsa("a");
    published.publish(&[new.jwk()]);
    checked.pass(1);
    checked.renew(&new.sign(&claims())).await;
    checked.of(&new.sign(&claims())).await.unwrap();
    checked.of(&signer.sign(&claims())).await.unwrap_err();
}

#[tokio::test]
async fn that_keys_cannot_be_had_is_said_once_until_that_changes() {
    let signer = Signer::ecdsa("a");
    let published = Published::of(&[signer.jwk()]);
    let checked = Checked::with(Keys::new(published.clone()).refresh(Duration::from_secs(1)));
    let token = signer.sign(&claims());
    checked.of(&token).await.unwrap();
    let (old, lost) = (Level::WARN, Level::ERROR);
    let mut expected = Vec::new();
    for said in [old, old] {
        published.break_down();
        for _ in 0..3 {
            checked.pass(1);
            checked.of(&token).await.unwrap();
            settle().await;
        }
        expected.push(said);
        assert_eq!(levels(), expected);
        published.publish(&[signer.jwk()]);
        checked.pass(1);
        checked.renew(&token).await;
        checked.of(&token).await.unwrap();
    }
    published.break_down();
    for _ in 0..3 {
        checked.pass(60);
        checked.of(&token).await.unwrap_err();
    }
    expected.push(lost);
    assert_eq!(levels(), expected);
}

#[tokio::test]
async fn keys_become_old() {
    let signer = Signer::ecdsa("a");
    let published = Published::of(&[signer.jwk()]);
    let checked = Checked::new(&published);
    let token = signer.sign(&claims());
    for (passed, fetched) in [(0, 1), (299, 1), (1, 2), (299, 2), (2, 3)] {
        checked.pass(passed);
        checked.of(&token).await.unwrap();
        settle().await;
        assert_eq!(published.fetched(), fetched);
    }
}

#[tokio::test]
async fn a_verified_token_ends_with_its_time() {
    let signer = Signer::ecdsa("a");
    let published = Published::of(&[signer.jwk()]);
    let checked = Checked::new(&published);
    let token = signer.sign(&with("exp", json!(crate::issuer::START + 5)));
    checked.of(&token).await.unwrap();
    checked.pass(34);
    checked.of(&token).await.unwrap();
    checked.pass(1);
    checked.of(&token).await.unwrap_err();
}

#[tokio::test]
async fn a_caller_who_goes_away_while_keys_are_fetched_leaves_it_to_the_next() {
    let signer = Signer::ecdsa("a");
    let published = Published::of(&[signer.jwk()]);
    let checked = Checked::new(&published);
    let token = signer.sign(&claims());
    assert!(!is_ready(&checked, &token).await, "it waits for the keys, and goes away");
    checked.of(&token).await.unwrap();
    assert_eq!(published.fetched(), 1, "the fetching went on");
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_holds_up_no_token_of_a_known_key() {
    let signer = Signer::ecdsa("a");
    let published = Published::of(&[signer.jwk()]);
    let checked = Checked::new(&published);
    let token = signer.sign(&claims());
    checked.of(&token).await.unwrap();
    published.hang();
    checked.pass(301);
    for sub in 0..10 {
        let other = signer.sign(&with("sub", json!(format!("caller {sub}"))));
        for token in [&token, &other] {
            assert!(is_ready(&checked, token).await, "it does not wait for the issuer");
        }
        settle().await;
    }
    assert_eq!(published.fetched(), 2, "one fetch for all");
}

/// Whether a call is answered at once; one that is not goes away.
async fn is_ready(checked: &Checked, token: &str) -> bool {
    let mut call = Box::pin(checked.of(token));
    std::future::poll_fn(|cx| std::task::Poll::Ready(call.as_mut().poll(cx).is_ready())).await
}

#[tokio::test]
async fn old_keys_that_are_tried_again_hold_up_nobody_who_did_not_pause() {
    let signer = Signer::ecdsa("a");
    let published = Published::of(&[signer.jwk()]);
    let checked = Checked::new(&published);
    let token = signer.sign(&claims());
    checked.of(&token).await.unwrap();
    published.break_down();
    checked.pass(301);
    assert!(is_ready(&checked, &token).await);
    settle().await;
    published.hang();
    for passed in [10, 200] {
        checked.pass(passed);
        let other = signer.sign(&with("sub", json!(format!("caller after {passed}"))));
        assert!(is_ready(&checked, &token).await, "tried again after {passed} s");
        assert!(is_ready(&checked, &other).await, "tried again after {passed} s");
    }
    settle().await;
    assert_eq!(published.fetched(), 3, "it was tried again");
}

#[tokio::test]
async fn an_unknown_key_that_is_looked_for_holds_up_nobody_of_a_known_one() {
    let (known, unknown) = (Signer::ecdsa("known"), Signer::ecdsa("unknown"));
    let published = Published::of(&[known.jwk()]);
    let checked = Checked::new(&published);
    let token = known.sign(&claims());
    checked.of(&token).await.unwrap();
    published.break_down();
    for _ in 0..2 {
        checked.pass(299);
        checked.renew(&token).await;
    }
    published.hang();
    checked.pass(10);
    assert!(!is_ready(&checked, &unknown.sign(&claims())).await, "it waits for its key");
    assert!(is_ready(&checked, &token).await);
}

#[tokio::test]
async fn calls_wait_for_keys_that_are_fetched_since_the_first_call_after_a_pause() {
    let signer = Signer::ecdsa("a");
    let published = Published::of(&[signer.jwk()]);
    let checked = Checked::new(&published);
    let token = signer.sign(&claims());
    checked.of(&token).await.unwrap();
    checked.pass(200);
    assert!(is_ready(&checked, &token).await);
    published.hang();
    checked.pass(304);
    assert!(is_ready(&checked, &token).await, "the keys are old, but it was no pause");
    let checked = Checked::new(&Published::of(&[signer.jwk()]));
    checked.of(&token).await.unwrap();
    checked.pass(305);
    for call in ["the first", "one beside it"] {
        assert!(!is_ready(&checked, &token).await, "{call}");
    }
}

#[tokio::test]
async fn a_failure_is_remembered_though_everybody_who_waited_for_it_has_gone() {
    let published = Published::default();
    let checked = Checked::new(&published);
    let token = Signer::ecdsa("a").sign(&claims());
    assert!(!is_ready(&checked, &token).await, "it waits, and goes away");
    settle().await;
    for _ in 0..5 {
        let error = checked.of(&token).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable, "{error}");
    }
    assert_eq!(published.fetched(), 1, "not so soon");
}

#[tokio::test]
async fn an_issuer_that_cannot_be_reached_holds_up_no_token_of_another() {
    let (signer, stranger) = (Signer::ecdsa("a"), Signer::ecdsa("b"));
    let published = Published::of(&[signer.jwk()]);
    let checked = Checked::new(&published).after(&published);
    assert!(checked.of(&signer.sign(&claims())).await.unwrap().is_some());
    let error = checked.of(&stranger.sign(&claims())).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "it may be the other's: {error}");
}

#[tokio::test]
async fn keys_that_the_issuer_took_back_verify_nothing_also_the_last_one() {
    let signer = Signer::ecdsa("a");
    let published = Published::of(&[signer.jwk()]);
    let checked = Checked::new(&published);
    let (seen, unseen) = (signer.sign(&claims()), signer.sign(&with("sub", json!("bob"))));
    checked.of(&seen).await.unwrap();
    published.publish(&[]);
    checked.pass(301);
    checked.renew(&seen).await;
    for token in [&seen, &unseen, &seen] {
        let error = checked.of(token).await.unwrap_err();
        assert_eq!(error.code(), Code::Unauthenticated, "{error}");
    }
    published.publish(&[signer.jwk()]);
    checked.pass(301);
    checked.of(&seen).await.unwrap();
}

#[tokio::test]
async fn keys_that_cannot_be_had_for_ten_times_their_age_verify_nothing_until_they_can() {
    let signer = Signer::ecdsa("a");
    let published = Published::of(&[signer.jwk()]);
    let checked = Checked::new(&published);
    let token = signer.sign(&claims());
    checked.of(&token).await.unwrap();
    published.break_down();
    for passed in [301, 2698] {
        checked.pass(passed);
        checked.of(&token).await.unwrap();
        settle().await;
    }
    checked.pass(1);
    for _ in 0..2 {
        let error = checked.of(&token).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable, "{error}");
    }
    published.publish(&[signer.jwk()]);
    checked.pass(10);
    checked.of(&token).await.unwrap();
}
