//! RFC 9111, sections 3 to 5, with RFC 5861, 9211 and 9213: one row a sentence that says MUST or
//! SHOULD, or a case of one, each against a real upstream.
//!
//! A row is a script: what the upstream answers to each request that reaches it, what the caller
//! asks, and what it gets. `date(0)` in a header is the present, `date(60)` a minute later.

use std::sync::Arc;

use http::Method;
use parking_lot::Mutex;

use crate::clock::{Cached, Clock, Got};
use crate::origin::{Origin, Received, Step, response};

mod freshness;
mod invalidation;
mod reuse;
mod storing;
mod validation;

/// Something that a row does.
#[derive(Debug, Clone, Copy)]
enum Do {
    /// The upstream answers requests so from now on.
    Answer(u16, &'static [(&'static str, &'static str)], &'static str),
    /// It closes the connection instead.
    Break,
    /// The caller asks for `/page`, with these headers, and gets what the upstream said now.
    Miss(&'static [(&'static str, &'static str)]),
    /// It gets what is stored.
    Hit(&'static [(&'static str, &'static str)]),
    /// It gets this status, whoever said it.
    Status(&'static [(&'static str, &'static str)], u16),
    /// Another verb, at another path.
    Ask(&'static str, &'static str, &'static [(&'static str, &'static str)]),
    /// The last answer has this header, or none of this name.
    Header(&'static str, Option<&'static str>),
    /// The last answer has this body.
    Body(&'static str),
    /// The last request at the upstream had this header, or none of this name.
    Sent(&'static str, Option<&'static str>),
    /// So many requests have reached the upstream.
    Count(usize),
    /// Time passes, in seconds.
    Pass(u64),
    /// What the caller is not waiting for is done.
    Settle(usize),
}

use Do::{Answer, Ask, Body, Break, Count, Header, Hit, Miss, Pass, Sent, Settle, Status};

/// A row: the section, what it says, and the script.
type Row = (&'static str, &'static str, &'static [Do]);

/// Nothing more is said in a request.
const PLAIN: &[(&str, &str)] = &[];

#[derive(Clone, Copy)]
enum Planned {
    Response(u16, &'static [(&'static str, &'static str)], &'static str),
    Break,
}

/// Runs a table, and says all rows that fail.
async fn run(rows: &[Row]) {
    let mut failed = Vec::new();
    for (section, says, script) in rows {
        if let Err(why) = run_row(script).await {
            failed.push(format!("{section}: {says}\n    {why}"));
        }
    }
    assert!(failed.is_empty(), "{} rows failed:\n{}", failed.len(), failed.join("\n"));
}

async fn run_row(script: &[Do]) -> Result<(), String> {
    let plan = Arc::new(Mutex::new(None::<Planned>));
    let clock_of = Arc::new(Mutex::new(None::<Clock>));
    let (planned, clock) = (Arc::clone(&plan), Arc::clone(&clock_of));
    let origin = Origin::start(move |received: &Received| {
        let next = { *planned.lock().as_ref().expect("an answer") };
        let Planned::Response(status, headers, body) = next else { return vec![Step::Close] };
        let clock = clock.lock().clone().expect("a clock");
        let number = (received.number + 1).to_string();
        let headers: Vec<(&str, String)> = headers
            .iter()
            .map(|(name, value)| (*name, dated(&clock, value)))
            .chain([("X-Number", number)])
            .collect();
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
        response(status, &headers, if received.method == "HEAD" { "" } else { body })
    })
    .await;
    let cached = Cached::new(&origin);
    *clock_of.lock() = Some(cached.clock.clone());
    let mut last = None::<Got>;
    for step in script {
        match step {
            Answer(status, headers, body) => {
                *plan.lock() = Some(Planned::Response(*status, headers, body));
            }
            Break => *plan.lock() = Some(Planned::Break),
            Miss(headers) | Hit(headers) => {
                let before = origin.count();
                let got = ask(&cached, "GET", "/page", headers).await;
                let reached = origin.count() - before;
                let is_miss = matches!(step, Miss(_));
                let told = got.status_text().to_owned();
                last = Some(got);
                if (reached == 1) != is_miss || reached > 1 {
                    return Err(format!("{step:?}: {reached} requests; {told}"));
                }
            }
            Status(headers, expected) => {
                let got = ask(&cached, "GET", "/page", headers).await;
                let status = got.status.as_u16();
                last = Some(got);
                if status != *expected {
                    return Err(format!("{step:?}: status {status}"));
                }
            }
            Ask(verb, target, headers) => last = Some(ask(&cached, verb, target, headers).await),
            Header(name, expected) => {
                let got = last.as_ref().and_then(|got| got.header(name).map(str::to_owned));
                let expected = expected.map(|text| dated(&cached.clock, text));
                if got != expected {
                    return Err(format!("{step:?}: {got:?}"));
                }
            }
            Body(expected) => {
                let got = last.as_ref().map(|got| got.body.as_str());
                if got != Some(expected) {
                    return Err(format!("{step:?}: {got:?}"));
                }
            }
            Sent(name, expected) => {
                let received = origin.last();
                let expected = expected.map(|text| dated(&cached.clock, text));
                if received.header(name) != expected.as_deref() {
                    return Err(format!("{step:?}: {:?}", received.header(name)));
                }
            }
            Count(expected) => {
                if origin.count() != *expected {
                    return Err(format!("{step:?}: {}", origin.count()));
                }
            }
            Pass(seconds) => cached.clock.pass(*seconds),
            Settle(count) => {
                origin.until(*count).await;
                // Until what is stored of the response can be seen.
                for _ in 0..1000 {
                    tokio::task::yield_now().await;
                }
            }
        }
    }
    Ok(())
}

async fn ask(cached: &Cached, verb: &str, target: &str, headers: &[(&str, &str)]) -> Got {
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| (*name, dated(&cached.clock, value))).collect();
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
    cached.ask(Method::from_bytes(verb.as_bytes()).unwrap(), target, &headers).await
}

/// The text with its `date(SECONDS)` written out.
fn dated(clock: &Clock, text: &str) -> String {
    let inside = text.strip_prefix("date(").and_then(|text| text.strip_suffix(')'));
    inside.map_or_else(|| text.to_owned(), |offset| clock.date(offset.parse().unwrap()))
}
