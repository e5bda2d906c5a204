//! The console: the page that a browser loads, and how it signs in.
//!
//! | at | is | asks for |
//! |---|---|---|
//! | `/` | the page | nothing: there is nothing in it |
//! | `/console/NAME` | its scripts and styles | nothing |
//! | `POST /console/sign-in` | a bearer token for a code (`sign_in.rs`) | the code |
//!
//! The page loads nothing from elsewhere and may not: its policy lets only files of this listener
//! run, and no text become markup. All data come by `tidewire.admin.v1`, with the bearer token.

use std::time::Instant;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Method, StatusCode};
use tidewire_console::{CONSOLE, HEADERS};
use tidewire_server::{AccessRules, Builder};
use tidewire_service::{Access, Call, Error, Reply, Result};

use crate::{ACT, SignIn, guard};

/// The rules of access for what is served here.
pub(crate) fn open(rules: AccessRules) -> AccessRules {
    rules.path("/", Access::Anonymous).path("/console/*", Access::Anonymous)
}

/// Serves the page and its sign-in.
pub(crate) fn serve(mut builder: Builder, sign_in: SignIn) -> Builder {
    for file in CONSOLE {
        let path = match file.name {
            "index.html" => "/".to_owned(),
            name => format!("/console/{name}"),
        };
        builder = builder.route(Method::GET, &path, move |_: Call| async move {
            Ok(with_policy(Reply::content(file.content_type, Bytes::from_static(file.bytes))))
        });
    }
    builder.route(Method::POST, "/console/sign-in", move |call: Call| {
        let sign_in = sign_in.clone();
        async move { exchange(&sign_in, call).await.map(with_policy) }
    })
}

async fn exchange(sign_in: &SignIn, call: Call) -> Result<Reply> {
    if !guard::is_said_to_be_data(call.context.headers()) {
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Error::invalid_argument("send JSON").with_http_status(status));
    }
    let body = call.body.collect(BODY_BYTES_MAX).await?;
    let wrong = |_| Error::invalid_argument("send {\"code\": \"…\"}");
    let body: serde_json::Value = serde_json::from_slice(&body).map_err(wrong)?;
    let exchanged = sign_in.exchange(body["code"].as_str().unwrap_or_default(), Instant::now());
    let none = || {
        Error::unauthenticated(
            "this code was used, or is over a minute old; run tidewire console for another",
        )
    };
    let internal = |why: crate::TokenError| Error::internal(why.to_string());
    let (bearer, principal) = exchanged.map_err(internal)?.ok_or_else(none)?;
    tracing::info!(may_act = principal.has_scope(ACT), "somebody signed in to the console");
    Reply::json(&serde_json::json!({"bearer": bearer, "act": principal.has_scope(ACT)}))
}

fn with_policy(mut reply: Reply) -> Reply {
    for (name, value) in HEADERS {
        reply.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    reply
}

const BODY_BYTES_MAX: usize = 1024;
