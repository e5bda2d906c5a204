//! A gate that authenticates by the head: nothing passes it, on any protocol, and nothing behind it
//! has read a byte.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidewire::client::Protocol;
use tidewire::gate::{Admission, GateFuture};
use tidewire::{Client, Code, Error, Gate, Head, Principal, Result, Stream};
use tidewire_tests::proto::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{EVERY_WAY, Way, ask, things};
use crate::harness::{behaviour, send, start};

fn authenticate(head: &mut Head) -> Result<()> {
    match head.context.header("authorization").map(|value| value.as_bytes()) {
        Some(b"Bearer ada") => head.context.set_principal(Principal::new("example", "ada")),
        _ => return Err(Error::unauthenticated("send a bearer token")),
    }
    Ok(())
}

#[tokio::test]
async fn a_caller_without_credentials_is_refused_on_every_way_and_a_handler_knows_the_others() {
    let (_running, address) = start(things().gate(authenticate)).await;
    for way in EVERY_WAY {
        let refused = ask(way, address, "whoami", "").await;
        refused.check(401, &["unauthenticated", "send a bearer token"]);
        let known = ask(way, address, "whoami", "authorization: Bearer ada\n").await;
        known.check(200, &["\"size\":3"]);
    }
}

#[tokio::test]
async fn what_does_not_exist_is_refused_before_it_is_looked_for() {
    let (_running, address) = start(things().gate(authenticate)).await;
    send(address, "GET /nowhere", b"").await.check(401, &["bearer"]);
    send(address, "DELETE /plain/a", b"").await.check(401, &["bearer"]);
    let unknown = "POST /test.v1.Things/Nothing\ncontent-type: application/json";
    send(address, unknown, b"{}").await.check(401, &["bearer"]);
    let with = format!("{unknown}\nauthorization: Bearer ada");
    send(address, &with, b"{}").await.check(404, &["no method"]);
}

#[tokio::test]
async fn every_rpc_protocol_passes_the_gate_and_is_answered_in_its_own_words() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder.gate(authenticate)).await;
    for protocol in [Protocol::Connect, Protocol::Grpc, Protocol::GrpcWeb, Protocol::Live] {
        let client = Client::builder(format!("http://{address}")).protocol(protocol);
        let client = BehaviourServiceClient::new(client.build().unwrap().channel());
        let error = client.echo(EchoRequest::default()).await.unwrap_err();
        assert_eq!(error.code(), Code::Unauthenticated, "{protocol:?}");
        assert_eq!(error.message(), "send a bearer token", "{protocol:?}");
        let error = client.count(CountRequest { n: 1, ..Default::default() }).await;
        let error = match error {
            Ok(reply) => { reply.body }.next().await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.code(), Code::Unauthenticated, "{protocol:?}");
        let requests = Stream::from_values([SumRequest::default()]);
        let error = client.sum(requests).await.unwrap_err();
        assert_eq!(error.code(), Code::Unauthenticated, "{protocol:?}");
    }
}

#[tokio::test]
async fn a_refused_request_is_answered_although_its_body_never_comes() {
    let (_running, address) = start(things().gate(authenticate)).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "POST /sink HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n\
                content-length: 1000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 401");
}

/// Waits until it is told, which it never is.
struct Stuck;

impl Gate for Stuck {
    fn admit(&self, _: &mut Head) -> Admission {
        Admission::Waits
    }

    fn wait<'a>(&'a self, _: &'a mut Head) -> GateFuture<'a> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_gate_waits_no_longer_than_the_caller() {
    let (_running, address) = start(things().gate(Stuck)).await;
    for way in EVERY_WAY {
        let late = ask(way, address, "a", "connect-timeout-ms: 30\n").await;
        late.check(504, &["deadline_exceeded"]);
    }
}

#[tokio::test]
async fn a_gate_that_panics_refuses_its_request_and_no_other() {
    let gate = |head: &mut Head| {
        assert!(!head.target.describe().contains("panic"), "asked for");
        Ok(())
    };
    let (_running, address) = start(things().gate(gate)).await;
    ask(Way::Plain, address, "panic", "").await.check(500, &["internal"]);
    ask(Way::Plain, address, "fine", "").await.check(200, &["\"size\":4"]);
}

#[tokio::test]
async fn the_first_gate_that_refuses_is_the_last_that_is_asked() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let second = move |_: &mut Head| {
        counter.fetch_add(1, Ordering::SeqCst);
        Ok(())
    };
    let (_running, address) = start(things().gate(authenticate).gate(second)).await;
    ask(Way::Rest, address, "a", "").await.check(401, &[]);
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    ask(Way::Rest, address, "a", "authorization: Bearer ada\n").await.check(200, &[]);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_browser_asks_for_other_origins_without_credentials() {
    let cors = tidewire::server::Cors::new(["http://pages.example"]);
    let (_running, address) = start(things().gate(authenticate).cors(cors)).await;
    let question = "OPTIONS /plain/a\norigin: http://pages.example\n\
                    access-control-request-method: GET";
    let answer = send(address, question, b"").await;
    assert!(answer.head.contains("access-control-allow-origin"), "{answer:?}");
    assert!((200..300).contains(&answer.status), "{answer:?}");
}

#[tokio::test]
async fn a_gate_that_has_to_be_asked_in_this_process_is() {
    let service: Arc<dyn tidewire::Service> = Arc::new(async |_: tidewire::Call| Ok("answered"));
    let gated = tidewire::gate::gated(vec![Arc::new(authenticate)], service);
    let call = || {
        let uri = tidewire::http::Uri::from_static("/");
        tidewire::Call::http(tidewire::http::Method::GET, uri, Default::default(), "")
    };
    let error = tidewire::Service::call(&gated, call()).await.unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated);
    let mut with = call();
    with.context.headers_mut().insert("authorization", "Bearer ada".parse().unwrap());
    assert!(tidewire::Service::call(&gated, with).await.is_ok());
}
