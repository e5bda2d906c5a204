//! The life cycle without processes: an instance is a number, and the time is what the test says.

use tidewire_service::{Context, Principal};
use tokio::sync::oneshot;

use super::*;

fn pool(change: impl FnOnce(&mut LifeLimits)) -> (Pool<u64>, Instant) {
    let mut life = LifeLimits::default();
    change(&mut life);
    (Pool::new(life), Instant::now())
}

fn later(pool: &mut Pool<u64>, now: Instant) -> oneshot::Receiver<Result<Grant<u64>, Refusal>> {
    match pool.take(caller(), now) {
        TakeResult::Later(receiver) => receiver,
        other => panic!("{other:?}"),
    }
}

/// Whoever calls, where it is one.
fn caller() -> CallerKey {
    Context::default().caller_key()
}

fn named(name: &str) -> CallerKey {
    let mut context = Context::default();
    context.set_principal(Some(Principal::new("keys", name)));
    context.caller_key()
}

fn crash() -> Failure {
    Failure::text("it ended with exit code 1".to_owned())
}

#[test]
fn a_thousand_first_calls_start_one_instance_and_all_get_it() {
    let (mut pool, now) = pool(|life| (life.queue_max, life.concurrency) = (1000, 1000));
    let mut calls: Vec<_> = (0..1000).map(|_| later(&mut pool, now)).collect();
    assert!(matches!(pool.take(caller(), now), TakeResult::Refused(Refusal::QueueFull)));
    assert_eq!(pool.step(now), Step::Start);
    assert_eq!(pool.step(now), Step::Wait(None), "one start is enough");
    pool.started(1, 1, 1, now);
    for call in &mut calls {
        assert_eq!(call.try_recv().unwrap().unwrap().id, 1);
    }
}

#[test]
fn who_waits_is_served_in_order_and_who_gave_up_is_passed_over() {
    let (mut pool, now) = pool(|life| life.concurrency = 1);
    let [mut first, second, mut third] = [0; 3].map(|_| later(&mut pool, now));
    assert_eq!(pool.step(now), Step::Start);
    pool.started(1, 1, 1, now);
    assert!(first.try_recv().is_ok());
    drop(second);
    assert!(third.try_recv().is_err());
    pool.give_back(1, caller(), now);
    assert!(third.try_recv().is_ok());
}

#[test]
fn a_place_that_is_free_goes_to_the_caller_that_has_the_fewest() {
    let (mut pool, now) = pool(|life| life.concurrency = 3);
    let [ada, bob, eve] = ["ada", "bob", "eve"].map(named);
    let mut waiting: Vec<_> = [ada, ada, ada, ada, bob, bob, eve]
        .into_iter()
        .map(|caller| match pool.take(caller, now) {
            TakeResult::Later(receiver) => (caller, receiver),
            other => panic!("{other:?}"),
        })
        .collect();
    let served = |waiting: &mut Vec<(CallerKey, oneshot::Receiver<_>)>| {
        let mut served = Vec::new();
        waiting.retain_mut(|(caller, receiver)| {
            let has_place: Option<Result<Grant<u64>, Refusal>> = receiver.try_recv().ok();
            served.extend(has_place.as_ref().map(|_| *caller));
            has_place.is_none()
        });
        served
    };
    assert_eq!(pool.step(now), Step::Start);
    pool.started(1, 1, 1, now);
    assert_eq!(served(&mut waiting), [ada, bob, eve], "each has one, in order");
    pool.give_back(1, eve, now);
    assert_eq!(served(&mut waiting), [ada], "both have one, and this came first");
    pool.give_back(1, ada, now);
    assert_eq!(served(&mut waiting), [ada], "again");
    pool.give_back(1, bob, now);
    assert_eq!(served(&mut waiting), [bob], "it has none, and the other has two");
}

#[test]
fn a_queue_that_one_caller_has_filled_takes_in_a_call_of_another() {
    let (mut pool, now) = pool(|life| life.queue_max = 3);
    let [ada, bob] = ["ada", "bob"].map(named);
    let mut wait = |caller| match pool.take(caller, now) {
        TakeResult::Later(receiver) => Some(receiver),
        TakeResult::Refused(Refusal::QueueFull) => None,
        other => panic!("{other:?}"),
    };
    let mut of_ada = [0; 3].map(|_| wait(ada).expect("there is room"));
    assert!(wait(ada).is_none());
    let mut of_bob = wait(bob).expect("it takes the place of the last of ada");
    assert!(matches!(of_ada[2].try_recv(), Ok(Err(Refusal::QueueFull))));
    assert!(wait(bob).is_none(), "it would have as many as the other");
    assert!(of_ada[0].try_recv().is_err() && of_ada[1].try_recv().is_err());
    assert!(of_bob.try_recv().is_err(), "it waits");
}

#[test]
fn a_caller_gives_up_what_it_has_beyond_its_share_and_no_more() {
    let (mut pool, now) = pool(|life| life.concurrency = 4);
    let [ada, bob, eve] = ["ada", "bob", "eve"].map(named);
    let of_ada: Vec<_> = (0..4).map(|_| pool.take(ada, now)).collect();
    assert_eq!(pool.step(now), Step::Start);
    pool.started(1, 1, 1, now);
    let own = pool.take(ada, now);
    assert!(!pool.vacate_share(ada), "nobody else waits");
    let others = [bob, bob, bob, eve].map(|caller| pool.take(caller, now));
    assert!(pool.vacate_share(ada), "for bob");
    assert!(pool.vacate_share(ada), "for eve");
    assert!(!pool.vacate_share(ada), "nobody has more than it then");
    pool.give_back(1, ada, now);
    pool.give_back(1, ada, now);
    assert_eq!(pool.count().waiting, 3);
    let [first, second, third, fourth] = others.map(|taken| match taken {
        TakeResult::Later(mut receiver) => receiver.try_recv().is_ok(),
        other => panic!("{other:?}"),
    });
    assert!(first && fourth && !second && !third);
    drop((of_ada, own));
}

#[test]
fn an_idle_instance_is_frozen_then_stopped_and_a_call_in_between_thaws_it() {
    let (mut pool, start) = pool(|life| {
        life.idle_freeze = Some(Duration::from_secs(10));
        life.idle_stop = Some(Duration::from_secs(60));
    });
    let call = later(&mut pool, start);
    assert_eq!(pool.step(start), Step::Start);
    pool.started(1, 1, 1, start);
    assert_eq!(pool.step(start), Step::Wait(None), "it is called");
    drop(call);
    pool.give_back(1, caller(), start);
    let at = |seconds| start + Duration::from_secs(seconds);
    assert_eq!(pool.step(start), Step::Wait(Some(at(10))));
    assert_eq!(pool.step(at(10)), Step::Freeze(1));
    assert_eq!(pool.step(at(10)), Step::Wait(Some(at(60))));
    let TakeResult::Granted(grant) = pool.take(caller(), at(11)) else { panic!("it is there") };
    assert!(grant.is_frozen);
    assert_eq!(pool.step(at(100)), Step::Wait(None), "it is called");
    pool.give_back(1, caller(), at(100));
    assert_eq!(pool.step(at(160)), Step::Stop(1));
    let call = later(&mut pool, at(160));
    assert_eq!(pool.step(at(160)), Step::Start, "while the other one ends");
    assert!(!pool.ended(1, End::Signal(15), at(161)), "it was asked to");
    drop(call);
}

#[test]
fn the_end_of_a_call_matters_where_it_brings_something_forward() {
    let (mut pool, start) = pool(|life| life.concurrency = 2);
    let at = |seconds| start + Duration::from_secs(seconds);
    let _call = later(&mut pool, start);
    assert_eq!(pool.step(start), Step::Start);
    pool.started(1, 1, 1, start);
    assert_eq!(pool.step(start), Step::Wait(None), "it is called");
    assert!(matches!(pool.take(caller(), start), TakeResult::Granted(_)));
    assert!(!pool.give_back(1, caller(), at(1)), "another call goes on");
    assert!(pool.give_back(1, caller(), at(2)), "it is idle, and nothing is planned");
    assert_eq!(pool.step(at(2)), Step::Wait(Some(at(302))));
    for seconds in [3, 300] {
        assert!(matches!(pool.take(caller(), at(seconds)), TakeResult::Granted(_)));
        assert!(!pool.give_back(1, caller(), at(seconds)), "its end is planned as soon as may be");
    }
    assert_eq!(pool.step(at(302)), Step::Wait(Some(at(600))));
    let [_busy, _too] = [0; 2].map(|_| pool.take(caller(), at(303)));
    let mut waits = later(&mut pool, at(303));
    assert!(pool.give_back(1, caller(), at(304)), "somebody waits");
    assert!(waits.try_recv().is_ok());
    pool.retire();
    assert!(!pool.give_back(1, caller(), at(305)), "it has a call left");
    assert!(pool.give_back(1, caller(), at(305)), "it ends now");
    assert_eq!(pool.step(at(305)), Step::Stop(1));
}

#[test]
fn a_failed_start_is_told_to_all_who_wait_and_rests() {
    let (mut pool, now) = pool(|_| {});
    let mut call = later(&mut pool, now);
    assert_eq!(pool.step(now), Step::Start);
    pool.start_failed(crash(), 1, now);
    assert!(matches!(call.try_recv().unwrap(), Err(Refusal::Failed(..))));
    let _next = later(&mut pool, now);
    match pool.step(now) {
        Step::Wait(Some(at)) => assert!(at <= now + Duration::from_millis(100)),
        // The rest that was drawn is none.
        step => assert_eq!(step, Step::Start),
    }
}

#[test]
fn a_program_that_cannot_be_run_is_refused_at_once_until_it_is_tried_again() {
    let (mut pool, now) = pool(|_| {});
    let _call = later(&mut pool, now);
    assert_eq!(pool.step(now), Step::Start);
    pool.start_failed(
        Failure { is_hopeless: true, ..Failure::text("no such file".to_owned()) },
        1,
        now,
    );
    assert!(matches!(pool.take(caller(), now), TakeResult::Refused(Refusal::Failed(..))));
    let now = now + Duration::from_secs(30);
    let _call = later(&mut pool, now);
    assert_eq!(pool.step(now), Step::Start);
}

#[test]
fn five_crashes_break_the_circuit_and_refuse_who_waits() {
    let (mut pool, mut now) = pool(|_| {});
    for id in 1..=5 {
        let mut call = later(&mut pool, now);
        while pool.step(now) != Step::Start {
            now += Duration::from_millis(100);
        }
        pool.started(id, id, 1, now);
        assert!(call.try_recv().is_ok());
        assert!(pool.ended(id, End::Signal(11), now));
    }
    let TakeResult::Refused(Refusal::Failed(failure, rest)) = pool.take(caller(), now) else {
        panic!("broken")
    };
    assert_eq!(failure.text, "it was ended by signal 11");
    assert_eq!(rest, Duration::from_secs(30));
}

#[test]
fn the_end_of_the_supervisor_is_no_crash_of_a_program() {
    let (mut pool, now) = pool(|_| {});
    for id in 1..=20 {
        let mut call = later(&mut pool, now);
        assert_eq!(pool.step(now), Step::Start, "without a rest");
        pool.started(id, id, 1, now);
        assert!(call.try_recv().is_ok());
        assert!(pool.ended(id, End::Lost, now), "what it knew is lost all the same");
    }
}

#[test]
fn a_further_instance_is_started_when_calls_wait_for_a_busy_one() {
    let (mut pool, now) = pool(|life| (life.concurrency, life.instances_max) = (1, 2));
    let [_first, mut second, _third] = [0; 3].map(|_| later(&mut pool, now));
    assert_eq!(pool.step(now), Step::Start);
    pool.started(1, 1, 1, now);
    assert_eq!(pool.step(now), Step::Wait(Some(now + PATIENCE)));
    assert_eq!(pool.step(now + PATIENCE), Step::Start);
    pool.started(2, 2, 1, now + PATIENCE);
    assert_eq!(second.try_recv().unwrap().unwrap().id, 2);
    assert_eq!(pool.step(now + PATIENCE * 9), Step::Wait(None), "two is the most");
}

#[test]
fn a_drain_ends_instances_when_their_calls_are_over() {
    let (mut pool, now) = pool(|_| {});
    let _call = later(&mut pool, now);
    assert_eq!(pool.step(now), Step::Start);
    pool.started(1, 1, 1, now);
    pool.drain();
    assert!(matches!(pool.take(caller(), now), TakeResult::Refused(Refusal::Draining)));
    assert_eq!(pool.step(now), Step::Wait(None));
    pool.give_back(1, caller(), now);
    assert_eq!(pool.step(now), Step::Stop(1));
    pool.ended(1, End::Code(0), now);
    assert_eq!(pool.step(now), Step::Done);
}

/// A pool with one instance that runs and has no calls.
fn running(change: impl FnOnce(&mut LifeLimits)) -> (Pool<u64>, Instant) {
    let (mut pool, now) = pool(change);
    assert!(pool.want(now), "nothing runs");
    assert_eq!(pool.step(now), Step::Start, "an operator wants one, and nobody calls");
    pool.started(1, 1, 1, now);
    (pool, now)
}

#[test]
fn an_operator_starts_an_instance_once_and_a_second_time_is_nothing() {
    let (mut pool, now) = running(|_| ());
    assert!(!pool.want(now), "one runs");
    assert!(matches!(pool.step(now), Step::Wait(_)));
    assert_eq!(pool.count().starts, 1);
}

#[test]
fn what_is_retired_ends_with_its_calls_and_the_next_call_gets_another() {
    let (mut pool, now) = running(|life| life.instances_max = 1);
    let TakeResult::Granted(grant) = pool.take(caller(), now) else { panic!("it is free") };
    assert_eq!(pool.retire(), 1);
    assert_eq!(pool.retire(), 0, "stopping twice is nothing");
    let mut next = later(&mut pool, now);
    assert_eq!(pool.step(now), Step::Start, "it takes no place of an instance");
    pool.started(2, 2, 1, now);
    assert_eq!(next.try_recv().unwrap().unwrap().id, 2);
    assert!(matches!(pool.step(now), Step::Wait(_)), "the first one still has its call");
    pool.give_back(grant.id, caller(), now);
    assert_eq!(pool.step(now), Step::Stop(1));
    assert!(!pool.goes_on(1, now), "work that is not a call does not keep it");
    assert!(!pool.ended(1, End::Code(9), now), "its end is not a crash");
}

#[test]
fn a_new_generation_takes_over_when_it_can_be_called_and_the_old_ends_with_its_calls() {
    let (mut pool, now) = running(|life| life.concurrency = 2);
    let TakeResult::Granted(old) = pool.take(caller(), now) else { panic!("it is free") };
    assert!(pool.replace(LifeLimits::default(), now), "the old one serves");
    assert_eq!(pool.step(now), Step::Start);
    let TakeResult::Granted(more) = pool.take(caller(), now) else { panic!("meanwhile it does") };
    assert_eq!(more.id, 1);
    assert!(pool.started(2, 2, 2, now), "it takes over");
    let TakeResult::Granted(new) = pool.take(caller(), now) else { panic!("it is free") };
    assert_eq!(new.id, 2);
    pool.give_back(1, caller(), now);
    assert!(matches!(pool.step(now), Step::Wait(_)), "one call is left");
    pool.give_back(old.id, caller(), now);
    assert_eq!(pool.step(now), Step::Stop(1));
}

#[test]
fn a_new_generation_that_cannot_be_started_leaves_the_old_one_and_is_tried_again() {
    let (mut pool, mut now) = running(|_| ());
    assert!(pool.replace(LifeLimits::default(), now));
    for _ in 0..9 {
        while pool.step(now) != Step::Start {
            now += Duration::from_secs(1);
        }
        pool.start_failed(crash(), 2, now);
        let TakeResult::Granted(grant) = pool.take(caller(), now) else {
            panic!("the old one serves")
        };
        assert_eq!(grant.id, 1);
        pool.give_back(1, caller(), now);
    }
    while pool.step(now) != Step::Start {
        now += Duration::from_secs(1);
    }
    assert!(pool.started(2, 2, 2, now));
    assert_eq!(pool.step(now), Step::Stop(1));
}

#[test]
fn a_start_of_older_settings_serves_until_the_newer_can_and_its_failure_is_nobodys() {
    let (mut pool, now) = pool(|_| {});
    let mut call = later(&mut pool, now);
    assert_eq!(pool.step(now), Step::Start);
    assert!(!pool.replace(LifeLimits::default(), now), "nobody serves");
    pool.start_failed(crash(), 1, now);
    assert_eq!(pool.step(now), Step::Start, "without a rest");
    pool.replace(LifeLimits::default(), now);
    assert!(!pool.started(1, 1, 2, now));
    assert_eq!(call.try_recv().unwrap().unwrap().id, 1);
    pool.give_back(1, caller(), now);
    assert_eq!(pool.step(now), Step::Start);
    assert!(pool.started(2, 2, 3, now));
    assert_eq!(pool.step(now), Step::Stop(1));
}

#[test]
fn spares_are_started_ahead_taken_by_a_call_and_replaced() {
    let (mut pool, now) = pool(|life| (life.spares, life.instances_max) = (2, 2));
    for id in [1, 2] {
        assert_eq!(pool.step(now), Step::Start, "without a call");
        pool.started(id, id, 1, now);
    }
    let late = now + Duration::from_secs(3600);
    assert_eq!(pool.step(late), Step::Wait(None), "they stand by as long as it takes");
    assert_eq!((pool.count().spares, pool.count().ready), (2, 0));
    let TakeResult::Granted(first) = pool.take(caller(), late) else {
        panic!("no start is waited for")
    };
    assert_eq!(pool.step(late), Step::Start, "the next spare");
    pool.started(3, 3, 1, late);
    assert_eq!((pool.count().spares, pool.count().ready), (2, 1));
    assert_eq!(pool.step(late), Step::Wait(None));
    pool.give_back(first.id, caller(), late);
    assert!(matches!(pool.step(late + Duration::from_secs(300)), Step::Stop(_)), "it was used");
    assert_eq!(pool.step(late + Duration::from_secs(300)), Step::Wait(None), "spares are not");
}

#[test]
fn a_spare_is_taken_at_once_when_others_are_busy_and_no_more_than_may_serve() {
    let (mut pool, now) = pool(|life| {
        (life.spares, life.instances_max, life.concurrency) = (1, 2, 1);
        life.idle_freeze = Some(Duration::ZERO);
    });
    for id in 1..=3 {
        assert_eq!(pool.step(now), Step::Start);
        pool.started(id, id, 1, now);
        assert_eq!(pool.step(now), Step::Freeze(id));
        if id < 3 {
            let TakeResult::Granted(grant) = pool.take(caller(), now) else { panic!("the spare") };
            assert!((grant.id, grant.is_frozen) == (id, true));
        }
    }
    let _waits = later(&mut pool, now);
    assert_eq!(pool.step(now), Step::Wait(None), "two serve, and that is the most");
    assert_eq!(pool.count().spares, 1);
}

#[test]
fn calls_that_wait_make_no_more_instances_of_spares_than_may_serve() {
    let (mut pool, now) = pool(|life| {
        (life.spares, life.instances_max, life.concurrency) = (1, 2, 1);
    });
    let mut calls: Vec<_> = (0..60).map(|_| later(&mut pool, now)).collect();
    let at = now + Duration::from_secs(1);
    for id in 1..=3 {
        assert_eq!(pool.step(at), Step::Start);
        pool.started(id, id, 1, at);
    }
    assert_eq!(pool.step(at), Step::Wait(None), "two serve, one stands by");
    assert_eq!((pool.count().ready, pool.count().spares), (2, 1));
    let served = calls.iter_mut().filter_map(|call| call.try_recv().ok()?.ok());
    let served: Vec<_> = served.map(|grant| grant.id).collect();
    assert_eq!(served, [1, 2]);
    pool.give_back(1, caller(), at);
    assert_eq!(pool.count().ready, 2, "the next that waits has its place");
}

#[test]
fn a_call_that_waits_gets_the_spare_once_an_instance_has_crashed() {
    let (mut pool, now) = pool(|life| {
        (life.spares, life.instances_max, life.concurrency) = (1, 1, 1);
        life.idle_freeze = Some(Duration::ZERO);
    });
    for id in [1, 2] {
        assert_eq!(pool.step(now), Step::Start);
        pool.started(id, id, 1, now);
        assert_eq!(pool.step(now), Step::Freeze(id));
        if id == 1 {
            assert!(matches!(pool.take(caller(), now), TakeResult::Granted(_)));
        }
    }
    let mut waits = later(&mut pool, now);
    assert!(pool.ended(1, End::Code(1), now), "a crash");
    let grant = waits.try_recv().expect("no start is waited for").unwrap();
    assert_eq!((grant.id, grant.is_frozen), (2, true));
    assert_eq!((pool.count().ready, pool.count().spares), (1, 0));
}

#[test]
fn an_operator_who_stops_a_service_gets_no_spares_until_it_is_called() {
    let (mut pool, now) = pool(|life| life.spares = 1);
    assert_eq!(pool.step(now), Step::Start);
    pool.started(1, 1, 1, now);
    assert_eq!(pool.retire(), 1);
    assert_eq!(pool.step(now), Step::Stop(1));
    pool.ended(1, End::Signal(15), now);
    assert_eq!(pool.step(now), Step::Wait(None));
    let _call = later(&mut pool, now);
    assert_eq!(pool.step(now), Step::Start);
    pool.started(2, 2, 1, now);
    assert_eq!(pool.step(now), Step::Start, "and a spare again");
}

#[test]
fn a_spare_that_ends_is_started_again_after_a_rest_whatever_its_exit_code() {
    let (mut pool, mut now) = pool(|life| life.spares = 1);
    for id in 1..=5 {
        while pool.step(now) != Step::Start {
            now += Duration::from_millis(100);
        }
        pool.started(id, id, 1, now);
        assert!(pool.ended(id, End::Code(0), now), "nobody asked it to");
    }
    assert_eq!(pool.step(now), Step::Wait(Some(now + Duration::from_secs(30))), "no storm");
}

#[test]
fn a_clock_that_jumps_ahead_ends_no_call_and_starts_nothing_twice() {
    let (mut pool, now) = pool(|life| life.idle_freeze = Some(Duration::from_secs(1)));
    let mut call = later(&mut pool, now);
    assert_eq!(pool.step(now), Step::Start);
    let next_year = now + Duration::from_secs(365 * 86_400);
    assert_eq!(pool.step(next_year), Step::Wait(None), "it is being started");
    pool.started(1, 1, 1, next_year);
    assert!(call.try_recv().is_ok(), "it has its place");
    let at = next_year + Duration::from_secs(365 * 86_400);
    assert_eq!(pool.step(at), Step::Wait(None), "it is called");
    pool.give_back(1, caller(), at);
    assert_eq!(pool.step(now), Step::Wait(Some(at + Duration::from_secs(1))), "and back again");
}

#[test]
fn an_operator_freezes_what_has_no_calls_and_thaws_it() {
    let (mut pool, now) = running(|_| ());
    let TakeResult::Granted(grant) = pool.take(caller(), now) else { panic!("it is free") };
    assert_eq!(pool.freeze(|_| true), (vec![], 1));
    pool.give_back(grant.id, caller(), now);
    assert_eq!(pool.freeze(|_| false), (vec![], 1), "it has work that is not a call");
    assert_eq!(pool.freeze(|_| true), (vec![1], 0));
    assert_eq!(pool.freeze(|_| true), (vec![], 0), "freezing twice is nothing");
    assert_eq!((pool.count().frozen, pool.thaw(now)), (1, vec![1]));
    assert_eq!(pool.freeze(|_| true), (vec![1], 0));
    let TakeResult::Granted(grant) = pool.take(caller(), now) else {
        panic!("it is frozen, and free")
    };
    assert!(grant.is_frozen, "a call thaws it");
}

#[test]
fn an_operator_ends_the_rest_of_what_is_broken() {
    let (mut pool, now) = pool(|_| ());
    let waits = later(&mut pool, now);
    assert_eq!(pool.step(now), Step::Start);
    pool.start_failed(
        Failure { is_hopeless: true, ..Failure::text("no such file".to_owned()) },
        1,
        now,
    );
    drop(waits);
    assert!(matches!(pool.take(caller(), now), TakeResult::Refused(Refusal::Failed(..))));
    pool.close_breaker();
    let _waits = later(&mut pool, now);
    assert_eq!(pool.step(now), Step::Start);
}

#[test]
fn one_that_has_served_for_as_long_as_it_may_serves_until_another_takes_over() {
    let hour = Duration::from_secs(3600);
    for (max_requests, max_age) in [(Some(2), None), (None, Some(hour))] {
        for spares in [0, 1] {
            let (mut pool, now) = pool(|life| {
                (life.max_requests, life.max_age) = (max_requests, max_age);
                (life.spares, life.idle_stop) = (spares, None);
            });
            let _waits = pool.take(caller(), now);
            assert_eq!(pool.step(now), Step::Start);
            pool.started(1, 1, 1, now);
            let TakeResult::Granted(second) = pool.take(caller(), now) else {
                panic!("it has room")
            };
            assert_eq!(second.id, 1);
            let later = now + hour;
            if spares == 1 {
                assert_eq!(pool.step(now), Step::Start);
                pool.started(2, 2, 1, now);
                // It takes over at once, and the next one is started.
                assert_eq!(pool.step(later), Step::Start);
            } else {
                assert_eq!(pool.step(later), Step::Start);
                let TakeResult::Granted(third) = pool.take(caller(), later) else {
                    panic!("it serves on")
                };
                assert_eq!(third.id, 1);
                pool.give_back(1, caller(), later);
                // One that fails leaves it serving.
                let failure = Failure::text("no".to_owned());
                pool.start_failed(failure, 1, later);
                let TakeResult::Granted(third) = pool.take(caller(), later) else {
                    panic!("it serves on")
                };
                assert_eq!(third.id, 1);
                pool.give_back(1, caller(), later);
                assert_eq!(pool.step(later + hour), Step::Start);
                pool.started(2, 2, 1, later);
            }
            let TakeResult::Granted(next) = pool.take(caller(), later) else {
                panic!("another is there")
            };
            assert_eq!(next.id, 2);
            // It ends with its calls.
            assert!(matches!(pool.step(later), Step::Wait(_)));
            pool.give_back(1, caller(), later);
            pool.give_back(1, caller(), later);
            assert_eq!(pool.step(later), Step::Stop(1));
        }
    }
}
