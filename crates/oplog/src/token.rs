//! What a writer hands to a reader on another host: answer from a state that includes this.
//!
//! A token is a lower bound: transactions of one incarnation, each exactly or with all below it. A
//! host whose position contains them goes on at once; any other polls the log once more, since
//! what was acknowledged before a poll began is in what the poll shows. So a token that is garbage,
//! foreign or too long costs a poll, never a wrong reply.
//!
//! ```text
//! version (1 byte) ‖ incarnation (8 bytes) ‖ up to 30 × transaction (8 bytes, big-endian; top bit: and all below)
//! ```
//! On the wire it is URL-safe base64 without padding: 12 to 332 characters.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::cursor::{Incarnation, Position};

/// Changes that a later read must show.
///
/// ```
/// # mod tidewire { pub mod oplog { pub use tidewire_oplog::*; } }
/// use tidewire::oplog::{Incarnation, Token};
///
/// let log = Incarnation([7; 16]);
/// let mut seen = Token::of(&log, 20);
/// seen.merge(&Token::of(&log, 30));
/// assert!(!seen.is_empty());
/// assert_eq!(Token::parse(&seen.to_string()), seen, "a caller gives it back as it was");
/// ```
#[derive(Clone, PartialEq, Eq, Default, Hash)]
pub struct Token {
    /// `None`: nothing is asked for, or what was asked for cannot be told.
    incarnation: Option<[u8; 8]>,
    /// Ascending, without repetition.
    transactions: Vec<u64>,
    /// This and all below.
    below: Option<u64>,
    /// It can only be met by polling the log once more.
    is_unclear: bool,
}

/// The request header that carries a token, and the response header that returns one.
pub const TOKEN_HEADER: &str = "tidewire-token";

impl Token {
    /// A token that asks for one transaction.
    #[must_use]
    pub fn of(incarnation: &Incarnation, xid: u64) -> Self {
        Self {
            incarnation: Some(incarnation.short()),
            transactions: vec![xid & !ALL_BELOW],
            ..Self::default()
        }
    }

    /// A token that only a new poll of the log meets.
    #[must_use]
    pub fn unclear() -> Self {
        Self { is_unclear: true, ..Self::default() }
    }

    /// Whether it asks for nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reads a token. Any other text asks for a poll of the log.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self::read(text).unwrap_or_else(Self::unclear)
    }

    fn read(text: &str) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (&version, rest) = bytes.split_first()?;
        let (incarnation, rest) = rest.split_at_checked(8)?;
        if version == UNCLEAR {
            return Some(Self::unclear());
        }
        let is_whole = rest.len().is_multiple_of(8) && !rest.is_empty();
        if version != VERSION || !is_whole || rest.len() / 8 > TRANSACTIONS_MAX {
            return None;
        }
        let mut token = Self { incarnation: incarnation.try_into().ok(), ..Self::default() };
        for part in rest.chunks_exact(8) {
            let number = u64::from_be_bytes(part.try_into().ok()?);
            match number & ALL_BELOW {
                0 => token.transactions.push(number),
                _ => token.below = token.below.max(Some(number & !ALL_BELOW)),
            }
        }
        token.settle();
        Some(token)
    }

    /// Asks for what either asks for.
    pub fn merge(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        if self.is_empty() {
            self.clone_from(other);
            return;
        }
        if self.is_unclear || other.is_unclear || self.incarnation != other.incarnation {
            *self = Self::unclear();
            return;
        }
        self.transactions.extend_from_slice(&other.transactions);
        self.below = self.below.max(other.below);
        self.settle();
    }

    /// Sorts, drops repetitions, and shortens what is too long to all below the last one.
    fn settle(&mut self) {
        self.transactions.sort_unstable();
        self.transactions.dedup();
        self.transactions.retain(|xid| self.below.is_none_or(|below| *xid > below));
        if self.transactions.len() + usize::from(self.below.is_some()) > TRANSACTIONS_MAX {
            self.below = self.below.max(self.transactions.pop());
            self.transactions.clear();
        }
    }

    /// Whether a host at this position has applied all that is asked for.
    #[must_use]
    pub fn is_met_by(&self, position: &Position) -> bool {
        if self.is_empty() {
            return true;
        }
        let snapshot = &position.snapshot;
        !self.is_unclear
            && self.incarnation == Some(position.incarnation.short())
            && self.below.is_none_or(|below| below < snapshot.xmin())
            && self.transactions.iter().all(|&xid| snapshot.contains(xid))
    }
}

/// Transaction and incarnation, by what `tidewire.mark()` returned.
pub(crate) fn parse_mark(mark: &str) -> Option<(Incarnation, u64)> {
    let (xid, incarnation) = mark.split_once(':')?;
    Some((Incarnation::parse(incarnation)?, xid.parse().ok()?))
}

impl fmt::Display for Token {
    /// The text for a header; empty when nothing is asked for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return Ok(());
        }
        let mut bytes = vec![if self.is_unclear { UNCLEAR } else { VERSION }];
        bytes.extend(self.incarnation.unwrap_or_default());
        let below = self.below.map(|xid| xid | ALL_BELOW);
        for number in below.iter().chain(&self.transactions) {
            bytes.extend(number.to_be_bytes());
        }
        f.write_str(&URL_SAFE_NO_PAD.encode(&bytes))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({self})")
    }
}

const VERSION: u8 = 1;
const UNCLEAR: u8 = 0;
const ALL_BELOW: u64 = 1 << 63;
const TRANSACTIONS_MAX: usize = 30;
const TEXT_BYTES_MAX: usize = (1 + 8 + 8 * TRANSACTIONS_MAX).div_ceil(3) * 4;

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Incarnation = Incarnation([7; 16]);

    fn position(snapshot: &str) -> Position {
        Position { incarnation: HERE, snapshot: snapshot.parse().unwrap() }
    }

    fn token(xids: impl IntoIterator<Item = u64>) -> Token {
        let mut token = Token::default();
        xids.into_iter().for_each(|xid| token.merge(&Token::of(&HERE, xid)));
        token
    }

    #[test]
    fn a_token_is_met_where_all_its_transactions_are_visible() {
        let here = position("10:20:10,14");
        for (xids, expected) in [
            (vec![9], true),
            (vec![10], false),
            (vec![11, 13], true),
            (vec![11, 14], false),
            (vec![20], false),
        ] {
            let token = token(xids);
            assert_eq!(token.is_met_by(&here), expected, "{token:?}");
            assert_eq!(Token::parse(&token.to_string()), token);
        }
    }

    #[test]
    fn thirty_one_transactions_become_one_bound() {
        let long = token(100..131);
        assert!(long.to_string().len() < 30);
        assert!(!long.is_met_by(&position("130:140:130,135")));
        assert!(long.is_met_by(&position("131:140:131")));
        let mut more = long;
        more.merge(&token([50, 200]));
        assert!(!more.is_met_by(&position("131:200:131")));
        assert!(more.is_met_by(&position("131:201:131")));
        assert_eq!(Token::parse(&more.to_string()), more);
        assert!(token(100..130).is_met_by(&position("99:140:99")));
    }

    #[test]
    fn garbage_foreign_and_future_tokens_are_never_met_by_a_position() {
        let here = position("10:20:");
        let foreign = Token::of(&Incarnation([8; 16]), 3);
        let mut mixed = foreign.clone();
        mixed.merge(&token([3]));
        for token in [foreign, mixed, token([1 << 62]), Token::unclear()] {
            assert!(!token.is_met_by(&here), "{token:?}");
            assert_eq!(Token::parse(&token.to_string()), token);
        }
        let long = "A".repeat(TEXT_BYTES_MAX + 1);
        for text in ["", "?", "AAAA", "é", "AQ", "AQ==", "AQcHBwcHBwcH", &long, "AQcHBwcHBwcHAAAA"]
        {
            assert_eq!(Token::parse(text), Token::unclear(), "{text}");
        }
    }

    #[test]
    fn a_token_that_asks_for_nothing_is_met_and_has_no_text() {
        assert!(Token::default().is_met_by(&position("3:3:")));
        assert_eq!(Token::default().to_string(), "");
    }
}
