//! Bounds on calls and connections, over every protocol: what is over one is refused in its name,
//! and what is given back can be had again.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidewire::client::{HttpVersion, Protocol, Retry};
use tidewire::http::Method;
use tidewire::server::Bound;
use tidewire::service::{End, Observation, Observer, Phase, Signal};
use tidewire::{
    Builder, Call, Client, Code, Context, Error, Head, Limits, Principal, RunningServer, Server,
};
use tidewire_tests::proto::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{behaviour, post_json, send, start, until};

const PROTOCOLS: [Protocol; 4] =
    [Protocol::Connect, Protocol::Grpc, Protocol::GrpcWeb, Protocol::Live];

fn reached(running: &RunningServer, bound: Bound) -> u64 {
    let usage = running.usage();
    usage.reached.iter().find(|(of, _)| *of == bound).map_or(0, |(_, count)| *count)
}

async fn look(address: SocketAddr, protocol: Protocol, context: Context) -> Result<(), Error> {
    let client = Client::builder(format!("http://{address}")).protocol(protocol);
    let client = client.retry(Retry::none()).build().unwrap();
    let typed = BehaviourServiceClient::new(client.channel());
    BehaviourService::look(&typed, context, LookRequest::default()).await.map(drop)
}

/// A server whose `/wait` is answered when the signal fires, and how many wait there.
async fn waiting(limits: Limits) -> (RunningServer, SocketAddr, Signal, Arc<AtomicUsize>) {
    waiting_at(behaviour().0, limits).await
}

async fn waiting_at(
    builder: Builder,
    limits: Limits,
) -> (RunningServer, SocketAddr, Signal, Arc<AtomicUsize>) {
    let (signal, inside) = (Signal::new(), Arc::new(AtomicUsize::new(0)));
    let (fires, counts) = (signal.clone(), Arc::clone(&inside));
    let builder = builder.limits(limits).route(Method::GET, "/wait", move |_: Call| {
        let (fires, counts) = (fires.clone(), Arc::clone(&counts));
        async move {
            counts.fetch_add(1, Ordering::SeqCst);
            std::future::poll_fn(|cx| fires.poll_fired(cx)).await;
            Ok("waited")
        }
    });
    let (running, address) = start(builder).await;
    (running, address, signal, inside)
}

#[tokio::test]
async fn over_the_bound_of_calls_one_waits_for_a_place_and_then_is_refused_on_every_protocol() {
    let mut limits = Limits::default();
    limits.calls_max = Some(2);
    limits.queue_timeout = Duration::from_millis(20);
    let (running, address, signal, inside) = waiting(limits).await;
    let both = [(); 2].map(|()| tokio::spawn(async move { send(address, "GET /wait", b"").await }));
    until(|| inside.load(Ordering::SeqCst) == 2).await;
    for protocol in PROTOCOLS {
        let error = look(address, protocol, Context::default()).await.unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted, "{protocol:?}: {error}");
        assert!(error.message().contains("limits.calls_max = 2"), "{protocol:?}: {error}");
    }
    let refused = post_json(address, "Look", "{}").await;
    refused.check(503, &["limits.queue_timeout = 20ms"]);
    assert!(refused.head.contains("retry-after: 1"), "{}", refused.head);
    assert!(reached(&running, Bound::Calls) >= 5);
    let health = "POST /grpc.health.v1.Health/Check\ncontent-type: application/json";
    send(address, health, b"{}").await.check(200, &["SERVING"]);
    signal.fire();
    for one in both {
        one.await.unwrap().check(200, &["waited"]);
    }
    // Their places are free at the latest when their connections ended.
    until(|| running.usage().connections_open == 0).await;
    look(address, Protocol::Grpc, Context::default()).await.unwrap();
}

#[tokio::test]
async fn a_call_that_waits_gets_the_place_of_one_that_ends() {
    let mut limits = Limits::default();
    limits.calls_max = Some(1);
    limits.queue_timeout = Duration::from_secs(600);
    let told = Phased::default();
    let builder = behaviour().0.observer(told.clone());
    let (running, address, signal, inside) = waiting_at(builder, limits).await;
    let first = tokio::spawn(async move { send(address, "GET /wait", b"").await });
    until(|| inside.load(Ordering::SeqCst) == 1).await;
    let second =
        tokio::spawn(async move { look(address, Protocol::Grpc, Context::default()).await });
    until(|| running.usage().calls_waiting == 1).await;
    signal.fire();
    first.await.unwrap().check(200, &["waited"]);
    second.await.unwrap().unwrap();
    assert_eq!(running.usage().calls_waiting, 0);
    let told = told.0.lock().unwrap().clone();
    let queued: Vec<_> = told.iter().filter(|phase| **phase == Phase::Queued).collect();
    assert_eq!(queued.len(), 1, "the second waited: {told:?}");
    assert_eq!(told[..4], [Phase::Gates, Phase::Handler, Phase::Gates, Phase::Queued], "{told:?}");
}

/// The phases of all requests, as they are told.
#[derive(Clone, Default)]
struct Phased(Arc<Mutex<Vec<Phase>>>);

impl Observer for Phased {
    fn begin(&self, _: &Head) -> Arc<dyn Observation> {
        Arc::new(self.clone())
    }
}

impl Observation for Phased {
    fn phase(&self, phase: Phase) {
        self.0.lock().unwrap().push(phase);
    }

    fn end(&self, _: &End) {}
}

#[tokio::test]
async fn one_caller_has_so_many_calls_at_once_and_another_its_own() {
    let mut limits = Limits::default();
    limits.caller_calls_max = Some(1);
    let (signal, inside) = (Signal::new(), Arc::new(AtomicUsize::new(0)));
    let (fires, counts) = (signal.clone(), Arc::clone(&inside));
    let known = |head: &mut Head| {
        let who = head.context.header("x-who").and_then(|who| who.to_str().ok()).map(str::to_owned);
        head.context.set_principal(who.map(|who| Principal::new("test", who)));
        Ok(())
    };
    let builder = Server::builder().limits(limits).gate(known);
    let builder = builder.route(Method::GET, "/wait", move |_: Call| {
        let (fires, counts) = (fires.clone(), Arc::clone(&counts));
        async move {
            counts.fetch_add(1, Ordering::SeqCst);
            std::future::poll_fn(|cx| fires.poll_fired(cx)).await;
            Ok("waited")
        }
    });
    let (running, address) = start(builder).await;
    let ask = |who: &'static str| {
        tokio::spawn(async move { send(address, &format!("GET /wait\nx-who: {who}"), b"").await })
    };
    let ada = ask("ada");
    until(|| inside.load(Ordering::SeqCst) == 1).await;
    let refused = ask("ada").await.unwrap();
    refused.check(429, &["limits.caller_calls_max = 1"]);
    assert!(refused.head.contains("retry-after: "), "{}", refused.head);
    assert_eq!(reached(&running, Bound::CallerCalls), 1);
    let (eve, nobody) = (ask("eve"), tokio::spawn(send_wait(address)));
    until(|| inside.load(Ordering::SeqCst) == 3).await;
    signal.fire();
    for one in [ada, eve, nobody, ask("ada")] {
        one.await.unwrap().check(200, &["waited"]);
    }
}

async fn send_wait(address: SocketAddr) -> crate::harness::Response {
    send(address, "GET /wait", b"").await
}

#[tokio::test]
async fn who_calls_too_often_is_told_when_to_come_back_on_every_protocol() {
    let mut limits = Limits::default();
    limits.caller_rate = Some(1);
    let (builder, _) = behaviour();
    let (running, address) = start(builder.limits(limits)).await;
    let _ = look(address, Protocol::Connect, Context::default()).await;
    let mut refused = 0;
    for protocol in PROTOCOLS {
        if let Err(error) = look(address, protocol, Context::default()).await {
            assert_eq!(error.code(), Code::ResourceExhausted, "{protocol:?}: {error}");
            assert!(error.message().contains("limits.caller_rate = 1"), "{protocol:?}: {error}");
            refused += 1;
        }
    }
    // Unless a second passes between two of them, all are.
    assert!(refused > 0 && reached(&running, Bound::CallerRate) >= refused, "{refused}");
}

#[tokio::test]
async fn who_shows_wrong_credentials_too_often_is_refused_before_they_are_looked_at() {
    let text = "[server]\nlisten = \"127.0.0.1:0\"\n[limits]\naddress_rate = 3\n[[auth.api_key]]\n\
                subject = \"a\"\nsha256 = \"d9fb92e3bbe65be1f1aad4a82eef4567f7a1ebe2cd110c8049b9698be7a70c88\"\n";
    let config = tidewire::config::Config::parse(text, "t.toml").unwrap();
    let service = BehaviourServiceServer::new(tidewire_tests::behaviour::Behaviour::default());
    let running = config.server().unwrap().service(service).start().await.unwrap();
    let tidewire::Address::Tcp(address) = running.addresses()[0] else { panic!("it is TCP") };
    let head = "POST /tidewire.test.v1.BehaviourService/Look\ncontent-type: application/json\n\
                x-api-key: wrong";
    let (mut wrong, mut bounded) = (0, 0);
    while bounded == 0 {
        let answer = send(address, head, b"{}").await;
        match answer.status {
            401 => wrong += 1,
            _ => {
                answer.check(429, &["limits.address_rate = 3"]);
                bounded += 1;
            }
        }
        assert!(wrong < 1000, "nothing bounds them");
    }
    assert!(wrong >= 3 && reached(&running, Bound::AddressRate) == bounded, "{wrong}");
}

#[tokio::test]
async fn a_deadline_has_a_floor_a_ceiling_and_a_default_on_every_protocol() {
    let mut limits = Limits::default();
    limits.deadline_min = Duration::from_secs(5);
    limits.deadline_max = Some(Duration::from_secs(60));
    limits.deadline_default = Some(Duration::from_secs(30));
    let left =
        |context: &Context| context.remaining(Instant::now()).map_or(0, |left| left.as_secs());
    let builder =
        Server::builder().limits(limits).route(Method::GET, "/left", move |call: Call| {
            let left = left(&call.context);
            async move { Ok(left.to_string()) }
        });
    let (behaviour, _) = behaviour();
    let mut limits = Limits::default();
    limits.deadline_min = Duration::from_secs(5);
    let (running, floored) = start(behaviour.limits(limits)).await;
    let (_running, address) = start(builder).await;
    for (header, most) in [("", 30), ("connect-timeout-ms: 7000\n", 7), ("grpc-timeout: 1H\n", 60)]
    {
        let answer = send(address, &format!("GET /left\n{header}"), b"").await;
        let left: u64 = answer.text().parse().unwrap();
        assert!((1..=most).contains(&left) && left + 5 >= most.min(30), "{header:?}: {left}");
    }
    for protocol in PROTOCOLS {
        let soon = Context::default().with_deadline(Instant::now() + Duration::from_secs(4));
        let error = look(floored, protocol, soon).await.unwrap_err();
        assert_eq!(error.code(), Code::DeadlineExceeded, "{protocol:?}: {error}");
        assert!(error.message().contains("limits.deadline_min = 5s"), "{protocol:?}: {error}");
    }
    assert_eq!(reached(&running, Bound::DeadlineMin), 4);
}

#[tokio::test]
async fn an_address_has_so_many_connections_and_a_closed_one_makes_room() {
    let mut limits = Limits::default();
    limits.address_connections_max = Some(2);
    let (builder, _) = behaviour();
    let (running, address) = start(builder.limits(limits)).await;
    let ask = async |stream: &mut TcpStream| {
        let request = b"GET /nowhere HTTP/1.1\r\nhost: a\r\n\r\n";
        let _ = stream.write_all(request).await;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.map(|_| answer)
    };
    let mut first = TcpStream::connect(address).await.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    for stream in [&mut first, &mut second] {
        assert_eq!(&ask(stream).await.unwrap(), b"HTTP/1.1 404");
    }
    let mut third = TcpStream::connect(address).await.unwrap();
    assert!(ask(&mut third).await.is_err(), "it is closed");
    assert_eq!(reached(&running, Bound::AddressConnections), 1);
    assert_eq!(running.usage().connections_open, 2);
    drop(first);
    until(|| running.usage().connections_open == 1).await;
    let mut fourth = TcpStream::connect(address).await.unwrap();
    assert_eq!(&ask(&mut fourth).await.unwrap(), b"HTTP/1.1 404");
    assert_eq!(running.usage().connections_accepted, 3);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_too_old_goes_away_and_no_call_is_lost() {
    let mut limits = Limits::default();
    limits.connection_age_max = Some(Duration::from_secs(60));
    let (builder, _) = behaviour();
    let (running, address) = start(builder.limits(limits)).await;
    for (protocol, http) in
        [(Protocol::Connect, HttpVersion::Http1), (Protocol::Grpc, HttpVersion::Http2)]
    {
        let client = Client::builder(format!("http://{address}")).protocol(protocol).http(http);
        let typed = BehaviourServiceClient::new(client.build().unwrap().channel());
        for _ in 0..20 {
            typed.look(LookRequest::default()).await.unwrap();
            tokio::time::advance(Duration::from_secs(10)).await;
        }
    }
    let accepted = running.usage().connections_accepted;
    assert!((4..20).contains(&accepted), "{accepted} connections for 40 calls in 400 s");
}
