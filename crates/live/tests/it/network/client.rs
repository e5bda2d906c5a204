//! The client's application: calls of all kinds, replicas, and the checks that only a caller can make.

use std::collections::HashMap;

use tidewire_live::{CallId, Metadata, Push, Reply, Request, Session, Then, Watch};
use tidewire_service::{Code, Codec, Validator};

use super::{KEYS, Random, config};
use crate::heard::{Event, hear};

/// What a call was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Read,
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
    next_op: u64,
    /// Calls of the server that are to be answered.
    asked: Vec<CallId>,
    /// Calls, replies, failures, unknown outcomes, items.
    pub(super) counts: [u64; 5],
}

pub(super) fn content(version: u64) -> Validator {
    let mut validator = [0; 16];
    validator[..8].copy_from_slice(&version.to_le_bytes());
    Validator::new(validator)
}

impl Client {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            session: Session::dialer(config(seed)),
            open: HashMap::new(),
            replicas: Default::default(),
            unconfirmed: Default::default(),
            next_op: 0,
            asked: Vec::new(),
            counts: [0; 5],
        }
    }

    /// The process starts anew and remembers nothing but which operations it used.
    pub(super) fn restart(&mut self, seed: u64) {
        let (next_op, counts) = (self.next_op, self.counts);
        *self = Self { next_op, counts, ..Self::new(seed) };
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
            Purpose::Read | Purpose::Echo { .. } => 0,
        };
        let payload = [self.next_op.to_le_bytes(), key.to_le_bytes()].concat();
        let method = self.session.method(path, Codec::Proto);
        let Ok(call) = self.session.call(request(Request::query(method, payload)), now) else {
            return;
        };
        self.counts[0] += 1;
        let before = self.open.insert(call, Open { purpose, next: 0 });
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
            0 => self.start("/t/read", Purpose::Read, |r| r, now),
            1 => {
                let deadline = now + random.below(10_000);
                self.start("/t/read", Purpose::Read, |r| r.deadline(deadline), now);
            }
            2 | 3 if self.replicas[key as usize].call.is_none() => self.watch(key, random, now),
            4 | 5 => {
                let command = |r| Request { kind: tidewire_live::CallKind::Command, ..r };
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
        if let Some(Open { purpose: Purpose::Watch(key), .. }) = self.open.remove(&call) {
            self.replicas[key as usize] = Replica::default();
            self.unconfirmed[key as usize] = false;
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
                self.session.reply(call, Reply::new(&b"back"[..]));
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
                self.replicas.iter_mut().zip(&mut self.unconfirmed).for_each(|(r, u)| {
                    *u |= std::mem::take(&mut r.fresh);
                })
            }
            Event::Connected { resumed } => {
                for (replica, unconfirmed) in self.replicas.iter_mut().zip(&mut self.unconfirmed) {
                    if std::mem::take(unconfirmed) && resumed {
                        replica.fresh = true;
                    }
                }
            }
            Event::Reply(answer) => {
                let open = self.open.get(&answer.call).expect("an answer to an open call");
                let purpose = open.purpose;
                if answer.then == Then::Nothing {
                    self.end(answer.call, 1);
                }
                self.answered(purpose, &answer);
            }
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
                let is_unknown = error.code() == Code::Aborted;
                let open = self.end(call, if is_unknown { 3 } else { 2 });
                assert!(!is_unknown || matches!(open.purpose, Purpose::Write(_)), "{error}");
                if let Purpose::Watch(key) = open.purpose {
                    self.replicas[key as usize].call = None;
                    self.replicas[key as usize].fresh = false;
                }
            }
            Event::Stale { call } => {
                let Purpose::Watch(key) = self.end(call, 1).purpose else { panic!("no watch") };
                self.replicas[key as usize].call = None;
                self.replicas[key as usize].fresh = false;
                self.watch(key, random, now);
            }
            Event::Suspect { call } => self.trust(call, false),
            Event::Confirmed { call } => self.trust(call, true),
            Event::Request(incoming) => self.asked.push(incoming.call),
            Event::Closed(violation) => panic!("closed: {violation}"),
            _ => {}
        }
    }

    /// Whether what a watch holds may be used.
    fn trust(&mut self, call: CallId, fresh: bool) {
        let Some(Open { purpose: Purpose::Watch(key), .. }) = self.open.get(&call) else {
            panic!("no watch")
        };
        self.replicas[*key as usize].fresh = fresh;
        self.unconfirmed[*key as usize] = false;
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
                replica.fresh = answer.then == Then::Watch;
                self.unconfirmed[key as usize] = false;
                if answer.then == Then::Nothing {
                    replica.call = None;
                }
            }
            Purpose::Write(key) => {
                let replica = self.replicas[key as usize];
                let written = version();
                assert!(
                    !replica.fresh || replica.version.is_some_and(|held| held >= written),
                    "a writer of version {written} may read {replica:?}"
                );
            }
            _ => {}
        }
    }

    pub(super) fn check_at_rest(&self, versions: &[u64; KEYS as usize]) {
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
