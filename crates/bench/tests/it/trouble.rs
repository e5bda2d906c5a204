//! What goes wrong while a suite runs: peers that die, a person who stops it, a disk that is full.

use std::path::{Path, PathBuf};
use std::process::Command;

use tidewire_bench::View;
use tidewire_bench::command::Outcome;
use tidewire_loadgen::Stop;

use crate::harness::{Ran, bench_seen_in, scratch};
use crate::suite::{good, peers};

/// One case of the suite `web`.
fn suite(view: View, seconds: &str, peers: &Path, out: &Path, stop: &Stop) -> Ran {
    let (from, to) = (peers.to_str().unwrap(), out.to_str().unwrap());
    let run = ["suite", "web", "-z", seconds, "--rounds", "1", "--only", "text, method, 8"];
    bench_seen_in(view, &[&run[..], &["--peers", from, "--out", to]].concat(), stop)
}

fn talking(address: &str, then: &str) -> String {
    format!("echo {address}; exec {then}")
}

#[test]
fn a_peer_that_dies_while_it_is_measured_has_a_row_that_says_so_and_the_suite_goes_on() {
    let server = good();
    let address = server.address.to_string();
    let folder = peers(&[
        ("tidewire", &talking(&address, "sleep 600")),
        ("dying", &talking(&address, "sleep 0.2")),
        ("after it", &talking(&address, "sleep 600")),
    ]);
    let out = scratch("suite");
    let ran = suite(View::Plain, "1s", &folder, &out, &Stop::new());
    assert_eq!(ran.outcome.unwrap(), Outcome::Done, "{}", ran.text);
    let text = std::fs::read_to_string(out.join("web.md")).unwrap();
    assert!(text.contains("| dying | ended by itself (exit status: 0) after "), "{text}");
    assert!(text.contains("| after it | "), "{text}");
    assert!(!text.contains("| after it | ended"), "{text}");
}

#[test]
fn a_peer_that_is_waited_for_is_ended_with_its_children_when_somebody_stops_the_suite() {
    let folder = peers(&[("tidewire", "sleep 600 & echo $$ > started; wait")]);
    let started = folder.join("started");
    assert!(Command::new("mkfifo").arg(&started).status().unwrap().success());
    let stop = Stop::new();
    let raised = stop.clone();
    let stopping = std::thread::spawn(move || {
        let group: i32 = std::fs::read_to_string(started).unwrap().trim().parse().unwrap();
        raised.raise();
        group
    });
    let ran = suite(View::Plain, "1s", &folder, &scratch("suite"), &stop);
    assert_eq!(ran.outcome.unwrap(), Outcome::Interrupted, "{}", ran.text);
    let group = stopping.join().unwrap().to_string();
    let processes = Command::new("ps").args(["-eo", "pgid=,stat=,args="]).output().unwrap().stdout;
    let processes = String::from_utf8(processes).unwrap();
    assert!(processes.contains("ps -eo"), "{processes}");
    // Z: nobody has asked yet how it ended.
    let lives = |line: &&str| {
        let mut fields = line.split_whitespace();
        fields.next() == Some(&group) && !fields.next().unwrap_or_default().starts_with('Z')
    };
    assert_eq!(processes.lines().find(lives), None);
}

#[test]
fn what_was_measured_is_printed_when_the_disk_is_full_and_earlier_results_stay() {
    let server = good();
    let folder = peers(&[("tidewire", &talking(&server.address.to_string(), "sleep 600"))]);
    let out: PathBuf = scratch("suite");
    std::fs::create_dir_all(&out).unwrap();
    std::fs::write(out.join("web.json"), "earlier").unwrap();
    std::os::unix::fs::symlink("/dev/full", out.join(".web.json.new")).unwrap();
    let ran = suite(View::Plain, "400ms", &folder, &out, &Stop::new());
    assert!(ran.text.contains("## text, method, 8 connections"), "{}", ran.text);
    let error = ran.outcome.unwrap_err().to_string();
    assert!(error.contains("web.json cannot be written: No space left on device"), "{error}");
    assert_eq!(std::fs::read_to_string(out.join("web.json")).unwrap(), "earlier");
    assert!(!out.join(".web.json.new").exists(), "no half of a result is left");
}

#[test]
fn a_terminal_shows_how_far_a_suite_and_its_measurement_are() {
    let server = good();
    let folder = peers(&[
        ("tidewire", &talking(&server.address.to_string(), "sleep 600")),
        ("other", &talking(&server.address.to_string(), "sleep 600")),
    ]);
    let ran = suite(View::Terminal, "2s", &folder, &scratch("suite"), &Stop::new());
    let lines: Vec<&str> = ran.text.split("\r\x1b[K").collect();
    let shows = |parts: &[&str]| lines.iter().any(|line| parts.iter().all(|it| line.contains(it)));
    assert!(
        shows(&["[>", "] 1 of 2  text, method, 8 connections · tidewire  starts"]),
        "{lines:?}"
    );
    let second = ["[==========>", "] 2 of 2, ", " left", "· other", " s of 2", "/s   p50"];
    assert!(shows(&second), "{lines:?}");
}
