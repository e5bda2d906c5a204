//! The observer that counts: rates, errors and durations by method and protocol.

use parking_lot::RwLock;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use foldhash::HashMap;
use tidewire_service::{
    Codec, End, Head, Observation, Observer, Phase, Phases, Protocol, Side, Target,
};

use crate::exemplar::Trace;
use crate::record::{OpenRecord, Record};
use crate::series::Series;
use crate::text::Exposition;

/// Counts every request of a server, and records calls while somebody wants them; clones share all
/// that.
///
/// ```
/// # mod tidewire { pub mod telemetry { pub use tidewire_telemetry::*; } }
/// use tidewire::telemetry::{Exposition, Format, Metrics};
///
/// let metrics = Metrics::new(); // Server::builder().observer(metrics.clone())
/// let mut text = Exposition::new(Format::Prometheus);
/// metrics.expose(&mut text);
/// let text = text.into_text(); // what `/metrics` answers
/// # let _ = text;
/// assert!(metrics.figures().is_empty(), "nothing was called yet");
/// ```
#[derive(Clone, Default)]
pub struct Metrics {
    all: Arc<RwLock<All>>,
    record: Record,
    has_exemplars: bool,
}

#[derive(Default)]
struct All {
    methods: HashMap<String, ByProtocol>,
    plain: HashMap<&'static str, ByProtocol>,
}

/// Most methods are called over one or two.
type ByProtocol = Vec<(Option<Protocol>, Arc<Series>)>;

/// The figures of one method over one protocol, since the start.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MethodFigures {
    /// `shop.v1.Items/Get`; `unknown`, or the verb of plain HTTP.
    pub method: String,
    /// `grpc`, `connect`, …
    pub protocol: &'static str,
    /// Requests that are not over.
    pub running: i64,
    /// Requests that are over.
    pub calls: u64,
    /// How they ended, and how often.
    pub outcomes: Vec<(&'static str, u64)>,
    /// How long half of them took at most, and 99 in a hundred, in microseconds: upper ends of
    /// buckets.
    pub p50_us: u64,
    /// See [`p50_us`](Self::p50_us).
    pub p99_us: u64,
    /// Calls that looked for an answer among what is kept, and those that found one there.
    pub asked_memory: u64,
    /// See [`asked_memory`](Self::asked_memory).
    pub from_memory: u64,
    /// The hosted program that was given calls of it, where one was.
    pub program: Option<Arc<str>>,
}

impl Metrics {
    /// Nothing was counted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Remembers a trace for each bucket of durations, for whoever reads OpenMetrics. It is of use
    /// where requests have a trace.
    #[must_use]
    pub fn with_exemplars(mut self) -> Self {
        self.has_exemplars = true;
        self
    }

    /// The last calls, while somebody wants them.
    pub const fn record(&self) -> &Record {
        &self.record
    }

    fn series(&self, target: &Target, protocol: Option<Protocol>) -> Arc<Series> {
        {
            let all = self.all.read();
            let known = match target {
                Target::Method(method) => all.methods.get(&*method.path),
                _ => all.plain.get(plain_label(target)),
            };
            if let Some(series) = known.and_then(|known| find(known, protocol)) {
                return series;
            }
        }
        self.new_series(target, protocol)
    }

    #[cold]
    fn new_series(&self, target: &Target, protocol: Option<Protocol>) -> Arc<Series> {
        let mut all = self.all.write();
        let known = match target {
            Target::Method(method) => all.methods.entry(method.path.to_string()).or_default(),
            _ => all.plain.entry(plain_label(target)).or_default(),
        };
        // Another may have been as fast.
        find(known, protocol).unwrap_or_else(|| {
            let series = Arc::new(Series::new(matches!(target, Target::Http(_))));
            known.push((protocol, Arc::clone(&series)));
            series
        })
    }

    /// The figures of every method that was called, in the order of names.
    pub fn figures(&self) -> Vec<MethodFigures> {
        self.each(|method, protocol, series| {
            let durations = series.durations.counted();
            MethodFigures {
                method: method.to_owned(),
                protocol,
                running: series.running.load(Ordering::Relaxed),
                calls: durations.all(),
                outcomes: series.outcomes().collect(),
                p50_us: durations.quantile(0.5),
                p99_us: durations.quantile(0.99),
                asked_memory: series.asked_memory.load(Ordering::Relaxed),
                from_memory: series.from_memory.load(Ordering::Relaxed),
                program: series.program.get().cloned(),
            }
        })
    }

    /// Writes all that was counted.
    pub fn expose(&self, text: &mut Exposition) {
        let labels = |method: &str, protocol| {
            [("method", method.to_owned()), ("protocol", String::from(protocol))]
        };
        text.family("tidewire_requests_total", "counter", "Requests that are over, by outcome.");
        for (labels, outcome, count) in self
            .each(|method, protocol, series| {
                let labels = labels(method, protocol);
                let outcomes =
                    series.outcomes().map(move |(outcome, count)| (labels.clone(), outcome, count));
                outcomes.collect::<Vec<_>>()
            })
            .into_iter()
            .flatten()
        {
            let [method, protocol] = labels;
            text.sample("", &[method, protocol, ("code", outcome.to_owned())], count);
        }
        for (name, kind, about, value) in GAUGES {
            text.family(name, kind, about);
            for (labels, value) in
                self.each(|method, protocol, series| (labels(method, protocol), value(series)))
            {
                text.sample("", &labels, value);
            }
        }
        text.family("tidewire_request_seconds", "histogram", "How long requests took.");
        for (labels, counted, exemplars) in self.each(|method, protocol, series| {
            (labels(method, protocol), series.durations.counted(), series.exemplars.all())
        }) {
            text.histogram(&labels, &counted, &exemplars);
        }
    }

    fn each<T>(&self, mut told: impl FnMut(&str, &'static str, &Series) -> T) -> Vec<T> {
        let all = self.all.read();
        let methods = all.methods.iter().map(|(path, of)| (path.trim_start_matches('/'), of));
        let mut named: Vec<_> =
            methods.chain(all.plain.iter().map(|(name, of)| (*name, of))).collect();
        named.sort_unstable_by_key(|(name, _)| *name);
        let mut found = Vec::new();
        for (name, by_protocol) in named {
            for (protocol, series) in by_protocol {
                found.push(told(name, protocol.map_or("inside", Protocol::as_str), series));
            }
        }
        found
    }
}

type Gauge = (&'static str, &'static str, &'static str, fn(&Series) -> u64);

const GAUGES: [Gauge; 5] = [
    ("tidewire_requests_running", "gauge", "Requests that are not over.", |series| {
        u64::try_from(series.running.load(Ordering::Relaxed)).unwrap_or_default()
    }),
    ("tidewire_request_bytes_total", "counter", "Bytes of requests' bodies.", |series| {
        series.bytes_in.load(Ordering::Relaxed)
    }),
    ("tidewire_memory_asked_total", "counter", "Calls that looked among kept answers.", |series| {
        series.asked_memory.load(Ordering::Relaxed)
    }),
    (
        "tidewire_memory_hits_total",
        "counter",
        "Calls that were answered by a kept one.",
        |series| series.from_memory.load(Ordering::Relaxed),
    ),
    ("tidewire_reply_bytes_total", "counter", "Bytes of replies' bodies.", |series| {
        series.bytes_out.load(Ordering::Relaxed)
    }),
];

fn find(known: &ByProtocol, protocol: Option<Protocol>) -> Option<Arc<Series>> {
    let series = known.iter().find(|(of, _)| *of == protocol)?;
    Some(Arc::clone(&series.1))
}

/// What a request is called that is for no method: one of few words, whatever callers send.
fn plain_label(target: &Target) -> &'static str {
    let Target::Http(http) = target else { return "unknown" };
    match http.method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "OTHER",
    }
}

impl Observer for Metrics {
    fn begin(&self, head: &Head) -> Arc<dyn Observation> {
        let series = self.series(&head.target, head.context.protocol());
        series.running.fetch_add(1, Ordering::Relaxed);
        let trace = self.has_exemplars.then(|| Trace::sampled(head.context.headers())).flatten();
        let recording = self.record.begin(head);
        if trace.is_none() && recording.is_none() {
            return series;
        }
        Arc::new(CountedRequest { series, trace, recording })
    }

    fn accepts_prepared(&self) -> bool {
        !(self.record.is_on() && self.record.is_capturing())
    }
}

/// A request of which more is kept than that it was counted.
struct CountedRequest {
    series: Arc<Series>,
    trace: Option<Trace>,
    recording: Option<OpenRecord>,
}

impl Observation for CountedRequest {
    fn phases(&self) -> Phases {
        self.recording.as_ref().map_or(Phases::NONE, OpenRecord::phases)
    }

    fn phase(&self, phase: Phase) {
        if let Some(recording) = &self.recording {
            recording.phase(phase);
        }
    }

    fn wants_messages(&self) -> bool {
        self.recording.as_ref().is_some_and(OpenRecord::captures)
    }

    fn message(&self, side: Side, codec: Codec, message: &Bytes) {
        if let Some(recording) = &self.recording {
            recording.message(side, codec, message);
        }
    }

    fn end(&self, end: &End) {
        self.series.end(end);
        if let Some(trace) = self.trace {
            self.series.exemplars.note(trace, end.took);
        }
        if let Some(recording) = &self.recording {
            recording.end(end, Series::from_memory(end) == Some(true));
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Method, Uri};
    use tidewire_service::{Code, Context, EndReason, HttpTarget, Spec, StreamKind};

    fn request(metrics: &Metrics, target: Target, code: Option<Code>) {
        let head = Head::new(target, Context::default().with_protocol(Protocol::Grpc));
        let mut end = End::new(EndReason::Answered);
        (end.code, end.status) = (code, Some(http::StatusCode::OK));
        metrics.begin(&head).end(&end);
    }

    fn get() -> Target {
        Target::Method(Arc::new(Spec::dynamic("a.B", "Get", StreamKind::Unary, ["", ""])).into())
    }

    #[test]
    fn requests_are_counted_by_what_is_served_and_not_by_what_is_asked_for() {
        let metrics = Metrics::new();
        request(&metrics, get(), None);
        request(&metrics, get(), Some(Code::NotFound));
        for number in 0..1000 {
            request(
                &metrics,
                Target::Unknown(format!("/no/{number}").into()),
                Some(Code::Unimplemented),
            );
            let uri: Uri = format!("/page/{number}?q={number}").parse().unwrap();
            let verb = Method::from_bytes(format!("V{number}").as_bytes()).unwrap();
            request(&metrics, Target::Http(HttpTarget::new(verb, uri)), None);
        }
        let figures = metrics.figures();
        let names: Vec<_> = figures.iter().map(|figures| figures.method.as_str()).collect();
        assert_eq!(names, ["OTHER", "a.B/Get", "unknown"]);
        assert_eq!((figures[1].calls, figures[1].running), (2, 0));
        assert_eq!(figures[1].outcomes, [("ok", 1), ("not_found", 1)]);
        assert_eq!(figures[2].calls, 1000);
    }

    #[test]
    fn the_text_has_every_family_once_and_a_running_request_is_seen() {
        let metrics = Metrics::new();
        request(&metrics, get(), Some(Code::NotFound));
        let head = Head::new(get(), Context::default().with_protocol(Protocol::Grpc));
        let running = metrics.begin(&head);
        let mut text = Exposition::default();
        metrics.expose(&mut text);
        let text = text.into_text();
        let labels = r#"method="a.B/Get",protocol="grpc""#;
        for line in [
            "# TYPE tidewire_requests_total counter".to_owned(),
            format!("tidewire_requests_total{{{labels},code=\"not_found\"}} 1"),
            format!("tidewire_requests_running{{{labels}}} 1"),
            "# TYPE tidewire_request_seconds histogram".to_owned(),
            format!("tidewire_request_seconds_bucket{{{labels},le=\"+Inf\"}} 1"),
            format!("tidewire_request_seconds_count{{{labels}}} 1"),
        ] {
            assert_eq!(text.lines().filter(|known| *known == line).count(), 1, "{line}\n{text}");
        }
        running.end(&End::new(EndReason::Canceled));
        assert_eq!(metrics.figures()[0].running, 0);
    }
}
