//! Headers in messages of the admin services: those that somebody wants sent, and those that are
//! shown.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue};
use tidewire_service::{Error, Headers, Result};

use crate::proto::tidewire::admin::v1::SentHeader;
use crate::redact;

/// The headers of a request that is made up.
///
/// # Errors
/// A name or a value that HTTP does not have.
pub(crate) fn to_send(said: &BTreeMap<String, String>) -> Result<Headers> {
    let mut headers = Headers::new();
    for (name, value) in said {
        let wrong = || Error::invalid_argument(format!("{name:?} cannot be sent as a header"));
        let value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        headers.append(HeaderName::try_from(name).map_err(|_| wrong())?, value);
    }
    Ok(headers)
}

/// Headers without the values of those that are called a secret.
pub(crate) fn without_secrets<'a>(
    headers: impl IntoIterator<Item = (&'a HeaderName, &'a HeaderValue)>,
) -> Vec<SentHeader> {
    let shown = headers.into_iter().map(|(name, value)| SentHeader {
        name: name.to_string(),
        value: match redact::is_secret(name.as_str()) || name == "authorization" {
            true => None,
            false => Some(redact::text(&String::from_utf8_lossy(value.as_bytes()))),
        },
        ..Default::default()
    });
    shown.collect()
}
