//! The client over TLS and Unix sockets: whom it trusts, who it is, what is negotiated.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tidewire::client::{HttpVersion, Protocol, Step, Trace};
use tidewire::{Address, Client, Code, Context, Error, Tls};
use tidewire_tests::proto::*;

use crate::harness::{behaviour, start};

const AUTHORITY: &[u8] = include_bytes!("../fixtures/tls/authority.pem");
const SERVER: (&[u8], &[u8]) =
    (include_bytes!("../fixtures/tls/server.pem"), include_bytes!("../fixtures/tls/server.key"));
const CLIENT: (&[u8], &[u8]) =
    (include_bytes!("../fixtures/tls/client.pem"), include_bytes!("../fixtures/tls/client.key"));

fn trusting() -> tidewire::client::Tls {
    tidewire::client::Tls::new().authorities(AUTHORITY)
}

fn client(address: SocketAddr, protocol: Protocol, tls: tidewire::client::Tls) -> Client {
    let url = format!("https://127.0.0.1:{}", address.port());
    Client::builder(url).protocol(protocol).tls(tls).build().unwrap()
}

async fn look(client: &Client, context: Context) -> Result<String, Error> {
    let typed = BehaviourServiceClient::new(client.channel());
    let request = LookRequest { key: "k".into(), ..Default::default() };
    Ok(BehaviourService::look(&typed, context, request).await?.body.value)
}

#[tokio::test]
async fn tls_negotiates_http2_and_tells_what_it_agreed_on() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder.tls(Tls::new(SERVER.0, SERVER.1).unwrap())).await;
    for protocol in [Protocol::Connect, Protocol::Grpc, Protocol::GrpcWeb] {
        let secured = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&secured);
        let mut context = Context::default();
        context.extensions_mut().insert(Trace::new(move |event| {
            if let Step::Secured(found) = &event.step {
                *seen.lock().unwrap() = Some((*found).clone());
            }
        }));
        assert_eq!(
            look(&client(address, protocol, trusting()), context).await.unwrap(),
            "value of k"
        );
        let secured = secured.lock().unwrap().take().unwrap();
        assert_eq!(secured.alpn.as_deref(), Some("h2"));
        assert_eq!(secured.version, "TLSv1_3");
        assert_eq!(secured.certificates.len(), 1);
    }
    let old = Client::builder(format!("https://localhost:{}", address.port()))
        .http(HttpVersion::Http1)
        .tls(trusting())
        .build()
        .unwrap();
    assert_eq!(look(&old, Context::default()).await.unwrap(), "value of k");
}

#[tokio::test]
async fn a_certificate_has_to_be_trusted_and_for_the_host() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder.tls(Tls::new(SERVER.0, SERVER.1).unwrap())).await;
    let other = tidewire::client::Tls::new().authorities(SERVER.0);
    let wrong_name = trusting().server_name("shop.example");
    for (tls, expected) in
        [(other, "certificate is not accepted"), (wrong_name, "certificate is not accepted")]
    {
        let error =
            look(&client(address, Protocol::Grpc, tls), Context::default()).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable, "{error}");
        assert!(error.message().contains(expected), "{error}");
        assert!(error.message().contains(&address.to_string()), "{error}");
    }
    let unverified = tidewire::client::Tls::new().danger_without_verification();
    let client = client(address, Protocol::Grpc, unverified);
    assert_eq!(look(&client, Context::default()).await.unwrap(), "value of k");
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_ours() {
    let (builder, _) = behaviour();
    let tls = Tls::with_client_authorities(SERVER.0, SERVER.1, AUTHORITY).unwrap();
    let (_running, address) = start(builder.tls(tls)).await;
    let known = client(address, Protocol::Connect, trusting().identity(CLIENT.0, CLIENT.1));
    assert_eq!(look(&known, Context::default()).await.unwrap(), "value of k");
    let unknown = client(address, Protocol::Connect, trusting());
    let error = look(&unknown, Context::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
}

#[tokio::test]
async fn tls_and_plain_text_that_meet_are_told_apart() {
    let (builder, _) = behaviour();
    let (_plain, plain) = start(builder).await;
    let error =
        look(&client(plain, Protocol::Connect, trusting()), Context::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    assert!(error.message().contains("TLS handshake with"), "{error}");
    assert!(error.message().contains("speak TLS on this port"), "{error}");

    let (builder, _) = behaviour();
    let (_secure, secure) = start(builder.tls(Tls::new(SERVER.0, SERVER.1).unwrap())).await;
    for protocol in [Protocol::Connect, Protocol::Grpc] {
        let client =
            Client::builder(format!("http://{secure}")).protocol(protocol).build().unwrap();
        let error = look(&client, Context::default()).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable, "{error}");
        assert!(error.message().contains(&secure.to_string()), "{error}");
    }
}

#[tokio::test]
async fn a_unix_socket_is_called_over_http1_and_http2() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("server.sock");
    let (builder, _) = behaviour();
    let _running = builder.listen(Address::Unix(socket.clone())).start().await.unwrap();
    for protocol in [Protocol::Connect, Protocol::Grpc, Protocol::GrpcWeb] {
        let url = format!("unix:{}", socket.display());
        let client = Client::builder(url).protocol(protocol).build().unwrap();
        assert_eq!(look(&client, Context::default()).await.unwrap(), "value of k");
    }
    let url = format!("unix:{}/none.sock", folder.path().display());
    let client = Client::builder(url).build().unwrap();
    let error = look(&client, Context::default()).await.unwrap_err();
    assert!(error.message().contains("there is no such socket"), "{error}");
}
