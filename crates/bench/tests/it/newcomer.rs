//! What somebody trips over who comes from hey, wrk or curl.

use std::sync::{Arc, Mutex};

use tidewire_bench::command::Outcome;
use tidewire_bench::result::RunResult;
use tidewire_loadgen::{ErrorKind, Second, Sparse};

use crate::harness::{Manner, Peer, answer, bench, closed_port, measured, scratch};

#[test]
fn a_latency_bound_without_a_unit_is_refused_before_a_request_is_sent() {
    let peer = Peer::good();
    let error = bench(&["run", &peer.url(), "--find-knee", "p99<10"]).error();
    assert!(error.contains("needs a unit; write 10ms or 10s"), "{error}");
    assert_eq!(peer.accepted.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[test]
fn a_run_in_which_everything_failed_is_no_success_and_has_no_cost_a_request() {
    let peer = Peer::start(|_| Manner::Answer(answer(500, "")));
    let own = std::process::id().to_string();
    let (outcome, result, text) = measured(&[&peer.url(), "-n", "20", "--server-pid", &own]);
    assert_eq!((outcome, outcome.exit_code()), (Outcome::NothingAnswered, 1));
    assert_eq!(result.failures["status 500"], 20);
    let phases = &result.server.as_ref().unwrap().phases;
    assert!(phases.iter().all(|phase| phase.cpu_seconds_per_request.is_none()), "{text}");
    assert!(!text.contains("per request"), "{text}");
}

#[test]
fn the_first_answer_that_says_the_request_is_wrong_ends_the_run() {
    let peer = Peer::start(|_| Manner::Answer(answer(404, "")));
    let ran = bench(&["run", &peer.url(), "-z", "600s", "-c", "2", "--threads", "2"]);
    assert_eq!(ran.outcome.as_ref().unwrap_err().kind(), ErrorKind::Refused);
    let error = ran.error();
    assert!(error.contains("status 404") && error.contains("tidewire call"), "{error}");
    assert!(peer.served() <= 8, "{} requests were sent", peer.served());
}

#[test]
fn a_method_that_streams_and_is_called_without_says_which_flag_does_it() {
    let peer = Peer::start(|_| Manner::Answer(answer(415, "")));
    let wrong = |extra: &[&str]| {
        let url = peer.url();
        let call = ["run", &url, "-z", "600s", "--protocol", "connect", "--body", "{}"];
        bench(&[&call[..], extra].concat()).error()
    };
    let error = wrong(&[]);
    assert!(error.contains("status 415: if the method streams, give --kind server"), "{error}");
    let error = wrong(&["--kind", "bidi"]);
    assert!(error.contains("status 415: if the method does not stream"), "{error}");
}

#[test]
fn codes_of_calls_are_refused_for_plain_http() {
    let url = "http://127.0.0.1:1/";
    let error = bench(&["run", url, "--expect-status", "not_found"]).error();
    assert!(error.contains("--protocol connect") && error.contains("404"), "{error}");
}

#[test]
fn what_is_wrong_in_one_request_of_many_or_accepted_does_not_end_the_run() {
    let peer = Peer::start(|_| Manner::Answer(answer(404, "")));
    let each = format!("{}{{{{seq}}}}", peer.url());
    let (_, result, _) = measured(&[&each, "-n", "30"]);
    assert_eq!(result.failures["status 404"], 30);
    let (outcome, result, _) = measured(&[&peer.url(), "-n", "30", "--expect-status", "404"]);
    assert_eq!((outcome, result.requests.ok), (Outcome::Done, 30));
    let once =
        Peer::start(|seen| Manner::Answer(answer(if seen.number == 0 { 200 } else { 404 }, "")));
    let (_, result, _) = measured(&[&once.url(), "-n", "30", "-c", "1"]);
    assert_eq!((result.requests.ok, result.requests.failed), (1, 29));
}

#[test]
fn a_path_that_cannot_be_written_is_found_before_a_request_is_sent() {
    let peer = Peer::good();
    for option in ["--json", "--markdown", "--html"] {
        let path = scratch("missing").join("out");
        let ran = bench(&["run", &peer.url(), "-n", "5", option, path.to_str().unwrap()]);
        let error = ran.error();
        assert!(error.contains("missing") && error.contains("cannot be written"), "{error}");
    }
    assert_eq!(peer.served(), 0);
}

#[test]
fn a_run_that_fails_leaves_earlier_results_and_no_empty_ones() {
    let (kept, fresh) = (scratch("json"), scratch("md"));
    std::fs::write(&kept, "yesterday's").unwrap();
    let url = format!("http://{}/", closed_port());
    let files = ["--json", kept.to_str().unwrap(), "--markdown", fresh.to_str().unwrap()];
    bench(&[&["run", &url][..], &files].concat()).error();
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "yesterday's");
    assert!(!fresh.exists());
}

#[test]
fn flags_of_hey_and_curl_mean_what_they_mean_there() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let peer = Peer::start(move |request| {
        let line = request.head.lines().next().unwrap_or_default().to_owned();
        told.lock().unwrap().push((line, request.body.clone()));
        Manner::Answer(answer(200, ""))
    });
    let hey = ["-z", "200ms", "-q", "50", "-c", "2", "-m", "PUT", "-d", "x", "-t", "5"];
    let (_, result, _) = measured(&[&[peer.url().as_str()], &hey[..]].concat());
    assert_eq!(result.requests.offered, 20, "50 a second of each of 2 connections");
    let curl = ["-n", "1", "-X", "PATCH", "--data", "y", "-H", "a: b", "-k"];
    measured(&[&[peer.url().as_str()], &curl[..]].concat());
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0], ("PUT / HTTP/1.1".to_owned(), "x".to_owned()));
    assert_eq!(seen[20], ("PATCH / HTTP/1.1".to_owned(), "y".to_owned()));
}

/// The file of a run of 20 or 2 seconds.
fn result_of(target: &str, seconds: u64, rate: u64) -> String {
    let mut result = RunResult { format: "tidewire-bench/1".to_owned(), ..RunResult::default() };
    result.load.target = target.to_owned();
    result.throughput.seconds = seconds as f64;
    result.throughput.ok_per_second = rate as f64 + 0.5;
    let corrected = &mut result.latency.corrected;
    (corrected.p50, corrected.p90, corrected.p99, corrected.p99_9) = (1e-3, 1e-3, 1e-3, 1e-3);
    for at in 0..seconds {
        let histogram = Sparse(vec![(1_000_000, rate)]);
        result.timeline.push(Second { at, ok: rate + at % 2, histogram, ..Second::default() });
    }
    let path = scratch("json");
    std::fs::write(&path, serde_json::to_string(&result).unwrap()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn compare_that_could_compare_nothing_is_no_success() {
    let short = result_of("http://a/", 2, 100);
    let ran = bench(&["compare", &short, &short, "--fail-above", "5%"]);
    let outcome = ran.outcome.unwrap();
    assert_eq!((outcome, outcome.exit_code()), (Outcome::NothingCompared, 1));
    assert!(ran.text.contains("nothing could be compared"), "{}", ran.text);
}

#[test]
fn compare_names_two_targets_and_the_figures_of_the_summaries() {
    let (one, other) = (result_of("http://a/x", 20, 1000), result_of("http://a/y", 20, 1000));
    let ran = bench(&["compare", &one, &other]);
    let note = "note: the targets differ: http://a/x and http://a/y";
    assert!(ran.text.contains(note), "{}", ran.text);
    assert!(ran.text.contains("1,000"), "{}", ran.text);
    let same = bench(&["compare", &one, &one]);
    assert!(!same.text.contains("note:"), "{}", same.text);
}

#[test]
fn compare_writes_one_page_with_both_sides() {
    let (one, other) = (result_of("http://a/<x>", 20, 1000), result_of("http://a/y", 20, 700));
    let html = scratch("html");
    let ran = bench(&["compare", &one, &other, "--html", html.to_str().unwrap()]);
    assert_eq!(ran.outcome.unwrap(), Outcome::Done);
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.contains("http://a/&lt;x&gt;") && page.contains("answers per second"));
    assert!(page.contains("class=\"worse\"") && page.contains("targets differ"));
    assert!(!page.contains("@DATA@") && !page.contains("src=\"http"));
}
