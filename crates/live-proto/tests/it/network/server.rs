//! The server's application: a small database, watchers, and streams.

use std::collections::{HashMap, HashSet};

use tidewire_live_proto::{
    CallId, Change, CommandOrigin, Continuation, Metadata, OutgoingReply, Push, Refresh, Request,
    Session, Watch,
};
use tidewire_service::Codec;

use super::client::content;
use super::{KEYS, Known, Random};
use crate::heard::{Event, Incoming, hear};

/// A session, as long as its process lives.
type Owner = [u8; 16];

#[derive(Default)]
pub(super) struct Server {
    /// The database: it survives restarts.
    pub(super) versions: [u64; KEYS as usize],
    /// Which operations ever ran.
    pub(super) ran: HashSet<u64>,
    /// What each command answered, by its key: in the database, like the versions.
    keys: HashMap<CommandOrigin, u64>,
    work: Vec<(u64, Owner, Work)>,
    watchers: HashMap<(Owner, CallId), (u64, Watch)>,
    /// Echo and range streams: the next item, and how many there are once known.
    streams: HashMap<(Owner, CallId), Streaming>,
    /// Marks for watchers of sessions that were not at hand.
    marks: Vec<(Owner, u64)>,
    called: bool,
    /// No new its own calls.
    pub(super) quiet: bool,
}

#[derive(Debug)]
struct Streaming {
    queued: u64,
    available: u64,
    ended: bool,
    expected: u64,
}

#[derive(Debug)]
enum Work {
    /// A read answers what it read when it began.
    Answer {
        call: CallId,
        path: &'static str,
        op: u64,
        key: u64,
        watch: Watch,
        read: u64,
        command: Option<CommandOrigin>,
    },
    Refresh {
        call: CallId,
        change: Change,
        read: u64,
    },
}

impl Server {
    /// The process starts anew: only the database is left.
    pub(super) fn restart(&mut self) {
        self.work.clear();
        self.watchers.clear();
        self.streams.clear();
        self.marks.clear();
        self.called = false;
    }

    /// A session is over for good.
    pub(super) fn forget(&mut self, session: &Session) {
        let Some(id) = session.session_id().map(|id| id.id) else { return };
        self.watchers.retain(|(owner, _), _| *owner != id);
        self.streams.retain(|(owner, _), _| *owner != id);
        self.work.retain(|(_, owner, _)| *owner != id);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.work.is_empty()
    }

    /// Whether a session that drains has nothing left to do.
    pub(super) fn drained(&self, session: &Session) -> bool {
        session.is_draining() && session.is_drained()
    }

    /// Returns what this session was told of the database.
    pub(super) fn run(&mut self, session: &mut Session, now: u64, random: &mut Random) -> Known {
        let owner = session.session_id().expect("sessions can be resumed").id;
        while let Some(event) = hear(session, now) {
            self.hear(event, owner, session, now, random);
        }
        for (of, key) in std::mem::take(&mut self.marks) {
            if of == owner {
                self.mark_own(key, owner, session, now, random);
            } else {
                self.marks.push((of, key));
            }
        }
        let mut due = Vec::new();
        self.work.retain_mut(|(at, of, work)| {
            let ready = *at <= now && *of == owner;
            if ready {
                due.push(std::mem::replace(work, NOTHING));
            }
            !ready
        });
        for work in due {
            self.do_work(work, owner, session, now, random);
        }
        self.stream(owner, session);
        if !self.called && !self.quiet && session.is_connected() && random.chance(2) {
            let method = session.method("/t/back", Codec::Proto);
            self.called = session.call(Request::query(method, &b"?"[..]), now).is_ok();
        }
        self.versions
    }

    fn hear(
        &mut self,
        event: Event,
        owner: Owner,
        session: &mut Session,
        now: u64,
        random: &mut Random,
    ) {
        match event {
            Event::Request(incoming) => self.admit(incoming, owner, session, now, random),
            Event::Cancelled { call } => {
                self.watchers.remove(&(owner, call));
                self.streams.remove(&(owner, call));
            }
            Event::Items { call, items } => {
                if let Some(stream) = self.streams.get_mut(&(owner, call)) {
                    for item in items.iter() {
                        let item = u64::from_le_bytes(item.try_into().expect("eight bytes"));
                        assert_eq!(item, stream.expected, "items in order at the server");
                        stream.expected += 1;
                        stream.available += 1;
                    }
                }
                session.consumed(call, items.bytes());
            }
            Event::Recompute { call, change } => {
                if let Some((key, _)) = self.watchers.get(&(owner, call)) {
                    let read = self.versions[*key as usize];
                    let work = Work::Refresh { call, change, read };
                    self.work.push((now + random.below(10_000), owner, work));
                }
            }
            Event::End { call, .. } => {
                if let Some(stream) = self.streams.get_mut(&(owner, call)) {
                    stream.ended = true;
                }
            }
            Event::Reply(answer) => {
                assert_eq!(
                    (answer.then, &answer.payload[..]),
                    (Continuation::Nothing, &b"back"[..])
                );
                self.called = false;
            }
            Event::Failed { .. } => self.called = false,
            Event::Closed(_) => {
                self.called = false;
            }
            _ => {}
        }
    }

    fn admit(
        &mut self,
        incoming: Incoming,
        owner: Owner,
        session: &mut Session,
        now: u64,
        random: &mut Random,
    ) {
        let call = incoming.call;
        let path = match &*incoming.path.as_ref().expect("it is named").path {
            "/t/read" => "read",
            "/t/write" => "write",
            "/t/range" => "range",
            "/t/echo" => "echo",
            other => panic!("{other}"),
        };
        let number = |at: usize| {
            let bytes = incoming.payload.get(at..at + 8);
            bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
        };
        let (op, key) = (number(0), number(8));
        if path == "echo" || path == "range" {
            session.reply_stream(call, &OutgoingReply::default());
            let streaming = Streaming {
                queued: 0,
                available: if path == "range" { key } else { 0 },
                ended: path == "range",
                expected: 0,
            };
            self.streams.insert((owner, call), streaming);
            return;
        }
        let delay = if random.chance(70) { 0 } else { random.below(30_000) };
        let (watch, read) = (incoming.watch, self.versions[key as usize]);
        if watch != Watch::No {
            self.watchers.insert((owner, call), (key, watch));
        }
        let command = incoming.origin;
        let work = Work::Answer { call, path, op, key, watch, read, command };
        self.work.push((now + delay, owner, work));
    }

    fn do_work(
        &mut self,
        work: Work,
        owner: Owner,
        session: &mut Session,
        now: u64,
        random: &mut Random,
    ) {
        match work {
            Work::Answer { call, path: "write", op, key, command, .. } => {
                if let Some(version) = command.and_then(|command| self.keys.get(&command)) {
                    return session.reply(call, OutgoingReply::new(&version.to_le_bytes()));
                }
                assert!(self.ran.insert(op), "command {op:#x} ran twice");
                self.versions[key as usize] += 1;
                self.mark(key, owner, session, now, random);
                let version = self.versions[key as usize];
                self.keys.extend(command.map(|command| (command, version)));
                session.reply(call, OutgoingReply::new(&version.to_le_bytes()));
            }
            Work::Answer { call, watch, read, .. } => {
                let before = session.usage().watches_in;
                let bytes = read.to_le_bytes();
                let reply = value(read, &bytes);
                session.reply(call, OutgoingReply { max_age_ms: Some(60_000), ..reply });
                if watch != Watch::No && session.usage().watches_in == before {
                    self.watchers.remove(&(owner, call));
                }
            }
            Work::Refresh { call, change, read } => {
                let bytes = read.to_le_bytes();
                session.refresh(call, change, Refresh::Value(value(read, &bytes)));
            }
        }
    }

    /// Marks every watcher of a key. Those of other sessions have no session at hand here: their
    /// marks wait until it runs.
    fn mark(
        &mut self,
        key: u64,
        owner: Owner,
        session: &mut Session,
        now: u64,
        random: &mut Random,
    ) {
        let others =
            self.watchers.iter().filter(|((of, _), (watched, _))| *watched == key && *of != owner);
        let mut others: Vec<_> = others.map(|((of, _), _)| (*of, key)).collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|mark| !self.marks.contains(mark));
        self.marks.extend(others);
        self.mark_own(key, owner, session, now, random);
    }

    fn mark_own(
        &mut self,
        key: u64,
        owner: Owner,
        session: &mut Session,
        now: u64,
        random: &mut Random,
    ) {
        let marked =
            self.watchers.iter().filter(|((of, _), (watched, _))| *watched == key && *of == owner);
        let mut marked: Vec<_> = marked.map(|((_, call), (_, mode))| (*call, *mode)).collect();
        marked.sort_unstable_by_key(|(call, _)| *call);
        for (call, mode) in marked {
            let change = session.stale(call);
            assert!(change.is_none() || mode == Watch::Values);
            if let Some(change) = change {
                let read = self.versions[key as usize];
                let work = Work::Refresh { call, change, read };
                self.work.push((now + random.below(10_000), owner, work));
            } else if mode == Watch::Notify {
                self.watchers.remove(&(owner, call));
            }
        }
    }

    fn stream(&mut self, owner: Owner, session: &mut Session) {
        let mut calls: Vec<_> =
            self.streams.keys().filter(|(of, _)| *of == owner).map(|(_, call)| *call).collect();
        calls.sort_unstable();
        for call in calls {
            let stream = self.streams.get_mut(&(owner, call)).expect("the key was just listed");
            while stream.queued < stream.available {
                match session.push(call, &stream.queued.to_le_bytes()) {
                    Push::Queued => stream.queued += 1,
                    _ => break,
                }
            }
            if stream.ended && stream.queued == stream.available {
                session.finish(call, &Metadata::default());
                self.streams.remove(&(owner, call));
            }
        }
    }
}

fn value(version: u64, bytes: &[u8]) -> OutgoingReply<'_> {
    OutgoingReply::new(bytes).validator(content(version)).watched()
}

const NOTHING: Work = Work::Answer {
    call: CallId::NONE,
    path: "",
    op: 0,
    key: 0,
    watch: Watch::No,
    read: 0,
    command: None,
};
