//! What happens on the wire: for `-v`, and to tell what an error means.

use parking_lot::{Mutex, MutexGuard};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;
use tidewire::Headers;

use tidewire::http::{StatusCode, Version};
use tidewire_client::{Event, Step, Trace};

use super::printable::printable;

/// Sees the steps of calls; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Watch(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    is_shown: bool,
    seen: Mutex<WatchHistory>,
}

/// What was seen so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchHistory {
    pub(crate) is_connected: bool,
    pub(crate) is_secured: bool,
    /// Which HTTP a TLS handshake chose.
    pub(crate) alpn: Option<String>,
    pub(crate) status: Option<StatusCode>,
    pub(crate) version: Option<Version>,
    pub(crate) content_type: String,
    /// As they came, those of the protocol among them.
    pub(crate) headers: Headers,
    pub(crate) trailers: Headers,
    started: Option<Instant>,
    connected_at: Option<Instant>,
    secured_at: Option<Instant>,
    request_at: Option<Instant>,
    sent_at: Option<Instant>,
    response_at: Option<Instant>,
    done_at: Option<Instant>,
    bytes_sent: usize,
    bytes_received: usize,
    messages_sent: usize,
    messages_received: usize,
}

impl Watch {
    /// Sees, and shows on standard error if that is wanted.
    pub(crate) fn new(is_shown: bool) -> Self {
        let seen = Mutex::new(WatchHistory::default());
        Self(Arc::new(Inner { is_shown, seen }))
    }

    /// Forgets what was seen: a call begins.
    pub(crate) fn begin(&self) {
        *self.lock() = WatchHistory { started: Some(Instant::now()), ..WatchHistory::default() };
    }

    /// The callback for a client.
    pub(crate) fn trace(&self) -> Trace {
        let watch = self.clone();
        Trace::new(move |event| watch.see(event))
    }

    /// What was seen so far.
    pub(crate) fn history(&self) -> WatchHistory {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, WatchHistory> {
        self.0.seen.lock()
    }

    fn see(&self, event: &Event<'_>) {
        let mut seen = self.lock();
        seen.note(event);
        drop(seen);
        if self.0.is_shown
            && let Some(text) = render(&event.step)
        {
            show(&text);
        }
    }

    /// Shows how long each phase took, if anything is shown.
    pub(crate) fn show_timing(&self) {
        if self.0.is_shown {
            show(&self.history().timing());
        }
    }

    /// Shows a line about what was found out.
    pub(crate) fn note(&self, text: &str) {
        if self.0.is_shown {
            show(&format!("* {text}\n"));
        }
    }
}

impl WatchHistory {
    fn note(&mut self, event: &Event<'_>) {
        match &event.step {
            Step::Connected { .. } => {
                self.is_connected = true;
                self.connected_at = Some(event.at);
            }
            Step::Reused { .. } => self.is_connected = true,
            Step::Secured(secured) => {
                self.is_secured = true;
                self.alpn.clone_from(&secured.alpn);
                self.secured_at = Some(event.at);
            }
            Step::Request { .. } => self.request_at = Some(event.at),
            Step::MessageSent { wire_bytes } => {
                self.messages_sent += 1;
                self.bytes_sent += wire_bytes;
            }
            Step::RequestSent => self.sent_at = Some(event.at),
            Step::Response { status, version, headers } => {
                self.status = Some(*status);
                self.version = Some(*version);
                self.response_at = Some(event.at);
                let content_type = headers.get("content-type").and_then(|v| v.to_str().ok());
                self.content_type = content_type.unwrap_or_default().to_owned();
                self.headers = (*headers).clone();
            }
            Step::Trailers { trailers } => self.trailers = (*trailers).clone(),
            Step::MessageReceived { wire_bytes } => {
                self.messages_received += 1;
                self.bytes_received += wire_bytes;
            }
            Step::Done => self.done_at = Some(event.at),
            _ => {}
        }
    }

    fn timing(&self) -> String {
        let mut text = "* timing:".to_owned();
        let Some(started) = self.started else { return String::new() };
        let mut last = started;
        for (what, at) in [
            ("connect", self.connected_at),
            ("tls", self.secured_at),
            ("ready", self.request_at),
            ("request sent", self.sent_at),
            ("first byte", self.response_at),
            ("read", self.done_at),
        ] {
            // A stream is answered before all of it is sent.
            let Some(at) = at else { continue };
            let took = at.saturating_duration_since(last);
            let _ = write!(text, " {what} {:.2} ms,", took.as_secs_f64() * 1e3);
            last = last.max(at);
        }
        let total = last.saturating_duration_since(started);
        let _ = writeln!(text, " total {:.2} ms", total.as_secs_f64() * 1e3);
        let count = |messages: usize, bytes: usize| format!("{messages} messages of {bytes} bytes");
        let sent = count(self.messages_sent, self.bytes_sent);
        let received = count(self.messages_received, self.bytes_received);
        let _ = writeln!(text, "* sent: {sent}; received: {received}");
        text
    }
}

fn render(step: &Step<'_>) -> Option<String> {
    let mut text = String::new();
    match step {
        Step::Resolved { host, addresses } => {
            let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            let _ = writeln!(text, "* {host} is {}", addresses.join(", "));
        }
        Step::Connected { to, local } => {
            let local = local.map(|local| format!(" from {local}")).unwrap_or_default();
            let _ = writeln!(text, "* connected to {to}{local}");
        }
        Step::Secured(secured) => {
            let alpn = secured.alpn.as_deref().unwrap_or("none");
            let version = &secured.version;
            let cipher = &secured.cipher;
            let _ = writeln!(text, "* {version}, {cipher}, ALPN {alpn}");
        }
        Step::Reused { to } => {
            let _ = writeln!(text, "* connection to {to} is used again");
        }
        Step::Request { method, uri, version, headers } => {
            let _ = writeln!(text, "> {method} {uri} {version:?}");
            lines(&mut text, ">", headers);
        }
        Step::Response { status, version, headers } => {
            let _ = writeln!(text, "< {version:?} {status}");
            lines(&mut text, "<", headers);
        }
        Step::Trailers { trailers } => {
            let _ = writeln!(text, "< trailers:");
            lines(&mut text, "<", trailers);
        }
        Step::Retrying { error, after } => {
            let _ = writeln!(text, "* {}; again in {after:?}", printable(&error.to_string()));
        }
        _ => return None,
    }
    Some(text)
}

fn lines(text: &mut String, mark: &str, headers: &Headers) {
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        let _ = writeln!(text, "{mark} {name}: {}", printable(&value));
    }
}

/// Nobody may be listening any more; that ends nothing.
fn show(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
