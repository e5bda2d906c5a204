//! What the owner of a session decides: limits, features, times, identity.
//!
//! Everything random (boot id, session ids, secrets, the seed for jitter) comes in from outside.

use std::time::Duration;

use crate::hello::{Limits, feature};
use crate::metadata::Metadata;

/// A point in time in microseconds, on any clock that does not go back.
pub type Micros = u64;

/// What the owner of a session decides. The defaults suit a server and its clients.
#[derive(Debug, Clone)]
pub struct Config {
    /// Limits for the peer, sent in the hello.
    pub limits: Limits,
    /// Features offered; see [`feature`].
    pub features: u64,
    /// Features that the peer must offer.
    pub required: u64,
    /// Random per start of the process.
    pub boot: Option<[u8; 16]>,
    /// Program and version, for the peer's log.
    pub agent: String,
    /// Default headers of every call of this side, such as credentials.
    pub metadata: Metadata,
    /// How long the services of this side keep command keys; of meaning with
    /// [`feature::DURABLE`].
    pub keys_kept: Duration,
    /// The URL that leads back to this host, for clients that resume through a load balancer.
    pub home: String,
    /// Names the schema that this side was built with.
    pub schema: Option<[u8; 16]>,
    /// How long the peer may take to say hello.
    pub handshake_timeout: Duration,
    /// After how much silence to ping.
    pub ping_after: Duration,
    /// After how much silence the connection is dropped.
    pub silence_max: Duration,
    /// After waking: how long the peer may take to be heard.
    pub wake_patience: Duration,
    /// How long an acceptor keeps a session without a connection.
    pub retain: Duration,
    /// Bytes of untaken output above which new requests wait.
    pub output_soft_max: usize,
    /// Bytes of untaken output above which a reply becomes `RESOURCE_EXHAUSTED`.
    pub output_hard_max: usize,
    /// Item bytes that one stream queues before they are sent, whatever credit the peer states.
    pub stream_queued_max: u64,
    /// Item bytes of all streams that are queued or kept above which each stream queues one frame
    /// at a time. Above `output_hard_max` what was sent is not kept, so that such a stream does not
    /// go on over another connection.
    pub items_held_max: usize,
    /// Bytes of answers that are kept for a peer without a connection; above them queries are
    /// forgotten, for their caller to ask again, and answers of commands are lost.
    pub parked_answers_max: usize,
    /// Bytes of stored replies in the command window.
    pub command_bytes_max: usize,
    /// The smallest payload worth compressing.
    pub compress_min: usize,
    /// After losing a session: the most calls and watches asked for again per second.
    pub again_per_second: u32,
    /// Seeds the jitter of asking again.
    pub seed: u64,
    /// What errors call the bounds that a peer ran into.
    pub bound_names: BoundNames,
}

/// How the owner of a session names its bounds, such as by the keys of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundNames {
    /// [`Config::output_hard_max`].
    pub output_hard_max: &'static str,
    /// The bound of all sessions together; see
    /// [`Session::set_over_budget`](crate::Session::set_over_budget).
    pub output_all_max: &'static str,
}

impl Default for BoundNames {
    fn default() -> Self {
        Self {
            output_hard_max: "output_hard_max",
            output_all_max: "the bound of all sessions together",
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limits: Limits { watches_max: 1 << 17, replies_kept_max: 4096, ..Limits::default() },
            features: feature::USUAL,
            required: 0,
            boot: None,
            agent: concat!("tidewire-live/", env!("CARGO_PKG_VERSION")).to_owned(),
            metadata: Metadata::default(),
            keys_kept: Duration::from_secs(86_400),
            home: String::new(),
            schema: None,
            handshake_timeout: Duration::from_secs(10),
            ping_after: Duration::from_secs(10),
            silence_max: Duration::from_secs(25),
            wake_patience: Duration::from_secs(3),
            retain: Duration::from_secs(120),
            output_soft_max: 1 << 20,
            output_hard_max: 64 << 20,
            stream_queued_max: 1 << 20,
            items_held_max: 16 << 20,
            parked_answers_max: 8 << 20,
            command_bytes_max: 1 << 20,
            compress_min: 1024,
            again_per_second: 1000,
            seed: 0,
            bound_names: BoundNames::default(),
        }
    }
}

/// Who answers: the ids of a session, all random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionId {
    /// Names the session.
    pub id: [u8; 16],
    /// Proves it.
    pub secret: [u8; 32],
}

impl SessionId {
    /// Compares the secret without telling by the time taken where it differs.
    pub fn proves(&self, id: &[u8; 16], secret: &[u8; 32]) -> bool {
        let difference =
            self.secret.iter().zip(secret).fold(0u8, |sum, (ours, theirs)| sum | (ours ^ theirs));
        self.id == *id && std::hint::black_box(difference) == 0
    }
}

pub(crate) fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}
