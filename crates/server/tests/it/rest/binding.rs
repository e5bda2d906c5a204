//! Which method a request reaches, and what its message is.

use super::service::start;
use crate::http::{get, json, send};

/// Checks what a request becomes.
macro_rules! check {
    ($server:expr, $verb:literal $target:expr, $body:expr => $status:literal $expected:expr) => {
        let answer = json(&$server, $verb, $target, $body).await;
        assert_eq!((answer.status, answer.text()), ($status, $expected), "{} {}", $verb, $target);
    };
}

#[tokio::test]
async fn paths_fill_fields() {
    let server = start().await;
    check!(server, "GET" "/items/7", "" => 200 r#"{"text":"7"}"#);
    check!(server, "GET" "/items/a%20b%2Fc%22", "" => 200 r#"{"text":"a b/c\""}"#);
    check!(server, "GET" "/items/%E2%82%AC+1", "" => 200 r#"{"text":"€+1"}"#);
    check!(server, "GET" "/v1/shelves/7", "" => 200 r#"{"text":"shelves/7"}"#);
    check!(server, "GET" "/v1/shelves/7/books/8%2F9%20x", "" => 200 r#"{"text":"shelves/7/books/8%2F9 x"}"#);
    check!(server, "GET" "/files/a/b//c/", "" => 200 r#"{"text":"a/b//c/"}"#);
    check!(server, "GET" "/files", "" => 200 "{}");
    check!(server, "GET" "/numbers/-5/x", "" => 200 r#"{"i32":-5,"nested":{"text":"x"}}"#);
    check!(server, "GET" "/kinds/GOOD/2026-01-02T03:04:05Z/true", "" => 200 r#"{"flag":true,"kind":"GOOD","at":"2026-01-02T03:04:05Z"}"#);
    check!(server, "GET" "/kinds/2/2026-01-02T03:04:05Z/false", "" => 200 r#"{"kind":"BAD","at":"2026-01-02T03:04:05Z"}"#);
    check!(server, "GET" "/numbers/1/x?nested.count=3&flag=true", "" => 200 r#"{"flag":true,"i32":1,"nested":{"text":"x","count":"3"}}"#);
}

#[tokio::test]
async fn a_body_is_the_message_or_one_field_of_it() {
    let server = start().await;
    check!(server, "POST" "/whole", r#" {"i32": 1, "snake_case_name": "x"} "# => 200 r#"{"i32":1,"snakeCaseName":"x"}"#);
    check!(server, "POST" "/whole", "" => 200 "{}");
    check!(server, "PUT" "/whole/a/b", "" => 200 r#"{"text":"a","nested":{"text":"b"}}"#);
    check!(server, "PUT" "/whole/a/b", r#"{"text":"z","i32":2,"nested":{"count":"3","text":"y","inner":{"text":"q"}}}"#
        => 200 r#"{"text":"a","i32":2,"nested":{"text":"b","inner":{"text":"q"},"count":"3"}}"#);
    check!(server, "PUT" "/whole/a/b", r#"{"nested":null,"te\u0078t":"z"}"# => 200 r#"{"text":"a","nested":{"text":"b"}}"#);
    check!(server, "PATCH" "/part/b?flag=true", r#"{"count": 3}"# => 200 r#"{"flag":true,"nested":{"text":"b","count":"3"}}"#);
    check!(server, "PATCH" "/part/b", "" => 200 r#"{"nested":{"text":"b"}}"#);
    check!(server, "POST" "/list?i32=4", r#"["a","b"]"# => 200 r#"{"i32":4,"tags":["a","b"]}"#);
    check!(server, "POST" "/list", "[]" => 200 "{}");
    check!(server, "POST" "/number", " 5 " => 200 r#"{"i32":5}"#);
}

#[tokio::test]
async fn every_kind_of_verb_finds_its_method() {
    let server = start().await;
    check!(server, "GET" "/items:page?i32=5", "" => 200 r#"{"i32":5}"#);
    check!(server, "POST" "/items/7:archive", "" => 200 r#"{"text":"7"}"#);
    check!(server, "GET" "/items/7:archive", "" => 200 r#"{"text":"7:archive"}"#);
    check!(server, "PURGE" "/items/7", "" => 200 r#"{"text":"7"}"#);
    check!(server, "OPTIONS" "/any?text=x", "" => 200 r#"{"text":"x"}"#);
    let head = send(&server, "HEAD", "/items/7", "", b"").await;
    assert_eq!((head.status, head.header("content-length"), head.text()), (200, Some("12"), ""));
}

#[tokio::test]
async fn status_and_headers_are_those_of_the_reply_or_the_method() {
    let server = start().await;
    let created = json(&server, "POST", "/items", r#"{"text":"a"}"#).await;
    assert_eq!((created.status, created.text()), (201, r#"{"text":"a"}"#));
    assert_eq!(created.header("location"), Some("http://test/items/7"));
    assert_eq!(created.header("content-type"), Some("application/json"));
    let deleted = send(&server, "DELETE", "/items/7", "", b"").await;
    assert_eq!((deleted.status, deleted.text()), (204, ""));
    assert_eq!(deleted.header("content-type"), None);
}

#[tokio::test]
async fn a_response_body_is_one_field_of_the_reply() {
    let server = start().await;
    check!(server, "GET" "/tags?tags=a&tags=b", "" => 200 r#"["a","b"]"#);
    check!(server, "GET" "/nested?nested.count=3", "" => 200 r#"{"count":"3"}"#);
    check!(server, "GET" "/nested", "" => 200 "null");
    check!(server, "GET" "/big?i64=5", "" => 200 "\"5\"");
}

#[tokio::test]
async fn raw_bodies_pass_through_as_they_are() {
    let server = start().await;
    let answer =
        send(&server, "POST", "/upload/x", "content-type: image/png\r\n", b"\x00\xffpng").await;
    let seen: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
    assert_eq!(
        seen["text"],
        r#"{"text":"x","file":{"contentType":"image/png","data":"AP9wbmc="}}"#
    );
    let answer = get(&server, "/download/hello").await;
    assert_eq!((answer.status, answer.text()), (200, "hello"));
    assert_eq!(answer.header("content-type"), Some("text/x-test"));
    let answer = get(&server, "/downloads/12").await;
    assert_eq!(
        (answer.header("content-type"), answer.text()),
        (Some("text/x-test"), "01234567891011")
    );
    let answer = send(&server, "POST", "/uploads", "content-type: text/plain\r\n", b"hello").await;
    assert_eq!(answer.text(), r#"{"text":"aGVsbG8=|"}"#);
}
