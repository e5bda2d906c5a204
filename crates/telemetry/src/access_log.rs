//! The observer that has a line written for each request, or for some.
//!
//! Requests that fail by the server's fault are always written, of others as many as the sample
//! says.

use std::fmt;
use std::sync::Arc;

use http::HeaderName;
use tidewire_service::{Code, End, EndReason, Head, Observation, Observer, Phases};

use crate::line::{RequestStart, line};

/// How a line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFormat {
    /// For people.
    Text,
    /// One object of JSON.
    Json,
}

/// Has a line written for each request.
///
/// ```
/// # mod tidewire { pub mod telemetry { pub use tidewire_telemetry::*; } }
/// use tidewire::telemetry::{AccessLog, LineFormat};
///
/// // One request in ten, as JSON, to standard error:
/// let log = AccessLog::new(LineFormat::Json, |line| eprintln!("{line}")).sample(0.1);
/// // Server::builder().observer(log)
/// # let _: &dyn tidewire_service::Observer = &log;
/// ```
#[derive(Clone)]
#[must_use = "it is an observer, and does nothing until a server has it"]
pub struct AccessLog {
    format: LineFormat,
    sample: f64,
    write: Arc<dyn Fn(&str) + Send + Sync>,
}

impl AccessLog {
    /// Lines in this format, which `write` is given without their ends.
    pub fn new(format: LineFormat, write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { format, sample: 1.0, write: Arc::new(write) }
    }

    /// Sets of how many requests that went well there is a line, from 0 to 1.
    pub fn sample(mut self, part: f64) -> Self {
        self.sample = part.clamp(0.0, 1.0);
        self
    }
}

impl Observer for AccessLog {
    fn begin(&self, head: &Head) -> Arc<dyn Observation> {
        let Head { target, context, .. } = head;
        let headers = context.headers();
        let peer = context.peer().and_then(|peer| peer.address);
        let begun = RequestStart {
            target: target.clone(),
            protocol: context.protocol(),
            peer: peer.map(|peer| peer.ip()),
            request_id: headers.get(REQUEST_ID).cloned(),
            traceparent: headers.get(TRACEPARENT).cloned(),
        };
        Arc::new(LoggedRequest { log: self.clone(), begun })
    }

    fn accepts_prepared(&self) -> bool {
        true
    }
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

struct LoggedRequest {
    log: AccessLog,
    begun: RequestStart,
}

impl Observation for LoggedRequest {
    fn phases(&self) -> Phases {
        Phases::NONE
    }

    fn end(&self, end: &End) {
        let is_fault = end.how == EndReason::Panicked
            || matches!(end.code, Some(Code::Internal | Code::Unknown | Code::DataLoss))
            || end.status.is_some_and(|status| status.is_server_error());
        if is_fault || self.log.sample >= 1.0 || fastrand::f64() < self.log.sample {
            (self.log.write)(&line(self.log.format, &self.begun, end, end.took));
        }
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog")
            .field("format", &self.format)
            .field("sample", &self.sample)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    use std::time::Duration;

    use http::{HeaderValue, Method, StatusCode, Uri};
    use tidewire_service::{Context, Headers, HttpTarget, Phase, Principal, Protocol, Target};

    fn written(format: LineFormat, sample: f64, status: StatusCode, times: usize) -> Vec<String> {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&lines);
        let log = AccessLog::new(format, move |line| into.lock().push(line.to_owned()));
        let log = log.sample(sample);
        let mut headers = Headers::new();
        headers.insert("authorization", HeaderValue::from_static("Bearer hunter2"));
        headers.insert("x-request-id", HeaderValue::from_static("id-1"));
        let uri = Uri::from_static("/page?token=hunter2");
        let target = Target::Http(HttpTarget::new(Method::GET, uri));
        let head = Head::new(target, Context::new(headers).with_protocol(Protocol::Http));
        for _ in 0..times {
            let mut end = End::new(EndReason::Answered);
            end.status = Some(status);
            log.begin(&head).end(&end);
        }
        drop(log);
        Arc::into_inner(lines).unwrap().into_inner()
    }

    #[test]
    fn a_line_says_what_was_asked_and_answered_and_no_secret() {
        for format in [LineFormat::Text, LineFormat::Json] {
            let lines = written(format, 1.0, StatusCode::OK, 1);
            assert_eq!(lines.len(), 1);
            assert!(lines[0].contains("GET /page") && lines[0].contains("2xx"), "{lines:?}");
            assert!(lines[0].contains("id-1"), "{lines:?}");
            assert!(!lines[0].contains("hunter2"), "{lines:?}");
        }
        let json = &written(LineFormat::Json, 1.0, StatusCode::OK, 1)[0];
        let object: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(object["status"], 200);
    }

    #[test]
    fn a_line_says_which_program_was_called_and_what_the_cache_knew() {
        let mut passed = End::new(EndReason::Answered);
        passed.program = Some("shop".into());
        passed.phases = Phases::NONE.with(Phase::Memo).with(Phase::Computed);
        let mut kept = End::new(EndReason::Answered);
        kept.phases = Phases::NONE.with(Phase::Memo);
        for (end, program, cache) in
            [(passed, "shop".into(), "miss"), (kept, serde_json::Value::Null, "hit")]
        {
            let object: serde_json::Value =
                serde_json::from_str(&of_end(LineFormat::Json, &end)).unwrap();
            assert_eq!((&object["program"], &object["cache"]), (&program, &cache.into()));
            let text = of_end(LineFormat::Text, &end);
            assert_eq!(text.contains(" program=shop"), !program.is_null(), "{text}");
            assert!(text.ends_with(&format!(" cache={cache}")), "{text}");
        }
        let plain = of_end(LineFormat::Text, &End::new(EndReason::Answered));
        assert!(!plain.contains("program=") && !plain.contains("cache="), "{plain}");
    }

    #[test]
    fn a_line_says_who_called_by_the_name_that_is_no_secret() {
        let mut known = End::new(EndReason::Answered);
        known.caller = Some(Principal::new("api-key", "ada").with_claim("token", "hunter2"));
        for (end, caller) in [(known, "ada"), (End::new(EndReason::Answered), "")] {
            let json = of_end(LineFormat::Json, &end);
            let object: serde_json::Value = serde_json::from_str(&json).unwrap();
            assert_eq!(object["caller"], caller);
            let text = of_end(LineFormat::Text, &end);
            assert_eq!(text.contains(" caller=ada"), !caller.is_empty(), "{text}");
            assert!(!(json + &text).contains("hunter2"));
        }
        let mut forger = End::new(EndReason::Answered);
        forger.caller = Some(Principal::new("api-key", "eve caller=\"ada\""));
        let text = of_end(LineFormat::Text, &forger);
        assert!(text.contains(r#" caller="eve caller=\"ada\"""#), "{text}");
    }

    /// The line of a request that ends so.
    fn of_end(format: LineFormat, end: &End) -> String {
        let (lines, told) = std::sync::mpsc::channel();
        let log = AccessLog::new(format, move |line| lines.send(line.to_owned()).unwrap());
        let target = Target::Unknown("/shop.v1.Items/Get".into());
        log.begin(&Head::new(target, Context::default())).end(end);
        told.recv().unwrap()
    }

    #[test]
    fn a_time_is_in_milliseconds_to_the_microsecond() {
        for (micros, shown) in
            [(0, "0ms"), (7, "0.007ms"), (50, "0.05ms"), (1500, "1.5ms"), (2_000_000, "2000ms")]
        {
            let mut end = End::new(EndReason::Answered);
            end.took = Duration::from_micros(micros);
            let text = of_end(LineFormat::Text, &end);
            assert!(text.contains(&format!(" ok {shown} in=0 ")), "{micros}: {text}");
        }
    }

    #[test]
    fn what_goes_wrong_is_written_whatever_the_sample() {
        assert_eq!(written(LineFormat::Text, 0.0, StatusCode::OK, 100).len(), 0);
        assert_eq!(written(LineFormat::Text, 0.0, StatusCode::BAD_GATEWAY, 100).len(), 100);
        let some = written(LineFormat::Text, 0.5, StatusCode::OK, 1000).len();
        assert!((300..700).contains(&some), "{some}");
    }
}
