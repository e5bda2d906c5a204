//! Handlers that need no `.proto`: liveness, echo, and the two constants that frameworks are
//! compared by.

use serde::Serialize;
use tidewire::http::{Method, StatusCode};
use tidewire::{Builder, Call, Reply, Result};

/// Adds the handlers to a server.
pub(crate) fn add_to(builder: Builder) -> Builder {
    builder
        .route(Method::GET, "/health", async |_: Call| Ok(StatusCode::NO_CONTENT))
        .route(Method::GET, "/echo/{text}", echo)
        .route(Method::GET, "/plaintext", async |_: Call| Ok("Hello, World!"))
        .route(Method::GET, "/json", json)
}

async fn echo(call: Call) -> Result<String> {
    call.param("text")
}

/// Serialized anew for each request, as the comparisons demand.
async fn json(_: Call) -> Result<Reply> {
    #[derive(Serialize)]
    struct Greeting {
        message: &'static str,
    }

    Reply::json(&Greeting { message: "Hello World!" })
}
