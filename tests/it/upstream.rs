//! A remote service behind our server: what its callers see is what it says, over any two
//! protocols.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidewire::client::{HttpVersion, Protocol, Step, Trace, Upstream};
use tidewire::config::Config;
use tidewire::http::{HeaderName, Method};
use tidewire::{Call, Client, Code, Codec, Context, Reply, Schema, Server, Stream};
use tidewire_tests::program::{root, tool};
use tidewire_tests::proto::*;
use tidewire_tests::served::Served;

use crate::harness::{behaviour, nobody, start};

const SERVICE: &str = "tidewire.test.v1.BehaviourService";

fn client(address: SocketAddr, protocol: Protocol, http: HttpVersion) -> Client {
    Client::builder(format!("http://{address}")).protocol(protocol).http(http).build().unwrap()
}

/// Whether requests and replies can be on their way at once. connect-go and connect-es refuse that
/// over HTTP/1.1.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Duplex {
    Full,
    Half,
}

impl Duplex {
    fn of(http: HttpVersion) -> Self {
        if http == HttpVersion::Http1 { Self::Half } else { Self::Full }
    }
}

/// Every behaviour, as a typed client sees it.
async fn check_every_behaviour(way: &str, client: &Client, duplex: Duplex) {
    let typed = BehaviourServiceClient::new(client.channel());
    let mut context = Context::default();
    context.headers_mut().insert("x-ping", "there".parse().unwrap());
    let request = EchoRequest {
        text: "ä".into(),
        number: i64::MIN,
        data: vec![0, 255],
        ..Default::default()
    };
    let reply = BehaviourService::echo(&typed, context, request).await;
    let reply = reply.unwrap_or_else(|error| panic!("{way}: {error:?}"));
    assert_eq!((reply.body.text.as_str(), reply.body.number), ("ä", i64::MIN), "{way}");
    assert_eq!(reply.headers["x-pong"], "there", "{way}");
    assert_eq!(reply.trailers["x-pong-trailer"], "there", "{way}");

    let mut numbers = typed.count(CountRequest { n: 3, ..Default::default() }).await.unwrap().body;
    for expected in 1..=3 {
        assert_eq!(numbers.next().await.unwrap().unwrap().number, expected, "{way}");
    }
    assert!(numbers.next().await.unwrap().is_none(), "{way}");

    let request = CountRequest { n: 3, fail_after: 2, ..Default::default() };
    let mut numbers = typed.count(request).await.unwrap().body;
    assert_eq!(numbers.next().await.unwrap().unwrap().number, 1, "{way}");
    assert_eq!(numbers.next().await.unwrap().unwrap().number, 2, "{way}");
    let error = numbers.next().await.unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::Aborted, "stopped after 2"), "{way}");

    let values =
        Stream::from_values((1..=4).map(|value| SumRequest { value, ..Default::default() }));
    let sum = typed.sum(values).await.unwrap().body;
    assert_eq!((sum.total, sum.messages), (10, 4), "{way}");

    if duplex == Duplex::Full {
        let texts =
            ["a", "b"].map(|text| ChatRequest { text: text.to_owned(), ..Default::default() });
        let mut replies = typed.chat(Stream::from_values(texts)).await.unwrap().body;
        assert_eq!(replies.next().await.unwrap().unwrap().text, "a", "{way}");
        assert_eq!(replies.next().await.unwrap().unwrap().text, "b", "{way}");
        assert!(replies.next().await.unwrap().is_none(), "{way}");
    }

    let request = FailRequest {
        code: 9,
        message: "100 % grün".into(),
        with_detail: true,
        ..Default::default()
    };
    let error = typed.fail(request).await.unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::FailedPrecondition, "100 % grün"), "{way}");
    let details: Vec<_> = error.details().iter().map(|d| d.type_name.as_str()).collect();
    assert_eq!(details, ["tidewire.test.v1.FailDetail"], "{way}");
    let known = error.headers().get("x-fail").or_else(|| error.trailers().get("x-fail"));
    assert_eq!(known.expect("the header of the error"), "yes", "{way}");
}

/// Every protocol, and each version of HTTP where that matters to an upstream.
const WAYS: [(Protocol, HttpVersion); 4] = [
    (Protocol::Connect, HttpVersion::Http1),
    (Protocol::Connect, HttpVersion::Http2),
    (Protocol::Grpc, HttpVersion::Http2),
    (Protocol::GrpcWeb, HttpVersion::Http1),
];

/// A server in front of `upstream`, called over every protocol.
async fn check_in_front_of(name: &str, upstream: Client, duplex: Duplex) {
    let schema = Schema::from_folder(root().join("tests/proto")).unwrap();
    let upstream = Upstream::new(upstream).protobuf_only(&schema);
    let server = Server::builder().service(schema.serve(SERVICE, upstream).unwrap());
    let (_running, front) = start(server).await;
    for (protocol, http) in WAYS {
        let way = format!("{protocol:?} {http:?} in front of {name}");
        check_every_behaviour(&way, &client(front, protocol, http), duplex).await;
        let json = Client::builder(format!("http://{front}"))
            .protocol(protocol)
            .http(http)
            .codec(Codec::Json)
            .build()
            .unwrap();
        check_every_behaviour(&format!("{way}, JSON"), &json, duplex).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_server_is_an_upstream_over_every_protocol() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    for (protocol, http) in WAYS {
        let upstream = client(address, protocol, http);
        check_in_front_of(&format!("ours over {protocol:?} {http:?}"), upstream, Duplex::Full)
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_go_is_called_and_is_an_upstream() {
    let served = Served::start(tool("foreign-go-server"), &[], 1).await;
    for (protocol, http) in [
        (Protocol::Connect, HttpVersion::Http1),
        (Protocol::Connect, HttpVersion::Http2),
        (Protocol::Grpc, HttpVersion::Http2),
        (Protocol::GrpcWeb, HttpVersion::Http1),
        (Protocol::GrpcWeb, HttpVersion::Http2),
    ] {
        let client = client(served.addresses[0], protocol, http);
        let (way, duplex) = (format!("connect-go {protocol:?} {http:?}"), Duplex::of(http));
        check_every_behaviour(&way, &client, duplex).await;
        check_in_front_of(&way, client, duplex).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_go_is_called_and_is_an_upstream() {
    let served = Served::start(tool("foreign-grpc-server"), &[], 1).await;
    let client = client(served.addresses[0], Protocol::Grpc, HttpVersion::Auto);
    check_every_behaviour("grpc-go", &client, Duplex::Full).await;
    let trailers = trailers_of_count(&client).await;
    assert_eq!(trailers["x-counted"], "2");
    check_in_front_of("grpc-go", client, Duplex::Full).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_made_again_when_grpc_go_says_and_not_when_it_says_never() {
    let served = Served::start(tool("foreign-grpc-server"), &[], 1).await;
    let client = client(served.addresses[0], Protocol::Grpc, HttpVersion::Auto);
    let typed = BehaviourServiceClient::new(client.channel());
    for (pushback, expected) in [("7", &[7, 7][..]), ("0", &[0, 0]), ("-1", &[]), ("soon", &[])] {
        let waits = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&waits);
        let mut context = Context::default();
        context.headers_mut().insert("x-pushback", pushback.parse().unwrap());
        context.extensions_mut().insert(Trace::new(move |event| {
            if let Step::Retrying { after, .. } = event.step {
                seen.lock().unwrap().push(after);
            }
        }));
        let call = BehaviourService::look(&typed, context, LookRequest::default());
        let error = call.await.unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::Unavailable, "come again later"));
        let expected: Vec<_> = expected.iter().map(|ms| Duration::from_millis(*ms)).collect();
        assert_eq!(*waits.lock().unwrap(), expected, "{pushback}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_es_is_called_and_is_an_upstream() {
    let served = Served::start("node", &["tests/foreign/node/server.js"], 2).await;
    for (protocol, http, address) in [
        (Protocol::Connect, HttpVersion::Http1, served.addresses[0]),
        (Protocol::GrpcWeb, HttpVersion::Http1, served.addresses[0]),
        (Protocol::Connect, HttpVersion::Http2, served.addresses[1]),
        (Protocol::Grpc, HttpVersion::Http2, served.addresses[1]),
        (Protocol::GrpcWeb, HttpVersion::Http2, served.addresses[1]),
    ] {
        let client = client(address, protocol, http);
        let (way, duplex) = (format!("connect-es {protocol:?} {http:?}"), Duplex::of(http));
        check_every_behaviour(&way, &client, duplex).await;
        assert_eq!(trailers_of_count(&client).await["x-counted"], "2", "{protocol:?} {http:?}");
        check_in_front_of(&way, client, duplex).await;
    }
}

/// The trailers that end a stream of two numbers.
async fn trailers_of_count(client: &Client) -> tidewire::Headers {
    let typed = BehaviourServiceClient::new(client.channel());
    let mut numbers = typed.count(CountRequest { n: 2, ..Default::default() }).await.unwrap().body;
    assert!(numbers.trailers().is_empty(), "it has not ended");
    while numbers.next().await.unwrap().is_some() {}
    numbers.trailers().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn trailers_at_the_end_of_a_stream_pass_through_to_every_protocol() {
    let served = Served::start(tool("foreign-grpc-server"), &[], 1).await;
    let schema = Schema::from_folder(root().join("tests/proto")).unwrap();
    let upstream = Upstream::new(client(served.addresses[0], Protocol::Grpc, HttpVersion::Auto));
    let server = Server::builder().service(schema.serve(SERVICE, upstream).unwrap());
    let (_running, front) = start(server).await;
    for (protocol, http) in WAYS {
        let trailers = trailers_of_count(&client(front, protocol, http)).await;
        assert_eq!(trailers["x-counted"], "2", "{protocol:?} {http:?}");
    }
}

#[tokio::test]
async fn an_upstream_that_is_down_is_unavailable_to_every_caller() {
    let gone = nobody();
    let schema = Schema::from_folder(root().join("tests/proto")).unwrap();
    let upstream = Upstream::new(client(gone, Protocol::Grpc, HttpVersion::Auto));
    let server = Server::builder().service(schema.serve(SERVICE, upstream).unwrap());
    let (_running, front) = start(server).await;
    let client = client(front, Protocol::Connect, HttpVersion::Http1);
    let error = BehaviourServiceClient::new(client.channel())
        .echo(EchoRequest::default())
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains(&format!("cannot connect to {gone}")), "{error}");
}

/// What an upstream is told of a call with these headers, which a caller made up, but for those of
/// the protocol.
async fn told_of(trusted: &str, http: HttpVersion, claimed: &[&str]) -> Vec<String> {
    const PATH: &str = "/tidewire.test.v1.BehaviourService/Echo";
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let answer = move |call: Call| {
        let ours = |name: &str| !name.starts_with("connect-") && !name.starts_with("content-");
        let headers = call.context.headers().iter().filter(|(name, _)| ours(name.as_str()));
        let lines = headers.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
        told.lock().unwrap().extend(lines);
        async { Reply::text("{}").with_header("content-type", "application/json") }
    };
    let (_upstream, address) = start(Server::builder().route(Method::POST, PATH, answer)).await;
    let text = format!(
        "server.trusted_proxies = [{trusted}]\nserver.hosts = [\"shop.example\", \"127.0.0.1\"]\n[[service]]\nbackend = \"upstream\"\n\
         proto = {:?}\nnames = [{SERVICE:?}]\nurl = \"http://{address}\"",
        root().join("tests/proto")
    );
    let config = Config::parse(&text, "t.toml").unwrap();
    let schema = Schema::from_folder(root().join("tests/proto")).unwrap();
    let upstream = config.schemas().next().unwrap().upstream(&schema).unwrap();
    let server = config.server().unwrap().service(schema.serve(SERVICE, upstream).unwrap());
    let (_running, front) = start(server).await;
    let client = Client::builder(format!("http://{front}")).http(http).codec(Codec::Json);
    let mut context = Context::default();
    for line in claimed {
        let (name, value) = line.split_once(": ").unwrap();
        context.headers_mut().append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    let typed = BehaviourServiceClient::new(client.build().unwrap().channel());
    BehaviourService::echo(&typed, context, EchoRequest::default()).await.unwrap();
    let named = seen.lock().unwrap().drain(..).collect::<Vec<_>>();
    let unnamed = |line: String| line.replace(&front.to_string(), "FRONT");
    let of_protocol = ["accept", "user-agent", "host", "traceparent"];
    let is_own = |line: &String| of_protocol.iter().all(|name| !line.starts_with(name));
    let mut lines: Vec<_> = named.into_iter().map(unnamed).filter(is_own).collect();
    lines.sort();
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_is_told_of_its_callers_by_the_server_alone() {
    const CLAIMED: [&str; 15] = [
        "forwarded: for=6.6.6.6",
        "proxy: http://evil.example",
        "tidewire-principal: root",
        "x-forwarded-for: 6.6.6.6",
        "x-forwarded-host: evil.example",
        "x-forwarded-prefix: /admin",
        "x-forwarded-proto: https",
        "x-forwarded-user: root",
        "x-host: evil.example",
        "x-original-url: /admin",
        "x-own: a",
        "x-rewrite-url: /admin",
        "x.forwarded.for: 6.6.6.6",
        "x_forwarded_for: 6.6.6.6",
        "x_own: b",
    ];
    let own = [
        "x-forwarded-for: 127.0.0.1",
        "x-forwarded-host: FRONT",
        "x-forwarded-proto: http",
        "x-own: a",
        "x_own: b",
    ];
    for http in [HttpVersion::Http1, HttpVersion::Http2] {
        let told = told_of("", http, &CLAIMED).await;
        assert_eq!(told, own, "{http:?}");
        let proxied = ["x-forwarded-for: 192.0.2.7", "x-forwarded-host: shop.example"];
        let told = told_of("\"127.0.0.1\"", http, &proxied).await;
        let expected = [proxied[0], proxied[1], "x-forwarded-proto: http"];
        assert_eq!(told, expected, "{http:?}");
    }
}
