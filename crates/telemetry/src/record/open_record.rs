//! A request that somebody wants to know of, until it is over.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidewire_service::{
    Codec, End, Head, Headers, OneLine, Phase, Phases, Principal, Protocol, Side, Target,
};

use super::{Record, RecordedCall, called, millis, text};
use crate::message_capture::{CapturedMessages, Messages};
use crate::series::outcome;

/// A request that is recorded and not over.
#[derive(Debug)]
pub(crate) enum OpenRecord {
    Full(Box<FullRecord>),
    Brief(BriefRecord),
}

impl OpenRecord {
    pub(super) fn full(into: Record, head: &Head) -> Self {
        Self::Full(Box::new(FullRecord::new(into, head)))
    }

    pub(super) fn brief(into: Record, head: &Head) -> Self {
        let Head { target, context, .. } = head;
        let peer = context.peer().and_then(|peer| peer.address).map(|address| address.ip());
        Self::Brief(BriefRecord {
            into,
            target: target.clone(),
            protocol: context.protocol(),
            peer,
        })
    }

    pub(crate) const fn phases(&self) -> Phases {
        match self {
            Self::Full(_) => Phases::ALL,
            Self::Brief(_) => Phases::NONE,
        }
    }

    pub(crate) fn phase(&self, phase: Phase) {
        if let Self::Full(full) = self {
            full.phase(phase);
        }
    }

    pub(crate) fn captures(&self) -> bool {
        matches!(self, Self::Full(full) if full.captured.is_some())
    }

    pub(crate) fn message(&self, side: Side, codec: Codec, message: &[u8]) {
        if let Self::Full(full) = self
            && let Some(captured) = &full.captured
        {
            captured.message(side, codec, message);
        }
    }

    pub(crate) fn end(&self, end: &End, from_memory: bool) {
        match self {
            Self::Full(full) => full.end(end, from_memory),
            Self::Brief(brief) => brief.end(end, from_memory),
        }
    }
}

/// A request beyond what is recorded in a second: it is kept if it fails, without its headers,
/// phases and messages.
#[derive(Debug)]
pub(crate) struct BriefRecord {
    into: Record,
    target: Target,
    protocol: Option<Protocol>,
    peer: Option<IpAddr>,
}

impl BriefRecord {
    fn end(&self, end: &End, from_memory: bool) {
        let outcome = outcome(end, matches!(self.target, Target::Http(_)));
        if went_well(outcome) || !self.into.0.failures.take() {
            self.into.skip();
            return;
        }
        let mut call = begun_call(&self.target, self.protocol, self.peer);
        call.at_ms = call.at_ms.saturating_sub(millis(end.took));
        self.into.push(ended_call(call, end, outcome, from_memory));
    }
}

/// Whether this is the outcome of a call that did not fail.
pub(super) fn went_well(outcome: &str) -> bool {
    matches!(outcome, "ok" | "2xx" | "3xx")
}

/// What is known of a call that begins now.
fn begun_call(target: &Target, protocol: Option<Protocol>, peer: Option<IpAddr>) -> RecordedCall {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    RecordedCall {
        number: 0,
        at_ms: millis(now),
        method: cut(&called(target)),
        protocol: protocol.map_or("inside", Protocol::as_str),
        peer: peer.map_or_else(|| "-".to_owned(), |peer| peer.to_string()),
        caller: String::new(),
        request_id: String::new(),
        trace_id: String::new(),
        outcome: "",
        status: 0,
        took: Duration::ZERO,
        bytes_in: 0,
        bytes_out: 0,
        from_memory: false,
        program: None,
        phases: Vec::new(),
        headers: Vec::new(),
        messages: Messages::default(),
    }
}

/// The same call, now that it is over.
fn ended_call(
    call: RecordedCall,
    end: &End,
    outcome: &'static str,
    from_memory: bool,
) -> RecordedCall {
    RecordedCall {
        outcome,
        status: end.status.map_or(0, |status| status.as_u16()),
        took: end.took,
        bytes_in: end.bytes_in,
        bytes_out: end.bytes_out,
        from_memory,
        program: end.program.clone(),
        caller: cut(end.caller.as_ref().map_or("", Principal::subject)),
        ..call
    }
}

/// A request that is recorded and not over, in full.
#[derive(Debug)]
pub(crate) struct FullRecord {
    into: Record,
    begun: Instant,
    is_plain: bool,
    call: RecordedCall,
    /// One more than the microseconds at which each phase was reached; 0 where it was not.
    phases: [AtomicU32; PHASES.len()],
    captured: Option<CapturedMessages>,
}

impl FullRecord {
    fn new(into: Record, head: &Head) -> Self {
        let Head { target, context, .. } = head;
        let headers = context.headers();
        let peer = context.peer().and_then(|peer| peer.address).map(|address| address.ip());
        let call = RecordedCall {
            request_id: cut(text(headers, "x-request-id")),
            trace_id: text(headers, "traceparent").get(3..35).unwrap_or_default().to_owned(),
            headers: visible_headers(headers),
            ..begun_call(target, context.protocol(), peer)
        };
        let captured = match target {
            Target::Method(method) => {
                into.capture().map(|show| CapturedMessages::new(show, method.clone()))
            }
            _ => None,
        };
        let is_plain = matches!(target, Target::Http(_));
        let begun = Instant::now();
        let phases = Default::default();
        Self { into, begun, is_plain, call, phases, captured }
    }

    fn phase(&self, phase: Phase) {
        let at = u32::try_from(self.begun.elapsed().as_micros()).unwrap_or(u32::MAX - 1);
        if let Some(reached) = self.phases.get(phase as usize) {
            reached.store(at.saturating_add(1), Ordering::Relaxed);
        }
    }

    fn end(&self, end: &End, from_memory: bool) {
        let reached = self.phases.iter().zip(PHASES).filter_map(|(at, name)| {
            let at = at.load(Ordering::Relaxed).checked_sub(1)?;
            Some((name, Duration::from_micros(at.into())))
        });
        let call = RecordedCall {
            phases: reached.collect(),
            messages: self.captured.as_ref().map(CapturedMessages::take).unwrap_or_default(),
            ..self.call.clone()
        };
        self.into.push(ended_call(call, end, outcome(end, self.is_plain), from_memory));
    }
}

fn visible_headers(headers: &Headers) -> Vec<(String, Option<String>)> {
    let shown = headers.iter().take(HEADERS_MAX).map(|(name, value)| {
        let is_kept = KEPT_HEADERS.contains(&name.as_str());
        let value = is_kept.then(|| cut(&String::from_utf8_lossy(value.as_bytes())));
        (cut(name.as_str()), value)
    });
    shown.collect()
}

/// The begin of a text that a caller chose, as it can be shown.
fn cut(text: &str) -> String {
    OneLine(text).to_string().chars().take(TEXT_MAX).collect()
}

/// The phases by their numbers.
const PHASES: [&str; 7] =
    ["gates", "queued", "handler", "memo", "computed", "first byte", "written"];
const HEADERS_MAX: usize = 64;
const TEXT_MAX: usize = 256;
/// Headers whose values are not secrets, whoever sends them.
const KEPT_HEADERS: [&str; 16] = [
    "accept",
    "accept-encoding",
    "connect-protocol-version",
    "connect-timeout-ms",
    "content-encoding",
    "content-length",
    "content-type",
    "grpc-encoding",
    "grpc-accept-encoding",
    "grpc-timeout",
    "host",
    "if-none-match",
    "te",
    "traceparent",
    "user-agent",
    "x-request-id",
];
