//! The ways that a change takes from a writer to another host: ours, and two that others use.
//!
//! Each has a database with the same table, a host that hears (memos of every row, marked by what
//! it hears), and writers. Every write changes another row, so that a mark tells which write it is
//! of.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use tidewire_memo::{Graph, Memo, Source};
use tidewire_oplog::{Changes, HeardChange, Oplog, OplogHandle, Settings};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Statement, Transaction};

use crate::cluster::{self, Cluster};
use crate::times::Times;

/// How many rows the table has; a round writes fewer.
pub(crate) const ROWS: usize = 60_000;

/// How writers write, and how the other host hears of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Nobody hears.
    Uncaptured,
    /// Nobody hears, and the write is in a `BEGIN` and a `COMMIT`.
    Bare,
    /// `pg_notify` with the key, in the writer's transaction.
    Naive,
    /// A table with a serial id, read from the last id on; wakes as ours does.
    Serial,
    /// Triggers, a write guard, and a wake-up after the commit.
    Woken,
    /// The same without wake-ups.
    Unwoken,
    /// Triggers, and a writer that knows nothing of them; polls this often.
    Past(Duration),
    /// Triggers, and no host.
    Captured,
    /// `transaction`, which lists its changes.
    Listed,
}

/// A way that is in use.
pub(crate) struct Running {
    pub(crate) times: Arc<Times>,
    way: Way,
    config: Config,
    memo: Memo<i64, ()>,
    written: Source<i64>,
    next: AtomicUsize,
    logs: Vec<Oplog>,
    outbox: Arc<Notify>,
    tasks: JoinSet<()>,
    _graphs: [Graph; 2],
}

/// A connection that writes.
pub(crate) struct Writer {
    client: Client,
    update: Statement,
}

impl Way {
    /// A database with the table.
    pub(crate) async fn database(self, cluster: &Cluster) -> Config {
        let config = cluster.database().await;
        let make = format!(
            "CREATE TABLE row (id bigint PRIMARY KEY, value integer NOT NULL); \
             INSERT INTO row SELECT id, 0 FROM generate_series(0, {}) AS id; \
             CREATE TABLE outbox (id bigserial PRIMARY KEY, key bigint NOT NULL); \
             ALTER TABLE row SET (fillfactor = 50); VACUUM FULL row; VACUUM ANALYZE row",
            ROWS - 1
        );
        let client = cluster::open(&config).await;
        for statement in make.split("; ") {
            client.batch_execute(statement).await.unwrap();
        }
        config
    }

    pub(crate) async fn start(self, config: &Config) -> Running {
        let [here, there] = [Graph::new(), Graph::new()];
        let written = Source::<i64>::new_in(&here, "rows");
        let rows = Source::<i64>::new_in(&there, "rows");
        let times = Arc::new(Times::new(ROWS));
        let memo = Memo::infallible_in(&there, "row", move |id: i64| async move { rows.read(&id) });
        let mut running = Running {
            times: Arc::clone(&times),
            way: self,
            config: config.clone(),
            memo,
            written,
            next: AtomicUsize::new(0),
            logs: Vec::new(),
            outbox: Arc::default(),
            tasks: JoinSet::new(),
            _graphs: [here, there],
        };
        let mut settings = Settings::default();
        match self {
            Self::Uncaptured | Self::Bare => {}
            Self::Captured => {
                let source = &running.written;
                let log = Oplog::postgres(config).capture("row", source, ["id"]);
                // Its triggers stay.
                log.start().await.unwrap().stop().await;
            }
            Self::Naive => {
                running.tasks.spawn(hear_naive(config, rows, times).await);
            }
            Self::Serial => {
                let outbox = Arc::clone(&running.outbox);
                running.tasks.spawn(wake_outbox(config.clone(), outbox));
                let reader = read_outbox(config.clone(), rows, times, settings.poll).await;
                running.tasks.spawn(reader);
            }
            Self::Woken | Self::Unwoken | Self::Past(_) | Self::Listed => {
                if let Self::Past(poll) = self {
                    settings.poll = poll;
                }
                settings.wake = matches!(self, Self::Woken | Self::Listed);
                for source in [&running.written, &rows] {
                    let log = Oplog::postgres(config).settings(settings.clone());
                    let log = match self {
                        Self::Listed => log.source(source),
                        _ => log.capture("row", source, ["id"]),
                    };
                    let log = log.start().await.unwrap();
                    // That it made the triggers.
                    log.published().await.unwrap();
                    running.logs.push(log);
                }
                running.logs[1].on_change(move |change| match change {
                    HeardChange::Key { key, .. } => times.mark(key.parse().unwrap()),
                    _ => times.mark_all(),
                });
            }
        }
        running
    }
}

impl Running {
    pub(crate) async fn writer(&self) -> Writer {
        let client = cluster::open(&self.config).await;
        let update = match self.way {
            Way::Naive => {
                "WITH u AS (UPDATE row SET value = value + 1 WHERE id = $1 RETURNING id) \
                 SELECT pg_notify('naive', id::text) FROM u"
            }
            Way::Serial => {
                "WITH u AS (UPDATE row SET value = value + 1 WHERE id = $1 RETURNING id) \
                 INSERT INTO outbox (key) SELECT id FROM u"
            }
            Way::Woken | Way::Unwoken => {
                "UPDATE row SET value = value + 1 WHERE id = $1 RETURNING tidewire.mark()"
            }
            Way::Uncaptured | Way::Bare | Way::Captured | Way::Past(_) | Way::Listed => {
                "UPDATE row SET value = value + 1 WHERE id = $1"
            }
        };
        let update = client.prepare(update).await.unwrap();
        Writer { client, update }
    }

    /// Writes a row that was not written since the start, and that a memo depends on if it is warm;
    /// false where there is none left.
    pub(crate) async fn write(&self, writer: &mut Writer, is_warm: bool) -> bool {
        let at = self.next.fetch_add(1, SeqCst);
        if at >= ROWS {
            return false;
        }
        let id = i64::try_from(at).unwrap();
        if is_warm && self.is_heard() {
            self.memo.get(id).await.unwrap();
        }
        let Writer { client, update } = writer;
        match self.way {
            Way::Uncaptured | Way::Captured | Way::Past(_) | Way::Naive => {
                client.query(update, &[&id]).await.unwrap();
                self.times.acknowledge(at);
            }
            Way::Bare => {
                let transaction = client.transaction().await.unwrap();
                transaction.query(update, &[&id]).await.unwrap();
                transaction.commit().await.unwrap();
                self.times.acknowledge(at);
            }
            Way::Serial => {
                client.query(update, &[&id]).await.unwrap();
                self.times.acknowledge(at);
                self.outbox.notify_one();
            }
            Way::Woken | Way::Unwoken => {
                let guard = self.written.write(&id);
                let row = client.query_one(update, &[&id]).await.unwrap();
                self.times.acknowledge(at);
                self.logs[0].wrote(guard, row.get(0));
            }
            Way::Listed => {
                let handle: OplogHandle = self.logs[0].handle();
                let written = self.written;
                let update = &*update;
                let work = async |transaction: &Transaction<'_>, changes: &mut Changes| {
                    changes.changed(&written, &id);
                    transaction.query(update, &[&id]).await
                };
                handle.transaction(client, work).await.map_err(|error| error.to_string()).unwrap();
                self.times.acknowledge(at);
            }
        }
        true
    }

    /// Whether anybody hears of writes.
    pub(crate) fn is_heard(&self) -> bool {
        !matches!(self.way, Way::Uncaptured | Way::Bare | Way::Captured)
    }

    pub(crate) async fn stop(mut self) {
        for log in self.logs {
            log.stop().await;
        }
        self.tasks.shutdown().await;
    }
}

/// Marks what notifications name.
async fn hear_naive(
    config: &Config,
    rows: Source<i64>,
    times: Arc<Times>,
) -> impl Future<Output = ()> + Send + 'static {
    let (client, mut connection) = config.connect(NoTls).await.unwrap();
    let line = tokio::spawn(async move {
        while let Some(Ok(message)) =
            std::future::poll_fn(|context| connection.poll_message(context)).await
        {
            if let AsyncMessage::Notification(notification) = message {
                let id: i64 = notification.payload().parse().unwrap();
                rows.changed(&id);
                times.mark(usize::try_from(id).unwrap());
            }
        }
    });
    client.batch_execute("LISTEN naive").await.unwrap();
    async move {
        // The connection lasts as long as its client.
        let _client = client;
        line.await.unwrap();
    }
}

/// Wakes readers of the outbox after commits; several at once are one.
async fn wake_outbox(config: Config, wanted: Arc<Notify>) {
    let client = cluster::open(&config).await;
    client.batch_execute("SET synchronous_commit = off").await.unwrap();
    loop {
        wanted.notified().await;
        client.batch_execute("NOTIFY outbox").await.unwrap();
    }
}

/// Reads the outbox from the last id on, at each wake-up and at each interval.
async fn read_outbox(
    config: Config,
    rows: Source<i64>,
    times: Arc<Times>,
    interval: Duration,
) -> impl Future<Output = ()> + Send + 'static {
    let heard = Arc::new(Notify::new());
    let (client, mut connection) = config.connect(NoTls).await.unwrap();
    let wakes = Arc::clone(&heard);
    let line = tokio::spawn(async move {
        while let Some(Ok(message)) =
            std::future::poll_fn(|context| connection.poll_message(context)).await
        {
            if matches!(message, AsyncMessage::Notification(_)) {
                wakes.notify_one();
            }
        }
    });
    client.batch_execute("LISTEN outbox").await.unwrap();
    let last = client.query_one("SELECT coalesce(max(id), 0) FROM outbox", &[]).await.unwrap();
    let mut last: i64 = last.get(0);
    let sql = "SELECT id, key FROM outbox WHERE id > $1 ORDER BY id";
    let poll = client.prepare(sql).await.unwrap();
    async move {
        // The connection ends with this task.
        let _line = line;
        loop {
            tokio::select! {
                () = heard.notified() => {}
                () = tokio::time::sleep(interval) => {}
            }
            for row in client.query(&poll, &[&last]).await.unwrap() {
                last = row.get(0);
                let key: i64 = row.get(1);
                rows.changed(&key);
                times.mark(usize::try_from(key).unwrap());
            }
        }
    }
}
