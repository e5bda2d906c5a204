//! A host as the tests have it: a graph of its own, memos that load from the database, a log.

use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use tidewire_memo::{Graph, Memo, Source};
use tidewire_oplog::{Error, HeardChange, Oplog, PostgresLog, Settings, Status};
use tokio::sync::Mutex;
use tokio_postgres::{Client, Config};

use crate::cluster;

/// One process, as far as the log is concerned.
pub(crate) struct Host {
    pub(crate) oplog: Oplog,
    pub(crate) world: World,
}

/// What a host has in memory, and how often it asked the database.
#[derive(Clone)]
pub(crate) struct World {
    _graph: Arc<Graph>,
    pub(crate) contacts: Source<i32>,
    pub(crate) count: Source<()>,
    pub(crate) surname: Memo<i32, Option<String>>,
    pub(crate) rows: Memo<(), i64>,
    loads: Arc<AtomicU64>,
}

/// Reads the database over a connection that is opened again when it is gone.
#[derive(Clone)]
struct Reader {
    config: Config,
    client: Arc<Mutex<Option<Arc<Client>>>>,
}

impl Reader {
    async fn client(&self) -> Arc<Client> {
        let mut client = self.client.lock().await;
        match &*client {
            Some(open) if !open.is_closed() => Arc::clone(open),
            _ => Arc::clone(client.insert(Arc::new(cluster::open(&self.config).await))),
        }
    }
}

impl World {
    pub(crate) fn new(config: &Config) -> Self {
        let reader = Reader { config: config.clone(), client: Arc::default() };
        let graph = Arc::new(Graph::new());
        let contacts = Source::new_in(&graph, "contacts");
        let count = Source::new_in(&graph, "contacts.count");
        let loads = Arc::new(AtomicU64::new(0));
        let (of_name, of_count) = ((reader.clone(), loads.clone()), (reader, loads.clone()));
        let surname = Memo::infallible_in(&graph, "surname", move |id: i32| {
            let (reader, loads) = of_name.clone();
            async move {
                contacts.read(&id);
                loads.fetch_add(1, SeqCst);
                let sql = "SELECT surname FROM contact WHERE id = $1";
                reader.client().await.query_opt(sql, &[&id]).await.unwrap().map(|row| row.get(0))
            }
        });
        let rows = Memo::infallible_in(&graph, "rows", move |(): ()| {
            let (reader, loads) = of_count.clone();
            async move {
                count.read(&());
                loads.fetch_add(1, SeqCst);
                let sql = "SELECT count(*) FROM contact";
                reader.client().await.query_one(sql, &[]).await.unwrap().get(0)
            }
        });
        Self { _graph: graph, contacts, count, surname, rows, loads }
    }

    /// The log of the tests' table.
    pub(crate) fn log(&self, config: &Config, settings: Settings) -> PostgresLog {
        Oplog::postgres(config)
            .settings(settings)
            .capture("contact", &self.contacts, ["id"])
            .capture_rows("contact", &self.count)
    }

    pub(crate) async fn surname(&self, id: i32) -> Option<String> {
        (*self.surname.get(id).await.unwrap()).clone()
    }

    pub(crate) async fn rows(&self) -> i64 {
        *self.rows.get(()).await.unwrap()
    }

    /// Loads contacts 1 to 3 and the count.
    pub(crate) async fn warm(&self) {
        for id in 1..=3 {
            self.surname(id).await;
        }
        self.rows().await;
    }

    /// What is in memory: contacts by id, 0 for the count.
    pub(crate) fn fresh(&self) -> Vec<i32> {
        let contacts = (1..=3).filter(|id| self.surname.cached(id).is_some());
        self.rows.cached(&()).map(|_| 0).into_iter().chain(contacts).collect()
    }

    pub(crate) fn loads(&self) -> u64 {
        self.loads.load(SeqCst)
    }
}

impl Host {
    pub(crate) async fn start(config: &Config) -> Self {
        Self::start_with(config, settings()).await
    }

    pub(crate) async fn start_with(config: &Config, settings: Settings) -> Self {
        let world = World::new(config);
        let oplog = world.log(config, settings).start().await.unwrap();
        // Whoever makes the triggers tells the other hosts.
        oplog.published().await.unwrap();
        Self { oplog, world }
    }

    /// Waits for a poll, which includes everything that was acknowledged before.
    pub(crate) async fn poll(&self) {
        self.oplog.barrier().await.unwrap();
    }

    /// Warms, changes, polls: what is in memory still.
    pub(crate) async fn after(&self, client: &Client, sql: &str) -> Vec<i32> {
        self.world.warm().await;
        assert_eq!(self.world.fresh(), [0, 1, 2, 3], "before {sql}");
        client.batch_execute(sql).await.unwrap();
        self.poll().await;
        self.world.fresh()
    }

    /// Waits until the status is as asked for; the status is looked at after each poll and each
    /// failure.
    pub(crate) async fn until(&self, is_so: impl Fn(&Status) -> bool) {
        while !is_so(&self.oplog.status()) {
            // tidy: allow-sleep a log tells nobody of its failures; this asks again
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// What a host hears from its log: `source/key`, and the source alone for each of its keys.
pub(crate) struct Heard(Arc<std::sync::Mutex<Vec<String>>>);

impl Heard {
    pub(crate) fn by(oplog: &Oplog) -> Self {
        let heard = Arc::<std::sync::Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&heard);
        oplog.on_change(move |change| {
            noted.lock().unwrap().push(match change {
                HeardChange::Key { source, key } => format!("{source}/{key}"),
                HeardChange::Source(source) => source.to_owned(),
                _ => "everything".to_owned(),
            });
        });
        Self(heard)
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Settings under which a test waits for nothing that it does not ask for: a wait that is too short
/// fails the test on a slow machine, one that is long costs nothing.
pub(crate) fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.lease = Duration::from_hours(1);
    settings.token_wait = Duration::from_mins(1);
    settings
}

/// A new database with the tests' table: contacts 1 to 3.
pub(crate) async fn database() -> (Config, Client) {
    let config = cluster::database().await;
    let client = cluster::open(&config).await;
    client.batch_execute(CONTACTS).await.unwrap();
    (config, client)
}

/// Runs statements in `psql`, as a person would.
pub(crate) fn psql(config: &Config, sql: &str) {
    let output = try_psql(config, sql);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{sql}: {errors}");
}

pub(crate) fn try_psql(config: &Config, sql: &str) -> Output {
    let tokio_postgres::config::Host::Unix(folder) = &config.get_hosts()[0] else {
        panic!("tests use Unix sockets")
    };
    let mut psql = Command::new("psql");
    psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-c", sql]);
    psql.arg("-h").arg(folder).arg("-d").arg(config.get_dbname().unwrap());
    psql.output().unwrap()
}

/// What a start says that cannot be.
pub(crate) fn refusal(started: Result<Oplog, Error>) -> String {
    started.expect_err("the start is refused").to_string()
}

pub(crate) const CONTACTS: &str = "
CREATE TABLE contact (id integer PRIMARY KEY, firstname varchar, surname varchar);
INSERT INTO contact SELECT id, 'First', 'Last' FROM generate_series(1, 3) AS id";
