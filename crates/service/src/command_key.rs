//! What makes a repeated command harmless: a key that is the same when a caller sends it again.
//!
//! The key holds the principal (if there is one), the client and the id, each with its length
//! before it, so that no choice of one makes it look like another. Over HTTP the id is the header
//! `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header), quoted or not.

use std::fmt;

use crate::{Error, Headers, Principal, Result};

/// The key of a command: a text of visible ASCII and whatever a principal's name has.
///
/// A service stores it in the transaction of the command, with what it answered.
///
/// ```
/// # use tidewire_service as tidewire;
/// use tidewire::Context;
///
/// let context = Context::default().with_header("idempotency-key", "order-4711")?;
/// let key = context.command_key()?.expect("the caller sent one");
/// let again = Context::default().with_header("idempotency-key", "order-4711")?;
/// assert_eq!(again.command_key()?, Some(key));
/// # Ok::<(), tidewire::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CommandKey(String);

impl CommandKey {
    pub(crate) fn new(principal: Option<&Principal>, client: &str, id: &str) -> Self {
        let of_principal = principal.map(|known| [known.issuer(), known.subject()]);
        let parts = of_principal.iter().flatten().copied().chain([client, id]);
        let parts: Vec<_> = parts.map(|part| format!("{}:{part}", part.len())).collect();
        Self(parts.join("/"))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CommandKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) const HEADER: &str = "idempotency-key";
const ID_BYTES_MAX: usize = 255;

/// The id in the header `Idempotency-Key`.
pub(crate) fn of_headers(headers: &Headers) -> Result<Option<&str>> {
    let mut values = headers.get_all(HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Error::invalid_argument(
            "header Idempotency-Key occurs more than once; send one",
        ));
    }
    let text = value.to_str().ok().map(unquoted);
    let id = text.filter(|id| {
        (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
    });
    let wrong = "header Idempotency-Key is not 1 to 255 visible ASCII characters";
    id.map(Some).ok_or_else(|| Error::invalid_argument(wrong))
}

fn unquoted(text: &str) -> &str {
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}
