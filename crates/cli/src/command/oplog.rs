//! `tidewire oplog`: what the change log of a database is made of.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Subcommand;
use tidewire::config::Flags;

use crate::Failure;

/// The change log of a database.
#[derive(Debug, clap::Args)]
pub(crate) struct OplogArgs {
    #[command(subcommand)]
    action: OplogAction,
}

#[derive(Debug, Subcommand)]
enum OplogAction {
    /// Print the statements that make the tables and triggers of the change log, for whoever may
    /// run them.
    ///
    /// The database (oplog.url) is asked for types of keys and for partitions; nothing is changed.
    Sql(Sql),
}

#[derive(Debug, clap::Args)]
struct Sql {
    /// Role that follows the log, if another one runs these statements.
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Configuration file [default: tidewire.toml where there is one].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Any other setting, such as oplog.url=postgres://user@localhost/shop; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

impl OplogArgs {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let OplogAction::Sql(sql) = self.action;
        let flags = Flags { file: sql.config, listen: Vec::new(), settings: sql.settings };
        let config = flags.load(std::env::vars()).map_err(Failure::usage)?;
        let ddl = config.oplog.ddl(sql.role.as_deref()).await.map_err(Failure::usage)?;
        Ok(std::io::stdout().write_all(ddl.as_bytes())?)
    }
}
