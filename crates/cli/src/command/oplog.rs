//! `tidewire oplog`: what the change log of a database is made of.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Subcommand;
use tidewire::config::Flags;

use crate::failure::Failure;

/// Set up the change log of a database.
#[derive(Debug, clap::Args)]
pub(crate) struct OplogArgs {
    #[command(subcommand)]
    action: OplogAction,
}

#[derive(Debug, Subcommand)]
enum OplogAction {
    /// Print the SQL that creates the tables and triggers of the change log.
    ///
    /// Reads types of keys and partitions from the database (oplog.url) and changes nothing.
    Sql(Sql),
}

#[derive(Debug, clap::Args)]
struct Sql {
    /// Role that reads the log [default: the role that runs the statements].
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Configuration file [default: tidewire.toml, if it exists].
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
