//! A server that is restarted under ten thousand held answers, on a virtual clock: its clients ask
//! for all of them again, and never as one herd.
#![allow(clippy::print_stderr, reason = "who runs it with --nocapture sees the rates")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tidewire_live::{
    AnswerFuture, AnswerState, Arrival, ByteStream, Config, Host, Identity, IncomingCall, Links,
    Remote, Transport, Watcher, random_boot,
};
use tidewire_service::{Body, Error, Freshness, Reply, Signal, Validator};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::pair::{Connect, Dials, query};

/// Answers everything with the same, for ever, and knows when it was asked.
struct CallTarget(Mutex<Vec<Instant>>);

impl Host for CallTarget {
    fn answer(&self, _: IncomingCall) -> AnswerFuture {
        self.0.lock().unwrap().push(Instant::now());
        let freshness = Freshness::tracked(Arc::new(Signal::new()));
        let freshness = freshness.with_validator(Validator::new([7; 16]));
        let reply = Reply::new(Body::Full(Bytes::from_static(b"same"))).with_freshness(freshness);
        Box::pin(async move { Ok(reply) })
    }
}

/// A server that can be restarted: its sessions are lost with it.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Option<RunningServer>>>);

struct RunningServer {
    links: Arc<Links>,
    asked: Arc<CallTarget>,
    greeted: Vec<Instant>,
    connections: Vec<AbortHandle>,
}

impl Server {
    fn start(&self) {
        let asked = Arc::new(CallTarget(Mutex::default()));
        let config = Config { boot: Some(random_boot()), ..Config::default() };
        let links = Links::new(config, Arc::clone(&asked) as _, TaskTracker::new(), 10_000);
        let (links, greeted, connections) = (Arc::new(links), Vec::new(), Vec::new());
        *self.0.lock().unwrap() = Some(RunningServer { links, asked, greeted, connections });
    }

    fn stop(&self) {
        let running = self.0.lock().unwrap().take().expect("it runs");
        running.connections.iter().for_each(AbortHandle::abort);
    }

    fn connect(&self) -> Result<Box<dyn Transport>, Error> {
        let mut running = self.0.lock().unwrap();
        let running = running.as_mut().ok_or_else(|| Error::unavailable("it is down"))?;
        let (near, far) = tokio::io::duplex(64 << 10);
        let links = Arc::clone(&running.links);
        running.greeted.push(Instant::now());
        let serves = tokio::spawn(async move {
            let anybody = async |_| Ok(Identity::default());
            let arrival = Arrival::default();
            let (link, connection) =
                links.greet(ByteStream::new(far), arrival, anybody).await.ok()?;
            let ended = connection.run().await;
            links.left(&link, ended);
            Some(())
        });
        running.connections.push(serves.abort_handle());
        Ok(Box::new(ByteStream::new(near)))
    }

    fn asked(&self) -> Vec<Instant> {
        let running = self.0.lock().unwrap();
        running.as_ref().map_or_else(Vec::new, |running| running.asked.0.lock().unwrap().clone())
    }

    fn client(&self) -> Remote<Dials<Connect>> {
        let config = Config { boot: Some(random_boot()), ..Config::default() };
        let server = self.clone();
        let dials = Dials(Box::new(move || server.connect()) as Connect);
        Remote::new(dials, config, None, TaskTracker::new())
    }
}

/// The last word of an answer that is held.
#[derive(Default)]
struct Last(Mutex<Option<AnswerState>>);

impl Watcher for Last {
    fn tell(&self, word: AnswerState) {
        *self.0.lock().unwrap() = Some(word);
    }
}

/// How many moments there are in each tenth of a second since `start`.
fn rate(start: Instant, moments: &[Instant]) -> Vec<usize> {
    let mut rate = Vec::new();
    for moment in moments {
        let tenth = usize::try_from((*moment - start).as_millis() / 100).unwrap();
        rate.resize(rate.len().max(tenth + 1), 0);
        rate[tenth] += 1;
    }
    rate
}

/// What came after a restart.
struct After {
    start: Instant,
    /// Connections.
    greeted: Vec<Instant>,
    /// Requests.
    asked: Vec<Instant>,
}

/// Restarts a server under so many clients, each of which holds so many answers.
async fn restart(clients: usize, each: usize) -> After {
    let server = Server::default();
    server.start();
    let (mut remotes, mut held) = (Vec::new(), Vec::new());
    for _ in 0..clients {
        let remote = server.client();
        for key in 0..each {
            let last = Arc::<Last>::default();
            let call = query("Same", key.to_string());
            let (_, hold) = remote.link().call_held(call, last.clone()).await.unwrap();
            held.push((last, hold.expect("it is watched")));
        }
        remotes.push(remote);
    }
    assert_eq!(server.asked().len(), clients * each);
    server.stop();
    // tidy: allow-sleep the clock is virtual
    tokio::time::sleep(Duration::from_secs(3)).await;
    server.start();
    let start = Instant::now();
    // No longer than a minute.
    for _ in 0..600 {
        if server.asked().len() >= clients * each {
            break;
        }
        // tidy: allow-sleep the clock is virtual
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Time for the last answers.
    // tidy: allow-sleep the clock is virtual
    tokio::time::sleep(Duration::from_millis(100)).await;
    let confirmed =
        |(last, _): &(Arc<Last>, _)| *last.0.lock().unwrap() == Some(AnswerState::Confirmed);
    assert!(held.iter().all(confirmed), "each is confirmed, by a frame without the answer");
    let greeted = server.0.lock().unwrap().as_ref().unwrap().greeted.clone();
    let asked = server.asked();
    eprintln!(
        "{clients} clients, {each} answers each, in every tenth of a second after the start:"
    );
    eprintln!("connections {:?}\nrequests {:?}", rate(start, &greeted), rate(start, &asked));
    After { start, greeted, asked }
}

#[tokio::test(start_paused = true)]
async fn ten_clients_that_hold_a_thousand_answers_each_ask_over_seconds() {
    let After { start, asked, .. } = restart(10, 1000).await;
    assert_eq!(asked.len(), 10_000, "each once");
    let asked = rate(start, &asked);
    // A thousand a second of each client.
    let most = asked.iter().max().unwrap();
    assert!(*most <= 1300, "{most} in a tenth of a second: {asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_clients_that_hold_ten_answers_each_come_and_ask_over_seconds() {
    let After { start, greeted, asked } = restart(1000, 10).await;
    assert_eq!((greeted.len(), asked.len()), (1000, 10_000));
    for (moments, all) in [(&greeted, 1000), (&asked, 10_000)] {
        let rate = rate(start, moments);
        let most = rate.iter().max().unwrap();
        assert!(*most <= all / 5, "{most} of {all} in a tenth of a second: {rate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_two_clients_ask_at_the_same_moments_after_their_hellos() {
    let mut moments = Vec::new();
    for _ in 0..2 {
        let After { greeted, asked, .. } = restart(1, 20).await;
        moments.push(asked.iter().map(|asked| *asked - greeted[0]).collect::<Vec<_>>());
    }
    assert_ne!(moments[0], moments[1]);
}
