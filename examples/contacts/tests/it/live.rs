//! Commands over the live protocol that outlive every restart: sessions on a virtual network, the
//! application and its database for real.
//!
//! ```text
//!  caller writes ─▶ callee reads ─▶ a handler runs (database) ─▶ callee answers, writes ─▶ caller reads
//!        each arrow is a step, after each of which the callee may lose the connection, or be restarted
//! ```
//!
//! A restarted callee knows no session, and opens the database anew. What it had read and not
//! handled yet is lost, or, as in a process that drains behind a load balancer, handled later all
//! the same, at the same time as the repetition. The caller repeats what the protocol lets it.

mod callee;

use std::collections::BTreeMap;

use contacts::store::Store as _;
use contacts::store::postgres::{self, Postgres};
use contacts::store::sqlite::{Options, Sqlite};
use tempfile::TempDir;
use tidewire::{Code, Codec, Outcome};
use tidewire_live_proto::{
    CallId, CommandOrigin, Config, Event, Extra, MethodId, Request, Session, feature,
};

use self::callee::{Callee, Database};
use crate::app::database_in;
use crate::cluster;

impl Database for TempDir {
    type Store = Sqlite;

    async fn open(&self) -> Sqlite {
        Sqlite::open(&database_in(self.path()), &Options::default()).unwrap()
    }
}

impl Database for postgres::Config {
    type Store = Postgres;

    async fn open(&self) -> Postgres {
        let options = postgres::Options { connections: 1, ..postgres::Options::default() };
        Postgres::connect(self, &options).await.unwrap()
    }
}

async fn emptied(config: &postgres::Config) -> postgres::Config {
    cluster::execute(config, "DROP TABLE IF EXISTS contact, contact_command").await;
    config.clone()
}

/// What happens to the callee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disaster {
    /// The connection is lost, the session is not.
    Loss,
    /// It is restarted.
    Restart,
    /// It is restarted, and what it had read is handled by the old process all the same.
    RestartBehindABalancer,
}

const DISASTERS: [Disaster; 3] =
    [Disaster::Loss, Disaster::Restart, Disaster::RestartBehindABalancer];

/// A caller, a callee, and the bytes between them.
struct World<D: Database> {
    now: u64,
    caller: Session,
    method: MethodId,
    callee: Callee<D>,
    to_callee: Vec<u8>,
    to_caller: Vec<u8>,
    names: BTreeMap<CallId, String>,
    /// What the caller heard: a name, and the contact's JSON.
    heard: Vec<(String, String)>,
}

pub(crate) fn config(boot: u8) -> Config {
    Config {
        features: feature::USUAL | feature::DURABLE,
        boot: Some([boot; 16]),
        ..Config::default()
    }
}

impl<D: Database> World<D> {
    async fn new(database: D) -> Self {
        let mut caller = Session::dialer(config(0));
        let method = caller.method("/contacts.v1.Contacts/Create", Codec::Json);
        Self {
            now: 0,
            caller,
            method,
            callee: Callee::start(database).await,
            to_callee: Vec::new(),
            to_caller: Vec::new(),
            names: BTreeMap::new(),
            heard: Vec::new(),
        }
    }

    fn create(&mut self, name: &str) {
        let json = format!(r#"{{"firstName":"{name}"}}"#);
        let call = self.caller.call(Request::command(self.method, json), self.now).unwrap();
        self.names.insert(call, name.to_owned());
    }

    /// Does the first of the things that can be done, from a given one on; false when there is
    /// none.
    async fn step(&mut self, from: usize) -> bool {
        for thing in 0..5 {
            let done = match (from + thing) % 5 {
                0 => self.caller_acts(),
                1 => self.callee.read(&mut self.to_callee, self.now),
                2 => self.callee.handle().await,
                3 => self.callee.answer(),
                _ => self.callee.write(&mut self.to_caller, self.now),
            };
            if done {
                return true;
            }
        }
        self.caller_reads()
    }

    fn caller_acts(&mut self) -> bool {
        if !self.caller.is_connected() {
            self.to_callee.clear();
            self.to_caller.clear();
            self.callee.connected(self.now);
            self.caller.connect(self.now);
        }
        self.caller.handle_timeout(self.now);
        self.caller.poll_output(self.now, &mut self.to_callee)
    }

    fn caller_reads(&mut self) -> bool {
        let arrived = std::mem::take(&mut self.to_caller);
        self.caller.input().extend_from_slice(&arrived);
        self.hear();
        !arrived.is_empty()
    }

    fn hear(&mut self) {
        while let Some(event) = self.caller.poll_event(self.now) {
            let (call, text) = match event {
                Event::Reply(answer) => {
                    (answer.call, String::from_utf8(answer.payload().to_vec()).unwrap())
                }
                Event::Failed { call, error, .. } => {
                    panic!("{}: {error} ({:?})", self.names[&call], error.outcome())
                }
                Event::Closed(violation) => panic!("{violation}"),
                _ => continue,
            };
            let name = self.names.remove(&call).expect("a call ends once");
            self.heard.push((name, text));
        }
    }

    async fn strike(&mut self, disaster: Disaster) {
        match disaster {
            Disaster::Loss => self.callee.lose(self.now),
            Disaster::Restart => self.callee.restart(false).await,
            Disaster::RestartBehindABalancer => self.callee.restart(true).await,
        }
        self.caller.connection_lost(self.now);
        self.hear();
    }

    /// Lets everything happen that is left, then compares what the caller heard with what is
    /// stored.
    async fn finish(mut self, creates: usize) {
        while !self.names.is_empty() {
            if !self.step(0).await {
                // Nothing moves: the caller waits for a random moment to send again.
                self.now += 100_000;
                self.callee.handle_late().await;
            }
        }
        while self.callee.handle().await || self.callee.handle_late().await {}
        let stored = self.callee.store().await.page(0, 1000).await.unwrap();
        let mut stored: Vec<_> = stored
            .into_iter()
            .map(|contact| (contact.first_name.clone(), serde_json::to_string(&contact).unwrap()))
            .collect();
        stored.sort_unstable();
        self.heard.sort_unstable();
        assert_eq!(self.heard.len(), creates);
        assert_eq!(self.heard, stored, "each create happened once, and its outcome is known");
    }
}

/// A conversation of two creates, with a disaster after each of its steps.
async fn check_every_step<D: Database>(mut database: impl AsyncFnMut() -> D) {
    for disaster in DISASTERS {
        for at in 0.. {
            let mut world = World::new(database().await).await;
            world.create("Ada");
            world.create("Eve");
            let mut steps = 0;
            while steps < at && world.step(0).await {
                steps += 1;
            }
            if steps < at {
                assert!(at > 8, "a conversation has more steps than {at}");
                world.finish(2).await;
                break;
            }
            world.strike(disaster).await;
            world.finish(2).await;
        }
    }
}

#[tokio::test]
async fn a_create_happens_once_and_its_outcome_is_known_at_whichever_step_the_callee_is_restarted()
{
    check_every_step(async || tempfile::tempdir().unwrap()).await;
}

#[tokio::test]
async fn so_it_is_with_postgres() {
    let config = cluster::database().await;
    Box::pin(check_every_step(async || emptied(&config).await)).await;
}

/// Random schedules: many creates, steps in any order, disasters in between.
#[allow(clippy::print_stdout, reason = "the seed of what fails")]
async fn check_schedules<D: Database>(mut database: impl AsyncFnMut() -> D, rounds: u64) {
    let given = std::env::var("LIVE_SEED").ok().and_then(|seed| seed.parse().ok());
    let first = given.unwrap_or(1);
    for seed in first..first + if given.is_some() { 1 } else { rounds } {
        println!("LIVE_SEED={seed} runs this one again");
        let mut state = seed;
        let mut below = |bound: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let mut world = World::new(database().await).await;
        let mut creates = 0;
        for _ in 0..150 {
            world.now += below(20_000);
            match below(20) {
                0..3 => {
                    creates += 1;
                    world.create(&format!("contact {creates}"));
                }
                3 => world.strike(DISASTERS[below(3) as usize]).await,
                4 => drop(world.callee.handle_late().await),
                _ => drop(world.step(below(5) as usize).await),
            }
        }
        world.finish(creates).await;
    }
}

#[tokio::test]
async fn under_random_schedules_too() {
    check_schedules(async || tempfile::tempdir().unwrap(), 30).await;
    let config = cluster::database().await;
    Box::pin(check_schedules(async || emptied(&config).await, 10)).await;
}

#[tokio::test]
async fn a_key_with_another_request_is_refused_and_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder).await;
    world.create("Ada");
    while world.step(0).await {}
    let session = world.caller.session_id().unwrap().id;
    let origin = CommandOrigin { session, id: 1 };
    let extra = Extra { origin: Some(origin), ..Extra::default() };
    for (name, refused) in [("Ada", None), ("Eve", Some(Code::FailedPrecondition))] {
        let json = format!(r#"{{"firstName":"{name}"}}"#);
        let request = Request::command(world.method, json).extra(extra.clone());
        world.caller.call(request, 0).unwrap();
        let mut answers = Vec::new();
        for _ in 0..20 {
            world.caller.poll_output(0, &mut world.to_callee);
            world.callee.read(&mut world.to_callee, 0);
            world.callee.handle().await;
            world.callee.answer();
            world.callee.write(&mut world.to_caller, 0);
            world.caller.input().extend_from_slice(&std::mem::take(&mut world.to_caller));
            while let Some(event) = world.caller.poll_event(0) {
                match event {
                    Event::Reply(_) => answers.push(None),
                    Event::Failed { error, .. } => {
                        assert_eq!(error.outcome(), Outcome::Answered);
                        answers.push(Some(error.code()));
                    }
                    _ => {}
                }
            }
        }
        assert_eq!(answers, [refused], "{name}");
    }
    assert_eq!(world.callee.store().await.page(0, 10).await.unwrap().len(), 1);
}
