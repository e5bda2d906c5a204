//! The examples of the comments of `google/api/http.proto`: each request and its message.

use std::sync::{Arc, Mutex};

use tidewire_rest::RestOptions;
use tidewire_server::{Address, Server};
use tidewire_service::{Body, Call, Reply};

use super::service::{CANONICAL, in_json, schema};
use crate::http::json;

/// Checks the message that a request becomes, in canonical proto JSON.
async fn check(service: &str, [verb, target, body]: [&str; 3], expected: &str) {
    let seen = Arc::new(Mutex::new(String::new()));
    let seen_by_it = Arc::clone(&seen);
    let backend = move |call: Call| {
        let Body::Full(request) = call.body else { panic!("a whole request") };
        *seen_by_it.lock().unwrap() = String::from_utf8(request.to_vec()).unwrap();
        std::future::ready(Ok(Reply::new(Body::Empty)))
    };
    let service = schema().serve(service, in_json(backend)).unwrap();
    let mut options = RestOptions::default();
    options.json = CANONICAL;
    let any: Address = "127.0.0.1:0".parse().unwrap();
    let server = Server::builder().listen(any).rest(options).service(service).start();
    let answer = json(&server.await.unwrap(), verb, target, body).await;
    assert_eq!(answer.status, 200, "{verb} {target}: {}", answer.text());
    assert_eq!(*seen.lock().unwrap(), expected, "{verb} {target}");
}

#[tokio::test]
async fn requests_become_the_messages_that_the_specification_gives() {
    check("messaging.Named", ["GET", "/v1/messages/123456", ""], r#"{"name":"messages/123456"}"#)
        .await;
    check(
        "messaging.Queried",
        ["GET", "/v1/messages/123456?revision=2&sub.subfield=foo", ""],
        r#"{"messageId":"123456","revision":"2","sub":{"subfield":"foo"}}"#,
    )
    .await;
    check(
        "messaging.PartlyUpdated",
        ["PATCH", "/v1/messages/123456", r#"{ "text": "Hi!" }"#],
        r#"{"messageId":"123456","message":{"text":"Hi!"}}"#,
    )
    .await;
    check(
        "messaging.WhollyUpdated",
        ["PATCH", "/v1/messages/123456", r#"{ "text": "Hi!" }"#],
        r#"{"messageId":"123456","text":"Hi!"}"#,
    )
    .await;
    check("messaging.BoundTwice", ["GET", "/v1/messages/123456", ""], r#"{"messageId":"123456"}"#)
        .await;
    check(
        "messaging.BoundTwice",
        ["GET", "/v1/users/me/messages/123456", ""],
        r#"{"messageId":"123456","userId":"me"}"#,
    )
    .await;
}
