//! From a case and the address of a peer to a plan of the load generator.

use std::path::Path;
use std::time::Duration;

use tidewire_loadgen::{
    Body, Check, Error, Feeder, MessageCodec, Model, Names, Plan, Protocol, ProtocolSetup, Request,
    Reuse, Scenario, Step, Target, Template, Transport, Workload,
};

use super::{Answer, Case, Load, Settings, Work};

/// Requests under way, of an answer that never comes, are given up after this time.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The load of `case` on the peer at `address`: closed, one thread. Scenarios are read in `folder`.
pub(super) fn plan(
    case: &Case,
    folder: &Path,
    address: &str,
    settings: &Settings,
) -> Result<Plan, Error> {
    let mut names = Names::default();
    let (path, protocol, codec) = match &case.work {
        Work::Call { path, protocol, codec, .. } => (*path, *protocol, *codec),
        Work::Scenario(_) | Work::Itself(_) => ("/", Protocol::Plain, MessageCodec::Json),
    };
    let (steps, feeders) = match &case.work {
        Work::Call { path, sent, answer, .. } => {
            (vec![call(case.name, path, sent, *answer)?], vec![])
        }
        Work::Scenario(file) => {
            let scenario = Scenario::read(&folder.join(file), &mut names)?;
            (scenario.steps, scenario.feeders)
        }
        Work::Itself(_) => (vec![], vec![]),
    };
    let target = Target::parse(&format!("http://{address}{path}"), None)?;
    let speech = ProtocolSetup {
        transport: match protocol {
            Protocol::Grpc => Transport::Http2,
            _ => Transport::Http1,
        },
        protocol,
        codec,
        messages: 1,
        authority: target.authority.clone(),
        secure: false,
        closes: false,
    };
    let feeders: Vec<Feeder> = feeders;
    let mut workload = Workload { speech, steps, feeders, variables: names.count(), seed: 1 };
    workload.normalise();
    let (connections_from, connections, depth) = match case.load {
        Load::Steady { connections, depth } => (connections, connections, depth),
        Load::Ramp { to } => (1, to, 1),
        Load::Itself | Load::TwoHosts | Load::Apart => (1, 1, 1),
    };
    Ok(Plan {
        tls: None,
        workload,
        target,
        model: Model::Closed { connections_from },
        connections,
        depth,
        reuse: Reuse::KeepAlive,
        threads: 1,
        warm_up: settings.warm_up,
        duration: Some(settings.duration),
        requests: None,
        timeout: TIMEOUT,
    })
}

fn call(name: &str, path: &str, sent: &str, answer: Answer) -> Result<Step, Error> {
    let path = Template::parse(path, &Names::default()).map_err(Error::usage)?;
    let request = Request {
        method: if sent.is_empty() { "GET" } else { "POST" }.to_owned(),
        path,
        headers: Vec::new(),
        body: Body::Bytes(sent.into()),
        messages: None,
    };
    let checks = match answer {
        Answer::Is(body) => vec![Check::BodyEquals(Template::literal(body))],
        Answer::Has(parts) => {
            parts.iter().map(|part| Check::BodyContains(Template::literal(part))).collect()
        }
    };
    Ok(Step { name: name.to_owned(), request, checks, extracts: Vec::new() })
}
