//! Changes of a mock over sockets: who watches an answer hears of them, and methods and services
//! come and go.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidewire::client::{HttpVersion, Protocol};
use tidewire::mock::{Mock, MockFolders, Watch, serve};
use tidewire::service::{Idempotency, Spec, StreamKind};
use tidewire::{Call, Client, Code, Codec, Context, Error, Method, RunningServer, Server, Service};
use tidewire_tests::program::{succeed, tool};

use crate::following::streams::{EVERY, Watching};
use crate::harness::{send, start};

const SHOP: &str = r#"syntax = "proto3";
package shop.v1;
service Cart {
  rpc Price(Item) returns (Item) { option idempotency_level = NO_SIDE_EFFECTS; }
  rpc Stock(Item) returns (Item) { option idempotency_level = NO_SIDE_EFFECTS; }
}
message Item { string name = 1; string note = 2; }
"#;

const QUERY: &str = "(Item) returns (Item) { option idempotency_level = NO_SIDE_EFFECTS; }";

struct Shop {
    folder: tempfile::TempDir,
    watch: Watch,
    mock: Mock,
    address: SocketAddr,
    _running: RunningServer,
}

impl Shop {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for part in ["protos", "rules"] {
            std::fs::create_dir(folder.path().join(part)).unwrap();
        }
        std::fs::write(folder.path().join("protos/shop.proto"), SHOP).unwrap();
        let say = |method: &str| {
            let path = folder.path().join(format!("rules/shop.v1.cart.{method}.yaml"));
            std::fs::write(path, "responses: [{body: {note: one}}]").unwrap();
        };
        say("price");
        say("stock");
        let folders =
            MockFolders::new(folder.path().join("protos")).rules(folder.path().join("rules"));
        let (mock, _) = folders.mock(folders.load()).build();
        let watch = folders.watch(&mock);
        let (running, address) = start(serve(Server::builder(), &mock)).await;
        Self { folder, watch, mock, address, _running: running }
    }

    /// Writes a file, and waits until it is in effect.
    async fn write(&mut self, name: &str, text: &str) -> Vec<String> {
        std::fs::write(self.folder.path().join(name), text).unwrap();
        self.watch.next().await.reloaded.changed
    }

    async fn price_is(&mut self, note: &str) {
        let text = format!("responses: [{{body: {{note: {note}}}}}]");
        assert_eq!(
            self.write("rules/shop.v1.cart.price.yaml", &text).await,
            ["/shop.v1.Cart/Price"]
        );
    }

    fn client(&self, protocol: Protocol) -> Client {
        let client = Client::builder(format!("http://{}", self.address)).protocol(protocol);
        let client = match protocol {
            Protocol::Grpc => client.http(HttpVersion::Http2),
            _ => client,
        };
        client.build().unwrap()
    }
}

fn method(service: &str, name: &str, kind: StreamKind) -> Method {
    let spec = Spec::dynamic(service, name, kind, ["shop.v1.Item", "shop.v1.Item"]);
    Arc::new(spec.idempotency(Idempotency::NoSideEffects)).into()
}

async fn call(client: &Client, service: &str, name: &str) -> Result<Json, Error> {
    let method = method(service, name, StreamKind::Unary);
    let call = Call::method(method, Context::default(), Codec::Json, r#"{"name":"a"}"#);
    let body = client.call(call).await?.body.collect(1 << 20).await?;
    Ok(serde_json::from_slice(&body).unwrap())
}

async fn note(watching: &mut Watching) -> String {
    let answer = watching.next().await.expect("it goes on").unwrap();
    let item: Json = serde_json::from_str(answer["json"].as_str().unwrap()).unwrap();
    item["note"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_watches_an_answer_gets_the_new_one_when_its_rule_changes_on_disk() {
    let mut shop = Shop::new().await;
    for (at, protocol) in EVERY.into_iter().enumerate() {
        shop.price_is(&format!("first{at}")).await;
        let wanted = |method: &str| json!({ "method": method, "json": r#"{"name":"a"}"# });
        let mut price = Watching::begin(shop.address, protocol, wanted("shop.v1.Cart/Price")).await;
        let mut stock = Watching::begin(shop.address, protocol, wanted("shop.v1.Cart/Stock")).await;
        assert_eq!(note(&mut price).await, format!("first{at}"), "{protocol}");
        let before = note(&mut stock).await;
        shop.price_is(&format!("second{at}")).await;
        assert_eq!(note(&mut price).await, format!("second{at}"), "{protocol}");
        // The other method's next answer is that of its own change.
        let text = format!("responses: [{{body: {{note: stock{at}}}}}]");
        shop.write("rules/shop.v1.cart.stock.yaml", &text).await;
        assert_ne!(before, format!("stock{at}"));
        assert_eq!(note(&mut stock).await, format!("stock{at}"), "{protocol}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_held_over_live_is_stale_when_its_rule_changes() {
    let mut shop = Shop::new().await;
    for (at, scheme) in ["ws", "tcp"].into_iter().enumerate() {
        let client = Client::builder(format!("{scheme}://{}", shop.address)).watch_queries();
        let client = client.build().unwrap();
        let ask = |name: &str| {
            let method = method("shop.v1.Cart", name, StreamKind::Unary);
            client.call(Call::method(method, Context::default(), Codec::Json, "{}"))
        };
        let (price, stock) = (ask("Price").await.unwrap(), ask("Stock").await.unwrap());
        let price = Arc::clone(price.freshness.staleness().expect("it is watched"));
        let stock = Arc::clone(stock.freshness.staleness().expect("it is watched"));
        assert!(!price.is_stale());
        shop.price_is(&format!("new{at}")).await;
        std::future::poll_fn(|cx| price.poll_stale(cx)).await;
        assert!(!stock.is_stale(), "another method");
        let new = ask("Price").await.unwrap().body.collect(1000).await.unwrap();
        assert_eq!(new, format!(r#"{{"note":"new{at}"}}"#));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn methods_and_services_that_come_are_called_at_once_and_those_that_go_are_not_there() {
    let mut shop = Shop::new().await;
    let clients = [Protocol::Connect, Protocol::Grpc, Protocol::GrpcWeb, Protocol::Live]
        .map(|protocol| shop.client(protocol));
    for client in &clients {
        assert_eq!(call(client, "shop.v1.Cart", "Price").await.unwrap()["note"], "one");
        let error = call(client, "shop.v1.Cart", "Added").await.unwrap_err();
        assert_eq!(error.code(), Code::Unimplemented);
    }
    let added = SHOP
        .replace("  rpc Stock", &format!("  rpc Added{QUERY}\n  rpc Gone"))
        .replace("message Item", &format!("service Till {{ rpc Pay{QUERY} }}\nmessage Item"));
    shop.write("rules/shop.v1.till.pay.yaml", "responses: [{body: {note: paid}}]").await;
    let changed = shop.write("protos/shop.proto", &added).await;
    assert!(changed.contains(&"/shop.v1.Till/Pay".to_owned()), "{changed:?}");
    // The same connections, which the server had before.
    for client in &clients {
        assert!(call(client, "shop.v1.Cart", "Added").await.unwrap()["note"].is_string());
        assert_eq!(call(client, "shop.v1.Till", "Pay").await.unwrap()["note"], "paid");
        let error = call(client, "shop.v1.Cart", "Stock").await.unwrap_err();
        assert_eq!(error.code(), Code::Unimplemented);
        assert!(error.message().contains("Cart has Added, Gone, Price"), "{error}");
    }
    let address = shop.address.to_string();
    let services = succeed(tool("grpcurl"), &["-plaintext", &address, "list"]).await;
    assert!(services.contains("shop.v1.Till"), "{services}");
    let described = ["-plaintext", &address, "describe", "shop.v1.Cart"];
    let described = succeed(tool("grpcurl"), &described).await;
    assert!(described.contains("rpc Added") && !described.contains("rpc Stock"), "{described}");
    let head = "POST /grpc.health.v1.Health/Check\ncontent-type: application/json";
    let health = send(shop.address, head, br#"{"service":"shop.v1.Till"}"#).await;
    health.check(200, &["SERVING"]);
    assert_eq!(shop.mock.schema().services().count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_method_that_becomes_a_stream_is_one_for_the_next_caller() {
    let mut shop = Shop::new().await;
    let client = shop.client(Protocol::Grpc);
    assert_eq!(call(&client, "shop.v1.Cart", "Price").await.unwrap()["note"], "one");
    let streams = SHOP.replace("Price(Item) returns (Item)", "Price(Item) returns (stream Item)");
    let items = "responses: [{stream_items: [{note: a}, {note: b}], stream_delay_ms: 0}]";
    shop.write("protos/shop.proto", &streams).await;
    shop.write("rules/shop.v1.cart.price.yaml", items).await;
    let address = shop.address.to_string();
    let asked = ["-plaintext", "-d", "{}", &address, "shop.v1.Cart/Price"];
    let told = succeed(tool("grpcurl"), &asked).await;
    assert_eq!(told.split_whitespace().collect::<String>(), r#"{"note":"a"}{"note":"b"}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_validation_that_change_are_those_of_the_next_call() {
    let mut shop = Shop::new().await;
    let client = shop.client(Protocol::Connect);
    assert!(call(&client, "shop.v1.Cart", "Price").await.is_ok());
    let ruled = SHOP
        .replace("package shop.v1;", "package shop.v1; import \"buf/validate/validate.proto\";")
        .replace("string name = 1;", "string name = 1 [(buf.validate.field).string.min_len = 5];");
    shop.write("protos/shop.proto", &ruled).await;
    let error = call(&client, "shop.v1.Cart", "Price").await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
}
