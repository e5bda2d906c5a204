//! A request of the peer, as it is taken out of the session.

use std::sync::Arc;

use bytes::Bytes;
use tidewire_live_proto::{
    CallId, CommandOrigin, IncomingRequest, Metadata, Micros, RequestLine, Session, Watch,
};
use tidewire_service::{
    Body, Context, Headers, Peer, Protocol, Token, Tokens, Validator, WatchMode,
};

use crate::host::{CallTarget, Host, IncomingCall};
use crate::link::exchange::owned;
use crate::session_clock::SessionClock;

/// A request, taken out of the session.
pub(crate) struct RequestParts {
    pub(crate) call: CallId,
    /// The number of its method on this connection.
    pub(crate) number: Option<u32>,
    /// The number, if the request gave it to its method.
    pub(crate) named: Option<u32>,
    pub(crate) watch: Watch,
    target: CallTarget,
    metadata: Metadata,
    headers: Headers,
    body: Option<Bytes>,
    deadline: Option<Micros>,
    held: Option<Validator>,
    command: Option<u64>,
    origin: Option<CommandOrigin>,
    is_sent_again: bool,
    parent: Option<CallId>,
}

impl RequestParts {
    pub(crate) fn of(request: &IncomingRequest<'_>) -> Self {
        let target = match request.http() {
            Some(RequestLine { verb, target }) => http_target(verb, target),
            None => {
                request.peer_method().map_or(CallTarget::Nothing("no method"), CallTarget::Method)
            }
        };
        Self {
            call: request.call,
            number: request.method(),
            named: request.method().filter(|_| request.names_method()),
            watch: request.watch(),
            target,
            metadata: request.metadata(),
            headers: Headers::new(),
            body: (!request.is_streaming())
                .then(|| owned(request.payload(), || request.share_payload())),
            deadline: request.deadline(),
            held: request.validator(),
            command: request.command(),
            origin: request.origin(),
            is_sent_again: request.sent_before().is_some(),
            parent: request.parent(),
        }
    }

    /// Whether its message comes as items.
    pub(crate) fn is_streaming(&self) -> bool {
        self.body.is_none()
    }

    /// Whether there is its method.
    pub(crate) fn is_known_to(&self, host: &dyn Host) -> bool {
        match &self.target {
            CallTarget::Method(method) => host.knows(&method.path),
            _ => true,
        }
    }

    /// Its own headers in place of the connection's.
    pub(crate) fn with_headers(mut self, session: &Session) -> Self {
        if !self.metadata.is_empty() || !session.peer_headers().is_empty() {
            self.headers = session.headers_of(&self.metadata).to_maps().headers;
        }
        self
    }

    /// The call as a host sees it, whose message comes as these `items` unless it is here.
    pub(crate) fn arrived(
        self,
        clock: SessionClock,
        peer: Option<Arc<Peer>>,
        items: impl FnOnce(CallId) -> Body,
    ) -> IncomingCall {
        let deadline = self.deadline.and_then(|at| clock.instant(at));
        let mut context = Context::new(self.headers)
            .with_protocol(Protocol::Live)
            .with_deadline(deadline.map(tokio::time::Instant::into_std))
            .with_peer(peer);
        context.set_held(self.held.into_iter().collect());
        if self.watch != Watch::No {
            context.set_watching(WatchMode::Begins);
        }
        if let Some(origin) = self.origin {
            context.set_command(origin.client(), origin.id.to_string());
        }
        let tokens = self.metadata.tokens().filter_map(|token| Token::new(token.to_vec()));
        context.add_tokens(&tokens.collect::<Tokens>());
        let body = match self.body {
            Some(whole) => Body::Full(whole),
            None => items(self.call),
        };
        let target = self.target;
        let parent = self.parent;
        let is_command = self.command.is_some();
        let is_sent_again = self.is_sent_again;
        IncomingCall { target, context, body, is_command, is_sent_again, parent }
    }
}

fn http_target(verb: &[u8], target: &[u8]) -> CallTarget {
    match (http::Method::from_bytes(verb), http::Uri::try_from(target)) {
        (Ok(verb), Ok(uri)) => CallTarget::Http(verb, uri),
        (Err(_), _) => CallTarget::Nothing("no HTTP verb"),
        (_, Err(_)) => CallTarget::Nothing("no path"),
    }
}
