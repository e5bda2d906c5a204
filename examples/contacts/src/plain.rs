//! Handlers that need no `.proto`: liveness, echo, and the two constants that frameworks are
//! compared by. Each answers at once, so none allocates a future.

use serde::Serialize;
use tidewire::http::{Method, StatusCode};
use tidewire::{Builder, Call, Error, Reply, Result, ready_fn};

/// Adds the handlers to a server.
pub(crate) fn add_to(builder: Builder) -> Builder {
    builder
        .route(Method::GET, "/health", ready_fn(|_| Ok(Reply::empty(StatusCode::NO_CONTENT))))
        .route(Method::GET, "/echo/{text}", ready_fn(echo))
        .route(Method::GET, "/plaintext", ready_fn(|_| Ok(Reply::text("Hello, World!"))))
        .route(Method::GET, "/json", ready_fn(json))
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of a handler")]
fn echo(call: Call) -> Result<Reply> {
    Ok(Reply::text(call.param("text").unwrap_or_default().to_owned()))
}

/// Serialized anew for each request, as the comparisons demand.
fn json(_: Call) -> Result<Reply> {
    #[derive(Serialize)]
    struct Greeting {
        message: &'static str,
    }

    let json = serde_json::to_vec(&Greeting { message: "Hello World!" })
        .map_err(|cause| Error::internal("a greeting has no JSON form").with_cause(cause))?;
    Ok(Reply::json(json))
}
