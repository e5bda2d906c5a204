//! One connection that follows the log: polls, hears other hosts, wakes them, keeps house.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Config, Socket};

use super::failure::read_error;
use super::intent::{self, IntentFailure};
use super::poll::PollStatement;
use super::schema::{INSTALL_LOCK, mark_body, tables};
use super::triggers::{self, TriggerCheck};
use super::trim;
use crate::capture::Capture;
use crate::core::{Backoff, Core};
use crate::error::{Error, ErrorKind};
use crate::settings::Settings;
use crate::sql::identifier;
use crate::wake_pause::WakePause;

/// Opens connections, over TLS or not.
pub(super) type Connector = Arc<dyn Fn(Config, Arc<Notify>) -> ConnectFuture + Send + Sync>;
pub(super) type ConnectFuture =
    Pin<Box<dyn Future<Output = Result<(Client, Line), tokio_postgres::Error>> + Send>>;

/// The task that carries a connection; dropping it closes the connection.
#[derive(Debug)]
pub(super) struct Line(JoinHandle<()>);

impl Drop for Line {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Connects as `tls` says. A notification wakes whoever waits.
pub(super) fn connector<T>(tls: T) -> Connector
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: Send + 'static,
    T::TlsConnect: Send,
    <T::TlsConnect as tokio_postgres::tls::TlsConnect<Socket>>::Future: Send,
{
    Arc::new(move |config, heard| {
        let tls = tls.clone();
        Box::pin(async move {
            let (client, mut connection) = config.connect(tls).await?;
            let line = tokio::spawn(async move {
                loop {
                    match poll_fn(|context| connection.poll_message(context)).await {
                        Some(Ok(AsyncMessage::Notification(_))) => heard.notify_one(),
                        Some(Ok(_)) => {}
                        Some(Err(_)) | None => break,
                    }
                }
                // Whoever waits for the next poll finds the connection closed.
                heard.notify_one();
            });
            Ok((client, Line(line)))
        })
    })
}

/// What a session needs to begin.
pub(super) struct SessionSettings {
    pub(super) core: Arc<Core>,
    pub(super) config: Config,
    pub(super) connector: Connector,
    pub(super) captures: Vec<Capture>,
}

/// A connection that has polled at least once.
pub(super) struct Session {
    client: Client,
    _line: Line,
    poll_statement: PollStatement,
    heard: Arc<Notify>,
    checked: Instant,
    trimmed: Instant,
    has_more_to_trim: bool,
    dead_hosts: DeadHostsCheck,
}

/// When this host looks for dead ones again.
struct DeadHostsCheck {
    at: Instant,
    pause: Duration,
}

impl DeadHostsCheck {
    fn new() -> Self {
        Self { at: Instant::now() + DEAD_HOSTS_CHECK, pause: DEAD_HOSTS_CHECK }
    }

    /// Tells of hosts that died while commands of programs ran. While somebody holds a lock on the
    /// table there are fewer looks.
    async fn look(&mut self, client: &Client, settings: &Settings) -> Result<(), Error> {
        match intent::remove_dead_hosts(client, settings).await {
            Ok(found) => {
                if found {
                    tracing::warn!("{HOST_DIED}");
                }
                *self = Self::new();
            }
            Err(IntentFailure::Locked(error)) => {
                if self.pause == DEAD_HOSTS_CHECK {
                    tracing::warn!(%error, "{NOT_LOOKED}");
                }
                self.pause = (self.pause * 2).min(DEAD_HOSTS_CHECK_LONGEST);
                self.at = Instant::now() + self.pause;
            }
            Err(IntentFailure::Other(error)) => return Err(error),
        }
        Ok(())
    }
}

impl SessionSettings {
    /// Connects, sees to the tables and triggers, and polls once. A network that falls silent
    /// meanwhile is a failure after a minute.
    pub(super) async fn open(&self) -> Result<Session, Error> {
        within(OPEN_TIMEOUT, self.open_patiently()).await?
    }

    async fn open_patiently(&self) -> Result<Session, Error> {
        let settings = &self.core.settings;
        let (client, line, heard) = self.connect().await?;
        install(&client, settings).await?;
        let settled = triggers::settle(&client, settings, &self.captures, "5s").await;
        self.tell(&settled.map_err(read_error)?);
        if settings.wake {
            let listen = format!("LISTEN {}", identifier(&channel(settings)));
            client.batch_execute(&listen).await.map_err(read_error)?;
        }
        let poll_statement = PollStatement::prepare(&client, &settings.schema).await?;
        poll_statement.poll(&client, &self.core).await?;
        let mut dead_hosts = DeadHostsCheck::new();
        dead_hosts.look(&client, settings).await?;
        let checked = Instant::now();
        Ok(Session {
            client,
            _line: line,
            poll_statement,
            heard,
            checked,
            trimmed: checked,
            has_more_to_trim: false,
            dead_hosts,
        })
    }

    pub(super) async fn connect(&self) -> Result<(Client, Line, Arc<Notify>), Error> {
        let heard = Arc::new(Notify::new());
        let connecting = (self.connector)(self.config.clone(), Arc::clone(&heard));
        let unreachable = |text: &str| {
            Error::new(ErrorKind::Unreachable, format!("cannot connect to PostgreSQL{text}"))
        };
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        let connected = connected.map_err(|_| unreachable(": no answer within 5 s"))?;
        let (client, line) = connected.map_err(|error| unreachable("").because(error))?;
        client.batch_execute(SETUP).await.map_err(read_error)?;
        Ok((client, line, heard))
    }

    /// Follows the log for ever.
    pub(super) async fn run(&self, mut session: Option<Session>) {
        let mut backoff = Backoff::new();
        loop {
            let opened = match session.take() {
                Some(session) => Ok(session),
                None => self.open().await,
            };
            match opened {
                Ok(open) => {
                    backoff = Backoff::new();
                    let Err(error) = self.follow(open).await;
                    self.core.fail(error.to_string());
                }
                Err(error) => self.core.fail(error.to_string()),
            }
            backoff.wait().await;
        }
    }

    /// Polls until that fails.
    async fn follow(&self, mut session: Session) -> Result<std::convert::Infallible, Error> {
        let core = &self.core;
        let settings = &core.settings;
        let notify = format!("NOTIFY {}", identifier(&channel(settings)));
        // A database that does not answer is as one that is gone.
        let answer = settings.lease.max(CONNECT_TIMEOUT);
        let mut pause = WakePause::new();
        loop {
            tokio::select! {
                biased;
                () = pause.before(core.wake_others.notified()), if settings.wake => {
                    pause.begin(Instant::now());
                    within(answer, session.client.batch_execute(&notify)).await?.map_err(read_error)?;
                }
                () = core.wanted.notified() => {}
                () = pause.before(session.heard.notified()) => pause.begin(Instant::now()),
                () = tokio::time::sleep(settings.poll) => {}
            }
            // What was heard so far, as the notification of this host itself, needs no other poll.
            let _ = session.heard.notified().now_or_never();
            within(answer, session.poll_statement.poll(&session.client, core)).await??;
            if session.checked.elapsed() >= settings.check {
                session.checked = Instant::now();
                within(HOUSE_TIMEOUT, self.keep_house(&session.client))
                    .await?
                    .map_err(read_error)?;
            }
            if Instant::now() >= session.dead_hosts.at {
                within(answer, session.dead_hosts.look(&session.client, settings)).await??;
            }
            if session.has_more_to_trim || session.trimmed.elapsed() >= settings.keep / 10 {
                session.trimmed = Instant::now();
                let trimmed = within(HOUSE_TIMEOUT, trim::trim(&session.client, settings)).await?;
                session.has_more_to_trim = trimmed.map_err(read_error)?;
            }
        }
    }

    /// Sees whether every trigger is in place.
    async fn keep_house(&self, client: &Client) -> Result<(), tokio_postgres::Error> {
        let settings = &self.core.settings;
        // Polls wait meanwhile, so it does not wait for long.
        self.tell(&triggers::settle(client, settings, &self.captures, "500ms").await?);
        let (rows, hosts) = trim::figures(client, settings).await?;
        self.core.set_figures(rows, hosts);
        Ok(())
    }

    fn tell(&self, settled: &TriggerCheck) {
        let mut broken = BTreeMap::new();
        let mut restored = BTreeSet::new();
        for capture in &self.captures {
            if let Some(error) = settled.broken.get(&capture.table) {
                broken.insert(capture.source.clone(), error.to_string());
            }
            if settled.repaired.contains(&capture.table) {
                restored.insert(&*capture.source);
            }
        }
        self.core.set_broken(&broken);
        self.core.capture_restored(&restored);
    }
}

pub(super) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, Error> {
    tokio::time::timeout(limit, work)
        .await
        .map_err(|_| Error::new(ErrorKind::Unreachable, "PostgreSQL does not answer"))
}

/// Makes the log's tables where they are missing, and replaces `mark()` of another version, if that
/// is allowed.
async fn install(client: &Client, settings: &Settings) -> Result<(), Error> {
    let schema = identifier(&settings.schema);
    let log = format!("{schema}.log");
    let mark = format!("{schema}.mark");
    let body = mark_body(&settings.schema);
    let intent = format!("{schema}.intent");
    let found = client.query_one(INSTALLED, &[&log, &mark, &body, &intent]).await;
    let found = found.map_err(read_error)?;
    let exists: bool = found.get(0);
    let is_current: bool = found.get(1);
    if exists && (is_current || !settings.install) {
        return Ok(());
    }
    if !settings.install {
        let text = format!(
            "not all tables of the change log ({log} and others) are there, and oplog.install is false; run \
             what `tidewire oplog sql` prints"
        );
        return Err(Error::new(ErrorKind::NotInstalled, text));
    }
    let sql = format!("BEGIN; {INSTALL_LOCK}; {}; COMMIT", tables(&settings.schema));
    if let Err(error) = client.batch_execute(&sql).await {
        // Ends the transaction, if the connection is there still.
        let _ = client.batch_execute("ROLLBACK").await;
        if exists && !error.is_closed() {
            // What is there serves, only slower.
            tracing::info!(%error, "{mark}() is of another version, and cannot be replaced");
            return Ok(());
        }
        let text = "cannot make the tables of the change log; let a role that may run what \
                    `tidewire oplog sql` prints";
        return Err(Error::new(ErrorKind::NotInstalled, text).because(error));
    }
    Ok(())
}

fn channel(settings: &Settings) -> String {
    format!("{}_log", settings.schema)
}

/// Polls must use the index however few statistics there are, and are planned once, not each time:
/// without `seqscan` there is one plan. Nothing here has to survive a crash: that is another
/// incarnation.
const SETUP: &str = "
SET synchronous_commit = off; SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan;
SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off;
SET jit = off; SET statement_timeout = '30s'; SET idle_in_transaction_session_timeout = 0";

const INSTALLED: &str = "
SELECT to_regclass($1) IS NOT NULL AND to_regproc($2) IS NOT NULL AND to_regclass($4) IS NOT NULL,
    EXISTS (SELECT FROM pg_proc WHERE oid = to_regproc($2) AND prosrc = $3 AND proconfig IS NULL)";
/// The pause between looks for dead hosts.
const DEAD_HOSTS_CHECK: Duration = Duration::from_secs(1);
/// While somebody holds a lock on the table.
const DEAD_HOSTS_CHECK_LONGEST: Duration = Duration::from_secs(8);
const NOT_LOOKED: &str =
    "it cannot be seen now whether other hosts died while commands of their programs ran";
const HOST_DIED: &str = "a host died while commands of its programs ran; on every host pages with \
                      tags, and what depends on sources that only programs change, are stale";
const OPEN_TIMEOUT: Duration = Duration::from_mins(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Checks and trims wait for locks, and may have much to do.
const HOUSE_TIMEOUT: Duration = Duration::from_secs(30);
