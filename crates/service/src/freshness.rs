//! How long an answer stays true.
//!
//! The side that answers says what it knows; the side that keeps the answer acts on it. A
//! [`Validator`] names the content, so it is equal on every host and after a restart; a
//! [`Lifetime`] bounds it by time; a [`Staleness`] tells when it ends early. The memo graph, a live
//! connection and an HTTP upstream implement [`Staleness`] each in their own way, and none needs to
//! know another. An answer that is built from others is as fresh as the least fresh of them:
//! [`Freshness::and`].

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;

use crate::{CachedBody, StaleSet, StaleSetEntry, Tokens};

/// How long an answer stays true. The default says that nothing is known, and takes no room.
///
/// A handler says for how long its answer is right; an answer that combines several is as fresh as
/// the least fresh of them:
///
/// ```
/// # mod tidewire { pub mod service { pub use tidewire_service::*; } }
/// use std::time::Duration;
/// use tidewire::service::{Freshness, Lifetime};
///
/// let rates = Freshness::lasting(Duration::from_secs(60));
/// let countries = Freshness::immutable();
/// assert_eq!(rates.and(countries).lifetime(), Lifetime::For(Duration::from_secs(60)));
/// ```
#[derive(Clone, Default)]
pub struct Freshness(FreshnessKind);

#[derive(Clone, Default)]
enum FreshnessKind {
    #[default]
    Nothing,
    /// What who keeps the answer knows, and nothing beside it.
    Cached(CachedVersion),
    Detailed(Box<Details>),
}

/// A version of an answer that is kept; what tells of its end is made when somebody asks.
#[derive(Clone)]
struct CachedVersion {
    keeper: Arc<dyn CachedBody>,
    version: u64,
    staleness: OnceLock<Arc<dyn Staleness>>,
}

#[derive(Clone, Default)]
struct Details {
    validator: Option<Validator>,
    lifetime: Lifetime,
    age: Duration,
    staleness: Option<Arc<dyn Staleness>>,
    tokens: Tokens,
    kept: Option<CachedVersion>,
}

/// Names the content of a reply: a 128-bit hash of its bytes in its codec.
///
/// Equal bytes have equal validators on any host. Equal content in unequal bytes costs sending it
/// again, never a stale answer. As text it is 32 hexadecimal digits, which is the `ETag` of HTTP.
///
/// ```
/// # mod tidewire { pub mod service { pub use tidewire_service::*; } }
/// use tidewire::service::Validator;
///
/// let validator = Validator::new([0xab; 16]);
/// let etag = validator.to_string();
/// assert_eq!(etag.len(), 32);
/// assert_eq!(etag.parse(), Ok(validator));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Validator([u8; 16]);

/// A bound by time on how long an answer may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Lifetime {
    /// Nothing was said: keep it only as long as its [`Staleness`] says that it is fresh.
    #[default]
    Unknown,
    /// For this long from when it was computed.
    For(Duration),
    /// For ever: the answer to this request never changes.
    Immutable,
}

/// Tells when an answer stops being true. Once stale, it stays stale.
///
/// Ends when a program says so:
///
/// ```
/// # mod tidewire { pub mod service { pub use tidewire_service::*; } }
/// use std::sync::Arc;
/// use std::task::{Context, Poll};
/// use tidewire::service::{Freshness, Signal, Staleness};
///
/// struct Until(Signal);
///
/// impl Staleness for Until {
///     fn is_stale(&self) -> bool {
///         self.0.has_fired()
///     }
///
///     fn poll_stale(&self, cx: &mut Context<'_>) -> Poll<()> {
///         self.0.poll_fired(cx)
///     }
/// }
///
/// let changed = Signal::new();
/// let freshness = Freshness::tracked(Arc::new(Until(changed.clone())));
/// assert!(!freshness.is_stale());
/// changed.fire();
/// assert!(freshness.is_stale());
/// ```
pub trait Staleness: Send + Sync + 'static {
    /// Whether the answer is stale by now.
    fn is_stale(&self) -> bool;

    /// Ready once the answer is stale; otherwise the task is woken when it becomes so.
    ///
    /// Several tasks may wait at once.
    fn poll_stale(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Joins the answers of one owner, who waits for all of them at once: see [`StaleSet::add`],
    /// which is what the owner calls. None where it can be waited for by
    /// [`poll_stale`](Self::poll_stale) only.
    fn join(&self, set: &mut StaleSet, number: u32) -> Option<Box<dyn StaleSetEntry>> {
        let _ = (set, number);
        None
    }
}

impl Freshness {
    /// An answer that ends when `staleness` says so.
    pub fn tracked(staleness: Arc<dyn Staleness>) -> Self {
        Self::default().with_staleness(staleness)
    }

    /// A version of an answer that somebody keeps.
    pub fn cached(keeper: Arc<dyn CachedBody>, version: u64) -> Self {
        Self(FreshnessKind::Cached(CachedVersion { keeper, version, staleness: OnceLock::new() }))
    }

    /// An answer that may be kept for this long from when it was computed.
    pub fn lasting(duration: Duration) -> Self {
        Self::default().with_lifetime(Lifetime::For(duration))
    }

    /// An answer that never changes.
    pub fn immutable() -> Self {
        Self::default().with_lifetime(Lifetime::Immutable)
    }

    /// Sets what names the content.
    #[must_use]
    pub fn with_validator(mut self, validator: impl Into<Option<Validator>>) -> Self {
        let validator = validator.into();
        if validator != self.validator() {
            self.details_mut().validator = validator;
        }
        self
    }

    /// Sets the bound by time.
    #[must_use]
    pub fn with_lifetime(mut self, lifetime: Lifetime) -> Self {
        self.details_mut().lifetime = lifetime;
        self
    }

    /// Sets how long ago the answer was computed.
    #[must_use]
    pub fn with_age(mut self, age: Duration) -> Self {
        self.details_mut().age = age;
        self
    }

    /// Sets what tells of an early end.
    #[must_use]
    pub fn with_staleness(mut self, staleness: Arc<dyn Staleness>) -> Self {
        self.details_mut().staleness = Some(staleness);
        self
    }

    /// Adds the tokens of consistency that the answer includes.
    #[must_use]
    pub fn with_tokens(mut self, tokens: &Tokens) -> Self {
        if !tokens.is_empty() {
            self.details_mut().tokens.merge(tokens);
        }
        self
    }

    /// What names the content.
    pub fn validator(&self) -> Option<Validator> {
        match &self.0 {
            FreshnessKind::Nothing => None,
            FreshnessKind::Cached(kept) => kept.keeper.validator(),
            FreshnessKind::Detailed(known) => known.validator,
        }
    }

    /// The bound by time.
    pub fn lifetime(&self) -> Lifetime {
        self.as_known().map_or(Lifetime::Unknown, |known| known.lifetime)
    }

    /// How long ago the answer was computed.
    pub fn age(&self) -> Duration {
        self.as_known().map_or(Duration::ZERO, |known| known.age)
    }

    /// What tells of an early end.
    pub fn staleness(&self) -> Option<&Arc<dyn Staleness>> {
        match (self.as_kept(), self.as_known()) {
            (_, Some(Details { staleness: Some(staleness), .. })) => Some(staleness),
            (Some(kept), _) => {
                Some(kept.staleness.get_or_init(|| kept.keeper.staleness(kept.version)))
            }
            (None, _) => None,
        }
    }

    /// The tokens of consistency that the answer includes.
    pub fn tokens(&self) -> &Tokens {
        static NONE: Tokens = Tokens::NONE;
        self.as_known().map_or(&NONE, |known| &known.tokens)
    }

    /// Who keeps the answer, if `body` is the one that is kept: for other forms of it.
    pub fn keeper(&self, body: &Bytes) -> Option<&Arc<dyn CachedBody>> {
        let keeper = &self.as_kept()?.keeper;
        let kept = keeper.body();
        (std::ptr::eq(kept.as_ptr(), body.as_ptr()) && kept.len() == body.len()).then_some(keeper)
    }

    /// Who keeps the answer, and which version of it this is.
    pub fn cached_version(&self) -> Option<(&Arc<dyn CachedBody>, u64)> {
        self.as_kept().map(|kept| (&kept.keeper, kept.version))
    }

    /// Whether anything is known that would allow keeping the answer.
    pub fn is_known(&self) -> bool {
        let told = self.as_known().is_some_and(|known| known.staleness.is_some());
        told || self.as_kept().is_some() || self.lifetime() != Lifetime::Unknown
    }

    /// Whether the answer is known to be stale by now. Time is not looked at.
    pub fn is_stale(&self) -> bool {
        match &self.0 {
            FreshnessKind::Cached(kept) => kept.keeper.is_stale(kept.version),
            _ => self.staleness().is_some_and(|staleness| staleness.is_stale()),
        }
    }

    /// Whether its lifetime was over already when it was given: nobody says that it is still right.
    pub fn is_over(&self) -> bool {
        matches!(self.lifetime(), Lifetime::For(life) if self.age() >= life)
    }

    /// The freshness of an answer that is built from two: the earlier end of both, the staleness of
    /// either, the tokens of both, and no validator. If nothing is known of one, nothing is known
    /// of the whole but its tokens.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let tokens = self.tokens().clone().and(other.tokens());
        let whole = if self.is_known() && other.is_known() {
            let lifetime = earlier(&self, &other);
            let mut whole = Self::default().with_lifetime(lifetime);
            whole.details_mut().staleness = match (self.staleness(), other.staleness()) {
                (Some(one), Some(two)) if Arc::ptr_eq(one, two) => Some(Arc::clone(one)),
                (Some(one), Some(two)) => {
                    Some(Arc::new(FirstStale(Arc::clone(one), Arc::clone(two))))
                }
                (one, two) => one.or(two).cloned(),
            };
            whole
        } else {
            Self::default()
        };
        whole.with_tokens(&tokens)
    }

    fn as_known(&self) -> Option<&Details> {
        match &self.0 {
            FreshnessKind::Detailed(known) => Some(known),
            _ => None,
        }
    }

    fn as_kept(&self) -> Option<&CachedVersion> {
        match &self.0 {
            FreshnessKind::Nothing => None,
            FreshnessKind::Cached(kept) => Some(kept),
            FreshnessKind::Detailed(known) => known.kept.as_ref(),
        }
    }

    fn details_mut(&mut self) -> &mut Details {
        let known = match std::mem::take(&mut self.0) {
            FreshnessKind::Nothing => Box::default(),
            FreshnessKind::Cached(kept) => Box::new(Details {
                validator: kept.keeper.validator(),
                kept: Some(kept),
                ..Details::default()
            }),
            FreshnessKind::Detailed(known) => known,
        };
        self.0 = FreshnessKind::Detailed(known);
        match &mut self.0 {
            FreshnessKind::Detailed(known) => known,
            _ => unreachable!("it was just set"),
        }
    }
}

/// The lifetime that ends first, counted from now; one that is bounded by its staleness only never
/// ends by time.
fn earlier(one: &Freshness, two: &Freshness) -> Lifetime {
    let left = |freshness: &Freshness| match freshness.lifetime() {
        Lifetime::For(duration) => Some(duration.saturating_sub(freshness.age())),
        Lifetime::Unknown | Lifetime::Immutable => None,
    };
    match (left(one), left(two)) {
        (Some(one), Some(two)) => Lifetime::For(one.min(two)),
        (Some(left), None) | (None, Some(left)) => Lifetime::For(left),
        (None, None) if one.lifetime() == two.lifetime() => one.lifetime(),
        (None, None) => Lifetime::Unknown,
    }
}

/// Stale once one of two is.
struct FirstStale(Arc<dyn Staleness>, Arc<dyn Staleness>);

impl Staleness for FirstStale {
    fn is_stale(&self) -> bool {
        self.0.is_stale() || self.1.is_stale()
    }

    fn poll_stale(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self.0.poll_stale(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => self.1.poll_stale(cx),
        }
    }

    fn join(&self, set: &mut StaleSet, number: u32) -> Option<Box<dyn StaleSetEntry>> {
        Some(Box::new([&self.0, &self.1].map(|part| set.add(number, part))))
    }
}

/// Stale once either is.
impl StaleSetEntry for [Box<dyn StaleSetEntry>; 2] {
    fn is_stale(&self) -> bool {
        self.iter().any(|part| part.is_stale())
    }
}

impl Validator {
    /// The validator with these bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// Its text, in ASCII.
    pub fn digits(self) -> [u8; 32] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [0; 32];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        digits
    }
}

impl fmt::Display for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.digits()))
    }
}

/// The text is not a validator: it is not 32 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAValidator;

impl FromStr for Validator {
    type Err = NotAValidator;

    fn from_str(text: &str) -> Result<Self, NotAValidator> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 32 || !text.bytes().all(is_digit) {
            return Err(NotAValidator);
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| NotAValidator)?;
        Ok(Self(number.to_be_bytes()))
    }
}

impl fmt::Display for NotAValidator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a validator is 32 lower-case hexadecimal digits")
    }
}

impl std::error::Error for NotAValidator {}

impl fmt::Debug for Freshness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Freshness")
            .field("validator", &self.validator())
            .field("lifetime", &self.lifetime())
            .field("age", &self.age())
            .field("stale", &self.staleness().map(|staleness| staleness.is_stale()))
            .field("tokens", self.tokens())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Signal, Token};

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_answer_built_from_two_ends_with_the_first_of_them() {
        let lasting =
            |seconds: u32, age: u32| Freshness::lasting(SECOND * seconds).with_age(SECOND * age);
        let tracked = || Freshness::tracked(Arc::new(Signal::new()));
        for (one, two, lifetime) in [
            (lasting(10, 0), lasting(7, 0), Lifetime::For(SECOND * 7)),
            (lasting(10, 6), lasting(7, 0), Lifetime::For(SECOND * 4)),
            (lasting(3, 9), lasting(7, 0), Lifetime::For(Duration::ZERO)),
            (lasting(10, 0), Freshness::immutable(), Lifetime::For(SECOND * 10)),
            (Freshness::immutable(), Freshness::immutable(), Lifetime::Immutable),
            (Freshness::immutable(), tracked(), Lifetime::Unknown),
            (lasting(10, 0), tracked(), Lifetime::For(SECOND * 10)),
            (tracked(), tracked(), Lifetime::Unknown),
        ] {
            let what = format!("{one:?} and {two:?}");
            for whole in [one.clone().and(two.clone()), two.and(one)] {
                assert_eq!(whole.lifetime(), lifetime, "{what}");
                assert!(whole.is_known(), "{what}");
            }
        }
    }

    #[test]
    fn an_answer_built_from_one_of_which_nothing_is_known_may_not_be_kept() {
        for known in [Freshness::immutable(), Freshness::tracked(Arc::new(Signal::new()))] {
            assert!(!known.clone().and(Freshness::default()).is_known());
            assert!(!Freshness::default().and(known).is_known());
        }
    }

    #[test]
    fn an_answer_built_from_two_is_stale_with_either_and_has_no_validator() {
        for which in [0, 1] {
            let signals = [Signal::new(), Signal::new()];
            let parts = signals.clone().map(|signal| {
                Freshness::tracked(Arc::new(signal)).with_validator(Validator::new([7; 16]))
            });
            let [one, two] = parts;
            let whole = one.and(two);
            assert_eq!(whole.validator(), None);
            assert!(!whole.is_stale());
            signals[which].fire();
            assert!(whole.is_stale());
        }
    }

    #[test]
    fn tokens_are_kept_where_nothing_else_is_known() {
        let token = |text: &'static str| {
            let token = Token::new(text.as_bytes().to_vec()).expect("a short token");
            Tokens::from(token)
        };
        let one = Freshness::default().with_tokens(&token("a"));
        let whole = one.and(Freshness::immutable().with_tokens(&token("b")));
        let texts: Vec<_> = whole.tokens().iter().map(|token| token.bytes()).collect();
        assert_eq!(texts, [&b"a"[..], b"b"]);
    }

    #[test]
    fn a_validator_is_32_digits_and_nothing_else() {
        let validator = Validator::new([0xab; 16]);
        assert_eq!(validator.to_string().parse(), Ok(validator));
        let ascending = Validator::new(std::array::from_fn(|at| at as u8 * 17));
        assert_eq!(ascending.to_string(), "00112233445566778899aabbccddeeff");
        let plus = format!("+{}", &validator.to_string()[1..]);
        for text in ["", "ab", &plus, &validator.to_string().to_uppercase()] {
            assert_eq!(text.parse::<Validator>(), Err(NotAValidator), "{text}");
        }
    }
}
