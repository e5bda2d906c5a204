//! The header that tells a program of plain HTTP, or a page, who calls: none but the gateway says
//! it.

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, Method};
use serde_json::{Value, json};
use tidewire_client::{Client, HttpVersion, Protocol};
use tidewire_hosting::{Listen, Program};
use tidewire_proxy::{Route, Routes};
use tidewire_server::{Address, Server};
use tidewire_service::{Admission, Authorization, Body, Gate, Head, Principal, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{host, python, text};

/// Takes a bearer token for a name, in place of what authenticates.
pub(crate) struct Names;

impl Gate for Names {
    fn admit(&self, head: &mut Head) -> Admission {
        if let Ok(Authorization::Bearer(name)) = Authorization::of(head.context.headers()) {
            let name = String::from_utf8_lossy(name).into_owned();
            head.context.set_principal(named(&name));
        }
        Admission::Ready(Ok(()))
    }
}

fn named(name: &str) -> Principal {
    let known = Principal::new("https://id.example", format!("\u{e4}{name} \"\\ \u{1f30a}"));
    let known = if name == "da" { known.with_scope("read") } else { known };
    known.with_scope("write").with_claim("tenant", "a")
}

/// Ways to write the name that some program takes for the name itself.
const NAMES: [&str; 6] = [
    "tidewire-principal",
    "tidewire_principal",
    "tidewire.principal",
    "tidewire-principal.",
    "tidewire~principal",
    "tidewire|principal",
];
const FORGED: &str = r#"{"issuer":"i","subject":"root","scopes":["read"]}"#;

/// The programs: one of plain HTTP by its route, and in place of a handler, and one of the live
/// protocol, whose pages they are.
const PLACES: [&str; 3] = ["/plain/principal", "/direct/principal", "/native/principal"];

/// How a program is asked.
#[derive(Debug, Clone, Copy)]
enum Way {
    Http1,
    Http2,
    Live,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_told_who_calls_and_what_a_caller_says_of_that_never_arrives() {
    let host = host();
    let plain = host.add(python(&[]).listen(Listen::Unix), crate::patient_limits());
    let service = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/python/tests/service.py");
    let native = Program::new("native", ["python3", "-I", "-S", service, "threads"]);
    let native = host.add(native.listen(Listen::Native), crate::patient_limits());
    let mut sites = Routes::new();
    for (route, hosted) in [("/plain/*", &plain), ("/native/*", &native)] {
        let site = Route::new(route).unwrap().strip_prefix(true);
        sites.add(site, hosted.clone()).unwrap();
    }
    let address: Address = "127.0.0.1:0".parse().unwrap();
    let server = Server::builder().listen(address).gate(Names).mount("/", sites);
    let running = server.mount("/direct", plain).start().await.unwrap();
    for place in PLACES {
        for way in [Way::Http1, Way::Http2, Way::Live] {
            let nobody = ask(&running.url(), way, place, None).await;
            assert_eq!(nobody, "", "{way:?} {place}");
            let told = ask(&running.url(), way, place, Some("da")).await;
            let told: Value = serde_json::from_str(&told).unwrap();
            let (subject, claims) = ("\u{e4}da \"\\ \u{1f30a}", json!({ "tenant": "a" }));
            let scopes = ["read", "write"];
            let expected = json!({ "issuer": "https://id.example", "subject": subject, "scopes": scopes, "claims": claims });
            assert_eq!(told, expected, "{way:?} {place}");
        }
    }
    running.drain().await;
    host.stop().await;
}

/// What the program answers to a caller who says to be somebody else in all these ways.
async fn ask(url: &str, way: Way, place: &str, name: Option<&str>) -> String {
    let client = Client::builder(url);
    let client = match way {
        Way::Http1 => return ask_plainly(url, place, name).await,
        Way::Http2 => client.http(HttpVersion::Http2),
        Way::Live => client.protocol(Protocol::Live),
    };
    let mut call = crate::call(Method::GET, place, Body::Empty);
    let headers = call.context.headers_mut();
    for said in NAMES {
        headers.append(HeaderName::from_static(said), HeaderValue::from_static(FORGED));
    }
    if let Some(name) = name {
        headers.insert(AUTHORIZATION, format!("Bearer {name}").parse().unwrap());
    }
    // Its session is there until the page was read.
    let client = client.build().unwrap();
    let reply = client.call(call).await.unwrap();
    assert_eq!(reply.status, 200, "{way:?} {place}");
    let says = |name: &HeaderName| name.as_str().starts_with("tidewire");
    assert!(!reply.headers.keys().any(says), "{way:?} {place}: {:?}", reply.headers);
    text(reply.body.collect(1 << 20).await.unwrap())
}

async fn ask_plainly(url: &str, place: &str, name: Option<&str>) -> String {
    let mut caller = TcpStream::connect(url.trim_start_matches("http://")).await.unwrap();
    let mut asked = format!("GET {place} HTTP/1.0\r\nHost: 127.0.0.1\r\n");
    for said in NAMES.into_iter().chain(["Tidewire-Principal", "TIDEWIRE_PRINCIPAL"]) {
        asked += &format!("{said}: {FORGED}\r\n");
    }
    asked += "Connection: Tidewire-Principal, close\r\n";
    asked += &name.map_or_else(String::new, |name| format!("Authorization: Bearer {name}\r\n"));
    caller.write_all(format!("{asked}\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    caller.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{answer}");
    assert!(!head.to_lowercase().contains("tidewire"), "{answer}");
    body.to_owned()
}
