//! `tidewire bench run`: one target, one workload.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{Outcome, command_line};
use crate::console::Console;
use crate::quantity::{self, Span};
use crate::result::RunResult;
use crate::threshold::Threshold;
use crate::{knee, machine, measure, summary};
use tidewire_loadgen::{AcceptedStatus, Error, MessageCodec, Stop};
use tidewire_schema::Schema;

mod outputs;
mod planning;

use outputs::Outputs;

/// Offer load to one target and measure it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidewire bench run http://127.0.0.1:8080/ --connections 64 --duration 10s
  tidewire bench run http://127.0.0.1:8080/ --rate 2000 --duration 21s --json out.json
  tidewire bench run http://127.0.0.1:8080/ --ramp 1..300 --over 300s --html out.html
  tidewire bench run http://127.0.0.1:8080/ --find-knee 'p99<10ms,errors<0.1%'")]
pub struct RunArgs {
    /// Where to send requests: http://host:port/path, or https, ws, wss.
    url: String,

    /// Number of connections.
    #[arg(long, value_name = "COUNT", short, default_value_t = 8, help_heading = "Load")]
    connections: usize,
    /// Requests in flight per connection: pipelining depth or HTTP/2 streams.
    #[arg(long, value_name = "COUNT", default_value_t = 1, help_heading = "Load")]
    depth: usize,
    /// Open model: requests per second, constant (2000) or rising (100..5000).
    #[arg(long, value_parser = quantity::span, help_heading = "Load")]
    rate: Option<Span>,
    /// Open model: requests per second of each connection, as hey's -q.
    #[arg(long, short = 'q', value_name = "RATE", conflicts_with_all = ["rate", "steps", "ramp"],
          help_heading = "Load")]
    rate_per_connection: Option<f64>,
    /// Open model: requests per second, one step after another (1000,2000,4000).
    #[arg(long, value_delimiter = ',', conflicts_with = "rate", help_heading = "Load")]
    steps: Vec<f64>,
    /// Open model: random gaps with the same mean, as independent users make them.
    #[arg(long, help_heading = "Load")]
    poisson: bool,
    /// Closed model: connections from one number to another (1..300) over the duration.
    #[arg(long, value_parser = quantity::span, conflicts_with_all = ["rate", "steps"],
          help_heading = "Load")]
    ramp: Option<Span>,
    /// Length of the measured part, 10 s unless --requests ends it; with --steps, divided among
    /// them.
    #[arg(long, value_name = "DURATION", short = 'z', visible_alias = "over",
          value_parser = quantity::duration, help_heading = "Load")]
    duration: Option<Duration>,
    /// Unmeasured load before it.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = quantity::duration, help_heading = "Load")]
    warm_up: Duration,
    /// Stop after this many requests; with --duration, after whichever comes first.
    #[arg(long, value_name = "COUNT", short = 'n', help_heading = "Load")]
    requests: Option<u64>,
    /// Open model: drop (and count) requests beyond this many waiting or in flight.
    #[arg(long, value_name = "COUNT", default_value_t = 65_536, help_heading = "Load")]
    in_flight_max: usize,
    /// Give up a request after this time.
    #[arg(long, value_name = "DURATION", short, default_value = "10s", value_parser = quantity::duration,
          help_heading = "Load")]
    timeout: Duration,
    /// Number of threads of the load generator.
    #[arg(long, value_name = "COUNT", default_value_t = 1, help_heading = "Load")]
    threads: usize,
    /// Open a new connection for every request.
    #[arg(long, help_heading = "Load")]
    new_connections: bool,
    /// Seed of random values.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, help_heading = "Load")]
    seed: u64,

    /// Connect to this Unix socket instead of the URL's host.
    #[arg(long, value_name = "PATH", help_heading = "Request")]
    unix: Option<PathBuf>,
    /// Trust only the authorities in this PEM file (https).
    #[arg(long, value_name = "FILE", conflicts_with = "insecure", help_heading = "Request")]
    cacert: Option<PathBuf>,
    /// Accept exactly the first certificate in this PEM file, whoever signed it (https).
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["insecure", "cacert"],
        help_heading = "Request"
    )]
    server_cert: Option<PathBuf>,
    /// Trust any certificate (https).
    #[arg(long, short = 'k', help_heading = "Request")]
    insecure: bool,
    /// Protocol of the calls.
    #[arg(long, value_enum, default_value_t = ProtocolArg::Http, help_heading = "Request")]
    protocol: ProtocolArg,
    /// Speak HTTP/2: by ALPN with https, else by prior knowledge; gRPC always does.
    #[arg(long, help_heading = "Request")]
    http2: bool,
    /// Encoding of messages in Connect and gRPC calls.
    #[arg(long, value_enum, help_heading = "Request")]
    codec: Option<CodecArg>,
    /// Kind of a Connect or gRPC call.
    #[arg(long, value_enum, default_value_t = KindArg::Unary, help_heading = "Request")]
    kind: KindArg,
    /// Messages sent per call of kind client-stream or bidi.
    #[arg(long, value_name = "COUNT", default_value_t = 1, help_heading = "Request")]
    messages: usize,
    /// HTTP method [default: GET, and POST with a body].
    #[arg(long, short = 'X', visible_short_alias = 'm', help_heading = "Request")]
    method: Option<String>,
    /// A header, `name: value`; may be repeated. Templates are allowed. The request for the
    /// server's schema has those without a template, too.
    #[arg(long, value_name = "HEADER", short = 'H', help_heading = "Request")]
    header: Vec<String>,
    /// The body. Templates allowed, such as {{seq}}, {{random 1..100}} and feeder columns.
    #[arg(long, short = 'd', visible_alias = "data", help_heading = "Request")]
    body: Option<String>,
    /// Read the body from a file, byte for byte.
    #[arg(
        long,
        value_name = "FILE",
        short = 'D',
        conflicts_with = "body",
        help_heading = "Request"
    )]
    body_file: Option<PathBuf>,
    /// Write bodies as JSON and send protobuf: a folder of .proto files, or a descriptor set
    /// [default: the server's reflection]. The URL's path names the method:
    /// /package.Service/Method.
    #[arg(long, value_name = "PATH", help_heading = "Request")]
    proto: Option<PathBuf>,
    /// Rows of values for templates: .csv with a header line, or .jsonl; may be repeated.
    #[arg(long, value_name = "FILE", help_heading = "Request")]
    feeder: Vec<PathBuf>,
    /// Use rows in random order.
    #[arg(long, help_heading = "Request")]
    feeder_random: bool,

    /// Accept only these statuses, such as 404; of gRPC and Connect calls also codes, such as
    /// not_found or ok [default: 2xx, and calls without an error].
    #[arg(long, value_name = "STATUS", value_delimiter = ',', help_heading = "Checks")]
    expect_status: Vec<AcceptedStatus>,
    /// A header must contain this text: `name: text`; may be repeated.
    #[arg(long, value_name = "HEADER", help_heading = "Checks")]
    expect_header: Vec<String>,
    /// The body must be this text.
    #[arg(long, value_name = "TEXT", help_heading = "Checks")]
    expect_body: Option<String>,
    /// The body must contain this text; may be repeated.
    #[arg(long, value_name = "TEXT", help_heading = "Checks")]
    expect_body_contains: Vec<String>,
    /// Exit with 1 unless this holds: p99<10ms, errors<0.1%, rate>1000; may be repeated.
    #[arg(long, value_parser = Threshold::parse, value_delimiter = ',', help_heading = "Checks")]
    threshold: Vec<Threshold>,

    /// Search for the highest rate that keeps this: 'p99<10ms,errors<0.1%'.
    #[arg(long, value_name = "OBJECTIVE", conflicts_with_all = ["steps", "ramp"],
          help_heading = "Load")]
    find_knee: Option<String>,
    /// Length of each trial of the search; --rate is where it begins.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = quantity::duration, help_heading = "Load")]
    trial: Duration,
    /// Several requests per iteration, described in TOML.
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["body", "body_file", "method", "expect_body"],
          help_heading = "Request")]
    scenario: Option<PathBuf>,

    /// Watch this process and its children.
    #[arg(long, value_name = "PID", help_heading = "Server under test")]
    server_pid: Option<u32>,
    /// Watch the process that listens on this port.
    #[arg(
        long,
        value_name = "PORT",
        conflicts_with = "server_pid",
        help_heading = "Server under test"
    )]
    server_port: Option<u16>,
    /// Start this, wait for its first successful reply, watch it, and stop it at the end.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["server_pid", "server_port"],
          help_heading = "Server under test")]
    server_command: Option<String>,
    /// Give up waiting for the first reply after this time.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = quantity::duration,
          help_heading = "Server under test")]
    start_timeout: Duration,
    /// Measure this many cold starts of --server-command instead of load.
    #[arg(
        long,
        value_name = "COUNT",
        requires = "server_command",
        help_heading = "Server under test"
    )]
    cold: Option<usize>,
    /// Cap the started server at this many CPUs, where cgroups allow it.
    #[arg(long, value_name = "CPUS", help_heading = "Server under test")]
    server_cpus: Option<f64>,
    /// Cap the started server's memory, such as 512MiB, where cgroups allow it.
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes,
          help_heading = "Server under test")]
    server_memory: Option<u64>,

    /// Write the result as JSON.
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    json: Option<PathBuf>,
    /// Write the result as Markdown tables.
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    markdown: Option<PathBuf>,
    /// Write the result as one HTML file with charts.
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    html: Option<PathBuf>,
    /// Print progress for a program to read, a line of JSON a second, and no summary: at, ok,
    /// failed and dropped so far, p50 and p99 of the last second.
    #[arg(long, conflicts_with_all = ["find_knee", "cold"], help_heading = "Results")]
    events: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProtocolArg {
    Http,
    Connect,
    ConnectGet,
    Grpc,
    GrpcWeb,
    Websocket,
    Live,
}

impl ProtocolArg {
    fn is_rpc(self) -> bool {
        !matches!(self, Self::Http | Self::Websocket)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CodecArg {
    Json,
    Proto,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KindArg {
    Unary,
    ServerStream,
    ClientStream,
    Bidi,
}

impl RunArgs {
    /// The server to ask for its schema: bodies are to be sent as protobuf, and no file says how.
    #[must_use]
    pub fn reflects(&self) -> Option<ReflectionTarget<'_>> {
        let calls = self.protocol.is_rpc() && self.codec() == MessageCodec::Proto;
        let is_json = |body: &str| body.trim_start().starts_with('{');
        let has_json = self.scenario.is_some() || self.body.as_deref().is_some_and(is_json);
        (calls && has_json && self.proto.is_none()).then_some(ReflectionTarget {
            url: &self.url,
            socket: self.unix.as_deref(),
            authorities: self.cacert.as_deref(),
            only_certificate: self.server_cert.as_deref(),
            insecure: self.insecure,
            headers: &self.header,
        })
    }

    /// How messages are encoded: as asked, else as the protocol's users do.
    fn codec(&self) -> MessageCodec {
        match (self.codec, self.protocol) {
            (Some(CodecArg::Json), _) => MessageCodec::Json,
            (Some(CodecArg::Proto), _) => MessageCodec::Proto,
            (None, ProtocolArg::Grpc | ProtocolArg::GrpcWeb | ProtocolArg::Live) => {
                MessageCodec::Proto
            }
            (None, _) => MessageCodec::Json,
        }
    }
}

/// A server that is to be asked for its schema.
#[derive(Debug, Clone, Copy)]
pub struct ReflectionTarget<'a> {
    /// The URL of the calls.
    pub url: &'a str,
    /// The Unix socket in place of the URL's host.
    pub socket: Option<&'a Path>,
    /// Authorities to trust in place of the machine's (PEM file).
    pub authorities: Option<&'a Path>,
    /// The one certificate to accept (PEM file).
    pub only_certificate: Option<&'a Path>,
    /// Trust whoever answers.
    pub insecure: bool,
    /// The headers of the calls, `name: value`; with the templates that they may have.
    pub headers: &'a [String],
}

pub(super) async fn run(
    args: &RunArgs,
    schema: Option<Schema>,
    console: &mut Console<'_>,
    stop: &Stop,
) -> Result<Outcome, Error> {
    if args.events {
        console.speak_to_program();
    }
    let outputs = Outputs::open(args)?;
    let case = Arc::new(planning::case(args, schema)?);
    let context = machine::context(command_line());
    let mut result = match (args.cold, &args.find_knee) {
        (Some(count), _) => measure::cold(&case, count, console, stop).await?,
        (None, Some(_)) => {
            let search = planning::search(args)?;
            knee::search(&case, &search, console, stop).await?
        }
        (None, None) => measure::measure(&case, console, stop).await?,
    };
    result.context = context;
    result.thresholds = args.threshold.iter().map(|threshold| threshold.apply(&result)).collect();
    console.text(&summary::text(&result))?;
    outputs.write(&result)?;
    Ok(outcome(&result))
}

fn outcome(result: &RunResult) -> Outcome {
    if result.interrupted {
        Outcome::Interrupted
    } else if result.requests.ok == 0 {
        Outcome::NothingAnswered
    } else if result.thresholds.iter().all(|threshold| threshold.held) {
        Outcome::Done
    } else {
        Outcome::ThresholdFailed
    }
}
