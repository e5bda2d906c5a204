//! What watched answers cost, both sides of one connection in one process:
//!
//! ```text
//! cargo run --release -p tidewire-live --example watches -- 100000
//! ```
//!
//! Prints the resident bytes of a watch (the server's, the client's, the reply that the client
//! holds, and the signal that tells of its end) and the time from one change that touches all of
//! them to the last notice.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program that a person runs")]

use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use tidewire_live::{
    AnswerFuture, Arrival, ByteStream, Config, Dial, Host, Identity, IncomingCall, Limits, Links,
    Remote, Transport, random_boot,
};
use tidewire_service::{
    Body, Call, Codec, Context, Error, Freshness, Idempotency, Reply, Signal, Spec, StreamKind,
    Validator,
};
use tokio_util::task::TaskTracker;

/// Answers everything with the same, each until its own signal fires.
#[derive(Default)]
struct Same(Mutex<Vec<Signal>>);

impl Host for Same {
    fn answer(&self, _: IncomingCall) -> AnswerFuture {
        let signal = Signal::new();
        self.0.lock().unwrap().push(signal.clone());
        let freshness = Freshness::tracked(Arc::new(signal));
        let freshness = freshness.with_validator(Validator::new([7; 16]));
        let reply = Reply::new(Body::Full(Bytes::from_static(b"same"))).with_freshness(freshness);
        Box::pin(async move { Ok(reply) })
    }
}

struct Here(Arc<Links>, TaskTracker);

impl Dial for Here {
    async fn dial(&self) -> Result<Box<dyn Transport>, Error> {
        let (near, far) = tokio::io::duplex(256 << 10);
        let links = Arc::clone(&self.0);
        self.1.spawn(async move {
            let anybody = async |_| Ok(Identity::default());
            let arrival = Arrival::default();
            let Ok((link, connection)) = links.greet(ByteStream::new(far), arrival, anybody).await
            else {
                return;
            };
            let ended = connection.run().await;
            links.left(&link, ended);
        });
        Ok(Box::new(ByteStream::new(near)))
    }
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[tokio::main]
async fn main() {
    let count: usize = std::env::args().nth(1).map_or(100_000, |word| word.parse().unwrap());
    let watches_max = u32::try_from(count).unwrap();
    let limits = Limits { watches_max, ..Config::default().limits };
    let config = Config { limits, boot: Some(random_boot()), ..Config::default() };
    let host = Arc::new(Same::default());
    let tasks = TaskTracker::new();
    let links = Arc::new(Links::new(config.clone(), Arc::clone(&host) as _, tasks.clone(), 8));
    let remote = Remote::new(Here(links, tasks.clone()), config, None, tasks);
    let mut spec = Spec::dynamic("a.B", "Same", StreamKind::Unary, ["", ""]);
    spec.idempotency = Idempotency::NoSideEffects;
    let spec = Arc::new(spec);
    let link = remote.link();
    let ask = || {
        let call = Call::method(Arc::clone(&spec), Context::default(), Codec::Proto, "");
        link.call_fresh(call)
    };
    drop(ask().await.unwrap());
    let before = resident_bytes();
    let began = Instant::now();
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        held.push(ask().await.unwrap());
    }
    let granted = held.iter().filter(|reply| reply.freshness.staleness().is_some()).count();
    println!("{granted} watches of {count} calls in {:?}", began.elapsed());
    println!("{} resident bytes a watch, both sides", (resident_bytes() - before) / count);
    let began = Instant::now();
    host.0.lock().unwrap().iter().for_each(Signal::fire);
    println!("{:?} until the change was told to the connection", began.elapsed());
    for reply in &held {
        let staleness = reply.freshness.staleness().unwrap();
        std::future::poll_fn(|cx| staleness.poll_stale(cx)).await;
    }
    println!("{:?} until the last notice", began.elapsed());
}
