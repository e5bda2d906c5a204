//! The server under test as a process: this test program, started again as a server.

use std::io::Write;
use std::net::TcpListener;

use crate::harness::{Peer, bench, closed_port, measured, scratch};

const PORT: &str = "TIDEWIRE_BENCH_PEER_PORT";

/// Not a test of anything: what `server_command` starts.
#[test]
fn peer_process() {
    let Ok(port) = std::env::var(PORT) else { return };
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).unwrap();
    for mut stream in listener.incoming().flatten() {
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while matches!(std::io::Read::read(&mut stream, &mut buffer), Ok(count) if count > 0) {
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                if stream.write_all(answer).is_err() {
                    break;
                }
            }
            // A thread that ends takes the count of its context switches along.
            loop {
                std::thread::park();
            }
        });
    }
}

fn server_command() -> (String, String) {
    let address = closed_port();
    let program = std::env::current_exe().unwrap();
    let port = address.port();
    let command =
        format!("env {PORT}={port} '{}' --exact process::peer_process", program.display());
    (format!("http://{address}/"), command)
}

#[test]
fn a_started_server_is_measured_by_phase_and_stopped() {
    let (url, command) = server_command();
    let load = ["--rate", "300", "-z", "1100ms", "--warm-up", "200ms", "-c", "2"];
    let arguments = [&[url.as_str(), "--server-command", &command], &load[..]].concat();
    let (_, result, text) = measured(&arguments);
    let server = result.server.expect("a server was started");
    let names: Vec<_> = server.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["start", "warm-up", "measured"], "{text}");
    assert!(server.start_seconds.unwrap() > 0.0);
    let measured_phase = &server.phases[2];
    assert!(measured_phase.rss_bytes > 100_000 && measured_phase.pss_bytes.is_some());
    assert!(measured_phase.context_switches_per_request.unwrap() > 0.0);
    assert!(text.contains("after the spawn") && text.contains("server, measured"), "{text}");
    assert!(bench(&["run", &url]).error().contains("connection refused"), "it was stopped");
}

#[test]
fn cold_starts_are_measured_one_by_one() {
    let (url, command) = server_command();
    let (markdown, html) = (scratch("md"), scratch("html"));
    let files = ["--markdown", markdown.to_str().unwrap(), "--html", html.to_str().unwrap()];
    let start = [url.as_str(), "--server-command", &command, "--cold", "3"];
    let (_, result, text) = measured(&[&start[..], &files].concat());
    assert!(text.contains("cold starts: 3 answered, 0 failed"), "{text}");
    let markdown = std::fs::read_to_string(markdown).unwrap();
    for said in [&text, &markdown] {
        for of_load in ["answered/s", " 0/s", "0 s,", "p99", "connections", "generator:"] {
            assert!(!said.contains(of_load), "{of_load} is of load: {said}");
        }
    }
    let html = std::fs::read_to_string(html).unwrap();
    assert!(html.contains("cold start, median</span>"), "{html}");
    assert!(!html.contains("answered per second</span>") && !html.contains(", 0 s</p>"), "{html}");
    let cold = result.cold_start.expect("cold starts");
    assert_eq!((cold.starts.len(), cold.failed), (3, 0), "{text}");
    assert!(cold.first_answer.p50 > 0.0);
}

#[test]
fn a_server_that_ends_before_its_first_answer_is_an_error() {
    let url = format!("http://{}/", closed_port());
    let error = bench(&["run", &url, "--server-command", "false"]).error();
    assert!(error.contains("ended before its first answer"), "{error}");
}

#[test]
fn caps_are_in_force_or_said_not_to_be() {
    let (url, command) = server_command();
    let caps = ["--server-cpus", "0.5", "--server-memory", "256MiB", "-n", "20"];
    let arguments = [&[url.as_str(), "--server-command", &command], &caps[..]].concat();
    let (_, result, text) = measured(&arguments);
    let caps = result.server.and_then(|server| server.caps).expect("caps were asked for");
    assert!(caps.contains("0.5 CPUs") || caps.contains("not applied"), "{text}");
}

#[test]
fn a_server_is_found_by_its_port() {
    let peer = Peer::good();
    let port = peer.address.port().to_string();
    let (_, result, _) = measured(&[&peer.url(), "-n", "100", "--server-port", &port]);
    assert_eq!(result.server.unwrap().pid, std::process::id());
    let nobody = closed_port().port().to_string();
    let ran = bench(&["run", &peer.url(), "--server-port", &nobody]);
    assert!(ran.error().contains("no process"));
}
