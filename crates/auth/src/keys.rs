//! The public keys of an issuer (JWKS, RFC 7517): fetched when they are needed, and rotated.
//!
//! | when | the keys are fetched |
//! |---|---|
//! | none were yet | now, and the call waits |
//! | they are older than `refresh` | now; this call waits, others go on with those there are |
//! | a token names one that is not there | now, but for that no more often than once in `retry` |
//! | fetching fails, or what comes is not a set | those there are stay, up to ten times `refresh` and at least a minute; again after `retry`, or `refresh` where that is less |
//!
//! A set that can be read is the issuer's word: one without a key that can verify takes the others
//! away.
//!
//! There is no task: the call that finds out fetches. Other keys than before are a new generation,
//! and what was verified by an older one is verified again.

use parking_lot::Mutex;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::Value;
use tidewire_service::{Error, Result};

/// Where the keys of an issuer are.
pub trait KeySource: Send + Sync + 'static {
    /// The set of keys, as JSON.
    fn fetch(&self) -> Pin<Box<dyn Future<Output = Result<Bytes>> + Send + '_>>;

    /// What it is called in the log and in errors: a path or an address.
    fn name(&self) -> String;
}

/// The keys of an issuer.
pub struct Keys {
    source: Box<dyn KeySource>,
    refresh: Duration,
    retry: Duration,
    state: Mutex<State>,
    /// Held by the one call that fetches.
    fetching: tokio::sync::Mutex<()>,
}

struct State {
    known: Arc<KnownKeys>,
    fetched: Option<SystemTime>,
    tried: Option<SystemTime>,
    /// When a key was last looked for that was not there.
    missed: Option<SystemTime>,
    /// What was said last of why they cannot be fetched, and whether they were lost.
    complaint: Option<(String, bool)>,
}

/// The keys as they were fetched; the first are generation 1.
#[derive(Default)]
pub(crate) struct KnownKeys {
    pub(crate) generation: u64,
    text: Bytes,
    keys: Vec<Key>,
}

/// One key, and what it may verify.
pub(crate) struct Key {
    id: Option<String>,
    pub(crate) algorithms: Vec<Algorithm>,
    pub(crate) key: DecodingKey,
}

/// Why keys are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FetchReason {
    /// A token is to be verified.
    Any,
    /// A token names a key that is not there.
    Another,
}

impl Keys {
    /// The keys at `source`, fetched again every five minutes, and ten seconds after that failed.
    pub fn new(source: impl KeySource) -> Self {
        let (refresh, retry) = (Duration::from_secs(300), Duration::from_secs(10));
        let (known, complaint) = (Arc::default(), None);
        let state = State { known, fetched: None, tried: None, missed: None, complaint };
        Self {
            source: Box::new(source),
            refresh,
            retry,
            state: Mutex::new(state),
            fetching: tokio::sync::Mutex::new(()),
        }
    }

    /// Sets how old keys may become.
    #[must_use]
    pub fn refresh(mut self, refresh: Duration) -> Self {
        self.refresh = refresh;
        self
    }

    /// Sets the least time between two attempts, where one failed or a key was not there.
    #[must_use]
    pub fn retry(mut self, retry: Duration) -> Self {
        self.retry = retry;
        self
    }

    /// The keys there are.
    pub(crate) fn known(&self) -> Arc<KnownKeys> {
        Arc::clone(&self.state().known)
    }

    /// Whether a call has to ask for them: there are none, or they should be fetched now.
    pub(crate) fn is_due(&self, now: SystemTime) -> bool {
        self.are_lost(now) || self.may_be_fetched(FetchReason::Any, now)
    }

    /// Whether there are none: they never were fetched, or not for so long that nobody knows of
    /// them.
    fn are_lost(&self, now: SystemTime) -> bool {
        let kept = self.refresh.saturating_mul(10).max(KEPT_MIN);
        let is_over = |since| now.duration_since(since).is_ok_and(|passed| passed >= kept);
        self.state().fetched.is_none_or(is_over)
    }

    fn may_be_fetched(&self, wanted: FetchReason, now: SystemTime) -> bool {
        let state = self.state();
        let retry = self.retry.min(self.refresh);
        let is_over = |since: Option<SystemTime>, time| match since {
            None => true,
            // A clock that went back says nothing of how long it was.
            Some(since) => now.duration_since(since).map_or(true, |passed| passed >= time),
        };
        let may = is_over(state.tried, retry) || state.tried == state.fetched;
        match wanted {
            FetchReason::Any => is_over(state.fetched, self.refresh) && may,
            FetchReason::Another => is_over(state.missed, retry) && may,
        }
    }

    /// Fetches them, unless somebody else does: then those that are there are good enough.
    ///
    /// # Errors
    /// When there are none yet, and they cannot be fetched.
    ///
    /// # Cancel safety
    /// Who comes next fetches.
    pub(crate) async fn fetch(&self, wanted: FetchReason, now: SystemTime) -> Result<()> {
        let before = self.known().generation;
        let _guard = match self.fetching.try_lock() {
            Ok(guard) => guard,
            Err(_) if wanted == FetchReason::Any && !self.are_lost(now) => return Ok(()),
            Err(_) => self.fetching.lock().await,
        };
        if self.known().generation != before || !self.may_be_fetched(wanted, now) {
            return self.usable(now);
        }
        let fetched = self.source.fetch().await.and_then(|text| self.parse(text));
        let mut state = self.state();
        state.tried = Some(now);
        if wanted == FetchReason::Another {
            state.missed = Some(now);
        }
        match fetched {
            Ok(known) => {
                state.known = known;
                state.fetched = Some(now);
                state.complaint = None;
                drop(state);
            }
            Err(error) => {
                drop(state);
                self.complain(&error, now);
            }
        }
        self.usable(now)
    }

    /// Says why they cannot be fetched, once.
    fn complain(&self, error: &Error, now: SystemTime) {
        let (source, are_lost) = (self.source.name(), self.are_lost(now));
        let complaint = Some((error.to_string(), are_lost));
        if std::mem::replace(&mut self.state().complaint, complaint.clone()) == complaint {
            return;
        }
        match are_lost {
            true => {
                tracing::error!(source, %error, "keys of an issuer cannot be fetched: no token is verified");
            }
            false => tracing::warn!(source, %error, "keys of an issuer cannot be fetched"),
        }
    }

    fn usable(&self, now: SystemTime) -> Result<()> {
        match self.are_lost(now) {
            true => Err(Error::unavailable("the keys of the issuer of tokens cannot be had now")),
            false => Ok(()),
        }
    }

    /// The keys of a set; those there are where it is the same.
    fn parse(&self, text: Bytes) -> Result<Arc<KnownKeys>> {
        let before = self.known();
        if before.generation > 0 && before.text == text {
            return Ok(before);
        }
        let keys =
            keys(&text).ok_or_else(|| Error::unavailable("they are not a JSON Web Key Set"))?;
        if keys.is_empty() {
            let source = self.source.name();
            tracing::warn!(
                source,
                "none of the keys of an issuer can verify a token: all are refused"
            );
        }
        Ok(Arc::new(KnownKeys { generation: before.generation + 1, text, keys }))
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl KnownKeys {
    /// The keys that a token may be signed by which names one, or none.
    pub(crate) fn by_id(&self, id: Option<&str>) -> impl Iterator<Item = &Key> {
        self.keys.iter().filter(move |key| match (id, &key.id) {
            (Some(wanted), Some(id)) => wanted == id,
            // Without a name it may be any, as it has to be where the issuer has one only.
            _ => true,
        })
    }
}

/// The keys of a set that can verify; what is not understood is left out (RFC 7517, section 5).
fn keys(text: &[u8]) -> Option<Vec<Key>> {
    let set: Value = serde_json::from_slice(text).ok()?;
    let keys = set.get("keys")?.as_array()?.iter();
    Some(
        keys.take(KEYS_MAX)
            .filter_map(|key| usable(serde_json::from_value(key.clone()).ok()?))
            .collect(),
    )
}

/// The least time for which keys that cannot be fetched again are kept.
const KEPT_MIN: Duration = Duration::from_secs(60);

/// More than any issuer has.
const KEYS_MAX: usize = 64;

fn usable(jwk: Jwk) -> Option<Key> {
    if matches!(&jwk.common.public_key_use, Some(purpose) if *purpose != PublicKeyUse::Signature) {
        return None;
    }
    let possible: &[Algorithm] = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => &[
            Algorithm::RS256,
            Algorithm::RS384,
            Algorithm::RS512,
            Algorithm::PS256,
            Algorithm::PS384,
            Algorithm::PS512,
        ],
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => &[Algorithm::ES256],
            EllipticCurve::P384 => &[Algorithm::ES384],
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            &[Algorithm::EdDSA]
        }
        // A secret has no place among public keys.
        _ => return None,
    };
    let algorithms = match jwk.common.key_algorithm {
        None => possible.to_vec(),
        Some(only) => {
            let only = Algorithm::try_from(only).ok()?;
            possible.contains(&only).then(|| vec![only])?
        }
    };
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    Some(Key { id: jwk.common.key_id, algorithms, key })
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.source.name())
    }
}
