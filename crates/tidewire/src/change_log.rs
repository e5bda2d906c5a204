//! A server that goes by a change log: no reply from memory when the lease has ended, and none that
//! is older than a request's token.
//!
//! A gate looks at each request before memory is asked; a layer adds the token of what a command
//! wrote to its reply. Without a token a request costs one look at a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderValue;
use tidewire_oplog::{OplogHandle, TOKEN_HEADER, Token, collect, note};
use tidewire_server::Builder;
use tidewire_service::{
    Admission, Answer, Call, Error, Gate, GateFuture, Head, Layer, Reply, Result, Service,
};

/// Lets a server go by a change log.
pub trait ChangeLog {
    /// Replies from memory include what a request's `tidewire-token` names, or are refused with
    /// `UNAVAILABLE`; none is older than `oplog.lease`. Replies to commands carry the token of what
    /// they wrote; an error carries none.
    ///
    /// ```no_run
    /// # fn example(oplog: tidewire::oplog::Oplog) {
    /// use tidewire::{ChangeLog as _, Server};
    /// let builder = Server::builder().change_log(&oplog);
    /// # }
    /// ```
    #[must_use]
    fn change_log(self, log: &OplogHandle) -> Self;
}

impl ChangeLog for Builder {
    fn change_log(self, log: &OplogHandle) -> Self {
        self.gate(FreshnessGate(log.clone())).inner_layer(TokenLayer(log.clone()))
    }
}

struct FreshnessGate(OplogHandle);

impl Gate for FreshnessGate {
    fn admit(&self, head: &mut Head) -> Admission {
        if self.admits_again(head) { Admission::Ready(Ok(())) } else { Admission::Waits }
    }

    fn admits_again(&self, head: &Head) -> bool {
        self.0.check_lease();
        token(head).is_none_or(|token| self.0.includes(&token))
    }

    fn wait<'a>(&'a self, head: &'a mut Head) -> GateFuture<'a> {
        Box::pin(async move {
            let Some(token) = token(head) else { return Ok(()) };
            let caught_up = self.0.caught_up(&token).await;
            caught_up.map_err(|behind| Error::unavailable(behind.to_string()))
        })
    }
}

/// What the request asks for, of all its headers.
fn token(head: &Head) -> Option<Token> {
    let mut all = None::<Token>;
    for value in head.context.header_values(TOKEN_HEADER) {
        let token = value.to_str().map_or_else(|_| Token::unclear(), Token::parse);
        all.get_or_insert_default().merge(&token);
    }
    all
}

struct TokenLayer(OplogHandle);

impl Layer for TokenLayer {
    fn layer(&self, inner: Arc<dyn Service>) -> Arc<dyn Service> {
        Arc::new(TokenService { inner, log: self.0.clone(), without_token: Arc::default() })
    }
}

struct TokenService {
    inner: Arc<dyn Service>,
    log: OplogHandle,
    /// Replies that left without a token since the change log could be written.
    without_token: Arc<AtomicU64>,
}

impl Service for TokenService {
    fn call(&self, call: Call) -> Answer {
        let is_command = match call.spec() {
            Some(method) => !method.is_query(),
            None => call.http_target().is_some_and(|target| !target.method.is_safe()),
        };
        if !is_command {
            return self.inner.call(call);
        }
        let inner = Arc::clone(&self.inner);
        let log = self.log.clone();
        let without_token = Arc::clone(&self.without_token);
        Answer::pending(async move {
            let called = call_and_publish(&*inner, call, &log, &without_token);
            let (reply, token) = collect(called).await;
            let mut reply = reply;
            if let (Ok(reply), Ok(value)) = (&mut reply, HeaderValue::try_from(token.to_string()))
                && !value.is_empty()
            {
                reply.headers.insert(TOKEN_HEADER, value);
            }
            reply
        })
    }
}

/// The reply to a command, once what a program said meanwhile that it has changed is in the log.
async fn call_and_publish(
    inner: &dyn Service,
    call: Call,
    log: &OplogHandle,
    without_token: &AtomicU64,
) -> Result<Reply> {
    // Until its changes are in the log, or its reply says that they are not.
    let _intent = log.intend_command().await;
    let before = log.publish_count();
    let reply = inner.call(call).await?;
    // Others may have said it: then this waits for them, too.
    if log.publish_count() != before {
        match log.published().await {
            Ok(token) => {
                note(&token);
                let replies = without_token.swap(0, Ordering::Relaxed);
                if replies > 0 {
                    tracing::info!(replies, "{WITH_TOKEN_AGAIN}");
                }
            }
            Err(_) => {
                if without_token.fetch_add(1, Ordering::Relaxed) == 0 {
                    tracing::warn!("{WITHOUT_TOKEN}");
                }
            }
        }
    }
    Ok(reply)
}

const WITHOUT_TOKEN: &str = "a reply leaves without a tidewire-token: what its program changed is not in the change \
                             log within oplog.token_wait, and follows; so do others until it can be written";
const WITH_TOKEN_AGAIN: &str =
    "replies have a tidewire-token again; `replies` left without one meanwhile";
