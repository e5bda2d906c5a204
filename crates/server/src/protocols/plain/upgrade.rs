//! Plain HTTP that may take its connection over: an upgrade of HTTP/1.1, or `CONNECT`.

use std::sync::Arc;

use http::StatusCode;
use http_body::Body as _;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tidewire_service::{Error, Reply, Upgrade};

use crate::app::App;
use crate::request::run_call::Run;
use crate::response::body::{BoxedResponse, ResponseBody};
use crate::response::error::error_response;
use crate::response::page::{self, Credential, callers_own};
use crate::runtime::stop::Stage;

/// A request that may take its connection over.
pub(super) struct UpgradeRequest {
    pub(super) upgrade: OnUpgrade,
    /// It is `CONNECT`, to which 2xx means that it is taken over.
    pub(super) is_connect: bool,
    pub(super) credential: Option<Credential>,
}

/// The answer to a request that may take its connection over.
pub(super) fn answer(
    app: &Arc<App>,
    running: Run,
    request: UpgradeRequest,
) -> BoxedResponse<ResponseBody> {
    let app = Arc::clone(app);
    let UpgradeRequest { upgrade, mut is_connect, mut credential } = request;
    Box::pin(async move {
        let outcome = running.outcome().await.map(|mut reply| {
            if let Some(taken) = reply.take_upgrade() {
                // What follows on it belongs to nobody else.
                (is_connect, credential) = (false, None);
                let stop = app.stop.clone();
                app.tasks.spawn(async move {
                    tokio::select! {
                        () = take_over(taken, upgrade) => {}
                        () = stop.reached(Stage::CutOff) => stop.cut_off(1),
                    }
                });
            }
            reply
        });
        let mut response = match outcome {
            Ok(reply) if is_connect && is_page(&reply) => {
                let error = not_opened(reply.status);
                error_response(&error).map(ResponseBody::plain)
            }
            Ok(reply) => page::page(reply, ResponseBody::plain),
            Err(error) => error_response(&error).map(ResponseBody::plain),
        };
        if let Some(credential) = credential {
            callers_own(response.headers_mut(), credential);
        }
        response
    })
}

/// Whether a reply is a page, which to `CONNECT` would say that what was asked for is open.
fn is_page(reply: &Reply) -> bool {
    reply.status.is_success() && !reply.body.is_end_stream()
}

#[cold]
fn not_opened(status: StatusCode) -> Error {
    let status = status.as_u16();
    let text = format!("CONNECT was answered {status} with a page; this path opens no WebSocket");
    Error::failed_precondition(text).with_http_status(StatusCode::BAD_GATEWAY)
}

/// Runs what a reply wants to run on the connection, once it is handed over.
async fn take_over(taken: Upgrade, upgrade: OnUpgrade) {
    match upgrade.await {
        Ok(connection) => taken.run(Box::pin(TokioIo::new(connection))).await,
        Err(error) => tracing::debug!(%error, "a connection was not handed over"),
    }
}
