//! Peers of other makes: a WebSocket library, over HTTP/2 too, and an implementation in Python.

use tidewire_tests::program::{root, run};

use crate::harness::{behaviour, start};

/// Asserts that a program printed so many cases, all of them `ok`.
async fn check(program: &str, script: &str, cases: usize) {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    let script = root().join(script);
    let output = run(program, &[script.to_str().unwrap(), &address.to_string()]).await;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(stdout.lines().all(|line| line.starts_with("ok ")), "{stdout}");
    assert_eq!(stdout.lines().count(), cases, "{stdout}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_of_another_library_carries_frames() {
    check("node", "tests/foreign/node/live.js", 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_http2_carry_frames_and_their_neighbours_go_on() {
    check("node", "tests/foreign/node/live_http2.js", 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_peer_calls_over_a_cut_and_streams_both_ways() {
    check("python3", "tests/live_py/peer.py", 6).await;
}
