//! Gates and observers where cached replies leave as they lie: they are asked and told as if each
//! request had been read.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::Method;
use parking_lot::Mutex;
use tidewire_server::{Builder, CallerAddresses, Limits, RunningServer, Server, Settings};
use tidewire_service::{
    Admission, End, EndReason, Error, Gate, GateFuture, Head, Observation, Observer, Phase, Phases,
    Principal,
};

use crate::host::start;
use crate::prepared::{Client, Pages};

/// Lets pass while it is open, and counts how often it is asked.
#[derive(Clone, Default)]
struct Door(Arc<DoorState>);

#[derive(Default)]
struct DoorState {
    is_shut: AtomicBool,
    panics: AtomicBool,
    asked: AtomicUsize,
    asked_again: AtomicUsize,
    peers: Mutex<Vec<SocketAddr>>,
}

impl Gate for Door {
    fn admit(&self, _: &mut Head) -> Admission {
        self.0.asked.fetch_add(1, Ordering::Relaxed);
        match self.0.is_shut.load(Ordering::Relaxed) {
            true => Admission::Ready(Err(Error::permission_denied("shut"))),
            false => Admission::Ready(Ok(())),
        }
    }

    fn admits_again(&self, head: &Head) -> bool {
        self.0.asked_again.fetch_add(1, Ordering::Relaxed);
        assert!(!self.0.panics.load(Ordering::Relaxed), "the door is broken");
        assert!(head.context.is_conditional() && head.arrived().is_some());
        assert_eq!(head.context.header("host").unwrap(), "test");
        self.0.peers.lock().extend(head.context.peer().and_then(|peer| peer.address));
        !self.0.is_shut.load(Ordering::Relaxed)
    }
}

impl Door {
    fn counts(&self) -> [usize; 2] {
        [&self.0.asked, &self.0.asked_again].map(|count| count.load(Ordering::Relaxed))
    }
}

/// Keeps what it is told.
#[derive(Clone, Default)]
pub(crate) struct Watcher(Arc<WatcherState>);

#[derive(Default)]
struct WatcherState {
    refuses: AtomicBool,
    begun: AtomicUsize,
    told: Mutex<Vec<Told>>,
}

/// What was told of one request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Told {
    pub(crate) request: String,
    pub(crate) phases: Vec<Phase>,
    reached: u8,
    how: String,
    status: Option<u16>,
    bytes: [u64; 2],
}

impl Watcher {
    /// What was told of all requests that began, once they are over.
    pub(crate) async fn all_told(&self) -> Vec<Told> {
        while self.0.told.lock().len() < self.0.begun.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
        self.0.told.lock().clone()
    }
}

impl Observer for Watcher {
    fn begin(&self, head: &Head) -> Arc<dyn Observation> {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        assert!(head.arrived().is_some() && head.context.peer().is_some());
        let accept = head.context.header("accept");
        let request = format!("{:?} {accept:?}", head.target);
        Arc::new(Watched { of: self.clone(), request, phases: Mutex::default() })
    }

    fn accepts_prepared(&self) -> bool {
        !self.0.refuses.load(Ordering::Relaxed)
    }
}

struct Watched {
    of: Watcher,
    request: String,
    phases: Mutex<Vec<Phase>>,
}

impl Observation for Watched {
    fn phases(&self) -> Phases {
        Phases::ALL
    }

    fn phase(&self, phase: Phase) {
        self.phases.lock().push(phase);
    }

    fn end(&self, end: &End) {
        self.of.0.told.lock().push(Told {
            request: self.request.clone(),
            phases: self.phases.lock().clone(),
            reached: end.phases.bits(),
            how: format!("{:?}", end.how),
            status: end.status.map(|status| status.as_u16()),
            bytes: [end.bytes_in, end.bytes_out],
        });
    }
}

async fn pages(change: impl FnOnce(Builder) -> Builder) -> (Pages, RunningServer) {
    let (pages, service) = Pages::new(true, 0.0);
    let builder = Server::builder().route(Method::GET, "/page/{n}", service);
    (pages, start(change(builder)).await)
}

#[tokio::test]
async fn what_is_prepared_is_told_as_what_is_read() {
    let watcher = Watcher::default();
    let door = Door::default();
    let (pages, server) = pages(|it| it.observer(watcher.clone()).gate(door.clone())).await;
    let mut client = Client::connect(&server).await;
    for _ in 0..10 {
        assert!(client.get("/page/1").await.starts_with("HTTP/1.1 200 "));
    }
    assert_eq!((pages.calls(), server.usage().prepared_answers), (4, 6));
    assert_eq!(door.counts(), [4, 6]);
    let told = watcher.all_told().await;
    assert_eq!(told.len(), 10);
    assert_eq!(told[0].phases[..3], [Phase::Gates, Phase::Handler, Phase::Memo]);
    // The second was answered from memory and read.
    let read = &told[1];
    let phases = [Phase::Gates, Phase::Handler, Phase::Memo, Phase::FirstByte, Phase::Written];
    assert_eq!(read.phases, phases);
    assert_eq!(read.how, format!("{:?}", EndReason::Answered));
    assert_eq!(read.status, Some(200));
    assert!(read.bytes[1] > 100, "{read:?}");
    assert!(told[1..].iter().all(|one| one == read), "{told:?}");
}

#[tokio::test]
async fn a_gate_that_says_no_sees_the_request() {
    let door = Door::default();
    let (pages, server) = pages(|it| it.gate(door.clone())).await;
    let mut client = Client::connect(&server).await;
    for _ in 0..6 {
        client.get("/page/1").await;
    }
    assert_eq!((pages.calls(), door.counts()), (4, [4, 2]));
    door.0.is_shut.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        assert!(client.get("/page/1").await.starts_with("HTTP/1.1 403 "));
    }
    assert_eq!((pages.calls(), door.counts()), (4, [7, 5]));
    door.0.is_shut.store(false, Ordering::Relaxed);
    assert!(client.get("/page/1").await.starts_with("HTTP/1.1 200 "));
    assert_eq!((pages.calls(), door.counts()), (4, [7, 6]), "it was there all the time");
    door.0.panics.store(true, Ordering::Relaxed);
    assert!(client.get("/page/1").await.starts_with("HTTP/1.1 200 "));
    assert_eq!((pages.calls(), door.counts()), (5, [8, 7]));
}

/// Says who calls, or a header, by where the request comes from.
struct ByAddress(fn(&mut Head, SocketAddr));

impl Gate for ByAddress {
    fn admit(&self, head: &mut Head) -> Admission {
        let address = head.context.peer().and_then(|peer| peer.address);
        (self.0)(head, address.unwrap());
        Admission::Ready(Ok(()))
    }

    fn admits_again(&self, _: &Head) -> bool {
        true
    }
}

#[tokio::test]
async fn what_a_gate_says_of_a_request_is_said_of_no_other() {
    let says: [fn(&mut Head, SocketAddr); 2] = [
        |head, address| {
            head.context.set_principal(Principal::new("address", address.to_string()));
        },
        |head, address| head.context.set_header("x-from", address.to_string()).unwrap(),
    ];
    for say in says {
        let (pages, server) = pages(|it| it.gate(ByAddress(say))).await;
        let mut client = Client::connect(&server).await;
        for _ in 0..8 {
            client.get("/page/1").await;
        }
        assert_eq!((pages.calls(), server.usage().prepared_answers), (8, 0));
    }
}

/// Has to wait before it knows, but for what has come before.
struct Slow;

impl Gate for Slow {
    fn admit(&self, _: &mut Head) -> Admission {
        Admission::Waits
    }

    fn wait<'a>(&'a self, _: &'a mut Head) -> GateFuture<'a> {
        Box::pin(async {
            tokio::task::yield_now().await;
            Ok(())
        })
    }

    fn admits_again(&self, _: &Head) -> bool {
        true
    }
}

#[tokio::test]
async fn what_a_gate_had_to_wait_for_is_prepared_too() {
    let (pages, server) = pages(|it| it.gate(Slow)).await;
    let mut client = Client::connect(&server).await;
    for _ in 0..8 {
        assert!(client.get("/page/1").await.starts_with("HTTP/1.1 200 "));
    }
    assert_eq!(pages.calls(), 4);
}

#[tokio::test]
async fn who_may_not_come_any_more_is_not_asked_for() {
    let door = Door::default();
    let (_, service) = Pages::new(true, 0.0);
    let builder = Server::builder().route(Method::GET, "/page/{n}", service).gate(door.clone());
    let reload = builder.reload_handle();
    let server = start(builder).await;
    let mut client = Client::connect(&server).await;
    for _ in 0..6 {
        client.get("/page/1").await;
    }
    assert_eq!(door.counts(), [4, 2]);
    let mut settings = Settings::default();
    settings.callers = CallerAddresses::default().deny(["127.0.0.1"]).unwrap();
    reload.reload(settings).unwrap();
    for _ in 0..3 {
        assert!(client.get("/page/1").await.starts_with("HTTP/1.1 403 "));
    }
    assert_eq!(door.counts(), [4, 2]);
    reload.reload(Settings::default()).unwrap();
    for _ in 0..3 {
        assert!(client.get("/page/1").await.starts_with("HTTP/1.1 200 "));
    }
    assert_eq!(door.counts(), [5, 4], "once anew");
}

#[tokio::test]
async fn a_gate_sees_who_asks_now() {
    let door = Door::default();
    let (_, server) = pages(|it| it.gate(door.clone())).await;
    let [mut one, mut two] = [Client::connect(&server).await, Client::connect(&server).await];
    for _ in 0..5 {
        one.get("/page/1").await;
    }
    two.get("/page/1").await;
    assert_eq!(*door.0.peers.lock(), [one.address(), one.address(), two.address()][1..]);
}

#[tokio::test]
async fn an_observer_that_wants_to_see_requests_sees_them_from_then_on() {
    let watcher = Watcher::default();
    let (pages, server) = pages(|it| it.observer(watcher.clone())).await;
    let mut client = Client::connect(&server).await;
    for _ in 0..6 {
        client.get("/page/1").await;
    }
    assert_eq!(pages.calls(), 4);
    watcher.0.refuses.store(true, Ordering::Relaxed);
    for _ in 0..4 {
        client.get("/page/1").await;
    }
    assert_eq!((pages.calls(), watcher.0.begun.load(Ordering::Relaxed)), (8, 10));
    watcher.0.refuses.store(false, Ordering::Relaxed);
    client.get("/page/1").await;
    assert_eq!((pages.calls(), watcher.0.begun.load(Ordering::Relaxed)), (8, 11));
}

#[tokio::test]
async fn limits_of_calls_go_with_what_is_prepared_and_rates_count_each() {
    let mut limits = Limits::default();
    limits.calls_max = Some(2);
    limits.caller_calls_max = Some(2);
    limits.deadline_default = Some(std::time::Duration::from_secs(60));
    for (rate, calls) in [(None, 4), (Some(9), 9)] {
        limits.address_rate = rate;
        let (pages, server) = pages(|it| it.limits(limits.clone())).await;
        let mut client = Client::connect(&server).await;
        for _ in 0..9 {
            let response = client.get("/page/1").await;
            assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
        }
        assert_eq!(pages.calls(), calls);
    }
}
