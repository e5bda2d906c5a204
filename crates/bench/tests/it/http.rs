//! HTTP/1.1 in its variants, scenarios, feeders, checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidewire_bench::command::Outcome;

use crate::harness::{Manner, Peer, answer, measured, measured_until, scratch, serve};

#[test]
fn counts_equal_the_servers_own_in_the_closed_model() {
    let peer = Peer::good();
    let (outcome, result, text) = measured(&[&peer.url(), "-n", "2000", "--connections", "4"]);
    assert_eq!(outcome, Outcome::Done, "{text}");
    assert_eq!((result.requests.ok, peer.served()), (2000, 2000));
    assert_eq!(result.latency.raw.count, 2000);
    assert_eq!(result.timeline.iter().map(|row| row.ok).sum::<u64>(), 2000);
    assert_eq!(peer.accepted.load(Ordering::SeqCst), 5, "four and the first look");
}

#[test]
fn a_number_of_requests_is_the_end_also_of_a_load_at_a_rate() {
    let peer = Peer::good();
    let (_, result, text) = measured(&[&peer.url(), "-n", "50", "-c", "2"]);
    assert_eq!(result.load.duration, result.throughput.seconds, "no time was asked for: {text}");
    let (_, result, text) = measured(&[&peer.url(), "-n", "50", "-c", "2", "-z", "10m"]);
    assert_eq!((result.requests.ok, result.load.duration), (50, 600.0), "{text}");
    let random = [&peer.url(), "-n", "40", "--rate", "200", "--poisson", "-c", "2"];
    let (_, result, text) = measured(&random);
    assert_eq!((result.requests.ok, result.load.duration), (40, 0.2), "{text}");
    // What takes longer than the 10 s that a load lasts by itself.
    let stop = tidewire_loadgen::Stop::new();
    let raised = stop.clone();
    let peer = Peer::start(move |_| {
        raised.raise();
        Manner::Answer(answer(200, "x"))
    });
    let slow = [&peer.url(), "--rate-per-connection", "0.5", "-c", "25", "-n", "150"];
    let (_, result, _) = measured_until(&slow, &stop);
    assert_eq!((result.load.duration, result.interrupted), (12.0, true));
}

#[test]
fn counts_equal_the_servers_own_in_the_open_model_with_warm_up() {
    let peer = Peer::good();
    let (_, result, _) =
        measured(&[&peer.url(), "--rate", "500", "--duration", "1s", "--warm-up", "200ms"]);
    assert_eq!((result.requests.offered, result.requests.ok), (500, 500));
    assert_eq!(result.requests.warm_up_sent, 100);
    assert_eq!(peer.served(), 600);
    assert_eq!(result.latency.correction, "intended-start");
    assert!(result.latency.corrected.p99 >= result.latency.raw.p99);
}

#[test]
fn a_time_bound_closed_run_loses_no_request() {
    let peer = Peer::good();
    let (_, result, _) = measured(&[&peer.url(), "--duration", "300ms", "--threads", "2"]);
    assert_eq!(result.requests.ok, peer.served());
    assert!(result.requests.ok > 0 && result.failures.is_empty());
}

#[test]
fn pipelined_requests_are_all_answered() {
    let peer = Peer::good();
    let (_, result, _) = measured(&[&peer.url(), "-n", "3000", "--depth", "16", "-c", "2"]);
    assert_eq!((result.requests.ok, peer.served()), (3000, 3000));
}

#[test]
fn every_request_can_have_a_connection_of_its_own() {
    let peer = Peer::start(|seen| {
        assert!(seen.head.contains("connection: close"));
        Manner::Close(answer(200, "x"))
    });
    let (_, result, _) = measured(&[&peer.url(), "-n", "200", "-c", "3", "--new-connections"]);
    assert_eq!((result.requests.ok, result.requests.failed), (200, 0));
    assert_eq!(result.latency.connect.count, 200);
    assert_eq!(peer.accepted.load(Ordering::SeqCst), 201);
}

#[test]
fn a_unix_socket_is_a_target() {
    let path = scratch("sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let zero = AtomicU64::new(0);
                serve(stream, &zero, &AtomicU64::new(0), &|_: &_| Manner::Answer(answer(200, "x")));
            });
        }
    });
    let (_, result, _) =
        measured(&["http://app/x", "--unix", path.to_str().unwrap(), "-n", "300", "-c", "2"]);
    assert_eq!(result.requests.ok, 300);
}

#[test]
fn an_answer_until_the_end_of_the_connection_counts() {
    let peer = Peer::start(|_| Manner::Close("HTTP/1.1 200 OK\r\n\r\nall of it".to_owned()));
    let arguments = ["-n", "20", "-c", "2", "--expect-body", "all of it"];
    let (_, result, _) = measured(&[&[peer.url().as_str()], &arguments[..]].concat());
    assert_eq!((result.requests.ok, result.requests.failed), (20, 0), "{:?}", result.failures);
}

#[test]
fn feeder_rows_and_templates_reach_the_target() {
    let file = scratch("csv");
    std::fs::write(&file, "word\nalpha\nbeta\ngamma\n").unwrap();
    let peer = Peer::start(|seen| {
        let path = seen.head.split(' ').nth(1).unwrap();
        Manner::Answer(answer(200, path.rsplit('/').next().unwrap()))
    });
    let url = format!("http://{}/echo/{{{{word}}}}", peer.address);
    let feeder = file.to_str().unwrap();
    let (_, result, _) =
        measured(&[&url, "-n", "30", "--feeder", feeder, "--expect-body", "{{word}}"]);
    assert_eq!((result.requests.ok, result.requests.failed), (30, 0), "{:?}", result.failures);
}

#[test]
fn a_scenario_creates_gets_and_deletes() {
    let next = Arc::new(AtomicU64::new(100));
    let peer = Peer::start(move |seen| {
        let line = seen.head.lines().next().unwrap();
        match line.split(' ').next().unwrap() {
            "POST" => {
                let id = next.fetch_add(1, Ordering::SeqCst);
                assert_eq!(seen.body, r#"{"firstName":"Ada"}"#);
                Manner::Answer(answer(201, &format!(r#"{{"id":{id},"firstName":"Ada"}}"#)))
            }
            "GET" => {
                let id = line.split(['/', ' ']).nth(3).unwrap().to_owned();
                Manner::Answer(answer(200, &format!(r#"{{"id":{id}}}"#)))
            }
            _ => Manner::Answer("HTTP/1.1 204 No Content\r\n\r\n".to_owned()),
        }
    });
    let file = scratch("toml");
    let scenario = r#"
        [[step]]
        name = "create"
        path = "/contacts"
        body = '{"firstName":"Ada"}'
        expect = { status = [201], body_contains = ['"id":'] }
        extract = { id = "$.id" }
        [[step]]
        name = "get"
        path = "/contacts/{{id}}"
        expect = { body_contains = ['"id":{{id}}'] }
        [[step]]
        name = "delete"
        method = "DELETE"
        path = "/contacts/{{id}}"
        expect = { status = [204] }
    "#;
    std::fs::write(&file, scenario).unwrap();
    let file = file.to_str().unwrap();
    let (_, result, text) = measured(&[&peer.url(), "-n", "50", "--scenario", file, "-c", "2"]);
    assert!(result.failures.is_empty(), "{text}");
    let steps: Vec<_> = result.steps.iter().map(|step| (step.name.as_str(), step.ok)).collect();
    assert_eq!(steps, [("create", 50), ("get", 50), ("delete", 50)]);
    assert_eq!((result.requests.ok, peer.served()), (150, 150));
}
