//! `tidewire serve`: services without code, from `.proto` files, and programs.

use std::path::{Path, PathBuf};

use tidewire::Schema;
use tidewire::config::{Answers, Backend, Config, CorsConfig, Flags, ServiceConfig, sources};
use tidewire::memo::Graph;
use tidewire::oplog::Status;

use crate::failure::Failure;
use crate::init::settings;
use crate::{release_memory, serving};

/// Serve `.proto` files over Connect, gRPC, gRPC-Web and plain HTTP on one port.
///
/// Every method replies with the fields of its request, unless tidewire.toml names another backend.
/// Hosted programs start at their first call. Settings come from tidewire.toml, the environment
/// (such as TIDEWIRE_SERVER_LISTEN) and options.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Folder of `.proto` files, a `.proto` file, or a file with a descriptor set [default: the
    /// services of tidewire.toml].
    proto: Option<PathBuf>,
    /// Configuration file [default: tidewire.toml, here or in a folder above].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on, such as 127.0.0.1:8080 or unix:/run/shop.sock; may be repeated.
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Port to listen on, at 127.0.0.1.
    #[arg(short, long, value_name = "PORT", conflicts_with = "listen")]
    port: Option<u16>,
    /// Find cached replies that are wrong: compute every hit again and log differences
    /// (memo.verify=1). For development: hits cost as much as misses, and the log shows the
    /// beginning of requests. Also serves the console, a page that shows calls and caches, and
    /// prints its address, and lets pages of other servers of this machine call
    /// (cors.origins=loopback), without cookies.
    #[arg(long)]
    dev: bool,
    /// With --dev: do not serve the console; with `admin.listen` it is served anyway.
    #[arg(long, requires = "dev")]
    no_console: bool,
    /// Any other setting, such as limits.body_bytes_max=8MiB; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

impl Serve {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.proto.is_none() && self.config.is_none() {
            serving::enter_settings_folder()?;
        }
        let flags = Flags {
            file: self.config.clone(),
            listen: match self.port {
                Some(port) => vec![format!("127.0.0.1:{port}")],
                None => self.listen.clone(),
            },
            settings: match self.dev {
                true => [&["memo.verify=1".to_owned()], &self.settings[..]].concat(),
                false => self.settings.clone(),
            },
        };
        let mut config = flags.load(std::env::vars()).map_err(Failure::usage)?;
        if self.dev && !self.no_console {
            config.offer_console().map_err(Failure::usage)?;
        }
        if self.dev {
            CorsConfig::or_of_development(&mut config);
        }
        config.log.start().map_err(Failure::usage)?;
        serving::runtime(&config)?.block_on(self.serve(&flags, &config))
    }

    async fn serve(&self, flags: &Flags, config: &Config) -> Result<(), Failure> {
        let of_programs = |service: &&ServiceConfig| service.backend == Backend::Program;
        let services = config.schemas().filter(|service| !of_programs(service));
        let mut services: Vec<_> = services.cloned().collect();
        if let Some(proto) = &self.proto {
            services.push(ServiceConfig::echo(proto));
        }
        serving::offer_loads(config);
        let captured = config.oplog.sources(&Graph::global());
        let log = config.oplog.start(&captured).await.map_err(Failure::usage)?;
        let mut builder = config.server_with_log(log.as_deref()).map_err(Failure::usage)?;
        let mut names = Vec::new();
        for service in &services {
            let schema = Schema::compile(&sources(&service.proto));
            let schema = schema.map_err(Failure::usage)?;
            builder =
                serving::add(builder, service, &schema, &mut names).map_err(Failure::usage)?;
        }
        names.extend(config.programs().map(|program| program.program.name().to_owned()));
        names.extend(config.upstreams().map(|upstream| upstream.name().to_owned()));
        if names.is_empty() {
            return Err(Failure::usage(anyhow::anyhow!("there is nothing to serve; {}", advice())));
        }
        let (builder, mut programs) = config.host(builder).map_err(Failure::usage)?;
        if let Some(log) = &log {
            programs.share_log(log, captured);
        }
        let running = builder.start().await;
        let running = running.map_err(|error| {
            serving::start_failure(error, self.port, &self.listen, flags, config)
        })?;
        if let Some(host) = programs.host() {
            host.answered_by(running.callee());
        }
        release_memory::give_back_code();
        for method in config.auth.unreachable(&running.handle().methods()) {
            tracing::warn!("nobody can call {method}: {}", serving::NO_CREDENTIAL);
        }
        let what = self.summary(config, &names, log.as_ref().map(|log| log.status()));
        let mut start = serving::start(&running, &what, flags);
        let (console, _announced) = match self.dev && !self.no_console {
            true => serving::console(config, &running),
            false => Default::default(),
        };
        start += &console;
        let stopped = programs.run_until(running.until_stopped(), flags);
        serving::print(&start);
        let outcome = stopped.await;
        if let Some(log) = log {
            log.stop().await;
        }
        outcome?;
        Ok(())
    }

    /// What is served, and what that means for what is cached.
    fn summary(&self, config: &Config, names: &[String], log: Option<Status>) -> String {
        let mut what = format!("serving {}", names.join(", "));
        // Programs of plain HTTP know no sources: their pages expire as they say.
        if config.programs().any(|program| program.program.is_native()) {
            what += &format!("\n{}", config.memo.summary(answers(config)));
        }
        if let Some(doubt) = config.single_writer_doubt() {
            what += &format!("\n{doubt}");
        }
        if let Some(status) = log {
            what += &format!("\n{}", status.summary());
        }
        let share = config.memo.verify.map_or(0.0, |share| share.get());
        if config.memo.is_on() && share > 0.0 {
            what += "\ncached replies are checked: methods run again for hits (memo.verify)";
        } else if self.dev {
            let why = if config.memo.is_on() { "memo.verify = 0" } else { "memo.enabled = false" };
            what += &format!("\n--dev checks no replies: {why}");
        }
        what
    }
}

/// What to do where there is nothing to serve, by what the folder has.
fn advice() -> String {
    let found = settings::find(Path::new(".")).unwrap_or_default();
    let has_settings = Path::new("tidewire.toml").exists();
    let Some(root) = found.first() else {
        return match has_settings {
            true => {
                "write a [[service]] into tidewire.toml, or name a folder of .proto files \
                     (tidewire serve protos)"
            }
            false => {
                "name a folder of .proto files (tidewire serve protos), or run tidewire init in \
                      the folder of a program"
            }
        }
        .to_owned();
    };
    let root = match root.as_os_str().is_empty() {
        true => ".".to_owned(),
        false => root.display().to_string(),
    };
    let first = match has_settings {
        true => "write a [[service]] for them into tidewire.toml".to_owned(),
        false => "tidewire init writes a tidewire.toml for them".to_owned(),
    };
    format!(
        "there are .proto files in {root}: {first}; without one, tidewire mock {root} answers by \
         rules, and tidewire serve {root} with the fields of the request"
    )
}

/// Whose changes sources of programs hear of.
fn answers(config: &Config) -> Answers {
    match config.oplog.captured_sources().is_empty() {
        true => Answers::External,
        false => Answers::Captured,
    }
}
