//! The runs of suites as one page: what there is, and each figure's history over commits.

use std::fmt::Write as _;

use serde::Serialize;

use super::{escape, fill};
use crate::command::IndexedRun;
use crate::suite::{self, SUITES};

const PAGE: &str = include_str!("../../assets/index.html");

/// The history of one case: a column a run, a line a peer.
#[derive(Serialize)]
struct History {
    suite: &'static str,
    case: &'static str,
    commits: Vec<String>,
    peers: Vec<Line>,
}

/// CPU seconds per request of one peer, by run.
#[derive(Serialize)]
struct Line {
    peer: String,
    cpu: Vec<Option<f64>>,
}

/// The whole page; `runs` from the oldest to the latest.
pub(crate) fn index(runs: &[IndexedRun]) -> Result<String, serde_json::Error> {
    let data = serde_json::to_string(&histories(runs))?.replace("</", "<\\/");
    let mut body = String::from(
        "<h1>Runs of the suites</h1>\n<div class=\"scroll\"><table><tr><th>run</th><th>suite</th>\
         <th>commit</th><th>machine</th><th>rounds</th><th></th></tr>\n",
    );
    for IndexedRun { folder, result } in runs.iter().rev() {
        let context = &result.context;
        let folder = escape(folder);
        let name = escape(&result.suite);
        let _ = writeln!(
            body,
            "<tr><td>{folder}</td><td>{name}</td><td>{}</td><td>{}, {} cores</td><td>{} × {} s</td>\
             <td><a href=\"{folder}/{name}.html\">report</a></td></tr>",
            escape(context.commit.as_deref().unwrap_or("unknown")),
            escape(&context.cpu),
            context.cores,
            result.rounds,
            result.seconds,
        );
    }
    body.push_str("</table></div>\n");
    for suite in SUITES.iter().filter(|suite| runs.iter().any(|run| run.result.suite == suite.name))
    {
        let _ = writeln!(
            body,
            "<h2>{}: CPU per request over commits</h2>\n<div class=\"charts\" data-suite=\"{0}\"></div>",
            suite.name
        );
    }
    Ok(fill(PAGE, "Runs of the suites – tidewire bench", &body, &data))
}

fn histories(runs: &[IndexedRun]) -> Vec<History> {
    let mut all = Vec::new();
    for suite in SUITES {
        let of_suite: Vec<&IndexedRun> =
            runs.iter().filter(|run| run.result.suite == suite.name).collect();
        for case in suite.cases {
            let mut peers: Vec<&str> = Vec::new();
            let measurements = of_suite.iter().flat_map(|run| &run.result.measurements);
            for one in measurements.filter(|one| one.case == case.name) {
                if !peers.contains(&one.peer.as_str()) {
                    peers.push(&one.peer);
                }
            }
            let line = |peer: &&str| Line {
                peer: (*peer).to_owned(),
                cpu: of_suite.iter().map(|run| suite::cpu(&run.result, case.name, peer)).collect(),
            };
            let peers: Vec<Line> = peers.iter().map(line).collect();
            let commit = |run: &&IndexedRun| {
                let commit = run.result.context.commit.clone().unwrap_or_default();
                format!("{} {commit}", run.folder)
            };
            if !peers.is_empty() {
                let commits = of_suite.iter().map(commit).collect();
                all.push(History { suite: suite.name, case: case.name, commits, peers });
            }
        }
    }
    all
}
