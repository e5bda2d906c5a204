//! RFC 9111, sections 3 to 5, with RFC 5861, 9211 and 9213: one row a sentence that says MUST or
//! SHOULD, or a case of one, each against a real upstream.
//!
//! A row is a script: what the upstream answers to each request that reaches it, what the caller
//! asks, and what it gets. `date(0)` in a header is the present, `date(60)` a minute later.

use std::sync::Arc;

use http::Method;
use parking_lot::Mutex;

use crate::clock::{CachingProxy, Clock, Got};
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
    let mut stage = Stage::start().await;
    for step in script {
        stage.take(step).await?;
    }
    Ok(())
}

/// An upstream, what it answers, the cache before it, and what its caller got last.
struct Stage {
    origin: Origin,
    plan: Arc<Mutex<Option<Planned>>>,
    cached: CachingProxy,
    last: Option<Got>,
}

impl Stage {
    async fn start() -> Self {
        let plan = Arc::<Mutex<Option<Planned>>>::default();
        let clock = Arc::<Mutex<Option<Clock>>>::default();
        let (planned, known) = (Arc::clone(&plan), Arc::clone(&clock));
        let origin = Origin::start(move |received: &Received| {
            let Planned::Response(status, headers, body) = planned.lock().expect("an answer")
            else {
                return vec![Step::Close];
            };
            let clock = known.lock().clone().expect("a clock");
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
        let cached = CachingProxy::new(&origin);
        *clock.lock() = Some(cached.clock.clone());
        Self { origin, plan, cached, last: None }
    }

    async fn take(&mut self, step: &Do) -> Result<(), String> {
        let Self { origin, plan, cached, .. } = self;
        match step {
            Answer(status, headers, body) => {
                *plan.lock() = Some(Planned::Response(*status, headers, body));
            }
            Break => *plan.lock() = Some(Planned::Break),
            Miss(headers) | Hit(headers) => {
                let before = origin.count();
                let got = ask(cached, "GET", "/page", headers).await;
                let reached = origin.count() - before;
                let is_miss = matches!(step, Miss(_));
                let told = got.status_text().to_owned();
                self.last = Some(got);
                if (reached == 1) != is_miss || reached > 1 {
                    return Err(format!("{step:?}: {reached} requests; {told}"));
                }
            }
            Status(headers, expected) => {
                let got = ask(cached, "GET", "/page", headers).await;
                let status = got.status.as_u16();
                self.last = Some(got);
                if status != *expected {
                    return Err(format!("{step:?}: status {status}"));
                }
            }
            Ask(verb, target, headers) => {
                self.last = Some(ask(cached, verb, target, headers).await);
            }
            Pass(seconds) => cached.clock.pass(*seconds),
            Settle(count) => {
                origin.until(*count).await;
                // Until what is stored of the response can be seen.
                for _ in 0..1000 {
                    tokio::task::yield_now().await;
                }
            }
            Header(..) | Body(_) | Sent(..) | Count(_) => return self.look(step),
        }
        Ok(())
    }

    /// Whether it is as the step says.
    fn look(&self, step: &Do) -> Result<(), String> {
        let last = self.last.as_ref();
        let found = match step {
            Header(name, expected) => {
                let found = last.and_then(|got| got.header(name)).map(str::to_owned);
                (found != expected.map(|text| dated(&self.cached.clock, text))).then_some(found)
            }
            Body(expected) => {
                let found = last.map(|got| got.body.clone());
                (found.as_deref() != Some(expected)).then_some(found)
            }
            Sent(name, expected) => {
                let found = self.origin.last().header(name).map(str::to_owned);
                (found != expected.map(|text| dated(&self.cached.clock, text))).then_some(found)
            }
            Count(expected) => {
                let found = self.origin.count();
                (found != *expected).then(|| Some(found.to_string()))
            }
            _ => None,
        };
        found.map_or(Ok(()), |found| Err(format!("{step:?}: {found:?}")))
    }
}

async fn ask(cached: &CachingProxy, verb: &str, target: &str, headers: &[(&str, &str)]) -> Got {
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
