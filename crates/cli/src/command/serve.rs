//! `tidewire serve`: services without code of their own, from `.proto` files, and programs.

use std::io::Write;
use std::path::PathBuf;
use std::pin::pin;

use tidewire::config::{Flags, ServiceConfig};
use tidewire::{Schema, StartError};

use crate::{Failure, serving};

/// Serve `.proto` files over Connect, gRPC, gRPC-Web and plain HTTP on one port.
///
/// Every method of every service answers with the fields of its request, unless tidewire.toml gives it
/// another backend; programs in other languages are started by their first call. Settings come from tidewire.toml, the environment (TIDEWIRE_SERVER_LISTEN) and flags.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Folder of `.proto` files, a `.proto` file, or a file with a descriptor set; without it
    /// tidewire.toml says.
    proto: Option<PathBuf>,
    /// Configuration file [default: tidewire.toml where there is one].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on, such as 127.0.0.1:8080 or unix:/run/shop.sock; may be repeated.
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Port to listen on, at 127.0.0.1.
    #[arg(short, long, value_name = "PORT", conflicts_with = "listen")]
    port: Option<u16>,
    /// Any other setting, such as limits.body_bytes_max=8MiB; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

impl Serve {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let flags = Flags {
            file: self.config.clone(),
            listen: match self.port {
                Some(port) => vec![format!("127.0.0.1:{port}")],
                None => self.listen.clone(),
            },
            settings: self.settings.clone(),
        };
        let mut config = flags.load(std::env::vars()).map_err(Failure::usage)?;
        config.on_log_level(crate::log::start(&config.log.level).map_err(Failure::usage)?);
        let mut services: Vec<_> = config.schemas().cloned().collect();
        if let Some(proto) = &self.proto {
            services.push(ServiceConfig::echo(proto));
        }
        let mut builder = config.server().map_err(Failure::usage)?;
        let mut names = Vec::new();
        for service in &services {
            let schema = Schema::compile(&serving::sources(&service.proto));
            let schema = schema.map_err(Failure::usage)?;
            builder =
                serving::add(builder, service, &schema, &mut names).map_err(Failure::usage)?;
        }
        names.extend(config.programs().map(|program| program.program.name().to_owned()));
        if names.is_empty() {
            return Err(Failure::usage(anyhow::anyhow!(
                "there is nothing to serve; name a folder of .proto files (tidewire serve protos) \
                 or write a [[service]] into tidewire.toml"
            )));
        }
        let (builder, host) = config.host(builder).map_err(Failure::usage)?;
        let running = builder.start().await.map_err(|error| match error {
            StartError::Listen { .. } => Failure::from(error),
            _ => Failure::usage(error),
        })?;
        let start = start(&running, &names);
        let mut stopped = pin!(running.until_stopped());
        // Signals are listened to before anybody reads that it serves.
        let ended = tokio::select! {
            biased;
            ended = &mut stopped => Some(ended),
            () = async { print(&start) } => None,
        };
        match ended {
            Some(ended) => ended,
            None => stopped.await,
        }?;
        if let Some(host) = host {
            host.stop().await;
        }
        Ok(())
    }
}

/// Nobody may be reading any more; the server goes on.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn start(running: &tidewire::Running, names: &[String]) -> String {
    let addresses = running.addresses().iter().map(|address| format!("listening on {address}\n"));
    let beside = running.beside().map_or(&[][..], tidewire::Running::addresses);
    let beside = beside.iter().map(|address| format!("admin on {address}\n"));
    let addresses: String = addresses.chain(beside).collect();
    format!("{addresses}serving {}\n", names.join(", "))
}
