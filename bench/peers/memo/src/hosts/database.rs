//! The database that both hosts use, and how the peers of Tidewire hear of its changes.

use std::future::poll_fn;

use anyhow::{Context as _, Result, bail};
use contacts::Database;
use contacts::store::postgres::{Config, Postgres};
use contacts::store::{Tracked, USERS};
use tidewire::memo::Graph;
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client, NoTls, Statement};

use crate::ways::{Cache as _, Moka};

/// A database for one measurement: triggers of one are not in the way of the next.
pub(super) struct SharedDatabase {
    pub(super) name: String,
    pub(super) config: Config,
}

impl SharedDatabase {
    pub(super) async fn make() -> Result<Self> {
        let name = format!("memo_{}", std::process::id());
        let client = open(&server()?).await?;
        client.batch_execute(&format!("CREATE DATABASE {name}")).await?;
        Ok(Self { config: named(&name)?, name })
    }

    /// Gives every user the name of version 0.
    pub(super) async fn number_all(&self) -> Result<()> {
        let number = "UPDATE app_user SET name = (id - 1)::text";
        let changed = open(&self.config).await?.execute(number, &[]).await?;
        if changed != u64::from(USERS) {
            bail!("there are {changed} users, not {USERS}");
        }
        Ok(())
    }

    pub(super) async fn remove(self) -> Result<()> {
        let client = open(&server()?).await?;
        client.batch_execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await?;
        Ok(())
    }
}

/// What `DATABASE` names.
fn server() -> Result<Config> {
    let url = std::env::var("DATABASE").ok().filter(|url| !url.is_empty());
    let url = url.context("DATABASE is not set: two hosts need a PostgreSQL")?;
    match Database::chosen(Some(&url), |_| None, "unused".into())? {
        Database::Postgres(config) => Ok(*config),
        Database::Sqlite(_) => bail!("DATABASE is not PostgreSQL"),
    }
}

/// A database of that server.
pub(super) fn named(name: &str) -> Result<Config> {
    let mut config = server()?;
    config.dbname(name);
    Ok(config)
}

/// The store of a host.
pub(super) async fn connect(
    graph: &Graph,
    config: &Config,
    has_log: bool,
) -> Result<Tracked<Postgres>> {
    Tracked::connect(graph, config, &super::options(has_log)).await
}

async fn open(config: &Config) -> Result<Client> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

const CHANNEL: &str = "users";

/// Forgets whom the other host names, as people do it by hand. For as long as what is returned is
/// there.
pub(super) async fn listen(config: &Config, cache: Moka) -> Result<Listening> {
    let (client, mut connection) = config.connect(NoTls).await?;
    let task = tokio::spawn(async move {
        loop {
            match poll_fn(|context| connection.poll_message(context)).await {
                Some(Ok(AsyncMessage::Notification(told))) => match told.payload().parse() {
                    Ok(id) => cache.forget(id),
                    Err(_) => cache.forget_all(),
                },
                Some(Ok(_)) => {}
                // What is written from now on would stay old for ever.
                Some(Err(error)) => {
                    eprintln!("LISTEN ended: {error}");
                    std::process::exit(1);
                }
                None => return,
            }
        }
    });
    let listening = Listening { client, task };
    listening.client.batch_execute(&format!("LISTEN {CHANNEL}")).await?;
    Ok(listening)
}

/// A connection that hears.
pub(super) struct Listening {
    client: Client,
    task: JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A connection that tells of what it writes, in the same transaction.
pub(super) struct Notifying {
    client: Client,
    update: Statement,
}

impl Notifying {
    pub(super) async fn open(config: &Config) -> Result<Self> {
        let client = open(config).await?;
        let update = format!(
            "WITH changed AS (UPDATE app_user SET name = $2 WHERE id = $1 RETURNING id) \
             SELECT pg_notify('{CHANNEL}', id::text) FROM changed"
        );
        let update = client.prepare(&update).await?;
        Ok(Self { client, update })
    }

    pub(super) async fn rename(&self, id: i64, name: &str) -> Result<()> {
        self.client.query_one(&self.update, &[&id, &name]).await?;
        Ok(())
    }
}
