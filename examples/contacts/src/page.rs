//! Where a page of contacts begins: sizes, and tokens that say nothing to whoever holds one.
//!
//! A token is the id that the page before ended with, and a check by which one that was cut off,
//! mistyped or made up is told from ours. It is not a secret and guards nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tidewire::{Error, Result};

/// The number of contacts that a page has, by the one that was asked for.
///
/// # Errors
/// `INVALID_ARGUMENT` for a negative one.
pub(crate) fn size(asked: i32) -> Result<u32> {
    match u32::try_from(asked) {
        Ok(0) => Ok(SIZE_DEFAULT),
        Ok(asked) => Ok(asked.min(SIZE_MAX)),
        Err(_) => Err(Error::invalid_argument(format!(
            "field page_size is {asked}; give 1 to {SIZE_MAX}, or 0 for {SIZE_DEFAULT}"
        ))),
    }
}

/// The token for the page after the contact with this id.
pub(crate) fn token_after(id: i32) -> String {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&id.to_be_bytes());
    bytes[4..].copy_from_slice(&check(id).to_be_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The id that a token is for: that of the contact before the page.
///
/// # Errors
/// `INVALID_ARGUMENT` for what is not a token of ours.
pub(crate) fn after(token: &str) -> Result<i32> {
    if token.is_empty() {
        return Ok(i32::MIN);
    }
    let read = || -> Option<i32> {
        let bytes: [u8; 8] = URL_SAFE_NO_PAD.decode(token).ok()?.try_into().ok()?;
        let (id, checked) = bytes.split_at(4);
        let id = i32::from_be_bytes(id.try_into().ok()?);
        (checked == check(id).to_be_bytes()).then_some(id)
    };
    read().ok_or_else(|| {
        Error::invalid_argument(
            "field page_token was not issued by this service; send next_page_token of the page \
             before as it was, or leave it out to begin anew",
        )
    })
}

/// FNV-1a over a mark of this kind of token and the id.
fn check(id: i32) -> u32 {
    let bytes = b"contacts by id, 1".iter().chain(&id.to_be_bytes()).copied().collect::<Vec<_>>();
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

const SIZE_DEFAULT: u32 = 100;
const SIZE_MAX: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leads_back_to_its_id_and_any_other_text_nowhere() {
        for id in [1, 7, 2_000_000, i32::MAX, -1] {
            assert_eq!(after(&token_after(id)).unwrap(), id);
        }
        assert_eq!(after("").unwrap(), i32::MIN);
        let token = token_after(7);
        let mut others = vec![format!("{token}A"), token[1..].to_owned(), "7".to_owned()];
        for (at, letter) in token.char_indices().take(10) {
            let other = if letter == 'A' { "B" } else { "A" };
            others.push(format!("{}{other}{}", &token[..at], &token[at + 1..]));
        }
        for other in others {
            let error = after(&other).unwrap_err();
            assert!(error.message().starts_with("field page_token"), "{other}");
        }
    }

    #[test]
    fn a_page_has_the_size_that_was_asked_for_within_bounds() {
        for (asked, size) in [(0, 100), (1, 1), (1000, 1000), (i32::MAX, 1000)] {
            assert_eq!(super::size(asked).unwrap(), size);
        }
        let error = size(-1).unwrap_err();
        assert_eq!(error.message(), "field page_size is -1; give 1 to 1000, or 0 for 100");
    }
}
