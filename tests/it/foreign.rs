//! The behaviour service as clients in other languages see it, over every protocol.

use crate::harness::{behaviour, start};
use tidewire_tests::program::{root, run, succeed, tool};

/// Asserts that a client printed only `ok`, and at least `cases_min` of them.
#[track_caller]
pub(crate) fn check_cases(output: &str, cases_min: usize) {
    let failed: Vec<_> = output.lines().filter(|line| !line.starts_with("ok ")).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(output.lines().count() >= cases_min, "only these cases ran:\n{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_go_and_grpc_go_see_every_behaviour() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    let output = run(tool("foreign-go-client"), &[&address.to_string()]).await;
    check_cases(&String::from_utf8_lossy(&output.stdout), 40);
    assert!(output.status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_es_sees_every_behaviour() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    let client = root().join("tests/foreign/node/client.js");
    let output = run("node", &[client.to_str().unwrap(), &address.to_string()]).await;
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    check_cases(&stdout, 40);
    assert!(output.status.success(), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn grpcurl_finds_and_calls_services_by_reflection() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    let address = address.to_string();
    let grpcurl = |arguments: &[&str]| {
        let arguments: Vec<String> =
            ["-plaintext"].iter().chain(arguments).map(ToString::to_string).collect();
        async move {
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            succeed(tool("grpcurl"), &arguments).await
        }
    };
    let services = grpcurl(&[&address, "list"]).await;
    for name in [
        "tidewire.test.v1.BehaviourService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ] {
        assert!(services.lines().any(|line| line == name), "{name} is not in {services}");
    }
    let described = grpcurl(&[&address, "describe", "tidewire.test.v1.EchoRequest"]).await;
    assert!(described.contains("map<string, int32> counts = 7;"), "{described}");
    let reply =
        grpcurl(&["-d", r#"{"n":2}"#, &address, "tidewire.test.v1.BehaviourService/Count"]).await;
    assert_eq!(reply.split_whitespace().collect::<String>(), r#"{"number":1}{"number":2}"#);
    let count = "tidewire.test.v1.BehaviourService/Count";
    let reply = grpcurl(&["-v", "-d", r#"{"n":2}"#, &address, count]).await;
    let (_, trailers) = reply.split_once("Response trailers received:").unwrap();
    assert!(trailers.contains("x-counted: 2"), "{reply}");
    let health = grpcurl(&[&address, "grpc.health.v1.Health/Check"]).await;
    assert!(health.contains("SERVING"), "{health}");
    let asked = r#"{"service":"tidewire.test.v1.BehaviourService"}"#;
    let health = grpcurl(&["-d", asked, &address, "grpc.health.v1.Health/Check"]).await;
    assert!(health.contains("SERVING"), "{health}");
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_speaks_connect_over_tcp_and_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("server.sock");
    let (builder, _) = behaviour();
    let (running, address) = start(builder.listen(tidewire::Address::Unix(socket.clone()))).await;
    let path = "/tidewire.test.v1.BehaviourService/Look";
    let json = ["-sS", "-H", "content-type: application/json", "-d", r#"{"key":"a"}"#];

    let url = format!("http://{address}{path}");
    let post = [&json[..], &[&url]].concat();
    assert_eq!(succeed("curl", &post).await, r#"{"value":"value of a"}"#);

    let get = format!("{url}?connect=v1&encoding=json&message=%7B%22key%22%3A%22b%22%7D");
    assert_eq!(succeed("curl", &["-sS", &get]).await, r#"{"value":"value of b"}"#);

    let http2 = [&json[..], &["--http2-prior-knowledge", &url]].concat();
    assert_eq!(succeed("curl", &http2).await, r#"{"value":"value of a"}"#);

    let zipped = [&json[..], &["--compressed", &url]].concat();
    assert_eq!(succeed("curl", &zipped).await, r#"{"value":"value of a"}"#);

    let local = format!("http://localhost{path}");
    let over_socket = ["--unix-socket", socket.to_str().unwrap()];
    let unix = [&json[..], &over_socket, &[&local]].concat();
    assert_eq!(succeed("curl", &unix).await, r#"{"value":"value of a"}"#);

    assert!(running.drain().await);
    assert!(!socket.exists(), "a drained server removes its socket file");
}
