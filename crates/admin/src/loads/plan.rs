//! What a run is to do: checked, within bounds, and at this server only.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;
use tidewire_schema::Schema;
use tidewire_server::{Address, Handle};
use tidewire_service::{Codec, Error, Method, Result, StreamKind};

use crate::own_server::{self, ServerCertificate};
use crate::proto::tidewire::admin::v1::StartLoadRequest;
use crate::{headers, redact, services};

/// A run that may be started.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// With the defaults filled in.
    pub(super) asked: StartLoadRequest,
    /// Where this server listens.
    pub(super) address: Address,
    /// Its certificate, where it speaks TLS there.
    pub(super) certificate: Option<ServerCertificate>,
    /// The method, with the schema of its service.
    pub(super) method: Option<Called>,
}

#[derive(Debug, Clone)]
pub(super) struct Called {
    pub(super) method: Method,
    pub(super) descriptors: Bytes,
    /// What is sent, without secrets.
    shown: String,
}

impl Plan {
    /// What was asked for, at the server of `handle`.
    ///
    /// # Errors
    /// What is not served or not a request; a bound that is too high.
    pub(super) fn new(handle: &Handle, mut asked: StartLoadRequest) -> Result<Self> {
        let address = own_server::address(handle)?;
        let certificate = own_server::certificate(handle, &address)?;
        fill_in(&mut asked);
        bounded("rate", asked.rate, RATE_MAX)?;
        bounded("seconds", asked.seconds.into(), SECONDS_MAX.into())?;
        bounded("connections", asked.connections.into(), CONNECTIONS_MAX.into())?;
        bounded("requests", asked.requests as f64, REQUESTS_MAX as f64)?;
        for (name, value) in &asked.headers {
            let values = BTreeMap::from([(name.clone(), value.clone())]);
            headers::to_send(&values)?;
        }
        let sent = asked.message.len() + asked.path.len();
        let headers = asked.headers.iter().map(|(name, value)| name.len() + value.len());
        if sent + headers.sum::<usize>() > BYTES_MAX {
            let text = format!(
                "message and headers are over {BYTES_MAX} bytes; bench run has no such limit"
            );
            return Err(Error::invalid_argument(text));
        }
        let method = match (asked.method.is_empty(), asked.path.is_empty()) {
            (false, true) => Some(called(handle, &asked)?),
            (true, false) => {
                check_path(&asked.path)?;
                "http".clone_into(&mut asked.protocol);
                None
            }
            _ => return Err(Error::invalid_argument("name a method, or a path in its place")),
        };
        Ok(Self { asked, address, certificate, method })
    }

    /// What was asked for, without secrets.
    pub(super) fn without_secrets(&self) -> Self {
        let mut shown = self.clone();
        if let Some(called) = &self.method {
            shown.asked.message.clone_from(&called.shown);
        }
        shown.asked.path = redact::text(&shown.asked.path);
        for (name, value) in &mut shown.asked.headers {
            *value = match redact::is_secret(name) || name.eq_ignore_ascii_case("authorization") {
                true => "***".to_owned(),
                false => redact::text(value),
            };
        }
        shown
    }
}

fn fill_in(asked: &mut StartLoadRequest) {
    if asked.seconds == 0 {
        asked.seconds = 10;
    }
    if asked.connections == 0 {
        asked.connections = 8;
    }
    if asked.protocol.is_empty() {
        "connect".clone_into(&mut asked.protocol);
    }
    if asked.message.trim().is_empty() {
        "{}".clone_into(&mut asked.message);
    }
}

fn bounded(what: &str, asked: f64, most: f64) -> Result<()> {
    if (0.0..=most).contains(&asked) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "{what} is {asked}, and at most {most} from here; in a terminal it may be more"
    )))
}

/// The method that is to be called, and a message that it takes.
fn called(handle: &Handle, asked: &StartLoadRequest) -> Result<Called> {
    let found = services::method_of(handle, &asked.method)?;
    let services::ServedMethod { schema, method, descriptors } = found;
    match &*asked.protocol {
        "connect" | "grpc" | "grpc-web" => {}
        "live" if method.kind == StreamKind::Unary => {}
        "live" => {
            return Err(Error::invalid_argument("streams are not called over live by a load"));
        }
        other => {
            let text = format!("{other:?} is not connect, grpc, grpc-web or live");
            return Err(Error::invalid_argument(text));
        }
    }
    let shown = message_without_secrets(&schema, &method.input, &asked.message)?;
    Ok(Called { method, descriptors, shown })
}

/// A message without secrets.
///
/// # Errors
/// It is none of the type. One with templates is known only when it is sent.
fn message_without_secrets(schema: &Schema, type_name: &str, text: &str) -> Result<String> {
    let message = match schema.decode_exactly(type_name, text.as_bytes()) {
        Ok(message) => message,
        Err(_) if text.contains("{{") => return Ok(redact::text(text)),
        Err(error) => return Err(error),
    };
    let mut value: Value = serde_json::from_slice(&message.encode(Codec::Json)?)
        .map_err(|why| Error::internal(why.to_string()))?;
    redact::message(&mut value, message.message_type());
    Ok(value.to_string())
}

fn check_path(path: &str) -> Result<()> {
    // What templates become is known when it is sent; bench refuses those that it does not know.
    let mut fixed = String::new();
    let mut rest = path;
    while let Some((before, template)) = rest.split_once("{{") {
        let (_, after) = template.split_once("}}").unwrap_or_default();
        fixed = fixed + before + "0";
        rest = after;
    }
    fixed += rest;
    if fixed.starts_with('/') && fixed.parse::<http::Uri>().is_ok() && !path.contains(['\r', '\n'])
    {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("{path:?} is not a path of this server, /reports/january")))
}

/// Calls a second.
pub(super) const RATE_MAX: f64 = 20_000.0;
pub(super) const SECONDS_MAX: u32 = 300;
pub(super) const CONNECTIONS_MAX: u32 = 256;
pub(super) const REQUESTS_MAX: u64 = 1_000_000;
/// What one call sends.
const BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_of_this_server() {
        for (path, is_one) in [
            ("/reports/january?x=1", true),
            ("/items/{{random 1..9}}/x", true),
            ("/items/{{random 1..9}} x", false),
            ("/items/{{seq}}", true),
            ("http://example.com/", false),
            ("reports", false),
            ("/a b", false),
            ("/a\r\nhost: x", false),
            ("", false),
        ] {
            assert_eq!(check_path(path).is_ok(), is_one, "{path}");
        }
    }

    #[test]
    fn what_is_over_a_bound_is_refused_with_the_bound() {
        assert!(bounded("rate", 0.0, 5.0).is_ok() && bounded("rate", 5.0, 5.0).is_ok());
        for asked in [5.1, -1.0, f64::NAN, f64::INFINITY] {
            let refusal = bounded("rate", asked, 5.0).unwrap_err().to_string();
            assert!(refusal.contains("at most 5"), "{refusal}");
        }
    }
}
