//! The client's application: calls of all kinds, replicas, and the checks that only a caller can
//! make.

use std::collections::{HashMap, HashSet};

use tidewire_live_proto::{
    CallId, Continuation, Metadata, OutgoingReply, Push, Request, Session, Watch,
};
use tidewire_service::{Code, Codec, Outcome, Validator};

use super::{KEYS, Known, Random, config};
use crate::heard::{Event, hear};

/// What a call was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Read(u64),
    Watch(u64),
    Write(u64),
    /// Server stream of so many items.
    Range(u64),
    /// Items there and back.
    Echo {
        sent: u64,
        items: u64,
    },
}

#[derive(Debug)]
struct Open {
    purpose: Purpose,
    /// The next item expected.
    next: u64,
    op: u64,
    /// How often this side had written when it asked.
    writes: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Replica {
    version: Option<u64>,
    /// The client may use it: not stale, not suspect, confirmed since the last loss.
    fresh: bool,
    call: Option<CallId>,
}

pub(super) struct Client {
    pub(super) session: Session,
    open: HashMap<CallId, Open>,
    replicas: [Replica; KEYS as usize],
    unconfirmed: [bool; KEYS as usize],
    /// It woke, and the server was not heard since.
    unsure: bool,
    next_op: u64,
    /// What every client must not share: the operations of this one begin with it.
    name: u64,
    /// The newest version of each key that a reply to an own command told.
    written: Known,
    /// What the server knew when it wrote what was read last.
    floor: Known,
    /// Answers kept by their age: the version, and how often this side had written when it asked.
    kept: [Option<(u64, u64)>; KEYS as usize],
    /// How each write ended.
    ends: Vec<(u64, End)>,
    /// Calls of the server that are to be answered.
    asked: Vec<CallId>,
    /// Calls, replies, failures, unknown outcomes, items.
    pub(super) counts: [u64; 5],
}

/// What a client knows of a write in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Ran,
    NotRun,
    Unknown,
}

fn end_of(outcome: Outcome, code: Code) -> End {
    match outcome {
        Outcome::NotRun | Outcome::Behind => End::NotRun,
        Outcome::ReplyLost => End::Ran,
        Outcome::Unknown => End::Unknown,
        _ => panic!("no command of this application fails: {code}"),
    }
}

pub(super) fn content(version: u64) -> Validator {
    let mut validator = [0; 16];
    validator[..8].copy_from_slice(&version.to_le_bytes());
    Validator::new(validator)
}

impl Client {
    pub(super) fn new(seed: u64, name: u64) -> Self {
        Self {
            name,
            written: [0; KEYS as usize],
            floor: [0; KEYS as usize],
            kept: [None; KEYS as usize],
            ends: Vec::new(),
            session: Session::dialer(config(seed ^ name << 48)),
            open: HashMap::new(),
            replicas: Default::default(),
            unconfirmed: Default::default(),
            unsure: false,
            next_op: 0,
            asked: Vec::new(),
            counts: [0; 5],
        }
    }

    /// The process starts anew and remembers nothing but which operations it used.
    pub(super) fn restart(&mut self, seed: u64) {
        let (next_op, counts, name) = (self.next_op, self.counts, self.name);
        let ends = std::mem::take(&mut self.ends);
        *self = Self { next_op, counts, ends, ..Self::new(seed, name) };
    }

    pub(super) fn is_idle(&self) -> bool {
        self.open.values().all(|open| matches!(open.purpose, Purpose::Watch(_)))
            && self.replicas.iter().all(|replica| replica.fresh || replica.call.is_none())
    }

    pub(super) fn watches(&self) -> u32 {
        self.replicas.iter().filter(|replica| replica.call.is_some()).count() as u32
    }

    fn start(
        &mut self,
        path: &str,
        purpose: Purpose,
        request: impl FnOnce(Request) -> Request,
        now: u64,
    ) {
        self.next_op += 1;
        let key = match purpose {
            Purpose::Watch(key) | Purpose::Write(key) => key,
            Purpose::Range(count) => count,
            Purpose::Read(key) => key,
            Purpose::Echo { .. } => 0,
        };
        let op = self.name << 48 | self.next_op;
        let payload = [op.to_le_bytes(), key.to_le_bytes()].concat();
        let writes = self.session.writes();
        let method = self.session.method(path, Codec::Proto);
        let Ok(call) = self.session.call(request(Request::query(method, payload)), now) else {
            return;
        };
        self.counts[0] += 1;
        let before = self.open.insert(call, Open { purpose, next: 0, op, writes });
        assert!(before.is_none(), "a handle is used once");
        if let Purpose::Watch(key) = purpose {
            self.replicas[key as usize].call = Some(call);
            self.unconfirmed[key as usize] = false;
        }
    }

    fn watch(&mut self, key: u64, random: &mut Random, now: u64) {
        let replica = self.replicas[key as usize];
        let mode = if random.chance(50) { Watch::Notify } else { Watch::Values };
        let held = replica.version.map(content);
        self.start("/t/read", Purpose::Watch(key), |r| r.watch(mode).validator(held), now);
    }

    pub(super) fn act(&mut self, random: &mut Random, now: u64) {
        let key = random.below(KEYS);
        match random.below(30) {
            0 => self.start("/t/read", Purpose::Read(key), |r| r, now),
            1 => {
                let deadline = now + random.below(10_000);
                self.start("/t/read", Purpose::Read(key), |r| r.deadline(deadline), now);
            }
            2 | 3 if self.replicas[key as usize].call.is_none() => self.watch(key, random, now),
            4 | 5 => {
                let command = |r| Request { kind: tidewire_live_proto::CallKind::Command, ..r };
                self.start("/t/write", Purpose::Write(key), command, now);
            }
            6 => self.start("/t/range", Purpose::Range(random.below(30)), |r| r, now),
            7 => {
                let echo = Purpose::Echo { sent: 0, items: random.below(30) };
                self.start("/t/echo", echo, Request::streaming, now);
            }
            8 if random.chance(20) => self.drop_one(random),
            _ => {}
        }
    }

    /// Gives up on some call: nothing more may be heard of it.
    fn drop_one(&mut self, random: &mut Random) {
        let mut calls: Vec<_> = self.open.keys().copied().collect();
        calls.sort_unstable();
        let Some(&call) = calls.get(random.below(calls.len().max(1) as u64) as usize) else {
            return;
        };
        self.session.cancel(call);
        match self.open.remove(&call) {
            Some(Open { purpose: Purpose::Watch(key), .. }) => {
                self.replicas[key as usize] = Replica::default();
                self.unconfirmed[key as usize] = false;
            }
            Some(Open { purpose: Purpose::Write(_), op, .. }) => self.ends.push((op, End::Unknown)),
            _ => {}
        }
    }

    pub(super) fn run(&mut self, now: u64, random: &mut Random) {
        self.session.handle_timeout(now);
        while let Some(event) = hear(&mut self.session, now) {
            self.hear(event, random, now);
        }
        self.echo();
        for call in std::mem::take(&mut self.asked) {
            if random.chance(20) {
                self.session.reply(call, OutgoingReply::new(&b"back"[..]));
            } else {
                self.asked.push(call);
            }
        }
        for key in 0..KEYS {
            let replica = self.replicas[key as usize];
            let is_known = replica.version.is_some();
            if replica.call.is_none() && is_known && random.chance(10) {
                self.watch(key, random, now);
            }
        }
    }

    fn echo(&mut self) {
        let mut calls: Vec<_> = self.open.iter_mut().collect();
        calls.sort_unstable_by_key(|(call, _)| **call);
        for (&call, open) in calls {
            let Purpose::Echo { sent, items } = &mut open.purpose else { continue };
            while *sent < *items && self.session.push(call, &sent.to_le_bytes()) == Push::Queued {
                *sent += 1;
            }
            if *sent == *items {
                self.session.finish(call, &Metadata::default());
            }
        }
    }

    fn hear(&mut self, event: Event, random: &mut Random, now: u64) {
        match event {
            Event::Lost => {
                self.unsure = false;
                self.doubt();
            }
            Event::Connected { resumed } => self.confirm(resumed),
            Event::Reply(answer) => self.replied(&answer),
            Event::Items { call, items } => {
                let open = self.open.get_mut(&call).expect("items of an open call");
                for item in items.iter() {
                    let item = u64::from_le_bytes(item.try_into().expect("eight bytes"));
                    assert_eq!(item, open.next, "items in order, without gaps or repeats");
                    open.next += 1;
                    self.counts[4] += 1;
                }
                self.session.consumed(call, items.bytes());
            }
            Event::End { call, .. } => {
                let open = self.end(call, 1);
                match open.purpose {
                    Purpose::Range(items) | Purpose::Echo { items, .. } => {
                        assert_eq!(open.next, items, "all items came before the end");
                    }
                    other => panic!("{other:?} ended like a stream"),
                }
            }
            Event::Failed { call, error, .. } => {
                let purpose = self.open.get(&call).map(|open| open.purpose);
                let is_command = matches!(purpose, Some(Purpose::Write(_)));
                let is_unknown = is_command && error.outcome() == Outcome::Unknown;
                let open = self.end(call, if is_unknown { 3 } else { 2 });
                if is_command {
                    self.ends.push((open.op, end_of(error.outcome(), error.code())));
                }
                assert!(is_command || error.code() != Code::Aborted, "{error}");
                if let Purpose::Watch(key) = open.purpose {
                    self.replicas[key as usize].call = None;
                    self.replicas[key as usize].fresh = false;
                    self.unconfirmed[key as usize] = false;
                }
            }
            Event::Stale { call } => {
                let Purpose::Watch(key) = self.end(call, 1).purpose else { panic!("no watch") };
                self.replicas[key as usize].call = None;
                self.replicas[key as usize].fresh = false;
                self.unconfirmed[key as usize] = false;
                self.watch(key, random, now);
            }
            Event::Unsure => {
                self.unsure = true;
                self.doubt();
            }
            Event::Sure => {
                self.unsure = false;
                self.confirm(true);
            }
            Event::Suspect { call } => self.trust(call, false),
            Event::Confirmed { call } => self.trust(call, true),
            Event::Request(incoming) => self.asked.push(incoming.call),
            Event::Closed(violation) => panic!("closed: {violation}"),
            _ => {}
        }
    }

    fn replied(&mut self, answer: &crate::heard::Answer) {
        let open = self.open.get(&answer.call).expect("an answer to an open call");
        let purpose = open.purpose;
        let (op, writes) = (open.op, open.writes);
        if answer.then == Continuation::Nothing {
            self.end(answer.call, 1);
        }
        if let Purpose::Write(_) = purpose {
            self.ends.push((op, End::Ran));
        }
        if let (Purpose::Read(key), Some(_)) = (purpose, answer.max_age_ms) {
            let version = u64::from_le_bytes(answer.payload[..8].try_into().expect("8"));
            self.kept[key as usize] = Some((version, writes));
        }
        self.answered(purpose, answer);
    }

    /// What is held may be old.
    fn doubt(&mut self) {
        for (replica, unconfirmed) in self.replicas.iter_mut().zip(&mut self.unconfirmed) {
            *unconfirmed |= std::mem::take(&mut replica.fresh);
        }
    }

    /// What was not named since may be used again.
    fn confirm(&mut self, confirmed: bool) {
        if self.unsure {
            return;
        }
        for (replica, unconfirmed) in self.replicas.iter_mut().zip(&mut self.unconfirmed) {
            if std::mem::take(unconfirmed) && confirmed {
                replica.fresh = true;
            }
        }
    }

    /// Whether what a watch holds may be used.
    fn trust(&mut self, call: CallId, fresh: bool) {
        let Some(Open { purpose: Purpose::Watch(key), .. }) = self.open.get(&call) else {
            panic!("no watch")
        };
        self.replicas[*key as usize].fresh = fresh && !self.unsure;
        self.unconfirmed[*key as usize] = fresh && self.unsure;
    }

    /// A call ended; it was open, so this is the first time.
    fn end(&mut self, call: CallId, count: usize) -> Open {
        self.counts[count] += 1;
        self.open.remove(&call).expect("a call ends once")
    }

    fn answered(&mut self, purpose: Purpose, answer: &crate::heard::Answer) {
        let version = || u64::from_le_bytes(answer.payload[..8].try_into().expect("a version"));
        match purpose {
            Purpose::Watch(key) => {
                let replica = &mut self.replicas[key as usize];
                if !answer.unchanged {
                    let new = version();
                    assert!(replica.version.is_none_or(|old| new >= old), "versions go forward");
                    replica.version = Some(new);
                } else {
                    assert_eq!(answer.validator, replica.version.map(content));
                }
                let fresh = answer.then == Continuation::Watch && !answer.suspect;
                replica.fresh = fresh && !self.unsure;
                self.unconfirmed[key as usize] = fresh && self.unsure;
                if answer.then == Continuation::Nothing {
                    replica.call = None;
                }
            }
            Purpose::Write(key) => {
                let written = &mut self.written[key as usize];
                *written = version().max(*written);
            }
            _ => {}
        }
    }

    /// All that the server wrote with this knowledge has been read.
    pub(super) fn read(&mut self, known: Option<Known>) {
        self.floor = known.unwrap_or(self.floor);
        self.check_fresh();
    }

    /// What may be used is as new as the promise says.
    fn check_fresh(&self) {
        for (key, replica) in self.replicas.iter().enumerate().filter(|(_, r)| r.fresh) {
            let held = replica.version.expect("what is fresh is there");
            assert!(held >= self.written[key], "a writer may read {replica:?} of key {key}");
            assert!(held >= self.floor[key], "{replica:?} of key {key} was told to be stale");
        }
        for (key, kept) in self.kept.iter().enumerate() {
            let Some((version, writes)) = kept else { continue };
            let usable = *writes == self.session.writes();
            assert!(!usable || *version >= self.written[key], "a kept answer of key {key}");
        }
    }

    pub(super) fn check_at_rest(&self, versions: &Known, ran: &HashSet<u64>) {
        for (op, end) in &self.ends {
            match end {
                End::Ran => assert!(ran.contains(op), "{op:#x} did not run"),
                End::NotRun => assert!(!ran.contains(op), "{op:#x} ran"),
                End::Unknown => {}
            }
        }

        for (replica, version) in self.replicas.iter().zip(versions) {
            if replica.call.is_some() {
                assert!(replica.fresh, "{replica:?} is not confirmed at rest");
                assert_eq!(replica.version, Some(*version), "a replica is stale at rest");
            }
        }
        let left: Vec<_> =
            self.open.values().filter(|open| !matches!(open.purpose, Purpose::Watch(_))).collect();
        assert!(left.is_empty(), "calls that never ended: {left:?}");
    }
}
