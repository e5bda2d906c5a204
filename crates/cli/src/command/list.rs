//! `tidewire list`: the services of a server or of `.proto` files, or the methods of one.

use std::io::Write;
use std::process::ExitCode;

use crate::Failure;
use crate::catalog::{Catalog, path};
use crate::origin::Origin;

/// List the services of a server or of `.proto` files, or the methods of one service.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    origin: Origin,
}

impl List {
    pub(crate) async fn run(self) -> Result<ExitCode, Failure> {
        let (origin, names) = self.origin.split()?;
        let known = origin.load_catalog().await?;
        let mut out = std::io::stdout().lock();
        for line in lines(&known, &names).map_err(Failure::usage)? {
            writeln!(out, "{line}")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn lines(known: &Catalog, names: &[String]) -> anyhow::Result<Vec<String>> {
    if names.is_empty() {
        return Ok(known.services().map(str::to_owned).collect());
    }
    let mut lines = Vec::new();
    for name in names {
        let wanted = known.one_service(name)?;
        let of = known.methods().filter(|(service, _)| service.full_name() == wanted);
        lines.extend(of.map(|(service, method)| path(service, method)));
    }
    Ok(lines)
}
