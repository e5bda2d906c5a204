//! Whose a live connection is.

use std::sync::Arc;
use std::time::SystemTime;

use http::header::{AUTHORIZATION, COOKIE, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Uri};
use tidewire_live::{Identity, PATH, Reason, Violation};
use tidewire_service::{Code, Context, Error, Head, Headers, HttpTarget, Peer, Protocol, Target};

use crate::app::App;
use crate::request::admission::admitted;

/// Whose a connection is, as the gates find out; the empty text for nobody's.
pub(super) async fn identify(
    app: &App,
    headers: Headers,
    peer: Option<Arc<Peer>>,
) -> Result<Identity, Violation> {
    let credentials = [AUTHORIZATION, COOKIE]
        .iter()
        .flat_map(|name| headers.get_all(name))
        .map(|value| value.as_bytes().to_vec())
        .collect::<Vec<_>>();
    let target = HttpTarget::new(Method::GET, Uri::from_static(PATH));
    let certificate = peer.as_ref().and_then(|peer| peer.certificates.first().cloned());
    let context = Context::new(headers).with_protocol(Protocol::Live).with_peer(peer);
    let mut head = Head::new(Target::Http(target), context);
    let admitted = admitted(&app.gates, &mut head, false).await;
    let ends = app.gates.iter().filter_map(|gate| gate.expires(&head)).min();
    let expires_in = ends.map(|ends| ends.duration_since(SystemTime::now()).unwrap_or_default());
    if let Err(error) = admitted
        && is_refused(&error, head.context.headers())
    {
        return Err(Violation::new(Reason::Unauthenticated, error.message().to_owned()));
    }
    let parts = match head.context.principal() {
        Some(known) => vec![known.issuer().into(), known.subject().into()],
        None => credentials,
    };
    let parts = parts.into_iter().chain(certificate);
    let parts = parts.flat_map(|part: Vec<u8>| [part.len().to_le_bytes().to_vec(), part]);
    let principal = parts.flatten().collect::<Vec<u8>>().into();
    Ok(Identity { principal, expires_in })
}

/// Whether a credential is refused, and not merely missing (RFC 6750, section 3). A cookie may mean
/// nothing to anybody; a gate that means one says so call by call.
fn is_refused(error: &Error, headers: &Headers) -> bool {
    let challenge = error.headers().get(WWW_AUTHENTICATE).map(HeaderValue::as_bytes);
    let is_of_credential = match challenge {
        Some(challenge) => challenge.windows(6).any(|part| part == b"error="),
        None => headers.contains_key(AUTHORIZATION),
    };
    error.code() == Code::Unauthenticated && is_of_credential
}
