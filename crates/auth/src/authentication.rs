//! The gate that finds out who calls.
//!
//! | the call has | it is |
//! |---|---|
//! | a principal already | whoever a gate before this one said |
//! | `authorization: Bearer`, and issuers are known | the token's subject, or refused |
//! | a key in the header of API keys | the key's owner, or refused |
//! | a client certificate, and they count | the certificate's name |
//! | none of these | nobody: what asks for more refuses it later |

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use http::header::{HeaderValue, WWW_AUTHENTICATE};
#[cfg(feature = "jwt")]
use tidewire_service::Authorization;
use tidewire_service::{Admission, Error, Gate, GateFuture, Head, Result};

use crate::ApiKeys;

/// Finds out who calls; see the crate.
///
/// ```
/// # mod tidewire {
/// #     pub use http;
/// #     pub mod auth { pub use tidewire_auth::*; }
/// #     pub mod service { pub use tidewire_service::*; }
/// #     pub use tidewire_service::*;
/// # }
/// use std::time::SystemTime;
/// use tidewire::http;
/// use tidewire::auth::{ApiKeys, Authentication};
/// use tidewire::service::Target;
/// use tidewire::{Context, Gate, Head, Principal};
/// # use tidewire_service::Admission;
///
/// let sha256 = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"; // of `secret`
/// let keys = ApiKeys::new(http::HeaderName::from_static("x-api-key"))
///     .key(sha256, Principal::new("shop", "robot"))?;
/// let gate = Authentication::new(SystemTime::now).api_keys(keys);
///
/// let context = Context::default().with_header("x-api-key", "secret").expect("a header");
/// let mut head = Head::new(Target::Unknown("/".into()), context);
/// assert!(matches!(gate.admit(&mut head), Admission::Ready(Ok(()))));
/// assert_eq!(head.context.principal().map(Principal::subject), Some("robot"));
/// # Ok::<(), tidewire::auth::ApiKeyError>(())
/// ```
#[derive(Clone)]
#[must_use = "it is a gate, and does nothing until a server has it"]
pub struct Authentication {
    #[cfg(feature = "jwt")]
    issuers: Vec<Arc<crate::Issuer>>,
    keys: Option<ApiKeys>,
    certificates: bool,
    #[cfg_attr(not(feature = "jwt"), expect(dead_code, reason = "only tokens end"))]
    now: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

impl Authentication {
    /// Knows nobody yet. `now` is asked for the time.
    pub fn new(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self {
            #[cfg(feature = "jwt")]
            issuers: Vec::new(),
            keys: None,
            certificates: false,
            now: Arc::new(now),
        }
    }

    /// Takes the tokens of an issuer; may be said of several.
    #[cfg(feature = "jwt")]
    pub fn issuer(mut self, issuer: crate::Issuer) -> Self {
        self.issuers.push(Arc::new(issuer));
        self
    }

    /// Takes API keys.
    pub fn api_keys(mut self, keys: ApiKeys) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Takes client certificates, which the handshake of TLS verified.
    #[cfg(feature = "tls")]
    pub fn certificates(mut self) -> Self {
        self.certificates = true;
        self
    }

    /// What is known at once.
    fn quick(&self, head: &mut Head) -> Result<QuickDecision> {
        let Head { context, .. } = head;
        if context.is_authenticated() {
            return Ok(QuickDecision::Decided);
        }
        #[cfg(feature = "jwt")]
        if !self.issuers.is_empty()
            && let Authorization::Bearer(token) = Authorization::of(context.headers())?
        {
            let now = (self.now)();
            for issuer in &self.issuers {
                let keys = issuer.keys.current();
                if issuer.keys.is_due(now) {
                    return Ok(QuickDecision::Slow);
                }
                if let Some(principal) = issuer.verified.find(token, keys.generation, now) {
                    context.set_principal(principal);
                    return Ok(QuickDecision::Decided);
                }
            }
            return Ok(QuickDecision::Slow);
        }
        if let Some(keys) = &self.keys
            && let Some(principal) = keys.principal(context.headers())?
        {
            context.set_principal(principal);
            return Ok(QuickDecision::Decided);
        }
        #[cfg(feature = "tls")]
        if self.certificates
            && let Some(peer) = context.peer()
            && let Some(principal) = crate::certificate::principal(peer)
        {
            context.set_principal(principal);
        }
        Ok(QuickDecision::Decided)
    }

    /// Verifies a token, and fetches keys where that needs them.
    #[cfg(feature = "jwt")]
    async fn slow(&self, head: &mut Head) -> Result<()> {
        use crate::jwt::{TokenRefusal, VerifyError};
        let Authorization::Bearer(token) = Authorization::of(head.context.headers())? else {
            return Ok(());
        };
        let token = token.to_vec();
        let now = (self.now)();
        let mut refused = TokenRefusal::Malformed;
        let mut unavailable = None;
        for issuer in &self.issuers {
            match issuer.verify(&token, now).await {
                Ok(principal) => {
                    head.context.set_principal(principal);
                    return Ok(());
                }
                Err(VerifyError::Refused(why)) => refused = why,
                // It may be of another issuer.
                Err(VerifyError::NoKeys(error)) => unavailable = Some(error),
            }
        }
        Err(unavailable.unwrap_or_else(|| {
            Error::unauthenticated(format!("the bearer token is refused: {}", refused.text()))
        }))
    }

    #[cfg(not(feature = "jwt"))]
    async fn slow(&self, _: &mut Head) -> Result<()> {
        Ok(())
    }
}

enum QuickDecision {
    Decided,
    #[cfg_attr(not(feature = "jwt"), expect(dead_code, reason = "only tokens have to wait"))]
    Slow,
}

impl Gate for Authentication {
    fn admit(&self, head: &mut Head) -> Admission {
        match self.quick(head) {
            Ok(QuickDecision::Decided) => Admission::Ready(Ok(())),
            Ok(QuickDecision::Slow) => Admission::Waits,
            Err(error) => Admission::Ready(Err(challenged(error))),
        }
    }

    fn wait<'a>(&'a self, head: &'a mut Head) -> GateFuture<'a> {
        Box::pin(async move { self.slow(head).await.map_err(challenged) })
    }

    /// That of a token; keys and certificates are looked at by each call.
    #[cfg(feature = "jwt")]
    fn expires(&self, head: &Head) -> Option<SystemTime> {
        match Authorization::of(head.context.headers()) {
            Ok(Authorization::Bearer(token)) => {
                self.issuers.iter().find_map(|issuer| issuer.verified.expires(token))
            }
            _ => None,
        }
    }
}

/// Says what is wrong in the way of RFC 6750, section 3, too.
fn challenged(mut error: Error) -> Error {
    if error.code() == tidewire_service::Code::Unauthenticated {
        let challenge = HeaderValue::from_static("Bearer error=\"invalid_token\"");
        error.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    error
}

impl fmt::Debug for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Authentication");
        #[cfg(feature = "jwt")]
        shown.field("issuers", &self.issuers);
        shown.field("keys", &self.keys).field("certificates", &self.certificates).finish()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;
    use sha2::{Digest, Sha256};
    use tidewire_service::{Context, Headers, HttpTarget, Principal, Target};

    use super::*;

    #[test]
    fn a_credential_goes_before_the_principal_by_default_and_a_wrong_one_is_refused() {
        let hash = Sha256::digest("opensesame")
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        let (ci, program) = (Principal::new("keys", "ci"), Principal::new("tidewire", "service/a"));
        let name = HeaderName::from_static("x-api-key");
        let keys = ApiKeys::new(name.clone()).key(&hash, ci.clone()).expect("a hash");
        let gate = Authentication::new(SystemTime::now).api_keys(keys);
        let of = |key: Option<&'static str>| {
            let headers = key.map(|key| (name.clone(), HeaderValue::from_static(key)));
            let mut context = Context::new(Headers::from_iter(headers));
            context.set_default_principal(program.clone());
            let target = HttpTarget::new(http::Method::GET, http::Uri::from_static("/"));
            let mut head = Head::new(Target::Http(target), context);
            let Admission::Ready(admitted) = gate.admit(&mut head) else { panic!("it waits") };
            admitted.map(|()| head.context.principal().cloned()).map_err(|error| error.code())
        };
        assert_eq!(of(None), Ok(Some(program.clone())));
        assert_eq!(of(Some("opensesame")), Ok(Some(ci)));
        assert_eq!(of(Some("another")), Err(tidewire_service::Code::Unauthenticated));
    }
}
