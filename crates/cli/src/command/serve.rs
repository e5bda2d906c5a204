//! `tidewire serve`: services without code of their own, from `.proto` files.

use std::path::PathBuf;

use anyhow::Context;
use tidewire::config::{Backend, Flags, ServiceConfig};
use tidewire::{Builder, Echo, Schema};

use crate::Failure;

/// Serve `.proto` files over Connect, gRPC, gRPC-Web and plain HTTP on one port.
///
/// Every method of every service answers with the fields of its request until services get other
/// backends. Settings come from tidewire.toml, the environment (TIDEWIRE_SERVER_LISTEN) and flags.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Folder of `.proto` files, or a file with a descriptor set; without it tidewire.toml says.
    proto: Option<PathBuf>,
    /// Configuration file [default: tidewire.toml where there is one].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on, such as 127.0.0.1:8080 or unix:/run/shop.sock; may be repeated.
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Any other setting, such as limits.body_bytes_max=8MiB; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

impl Serve {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let flags = Flags {
            file: self.config.clone(),
            listen: self.listen.clone(),
            settings: self.settings.clone(),
        };
        let config = flags.load(std::env::vars()).map_err(Failure::usage)?;
        crate::log::start(&config.log.level).map_err(Failure::usage)?;
        let mut services = config.services.clone();
        if let Some(proto) = &self.proto {
            services.push(ServiceConfig::echo(proto));
        }
        let mut builder = config.server().map_err(Failure::usage)?;
        let mut names = Vec::new();
        for service in &services {
            builder = add(builder, service, &mut names).map_err(Failure::usage)?;
        }
        if names.is_empty() {
            return Err(Failure::usage(anyhow::anyhow!(
                "there is nothing to serve; name a folder of .proto files (tidewire serve protos) \
                 or write a [[service]] into tidewire.toml"
            )));
        }
        let running = builder.start().await?;
        print_start(&running, &names);
        running.until_stopped().await?;
        Ok(())
    }
}

fn add(
    mut builder: Builder,
    service: &ServiceConfig,
    names: &mut Vec<String>,
) -> anyhow::Result<Builder> {
    let schema = if service.proto.is_file() {
        let bytes = std::fs::read(&service.proto)
            .with_context(|| format!("cannot read {}", service.proto.display()))?;
        Schema::from_descriptors(bytes).with_context(|| format!("{}", service.proto.display()))?
    } else {
        Schema::from_folder(&service.proto)?
    };
    let wanted: Vec<String> = if service.names.is_empty() {
        schema.services().map(str::to_owned).collect()
    } else {
        service.names.clone()
    };
    let upstream = match service.backend {
        Backend::Upstream => Some(service.upstream(&schema)?),
        _ => None,
    };
    for name in wanted {
        builder = match (service.backend, &upstream) {
            (Backend::Upstream, Some(upstream)) => {
                builder.service(schema.serve(&name, upstream.clone())?)
            }
            (Backend::Echo, _) => builder.service(schema.implement(&name, Echo::new(&schema))?),
            _ => anyhow::bail!("backend of {name} is not known to this program"),
        };
        names.push(name);
    }
    Ok(builder)
}

#[expect(clippy::print_stdout, reason = "the program's own output")]
fn print_start(running: &tidewire::Running, names: &[String]) {
    for address in running.addresses() {
        println!("listening on {address}");
    }
    println!("serving {}", names.join(", "));
}
