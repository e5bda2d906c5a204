//! Every kind of trouble a target, a machine or a person can make.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use tidewire_bench::command::Outcome;
use tidewire_loadgen::{ErrorKind, Stop};

use crate::harness::{Manner, Peer, answer, bench, closed_port, measured, measured_until, scratch};

#[test]
fn a_target_that_refuses_is_an_error_not_a_measurement() {
    let url = format!("http://{}/", closed_port());
    let ran = bench(&["run", &url, "--duration", "60s"]);
    assert_eq!(ran.outcome.as_ref().unwrap_err().kind(), ErrorKind::Unreachable);
    assert!(ran.error().contains("connection refused"));
}

#[test]
fn a_target_that_stalls_is_named() {
    let began = Instant::now();
    let peer = Peer::start(move |seen| {
        if seen.number == 50 {
            // Long beside what an answer takes on this machine.
            let stall = Duration::from_millis(400).max(began.elapsed());
            // tidy: allow-sleep the peer is slow, which is what is measured
            std::thread::sleep(stall);
        }
        Manner::Answer(answer(200, "x"))
    });
    let (_, result, text) = measured(&[&peer.url(), "-n", "200", "-c", "1"]);
    assert!(result.stalls.iter().any(|stall| stall.seconds >= 0.39), "{:?}", result.stalls);
    assert!(text.contains("stall: "), "{text}");
}

#[test]
fn a_stall_reaches_every_request_that_was_due_in_it() {
    let peer = Peer::start(|seen| {
        if seen.number == 100 {
            // tidy: allow-sleep the peer is slow, which is what is measured
            std::thread::sleep(Duration::from_millis(300));
        }
        Manner::Answer(answer(200, "x"))
    });
    let (_, result, text) = measured(&[&peer.url(), "--rate", "500", "-z", "1s", "-c", "1"]);
    // 150 requests were due while the target slept, 125 of them at least 50 ms before it woke.
    let late = |histogram: &tidewire_loadgen::Sparse| -> u64 {
        histogram.0.iter().filter(|(value, _)| *value >= 50_000_000).map(|(_, count)| count).sum()
    };
    assert!(late(&result.latency.corrected.histogram) >= 120, "{text}");
    assert!(result.latency.corrected.p90 > 0.05, "{text}");
}

#[test]
fn a_target_that_never_answers_runs_into_the_time_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (_, result, text) = measured(&[&url, "-n", "4", "-c", "2", "--timeout", "100ms"]);
    assert_eq!((result.requests.ok, result.failures["timeout"]), (0, 4), "{text}");
    assert!(text.contains("nothing was answered well"));
}

#[test]
fn a_slow_target_is_slow_but_does_not_stall() {
    let peer = Peer::start(|_| {
        // tidy: allow-sleep the peer is slow, which is what is measured
        std::thread::sleep(Duration::from_millis(150));
        Manner::Answer(answer(200, "x"))
    });
    let (_, result, _) = measured(&[&peer.url(), "-n", "4", "-c", "1"]);
    assert!(result.latency.raw.p50 >= 0.15 && result.stalls.is_empty(), "{:?}", result.stalls);
}

#[test]
fn a_target_that_closes_mid_body_fails_every_request() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf";
    let peer = Peer::start(|_| Manner::Close(cut.to_owned()));
    let (_, result, text) = measured(&[&peer.url(), "-n", "20", "-c", "2"]);
    assert_eq!(result.requests.ok, 0);
    assert_eq!(result.failures["closed before the answer was complete"], 20, "{text}");
    assert_eq!(peer.served(), 20);
}

#[test]
fn a_500_to_one_in_ten_is_a_failure_and_no_throughput() {
    let peer = Peer::start(|seen| {
        Manner::Answer(answer(if seen.number % 10 == 3 { 500 } else { 200 }, "x"))
    });
    let limits = ["--threshold", "errors<1%", "--threshold", "errors<20%"];
    let url = peer.url();
    let arguments = [&[url.as_str(), "-n", "1000"], &limits[..]].concat();
    let (outcome, result, _) = measured(&arguments);
    assert_eq!((result.requests.ok, result.failures["status 500"]), (900, 100));
    assert_eq!((result.latency.raw.count, result.latency.failed.count), (900, 100));
    assert_eq!(outcome, Outcome::ThresholdFailed);
    assert_eq!(outcome.exit_code(), 1);
    assert_eq!(result.thresholds.iter().map(|one| one.held).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn a_wrong_body_is_a_failure() {
    let peer = Peer::start(|seen| {
        Manner::Answer(answer(200, if seen.number == 7 { "HELLO" } else { "hello" }))
    });
    let (_, result, _) = measured(&[&peer.url(), "-n", "100", "--expect-body", "hello"]);
    assert_eq!((result.requests.ok, result.requests.failed), (99, 1));
    assert_eq!(result.failures["check: body is the expected one"], 1);
}

#[test]
fn a_redirect_is_not_followed_and_said_to_be_one() {
    let redirect = "HTTP/1.1 302 Found\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n";
    let peer = Peer::start(|_| Manner::Answer(redirect.to_owned()));
    let error = bench(&["run", &peer.url(), "-n", "10"]).error();
    assert!(error.contains("status 302 (redirects are not followed)"), "{error}");
    let (_, result, _) = measured(&[&peer.url(), "-n", "10", "--expect-status", "302"]);
    assert_eq!(result.requests.ok, 10);
}

#[test]
fn a_target_that_dies_half_way_is_reported_to_the_end() {
    let peer = Peer::start(|seen| {
        let text = answer(200, "x");
        if seen.number == 30 { Manner::Die(text) } else { Manner::Answer(text) }
    });
    let (outcome, result, text) = measured(&[&peer.url(), "-n", "40", "-c", "2"]);
    assert_eq!(outcome, Outcome::Done);
    assert!(result.requests.ok >= 30 && result.requests.failed > 0, "{text}");
    assert!(result.notes.iter().any(|note| note.contains("refused connections from")), "{text}");
}

#[test]
fn too_few_file_descriptors_are_named_before_the_run() {
    let peer = Peer::good();
    let ran = bench(&["run", &peer.url(), "--connections", "2000000000"]);
    assert_eq!(ran.outcome.as_ref().unwrap_err().kind(), ErrorKind::System);
    let error = ran.error();
    assert!(error.contains("file descriptors") && error.contains("ulimit -n"), "{error}");
}

#[test]
fn an_unreachable_rate_is_said_and_drops_are_counted() {
    let peer = Peer::start(|_| {
        // tidy: allow-sleep the peer is slow, which is what is measured
        std::thread::sleep(Duration::from_millis(20));
        Manner::Answer(answer(200, "x"))
    });
    let cap = ["--in-flight-max", "20", "-c", "1", "-z", "500ms", "--rate", "2000"];
    let (_, result, text) = measured(&[&[peer.url().as_str()], &cap[..]].concat());
    let requests = &result.requests;
    assert_eq!(requests.offered, 1000);
    assert_eq!(requests.ok + requests.dropped, 1000);
    assert_eq!(requests.ok, peer.served());
    assert!(result.notes.iter().any(|note| note.contains("rate was not reached")), "{text}");
    assert!(result.notes.iter().any(|note| note.contains("in-flight cap")), "{text}");
}

#[test]
fn a_malformed_scenario_is_named_by_file_line_and_column() {
    let file = scratch("toml");
    std::fs::write(&file, "[[step]]\npath = \"/{{nope}}\"\n").unwrap();
    let ran = bench(&["run", "http://127.0.0.1:1/", "--scenario", file.to_str().unwrap()]);
    assert_eq!(ran.outcome.as_ref().unwrap_err().kind(), ErrorKind::Usage);
    let error = ran.error();
    assert!(error.contains(".toml:2:8: ") && error.contains("{{nope}}"), "{error}");
}

#[test]
fn a_stop_by_hand_prints_what_was_measured_so_far() {
    let stop = Stop::new();
    let raised = stop.clone();
    let peer = Peer::start(move |seen| {
        if seen.number == 200 {
            raised.raise();
        }
        Manner::Answer(answer(200, "x"))
    });
    let (outcome, result, text) = measured_until(&[&peer.url(), "-z", "600s"], &stop);
    assert_eq!((outcome, outcome.exit_code()), (Outcome::Interrupted, 130));
    assert!(result.interrupted && result.requests.ok >= 200, "{text}");
    assert_eq!(result.requests.ok, peer.served());
    assert!(text.contains("stopped by hand") && text.contains("p99"), "{text}");
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    for (arguments, needle) in [
        (&["run", "ftp://localhost/"][..], "unknown scheme"),
        (&["run", "http://127.0.0.1:1/", "--poisson"], "--poisson needs"),
        (&["run", "http://127.0.0.1:1/", "-c", "0"], "--connections"),
        (&["run", "http://127.0.0.1:1/", "--kind", "bidi"], "--kind applies"),
        (&["run", "http://127.0.0.1:1/", "--find-knee", "speed<1"], "no figure"),
        (&["run", "http://127.0.0.1:1/{{x}}"], "{{x}}"),
        (&["run", "http://127.0.0.1:1/", "-H", "nocolon"], "name: value"),
    ] {
        let error = bench(arguments).error();
        assert!(error.contains(needle), "{error}");
    }
}
