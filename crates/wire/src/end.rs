//! How a reply ends, whichever way its protocol says it: trailers, and whether the call failed.

use http::HeaderMap;
use tidewire_service::{Error, Result};

use crate::headers;

/// What the end of a reply says.
#[derive(Debug)]
pub(crate) struct End {
    /// All of them, those of the protocol too.
    pub(crate) raw: HeaderMap,
    pub(crate) outcome: Result<()>,
}

impl End {
    /// An end without any of it.
    pub(crate) fn missing(error: Error) -> Self {
        Self { raw: HeaderMap::new(), outcome: Err(error) }
    }

    /// The service's own trailers of a success; of a failure the error, with them.
    pub(crate) fn into_result(self) -> Result<HeaderMap> {
        let trailers = headers::own(self.raw);
        match self.outcome {
            Ok(()) => Ok(trailers),
            Err(mut error) => {
                *error.trailers_mut() = trailers.into();
                Err(error)
            }
        }
    }
}
