//! How a stream ends: HTTP trailers, a last envelope of trailers, or a last envelope of JSON.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use tidewire_service::{Error, Result};

use super::{error_json, headers, status};

/// What the end of a stream says: trailers, and whether the call failed.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) trailers: HeaderMap,
    pub(crate) outcome: Result<()>,
}

impl End {
    /// The end as gRPC has it; `None` if the trailers hold no status.
    pub(crate) fn grpc(trailers: HeaderMap) -> Option<Self> {
        let outcome = status::of_trailers(&trailers)?;
        let trailers = headers::own(trailers);
        Some(Self { trailers, outcome })
    }

    /// The end as Connect has it: `{"error": …, "metadata": …}`.
    pub(crate) fn connect(json: &[u8], host: &str) -> Self {
        #[derive(Deserialize)]
        struct Json {
            error: Option<serde_json::Value>,
            #[serde(default)]
            metadata: Option<serde_json::Map<String, serde_json::Value>>,
        }
        let json = match serde_json::from_slice::<Json>(json) {
            Ok(json) => json,
            Err(error) => {
                let text = format!("{host} ended a stream with what is no valid JSON: {error}");
                let outcome = Err(Error::unknown(text));
                return Self { trailers: HeaderMap::new(), outcome };
            }
        };
        let mut trailers = HeaderMap::new();
        for (name, values) in json.metadata.unwrap_or_default() {
            let Ok(name) = HeaderName::try_from(name) else { continue };
            for value in values.as_array().into_iter().flatten() {
                let value = value.as_str().and_then(|text| HeaderValue::try_from(text).ok());
                if let Some(value) = value {
                    trailers.append(&name, value);
                }
            }
        }
        Self { trailers, outcome: json.error.map_or(Ok(()), |e| Err(error_json::of_value(e))) }
    }

    /// An end without any of it.
    pub(crate) fn missing(error: Error) -> Self {
        Self { trailers: HeaderMap::new(), outcome: Err(error) }
    }

    /// The trailers of a success; of a failure the error, with them.
    pub(crate) fn into_result(self) -> Result<HeaderMap> {
        let trailers = self.trailers;
        match self.outcome {
            Ok(()) => Ok(trailers),
            Err(mut error) => {
                *error.trailers_mut() = trailers;
                Err(error)
            }
        }
    }
}

/// The trailers in gRPC-Web's last envelope: lines of `name: value`.
pub(crate) fn web_trailers(block: &Bytes) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    for line in block.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        let name = HeaderName::from_bytes(&name.to_ascii_lowercase());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            trailers.append(name, value);
        }
    }
    trailers
}
