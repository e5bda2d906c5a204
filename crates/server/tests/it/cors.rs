//! What browsers are told about pages of other origins; `tests/it/browser.rs` asks a browser.

use http::{Method, StatusCode};
use tidewire_server::{Cors, RunningServer, Server, StartError};
use tidewire_service::{Call, Error, Reply};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::http::{Answer, json, send};

const ASKING: &str =
    "access-control-request-method: POST\r\naccess-control-request-headers: content-type\r\n";

async fn start(cors: Option<Cors>) -> RunningServer {
    let failing = async |_: Call| Err::<Reply, _>(Error::not_found("nothing here"));
    let mut builder = Server::builder()
        .listen("127.0.0.1:0".parse::<tidewire_server::Address>().unwrap())
        .route(Method::POST, "/fine", async |_: Call| Ok(Reply::text("fine")))
        .route(Method::POST, "/failing", failing)
        .route(Method::OPTIONS, "/own", async |_: Call| Ok(Reply::empty(StatusCode::ACCEPTED)));
    if let Some(cors) = cors {
        builder = builder.cors(cors);
    }
    builder.start().await.unwrap()
}

fn from(origin: &str, more: &str) -> String {
    format!("origin: {origin}\r\n{more}")
}

/// The headers of an answer that are about other origins, and `vary`.
fn said(answer: &Answer) -> Vec<(&'static str, &str)> {
    const NAMES: [&str; 7] = [
        "access-control-allow-origin",
        "access-control-allow-credentials",
        "access-control-allow-methods",
        "access-control-allow-headers",
        "access-control-expose-headers",
        "access-control-max-age",
        "vary",
    ];
    NAMES.iter().filter_map(|name| Some((*name, answer.header(name)?))).collect()
}

#[tokio::test]
async fn an_allowed_page_is_told_what_it_may_send_before_any_route_sees_the_question() {
    let mut cors = Cors::new(["https://app.example"]);
    cors.headers.push("X-Tenant".to_owned());
    let server = start(Some(cors)).await;
    for target in ["/fine", "/own", "/nowhere", "/grpc.health.v1.Health/Check"] {
        let asking = from("https://app.example", ASKING);
        let answer = send(&server, "OPTIONS", target, &asking, b"").await;
        assert_eq!((answer.status, answer.body.len()), (204, 0), "{target}");
        let said = said(&answer);
        assert_eq!(said[0], ("access-control-allow-origin", "https://app.example"));
        assert_eq!(
            said[1],
            ("access-control-allow-methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
        );
        let headers: Vec<_> = said[2].1.split(", ").collect();
        for name in [
            "content-type",
            "connect-protocol-version",
            "connect-timeout-ms",
            "grpc-timeout",
            "x-grpc-web",
            "x-user-agent",
            "authorization",
            "x-tenant",
        ] {
            assert!(headers.contains(&name), "{name} in {headers:?}");
        }
        assert_eq!(said[3..], [("access-control-max-age", "7200"), ("vary", "origin")]);
    }
    let own = send(&server, "OPTIONS", "/own", &from("https://app.example", ""), b"").await;
    assert_eq!(own.status, 202, "it asks for nothing, so it is a request like any other");
}

#[tokio::test]
async fn replies_and_errors_say_who_may_read_them() {
    let mut cors = Cors::new(["https://a.example", "http://localhost:5173"]);
    cors.credentials = true;
    cors.exposed_headers.push("x-total".to_owned());
    let server = start(Some(cors)).await;
    let page = from("http://localhost:5173", "");
    let rpc = from("http://localhost:5173", "content-type: application/grpc-web+proto\r\n");
    for (target, headers, status) in [
        ("/fine", &page, 200),
        ("/failing", &page, 404),
        ("/nowhere", &page, 404),
        ("/grpc.health.v1.Health/Check", &rpc, 200),
        ("/no.such/Method", &rpc, 200),
    ] {
        let answer = send(&server, "POST", target, headers, b"\0\0\0\0\0").await;
        assert_eq!(answer.status, status, "{target}");
        let said = said(&answer);
        assert_eq!(said[0], ("access-control-allow-origin", "http://localhost:5173"), "{target}");
        assert_eq!(said[1], ("access-control-allow-credentials", "true"));
        for name in ["grpc-status", "grpc-message", "grpc-status-details-bin", "x-total"] {
            assert!(said[2].1.split(", ").any(|exposed| exposed == name), "{name} in {said:?}");
        }
        assert_eq!(said[3..], [("vary", "origin")]);
    }
}

#[tokio::test]
async fn another_page_is_told_nothing_but_that_answers_differ() {
    let server = start(Some(Cors::new(["https://app.example"]))).await;
    for origin in ["https://evil.example", "https://app.example.evil.example", "null", "*"] {
        let answer = send(&server, "OPTIONS", "/fine", &from(origin, ASKING), b"").await;
        assert_eq!(said(&answer), [("vary", "origin")], "{origin}");
        let answer = send(&server, "POST", "/fine", &from(origin, ""), b"").await;
        assert_eq!((answer.status, said(&answer)), (403, vec![("vary", "origin")]), "{origin}");
        // A page without an origin cannot be named there.
        let expected = if origin == "null" { "without an origin" } else { "cors.origins" };
        assert!(answer.text().contains(expected), "{}", answer.text());
    }
    let answer = json(&server, "POST", "/fine", "{}").await;
    assert_eq!((answer.status, said(&answer)), (200, vec![("vary", "origin")]));
}

#[tokio::test]
async fn a_page_that_depends_on_everything_says_that_alone() {
    let page = async |call: Call| {
        let mut reply = Reply::text("page");
        for line in call.context.header_values("x-vary") {
            reply.headers.append("vary", line.clone());
        }
        Ok::<_, Error>(reply)
    };
    for cors in [None, Some(Cors::new(["https://app.example"]))] {
        let is_added = cors.is_some();
        let mut builder = Server::builder().mount("/", page);
        if let Some(cors) = cors {
            builder = builder.cors(cors);
        }
        let server = crate::host::start(builder).await;
        for (lines, expected) in [
            ("x-vary: *\r\n", "*"),
            ("x-vary: accept\r\nx-vary: *\r\n", "*"),
            ("x-vary: *\r\nx-vary: origin\r\n", "*"),
            ("x-vary: cookie , *\r\n", "*"),
            ("x-vary: accept\r\n", if is_added { "accept, origin" } else { "accept" }),
        ] {
            let answer = send(&server, "GET", "/page", lines, b"").await;
            assert_eq!(answer.lines_of("vary"), [expected], "{lines} {is_added}");
        }
    }
}

#[tokio::test]
async fn all_pages_may_call_where_that_is_set() {
    let server = start(Some(Cors::new(["*"]))).await;
    let answer = send(&server, "POST", "/fine", &from("https://any.example", ""), b"").await;
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert_eq!(answer.header("access-control-allow-credentials"), None);
}

#[tokio::test]
async fn nothing_is_said_unless_it_is_asked_for() {
    for server in [start(None).await, start(Some(Cors::default())).await] {
        let answer = send(&server, "POST", "/fine", &from("https://a.example", ""), b"").await;
        assert_eq!((answer.status, said(&answer)), (403, vec![]));
        let asking = from("https://a.example", ASKING);
        let answer = send(&server, "OPTIONS", "/fine", &asking, b"").await;
        assert_eq!(
            (answer.status, said(&answer)),
            (405, vec![]),
            "a route answers, as for any verb"
        );
    }
}

#[tokio::test]
async fn a_server_with_settings_that_exclude_each_other_does_not_start() {
    let mut cors = Cors::new(["*"]);
    cors.credentials = true;
    let error = Server::builder().cors(cors).start().await.unwrap_err();
    assert!(matches!(error, StartError::Cors(_)));
    let text = error.to_string();
    assert!(text.contains("cors.origins") && text.contains("cors.credentials"), "{text}");
}

#[tokio::test]
async fn a_page_of_another_site_that_names_no_origin_opens_no_websocket() {
    let server = start(Some(Cors::new(["https://app.example"]))).await;
    for (headers, status) in [
        ("", 101),
        ("sec-fetch-site: same-origin\r\n", 101),
        ("sec-fetch-site: none\r\n", 101),
        ("sec-fetch-site: cross-site\r\n", 403),
        ("sec-fetch-site: same-site\r\n", 403),
        ("sec-fetch-site: same-origin\r\nsec-fetch-site: cross-site\r\n", 403),
        ("sec-fetch-site: same-origin\r\norigin: http://test\r\n", 101),
        ("sec-fetch-site: same-origin\r\norigin: https://evil.example\r\n", 403),
        ("sec-fetch-site: cross-site\r\norigin: http://test\r\n", 403),
        ("sec-fetch-site: cross-site\r\norigin: https://evil.example\r\n", 403),
        ("sec-fetch-site: cross-site\r\norigin: https://app.example\r\n", 101),
    ] {
        let mut stream = crate::host::connect(&server).await;
        let head = format!(
            "GET /tidewire.live.v1 HTTP/1.1\r\nhost: test\r\nconnection: upgrade\r\n\
             upgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             sec-websocket-protocol: tidewire.live.v1\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(str::from_utf8(&answer).unwrap(), format!("HTTP/1.1 {status}"), "{headers}");
    }
}
