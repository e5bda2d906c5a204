//! The behaviour service behind a proxy that knows nothing of it, as clients in other languages see
//! it: gRPC passes unchanged.

use std::net::SocketAddr;

use tidewire::{RunningServer, Server};
use tidewire_proxy::{Route, Routes, Upstream, UpstreamSettings};
use tidewire_tests::program::{root, run, tool};

use crate::foreign::check_cases;
use crate::harness::{behaviour, start};

/// The service, and a proxy before it.
async fn proxied() -> ([RunningServer; 2], SocketAddr) {
    let (builder, _) = behaviour();
    let (service, address) = start(builder).await;
    let settings = UpstreamSettings::new("behaviour", [format!("h2c://{address}")]);
    let mut routes = Routes::new();
    let upstream = Upstream::new(settings, |client| client).unwrap();
    routes.add(Route::new("/*").unwrap(), upstream).unwrap();
    let (proxy, address) = start(Server::builder().mount("/", routes)).await;
    ([service, proxy], address)
}

#[tokio::test(flavor = "multi_thread")]
async fn grpcio_sees_every_behaviour_through_a_proxy() {
    let (_running, address) = proxied().await;
    let client = root().join("tests/foreign/python/client.py");
    let python = root().join(".tools/foreign-python/bin/python");
    let output = run(python, &[client.to_str().unwrap(), &address.to_string()]).await;
    check_cases(&String::from_utf8_lossy(&output.stdout), 40);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_go_and_connect_go_see_every_behaviour_through_a_proxy() {
    let (_running, address) = proxied().await;
    let output = run(tool("foreign-go-client"), &[&address.to_string()]).await;
    check_cases(&String::from_utf8_lossy(&output.stdout), 40);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
