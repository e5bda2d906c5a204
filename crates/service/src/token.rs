//! Tokens of consistency: which changes an answer includes, and which a caller has seen.
//!
//! A token is opaque here. Whoever answers a command may put one into the reply; whoever calls
//! sends along what it got, so that it never sees less than it has seen. An answer that is built
//! from others includes the tokens of all of them.

use std::fmt;

use bytes::Bytes;

/// The largest token in bytes.
const TOKEN_BYTES_MAX: usize = 256;

/// One token: at most 256 bytes that mean something to whoever made it.
///
/// ```
/// # mod tidewire { pub mod service { pub use tidewire_service::*; } }
/// use tidewire::service::Token;
///
/// assert!(Token::new("log 1: 4711").is_some());
/// assert!(Token::new("").is_none());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(Bytes);

/// Distinct tokens in the order of their bytes. Empty ones take no room.
///
/// A caller that read from one host and then asks another sends what it has seen:
///
/// ```
/// # mod tidewire { pub use tidewire_service::*; pub mod service { pub use tidewire_service::*; } }
/// use tidewire::Context;
/// use tidewire::service::{Token, Tokens};
///
/// let seen = Tokens::from(Token::new("log 1: 4711").expect("1 to 256 bytes"));
/// let mut context = Context::default();
/// context.add_tokens(&seen);
/// context.add_tokens(&seen);
/// assert_eq!(context.tokens().iter().count(), 1);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokens(Vec<Token>);

impl Token {
    /// A token of these bytes; `None` when they are empty or more than 256.
    pub fn new(bytes: impl Into<Bytes>) -> Option<Self> {
        let bytes = bytes.into();
        (1..=TOKEN_BYTES_MAX).contains(&bytes.len()).then_some(Self(bytes))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Tokens {
    pub(crate) const NONE: Self = Self(Vec::new());

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each token, once.
    pub fn iter(&self) -> impl Iterator<Item = &Token> {
        self.0.iter()
    }

    /// The tokens of both.
    #[must_use]
    pub fn and(mut self, others: &Self) -> Self {
        self.merge(others);
        self
    }

    /// Adds those of `others` that are not there yet.
    pub fn merge(&mut self, others: &Self) {
        for token in &others.0 {
            if let Err(place) = self.0.binary_search(token) {
                self.0.insert(place, token.clone());
            }
        }
    }
}

impl From<Token> for Tokens {
    fn from(token: Token) -> Self {
        Self(vec![token])
    }
}

impl FromIterator<Token> for Tokens {
    fn from_iter<I: IntoIterator<Item = Token>>(tokens: I) -> Self {
        let mut tokens: Vec<_> = tokens.into_iter().collect();
        tokens.sort_unstable();
        tokens.dedup();
        Self(tokens)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({} bytes)", self.0.len())
    }
}
