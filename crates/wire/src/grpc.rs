//! What is particular to gRPC: a call ends in HTTP trailers with its status.
//!
//! A failure that has nothing to say before its end is a response of headers only, with the status
//! among them (`Trailers-Only` of `PROTOCOL-HTTP2.md`). One with its own headers keeps them apart,
//! so that the caller can still tell them from trailers.

use http::HeaderMap;
use tidewire_service::Error;

use crate::end::End;
use crate::{headers, status};

/// The trailers of a success: the service's own, and the status.
pub(crate) fn success(trailers: HeaderMap) -> HeaderMap {
    let mut trailers = headers::own(trailers);
    status::put_ok(&mut trailers);
    trailers
}

/// The trailers of a failure.
pub(crate) fn failure(error: &mut Error) -> HeaderMap {
    let mut trailers = headers::own(std::mem::take(error.trailers_mut()).into());
    status::put(&mut trailers, error);
    trailers
}

/// The end that trailers hold; `None` if they hold no status.
pub(crate) fn end(trailers: HeaderMap) -> Option<End> {
    let outcome = status::of_trailers(&trailers)?;
    Some(End { raw: trailers, outcome })
}
