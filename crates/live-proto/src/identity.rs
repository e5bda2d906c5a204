//! Who the peer is: default headers, what may replace them, and the answer to a credential.
//!
//! From the weakest to the strongest: the `hello`, `auth` frames, the request's own. What the
//! connection says itself (the headers of a WebSocket's upgrade, or what a proxy adds to it) comes
//! below all of them, but some names count only there: a script in a page cannot choose its cookie,
//! its origin, or the address that it comes from.

use tidewire_service::{Error, Outcome};

use crate::answer::read_error;
use crate::event::Event;
use crate::frame::{self, Kind};
use crate::metadata::{self, Metadata, tag};
use crate::output::put_error_metadata;
use crate::reason::{Reason, Violation};
use crate::receive::FrameOutcome;
use crate::session::{Phase, Session};

/// Names that only the connection itself may give, where it has headers.
const OF_CONNECTION: [&str; 5] = ["cookie", "origin", "host", "forwarded", "via"];

impl Session {
    /// Replaces default headers of this side, such as a renewed credential. Where the peer refuses
    /// it, the headers of before count again, also for later hellos.
    pub fn auth(&mut self, headers: &Metadata) {
        let merged = merge(&self.config.metadata, headers);
        let before = std::mem::replace(&mut self.config.metadata, merged);
        if self.phase == Phase::Open {
            self.own_headers_before.push_back(before);
            let out = &mut self.output.control;
            let frame = frame::open(out, Kind::Auth, 0, 0);
            out.extend_from_slice(headers.raw());
            let frame = frame.metadata_ends(out);
            frame.finish(out);
        }
    }

    /// Answers an [`Event::Auth`]: for how many milliseconds the credential is good (0: not said),
    /// or why it is refused: the default headers are those of before then. Also said without being
    /// asked, when a credential is about to expire.
    pub fn credential(&mut self, outcome: Result<u64, &Error>) {
        let accepted = self.headers_before.take();
        if let (Err(_), Some(accepted)) = (outcome, accepted) {
            self.peer_headers = accepted;
        }
        if self.phase != Phase::Open {
            return;
        }
        let out = &mut self.output.control;
        let frame = frame::open(out, Kind::Auth, 0, 0);
        match outcome {
            Ok(expires_ms) => metadata::put_number(out, tag::EXPIRES, expires_ms),
            Err(error) => {
                let maps = Metadata::from_maps(error.headers(), error.trailers());
                let max = self.peer.limits.metadata_max;
                put_error_metadata(out, error, Outcome::Answered, &maps, max);
            }
        }
        let frame = frame.metadata_ends(out);
        frame.finish(out);
    }

    pub(crate) fn receive_auth(&mut self) -> FrameOutcome {
        let headers = self.metadata_of()?;
        let code = self.fields.code();
        let expires = self.fields.expires();
        let before = if code.is_some() || expires.is_some() {
            self.own_headers_before.pop_front()
        } else {
            None
        };
        if code.is_some() {
            if let Some(before) = before {
                self.own_headers_before.clear();
                self.config.metadata = before;
            }
            let refused = Some(read_error(&self.fields, &headers)?);
            return Ok(Some(Event::Credential { expires_ms: 0, refused }));
        }
        if let Some(expires_ms) = expires {
            return Ok(Some(Event::Credential { expires_ms, refused: None }));
        }
        let merged = merge(&self.peer_headers, &self.allowed(&headers));
        let before = self.peer_headers.raw().len();
        let after = merged.raw().len();
        let max = usize::from(self.config.limits.metadata_max);
        if after > before.max(max) {
            // Each frame is small enough, and there may be any number of them.
            let text = format!("default headers of {after} bytes are over metadata_max = {max}");
            return Err(Violation::new(Reason::MetadataMax, text));
        }
        let before = std::mem::replace(&mut self.peer_headers, merged);
        self.headers_before.get_or_insert(before);
        Ok(Some(Event::Auth))
    }

    /// The headers of a call of the peer: its own in place of the defaults of the same name.
    pub fn headers_of(&self, request: &Metadata) -> Metadata {
        merge(&self.peer_headers, &self.allowed(request))
    }

    /// The defaults of a new connection.
    pub(crate) fn greet_headers(&mut self, hello: &Metadata) {
        self.peer_headers = defaults(&self.upgrade, hello);
        self.headers_before = None;
    }

    fn allowed(&self, headers: &Metadata) -> Metadata {
        allowed(&self.upgrade, headers)
    }
}

/// What the connection says itself, and what its hello says in place of that.
pub(crate) fn defaults(upgrade: &Metadata, hello: &Metadata) -> Metadata {
    merge(upgrade, &allowed(upgrade, hello))
}

/// Those headers that the peer may choose.
fn allowed(upgrade: &Metadata, headers: &Metadata) -> Metadata {
    if upgrade.is_empty() {
        return headers.clone();
    }
    let is_free = |name: &str| !OF_CONNECTION.contains(&name) && !name.starts_with("x-forwarded-");
    let kept = headers.headers().filter(|(name, _)| is_free(name));
    kept.fold(Metadata::builder(), |kept, (name, value)| kept.header(name, value)).build()
}

/// `old` with the headers of `new` in place of those of the same name; an empty value removes.
fn merge(old: &Metadata, new: &Metadata) -> Metadata {
    let mut builder = Metadata::builder();
    for (name, value) in old.headers() {
        if new.header(name).is_none() {
            builder = builder.header(name, value);
        }
    }
    for (name, value) in new.headers().filter(|(_, value)| !value.is_empty()) {
        builder = builder.header(name, value);
    }
    builder.build()
}
