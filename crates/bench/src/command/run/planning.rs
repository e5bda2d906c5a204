//! From arguments to a plan, or to an error that names the argument.

use std::time::Duration;

use super::{KindArg, ProtocolArg, RunArgs};
use crate::case::{Case, ServerPlan};
use crate::knee::Search;
use crate::threshold::Threshold;
use tidewire_loadgen::{
    ArrivalSpacing, Body, Check, Composer, Error, Feeder, MessageCodec, Model, Names, Order, Plan,
    Protocol, ProtocolSetup, Request, Reuse, Scenario, Segment, Services, Step, Target, Template,
    Tls, Transport, Trust, Workload,
};
use tidewire_schema::Schema;

pub(super) fn case(args: &RunArgs, schema: Option<Schema>) -> Result<Case, Error> {
    let target = Target::parse(&args.url, args.unix.as_deref())?;
    let model = model(args)?;
    let connections = match args.ramp {
        Some(ramp) => ramp.to as usize,
        None => args.connections,
    };
    for (name, value) in
        [("--connections", connections), ("--depth", args.depth), ("--threads", args.threads)]
    {
        if value == 0 {
            return Err(Error::usage(format!("{name} must be at least 1")));
        }
    }
    if args.duration.is_some_and(|duration| duration.is_zero()) {
        return Err(Error::usage("--duration must be above 0"));
    }
    let workload = workload(args, schema, &target)?;
    // Finds a body that does not fit its schema before anything is sent.
    Composer::new(&workload, 0, 1)?;
    let load = Plan {
        tls: tls(args, &target, workload.speech.transport)?,
        workload,
        target,
        model,
        connections,
        depth: args.depth,
        reuse: if args.new_connections { Reuse::NewPerRequest } else { Reuse::KeepAlive },
        threads: args.threads.min(connections),
        warm_up: args.warm_up,
        duration: Length::of(args).planned,
        requests: args.requests,
        timeout: args.timeout,
    };
    Ok(Case {
        load,
        server: ServerPlan {
            pid: args.server_pid,
            port: args.server_port,
            command: args.server_command.clone(),
            cpus: args.server_cpus,
            memory_bytes: args.server_memory,
            cgroup_root: None,
            start_timeout: args.start_timeout,
        },
    })
}

fn tls(args: &RunArgs, target: &Target, transport: Transport) -> Result<Option<Tls>, Error> {
    if !target.secure {
        return Ok(None);
    }
    let trust = match (&args.cacert, &args.server_cert) {
        _ if args.insecure => Trust::Anyone,
        (_, Some(path)) => Trust::Only(path),
        (Some(path), None) => Trust::File(path),
        (None, None) => Trust::Machine,
    };
    Tls::new(target.host(), transport, trust).map(Some)
}

/// How long a load lasts that says nothing of its end.
const LENGTH: Duration = Duration::from_secs(10);

/// How long the measured part lasts.
#[derive(Debug, PartialEq)]
struct Length {
    /// As planned; without one, the number of requests ends it.
    planned: Option<Duration>,
    /// Of the schedule. Where the number of requests ends it, that has more: gaps may be random.
    scheduled: Duration,
}

impl Length {
    fn of(args: &RunArgs) -> Self {
        let fixed = |length| Self { planned: Some(length), scheduled: length };
        let Some(requests) = args.requests.filter(|_| args.duration.is_none()) else {
            return fixed(args.duration.unwrap_or(LENGTH));
        };
        let rate = match (args.rate, args.rate_per_connection) {
            (Some(rate), _) if rate.from == rate.to => rate.from,
            (None, Some(rate)) => rate * args.connections as f64,
            (None, None) if args.steps.is_empty() && args.ramp.is_none() => {
                return Self { planned: None, scheduled: Duration::ZERO };
            }
            _ => return fixed(LENGTH),
        };
        let all = Duration::try_from_secs_f64(requests as f64 / rate).unwrap_or(LENGTH);
        let planned = all.saturating_sub(args.warm_up).max(Duration::from_millis(1));
        Self { planned: Some(planned), scheduled: planned.saturating_mul(2) }
    }
}

fn model(args: &RunArgs) -> Result<Model, Error> {
    let length = Length::of(args).scheduled.as_secs_f64();
    let segments = match args.rate {
        Some(rate) => vec![Segment { from: rate.from, to: rate.to, seconds: length }],
        None if args.rate_per_connection.is_some() => {
            let rate = args.rate_per_connection.unwrap_or_default() * args.connections as f64;
            if !(rate.is_finite() && rate > 0.0) {
                return Err(Error::usage("--rate-per-connection must be above 0"));
            }
            vec![Segment { from: rate, to: rate, seconds: length }]
        }
        None => {
            let each = length / args.steps.len().max(1) as f64;
            let step = |rate: &f64| Segment { from: *rate, to: *rate, seconds: each };
            args.steps.iter().map(step).collect()
        }
    };
    if let Some(bad) = args.steps.iter().find(|rate| !(rate.is_finite() && **rate > 0.0)) {
        return Err(Error::usage(format!("--steps: {bad} is not a rate above 0")));
    }
    if segments.is_empty() {
        if args.poisson && args.find_knee.is_none() {
            return Err(Error::usage(
                "--poisson needs --rate or --steps: a closed model has no gaps",
            ));
        }
        let connections_from = match args.ramp {
            Some(ramp) => (ramp.from as usize).clamp(1, (ramp.to as usize).max(1)),
            None => args.connections,
        };
        return Ok(Model::Closed { connections_from });
    }
    let spacing =
        if args.poisson { ArrivalSpacing::Poisson(args.seed) } else { ArrivalSpacing::Uniform };
    Ok(Model::Open { segments, spacing, in_flight_max: args.in_flight_max.max(1) })
}

/// The search that `--find-knee` asks for.
pub(super) fn search(args: &RunArgs) -> Result<Search, Error> {
    let text = args.find_knee.clone().unwrap_or_default();
    let objective = Threshold::parse_all(&text).map_err(Error::usage)?;
    let spacing =
        if args.poisson { ArrivalSpacing::Poisson(args.seed) } else { ArrivalSpacing::Uniform };
    Ok(Search {
        text,
        objective,
        from: args.rate.map_or(100.0, |rate| rate.from.max(1.0)),
        trial: args.trial,
        in_flight_max: args.in_flight_max.max(1),
        spacing,
    })
}

fn workload(args: &RunArgs, schema: Option<Schema>, target: &Target) -> Result<Workload, Error> {
    let mut names = Names::default();
    let order = if args.feeder_random { Order::Random } else { Order::Sequential };
    let feeders: Vec<Feeder> = args
        .feeder
        .iter()
        .map(|path| Feeder::read(path, order, &mut names))
        .collect::<Result<_, _>>()?;
    let mut feeders = feeders;
    let steps = match &args.scenario {
        Some(path) => {
            let scenario = Scenario::read(path, &mut names)?;
            feeders.extend(scenario.feeders);
            scenario.steps
        }
        None => vec![Step {
            name: "request".to_owned(),
            request: request(args, target, &names)?,
            checks: checks(args, &names)?,
            extracts: Vec::new(),
        }],
    };
    let mut workload = Workload {
        speech: speech(args, target)?,
        steps,
        variables: names.count(),
        feeders,
        seed: args.seed,
    };
    let services = match (&args.proto, schema) {
        (Some(source), _) => Some(Services::open(source)?),
        (None, Some(schema)) => Some(Services::new(schema, "the server's reflection")),
        (None, None) => None,
    };
    if let Some(services) = services {
        encode_as_protobuf(&services, &mut workload)?;
    }
    workload.normalise();
    Ok(workload)
}

/// Gives every request the messages of the method that its path names.
fn encode_as_protobuf(services: &Services, workload: &mut Workload) -> Result<(), Error> {
    let calls = !matches!(workload.speech.protocol, Protocol::Plain | Protocol::WebSocket);
    if !calls || workload.speech.codec == MessageCodec::Json {
        return Err(Error::usage(
            "--proto turns JSON into protobuf: it needs --protocol grpc, grpc-web, connect or live, \
             and --codec proto",
        ));
    }
    for step in &mut workload.steps {
        let path = step.request.path.fixed().ok_or_else(|| {
            Error::usage("--proto needs paths without templates: they name the method")
        })?;
        step.request.messages = Some(services.messages(&path)?);
    }
    Ok(())
}

fn request(args: &RunArgs, target: &Target, names: &Names) -> Result<Request, Error> {
    let body =
        match (&args.body, &args.body_file) {
            (Some(text), _) => Body::Template(template("--body", text, names)?),
            (None, Some(path)) => Body::Bytes(std::fs::read(path).map_err(|error| {
                Error::usage(format!("--body-file {}: {error}", path.display()))
            })?),
            (None, None) => Body::Bytes(Vec::new()),
        };
    let has_body = args.body.is_some() || args.body_file.is_some();
    let method = args.method.clone();
    let mut headers = Vec::new();
    for header in &args.header {
        let (name, value) = split_header("--header", header)?;
        headers.push((name, template("--header", &value, names)?));
    }
    Ok(Request {
        method: method.unwrap_or_else(|| if has_body { "POST" } else { "GET" }.to_owned()),
        path: template("the URL's path", &target.path, names)?,
        headers,
        body,
        messages: None,
    })
}

fn checks(args: &RunArgs, names: &Names) -> Result<Vec<Check>, Error> {
    let mut checks = Vec::new();
    if let Some(code) = args.expect_status.iter().find(|status| status.is_code())
        && !args.protocol.is_rpc()
    {
        return Err(Error::usage(format!(
            "--expect-status {code} is the code of a call: it needs --protocol connect, \
             connect-get, grpc, grpc-web or live; plain HTTP has numbers, such as 404"
        )));
    }
    if !args.expect_status.is_empty() {
        checks.push(Check::Status(args.expect_status.clone()));
    }
    for header in &args.expect_header {
        let (name, value) = split_header("--expect-header", header)?;
        checks.push(Check::Header(name, template("--expect-header", &value, names)?));
    }
    if let Some(text) = &args.expect_body {
        checks.push(Check::BodyEquals(template("--expect-body", text, names)?));
    }
    for text in &args.expect_body_contains {
        checks.push(Check::BodyContains(template("--expect-body-contains", text, names)?));
    }
    Ok(checks)
}

fn speech(args: &RunArgs, target: &Target) -> Result<ProtocolSetup, Error> {
    let websocket = target.websocket || args.protocol == ProtocolArg::Websocket;
    let streams = args.kind != KindArg::Unary;
    let protocol = match args.protocol {
        _ if websocket => Protocol::WebSocket,
        ProtocolArg::Http | ProtocolArg::Websocket => Protocol::Plain,
        ProtocolArg::Connect if streams => Protocol::ConnectStream,
        ProtocolArg::Connect => Protocol::Connect,
        ProtocolArg::ConnectGet => Protocol::ConnectGet,
        ProtocolArg::Grpc => Protocol::Grpc,
        ProtocolArg::GrpcWeb => Protocol::GrpcWeb,
        ProtocolArg::Live => Protocol::Live,
    };
    let unary = [Protocol::Plain, Protocol::ConnectGet, Protocol::WebSocket, Protocol::Live];
    if streams && unary.contains(&protocol) {
        return Err(Error::usage("--kind applies to connect, grpc and grpc-web calls only"));
    }
    let transport = match protocol {
        Protocol::WebSocket => Transport::WebSocket,
        Protocol::Live => Transport::Live,
        Protocol::Grpc => Transport::Http2,
        _ if args.http2 => Transport::Http2,
        _ => Transport::Http1,
    };
    let client_streams = matches!(args.kind, KindArg::ClientStream | KindArg::Bidi);
    Ok(ProtocolSetup {
        transport,
        protocol,
        codec: args.codec(),
        messages: if client_streams { args.messages } else { 1 },
        authority: target.authority.clone(),
        secure: target.secure,
        closes: args.new_connections,
    })
}

fn split_header(argument: &str, text: &str) -> Result<(String, String), Error> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(Error::usage(format!("{argument} {text:?}: write `name: value`"))),
    }
}

fn template(argument: &str, text: &str, names: &Names) -> Result<Template, Error> {
    Template::parse(text, names).map_err(|what| Error::usage(format!("{argument}: {what}")))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        run: RunArgs,
    }

    #[test]
    fn a_load_ends_by_its_duration_its_requests_or_after_ten_seconds() {
        for (line, planned, scheduled) in [
            ("", Some(10), 10),
            ("-z 3s -n 9", Some(3), 3),
            ("-n 9", None, 0),
            ("-n 900 --rate 10", Some(90), 180),
            ("-n 900 --rate 10 --warm-up 5s", Some(85), 170),
            ("-n 900 --rate-per-connection 5 -c 2", Some(90), 180),
            // Where the rate changes, the length says how fast.
            ("-n 900 --rate 1..10", Some(10), 10),
            ("-n 900 --steps 1,10", Some(10), 10),
            ("-n 900 --ramp 1..10", Some(10), 10),
        ] {
            let words = ["run", "http://127.0.0.1/"].into_iter().chain(line.split_whitespace());
            let length = Length::of(&Line::parse_from(words).run);
            let planned = planned.map(Duration::from_secs);
            assert_eq!(
                length,
                Length { planned, scheduled: Duration::from_secs(scheduled) },
                "{line}"
            );
        }
    }
}
