//! Properties over random schedules: two sessions on a virtual network with latency, connections
//! lost at any byte, restarts of either side.
//!
//! | property | where |
//! |---|---|
//! | every call ends exactly once: reply, error, or outcome unknown | `network/client.rs` |
//! | no command runs twice, within a boot or across them | `network/server.rs` |
//! | no replica is stale after quiescence | [`World::check_at_rest`] |
//! | a writer never reads its own older replica | `network/client.rs` |
//! | stream items come once, in order, without gaps | both |
//! | no credit leaks, no slot leaks | [`World::check_at_rest`] |
//! | memory is bounded | [`World::check_bounds`] |
//!
//! The seed is printed; `LIVE_SEED=... cargo test -p tidewire-live network` runs one again.

mod client;
mod server;

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

use tidewire_live::{Acceptor, Config, Limits, Session, SessionId, Sessions};

use client::Client;
use server::Server;

pub(crate) const KEYS: u64 = 4;

/// splitmix64.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

pub(crate) fn seed() -> u64 {
    let given = std::env::var("LIVE_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| RandomState::new().hash_one(0) >> 32)
}

pub(crate) fn config(seed: u64) -> Config {
    let limits = Limits {
        body_max: 64 << 10,
        calls_max: 8,
        watches_max: 6,
        methods_max: 10,
        stream_credit: 60,
        connection_credit: 150,
        metadata_max: 300,
        replies_kept_max: 3,
    };
    let boot = Some([seed.to_le_bytes(); 2].concat().try_into().expect("sixteen bytes"));
    Config { limits, seed, boot, command_bytes_max: 100, ..Config::default() }
}

/// One direction of a connection: bytes and when they arrive.
#[derive(Debug, Default)]
struct Wire(VecDeque<(u64, Vec<u8>)>);

impl Wire {
    fn send(&mut self, at: u64, bytes: &[u8], random: &mut Random) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let whole = random.chance(70);
            let len = if whole { rest.len() } else { 1 + random.below(rest.len() as u64) as usize };
            let last = self.0.back().map_or(0, |(at, _)| *at);
            let latency = if random.chance(80) { random.below(300) } else { random.below(20_000) };
            self.0.push_back((last.max(at + latency), rest[..len].to_vec()));
            rest = &rest[len..];
        }
    }

    fn receive(&mut self, now: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.0.front().is_some_and(|(at, _)| *at <= now) {
            bytes.extend(self.0.pop_front().map(|(_, bytes)| bytes).unwrap_or_default());
        }
        bytes
    }
}

/// What the server's end of the connection is.
#[allow(clippy::large_enum_variant, reason = "there is one of it")]
enum End {
    None,
    Greeting(Acceptor),
    Open(Box<Session>),
}

struct World {
    random: Random,
    now: u64,
    client: Client,
    server: Server,
    end: End,
    sessions: Sessions,
    to_server: Wire,
    to_client: Wire,
    ids: u8,
    /// Losses, restarts, resumed sessions.
    counts: [u32; 4],
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            now: 0,
            client: Client::new(seed),
            server: Server::default(),
            end: End::None,
            sessions: Sessions::new(2),
            to_server: Wire::default(),
            to_client: Wire::default(),
            ids: 0,
            counts: [0; 4],
        }
    }

    fn step(&mut self, calm: bool) {
        self.now += self.random.below(2_000);
        let now = self.now;
        if !calm {
            self.disturb();
            self.client.act(&mut self.random, now);
        }
        if !self.client.session.is_connected() && self.random.chance(30) {
            self.end_server_connection();
            self.client.session.connect(now);
            self.end = End::Greeting(Acceptor::new(config(0), now));
        }
        self.client.run(now, &mut self.random);
        let mut out = Vec::new();
        if self.client.session.poll_output(now, &mut out) {
            self.to_server.send(now, &out, &mut self.random);
        }
        let arrived = self.to_server.receive(now);
        self.run_server(&arrived);
        let arrived = self.to_client.receive(now);
        self.client.session.input().extend_from_slice(&arrived);
        self.client.run(now, &mut self.random);
        self.check_bounds();
    }

    /// Losses and restarts.
    fn disturb(&mut self) {
        match self.random.below(300) {
            0..5 => self.lose(),
            5 => {
                self.counts[1] += 1;
                self.end = End::None;
                self.sessions = Sessions::new(2);
                self.server.restart();
                self.lose();
            }
            6 => {
                self.counts[2] += 1;
                self.lose();
                self.client.restart(self.random.next());
            }
            _ => {}
        }
    }

    fn lose(&mut self) {
        self.counts[0] += 1;
        self.to_server = Wire::default();
        self.to_client = Wire::default();
        self.client.session.connection_lost(self.now);
        if self.random.chance(50) {
            self.end_server_connection();
        }
    }

    /// The server notices that its connection is gone.
    fn end_server_connection(&mut self) {
        self.to_server = Wire::default();
        self.to_client = Wire::default();
        if let End::Open(mut session) = std::mem::replace(&mut self.end, End::None) {
            session.connection_lost(self.now);
            self.server.run(&mut session, self.now, &mut self.random);
            for mut dropped in self.sessions.park(*session, "ada".into(), self.now) {
                self.server.run(&mut dropped, self.now, &mut self.random);
                self.server.forget(&dropped);
            }
        }
    }

    fn run_server(&mut self, arrived: &[u8]) {
        if let End::Greeting(acceptor) = &mut self.end {
            acceptor.input().extend_from_slice(arrived);
            if let Some(hello) = acceptor.poll(self.now).expect("the client says a good hello") {
                let End::Greeting(acceptor) = std::mem::replace(&mut self.end, End::None) else {
                    unreachable!("it was matched above")
                };
                let session = match self.sessions.take(&hello, b"ada") {
                    Some(parked) => {
                        self.counts[3] += 1;
                        acceptor.resume(parked, hello, self.now)
                    }
                    None => {
                        self.ids = self.ids.wrapping_add(1);
                        let id = SessionId { id: [self.ids; 16], secret: [7; 32] };
                        acceptor.accept(hello, id, self.now)
                    }
                };
                self.end = End::Open(Box::new(session));
            }
        } else if let End::Open(session) = &mut self.end {
            session.input().extend_from_slice(arrived);
        }
        let End::Open(session) = &mut self.end else { return };
        self.server.run(session, self.now, &mut self.random);
        session.handle_timeout(self.now);
        let mut out = Vec::new();
        if session.poll_output(self.now, &mut out) {
            self.to_client.send(self.now, &out, &mut self.random);
        }
        assert!(!session.is_closed(), "two good peers do not end a session");
    }

    fn check_bounds(&self) {
        let check = |usage: tidewire_live::Usage| {
            assert!(usage.calls_in <= 8 && usage.watches_in <= 6, "{usage:?}");
            assert!(usage.calls_out <= 64, "{usage:?}");
            assert!(usage.orphans <= 16, "{usage:?}");
            assert!(usage.received_bytes <= 150 + 2000, "{usage:?}");
            assert!(usage.command_bytes <= 100, "{usage:?}");
            assert!(usage.stream_bytes <= 16 * (2 * 60 + 2000), "{usage:?}");
            assert!(usage.output_bytes <= 64 << 10, "{usage:?}");
        };
        check(self.client.session.usage());
        if let End::Open(session) = &self.end {
            check(session.usage());
        }
    }

    /// Lets everything come to rest, then looks for what is left over.
    fn check_at_rest(&mut self) {
        self.server.quiet = true;
        for round in 0..4_000 {
            self.step(true);
            if round % 100 == 0 {
                self.now += 1_000_000;
            }
            if round > 400 && self.client.is_idle() && self.server.is_idle() {
                break;
            }
        }
        for _ in 0..200 {
            self.step(true);
        }
        let End::Open(server) = &self.end else { panic!("the network is calm and not connected") };
        let versions = self.server.versions;
        self.client.check_at_rest(&versions);
        let (ours, theirs) = (self.client.session.usage(), server.usage());
        let watches = self.client.watches();
        assert_eq!((ours.calls_out, theirs.calls_in), (watches, 0), "{ours:?} {theirs:?}");
        assert_eq!(theirs.watches_in, watches, "watches of both sides agree");
        assert_eq!((ours.calls_in, theirs.calls_out, theirs.orphans), (0, 0, 0));
        assert_eq!((ours.stream_bytes, theirs.stream_bytes), (0, 0));
        assert_eq!((ours.received_bytes, theirs.received_bytes), (0, 0));
        assert_eq!(ours.outstanding_bytes, theirs.uncredited_bytes, "credit to the server");
        assert_eq!(theirs.outstanding_bytes, ours.uncredited_bytes, "credit to the client");
        assert!(ours.uncredited_bytes < 150 / 4 + 1 && theirs.uncredited_bytes < 150 / 4 + 1);
    }
}

#[test]
fn all_properties_hold_under_random_loss_and_restarts() {
    let seed = seed();
    println!("seed {seed}");
    let rounds =
        std::env::var("LIVE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(120);
    let mut totals = [0u64; 9];
    for round in 0..rounds {
        let seed = seed.wrapping_add(round);
        println!("round {round}: LIVE_SEED={seed} LIVE_ROUNDS=1");
        let mut world = World::new(seed);
        for _ in 0..1_500 {
            world.step(false);
        }
        world.check_at_rest();
        let client = world.client.counts;
        let own = world.counts.map(u64::from);
        for (total, count) in totals.iter_mut().zip(own.into_iter().chain(client)) {
            *total += count;
        }
    }
    let [lost, restarts, reboots, resumed, calls, replies, failures, unknown, items] = totals;
    println!(
        "lost {lost}, server restarts {restarts}, client restarts {reboots}, resumed {resumed}"
    );
    println!(
        "calls {calls}, replies {replies}, failures {failures}, unknown {unknown}, items {items}"
    );
    assert!(rounds < 100 || resumed > 100 && replies > 10_000 && items > 10_000, "{totals:?}");
    assert!(rounds < 100 || unknown > 0, "some outcome was unknown: {totals:?}");
}
