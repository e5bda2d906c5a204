//! One connection to PostgreSQL, and the statements that are prepared on it.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, NoTls, Row, Statement};

use super::{Options, once};
use crate::proto::contacts::v1::Contact;

/// A connection with its statements.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) insert: Statement,
    pub(super) insert_once: Statement,
    pub(super) find: Statement,
    pub(super) page: Statement,
    pub(super) update: Statement,
    pub(super) delete: Statement,
}

/// The task that carries a connection; dropping it closes the connection.
#[derive(Debug)]
pub(super) struct Line(JoinHandle<()>);

impl Line {
    /// Waits until the connection is over.
    pub(super) async fn ended(&mut self) {
        // It does not panic, and nobody else aborts it.
        let _ = (&mut self.0).await;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The configuration with what this application needs beside the address.
///
/// # Errors
/// When it asks for TLS, which this application does not speak to its database.
pub(super) fn prepared(config: &Config, options: &Options) -> Result<Config> {
    if config.get_ssl_mode() == SslMode::Require {
        bail!("sslmode=require: this application speaks to its database without TLS only");
    }
    let mut config = config.clone();
    let of_url = config.get_options().unwrap_or_default();
    let statement = options.statement_timeout.as_millis();
    let idle = options.list_idle_timeout.as_millis();
    let all = format!(
        "{of_url} -c statement_timeout={statement} -c idle_in_transaction_session_timeout={idle}"
    );
    config.options(all.trim());
    config.ssl_mode(SslMode::Disable);
    config.connect_timeout(options.connect_timeout);
    config.tcp_user_timeout(options.statement_timeout * 2);
    config.keepalives_idle(Duration::from_secs(15));
    if config.get_application_name().is_none() {
        config.application_name("contacts");
    }
    Ok(config)
}

/// Where a configuration leads, without the password.
pub fn place(config: &Config) -> String {
    let hosts: Vec<_> = config
        .get_hosts()
        .iter()
        .map(|host| match host {
            tokio_postgres::config::Host::Tcp(name) => name.clone(),
            tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
        })
        .collect();
    let ports: Vec<_> = config.get_ports().iter().map(ToString::to_string).collect();
    let ports = if ports.is_empty() { "5432".to_owned() } else { ports.join(",") };
    let (user, name) = (config.get_user().unwrap_or_default(), config.get_dbname());
    format!("{user}@{}:{ports}/{}", hosts.join(","), name.unwrap_or(user))
}

/// Opens a connection.
pub(super) async fn connect(config: &Config) -> Result<(Client, Line)> {
    let what = || format!("cannot connect to PostgreSQL at {}", place(config));
    // The timeout of the configuration is for the TCP connection of each address only.
    let timeout = config.get_connect_timeout().copied().unwrap_or(Duration::from_secs(5)) * 2;
    let connected = tokio::time::timeout(timeout, config.connect(NoTls)).await;
    let connected = connected.with_context(|| format!("{}: no answer", what()))?;
    let (client, connection) = connected.with_context(what)?;
    let line = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::warn!(%error, "a connection to the database ended");
        }
    });
    Ok((client, Line(line)))
}

impl Session {
    /// Opens a connection and prepares its statements.
    pub(super) async fn open(config: &Config) -> Result<(Self, Line)> {
        let (client, line) = connect(config).await?;
        // On their way together: one round trip.
        let prepare = |sql: &'static str| client.prepare(sql);
        let once = once::statement();
        let (insert, insert_once, find, page, update, delete) = tokio::try_join!(
            prepare("INSERT INTO contact (firstname, surname) VALUES ($1, $2) RETURNING id"),
            client.prepare(&once),
            prepare(
                "SELECT coalesce(firstname, ''), coalesce(surname, '') FROM contact WHERE id = $1"
            ),
            prepare(
                "SELECT id, coalesce(firstname, ''), coalesce(surname, '') FROM contact \
                 WHERE id > $1 ORDER BY id LIMIT $2"
            ),
            prepare(
                "UPDATE contact SET firstname = coalesce($2, firstname), \
                 surname = coalesce($3, surname) WHERE id = $1 \
                 RETURNING id, coalesce(firstname, ''), coalesce(surname, '')"
            ),
            prepare("DELETE FROM contact WHERE id = $1"),
        )
        .with_context(|| format!("tables contact and contact_command of {}", place(config)))?;
        Ok((Self { client, insert, insert_once, find, page, update, delete }, line))
    }
}

/// A row of id, first name and surname.
pub(super) fn contact(row: &Row) -> Contact {
    Contact { id: row.get(0), first_name: row.get(1), surname: row.get(2), ..Default::default() }
}
