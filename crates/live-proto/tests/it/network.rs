//! Properties over random schedules: two sessions on a virtual network with latency, connections
//! lost at any byte, restarts of either side.
//!
//! | property | where |
//! |---|---|
//! | every call ends exactly once, and what its outcome says is true | `network/client.rs` |
//! | no command runs twice, within a session or under its key | `network/server.rs` |
//! | what is not suspect is as new as what the callee knew when it wrote what was read last | `network/client.rs` |
//! | no answer that a writer may use is older than its own command | `network/client.rs` |
//! | no replica is stale after quiescence | `World::check_at_rest` |
//! | stream items come once, in order, without gaps | both |
//! | no credit leaks, no slot leaks | `World::check_at_rest` |
//! | memory is bounded | `World::check_bounds` |
//!
//! Two clients share a server: connections are lost at any byte, taken over, drained; readers are
//! slow, or sleep; either side is restarted; pages are reloaded with a copy of their session;
//! handlers end in any order.
//!
//! The first seed is 1, or `LIVE_SEED`. Each one is printed;
//! `LIVE_SEED=... LIVE_ROUNDS=1 cargo test -p tidewire-live-proto network` runs one again.

mod client;
mod server;

use std::collections::VecDeque;

use tidewire_live_proto::{Acceptor, Config, Limits, Session, SessionId, Sessions, feature};

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
    given.unwrap_or(1)
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
    let features = feature::USUAL | feature::DURABLE;
    Config { limits, features, seed, boot, command_bytes_max: 100, ..Config::default() }
}

/// What the server knew when it wrote.
pub(crate) type Known = [u64; KEYS as usize];

#[derive(Debug)]
struct Packet {
    at: u64,
    bytes: Vec<u8>,
    /// On the last bytes of a write.
    known: Option<Known>,
}

/// One direction of a connection: bytes and when they arrive.
#[derive(Debug, Default)]
struct Wire(VecDeque<Packet>);

impl Wire {
    fn send(&mut self, now: u64, bytes: &[u8], known: Option<Known>, random: &mut Random) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let whole = random.chance(70);
            let len = if whole { rest.len() } else { 1 + random.below(rest.len() as u64) as usize };
            let last = self.0.back().map_or(0, |packet| packet.at);
            let latency = if random.chance(80) { random.below(300) } else { random.below(20_000) };
            let (part, after) = rest.split_at(len);
            let known = known.filter(|_| after.is_empty());
            self.0.push_back(Packet { at: last.max(now + latency), bytes: part.to_vec(), known });
            rest = after;
        }
    }

    /// The next bytes that have arrived.
    fn receive(&mut self, now: u64) -> Option<Packet> {
        self.0.pop_front_if(|packet| packet.at <= now)
    }
}

/// What the server's end of a connection is.
#[allow(clippy::large_enum_variant, reason = "there are two of it")]
enum End {
    None,
    Greeting(Acceptor),
    Open(Box<Session>),
}

/// A client and its connection.
struct Line {
    client: Client,
    end: End,
    to_server: Wire,
    to_client: Wire,
    /// Until when the client does not read.
    slow_until: u64,
    /// What a reloaded page finds in its storage.
    copied: Option<SessionId>,
    name: &'static str,
}

struct World {
    random: Random,
    now: u64,
    lines: Vec<Line>,
    server: Server,
    sessions: Sessions<Session>,
    ids: u8,
    counts: Counts,
}

/// How often things happened.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    lost: u64,
    restarts: u64,
    reloads: u64,
    resumed: u64,
    taken_over: u64,
    drains: u64,
    copies_refused: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let line = |name, client| Line {
            client: Client::new(seed, client),
            end: End::None,
            to_server: Wire::default(),
            to_client: Wire::default(),
            slow_until: 0,
            copied: None,
            name,
        };
        Self {
            random: Random::new(seed),
            now: 0,
            lines: vec![line("ada", 1), line("eve", 2)],
            server: Server::default(),
            sessions: Sessions::new(3),
            ids: 0,
            counts: Counts::default(),
        }
    }

    fn step(&mut self, calm: bool) {
        self.now += self.random.below(2_000);
        if !calm {
            self.disturb();
        }
        for index in 0..self.lines.len() {
            self.step_line(index, calm);
        }
        self.check_bounds();
    }

    fn step_line(&mut self, index: usize, calm: bool) {
        let now = self.now;
        let line = &mut self.lines[index];
        if !calm {
            line.client.act(&mut self.random, now);
        }
        if !line.client.session.is_connected() && self.random.chance(30) {
            self.end_server_connection(index);
            let line = &mut self.lines[index];
            line.client.session.connect(now);
            line.end = End::Greeting(Acceptor::new(config(0), now));
        }
        let line = &mut self.lines[index];
        line.client.run(now, &mut self.random);
        let mut out = Vec::new();
        if line.client.session.poll_output(now, &mut out) {
            line.to_server.send(now, &out, None, &mut self.random);
        }
        self.run_server(index);
        let line = &mut self.lines[index];
        if !calm && line.slow_until > now {
            return;
        }
        while let Some(packet) = line.to_client.receive(now) {
            line.client.session.input().extend_from_slice(&packet.bytes);
            line.client.run(now, &mut self.random);
            line.client.read(packet.known);
        }
    }

    /// Losses, restarts, and what else may go wrong.
    fn disturb(&mut self) {
        let index = self.random.below(self.lines.len() as u64) as usize;
        match self.random.below(400) {
            0..8 => self.lose(index),
            8 => {
                self.counts.restarts += 1;
                for line in &mut self.lines {
                    line.end = End::None;
                }
                self.sessions = Sessions::new(3);
                self.server.restart();
                (0..self.lines.len()).for_each(|index| self.lose(index));
            }
            9 => {
                self.counts.reloads += 1;
                self.lose(index);
                let line = &mut self.lines[index];
                line.copied = line.client.session.session_id().copied();
                line.client.restart(self.random.next());
            }
            10..13 => self.lines[index].slow_until = self.now + self.random.below(200_000),
            13 => self.lines[index].client.session.wake(self.now),
            14 => {
                if let End::Open(session) = &mut self.lines[index].end {
                    self.counts.drains += 1;
                    session.drain(0, 0);
                }
            }
            _ => {}
        }
    }

    fn lose(&mut self, index: usize) {
        self.counts.lost += 1;
        let line = &mut self.lines[index];
        line.to_server = Wire::default();
        line.to_client = Wire::default();
        line.client.session.connection_lost(self.now);
        line.client.run(self.now, &mut self.random);
        if self.random.chance(50) {
            self.end_server_connection(index);
        }
    }

    /// The server notices that its connection is gone, or another takes it over.
    fn end_server_connection(&mut self, index: usize) {
        let line = &mut self.lines[index];
        line.to_server = Wire::default();
        line.to_client = Wire::default();
        if let End::Open(mut session) = std::mem::replace(&mut line.end, End::None) {
            if session.is_connected() {
                self.counts.taken_over += 1;
            }
            session.take_over(self.now, &mut Vec::new());
            self.server.run(&mut session, self.now, &mut self.random);
            let mut dropped = match session.ticket() {
                None => vec![*session],
                Some(ticket) => {
                    let id = *ticket.id();
                    self.sessions.hold(ticket, line.name.into(), *session);
                    self.sessions.park(&id, 0, self.now)
                }
            };
            for dropped in &mut dropped {
                dropped.expire();
                self.server.run(dropped, self.now, &mut self.random);
                self.server.forget(dropped);
            }
        }
    }

    fn run_server(&mut self, index: usize) {
        let line = &mut self.lines[index];
        while let Some(packet) = line.to_server.receive(self.now) {
            match &mut line.end {
                End::None => {}
                End::Greeting(acceptor) => acceptor.input().extend_from_slice(&packet.bytes),
                End::Open(session) => session.input().extend_from_slice(&packet.bytes),
            }
        }
        self.greet(index);
        let line = &mut self.lines[index];
        let End::Open(session) = &mut line.end else { return };
        let known = self.server.run(session, self.now, &mut self.random);
        session.handle_timeout(self.now);
        let mut out = Vec::new();
        if session.poll_output(self.now, &mut out) {
            line.to_client.send(self.now, &out, Some(known), &mut self.random);
        }
        assert!(!session.is_closed(), "two good peers do not end a session");
        if self.server.drained(session) && line.to_client.0.is_empty() {
            self.lose(index);
        }
    }

    fn greet(&mut self, index: usize) {
        let line = &mut self.lines[index];
        let End::Greeting(acceptor) = &mut line.end else { return };
        let hello = acceptor.poll(self.now).expect("the client says a good hello");
        let Some(mut hello) = hello else { return };
        let End::Greeting(acceptor) = std::mem::replace(&mut line.end, End::None) else {
            unreachable!("it was matched above")
        };
        if let Some(copied) = line.copied.take() {
            (hello.session, hello.secret) = (Some(copied.id), Some(copied.secret));
            assert!(self.sessions.take(&hello, line.name.as_bytes()).is_none(), "another page");
            self.counts.copies_refused += 1;
        }
        let session = match self.sessions.take(&hello, line.name.as_bytes()) {
            Some(mut parked) => {
                self.counts.resumed += 1;
                acceptor.resume(&mut parked, hello, self.now);
                parked
            }
            None => {
                self.ids = self.ids.wrapping_add(1);
                let id = SessionId { id: [self.ids; 16], secret: [7; 32] };
                acceptor.accept(hello, id, self.now)
            }
        };
        line.end = End::Open(Box::new(session));
    }

    fn check_bounds(&self) {
        let check = |usage: tidewire_live_proto::Usage| {
            assert!(usage.calls_in as usize + usage.orphans <= 8, "{usage:?}");
            assert!(usage.watches_in <= 6, "{usage:?}");
            // Until the first hello the bound is the default one, and calls wait.
            assert!(usage.calls_out <= 1024, "{usage:?}");
            assert!(usage.received_bytes <= 150 + (64 << 10), "{usage:?}");
            assert!(usage.command_bytes <= 100, "{usage:?}");
            let calls = usage.calls_out.max(64) as usize;
            assert!(usage.stream_bytes <= calls * (2 * 60 + 2000), "{usage:?}");
            assert!(usage.output_bytes <= 64 << 10, "{usage:?}");
        };
        for line in &self.lines {
            check(line.client.session.usage());
            if let End::Open(session) = &line.end {
                check(session.usage());
            }
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
            let idle = self.lines.iter().all(|line| line.client.is_idle());
            if round > 400 && idle && self.server.is_idle() {
                break;
            }
        }
        for _ in 0..200 {
            self.step(true);
        }
        let versions = self.server.versions;
        for line in &self.lines {
            let End::Open(server) = &line.end else { panic!("it is calm and not connected") };
            line.client.check_at_rest(&versions, &self.server.ran);
            let (ours, theirs) = (line.client.session.usage(), server.usage());
            let watches = line.client.watches();
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
}

#[test]
fn all_properties_hold_under_random_loss_and_restarts() {
    let seed = seed();
    let rounds =
        std::env::var("LIVE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    println!("seed {seed}, {rounds} rounds");
    let mut calls = [0u64; 5];
    let mut all = Vec::new();
    for round in 0..rounds {
        let seed = seed.wrapping_add(round);
        println!("round {round}: LIVE_SEED={seed} LIVE_ROUNDS=1");
        let mut world = World::new(seed);
        for _ in 0..500 {
            world.step(false);
        }
        world.check_at_rest();
        all.push(world.counts);
        for line in &world.lines {
            for (total, count) in calls.iter_mut().zip(line.client.counts) {
                *total += count;
            }
        }
    }
    let sum = |of: fn(&Counts) -> u64| all.iter().map(of).sum::<u64>();
    let happened = [
        ("lost", sum(|counts| counts.lost)),
        ("server restarts", sum(|counts| counts.restarts)),
        ("reloads", sum(|counts| counts.reloads)),
        ("resumed", sum(|counts| counts.resumed)),
        ("taken over", sum(|counts| counts.taken_over)),
        ("drains", sum(|counts| counts.drains)),
        ("copies refused", sum(|counts| counts.copies_refused)),
        ("calls", calls[0]),
        ("replies", calls[1]),
        ("failures", calls[2]),
        ("unknown", calls[3]),
        ("items", calls[4]),
    ];
    println!("{happened:?}");
    assert!(rounds < 100 || happened.iter().all(|(_, count)| *count > 10), "{happened:?}");
}
