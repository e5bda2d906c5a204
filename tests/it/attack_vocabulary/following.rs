//! `follow`: pace, deadlines, lifetimes, errors, ends; with a clock that jumps.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidewire::gate::gated;
use tidewire::http::Method;
use tidewire::service::{
    Clock, FollowOptions, Freshness, Lifetime, Query, Signal, Validator, follow,
};
use tidewire::{Call, Code, Context, Error, Reply, Result, Service, Stream};

/// A clock that jumps to whatever is waited for.
#[derive(Clone)]
struct Jumping(Arc<Mutex<Instant>>);

impl Clock for Jumping {
    fn now(&self) -> Instant {
        *self.0.lock().unwrap()
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let clock = Arc::clone(&self.0);
        Box::pin(async move {
            // Others go first: who sleeps is woken when nothing else happens.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            let mut now = clock.lock().unwrap();
            *now = at.max(*now);
        })
    }
}

struct Story {
    begun: Instant,
    clock: Jumping,
    calls: Arc<Mutex<Vec<Made>>>,
}

/// When a call was made, its deadline and how many validators it holds.
type Made = (Duration, Option<Duration>, usize);

/// Follows a service that answers its n-th call by `answer(n)`.
fn story(
    pace: FollowOptions,
    context: Context,
    answer: impl Fn(usize) -> Result<Reply> + Send + Sync + 'static,
) -> (Story, Stream<Result<Reply>>) {
    let begun = Instant::now();
    let clock = Jumping(Arc::new(Mutex::new(begun)));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let (log, time) = (Arc::clone(&calls), clock.clone());
    let service = move |call: Call| {
        let mut calls = log.lock().unwrap();
        let deadline = call.context.deadline().map(|at| at.saturating_duration_since(time.now()));
        calls.push((time.now() - begun, deadline, call.context.caller_validators().len()));
        let outcome = answer(calls.len());
        async move { outcome }
    };
    let followed = follow(Arc::new(service), query(context), pace, clock.clone());
    (Story { begun, clock, calls }, followed)
}

/// The next answer; the stream itself never fails.
async fn answer(answers: &mut Stream<Result<Reply>>) -> Option<Result<Reply>> {
    answers.next().await.unwrap()
}

fn query(context: Context) -> Query {
    let call = Call::http(Method::GET, "/a".parse().unwrap(), context, "");
    futures_util::FutureExt::now_or_never(call.buffered()).unwrap().unwrap()
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn validator(n: usize) -> Validator {
    Validator::new([u8::try_from(n % 256).unwrap(); 16])
}

fn stale() -> Freshness {
    let signal = Signal::new();
    signal.fire();
    Freshness::tracked(Arc::new(signal))
}

#[tokio::test]
async fn an_answer_that_is_always_stale_is_asked_for_at_the_least_interval() {
    let pace = FollowOptions::default().with_min_interval(millis(50)).with_timeout(millis(700));
    let (story, mut replies) = story(pace, Context::default(), |n| {
        Ok(Reply::from("a").with_freshness(stale().with_validator(validator(n))))
    });
    for _ in 0..4 {
        answer(&mut replies).await.unwrap().unwrap();
    }
    let calls = story.calls.lock().unwrap().clone();
    let expected: Vec<_> =
        (0..4_u64).map(|n| (millis(n * 50), Some(millis(700)), usize::from(n > 0))).collect();
    assert_eq!(calls, expected);
    assert_eq!(story.clock.now() - story.begun, millis(150));
}

#[tokio::test]
async fn an_answer_that_nothing_names_is_told_each_time() {
    let (story, mut replies) = story(FollowOptions::default(), Context::default(), |n| {
        let freshness = if n < 3 { stale() } else { Freshness::immutable() };
        Ok(Reply::from("same").with_freshness(freshness))
    });
    let mut told = 0;
    while answer(&mut replies).await.is_some() {
        told += 1;
    }
    assert_eq!((told, story.calls.lock().unwrap().len()), (3, 3));
}

#[tokio::test]
async fn a_query_with_a_deadline_of_its_own_is_followed_beyond_it() {
    // "with a fresh deadline"
    let past = Instant::now() + millis(1);
    let context = Context::default().with_deadline(past);
    let (story, mut replies) =
        story(FollowOptions::default().with_timeout(millis(10)), context, |n| {
            Ok(Reply::from("a").with_freshness(stale().with_validator(validator(n))))
        });
    for _ in 0..3 {
        answer(&mut replies).await.unwrap().unwrap();
    }
    for (_, deadline, _) in story.calls.lock().unwrap().iter() {
        assert_eq!(*deadline, Some(millis(10)));
    }
}

#[tokio::test]
async fn times_without_measure_are_waited_for_and_do_not_overflow() {
    for (lifetime, age) in [
        (Lifetime::For(Duration::MAX), Duration::ZERO),
        (Lifetime::For(Duration::MAX), Duration::MAX),
        (Lifetime::For(Duration::ZERO), Duration::MAX),
    ] {
        let pace = FollowOptions::default().with_timeout(Duration::MAX);
        let (_, mut replies) = story(pace, Context::default(), move |n| {
            let freshness = Freshness::default().with_lifetime(lifetime).with_age(age);
            Ok(Reply::from("a").with_freshness(freshness.with_validator(validator(n))))
        });
        answer(&mut replies).await.unwrap().unwrap();
        let _ = futures_util::poll!(Box::pin(replies.next()));
    }
    let pace = FollowOptions::default().with_min_interval(Duration::MAX);
    let (_, mut replies) =
        story(pace, Context::default(), |_| Ok(Reply::from("a").with_freshness(stale())));
    answer(&mut replies).await.unwrap().unwrap();
    let _ = futures_util::poll!(Box::pin(replies.next()));
}

#[tokio::test]
async fn what_is_left_of_a_lifetime_is_waited_for() {
    let (story, mut replies) = story(FollowOptions::default(), Context::default(), |n| {
        let freshness = Freshness::lasting(millis(10_000)).with_age(millis(4_000));
        Ok(Reply::from("a").with_freshness(freshness.with_validator(validator(n))))
    });
    answer(&mut replies).await.unwrap().unwrap();
    answer(&mut replies).await.unwrap().unwrap();
    assert_eq!(story.calls.lock().unwrap()[1].0, millis(6_000));
}

#[tokio::test]
async fn an_error_ends_it_and_nothing_follows() {
    let (story, mut replies) = story(FollowOptions::default(), Context::default(), |n| match n {
        2 => Err(Error::unavailable("gone")),
        n => Ok(Reply::from("a").with_freshness(stale().with_validator(validator(n)))),
    });
    answer(&mut replies).await.unwrap().unwrap();
    assert_eq!(answer(&mut replies).await.unwrap().unwrap_err().code(), Code::Unavailable);
    assert!(answer(&mut replies).await.is_none());
    assert!(answer(&mut replies).await.is_none());
    assert_eq!(story.calls.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn an_error_with_freshness_is_told_once_and_what_comes_after_it_too() {
    let (story, mut replies) = story(FollowOptions::default(), Context::default(), |n| match n {
        1..=3 => Err(Error::not_found("not yet").with_freshness(stale())),
        _ => Ok(Reply::from("a").with_freshness(Freshness::immutable())),
    });
    let mut told = Vec::new();
    loop {
        match answer(&mut replies).await {
            Some(Ok(_)) => told.push("answer"),
            Some(Err(_)) => told.push("error"),
            None => break,
        }
    }
    assert_eq!(told.last(), Some(&"answer"), "{told:?}");
    assert_eq!(story.calls.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn an_error_that_stays_true_for_ever_ends_it() {
    let (story, mut replies) = story(FollowOptions::default(), Context::default(), |_| {
        Err(Error::not_found("never").with_freshness(Freshness::immutable()))
    });
    assert_eq!(answer(&mut replies).await.unwrap().unwrap_err().code(), Code::NotFound);
    assert!(answer(&mut replies).await.is_none());
    assert_eq!(story.calls.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_service_that_says_unchanged_of_something_else_is_no_answer() {
    // `Reply::unchanged`: the validator has to be among `Context::held`.
    let (_, mut replies) = story(FollowOptions::default(), Context::default(), |n| match n {
        1 => Ok(Reply::unchanged(validator(9))),
        _ => Ok(Reply::from("a").with_freshness(Freshness::immutable())),
    });
    let error = answer(&mut replies).await.unwrap().expect_err("nothing was held");
    assert_eq!(error.code(), Code::Internal);
    let (_, mut replies) = story(FollowOptions::default(), Context::default(), |n| match n {
        1 => Ok(Reply::from("a").with_freshness(stale().with_validator(validator(1)))),
        _ => Ok(Reply::unchanged(validator(9)).with_freshness(stale())),
    });
    answer(&mut replies).await.unwrap().unwrap();
    let error = answer(&mut replies).await.unwrap().expect_err("something else is held");
    assert_eq!(error.code(), Code::Internal);
}

#[tokio::test]
async fn an_unchanged_answer_is_followed_on_by_its_own_freshness() {
    let (story, mut replies) = story(FollowOptions::default(), Context::default(), |n| match n {
        1 => Ok(Reply::from("a").with_freshness(stale().with_validator(validator(1)))),
        2..=4 => Ok(Reply::unchanged(validator(1)).with_freshness(stale())),
        5 => Ok(Reply::unchanged(validator(1)).with_freshness(Freshness::immutable())),
        _ => panic!("it never changes"),
    });
    assert!(answer(&mut replies).await.is_some());
    assert!(answer(&mut replies).await.is_none());
    let held: Vec<_> = story.calls.lock().unwrap().iter().map(|call| call.2).collect();
    assert_eq!(held, [0, 1, 1, 1, 1]);
}

#[tokio::test]
async fn who_comes_back_with_what_it_holds_is_told_what_changed_since() {
    let mut context = Context::default();
    context.set_held(vec![validator(1), validator(2)]);
    let (story, mut replies) = story(FollowOptions::default(), context, |n| match n {
        1 => Ok(Reply::unchanged(validator(2)).with_freshness(stale())),
        2 => Ok(Reply::from("b").with_freshness(stale().with_validator(validator(3)))),
        _ => Ok(Reply::from("c").with_freshness(Freshness::immutable())),
    });
    let mut told = Vec::new();
    while let Some(reply) = answer(&mut replies).await {
        told.push(reply.unwrap().body.collect(10).await.unwrap());
    }
    assert_eq!(told, ["b", "c"]);
    let held: Vec<_> = story.calls.lock().unwrap().iter().map(|call| call.2).collect();
    assert_eq!((held.len(), held[0], held[2]), (3, 2, 1));
}

#[tokio::test]
async fn a_deadline_inside_a_call_that_never_ends_ends_the_stream() {
    let begun = Instant::now();
    let clock = Jumping(Arc::new(Mutex::new(begun)));
    let service = |_: Call| std::future::pending::<Result<Reply>>();
    let pace = FollowOptions::default().with_timeout(millis(70));
    let mut replies = follow(Arc::new(service), query(Context::default()), pace, clock.clone());
    assert_eq!(answer(&mut replies).await.unwrap().unwrap_err().code(), Code::DeadlineExceeded);
    assert_eq!(clock.now() - begun, millis(70));
    assert!(answer(&mut replies).await.is_none());
}

#[tokio::test]
async fn each_call_of_a_followed_query_passes_the_gates_and_gives_their_guards_back() {
    let live = Arc::new(());
    let left = Arc::clone(&live);
    let gate = move |head: &mut tidewire::Head| {
        head.leave(Arc::clone(&left));
        head.context.set_principal(tidewire::Principal::new("test", "ada"));
        Ok(())
    };
    let inner = |call: Call| {
        let name = call.context.principal().map(|who| who.subject().to_owned());
        async move { Ok(Reply::from(name.unwrap()).with_freshness(stale())) }
    };
    let service: Arc<dyn Service> = Arc::new(gated(vec![Arc::new(gate)], Arc::new(inner)));
    let clock = Jumping(Arc::new(Mutex::new(Instant::now())));
    let mut replies = follow(service, query(Context::default()), FollowOptions::default(), clock);
    let first = answer(&mut replies).await.unwrap().unwrap();
    assert_eq!(first.body.collect(10).await.unwrap(), "ada");
    // The gate itself has one, the test another.
    assert_eq!(Arc::strong_count(&live), 2);
}
