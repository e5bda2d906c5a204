//! The examples of the comments of `google/api/http.proto`: each request and its message.

use tidewire_rest::RestOptions;
use tidewire_server::{Address, Server};
use tidewire_service::{Body, Call, Codec, Reply};

use super::service::{CANONICAL, schema};
use crate::http::json;

/// Checks the message that a request becomes, in canonical proto JSON.
async fn check(service: &str, [verb, target, body]: [&str; 3], expected: &str) {
    let schema = schema();
    let decoder = schema.clone();
    let backend = move |call: Call| {
        let input = call.spec().unwrap().input.to_string();
        let Body::Full(request) = call.body else { panic!("a whole request") };
        let request = decoder.decode(&input, Codec::Json, &request);
        let request = request.and_then(|request| request.encode(Codec::Json));
        std::future::ready(request.map(|json| Reply::new(Body::Full(json))))
    };
    let service = schema.serve(service, backend).unwrap();
    let mut options = RestOptions::default();
    options.json = CANONICAL;
    let any: Address = "127.0.0.1:0".parse().unwrap();
    let server = Server::builder().listen(any).rest(options).service(service).start();
    let answer = json(&server.await.unwrap(), verb, target, body).await;
    assert_eq!((answer.status, answer.text()), (200, expected), "{verb} {target}");
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
