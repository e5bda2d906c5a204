//! Whether a server behind is well: it is asked for a path, and answers with a status below 400.

use std::time::Duration;

use http::{Method, Uri};
use tidewire_client::Client;
use tidewire_service::{Body, Call, Context, Service};

/// Asks for a path.
///
/// # Errors
/// What it was answered, if not with a status below 400 within 2 s.
pub async fn ask(client: &Client, path: &Uri) -> Result<(), String> {
    let call = Call::http(Method::GET, path.clone(), Context::default(), Body::Empty);
    match tokio::time::timeout(PATIENCE, client.call(call)).await {
        Ok(Ok(reply)) if reply.status.as_u16() < 400 => Ok(()),
        Ok(Ok(reply)) => Err(format!("was answered with status {}", reply.status.as_u16())),
        Ok(Err(error)) => Err(format!("was answered with {error}")),
        Err(_) => Err(format!("was not answered for {PATIENCE:?}")),
    }
}

/// Asks a server for a path again and again, and takes its turn of calls away while it is not well.
///
/// It is not well after three failures in a row, and well again with the first success. While all
/// servers are not well, calls go to all of them: who asks for a path may be wrong.
pub(crate) async fn watch(
    name: String,
    url: String,
    asking: Client,
    calling: Client,
    path: Uri,
    interval: Duration,
) {
    let mut failures = 0_u32;
    loop {
        tokio::time::sleep(interval).await;
        match ask(&asking, &path).await {
            Ok(()) => {
                if failures >= FAILURES_MAX {
                    tracing::info!(service = name, url, "is well again");
                    calling.leave_out(&url, Duration::ZERO);
                }
                failures = 0;
            }
            Err(told) => {
                failures = failures.saturating_add(1);
                if failures == FAILURES_MAX {
                    tracing::warn!(service = name, url, "gets no calls: GET {path} {told}");
                }
                if failures >= FAILURES_MAX {
                    // Until it was asked again, however long that takes.
                    calling.leave_out(&url, interval + 2 * PATIENCE);
                }
            }
        }
    }
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many failures in a row say that a server is not well.
const FAILURES_MAX: u32 = 3;
