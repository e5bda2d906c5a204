//! `tidewire list`: the services of a server or of `.proto` files, or the methods of one.

use std::io::Write;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::catalog::{Catalog, path};
use crate::failure::Failure;
use crate::json::{self, JsonFlag};
use crate::origin::Origin;

/// List the services of a server or of `.proto` files, or the methods of one service.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    json: JsonFlag,
    #[command(flatten)]
    origin: Origin,
}

impl List {
    pub(crate) async fn run(self) -> Result<ExitCode, Failure> {
        let (origin, names) = self.origin.split()?;
        let known = origin.load_catalog().await?;
        let mut out = std::io::stdout().lock();
        if self.json.json {
            for service in services(&known, &names).map_err(Failure::usage)? {
                out.write_all(json::line(&service)?.as_bytes())?;
            }
            return Ok(ExitCode::SUCCESS);
        }
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

/// The services that are named, or all, with their methods.
fn services(known: &Catalog, names: &[String]) -> anyhow::Result<Vec<Value>> {
    let names: Vec<_> = match names {
        [] => known.services().map(str::to_owned).collect(),
        names => names.iter().map(|name| known.one_service(name)).collect::<Result<_, _>>()?,
    };
    let services = names.iter().map(|name| {
        let of = known.methods().filter(|(service, _)| service.full_name() == *name);
        let methods: Vec<_> = of
            .map(|(service, method)| {
                let types = known.method(&path(service, method))?;
                Ok(json!({
                    "method": path(service, method),
                    "request": types.input,
                    "reply": types.output,
                    "clientStreams": method.is_client_streaming(),
                    "serverStreams": method.is_server_streaming(),
                }))
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(json!({ "service": name, "methods": methods }))
    });
    services.collect()
}
