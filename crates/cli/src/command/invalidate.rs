//! `tidewire invalidate`: ends pages that a running server keeps, by its admin listener.

use std::io::Write as _;

use tidewire::admin::proto::tidewire::admin::v1::{InvalidatePagesRequest, PagesClient};

use crate::admin::{Admin, body_or_failure};
use crate::failure::Failure;

/// Invalidate cached pages of hosted programs and upstreams.
#[derive(Debug, clap::Args)]
pub(crate) struct Invalidate {
    /// Tags of pages, as in `Cache-Tag`: `items/7`, or `items` for it and everything below it.
    #[arg(required_unless_present = "service")]
    tags: Vec<String>,
    /// All pages of this service.
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    #[command(flatten)]
    admin: Admin,
}

impl Invalidate {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let client = PagesClient::new(self.admin.channel()?);
        let service = self.service.unwrap_or_default();
        let request = InvalidatePagesRequest { tags: self.tags, service, ..Default::default() };
        let reply = body_or_failure(client.invalidate(request).await)?;
        let pages = if reply.pages == 1 { "page" } else { "pages" };
        Ok(writeln!(std::io::stdout(), "{} {pages} ended", reply.pages)?)
    }
}
