//! `tidewire mock`: services from `.proto` files and rules, before they exist.

mod compat;

use std::io::Write;
use std::path::PathBuf;

use tidewire::config::{Config, Flags};
use tidewire::mock::{DefaultReply, Finding, MockFolders, UpstreamService, Watch, serve};
use tidewire::schema::Diagnostic;
use tidewire::service::{Access, Protocol};
use tidewire::{Client, Method, Schema};
use tidewire_client::ClientLimits;

use self::compat::WishmockOptions;
use crate::call::detect::detect;
use crate::call::reach::Reach;
use crate::call::reflection::reflect_own;
use crate::call::target::Target;
use crate::failure::Failure;
use crate::{call, serving};

/// Serve a mock of every method of `.proto` files: replies come from rules, or are generated from
/// the schema.
///
/// All protocols share one port. A changed file takes effect at once and no call is lost. A broken
/// file is reported; the others are served.
#[derive(Debug, clap::Args)]
pub(crate) struct Mock {
    /// Folder of `.proto` files, a `.proto` file, a file with a descriptor set, or the URL of a
    /// server with reflection, such as http://127.0.0.1:50051.
    #[arg(default_value = "protos")]
    protos: PathBuf,
    /// Folder of rule files, such as rules/shop.v1.cart.getprice.yaml; may be created later.
    #[arg(long, value_name = "FOLDER", default_value = "rules")]
    rules: PathBuf,
    /// Address to listen on, such as 127.0.0.1:8080 or unix:/run/shop.sock; may be repeated.
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Port to listen on, at 127.0.0.1.
    #[arg(short, long, value_name = "PORT", conflicts_with = "listen")]
    port: Option<u16>,
    /// Seed of random values: the same seed gives the same replies.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    /// Reply of methods without rules [default: generated; unimplemented if rules/grpc exists, as
    /// in wishmock].
    #[arg(long, value_name = "WHAT")]
    without_rule: Option<WithoutRule>,
    /// Probability, 0 to 1, that a generated reply breaks the validation rules of its schema.
    #[arg(long, value_name = "PROBABILITY", default_value_t = 0.0)]
    violate: f64,
    /// Refuse requests that break the validation rules of their schema.
    #[arg(long)]
    validate: bool,
    /// Real service, such as http://127.0.0.1:50051, for calls without a matching rule and for
    /// rules with `upstream: true` [default: no real service].
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    /// Protocol of the real service.
    #[arg(long, value_name = "PROTOCOL", default_value = "grpc")]
    upstream_protocol: UpstreamProtocol,
    /// Write the replies of the real service to this folder, as rules without secrets.
    #[arg(long, value_name = "FOLDER", requires = "upstream")]
    record: Option<PathBuf>,
    /// Do not serve the console, a page that shows rules and calls; with `admin.listen` it is
    /// served anyway.
    #[arg(long)]
    no_console: bool,
    /// Do not watch the files for changes.
    #[arg(long)]
    no_watch: bool,
    /// Configuration file [default: tidewire.toml, if it exists].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Any other setting, such as limits.body_bytes_max=8MiB; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Use the ports, environment variables and admin routes of another program, for its clients.
    #[arg(long, value_name = "PROGRAM")]
    compat: Option<Compat>,
    /// Let every program on this machine use the admin routes of --compat without a credential.
    #[arg(long, requires = "compat")]
    compat_open: bool,
    /// Exit when standard input is closed, so when the program that started this one ends.
    #[arg(long)]
    until_stdin_closes: bool,
    /// Print the JSON Schema of rule files, for editors, and exit.
    #[arg(long)]
    schema: bool,
}

/// A program that clients were made for.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Compat {
    Wishmock,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum WithoutRule {
    Generated,
    Unimplemented,
}

/// How a real service is called.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum UpstreamProtocol {
    Grpc,
    GrpcWeb,
    Connect,
}

impl UpstreamProtocol {
    /// A client of the service at a URL, which takes replies with messages of so many bytes.
    pub(crate) fn client(self, url: &str, bytes_max: usize) -> Result<Client, Failure> {
        let protocol = match self {
            Self::Grpc => Protocol::Grpc,
            Self::GrpcWeb => Protocol::GrpcWeb,
            Self::Connect => Protocol::Connect,
        };
        let mut limits = ClientLimits::default();
        limits.message_bytes_max = bytes_max;
        let client = Client::builder(url).protocol(protocol).limits(limits);
        client.build().map_err(Failure::usage)
    }
}

impl Mock {
    pub(crate) fn run(mut self) -> Result<(), Failure> {
        if self.schema {
            let mut out = std::io::stdout().lock();
            out.write_all(tidewire::mock::RULE_SCHEMA.as_bytes())?;
            return Ok(());
        }
        let wishmock = match self.compat {
            Some(Compat::Wishmock) => Some(WishmockOptions::of(|name| std::env::var(name).ok())?),
            None => None,
        };
        if let Some(wishmock) = &wishmock {
            self.validate |= wishmock.validates;
            self.no_watch |= !wishmock.watches;
            self.without_rule = self.without_rule.or(Some(WithoutRule::Unimplemented));
        }
        let flags = Flags {
            file: self.config.clone(),
            listen: match (self.port, &wishmock) {
                (Some(port), _) => vec![format!("127.0.0.1:{port}")],
                (None, Some(wishmock)) if self.listen.is_empty() => wishmock.listen(),
                _ => self.listen.clone(),
            },
            settings: self.settings.clone(),
        };
        let mut config = flags.load(std::env::vars()).map_err(Failure::usage)?;
        if !self.no_console {
            config.offer_console().map_err(Failure::usage)?;
        }
        config.cors.or_of_mock();
        let answers_everybody = config.auth.or_of_mock();
        config.log.start().map_err(Failure::usage)?;
        serving::runtime(&config)?.block_on(self.mock(&flags, &config, wishmock, answers_everybody))
    }

    async fn mock(
        &self,
        flags: &Flags,
        config: &Config,
        wishmock: Option<WishmockOptions>,
        answers_everybody: bool,
    ) -> Result<(), Failure> {
        let folders = self.folders().await?;
        let mock = self.build(&folders, config)?;
        config.tell_of_mock(&mock, &folders);
        serving::offer_loads(config);
        let services = mock.services();
        if services.is_empty() {
            let path = self.protos.display();
            let why = format!("there is no service in {path}; name a folder of .proto files");
            return Err(Failure::usage(anyhow::anyhow!(why)));
        }
        let server = config.server().map_err(Failure::usage)?.validation(self.validate);
        let lines = compat::Lines::default();
        let server = match wishmock {
            Some(_) => {
                let has_reflection = config.server.reflection != Some(false);
                let server = compat::health(server, &mock, has_reflection);
                lines.routes(server, &mock, compat::can_be_asked(config))
            }
            None => server,
        };
        let mut server = serve(server, &mock);
        if !self.no_console {
            server = server.front_page(FRONT_PAGE);
        }
        let running = server.start().await;
        let running = running.map_err(|error| {
            serving::start_failure(error, self.port, &self.listen, flags, config)
        })?;
        lines.ask(&running)?;
        let _beside = match &wishmock {
            Some(wishmock) => wishmock.beside(&folders, &mock, config, self.compat_open).await?,
            None => Vec::new(),
        };
        let names: Vec<_> = mock.schema().services().map(str::to_owned).collect();
        let mut what = format!("mocking {}", names.join(", "));
        let methods = running.handle().methods();
        if answers_everybody && methods.iter().any(asks_for_credential) {
            what +=
                "\naccess rules of the .proto files are not enforced: [auth] has no credentials";
        }
        let mut start = serving::start(&running, &what, flags);
        let (console, _announced) = match self.no_console {
            true => Default::default(),
            false => serving::console(config, &running),
        };
        start += &console;
        let stopped = running.until_stopped();
        let watch = (!self.no_watch).then(|| folders.watch(&mock));
        serving::print(&start);
        tokio::select! {
            stopped = stopped => drop(stopped?),
            () = follow(watch) => {}
            () = stdin_closed(self.until_stdin_closes) => {}
        }
        Ok(())
    }

    /// The mock of these folders; what is wrong with them is reported.
    fn build(
        &self,
        folders: &MockFolders,
        config: &Config,
    ) -> Result<tidewire::mock::Mock, Failure> {
        let loaded = folders.load();
        report(&texts(loaded.faults.iter(), &[]));
        if !loaded.has_rules {
            let rules = self.rules.display();
            tracing::info!(
                "there are no rules yet; rules that you put into the folder {rules} take effect at once"
            );
        }
        let mut builder = folders.mock(loaded).seed(self.seed).violate(self.violate);
        match self.without_rule {
            Some(WithoutRule::Generated) => builder = builder.missing(DefaultReply::Generated),
            Some(WithoutRule::Unimplemented) => {
                builder = builder.missing(DefaultReply::Unimplemented)
            }
            None => {}
        }
        if let Some(url) = &self.upstream {
            let bytes_max = config.limits().message_bytes_max;
            let mut real = UpstreamService::new(self.upstream_protocol.client(url, bytes_max)?);
            if let Some(folder) = &self.record {
                real = real.record(folder).map_err(Failure::usage)?;
            }
            builder = builder.upstream(std::sync::Arc::new(real));
        }
        let (mock, findings) = builder.build();
        report_findings(&findings, &[]);
        Ok(mock)
    }

    /// Where the mock is read from.
    async fn folders(&self) -> Result<MockFolders, Failure> {
        let folders = match self.protos.to_str().filter(|said| is_url(said)) {
            Some(url) => MockFolders::of_schema(schema_of(url).await?),
            None => MockFolders::new(&self.protos),
        };
        Ok(folders.rules(&self.rules))
    }
}

const FRONT_PAGE: &str = "A mock of these services. `tidewire console` prints the address of a \
                          page that shows its rules and calls.";

fn asks_for_credential(method: &Method) -> bool {
    method.access.as_ref().is_some_and(|access| *access != Access::Anonymous)
}

fn is_url(said: &str) -> bool {
    said.starts_with("http://") || said.starts_with("https://")
}

/// The schema of a running server, by its reflection.
async fn schema_of(url: &str) -> Result<Schema, Failure> {
    let target = Target::parse(url).map_err(Failure::usage)?;
    let reach = Reach::within(REFLECTION_PATIENCE);
    let server = detect(&target, &reach, &call::watch::Watch::new(false)).await?;
    Ok(reflect_own(&server, &reach).await?.schema)
}

/// How long a server may take to say its schema.
const REFLECTION_PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// Tells of each change, for ever.
async fn follow(watch: Option<Watch>) {
    let Some(mut watch) = watch else { return std::future::pending().await };
    loop {
        let change = watch.next().await;
        report(&texts(change.faults.iter(), &[]));
        let kept: Vec<_> = change.reloaded.kept.iter().map(ToString::to_string).collect();
        report_findings(&change.reloaded.findings, &kept);
        let changed = match &change.reloaded.changed[..] {
            [] => "no method".to_owned(),
            changed => changed.join(", "),
        };
        let took = change.took.as_secs_f64() * 1000.0;
        tracing::info!("reloaded in {took:.1} ms; answered otherwise: {changed}");
    }
}

/// Returns once standard input is closed; never where nobody asked for that.
async fn stdin_closed(is_asked: bool) {
    if !is_asked {
        return std::future::pending().await;
    }
    let (ended, wait) = tokio::sync::oneshot::channel();
    // A thread of the runtime would be waited for when another signal ends the mock.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = ended.send(());
    });
    let _ = wait.await;
}

fn report(errors: &[String]) {
    for error in errors {
        tracing::error!("{error}");
    }
}

/// `kept` are files that are broken, and hold as they were before.
fn report_findings(findings: &[Finding], kept: &[String]) {
    let errors = findings.iter().filter(|finding| finding.is_error);
    report(&texts(errors.map(|finding| &finding.diagnostic), kept));
    for finding in findings.iter().filter(|finding| !finding.is_error) {
        tracing::warn!("{}", line(&finding.diagnostic));
    }
}

/// One line a file that is broken: its first fault, how many more there are, and whether what it
/// said before stays.
fn texts<'a>(faults: impl Iterator<Item = &'a Diagnostic>, kept: &[String]) -> Vec<String> {
    let mut files: Vec<(&str, &Diagnostic, usize)> = Vec::new();
    for fault in faults {
        match files.iter_mut().find(|(file, ..)| *file == fault.file) {
            Some((.., more)) => *more += 1,
            None => files.push((&fault.file, fault, 0)),
        }
    }
    let stays = "what it said before stays";
    let broken = files.iter().map(|(file, first, more)| {
        let more = match more {
            0 => String::new(),
            more => format!("; and {more} more in this file, which tidewire check shows"),
        };
        let stays =
            if kept.iter().any(|it| it == file) { format!("; {stays}") } else { String::new() };
        format!("{}{more}{stays}", line(first))
    });
    let others = kept.iter().filter(|it| !files.iter().any(|(file, ..)| it == file));
    broken.chain(others.map(|file| format!("{file} is broken; {stays}"))).collect()
}

/// A fault on one line.
fn line(fault: &Diagnostic) -> String {
    fault.to_string().replace("\n  next step: ", "; next step: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_broken_is_one_line_of_the_log() {
        let fault =
            |file: &str, line| Diagnostic::new(file, "no such type").at(line, 1).help("import it");
        let faults: Vec<_> =
            (1..=21).map(|at| fault("a.proto", at)).chain([fault("b.yaml", 7)]).collect();
        let kept = ["b.yaml".to_owned(), "c.yaml".to_owned()];
        assert_eq!(
            texts(faults.iter(), &kept),
            [
                "a.proto:1:1: no such type; next step: import it; and 20 more in this file, which \
                 tidewire check shows",
                "b.yaml:7:1: no such type; next step: import it; what it said before stays",
                "c.yaml is broken; what it said before stays",
            ]
        );
    }
}
