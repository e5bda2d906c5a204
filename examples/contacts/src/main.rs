//! The reference application as a program: settings, database, what to try, a clean stop.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use contacts::Database;
#[cfg(feature = "postgres")]
use contacts::store::postgres;
use contacts::store::{Progress, Store, Tracked, sqlite};
use tidewire::config::{Answers, Config, Flags};
use tidewire::memo::Graph;
use tidewire::oplog::{OplogHandle, Settings};
use tidewire::{Address, Client, RunningServer};

/// Contacts over REST, Connect, gRPC and gRPC-Web on one port, kept in SQLite or PostgreSQL.
///
/// Settings come from tidewire.toml, the environment (TIDEWIRE_SERVER_LISTEN) and flags. The
/// variables Contacts_DatabaseHost, …Name, …Username and …Password name a PostgreSQL database too.
#[derive(Debug, Parser)]
#[command(name = "contacts", version)]
struct Arguments {
    /// SQLite database file, made at the first start.
    #[arg(long, env = "CONTACTS_DB", default_value = "contacts.sqlite", value_name = "FILE")]
    database: PathBuf,
    /// PostgreSQL database to use instead, such as
    /// postgres://user:password@localhost:5432/contacts.
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,
    /// Connections to PostgreSQL; each carries many statements at once.
    #[arg(long, env = "CONTACTS_DB_CONNECTIONS", value_name = "NUMBER")]
    database_connections: Option<usize>,
    /// How many made-up contacts the database is filled with at the first start [default: 100000
    /// in SQLite, none in PostgreSQL].
    #[arg(long, env = "CONTACTS", value_name = "ROWS")]
    contacts: Option<u32>,
    /// Host of the key/value store that the relay asks [default: this application itself].
    #[arg(long, env = "Relay_KeyValueServiceHostname", value_name = "HOST")]
    key_value_host: Option<String>,
    /// Port of the key/value store [default: 8080].
    #[arg(long, env = "Relay_KeyValueServicePort", value_name = "PORT")]
    key_value_port: Option<u16>,
    /// Configuration file [default: tidewire.toml where there is one].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on, such as 127.0.0.1:8080 or unix:/run/contacts.sock; may be repeated.
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Any other setting, such as limits.body_bytes_max=8MiB; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

#[tokio::main]
#[expect(clippy::print_stderr, reason = "the program's own error output")]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("contacts: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<()> {
    let config = arguments.config()?;
    config.log.start()?;
    let key_values = arguments.key_values(&config)?;
    match arguments.database()? {
        Database::Sqlite(path) => {
            let added = sqlite::fill::fill(&path, arguments.contacts.unwrap_or(100_000), show)?;
            let options = sqlite::Options { log: log(&config), ..Default::default() };
            let store = Tracked::open(&Graph::global(), &path, &options)?;
            let log = store.log();
            let place = path.display().to_string();
            serve(&config, store, log, key_values, &place, added).await
        }
        #[cfg(feature = "postgres")]
        Database::Postgres(database) => {
            let mut options = postgres::Options { log: log(&config), ..Default::default() };
            options.connections = arguments.database_connections.unwrap_or(options.connections);
            let added =
                postgres::fill::fill(&database, arguments.contacts.unwrap_or(0), show).await?;
            let store = Tracked::connect(&Graph::global(), &database, &options).await?;
            let log = store.log();
            let place = postgres::place(&database);
            serve(&config, store, log, key_values, &place, added).await
        }
    }
}

/// How the change log is followed; not at all where `oplog.enabled` is false.
fn log(config: &Config) -> Option<Settings> {
    config.oplog.is_on().then(|| config.oplog.settings())
}

async fn serve(
    config: &Config,
    store: impl Store,
    log: Option<OplogHandle>,
    key_values: Client,
    place: &str,
    added: u32,
) -> Result<()> {
    let builder = config.server_with_log(log.as_ref())?;
    let server = contacts::add_to(builder, store, key_values).start().await?;
    let memo = match &log {
        Some(log) => {
            format!("{}\n{}", config.memo.summary(Answers::Logged), log.status().summary())
        }
        None => config.memo.summary(Answers::External).to_owned(),
    };
    let start = start(&server, place, added, &memo);
    let stopped = server.until_stopped();
    print(&start);
    let in_time = stopped.await?;
    print(match in_time {
        true => "stopped; all calls ended",
        false => "stopped; some calls were cut off after limits.drain_timeout",
    });
    Ok(())
}

impl Arguments {
    fn config(&self) -> Result<Config> {
        let flags = Flags {
            file: self.config.clone(),
            listen: self.listen.clone(),
            settings: self.settings.clone(),
        };
        Ok(contacts::with_defaults(flags.load(std::env::vars())?))
    }

    /// Where the relay's key/value store is: as asked for, as the comparison has it where half is
    /// asked for, else this application itself.
    fn key_values(&self, config: &Config) -> Result<Client> {
        let own = config.server.listen.iter().find_map(|address| match address {
            Address::Tcp(address) if address.port() != 0 && config.server.tls.is_none() => {
                Some(format!("http://127.0.0.1:{}", address.port()))
            }
            _ => None,
        });
        let url = match (&self.key_value_host, self.key_value_port, own) {
            (None, None, Some(own)) => own,
            (host, port, _) => {
                let host = host.as_deref().unwrap_or("localhost");
                format!("http://{host}:{}", port.unwrap_or(8080))
            }
        };
        let client = Client::builder(&*url).timeout(RELAY_TIMEOUT).build();
        client.with_context(|| format!("key/value store at {url}"))
    }

    fn database(&self) -> Result<Database> {
        let url = self.database_url.as_deref().filter(|url| !url.is_empty());
        Database::chosen(url, |name| std::env::var(name).ok(), self.database.clone())
    }
}

/// Progress of the fill: one line that is written over on a terminal, else a line each tenth.
#[expect(clippy::print_stdout, reason = "the program's own output")]
fn show(progress: Progress) {
    let percent = progress.percent();
    let ended = progress.done == progress.rows;
    let line = format!(
        "filling the database: {percent:3} %, {} of {} contacts, {:.0} a second",
        progress.done,
        progress.rows,
        progress.rows_per_second()
    );
    let tenth = progress.rows.div_ceil(10).next_multiple_of(10_000);
    if std::io::stdout().is_terminal() {
        print!("\r{line}{}", if ended { "\n" } else { "" });
        // Nothing depends on the line being seen.
        let _ = std::io::stdout().flush();
    } else if ended || progress.done.is_multiple_of(tenth) {
        println!("{line}");
    }
}

/// What is said once it listens: where the data are, and what to try.
fn start(server: &RunningServer, place: &str, added: u32, memo: &str) -> String {
    let url = server.url();
    let contacts = match added {
        0 => format!("using the contacts in {place}"),
        added => format!("added {added} contacts to {place}"),
    };
    let addresses = server.addresses().iter().map(|address| format!("listening on {address}\n"));
    let addresses = addresses.collect::<String>();
    let address = url.trim_start_matches("http://");
    format!(
        "{contacts}; remove it to start afresh
{memo}
{addresses}
try, in a browser: {url}/
or in another terminal:
  curl -i {url}/contacts/1
  curl -i {url}/contacts --json '{{\"firstName\":\"Ada\",\"surname\":\"Lovelace\"}}'
  curl -i -X PATCH {url}/contacts/1 --json '{{\"surname\":\"Lovelace\"}}'
  curl '{url}/contacts:page?page_size=3'
  curl -i -X DELETE {url}/contacts/2
  curl {url}/contacts.v1.Contacts/Get --json '{{\"id\":1}}'
  grpcurl -plaintext -d '{{\"id\":1}}' {address} contacts.v1.Contacts/Get
  grpcurl -plaintext {address} list
  curl {url}/echo/hello
  curl {url}/relay/hello
Ctrl-C stops it."
    )
}

/// Nobody may be reading any more; the server goes on.
fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// How long the relay waits for the key/value store.
const RELAY_TIMEOUT: Duration = Duration::from_secs(5);
