//! The key/value store that a relay asks: a Caesar cipher, so that every client can tell what the
//! value of a key has to be.

use tidewire::{Context, Error, Reply, Result};

use crate::proto::keyvalue::v1::{KeyValue, StoreReply, StoreRequest};

/// `keyvalue.v1.KeyValue`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Caesar;

impl KeyValue for Caesar {
    async fn store(&self, _: Context, request: StoreRequest) -> Result<Reply<StoreReply>> {
        check_key(&request.key)?;
        Ok(StoreReply { value: moved(request.key), ..Default::default() }.into())
    }
}

/// Checks a key before it is worked with or sent on.
///
/// # Errors
/// `INVALID_ARGUMENT` for one that is too long.
pub(crate) fn check_key(key: &str) -> Result<()> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    let len = key.len();
    Err(Error::invalid_argument(format!(
        "field key is {len} bytes, over the limit of {KEY_BYTES_MAX}; shorten it"
    )))
}

/// Each letter from a to z moved on by 18.
fn moved(key: String) -> String {
    let mut bytes = key.into_bytes();
    for byte in bytes.iter_mut().filter(|byte| byte.is_ascii_lowercase()) {
        *byte = (*byte - b'a' + 18) % 26 + b'a';
    }
    // ASCII took the place of ASCII.
    String::from_utf8(bytes).unwrap_or_default()
}

const KEY_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_move_by_18_and_wrap_around() {
        for (key, value) in [
            ("the", "lzw"),
            ("hello", "zwddg"),
            ("abcdefghijklmnopqrstuvwxyz", "stuvwxyzabcdefghijklmnopqr"),
            ("", ""),
            ("Zoë 7", "Zgë 7"),
        ] {
            assert_eq!(moved(key.to_owned()), value, "{key}");
        }
    }
}
