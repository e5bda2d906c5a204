//! The public keys of an issuer (JWKS, RFC 7517): fetched when they are needed, and rotated.
//!
//! | when | the keys are fetched |
//! |---|---|
//! | none were yet, or they are lost | now, and calls wait for it |
//! | they are older than `refresh` | now; calls go on with those there are |
//! | the same, and no call came for 5 s more than that, or twice `refresh` | now; calls wait for it, until a second after the first |
//! | a token names one that is not there | now, and its call waits; for that no more often than once in `retry` |
//! | fetching fails, or what comes is not a set | those there are stay, up to ten times `refresh` and at least a minute; again after `retry`, or `refresh` where that is less |
//!
//! A set that can be read is the issuer's word: one without a key that can verify takes the others
//! away.
//!
//! One task fetches for all. It has the time that its source takes, and not that of a caller: a
//! caller that gives up ends its own waiting, and a failure is remembered. Dropping the keys ends
//! the task. Other keys than before are a new generation, and what was verified by an older one is
//! verified again.

use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::Value;
use tidewire_service::{Error, Result};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Where the keys of an issuer are.
pub trait KeySource: Send + Sync + 'static {
    /// The set of keys, as JSON.
    fn fetch(&self) -> Pin<Box<dyn Future<Output = Result<Bytes>> + Send + '_>>;

    /// What it is called in the log and in errors: a path or an address.
    fn name(&self) -> String;
}

/// The keys of an issuer.
pub struct Keys {
    source: Arc<dyn KeySource>,
    refresh: Duration,
    retry: Duration,
    state: Arc<Mutex<State>>,
    fetching: Mutex<Option<FetchTask>>,
}

/// The task that fetches.
struct FetchTask {
    task: AbortHandle,
    since: Instant,
    /// No call came for long before.
    is_after_pause: bool,
    /// Closed once it is over.
    over: watch::Receiver<()>,
}

impl Drop for FetchTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct State {
    known: Arc<FetchedKeys>,
    fetched: Option<SystemTime>,
    tried: Option<SystemTime>,
    /// When a call last asked for them.
    asked: Option<SystemTime>,
    /// When a key was last looked for that was not there.
    missed: Option<SystemTime>,
    /// What was said last of why they cannot be fetched, and whether they were lost.
    complaint: Option<(String, bool)>,
}

/// The keys as they were fetched; the first are generation 1.
#[derive(Default)]
pub(crate) struct FetchedKeys {
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
        let refresh = Duration::from_secs(300);
        let retry = Duration::from_secs(10);
        let known = Arc::default();
        let state =
            State { known, fetched: None, tried: None, asked: None, missed: None, complaint: None };
        Self {
            source: Arc::new(source),
            refresh,
            retry,
            state: Arc::new(Mutex::new(state)),
            fetching: Mutex::new(None),
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
    pub(crate) fn current(&self) -> Arc<FetchedKeys> {
        Arc::clone(&self.state().known)
    }

    /// Whether a call has to wait for them: there are none, or no call came for so long that they
    /// say nothing of now. Those that are due are fetched meanwhile, which calls that come one
    /// after the other do not wait for, however old the keys are and however often that fails.
    pub(crate) fn is_due(&self, now: SystemTime) -> bool {
        let is_after_pause = self.ends_pause(now);
        if self.are_lost(now) {
            return true;
        }
        if self.may_be_fetched(FetchReason::Any, now) {
            self.start(FetchReason::Any, now, is_after_pause);
        }
        self.is_awaited()
    }

    /// Whether they are being fetched since a moment ago, by the first call after a pause.
    fn is_awaited(&self) -> bool {
        let fetching = self.fetching.lock();
        let running = fetching.as_ref().filter(|it| it.over.has_changed().is_ok());
        running.is_some_and(|it| it.is_after_pause && it.since.elapsed() < PAUSE_WAIT)
    }

    /// Notes that a call asks; whether none did for so long that it waits a moment for newer keys.
    fn ends_pause(&self, now: SystemTime) -> bool {
        let pause = self.refresh.saturating_add(self.refresh.min(PAUSE_AFTER));
        let asked = self.state().asked.replace(now);
        asked.is_some_and(|since| now.duration_since(since).is_ok_and(|passed| passed >= pause))
    }

    /// Whether there are none: they never were fetched, or not for so long that nobody knows of
    /// them.
    fn are_lost(&self, now: SystemTime) -> bool {
        self.state().are_lost(self.lifetime(), now)
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

    /// Waits until they are fetched, where a call has to: there are none, or not the one that is
    /// named.
    ///
    /// # Errors
    /// When there are none, and they cannot be fetched.
    ///
    /// # Cancel safety
    /// The fetching goes on for those who come next.
    pub(crate) async fn fetch(&self, wanted: FetchReason, now: SystemTime) -> Result<()> {
        let goes_on = wanted == FetchReason::Any && !self.are_lost(now);
        if let Some((mut over, since)) = self.start(wanted, now, false) {
            // Closed when it is over; nothing is ever sent.
            match goes_on {
                false => drop(over.changed().await),
                true => drop(tokio::time::timeout_at(since + PAUSE_WAIT, over.changed()).await),
            }
        }
        self.usable(now)
    }

    /// The task that fetches them: the one there is, or a new one where they may be fetched now.
    fn start(
        &self,
        wanted: FetchReason,
        now: SystemTime,
        is_after_pause: bool,
    ) -> Option<(watch::Receiver<()>, Instant)> {
        let mut fetching = self.fetching.lock();
        if let Some(running) = fetching.as_ref().filter(|it| it.over.has_changed().is_ok()) {
            return Some((running.over.clone(), running.since));
        }
        if !self.may_be_fetched(wanted, now) {
            return None;
        }
        let (running, over) = watch::channel(());
        let source = Arc::clone(&self.source);
        let state = Arc::clone(&self.state);
        let kept = self.lifetime();
        let task = tokio::spawn(async move {
            let fetched = source.fetch().await;
            let before = Arc::clone(&lock(&state).known);
            let fetched = fetched.and_then(|text| parse(text, &before, &*source));
            note(&state, wanted, now, fetched, kept, &*source);
            drop(running);
        });
        let since = Instant::now();
        let task = task.abort_handle();
        *fetching = Some(FetchTask { task, since, is_after_pause, over: over.clone() });
        Some((over, since))
    }

    /// How long keys are kept that cannot be fetched again.
    fn lifetime(&self) -> Duration {
        self.refresh.saturating_mul(10).max(KEPT_MIN)
    }

    fn usable(&self, now: SystemTime) -> Result<()> {
        match self.are_lost(now) {
            true => Err(Error::unavailable("the keys of the issuer of tokens cannot be had now")),
            false => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Whether there are no keys: never fetched, or not for so long that nobody knows of them.
    fn are_lost(&self, kept: Duration, now: SystemTime) -> bool {
        let is_over = |since| now.duration_since(since).is_ok_and(|passed| passed >= kept);
        self.fetched.is_none_or(is_over)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock()
}

/// Notes what fetching came to; a complaint is logged once.
fn note(
    state: &Mutex<State>,
    wanted: FetchReason,
    now: SystemTime,
    fetched: Result<Arc<FetchedKeys>>,
    kept: Duration,
    source: &dyn KeySource,
) {
    let mut state = lock(state);
    state.tried = Some(now);
    if wanted == FetchReason::Another {
        state.missed = Some(now);
    }
    let error = match fetched {
        Ok(known) => {
            state.known = known;
            state.fetched = Some(now);
            state.complaint = None;
            return;
        }
        Err(error) => error,
    };
    let are_lost = state.are_lost(kept, now);
    let complaint = Some((error.to_string(), are_lost));
    if std::mem::replace(&mut state.complaint, complaint.clone()) == complaint {
        return;
    }
    drop(state);
    let source = source.name();
    match are_lost {
        true => {
            tracing::error!(source, %error, "keys of an issuer cannot be fetched: no token is verified");
        }
        false => tracing::warn!(source, %error, "keys of an issuer cannot be fetched"),
    }
}

/// The keys of a set; those there are where it is the same.
fn parse(
    text: Bytes,
    before: &Arc<FetchedKeys>,
    source: &dyn KeySource,
) -> Result<Arc<FetchedKeys>> {
    if before.generation > 0 && before.text == text {
        return Ok(Arc::clone(before));
    }
    let keys = keys(&text).ok_or_else(|| Error::unavailable("they are not a set of keys"))?;
    if keys.is_empty() {
        let source = source.name();
        tracing::warn!(source, "none of the keys of an issuer can verify a token: all are refused");
    }
    Ok(Arc::new(FetchedKeys { generation: before.generation + 1, text, keys }))
}

impl FetchedKeys {
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

/// How much longer than `refresh` no call came, or twice as long where that is less, before calls
/// wait for the next keys: a service that is called has newer ones, or its issuer cannot be asked.
const PAUSE_AFTER: Duration = Duration::from_secs(5);

/// How long they wait.
const PAUSE_WAIT: Duration = Duration::from_secs(1);

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
