//! The client over TLS and Unix sockets: whom it trusts, who it is, what is negotiated.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidewire::client::{HttpVersion, Protocol, Step, Trace};
use tidewire::server::{Tls, TlsFiles};
use tidewire::{Address, Client, Code, Context, Error};
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

/// The certificate that a server shows, whoever trusts it.
async fn shown(address: SocketAddr) -> Vec<u8> {
    let certificate = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&certificate);
    let mut context = Context::default();
    context.extensions_mut().insert(Trace::new(move |event| {
        if let Step::Secured(found) = &event.step {
            *seen.lock().unwrap() = found.certificates[0].to_vec();
        }
    }));
    let unverified = tidewire::client::Tls::new().danger_without_verification();
    look(&client(address, Protocol::Grpc, unverified), context).await.unwrap();
    certificate.lock().unwrap().clone()
}

#[tokio::test]
async fn certificates_that_change_are_shown_to_new_connections_and_open_ones_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
    std::fs::write(&certificate, SERVER.0).unwrap();
    std::fs::write(&key, SERVER.1).unwrap();
    let files = TlsFiles {
        certificate: certificate.clone(),
        key: key.clone(),
        also: Vec::new(),
        client_authorities: None,
        clients_optional: false,
    };
    let (builder, _) = behaviour();
    let tls = Tls::of_files_seen_every(Duration::ZERO, files).unwrap();
    let (_running, address) = start(builder.tls(tls)).await;
    let open = client(address, Protocol::Grpc, trusting());
    assert_eq!(look(&open, Context::default()).await.unwrap(), "value of k");
    let first = shown(address).await;
    let replace = |path: &Path, pem: &[u8]| {
        let other = folder.path().join("new");
        std::fs::write(&other, pem).unwrap();
        std::fs::rename(other, path).unwrap();
    };
    // A certificate without its key changes nothing.
    replace(&certificate, CLIENT.0);
    assert_eq!(shown(address).await, first);
    replace(&key, CLIENT.1);
    assert_ne!(shown(address).await, first);
    assert_eq!(look(&open, Context::default()).await.unwrap(), "value of k");
    assert_eq!(open.open_connections(), 1, "it is the one that was open");
}

#[tokio::test]
async fn a_client_certificate_says_who_calls_and_may_be_left_out_where_it_is_optional() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, pem: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path.display().to_string()
    };
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[server.tls]\ncertificate = \"{}\"\nkey = \"{}\"\n\
         client_authorities = \"{}\"\nclients_optional = true\n[auth]\ncertificates = true\n",
        file("c.pem", SERVER.0),
        file("k.pem", SERVER.1),
        file("a.pem", AUTHORITY),
    );
    let config = tidewire::config::Config::parse(&text, "t.toml").unwrap();
    let who = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&who);
    let see = move |head: &mut tidewire::Head| {
        let subject = head.context.principal().map(|principal| principal.subject().to_owned());
        let is_secure = head.context.peer().is_some_and(|peer| peer.is_secure);
        seen.lock().unwrap().push((subject, is_secure));
        Ok(())
    };
    let service = BehaviourServiceServer::new(tidewire_tests::behaviour::Behaviour::default());
    let running = config.server().unwrap().service(service).gate(see).start().await.unwrap();
    let Address::Tcp(address) = running.addresses()[0] else { panic!("no TCP address") };
    for protocol in [Protocol::Connect, Protocol::Grpc, Protocol::GrpcWeb, Protocol::Live] {
        let known = client(address, protocol, trusting().identity(CLIENT.0, CLIENT.1));
        assert_eq!(look(&known, Context::default()).await.unwrap(), "value of k", "{protocol:?}");
        let (subject, is_secure) = who.lock().unwrap().pop().unwrap();
        assert!(subject.unwrap() == "client.example" && is_secure, "{protocol:?}");
        let nobody = client(address, protocol, trusting());
        let error = look(&nobody, Context::default()).await.unwrap_err();
        assert_eq!(error.code(), Code::Unauthenticated, "{protocol:?}: {error}");
    }
}

/// Its own certificate for these names, by openssl.
fn made(folder: &Path, name: &str, names: &str) -> (PathBuf, PathBuf) {
    let [certificate, key] = ["pem", "key"].map(|end| folder.join(format!("{name}.{end}")));
    let output = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-days", "2", "-subj", &format!("/CN={name}")])
        .args(["-addext", &format!("subjectAltName={names}")])
        .args(["-keyout".as_ref(), key.as_os_str(), "-out".as_ref(), certificate.as_os_str()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (certificate, key)
}

#[tokio::test]
async fn a_client_is_shown_the_certificate_for_the_name_that_it_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let first = made(folder.path(), "first", "DNS:first.example");
    let shops = made(folder.path(), "shops", "DNS:shop.example,DNS:*.shop.example");
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[server.tls]\ncertificate = \"{}\"\nkey = \"{}\"\n\
         [[server.tls.also]]\ncertificate = \"{}\"\nkey = \"{}\"\n",
        first.0.display(),
        first.1.display(),
        shops.0.display(),
        shops.1.display(),
    );
    let config = tidewire::config::Config::parse(&text, "t.toml").unwrap();
    let running = config.server().unwrap().start().await.unwrap();
    let address = running.addresses()[0].to_string();
    for (asked, shown) in [
        (Some("first.example"), "first"),
        (Some("shop.example"), "shops"),
        (Some("a.shop.example"), "shops"),
        (Some("a.b.shop.example"), "first"),
        (Some("other.example"), "first"),
        (None, "first"),
    ] {
        let mut openssl = std::process::Command::new("openssl");
        openssl.args(["s_client", "-connect", &address]).stdin(std::process::Stdio::null());
        match asked {
            Some(name) => openssl.args(["-servername", name]),
            None => openssl.arg("-noservername"),
        };
        let output = tokio::task::spawn_blocking(move || openssl.output()).await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let subject = text.lines().find_map(|line| line.strip_prefix("subject=")).unwrap_or("");
        assert_eq!(subject.replace(' ', ""), format!("CN={shown}"), "{asked:?}: {text}");
    }
}

#[tokio::test]
async fn an_upstream_over_tls_is_trusted_by_the_authorities_of_its_service_or_not_called() {
    let (builder, _) = behaviour();
    let (_upstream, upstream) = start(builder.tls(Tls::new(SERVER.0, SERVER.1).unwrap())).await;
    let protos = tidewire_tests::program::root().join("tests/proto");
    let schema = tidewire::Schema::compile(&tidewire::config::sources(&protos)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let other = made(folder.path(), "other", "DNS:localhost").0;
    let own = folder.path().join("authority.pem");
    std::fs::write(&own, AUTHORITY).unwrap();
    for (authorities, expected) in [(own, Ok("value of k")), (other, Err(Code::Unavailable))] {
        let text = format!(
            "[[service]]\nproto = \"{}\"\nbackend = \"upstream\"\nurl = \"https://127.0.0.1:{}\"\n\
             authorities = \"{}\"\n",
            protos.display(),
            upstream.port(),
            authorities.display(),
        );
        let config = tidewire::config::Config::parse(&text, "t.toml").unwrap();
        let upstream = config.schemas().next().unwrap().upstream(&schema).unwrap();
        let served = schema.serve("tidewire.test.v1.BehaviourService", upstream).unwrap();
        let (_running, front) = start(tidewire::Server::builder().service(served)).await;
        let client = Client::builder(format!("http://{front}")).build().unwrap();
        let answer = look(&client, Context::default()).await;
        assert_eq!(answer.as_deref().map_err(Error::code), expected, "{answer:?}");
    }
}
