//! `tidewire mcp`: what a running program says of itself, as tools for an assistant.

use std::sync::Arc;

use tidewire::admin::proto::tidewire::admin::v1::{OverviewRequest, SystemClient};
use tidewire::mcp::{Allow, Tools};

use crate::admin::{Admin, body_or_failure};
use crate::failure::Failure;

/// Serve an assistant (Model Context Protocol) on standard input and output: it can read the calls,
/// caches, mocks and hosted processes of a running program.
#[derive(Debug, clap::Args)]
pub(crate) struct Mcp {
    /// Let the assistant change the running program, too: write rules, make calls, stop processes
    /// [default: read only].
    #[arg(long, value_name = "WHAT")]
    allow: Option<Permission>,
    #[command(flatten)]
    admin: Admin,
}

/// What an assistant may do beyond looking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Permission {
    Act,
}

impl Mcp {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let system = SystemClient::new(self.admin.channel()?);
        // A program that is not there is told before an assistant waits for it.
        let overview = body_or_failure(system.overview(OverviewRequest::default()).await)?;
        let allow = if self.allow.is_some() { Allow::Act } else { Allow::Read };
        let service = Arc::new(self.admin.service()?);
        let tools = Tools::new(tidewire::admin::descriptors(), service, allow, overview.mocks)?;
        Ok(tools.over_stdio().await?)
    }
}
