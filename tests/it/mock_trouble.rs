//! What goes wrong around a mock: broken files, changes under load, callers that leave, rules
//! without end.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidewire::client::{HttpVersion, Protocol};
use tidewire::mock::{Change, Mock, MockFolders, Watch, serve};
use tidewire::service::{Spec, StreamKind};
use tidewire::{
    Body, Call, Client, Codec, Context, Limits, Method, RunningServer, Server, Service,
};

use crate::harness::{send, start};

const SHOP: &str = r#"syntax = "proto3";
package shop.v1;
service Cart {
  rpc Price(Item) returns (Item);
  rpc Watch(Item) returns (stream Item);
}
message Item { string name = 1; string note = 2; bytes blob = 3; }
"#;

struct Shop {
    folder: tempfile::TempDir,
    folders: MockFolders,
    mock: Mock,
    address: SocketAddr,
    _running: RunningServer,
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

const PRICE: &str = "rules/shop.v1.cart.price.yaml";

async fn shop(files: &[(&str, &str)]) -> Shop {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "protos/shop.proto", SHOP);
    std::fs::create_dir_all(folder.path().join("rules")).unwrap();
    for (name, text) in files {
        write(folder.path(), name, text);
    }
    let folders = MockFolders::new(folder.path().join("protos")).rules(folder.path().join("rules"));
    let (mock, _) = folders.mock(folders.load()).build();
    let mut limits = Limits::default();
    limits.message_bytes_max = 64 << 20;
    let (running, address) = start(serve(Server::builder().limits(limits), &mock)).await;
    Shop { folder, folders, mock, address, _running: running }
}

impl Shop {
    async fn note(&self, name: &str) -> String {
        let head = "POST /shop.v1.Cart/Price\ncontent-type: application/json";
        let reply = send(self.address, head, format!("{{\"name\":\"{name}\"}}").as_bytes()).await;
        let json: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        json["note"].as_str().unwrap_or(&json.to_string()).to_owned()
    }

    fn watch(&self) -> Watch {
        self.folders.watch(&self.mock)
    }

    fn write(&self, name: &str, text: &str) {
        write(self.folder.path(), name, text);
    }
}

fn told(change: &Change) -> String {
    change.findings().map(|finding| finding.to_string()).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_proto_among_good_ones_is_named_and_the_good_ones_are_served() {
    let files = [
        ("protos/broken.proto", "syntax = \"proto3\";\nmessage A {\n  Missing b = 1;\n}\n"),
        ("protos/lost.proto", "syntax = \"proto3\";\nimport \"nowhere.proto\";\n"),
        (
            "protos/twice.proto",
            "syntax = \"proto3\"; package shop.v1; message Item { string a = 1; }",
        ),
        (
            "protos/other.proto",
            "syntax = \"proto3\"; package other.v1; service S { rpc M(N) returns (N); } message N {}",
        ),
    ];
    let shop = shop(&files).await;
    let faults: Vec<_> = shop.folders.load().faults.iter().map(ToString::to_string).collect();
    let all = faults.join("\n");
    assert!(all.contains("broken.proto:3:3"), "{all}");
    assert!(all.contains("lost.proto:2") && all.contains("nowhere.proto"), "{all}");
    let services: Vec<_> = shop.mock.schema().services().map(str::to_owned).collect();
    assert!(
        services.contains(&"shop.v1.Cart".to_owned())
            && services.contains(&"other.v1.S".to_owned()),
        "{services:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_live_and_a_broken_one_leaves_the_old_rules() {
    let shop = shop(&[(PRICE, "responses: [{body: {note: one}}]")]).await;
    let mut watch = shop.watch();
    assert_eq!(shop.note("a").await, "one");
    shop.write(PRICE, "responses: [{body: {note: second}}]");
    assert_eq!(watch.next().await.reloaded.changed, ["/shop.v1.Cart/Price"]);
    assert_eq!(shop.note("a").await, "second");
    shop.write(PRICE, "responses: [{body: {note: thi");
    let change = watch.next().await;
    assert!(change.reloaded.changed.is_empty() && change.reloaded.kept[0].ends_with("price.yaml"));
    assert!(told(&change).contains("price.yaml:2:1"), "{}", told(&change));
    assert_eq!(shop.note("a").await, "second", "a file that an editor has half written");
    shop.write(PRICE, "responses: [{body: {note: third}}]");
    watch.next().await;
    assert_eq!(shop.note("a").await, "third");
    // A proto that breaks leaves the schema and the rules.
    shop.write("protos/shop.proto", &SHOP.replace("string note", "strng note"));
    let change = watch.next().await;
    assert!(told(&change).contains("shop.proto:7:"), "{}", told(&change));
    assert_eq!(shop.note("a").await, "third");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_goes_away_leaves_what_was_read_and_may_come_back() {
    let shop = shop(&[(PRICE, "responses: [{body: {note: one}}]")]).await;
    let mut watch = shop.watch();
    let (rules, away) = (shop.folder.path().join("rules"), shop.folder.path().join("away"));
    std::fs::rename(&rules, &away).unwrap();
    let change = watch.next().await;
    assert!(told(&change).contains("the folder cannot be read"), "{}", told(&change));
    assert_eq!(shop.note("a").await, "one");
    write(&away, "shop.v1.cart.price.yaml", "responses: [{body: {note: back}}]");
    std::fs::rename(&away, &rules).unwrap();
    watch.next().await;
    assert_eq!(shop.note("a").await, "back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_reloads_under_load_fail_no_call() {
    let shop = Arc::new(shop(&[(PRICE, "responses: [{body: {note: n0}}]")]).await);
    let done = Arc::new(AtomicBool::new(false));
    let calls = Arc::new(AtomicU64::new(0));
    let mut callers = Vec::new();
    for protocol in [Protocol::Connect, Protocol::Grpc] {
        let client = Client::builder(format!("http://{}", shop.address))
            .protocol(protocol)
            .http(HttpVersion::Http2)
            .build()
            .unwrap();
        let (done, calls) = (Arc::clone(&done), Arc::clone(&calls));
        callers.push(tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                let call = Call::method(price(), Context::default(), Codec::Json, "{}");
                let reply = client.call(call).await.expect("no call fails");
                let body = reply.body.collect(1 << 20).await.unwrap();
                assert!(body.starts_with(b"{\"note\":\"n"), "{body:?}");
                calls.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    for number in 1..=1000 {
        shop.write(PRICE, &format!("responses: [{{body: {{note: n{number}}}}}]"));
        let loaded = shop.folders.load();
        let reloaded = shop.mock.reload(loaded.schema, &loaded.rules);
        assert_eq!(reloaded.changed, ["/shop.v1.Cart/Price"]);
    }
    done.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.unwrap();
    }
    assert!(calls.load(Ordering::Relaxed) > 100, "there was load");
    assert_eq!(shop.note("a").await, "n1000");
}

fn price() -> Method {
    Arc::new(Spec::dynamic("shop.v1.Cart", "Price", StreamKind::Unary, ["", ""])).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_rules_answer() {
    let rules: String = (0..100_000)
        .map(|n| format!("- {{when: {{request.name: n{n}}}, body: {{note: r{n}}}}}\n"))
        .collect();
    let shop = shop(&[(PRICE, &rules)]).await;
    for name in ["n0", "n77777", "n99999"] {
        assert_eq!(shop.note(name).await, name.replace('n', "r"));
    }
    assert_eq!(shop.note("other").await, "{}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_with_a_body_of_50_mib_answers() {
    let body = format!("responses: [{{body: {{note: '{}'}}}}]", "x".repeat(50 << 20));
    let shop = shop(&[(PRICE, &body)]).await;
    let head = "POST /shop.v1.Cart/Price\ncontent-type: application/proto";
    assert_eq!(send(shop.address, head, b"").await.body.len(), (50 << 20) + 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_file_over_its_bound_is_named_and_the_others_answer() {
    let shop = shop(&[(PRICE, "responses: [{body: {note: one}}]")]).await;
    shop.write("rules/shop.v1.cart.watch.yaml", &"#".repeat((64 << 20) + 1));
    let loaded = shop.folders.load();
    let found = loaded.rules.check(&loaded.schema);
    let told = found.iter().map(ToString::to_string).collect::<String>();
    assert!(told.contains("watch.yaml: the file is 64 MiB, over 64 MiB"), "{told}");
    shop.mock.reload(loaded.schema, &loaded.rules);
    assert_eq!(shop.note("a").await, "one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pattern_that_explodes_delays_nobody_for_long() {
    let rules = "- {when: {request.name: {regex: '^(a+)+\\1$'}}, body: {note: hit}}\n- {body: {note: miss}}\n";
    let shop = shop(&[(PRICE, rules)]).await;
    let evil = "a".repeat(5_000) + "b";
    assert_eq!(shop.note(&evil).await, "miss");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_stream_ends_with_its_reader() {
    let rules = "- {stream_items: [{note: tick}], stream_loop: true, stream_delay_ms: 1}";
    let shop = shop(&[("rules/shop.v1.cart.watch.yaml", rules)]).await;
    // What plays a stream is dropped with it; the mock keeps no task of its own.
    let service = shop.mock.clone();
    let method: Method = Arc::new(Spec::dynamic(
        "shop.v1.Cart",
        "Watch",
        StreamKind::Server,
        ["shop.v1.Item", "shop.v1.Item"],
    ))
    .into();
    let reply = service
        .call(Call::method(method.clone(), Context::default(), Codec::Json, "{}"))
        .await
        .unwrap();
    let Body::Stream(mut frames) = reply.body else { panic!("it is a stream") };
    for _ in 0..3 {
        futures_util::StreamExt::next(&mut frames).await.unwrap().unwrap();
    }
    drop(frames);
    // Over a socket: a hundred callers read one message each and leave; the server goes on.
    let client = Client::builder(format!("http://{}", shop.address))
        .protocol(Protocol::Grpc)
        .http(HttpVersion::Http2)
        .build()
        .unwrap();
    for _ in 0..100 {
        let call = Call::method(method.clone(), Context::default(), Codec::Json, "{}");
        let reply = client.call(call).await.unwrap();
        let Body::Stream(mut frames) = reply.body else { panic!("it is a stream") };
        futures_util::StreamExt::next(&mut frames).await.unwrap().unwrap();
    }
    assert!(shop.note("a").await.len() > 1, "it answers");
}
