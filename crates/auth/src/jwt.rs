//! Bearer tokens that an issuer signed (JWT, RFC 7519): what is asked of one, and whose it is.
//!
//! | refused | since |
//! |---|---|
//! | `alg: none`, HMAC | only signatures by public keys are known (RFC 8725, section 3.1) |
//! | an algorithm that its key is not for | a key says what it is for, a token does not |
//! | `crit` in its head | nothing that it could name is understood here (RFC 7515, section 4.1.11) |
//! | another issuer or audience, or none | it was made for somebody else |
//! | `exp` in the past or missing, `nbf` in the future | by more than [`TokenRequirements::leeway`] |
//! | no `sub` | it says nothing of whoever calls |

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Validation, decode, decode_header};
use serde_json::{Map, Value};
use tidewire_service::{Error, Principal};

use crate::keys::{FetchReason, FetchedKeys, Key, Keys};
use crate::verified_tokens::VerifiedTokens;

/// What a token has to say.
///
/// ```
/// # mod tidewire { pub mod auth { pub use tidewire_auth::*; } pub use tidewire_service::*; }
/// use std::time::Duration;
/// use tidewire::auth::TokenRequirements;
///
/// let wanted = TokenRequirements::new("https://id.example", "shop").leeway(Duration::from_secs(5));
/// assert_eq!(wanted.audience, "shop");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenRequirements {
    /// Who made it: its `iss`.
    pub issuer: String,
    /// For whom: one of its `aud`.
    pub audience: String,
    /// How far the clock of the issuer may be off; 30 s unless said otherwise.
    pub leeway: Duration,
}

impl TokenRequirements {
    /// Tokens of `issuer` for `audience`.
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>) -> Self {
        let issuer = issuer.into();
        let audience = audience.into();
        Self { issuer, audience, leeway: Duration::from_secs(30) }
    }

    /// Sets how far the clock of the issuer may be off.
    #[must_use]
    pub fn leeway(mut self, leeway: Duration) -> Self {
        self.leeway = leeway;
        self
    }
}

/// Verifies the tokens of an issuer.
#[derive(Debug)]
pub struct Issuer {
    pub(crate) expected: TokenRequirements,
    pub(crate) keys: Keys,
    pub(crate) verified: VerifiedTokens,
}

impl Issuer {
    /// An issuer whose tokens have to say this, and are signed by one of these keys.
    pub fn new(expected: TokenRequirements, keys: Keys) -> Self {
        crate::crypto::install();
        Self { expected, keys, verified: VerifiedTokens::new() }
    }

    /// Whose a token is, by keys that are fetched where they are due; what is found out is
    /// remembered.
    ///
    /// # Errors
    /// The token is refused; or there are no keys, and none can be had now.
    pub(crate) async fn verify(
        &self,
        token: &[u8],
        now: SystemTime,
    ) -> Result<Principal, VerifyError> {
        if self.keys.is_due(now) {
            self.keys.fetch(FetchReason::Any, now).await.map_err(VerifyError::NoKeys)?;
        }
        let mut known = self.keys.current();
        let mut outcome = verify(token, &known, &self.expected, now);
        // Also where it may not be fetched: somebody may be at it.
        if outcome == Err(TokenRefusal::UnknownKey) {
            self.keys.fetch(FetchReason::Another, now).await.map_err(VerifyError::NoKeys)?;
            known = self.keys.current();
            outcome = verify(token, &known, &self.expected, now);
        }
        let (principal, expires) = outcome.map_err(VerifyError::Refused)?;
        self.verified.keep(token, principal.clone(), known.generation, now, expires);
        Ok(principal)
    }
}

/// Why it is not known whose a token is.
#[derive(Debug)]
pub(crate) enum VerifyError {
    Refused(TokenRefusal),
    NoKeys(Error),
}

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenRefusal {
    Malformed,
    Algorithm,
    UnknownKey,
    Signature,
    Issuer,
    Audience,
    Expired,
    TooEarly,
    NoSubject,
}

impl TokenRefusal {
    /// What the caller is told.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Malformed => {
                "not a valid signed JWT (expected three parts separated by dots, with claims of the right types)"
            }
            Self::Algorithm => "it is signed in a way that is not allowed",
            Self::UnknownKey => "it is signed with a key that the issuer does not publish",
            Self::Signature => "its signature is wrong",
            Self::Issuer => "it is of another issuer",
            Self::Audience => "it is for another audience",
            Self::Expired => "it expired",
            Self::TooEarly => "it is not valid yet",
            Self::NoSubject => "it does not say whose it is",
        }
    }
}

/// Whose token this is, and until when it is good.
pub(crate) fn verify(
    token: &[u8],
    keys: &FetchedKeys,
    expected: &TokenRequirements,
    now: SystemTime,
) -> Result<(Principal, SystemTime), TokenRefusal> {
    let head = decode_header(token).map_err(|error| refusal(error.kind()))?;
    if head.crit.is_some() {
        return Err(TokenRefusal::Malformed);
    }
    let mut validation = Validation::new(head.alg);
    validation.set_issuer(&[&expected.issuer]);
    validation.set_audience(&[&expected.audience]);
    // Those that are times are looked at below, against the time that is given.
    validation.set_required_spec_claims(&["iss", "aud"]);
    (validation.validate_exp, validation.validate_nbf) = (false, false);
    let of_token: Vec<&Key> = keys.by_id(head.kid.as_deref()).collect();
    if of_token.is_empty() {
        return Err(TokenRefusal::UnknownKey);
    }
    let mut last = TokenRefusal::Algorithm;
    for key in of_token.iter().filter(|key| key.algorithms.contains(&head.alg)) {
        match decode::<Map<String, Value>>(token, &key.key, &validation) {
            Ok(token) => return find_key(token.claims, expected, now),
            Err(error) => last = refusal(error.kind()),
        }
        if last != TokenRefusal::Signature {
            break;
        }
    }
    Err(last)
}

/// The principal of claims that are the issuer's.
fn find_key(
    mut claims: Map<String, Value>,
    expected: &TokenRequirements,
    now: SystemTime,
) -> Result<(Principal, SystemTime), TokenRefusal> {
    // A list with it in it is none (RFC 7519, section 4.1.1).
    if claims.get("iss").and_then(Value::as_str) != Some(&*expected.issuer) {
        return Err(TokenRefusal::Issuer);
    }
    let expires = time(&claims, "exp")?.ok_or(TokenRefusal::Expired)?;
    let expires = expires.checked_add(expected.leeway).unwrap_or(Duration::MAX);
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    if expires <= since {
        return Err(TokenRefusal::Expired);
    }
    if let Some(begins) = time(&claims, "nbf")?
        && begins > since.saturating_add(expected.leeway)
    {
        return Err(TokenRefusal::TooEarly);
    }
    let subject = match claims.remove("sub") {
        Some(Value::String(subject)) if !subject.is_empty() => subject,
        _ => return Err(TokenRefusal::NoSubject),
    };
    let mut principal = Principal::new(expected.issuer.clone(), subject);
    for scope in scopes(&claims) {
        principal = principal.with_scope(scope);
    }
    for (name, value) in claims.into_iter().filter(|(name, _)| !OF_THE_TOKEN.contains(&&**name)) {
        principal = principal.with_claim(name, value);
    }
    let until = UNIX_EPOCH.checked_add(expires).unwrap_or(now + Duration::from_secs(3600));
    Ok((principal, until))
}

/// Claims that speak of the token and not of its subject, or are told otherwise.
const OF_THE_TOKEN: [&str; 7] = ["iss", "exp", "nbf", "iat", "jti", "scope", "scp"];

/// A time of a claim, from 1970 on.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<Duration>, TokenRefusal> {
    match claims.get(name) {
        None => Ok(None),
        Some(value) => match value.as_f64().map(Duration::try_from_secs_f64) {
            Some(Ok(time)) => Ok(Some(time)),
            _ => Err(TokenRefusal::Malformed),
        },
    }
}

/// `scope` is a text with spaces (RFC 8693, section 4.2); some issuers have a list, or `scp`.
fn scopes(claims: &Map<String, Value>) -> Vec<String> {
    let values = ["scope", "scp"].iter().filter_map(|name| claims.get(*name));
    let mut found = Vec::new();
    for value in values {
        match value {
            Value::String(text) => found.extend(text.split_whitespace().map(str::to_owned)),
            Value::Array(texts) => {
                found.extend(texts.iter().filter_map(Value::as_str).map(str::to_owned));
            }
            _ => {}
        }
    }
    found
}

fn refusal(kind: &ErrorKind) -> TokenRefusal {
    match kind {
        ErrorKind::InvalidSignature => TokenRefusal::Signature,
        ErrorKind::InvalidIssuer => TokenRefusal::Issuer,
        ErrorKind::InvalidAudience => TokenRefusal::Audience,
        ErrorKind::MissingRequiredClaim(name) => match &**name {
            "iss" => TokenRefusal::Issuer,
            _ => TokenRefusal::Audience,
        },
        ErrorKind::InvalidAlgorithm
        | ErrorKind::UnsupportedAlgorithm
        | ErrorKind::InvalidAlgorithmName
        | ErrorKind::InvalidKeyFormat => TokenRefusal::Algorithm,
        _ => TokenRefusal::Malformed,
    }
}
