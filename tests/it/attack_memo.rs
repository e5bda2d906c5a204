//! What somebody who wants answers from memory to be wrong would try.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidewire::{Error, Head};

use crate::harness::{Response, send, start};
use crate::memoized::{built, header, served, without_memory};

/// Requests that ask for the same thing in other words, for half of it, for none of it, or for what
/// is not there; of each the first line and headers, and its body.
const ODD: [(&str, &str); 37] = [
    ("GET /rows/7", ""),
    ("GET /rows/%37", ""),
    ("GET /rows/07", ""),
    ("GET /rows/7/", ""),
    ("GET /rows/7?", ""),
    ("GET /rows/7?id=8", ""),
    ("GET /rows/7?who=a", ""),
    ("GET /rows/7#part", ""),
    ("GET /rows/100", ""),
    ("GET /rows/99999999999999999999", ""),
    ("HEAD /rows/7", ""),
    ("OPTIONS /rows/7", ""),
    ("DELETE /rows/7", ""),
    ("GET /rows/7\nrange: bytes=0-3", ""),
    ("GET /rows/7\nif-range: \"a\"\nrange: bytes=0-3", ""),
    ("GET /rows/7\naccept: text/html", ""),
    ("GET /rows/7\naccept: application/x-ndjson", ""),
    ("GET /rows/7\naccept-encoding: gzip;q=0", ""),
    ("GET /rows/7\ncache-control: no-store", ""),
    ("GET /rows/7\ncache-control: only-if-cached", ""),
    ("GET /rows/7\nif-none-match: \"7\", W/\"8\", broken", ""),
    ("GET /rows/7\nif-modified-since: Wed, 21 Oct 2026 07:28:00 GMT", ""),
    ("GET /rows/7", "{}"),
    ("GET /long/7\naccept-encoding: gzip, *;q=0", ""),
    ("GET /long/7\naccept-encoding: br, zstd", ""),
    ("HEAD /long/7\naccept-encoding: gzip", ""),
    ("GET /page/7", ""),
    ("GET /page/%37", ""),
    ("GET /page/7?a=1&b=2", ""),
    ("GET /page/7?b=2&a=1", ""),
    ("HEAD /page/7", ""),
    ("GET /page/x", ""),
    ("GET /test.v1.Rows/Get?message=%7B%22id%22:7%7D&encoding=json", ""),
    ("GET /test.v1.Rows/Get?encoding=proto&base64=1&message=CAc", ""),
    ("GET /test.v1.Rows/Get?encoding=json&message=%7B", ""),
    ("POST /test.v1.Rows/Get\ncontent-type: application/json", "{ \"id\" : 7 }"),
    ("POST /test.v1.Rows/Get\ncontent-type: application/json", "{\"id\":\"7\",\"id\":\"8\"}"),
];

/// What a client sees, without what only tells caches about the answer, and without the time.
fn seen(response: &Response) -> (u16, Vec<String>, Vec<u8>) {
    const OF_CACHES: [&str; 6] = ["age", "cache-control", "cache-status", "date", "etag", "vary"];
    let lines = response.head.lines().skip(1).map(str::to_owned);
    let mut head: Vec<_> = lines
        .filter(|line| !OF_CACHES.contains(&line.split(':').next().unwrap_or_default()))
        .collect();
    head.sort();
    (response.status, head, response.body.clone())
}

async fn ask(address: SocketAddr, (head, body): (&str, &str)) -> (u16, Vec<String>, Vec<u8>) {
    seen(&send(address, head, body.as_bytes()).await)
}

#[tokio::test]
async fn whatever_is_asked_is_answered_as_without_memory_the_first_time_and_again() {
    let (_kept, with_memory, rows) = served().await;
    let (builder, ..) = without_memory();
    let (_other, without) = start(builder).await;
    for request in ODD {
        let expected = ask(without, request).await;
        for time in ["first", "again"] {
            assert_eq!(ask(with_memory, request).await, expected, "{request:?}, {time}");
        }
    }
    // In another order, so that each is asked after what is most like it.
    let looks = rows.looks();
    for request in ODD.iter().rev() {
        assert_eq!(ask(with_memory, *request).await, ask(without, *request).await, "{request:?}");
    }
    assert_eq!(rows.looks(), looks + 1, "all came from memory but the HEAD of a page");
}

#[tokio::test]
async fn tags_in_lists_weak_ones_and_strangers_are_told_apart() {
    let (_running, address, _) = served().await;
    let tag = header(&send(address, "GET /rows/7", b"").await, "etag").unwrap();
    let strangers = "\"a\",".repeat(40);
    for (held, status) in [
        (format!("\"a\", {tag}"), 304),
        (format!("W/{tag}"), 304),
        (format!("\"a\"\nif-none-match: {tag}"), 304),
        (format!("  {tag}  ,"), 304),
        ("*".to_owned(), 304),
        (tag.replace('"', ""), 200),
        (format!("w/{tag}"), 200),
        (tag.to_uppercase(), 200),
        (format!("{}-br\"", tag.trim_end_matches('"')), 200),
        (format!("\"{}", &tag[2..]), 200),
        // More than anybody needs are not looked at: the whole answer is never wrong.
        (format!("{strangers}{tag}"), 200),
    ] {
        let head = format!("GET /rows/7\nif-none-match: {held}");
        let answer = send(address, &head, b"").await;
        assert_eq!(answer.status, status, "{held}");
        assert_eq!(answer.body.is_empty(), status == 304);
    }
    // A tag speaks of reading, not of a write or of another answer.
    let post = format!("POST /rows\ncontent-type: application/json\nif-none-match: {tag}");
    send(address, &post, br#"{"id":"7","value":"0"}"#).await.check(200, &[]);
    send(address, &format!("GET /rows/8\nif-none-match: {tag}"), b"").await.check(200, &[]);
}

#[tokio::test]
async fn a_token_that_is_revoked_ends_its_access_though_the_answer_is_in_memory() {
    let revoked = Arc::new(AtomicBool::new(false));
    let of_gate = Arc::clone(&revoked);
    let gate = move |head: &mut Head| match head.context.header("authorization") {
        Some(token) if token != "Bearer ada" || !of_gate.load(Ordering::SeqCst) => Ok(()),
        _ => Err(Error::unauthenticated("show a token that is not revoked")),
    };
    let (builder, rows) = built();
    let (_running, address) = start(builder.gate(gate)).await;
    for get in ["GET /mine/1", "GET /rows/1"] {
        revoked.store(false, Ordering::SeqCst);
        let by = |who: &str| format!("{get}\nauthorization: Bearer {who}");
        let first = send(address, &by("ada"), b"").await;
        let tag = header(&first, "etag").unwrap();
        send(address, &by("ada"), b"").await.check(200, &[]);
        let looks = rows.looks();
        revoked.store(true, Ordering::SeqCst);
        send(address, &by("ada"), b"").await.check(401, &["revoked"]);
        let held = format!("{}\nif-none-match: {tag}", by("ada"));
        send(address, &held, b"").await.check(401, &["revoked"]);
        send(address, get, b"").await.check(401, &["revoked"]);
        assert_eq!(rows.looks(), looks);
        send(address, &by("grace"), b"").await.check(200, &[]);
    }
}
