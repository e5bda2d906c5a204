//! The hello: what each side offers, which limits it sets, which session it means.
//!
//! Specification 2. Decoding fills in the defaults of absent limits; choosing version and features
//! is in `acceptor.rs` and `session.rs`.

use std::ops::RangeInclusive;

use bytes::Bytes;

use crate::frame::{self, Kind, PAYLOAD_BYTES_MAX};
use crate::metadata::Metadata;
use crate::reason::{Reason, Violation};
use crate::varint;

/// The versions that this implementation speaks.
pub const VERSIONS: RangeInclusive<u16> = 1..=1;

/// Feature bits.
pub mod feature {
    /// Payloads may be compressed with zstd.
    pub const ZSTD: u64 = 1;
    /// HTTP calls.
    pub const HTTP: u64 = 1 << 1;
    /// Watches.
    pub const WATCH: u64 = 1 << 2;
    /// Sessions outlive connections.
    pub const RESUME: u64 = 1 << 3;
    /// A command may be sent again in a later session, under the key it had.
    pub const DURABLE: u64 = 1 << 4;
    /// The peer is a process that this side hosts, or the other way round: it may say what changed,
    /// what its answers read, and call back within a call.
    pub const HOSTED: u64 = 1 << 5;
    /// What is offered to everybody.
    pub const USUAL: u64 = ZSTD | HTTP | WATCH | RESUME;
}

/// Limits that one side sets for the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The largest body of a unary call and the largest stream item; at least 64 KiB.
    pub body_max: u32,
    /// Most calls the peer may have open, watches not counted.
    pub calls_max: u32,
    /// Most watches the peer may hold.
    pub watches_max: u32,
    /// Most methods the peer may number.
    pub methods_max: u32,
    /// Bytes of unconsumed items per stream.
    pub stream_credit: u64,
    /// Bytes of unconsumed items over all streams.
    pub connection_credit: u64,
    /// The largest metadata of a frame.
    pub metadata_max: u16,
    /// Finished commands whose replies are kept.
    pub replies_kept_max: u32,
}

impl Default for Limits {
    /// The limits in force when a hello does not name them.
    fn default() -> Self {
        Self {
            body_max: 4 << 20,
            calls_max: 1024,
            watches_max: 0,
            methods_max: 1024,
            stream_credit: 256 << 10,
            connection_credit: 1 << 20,
            metadata_max: 16 << 10,
            replies_kept_max: 0,
        }
    }
}

impl Limits {
    /// The number of slots that a caller may use.
    pub(crate) fn slots(&self) -> u32 {
        self.calls_max.saturating_add(self.watches_max).min(SLOTS_MAX)
    }
}

/// Stream numbers are 32 bits with parity, so there are at most this many slots.
const SLOTS_MAX: u32 = (u32::MAX - 1) / 2;

/// How long services keep command keys when the hello does not say: a day.
const KEYS_MS: u64 = 86_400_000;
/// The least that a side must accept as metadata of a frame.
const METADATA_FLOOR: u16 = 256;

/// A hello, from either side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The versions spoken; the chosen one alone in the acceptor's reply.
    pub versions: RangeInclusive<u16>,
    /// Features offered.
    pub features: u64,
    /// Features that the peer must offer.
    pub required: u64,
    /// Limits for the peer.
    pub limits: Limits,
    /// Random per start of the process.
    pub boot: Option<[u8; 16]>,
    /// Dialer: the session to resume. Acceptor: the session in force.
    pub session: Option<[u8; 16]>,
    /// The proof for `session`, now or next time.
    pub secret: Option<[u8; 32]>,
    /// Acceptor: whether the session was resumed.
    pub resumed: bool,
    /// Acceptor: how long a session without a connection is kept, in milliseconds.
    pub retain_ms: u64,
    /// Program and version.
    pub agent: String,
    /// Acceptor: how long its services keep command keys, in milliseconds.
    pub keys_ms: u64,
    /// Acceptor: the URL that leads back to the host that holds the session.
    pub home: String,
    /// Names the schema that the side was built with.
    pub schema: Option<[u8; 16]>,
    /// Acceptor: how long the credential is good, in milliseconds; 0 when it does not say.
    pub expires_ms: u64,
    /// Default headers of every call.
    pub metadata: Metadata,
}

impl Default for Hello {
    fn default() -> Self {
        Self {
            versions: VERSIONS,
            features: 0,
            required: 0,
            limits: Limits::default(),
            boot: None,
            session: None,
            secret: None,
            resumed: false,
            retain_ms: 0,
            agent: String::new(),
            keys_ms: KEYS_MS,
            home: String::new(),
            schema: None,
            expires_ms: 0,
            metadata: Metadata::default(),
        }
    }
}

impl Hello {
    /// Appends the whole frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let frame = frame::open(out, Kind::Hello, 0, 0).deadline_ms(frame::MAGIC);
        out.extend_from_slice(self.metadata.raw());
        let frame = frame.metadata_ends(out);
        let [a, b] = self.versions.start().to_le_bytes();
        let [c, d] = self.versions.end().to_le_bytes();
        put(out, 1, &[a, b, c, d]);
        put_number(out, 2, self.features, 0);
        put_number(out, 3, self.required, 0);
        let default = Limits::default();
        let limits = &self.limits;
        put_number(out, 4, limits.body_max.into(), default.body_max.into());
        put_number(out, 5, limits.calls_max.into(), default.calls_max.into());
        put_number(out, 6, limits.watches_max.into(), default.watches_max.into());
        put_number(out, 7, limits.methods_max.into(), default.methods_max.into());
        put_number(out, 8, limits.stream_credit, default.stream_credit);
        put_number(out, 9, limits.connection_credit, default.connection_credit);
        put_number(out, 10, limits.metadata_max.into(), default.metadata_max.into());
        put_bytes(out, 11, self.boot.as_ref().map_or(&[], |id| &id[..]));
        put_bytes(out, 12, self.session.as_ref().map_or(&[], |id| &id[..]));
        put_bytes(out, 13, self.secret.as_ref().map_or(&[], |id| &id[..]));
        put_bytes(out, 14, if self.resumed { &[1] } else { &[] });
        put_number(out, 15, self.retain_ms, 0);
        put_bytes(out, 16, self.agent.as_bytes());
        put_number(out, 17, self.keys_ms, KEYS_MS);
        put_number(out, 18, limits.replies_kept_max.into(), default.replies_kept_max.into());
        put_bytes(out, 19, self.home.as_bytes());
        put_bytes(out, 20, self.schema.as_ref().map_or(&[], |hash| &hash[..]));
        put_number(out, 21, self.expires_ms, 0);
        frame.finish(out);
    }

    /// Reads metadata and payload of a hello frame; magic and kind are checked by the reader.
    ///
    /// # Errors
    /// `malformed`.
    pub fn decode(metadata: &Bytes, payload: &Bytes) -> Result<Self, Violation> {
        crate::fields::Fields::read(metadata)?;
        let mut hello = Self {
            versions: 0..=0,
            metadata: Metadata::from_checked(metadata.clone()),
            ..Self::default()
        };
        let mut input = &payload[..];
        let mut seen = [false; 256];
        while let Some((&tag, rest)) = input.split_first() {
            input = rest;
            let value = varint::take_string(&mut input)
                .ok_or_else(|| Violation::malformed("a hello field is cut off"))?;
            if std::mem::replace(&mut seen[usize::from(tag)], true) {
                return Err(Violation::malformed("a hello field occurs twice"));
            }
            hello.set(tag, value).ok_or_else(|| {
                Violation::new(Reason::Malformed, format!("hello field {tag} does not fit"))
            })?;
        }
        if !seen[1] {
            return Err(Violation::malformed("the hello names no versions"));
        }
        Ok(hello)
    }

    fn set(&mut self, tag: u8, value: &[u8]) -> Option<()> {
        let number = || {
            let mut rest = value;
            varint::take(&mut rest).filter(|_| rest.is_empty())
        };
        let small = || u32::try_from(number()?).ok();
        let limits = &mut self.limits;
        match tag {
            1 => {
                let [a, b, c, d] = value.try_into().ok()?;
                self.versions = u16::from_le_bytes([a, b])..=u16::from_le_bytes([c, d]);
            }
            2 => self.features = number()?,
            3 => self.required = number()?,
            4 => limits.body_max = small().filter(|&max| max as usize >= PAYLOAD_BYTES_MAX)?,
            5 => limits.calls_max = small().filter(|&max| max > 0)?,
            6 => limits.watches_max = small()?,
            7 => limits.methods_max = small()?,
            8 => limits.stream_credit = number().filter(|&credit| credit > 0)?,
            9 => limits.connection_credit = number().filter(|&credit| credit > 0)?,
            10 => {
                let max = u16::try_from(number()?).ok();
                limits.metadata_max = max.filter(|&max| max >= METADATA_FLOOR)?;
            }
            11 => self.boot = Some(value.try_into().ok()?),
            12 => self.session = Some(value.try_into().ok()?),
            13 => self.secret = Some(value.try_into().ok()?),
            14 => {
                self.resumed = match value {
                    [0] => false,
                    [1] => true,
                    _ => return None,
                }
            }
            15 => self.retain_ms = number()?,
            16 => self.agent = std::str::from_utf8(value).ok()?.to_owned(),
            17 => self.keys_ms = number()?,
            18 => limits.replies_kept_max = small()?,
            19 => self.home = std::str::from_utf8(value).ok()?.to_owned(),
            20 => self.schema = Some(value.try_into().ok()?),
            21 => self.expires_ms = number()?,
            _ => {}
        }
        Some(())
    }
}

fn put(out: &mut Vec<u8>, tag: u8, value: &[u8]) {
    out.push(tag);
    varint::put_string(out, value);
}

fn put_bytes(out: &mut Vec<u8>, tag: u8, value: &[u8]) {
    if !value.is_empty() {
        put(out, tag, value);
    }
}

fn put_number(out: &mut Vec<u8>, tag: u8, value: u64, default: u64) {
    if value != default {
        crate::metadata::put_number(out, tag, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{HEAD_BYTES, Head};

    #[test]
    fn a_hello_comes_back_and_defaults_are_not_written() {
        let mut plain = Vec::new();
        Hello::default().encode(&mut plain);
        assert_eq!(plain.len(), HEAD_BYTES + 6);
        let full = Hello {
            features: feature::USUAL | feature::DURABLE,
            required: feature::WATCH,
            limits: Limits { calls_max: 7, watches_max: 100_000, ..Limits::default() },
            boot: Some([1; 16]),
            session: Some([2; 16]),
            secret: Some([3; 32]),
            resumed: true,
            retain_ms: 120_000,
            agent: "test/1".to_owned(),
            keys_ms: 5000,
            home: "wss://a.example/live".to_owned(),
            schema: Some([4; 16]),
            expires_ms: 60_000,
            metadata: Metadata::builder().header("authorization", "Bearer x").build(),
            ..Hello::default()
        };
        let mut out = Vec::new();
        full.encode(&mut out);
        let head = Head::decode(out[..HEAD_BYTES].try_into().unwrap());
        assert_eq!(head.deadline_ms, frame::MAGIC);
        let out = Bytes::from(out);
        let meta_ends = HEAD_BYTES + usize::from(head.meta_len);
        let back = Hello::decode(&out.slice(HEAD_BYTES..meta_ends), &out.slice(meta_ends..));
        assert_eq!(back, Ok(full));
    }
}
