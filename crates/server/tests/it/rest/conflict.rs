//! What cannot be served is said at start, with both places.

use std::sync::atomic::{AtomicU32, Ordering};

use http::Method;
use tidewire_proto::Sources;
use tidewire_rest::RestOptions;
use tidewire_schema::Schema;
use tidewire_server::{Address, Builder, Server};
use tidewire_service::{Call, Reply};

use super::service::builder;
use crate::http::get;

/// A server of one service whose methods are these lines, from line 5 of `shop.proto` on.
fn shop(methods: &str) -> Builder {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name =
        format!("tidewire-rest-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let text = format!(
        "syntax = \"proto3\";\npackage shop;\nimport \"google/api/annotations.proto\";\nservice Shop {{\n{methods}\n}}\nmessage Item {{ string id = 1; repeated string tags = 2; Item inner = 3; map<string, string> labels = 4; }}\n"
    );
    std::fs::write(folder.join("shop.proto"), text).unwrap();
    let descriptors = Sources::new().folder(&folder).compile().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let schema = Schema::from_descriptors(descriptors.bytes()).unwrap();
    let service = schema.serve("shop.Shop", async |_: Call| Ok(Reply::text("{}"))).unwrap();
    let any: Address = "127.0.0.1:0".parse().unwrap();
    Server::builder().listen(any).service(service)
}

async fn check(builder: Builder, expected: &str) {
    let error = builder.start().await.err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some(expected));
}

fn method(name: &str, rule: &str) -> String {
    format!("rpc {name}(Item) returns (Item) {{ option (google.api.http) = {{ {rule} }}; }}\n")
}

#[tokio::test]
async fn two_bindings_of_the_same_requests_are_refused_with_both_lines() {
    let methods =
        method("A", "get: \"/v1/{id=items/*}\"") + &method("B", "get: \"/v1/items/{id}\"");
    check(
        shop(&methods),
        "GET /v1/{id=items/*} at shop.proto:5 (shop.Shop.A) and GET /v1/items/{id} at \
         shop.proto:6 (shop.Shop.B) match the same requests; change one of them",
    )
    .await;
}

#[tokio::test]
async fn a_plain_route_and_a_binding_of_the_same_requests_are_refused() {
    let ok = || async |_: Call| Ok(Reply::text("plain"));
    let server = shop(&method("A", "get: \"/v1/{id}\"")).route(Method::GET, "/v1/{name}", ok());
    check(
        server,
        "GET /v1/{id} at shop.proto:5 (shop.Shop.A) and the plain route /v1/{name} match the same \
         requests; change one of them",
    )
    .await;
    let server = shop(&method("A", "get: \"/v1/{id}\"")).route(Method::POST, "/v1/{name}", ok());
    assert!(server.start().await.is_ok(), "another verb is another route");
}

#[tokio::test]
async fn annotations_that_do_not_fit_their_method_are_refused() {
    for (rule, why) in [
        ("get: \"v1\"", "template \"v1\" at column 1: `/` is expected"),
        ("get: \"/{nope}\"", "shop.Item has no field nope; it has id, tags, inner, labels"),
        ("get: \"/{inner}\"", "inner is a shop.Item; name a field of it, such as inner.id"),
        ("get: \"/{tags}\"", "tags is repeated, so no path can fill it"),
        ("get: \"/{labels}\"", "labels is a map; send it in a body"),
        (
            "post: \"/x\" body: \"nope\"",
            "`body: \"nope\"` is not a field of shop.Item; it has id, tags, inner, labels",
        ),
        ("post: \"/{id}\" body: \"id\"", "id is filled by path and body"),
        (
            "get: \"/x\" response_body: \"nope\"",
            "`response_body: \"nope\"` is not a field of shop.Item; it has id, tags, inner, labels",
        ),
    ] {
        let error = shop(&method("A", rule)).start().await.unwrap_err().to_string();
        assert!(error.starts_with("shop.proto:5 (shop.Shop.A): google.api.http: "), "{error}");
        assert!(error.ends_with(why), "{error}");
    }
    let error = shop(&method("A", "body: \"*\"")).start().await.unwrap_err().to_string();
    assert!(error.contains("has no verb with a path"), "{error}");
    let streams =
        "rpc A(stream Item) returns (Item) { option (google.api.http) = { get: \"/x\" }; }";
    let error = shop(streams).start().await.unwrap_err().to_string();
    assert!(error.contains("needs a `body`"), "{error}");
}

#[tokio::test]
async fn options_for_a_service_that_is_not_there_are_refused() {
    let mut options = RestOptions::default();
    options.services.insert("rest.v1.Ecko".to_owned(), options.json);
    let error = builder(options).start().await.unwrap_err().to_string();
    assert_eq!(error, "rest.services: there is no service rest.v1.Ecko; there is rest.v1.Echo");
}

#[tokio::test]
async fn the_more_specific_of_a_plain_route_and_a_binding_wins() {
    let plain = |text: &'static str| move |_: Call| async move { Ok(Reply::text(text)) };
    let server = builder(RestOptions::default())
        .route(Method::GET, "/items/health", plain("health"))
        .route(Method::GET, "/v1/{*rest}", plain("rest of v1"))
        .mount("/files/static", plain("static"))
        .mount("/", plain("fallback"))
        .start()
        .await
        .unwrap();
    for (target, expected) in [
        ("/items/health", "health"),
        ("/v1/other", "rest of v1"),
        ("/files/static/a", "static"),
        ("/files/static", "static"),
        ("/elsewhere", "fallback"),
    ] {
        assert_eq!(get(&server, target).await.text(), expected, "{target}");
    }
    for target in ["/items/7", "/v1/shelves/7", "/files/other"] {
        let answer = get(&server, target).await;
        assert!(answer.text().starts_with("{\"text\":"), "{target}: {}", answer.text());
    }
}
