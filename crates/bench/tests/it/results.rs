//! What a run writes, and `compare`.

use tidewire_bench::command::Outcome;
use tidewire_bench::result::RunResult;
use tidewire_loadgen::ErrorKind;
use tidewire_loadgen::{Second, Sparse};

use crate::harness::{Peer, bench, measured, scratch};

#[test]
fn a_run_writes_json_markdown_and_html() {
    let peer = Peer::good();
    let (markdown, html) = (scratch("md"), scratch("html"));
    let files = ["--markdown", markdown.to_str().unwrap(), "--html", html.to_str().unwrap()];
    let (_, result, _) = measured(&[&[peer.url().as_str(), "-n", "100"], &files[..]].concat());
    assert_eq!(result.format, "tidewire-bench/1");
    let sum: u64 = result.latency.raw.histogram.0.iter().map(|(_, count)| count).sum();
    assert_eq!(sum, 100);
    let markdown = std::fs::read_to_string(markdown).unwrap();
    assert!(markdown.contains("| raw | ") && markdown.contains("p99.9"));
    let html = std::fs::read_to_string(html).unwrap();
    assert!(html.contains("uPlot") && html.contains("Latency</h2>"));
}

#[test]
fn the_knee_of_a_target_is_found() {
    let peer = Peer::good();
    let search = ["--find-knee", "errors<50%", "--rate", "50", "--trial", "40ms", "-c", "1"];
    let (_, result, text) = measured(&[&[peer.url().as_str()], &search[..]].concat());
    let knee = result.knee.expect("a search was asked for");
    assert!(!knee.trials.is_empty() && text.contains("knee: "), "{text}");
    assert!(knee.trials.is_sorted_by(|a, b| a.rate < b.rate));
}

fn result_file(rate: u64) -> String {
    let mut result = RunResult { format: "tidewire-bench/1".to_owned(), ..RunResult::default() };
    result.throughput.seconds = 20.0;
    result.throughput.ok_per_second = rate as f64 + 0.95;
    let corrected = &mut result.latency.corrected;
    (corrected.p50, corrected.p90, corrected.p99, corrected.p99_9) = (1e-3, 1e-3, 1e-3, 1e-3);
    for at in 0..20 {
        let ok = rate + at % 3;
        let histogram = Sparse(vec![(1_000_000, ok)]);
        result.timeline.push(Second { at, ok, histogram, ..Second::default() });
    }
    let path = scratch("json");
    std::fs::write(&path, serde_json::to_string(&result).unwrap()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn compare_shows_a_regression_and_sets_the_exit_code() {
    let (fast, slow) = (result_file(1000), result_file(800));
    let markdown = scratch("md");
    let path = markdown.to_str().unwrap();
    let ran = bench(&["compare", &fast, &slow, "--fail-above", "5%", "--markdown", path]);
    let outcome = ran.outcome.unwrap();
    assert_eq!((outcome, outcome.exit_code()), (Outcome::Regressed, 1));
    assert!(ran.text.contains("worse") && ran.text.contains("block bootstrap"), "{}", ran.text);
    assert!(std::fs::read_to_string(markdown).unwrap().contains("| answers per second | "));
    let ran = bench(&["compare", &slow, &fast, "--fail-above", "5%"]);
    assert_eq!(ran.outcome.unwrap(), Outcome::Done);
}

#[test]
fn compare_says_when_no_difference_is_shown() {
    let ran = bench(&["compare", &result_file(1000), &result_file(1000), "--fail-above", "1%"]);
    assert_eq!(ran.outcome.unwrap(), Outcome::Done);
    assert!(ran.text.contains("no difference shown"), "{}", ran.text);
}

#[test]
fn compare_writes_json_in_place_of_the_text_or_into_a_file() {
    let (fast, slow) = (result_file(1000), result_file(800));
    let ran = bench(&["compare", &fast, &slow, "--json", "-"]);
    let document: serde_json::Value = serde_json::from_str(&ran.text).unwrap();
    assert_eq!(document["format"], "tidewire-bench-comparison/1");
    let rate = &document["rows"][0];
    assert_eq!((&rate["name"], &rate["verdict"]), (&"answers per second".into(), &"worse".into()));
    assert!((rate["ratio"]["value"].as_f64().unwrap() - 0.8).abs() < 0.01, "{rate}");
    assert_eq!(document["not_comparable"], serde_json::json!([]));
    let path = scratch("json");
    let ran = bench(&["compare", &fast, &slow, "--json", path.to_str().unwrap()]);
    assert_eq!(document["text"], ran.text, "the text is what is printed");
    let written: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(written, document);
}

#[test]
fn compare_refuses_what_is_no_result() {
    let path = scratch("json");
    std::fs::write(&path, "{}").unwrap();
    let path = path.to_str().unwrap();
    let ran = bench(&["compare", path, path]);
    assert_eq!(ran.outcome.as_ref().unwrap_err().kind(), ErrorKind::Usage);
    assert!(ran.error().contains("not a result"));
}

#[test]
fn for_a_program_progress_is_lines_of_json_and_nothing_else_is_said() {
    let peer = Peer::good();
    let url = peer.url();
    let result = scratch("json");
    let ran = bench(&[
        "run",
        &url,
        "--rate",
        "100",
        "--duration",
        "2s",
        "--events",
        "--json",
        result.to_str().unwrap(),
    ]);
    ran.outcome.unwrap();
    let events: Vec<serde_json::Value> =
        ran.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!events.is_empty(), "{}", ran.text);
    for event in &events {
        assert!(event["ok"].is_u64() && event["failed"] == 0 && event["p99"].is_f64(), "{event}");
    }
    let result: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(result).unwrap()).unwrap();
    assert!(events.last().unwrap()["ok"].as_u64() <= result["requests"]["ok"].as_u64());
}
