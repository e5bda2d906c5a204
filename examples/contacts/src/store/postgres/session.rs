//! One connection to PostgreSQL, and the statements that are prepared on it.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, NoTls, Row, Socket, Statement};

use super::{Options, once};
use crate::proto::contacts::v1::Contact;
use crate::proto::users::v1::User;

/// A connection with its statements.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) insert: Statement,
    pub(super) insert_once: Statement,
    pub(super) find: Statement,
    pub(super) find_many: Statement,
    pub(super) page: Statement,
    pub(super) count: Statement,
    pub(super) update: Statement,
    pub(super) delete: Statement,
    pub(super) find_user: Statement,
    pub(super) find_users: Statement,
    pub(super) update_user: Statement,
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
/// When it asks for TLS, and this program is built without it.
pub(super) fn prepared(config: &Config, options: &Options) -> Result<Config> {
    let is_secure = config.get_ssl_mode() == SslMode::Require;
    if is_secure && cfg!(not(feature = "tls")) {
        bail!("sslmode=require: this program was built without the feature tls");
    }
    let mut config = config.clone();
    let of_url = config.get_options().unwrap_or_default();
    let statement = options.statement_timeout.as_millis();
    let idle = options.list_idle_timeout.as_millis();
    let all = format!(
        "{of_url} -c statement_timeout={statement} -c idle_in_transaction_session_timeout={idle}"
    );
    config.options(all.trim());
    // A mode that falls back to what anybody can read says nothing of whoever answers.
    config.ssl_mode(if is_secure { SslMode::Require } else { SslMode::Disable });
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
    let user = config.get_user().unwrap_or_default();
    let name = config.get_dbname();
    format!("{user}@{}:{ports}/{}", hosts.join(","), name.unwrap_or(user))
}

/// Opens a connection, over TLS where `sslmode=require` asks for it.
pub(super) async fn connect(config: &Config) -> Result<(Client, Line)> {
    #[cfg(feature = "tls")]
    if config.get_ssl_mode() == SslMode::Require {
        return open(config, super::tls::connector()?).await;
    }
    open(config, NoTls).await
}

async fn open<T>(config: &Config, tls: T) -> Result<(Client, Line)>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let what = || format!("cannot connect to PostgreSQL at {}", place(config));
    // The timeout of the configuration is for the TCP connection of each address only.
    let timeout = config.get_connect_timeout().copied().unwrap_or(Duration::from_secs(5)) * 2;
    let connected = tokio::time::timeout(timeout, config.connect(tls)).await;
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
    /// Opens a connection and prepares its statements. Each write returns the mark of its
    /// transaction last, where the schema of a change log is given.
    pub(super) async fn open(config: &Config, marks: Option<&str>) -> Result<(Self, Line)> {
        let (client, line) = connect(config).await?;
        let mark = match marks {
            Some(schema) => format!("\"{}\".mark()", schema.replace('"', "\"\"")),
            None => "NULL::text".to_owned(),
        };
        let marked = |sql: &str| format!("{sql}, {mark}");
        // On their way together: one round trip.
        let prepare = |sql: &'static str| client.prepare(sql);
        let once = once::statement(&mark);
        let insert = marked(INSERT);
        let update = marked(UPDATE);
        let update_user = marked(UPDATE_USER);
        let delete = format!("DELETE FROM contact WHERE id = $1 RETURNING {mark}");
        let (
            insert,
            insert_once,
            find,
            find_many,
            page,
            count,
            update,
            delete,
            find_user,
            find_users,
            update_user,
        ) = tokio::try_join!(
            client.prepare(&insert),
            client.prepare(&once),
            prepare(FIND),
            prepare(FIND_MANY),
            prepare(PAGE),
            prepare("SELECT count(*) FROM contact"),
            client.prepare(&update),
            client.prepare(&delete),
            prepare("SELECT id, name, email FROM app_user WHERE id = $1"),
            prepare("SELECT id, name, email FROM app_user WHERE id = ANY($1)"),
            client.prepare(&update_user),
        )
        .with_context(|| {
            format!("tables contact, contact_command and app_user of {}", place(config))
        })?;
        let statements = Self {
            client,
            insert,
            insert_once,
            find,
            find_many,
            page,
            count,
            update,
            delete,
            find_user,
            find_users,
            update_user,
        };
        Ok((statements, line))
    }
}

/// A row of id, first name and surname.
pub(super) fn contact(row: &Row) -> Contact {
    Contact { id: row.get(0), first_name: row.get(1), surname: row.get(2), ..Default::default() }
}

/// A row of id, name and email.
pub(super) fn user(row: &Row) -> User {
    User { id: row.get(0), name: row.get(1), email: row.get(2), ..Default::default() }
}

const INSERT: &str = "INSERT INTO contact (firstname, surname) VALUES ($1, $2) RETURNING id";
const FIND: &str =
    "SELECT coalesce(firstname, ''), coalesce(surname, '') FROM contact WHERE id = $1";
const FIND_MANY: &str = "SELECT id, coalesce(firstname, ''), coalesce(surname, '') FROM contact \
     WHERE id = ANY($1)";
const PAGE: &str = "SELECT id, coalesce(firstname, ''), coalesce(surname, '') FROM contact \
     WHERE id > $1 ORDER BY id LIMIT $2";
const UPDATE: &str = "UPDATE contact SET firstname = coalesce($2, firstname), \
     surname = coalesce($3, surname) WHERE id = $1 \
     RETURNING id, coalesce(firstname, ''), coalesce(surname, '')";
const UPDATE_USER: &str = "UPDATE app_user SET name = coalesce($2, name), \
     email = coalesce($3, email) WHERE id = $1 RETURNING id, name, email";
