//! The model of many hosts agrees with what can be said of few without it.

#[path = "../../examples/simulation/model.rs"]
mod model;

use model::{Costs, MICROSECOND, MILLISECOND, Nanoseconds, Outcome, SECOND, Scenario, run};

const POLL: Nanoseconds = 25 * MILLISECOND;

fn scenario(hosts: usize) -> Scenario {
    Scenario {
        hosts,
        cores: 2,
        costs: Costs::default(),
        poll: POLL,
        check: 3600 * SECOND,
        trim: 3600 * SECOND,
        rest: 0,
        wake: false,
        writes_per_second: 50.0,
        length: 200 * SECOND,
        seed: 1,
    }
}

fn near(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found - expected).abs() <= tolerance, "{what}: {found}, expected {expected}");
}

fn milliseconds(outcome: &Outcome, percent: usize) -> f64 {
    outcome.percentile(percent).unwrap() as f64 / MILLISECOND as f64
}

#[test]
fn what_polls_alone_carry_is_late_by_any_part_of_an_interval_alike() {
    for hosts in [1, 3] {
        let outcome = run(&scenario(hosts));
        near(outcome.polls_per_second, 40.0 * hosts as f64, 0.5, "polls a second");
        for percent in [1, 10, 25, 50, 75, 90, 99] {
            let expected = 25.0 * percent as f64 / 100.0;
            near(milliseconds(&outcome, percent), expected, 0.5, "delay");
        }
        assert_eq!(outcome.log_share, 0.0);
    }
}

#[test]
fn a_lone_write_that_is_told_of_takes_a_notify_a_signal_and_a_poll() {
    for hosts in [2, 3] {
        let costs = Costs {
            poll: 100 * MICROSECOND,
            row: 7 * MICROSECOND,
            notify: 30 * MICROSECOND,
            signal: 5 * MICROSECOND,
            hear: 20 * MICROSECOND,
            network: 200 * MICROSECOND,
            ..Costs::default()
        };
        // A core for each, and nothing else under way: no queue.
        let told = Scenario {
            costs,
            cores: 16,
            wake: true,
            poll: 10 * SECOND,
            writes_per_second: 1.0,
            ..scenario(hosts)
        };
        let outcome = run(&Scenario { length: 2000 * SECOND, ..told });
        // To the database and back, twice: for NOTIFY, whose way back is the notification, and for
        // the poll.
        let expected = 4 * 200 + 30 + 5 * hosts as u64 + 20 + 100 + 7;
        assert_eq!(outcome.percentile(50), Some(expected * MICROSECOND));
        // Nobody is told of what others wrote twice: the writer polls after its NOTIFY, and again
        // because it hears itself; each other host once; and timers, which all of it puts off.
        let told_polls = hosts as f64 + 1.0;
        near(outcome.polls_per_second, told_polls, 0.25, "polls a second");
    }
}

#[test]
fn the_share_of_the_cores_is_what_polls_cost_times_how_many_there_are() {
    for hosts in [1, 3] {
        let costs = Costs { poll: 250 * MICROSECOND, ..Costs::default() };
        let outcome = run(&Scenario { costs, writes_per_second: 0.0, ..scenario(hosts) });
        // Each begins 25 ms after the last has ended.
        let polls = hosts as f64 * 1e9 / (POLL + 250 * MICROSECOND) as f64;
        near(outcome.polls_per_second, polls, 0.1, "polls a second");
        near(outcome.log_share, polls * 250e-6 / 2.0, 1e-4, "share");
        assert_eq!(outcome.percentile(50), None);
    }
}

#[test]
fn a_database_with_too_many_hosts_is_busy_and_polls_as_fast_as_it_can() {
    let costs = Costs { poll: MILLISECOND, ..Costs::default() };
    let outcome = run(&Scenario { costs, length: 20 * SECOND, ..scenario(1000) });
    near(outcome.log_share, 1.0, 0.01, "share");
    near(outcome.polls_per_second, 2000.0, 20.0, "polls a second");
    // Half a second for a turn of all hosts, and a commit is late by any part of one.
    near(milliseconds(&outcome, 50), 251.0, 10.0, "delay");
}

#[test]
fn a_host_that_rests_does_not_poll_more_often_than_that_however_much_is_written() {
    let told = Scenario { wake: true, writes_per_second: 5000.0, ..scenario(3) };
    let outcome = run(&Scenario { rest: 5 * MILLISECOND, length: 20 * SECOND, ..told });
    near(outcome.polls_per_second, 3.0 * 200.0, 5.0, "polls a second");
    near(milliseconds(&outcome, 50), 2.5, 0.2, "delay");
    near(milliseconds(&outcome, 99), 5.0, 0.2, "delay");
}

#[test]
fn a_seed_has_one_outcome() {
    let costs = Costs { poll: 150 * MICROSECOND, grain: MILLISECOND, ..Costs::default() };
    let same = Scenario { costs, wake: true, length: 10 * SECOND, ..scenario(3) };
    assert_eq!(run(&same), run(&same));
    assert_ne!(run(&same).delays, run(&Scenario { seed: 2, ..same }).delays);
}
