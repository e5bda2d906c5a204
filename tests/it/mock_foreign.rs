//! A mock as clients in other languages see it: the behaviour service, played by rules.

use std::net::SocketAddr;

use tidewire::mock::{MockFolders, serve};
use tidewire::{RunningServer, Server};
use tidewire_tests::program::{root, run, tool};

use crate::foreign::check_cases;
use crate::harness::start;

async fn mocked() -> (RunningServer, SocketAddr) {
    let rules = root().join("tests/fixtures/mock/behaviour");
    let folders = MockFolders::new(root().join("tests/proto")).rules(rules);
    let (mock, findings) = folders.mock(folders.load()).build();
    assert!(findings.is_empty(), "{findings:?}");
    start(serve(Server::builder(), &mock)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_go_and_grpc_go_see_every_behaviour_of_a_mock() {
    let (_running, address) = mocked().await;
    let output = run(tool("foreign-go-client"), &[&address.to_string()]).await;
    check_cases(&String::from_utf8_lossy(&output.stdout), 300);
    assert!(output.status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_es_sees_every_behaviour_of_a_mock() {
    let (_running, address) = mocked().await;
    let client = root().join("tests/foreign/node/client.js");
    let output = run("node", &[client.to_str().unwrap(), &address.to_string()]).await;
    check_cases(&String::from_utf8_lossy(&output.stdout), 200);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn grpcio_sees_every_behaviour_of_a_mock() {
    let (_running, address) = mocked().await;
    let client = root().join("tests/foreign/python/client.py");
    let python = root().join(".tools/foreign-python/bin/python");
    let output = run(python, &[client.to_str().unwrap(), &address.to_string()]).await;
    check_cases(&String::from_utf8_lossy(&output.stdout), 40);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
