//! Whom a server believes about its callers, and from where it takes calls.

use http::Method;
use http::header::HOST;
use tidewire_rest::RestOptions;
use tidewire_server::{AccessRules, CallerAddresses, RunningServer, Server};
use tidewire_service::{Access, Admission, Call, Error, Gate, Head, Peer};

use crate::host::{over_http1, over_http2, start};
use crate::http::json;

/// Says by which address, scheme and host it was called.
async fn server(callers: CallerAddresses) -> RunningServer {
    let who = async |call: Call| {
        let peer = call.context.peer().cloned().unwrap();
        let address = peer.address.map(|address| address.ip().to_string()).unwrap_or_default();
        let host = call.context.header(HOST).and_then(|host| host.to_str().ok());
        let of_target = call.http_target().and_then(|target| target.uri.authority());
        let host =
            host.map_or_else(|| of_target.map(ToString::to_string), |host| Some(host.to_owned()));
        Ok(format!("{address} {} {}", Peer::scheme(&peer), host.unwrap_or_default()))
    };
    start(Server::builder().callers(callers).route(Method::GET, "/who", who)).await
}

fn callers() -> CallerAddresses {
    CallerAddresses::default()
}

const TOLD: [(&str, &str); 3] = [
    ("x-forwarded-for", "6.6.6.6, 192.0.2.7"),
    ("x-forwarded-proto", "https"),
    ("x-forwarded-host", "shop.example"),
];

async fn both(server: &RunningServer, headers: &[(&str, &str)]) -> [(u16, String); 2] {
    let lines: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("GET /who HTTP/1.1\r\nhost: proxy.example\r\n{lines}");
    let over_http2 = over_http2(server, "http://proxy.example/who", headers).await;
    [over_http1(server, &head).await, over_http2]
}

#[tokio::test]
async fn only_a_trusted_proxy_is_believed_about_its_callers() {
    for (callers, expected) in [
        (callers(), "127.0.0.1 http proxy.example"),
        (callers().trust(["10.0.0.7"]).unwrap(), "127.0.0.1 http proxy.example"),
        (callers().trust(["127.0.0.0/8"]).unwrap(), "192.0.2.7 https shop.example"),
        (callers().trust(["127.0.0.1", "192.0.2.7"]).unwrap(), "6.6.6.6 https shop.example"),
    ] {
        let server = server(callers.clone()).await;
        for answered in both(&server, &TOLD).await {
            assert_eq!(answered, (200, expected.to_owned()), "{callers:?}");
        }
    }
    let server = server(callers().trust(["127.0.0.1"]).unwrap()).await;
    for (status, body) in both(&server, &[("x-forwarded-for", "nonsense")]).await {
        assert!(status == 400 && body.contains("header x-forwarded-for"), "{status} {body}");
    }
}

#[tokio::test]
async fn calls_are_taken_from_the_addresses_that_are_let_in() {
    for (callers, told, refused_by) in [
        (callers().deny(["127.0.0.1"]).unwrap(), &[][..], Some("server.deny")),
        (callers().allow(["10.0.0.0/8"]).unwrap(), &[], Some("server.allow")),
        (callers().allow(["10.0.0.0/8"]).unwrap(), &TOLD, Some("server.allow")),
        (callers().allow(["127.0.0.0/8"]).unwrap(), &[], None),
        (callers().deny(["192.0.2.0/24"]).unwrap(), &TOLD, None),
        (
            callers().deny(["192.0.2.0/24"]).unwrap().trust(["127.0.0.1"]).unwrap(),
            &TOLD,
            Some("server.deny"),
        ),
        (callers().allow(["192.0.2.0/24"]).unwrap().trust(["127.0.0.1"]).unwrap(), &TOLD, None),
    ] {
        let server = server(callers.clone()).await;
        for (status, body) in both(&server, told).await {
            let expected = refused_by.map_or(200, |_| 403);
            assert_eq!(status, expected, "{callers:?} {told:?}: {body}");
            assert!(body.contains(refused_by.unwrap_or_default()), "{body}");
        }
    }
}

/// Refuses everybody.
struct Closed;

impl Gate for Closed {
    fn admit(&self, _: &mut Head) -> Admission {
        Admission::Ready(Err(Error::unauthenticated("nobody passes")))
    }
}

#[tokio::test]
async fn no_gate_of_a_program_covers_health_and_the_schema_has_a_rule() {
    const HEALTH: &str = "/grpc.health.v1.Health/Check";
    /// The end of a stream without messages.
    const NOTHING: &[u8] = b"\x02\0\0\0\x02{}";
    let rules = AccessRules::default;
    for (rules, health, schema) in [
        (rules(), 200, 401),
        (rules().reflection(Access::Anonymous), 200, 200),
        (rules().reflection(Access::Authenticated), 200, 401),
        (rules().otherwise(Access::Authenticated), 200, 401),
        (rules().method("grpc.health.v1.Health/*", Access::Authenticated), 401, 401),
    ] {
        let builder = super::rest::service::builder(RestOptions::default());
        let server = builder.gate(Closed).access(rules.clone()).start().await.unwrap();
        assert_eq!(json(&server, "POST", HEALTH, "{}").await.status, health, "{rules:?}");
        let document = crate::http::get(&server, "/openapi.json").await;
        assert_eq!(document.status, schema, "{rules:?}");
        let content = "content-type: application/connect+json\r\n";
        let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
        let asked = crate::http::send(&server, "POST", reflection, content, NOTHING).await;
        let is_refused = String::from_utf8_lossy(&asked.body).contains("unauthenticated");
        assert_eq!(is_refused, schema == 401, "{rules:?}: {asked:?}");
        let other = json(&server, "POST", "/rest.v1.Echo/Query", "{}").await;
        assert_eq!(other.status, 401, "{rules:?}");
    }
}
