//! What caches on the way are told of pages, by who calls.

use tidewire_server::Server;
use tidewire_service::{Admission, Call, Gate, Head, Principal, Reply};

use crate::host::start;
use crate::http::send;

/// Knows whoever has a key.
struct Keys;

impl Gate for Keys {
    fn admit(&self, head: &mut Head) -> Admission {
        if head.context.headers().contains_key("x-api-key") {
            head.context.set_principal(Principal::new("keys", "ada"));
        }
        Admission::Ready(Ok(()))
    }
}

/// A page that says of itself what the request has in `x-says`, as the type in `x-type`.
async fn page(call: Call) -> tidewire_service::Result<Reply> {
    let mut reply = Reply::text("page");
    for (asked, told) in [("x-says", "cache-control"), ("x-type", "content-type")] {
        if let Some(value) = call.context.headers().get(asked) {
            reply = reply.with_header(told, value.to_str().unwrap().to_owned())?;
        }
    }
    Ok(reply)
}

#[tokio::test]
async fn replies_to_every_verb_are_their_callers_own() {
    const WEBSOCKET: &str = "connection: upgrade\r\nupgrade: websocket\r\n";
    const KEY: &str = "x-api-key: a\r\n";
    const BASIC: &str = "authorization: Basic YTpi\r\n";
    let server = start(Server::builder().gate(Keys).mount("/", page)).await;
    for verb in ["GET", "HEAD", "POST", "PUT", "OPTIONS", "SEARCH"] {
        for (caller, says, expected) in [
            ("", "max-age=60", "max-age=60"),
            (KEY, "max-age=60", "private"),
            (KEY, "s-maxage=60", "private"),
            (KEY, "max-age=60, x=\"a, public, b\"", "private"),
            (KEY, "public, max-age=60", "public, max-age=60"),
            (BASIC, "max-age=60", "private"),
            (BASIC, "s-maxage=60", "s-maxage=60"),
            (BASIC, "public, max-age=60", "public, max-age=60"),
        ] {
            for upgrade in ["", WEBSOCKET] {
                let headers = format!("{caller}{upgrade}x-says: {says}\r\n");
                let answer = send(&server, verb, "/page", &headers, b"").await;
                assert_eq!(answer.header("cache-control"), Some(expected), "{verb} {headers}");
            }
        }
    }
}

#[tokio::test]
async fn what_grpc_says_passes_as_it_is() {
    let server = start(Server::builder().gate(Keys).mount("/", page)).await;
    let headers = "x-api-key: a\r\nx-type: application/grpc+proto\r\n";
    let answer = send(&server, "POST", "/shop.v1.Shop/Get", headers, b"").await;
    assert_eq!((answer.status, answer.header("cache-control")), (200, None));
}
