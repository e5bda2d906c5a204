//! `tidewire call`: one call of a method, or one plain HTTP request.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use tidewire::http;
use tidewire_client::{HttpVersion, Protocol};

use crate::call::detect::{Server, detect};
use crate::call::input::Input;
use crate::call::outcome::UNREACHABLE;
use crate::call::output::Output;
use crate::call::plain::Plain;
use crate::call::reach::Reach;
use crate::call::reflection::reflect;
use crate::call::rest;
use crate::call::rpc::Rpc;
use crate::call::target::Target;
use crate::call::watch::Watch;
use crate::catalog::Catalog;
use crate::failure::Failure;

/// Call a method of a server over Connect, gRPC, gRPC-Web or REST; or any path by plain HTTP.
///
///   tidewire call localhost:8080                                  what there is to call
///   tidewire call localhost:8080 Contacts/Get '{"id":1}'          one request, as JSON
///   tidewire call localhost:8080 Contacts/Get @request.json       from a file; - is standard input
///   tidewire call localhost:8080 Chat/Talk                        a stream: a message a line
///   tidewire call localhost:8080/contacts/1                       plain HTTP
///   tidewire call localhost:8080/contacts -X POST '{"name":"A"}'
///
/// TLS and gRPC are detected. The schema comes from reflection, or from --proto. Each reply is
/// printed as one line of JSON.
///
/// Exit codes: 0 success; 2 the arguments or the request are wrong; 3 the server cannot be reached
/// or speaks something else; 4 and 5 an HTTP status of 400 or over, of 500 or over; 64 + n the
/// server answered with the error of gRPC code n (69 is not_found, 68 deadline_exceeded); 1
/// anything else.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CallArgs {
    /// The server: localhost:8080, an http(s) URL, unix:/run/shop.sock; perhaps with a path.
    #[arg(value_name = "URL")]
    target: String,
    /// The method: Contacts/Get, contacts.v1.Contacts/Get, or Get where one service has it.
    #[arg(value_name = "METHOD")]
    method: Option<String>,
    /// The request as JSON; @FILE reads a file, - standard input [default: {}, and standard input
    /// for a stream of requests].
    #[arg(value_name = "JSON")]
    request: Option<String>,
    /// Schema: a folder of `.proto` files or a `.proto` file, in place of reflection; may be
    /// repeated.
    #[arg(long, value_name = "PATH")]
    proto: Vec<PathBuf>,
    /// Schema: a file with a descriptor set; may be repeated.
    #[arg(long, visible_alias = "protoset", value_name = "FILE")]
    descriptor_set: Vec<PathBuf>,
    /// Protocol [default: live if the URL says so, gRPC if the server speaks it, otherwise
    /// Connect].
    #[arg(long, value_enum)]
    protocol: Option<CallProtocol>,
    /// Verb of a plain HTTP request [default: GET, and POST with a body].
    #[arg(short = 'X', long = "verb", visible_alias = "request", value_name = "VERB")]
    verb: Option<http::Method>,
    /// The request, in place of JSON; @FILE reads a file, @ standard input.
    #[arg(short = 'd', long = "data", visible_aliases = ["json", "data-raw", "data-binary"],
          value_name = "JSON", allow_hyphen_values = true)]
    data: Option<String>,
    /// Print every new reply of a query until interrupted. Uses the live protocol.
    #[arg(long)]
    watch: bool,
    /// Print status and headers before the reply, and trailers behind it.
    #[arg(short, long)]
    include: bool,
    /// Write the reply to a file.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print what goes over the wire, and how long each phase took, to standard error.
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum CallProtocol {
    Connect,
    Grpc,
    GrpcWeb,
    Live,
    Rest,
}

/// What is to be done.
enum Task {
    List,
    Method { name: String, input: Input },
    Plain { path: String, input: Input },
}

impl CallArgs {
    pub(crate) async fn run(self) -> Result<ExitCode, Failure> {
        let mut target = Target::parse(&self.target).map_err(Failure::usage)?;
        if self.reach.plaintext {
            target.without_tls().map_err(Failure::usage)?;
        }
        let task = self.task(&mut target).map_err(Failure::usage)?;
        let watch = Watch::new(self.verbose);
        let out = Output::new(self.output.as_deref(), self.include).map_err(Failure::usage)?;
        let (name, input) = match task {
            Task::Plain { path, input } => {
                return self.plain(&target, path, &input, &watch, &out).await;
            }
            Task::Method { name, input } => (Some(name), input),
            Task::List => (None, Input::Nothing),
        };
        let local = self.local()?;
        // Without a name nothing is called, so a local schema is enough.
        if let (Some(known), None) = (&local, &name) {
            return print_methods(known);
        }
        if let (Some(known), Some(name)) = (&local, &name) {
            known.method(name).map_err(Failure::usage)?;
        }
        let server = detect(&target, &self.reach, &watch).await?;
        let known = match local {
            Some(known) => known,
            None => reflect(&server, &self.reach, name.as_deref()).await?,
        };
        let Some(name) = name else { return print_methods(&known) };
        let method = known.method(&name).map_err(|error| self.meant(error, &name))?;
        if self.protocol == Some(CallProtocol::Rest) {
            return self.rest(&server, &known, &method, &input, (&watch, &out)).await;
        }
        let protocol = self.protocol.map(CallProtocol::rpc);
        if protocol == Some(Protocol::Grpc) && server.http == HttpVersion::Http1 {
            let text =
                "the server speaks HTTP/1.1 only, and gRPC needs HTTP/2; leave --protocol out";
            return Err(Failure { error: anyhow!(text), code: UNREACHABLE });
        }
        let reach = &self.reach;
        let watch = &watch;
        let out = &out;
        let server = &server;
        let known = &known;
        let method = &method;
        let follows = self.watch;
        let rpc = Rpc { server, protocol, reach, known, method, watch, out, follows };
        rpc.run(&input).await
    }

    /// What a method that is not there may be: a command of other programs.
    fn meant(&self, error: anyhow::Error, name: &str) -> Failure {
        Failure::usage(match name {
            "list" | "describe" => {
                anyhow!("{error}; or `tidewire {name} {}`?", self.target)
            }
            _ => error,
        })
    }

    fn task(&self, target: &mut Target) -> anyhow::Result<Task> {
        let is_json = |word: &String| word.starts_with(['{', '[', '@']) || word == "-";
        let words: Vec<&String> = [&self.method, &self.request].into_iter().flatten().collect();
        let in_url = target.method().filter(|_| self.verb.is_none()).map(str::to_owned);
        let is_name = self.verb.is_none() && in_url.is_none();
        let (name, bodies) = match words.split_first() {
            Some((name, bodies)) if is_name && !is_json(name) => (Some((*name).clone()), bodies),
            _ => (None, &words[..]),
        };
        let bodies: Vec<&String> = bodies.iter().copied().chain(&self.data).collect();
        if let [first, second, ..] = bodies[..] {
            match (&in_url, &self.data) {
                (_, Some(data)) => bail!("the request occurs twice; remove -d {data}"),
                (Some(_), None) => bail!("the URL names the method already; leave {first} out"),
                (None, None) => bail!("a plain request has one body; leave {second} out"),
            }
        }
        let body = bodies.first().map(|body| body.as_str());
        let input = Input::parse(body);
        if name.is_some() {
            target.keep_path_as_prefix();
        }
        let is_plain = self.verb.is_some() || target.path.is_some();
        match (name.or(in_url), body) {
            (Some(name), _) => Ok(Task::Method { name, input }),
            (None, _) if is_plain => {
                let path = target.path.take().unwrap_or_else(|| "/".to_owned());
                Ok(Task::Plain { path, input })
            }
            (None, Some(json)) => bail!("{json} is not a method; name one before the request"),
            (None, None) => Ok(Task::List),
        }
    }

    fn local(&self) -> Result<Option<Catalog>, Failure> {
        let paths = [&self.proto[..], &self.descriptor_set].concat();
        match paths.is_empty() {
            true => Ok(None),
            false => Catalog::load(&paths).map(Some).map_err(Failure::usage),
        }
    }

    async fn plain(
        &self,
        target: &Target,
        path: String,
        input: &Input,
        watch: &Watch,
        out: &Output,
    ) -> Result<ExitCode, Failure> {
        let body = input.bytes().map_err(Failure::usage)?;
        let verb = match &self.verb {
            Some(verb) => verb.clone(),
            None if body.is_empty() => http::Method::GET,
            None => http::Method::POST,
        };
        let server = match target.urls().split_first() {
            Some((url, _)) if target.is_certain() => Server::at(url),
            _ => detect(target, &self.reach, watch).await?,
        };
        let outcome = Plain { verb, path, body }.run(&server, &self.reach, watch, out).await;
        // Whoever did not answer may speak something else; asking says what.
        match outcome {
            Err(failure) if watch.history().status.is_none() && watch.history().is_connected => {
                Err(detect(target, &self.reach, watch).await.err().unwrap_or(failure))
            }
            outcome => outcome,
        }
    }

    async fn rest(
        &self,
        server: &Server,
        known: &Catalog,
        method: &tidewire::Method,
        input: &Input,
        (watch, out): (&Watch, &Output),
    ) -> Result<ExitCode, Failure> {
        if method.kind.client_streams() {
            let text = "a stream of requests is not sent by REST; leave --protocol out";
            return Err(Failure::usage(anyhow!(text)));
        }
        let mut json = input.bytes().map_err(Failure::usage)?;
        if *input == Input::Nothing {
            json = b"{}".to_vec();
        }
        let plain = rest::request(known, method, &json).map_err(Failure::usage)?;
        plain.run(server, &self.reach, watch, out).await
    }
}

impl CallProtocol {
    const fn rpc(self) -> Protocol {
        match self {
            Self::Grpc => Protocol::Grpc,
            Self::GrpcWeb => Protocol::GrpcWeb,
            Self::Live => Protocol::Live,
            Self::Connect | Self::Rest => Protocol::Connect,
        }
    }
}

fn print_methods(known: &Catalog) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout().lock();
    for (service, method) in known.methods() {
        writeln!(out, "{}", crate::catalog::path(service, method))?;
    }
    Ok(ExitCode::SUCCESS)
}
