//! API keys, of which only SHA-256 hashes are known.
//!
//! A key is a long random text, so that its hash needs no salt. The hash that a caller's key has is
//! found by a hash of it with a key of this process, and compared in constant time: how long that
//! takes says nothing of the hashes there are.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use http::HeaderName;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tidewire_service::{Error, Headers, Principal, Result};

/// API keys and whose they are.
///
/// ```
/// # mod tidewire {
/// #     pub use http;
/// #     pub mod auth { pub use tidewire_auth::*; }
/// #     pub use tidewire_service::*;
/// # }
/// use tidewire::http;
/// use tidewire::Principal;
/// use tidewire::auth::ApiKeys;
///
/// // printf secret | sha256sum
/// let sha256 = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
/// let robot = Principal::new("shop", "robot").with_scope("orders.read");
/// let keys = ApiKeys::new(http::HeaderName::from_static("x-api-key")).key(sha256, robot)?;
/// # Ok::<(), tidewire::auth::ApiKeyError>(())
/// ```
#[derive(Clone)]
pub struct ApiKeys {
    header: HeaderName,
    random: RandomState,
    known: HashMap<u64, Vec<StoredKey>>,
}

#[derive(Clone)]
struct StoredKey {
    sha256: [u8; 32],
    principal: Principal,
}

impl ApiKeys {
    /// No keys, which callers send in this header.
    pub fn new(header: HeaderName) -> Self {
        Self { header, random: RandomState::new(), known: HashMap::new() }
    }

    /// Adds a key by the SHA-256 of it in hexadecimal digits, as `sha256sum` prints it.
    ///
    /// # Errors
    /// When `sha256` is not that, or is there already.
    pub fn key(mut self, sha256: &str, principal: Principal) -> Result<Self, ApiKeyError> {
        let sha256 = parse(sha256).ok_or(ApiKeyError::NotAHash)?;
        let known = self.known.entry(self.random.hash_one(sha256)).or_default();
        if known.iter().any(|known| known.sha256 == sha256) {
            return Err(ApiKeyError::Twice);
        }
        known.push(StoredKey { sha256, principal });
        Ok(self)
    }

    /// Whose key these headers have; `None` without one.
    ///
    /// # Errors
    /// When there is a key that nobody has, or more than one.
    pub(crate) fn principal(&self, headers: &Headers) -> Result<Option<Principal>> {
        let mut values = headers.get_all(&self.header).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(Error::unauthenticated(format!("{} is sent twice", self.header)));
        }
        let sha256: [u8; 32] = Sha256::digest(value.as_bytes()).into();
        let known = self.known.get(&self.random.hash_one(sha256)).into_iter().flatten();
        let mut found = None;
        for known in known {
            if bool::from(known.sha256.ct_eq(&sha256)) {
                found = Some(&known.principal);
            }
        }
        match found {
            Some(principal) => Ok(Some(principal.clone())),
            None => Err(Error::unauthenticated(format!("the key in {} is not known", self.header))),
        }
    }
}

fn parse(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[index * 2..index * 2 + 2], 16).ok()?;
    }
    Some(bytes)
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKeys({})", self.header)
    }
}

/// A key that cannot be added.
///
/// ```
/// # mod tidewire {
/// #     pub use http;
/// #     pub mod auth { pub use tidewire_auth::*; }
/// #     pub use tidewire_service::*;
/// # }
/// use tidewire::http;
/// use tidewire::Principal;
/// use tidewire::auth::{ApiKeyError, ApiKeys};
///
/// let keys = ApiKeys::new(http::HeaderName::from_static("x-api-key"));
/// let error = keys.key("secret", Principal::new("shop", "robot")).err();
/// assert!(matches!(error, Some(ApiKeyError::NotAHash)), "the key itself is not configured");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiKeyError {
    /// It is not SHA-256 in hexadecimal digits.
    NotAHash,
    /// It is there already.
    Twice,
}

impl fmt::Display for ApiKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAHash => "write the SHA-256 of the key as 64 hexadecimal digits",
            Self::Twice => "the same key occurs twice",
        })
    }
}

impl std::error::Error for ApiKeyError {}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    /// What a hash looks like.
    const HASH: &str = "d14d2c4467f6f3f5c3a8a57f4e3c9d0e0d0b1e3c5e5a39df2d1ea1a7a1f0d2c4";

    fn hash(key: &str) -> String {
        Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn sent(values: &[&'static str]) -> Headers {
        let values = values.iter().map(|value| HeaderValue::from_static(value));
        values.map(|value| (HeaderName::from_static("x-api-key"), value)).collect()
    }

    #[test]
    fn a_key_says_whose_it_is_and_any_other_is_refused() {
        let ci = Principal::new("keys", "ci");
        let keys = ApiKeys::new(HeaderName::from_static("x-api-key"));
        let keys = keys.key(&hash("opensesame"), ci.clone()).unwrap();
        assert_eq!(keys.principal(&sent(&["opensesame"])).unwrap(), Some(ci));
        assert_eq!(keys.principal(&Headers::new()).unwrap(), None);
        for wrong in [&["opensesam"][..], &[""], &["opensesame", "opensesame"]] {
            let error = keys.principal(&sent(wrong)).unwrap_err();
            assert_eq!(error.code(), tidewire_service::Code::Unauthenticated);
            assert!(!error.message().contains("opens"), "{error}");
        }
    }

    #[test]
    fn what_is_no_hash_is_refused() {
        let keys = || ApiKeys::new(HeaderName::from_static("x-api-key"));
        let ci = || Principal::new("keys", "ci");
        for wrong in ["", "opensesame", &HASH[1..], &HASH.replace('d', "g")] {
            assert_eq!(keys().key(wrong, ci()).unwrap_err(), ApiKeyError::NotAHash);
        }
        let twice = keys().key(HASH, ci()).unwrap().key(&HASH.to_uppercase(), ci());
        assert_eq!(twice.unwrap_err(), ApiKeyError::Twice);
    }
}
