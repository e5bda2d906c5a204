//! An issuer of tokens with its own keys, on a clock that tests move.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use tidewire_auth::{Authentication, Issuer, KeySource, Keys, TokenRequirements};
use tidewire_service::{Admission, Context, Error, Gate, Head, Principal, Result, Target};

/// The time at which tests begin.
pub(crate) const START: u64 = 1_800_000_000;

pub(crate) fn base64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key pair, and its name.
pub(crate) enum Signer {
    Ecdsa(EcdsaKeyPair, &'static str),
    Ed25519(Ed25519KeyPair, &'static str),
}

impl Signer {
    pub(crate) fn ecdsa(id: &'static str) -> Self {
        let (random, scheme) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let key = EcdsaKeyPair::generate_pkcs8(scheme, &random).unwrap();
        Self::Ecdsa(EcdsaKeyPair::from_pkcs8(scheme, key.as_ref(), &random).unwrap(), id)
    }

    pub(crate) fn ed25519(id: &'static str) -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap(), id)
    }

    pub(crate) fn jwk(&self) -> Value {
        match self {
            Self::Ecdsa(key, id) => {
                let point = key.public_key().as_ref();
                let (x, y) = (base64(&point[1..33]), base64(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": id, "use": "sig"})
            }
            Self::Ed25519(key, id) => {
                let x = base64(key.public_key());
                json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": id, "alg": "EdDSA"})
            }
        }
    }

    /// A token with these claims, and what `head` says in place of the usual.
    pub(crate) fn sign_with(&self, head: &Value, claims: &Value) -> String {
        let text = format!("{}.{}", base64(head.to_string()), base64(claims.to_string()));
        let signature = match self {
            Self::Ecdsa(key, _) => base64(key.sign(&SystemRandom::new(), text.as_bytes()).unwrap()),
            Self::Ed25519(key, _) => base64(key.sign(text.as_bytes())),
        };
        format!("{text}.{signature}")
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        let (algorithm, id) = match self {
            Self::Ecdsa(_, id) => ("ES256", id),
            Self::Ed25519(_, id) => ("EdDSA", id),
        };
        self.sign_with(&json!({"alg": algorithm, "typ": "JWT", "kid": id}), claims)
    }
}

/// Claims that are as they should be, for an hour.
pub(crate) fn claims() -> Value {
    json!({
        "iss": "https://id.example", "aud": ["shop", "other"], "sub": "ada",
        "exp": START + 3600, "nbf": START - 10, "scope": "read write", "tenant": "t1",
    })
}

/// Claims with this in place of what is usual; `null` leaves it out.
pub(crate) fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    let map = claims.as_object_mut().unwrap();
    match value {
        Value::Null => drop(map.remove(name)),
        value => drop(map.insert(name.to_owned(), value)),
    }
    claims
}

/// Where keys are, whether they can be had, and how often they were.
#[derive(Clone, Default)]
pub(crate) struct Published {
    text: Arc<Mutex<Option<String>>>,
    hangs: Arc<AtomicBool>,
    fetched: Arc<AtomicUsize>,
}

impl Published {
    pub(crate) fn of(keys: &[Value]) -> Self {
        let published = Self::default();
        published.publish(keys);
        published
    }

    pub(crate) fn publish(&self, keys: &[Value]) {
        *self.text.lock().unwrap() = Some(json!({ "keys": keys }).to_string());
    }

    pub(crate) fn break_down(&self) {
        *self.text.lock().unwrap() = None;
    }

    /// Answers no more.
    pub(crate) fn hang(&self) {
        self.hangs.store(true, Ordering::SeqCst);
    }

    pub(crate) fn fetched(&self) -> usize {
        self.fetched.load(Ordering::SeqCst)
    }
}

impl KeySource for Published {
    fn fetch(&self) -> Pin<Box<dyn Future<Output = Result<Bytes>> + Send + '_>> {
        self.fetched.fetch_add(1, Ordering::SeqCst);
        let text = self.text.lock().unwrap().clone();
        let text = text.map(Bytes::from).ok_or_else(|| Error::unavailable("broken down"));
        let hangs = self.hangs.load(Ordering::SeqCst);
        Box::pin(async move {
            tokio::task::yield_now().await;
            if hangs {
                std::future::pending::<()>().await;
            }
            text
        })
    }

    fn name(&self) -> String {
        "test".to_owned()
    }
}

/// Lets tasks of this thread go on until they wait for something else.
pub(crate) async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

/// A gate that takes tokens of the issuer, and its clock.
pub(crate) struct Checked {
    pub(crate) gate: Authentication,
    now: Arc<AtomicU64>,
}

impl Checked {
    pub(crate) fn new(published: &Published) -> Self {
        Self::with(Keys::new(published.clone()))
    }

    pub(crate) fn with(keys: Keys) -> Self {
        crate::log::listen();
        let now = Arc::new(AtomicU64::new(START));
        let clock = Arc::clone(&now);
        let issuer = Issuer::new(TokenRequirements::new("https://id.example", "shop"), keys);
        let gate = Authentication::new(move || {
            UNIX_EPOCH + Duration::from_secs(clock.load(Ordering::SeqCst))
        });
        Self { gate: gate.issuer(issuer), now }
    }

    /// The same, after an issuer of another name.
    pub(crate) fn after(mut self, published: &Published) -> Self {
        let now = Arc::clone(&self.now);
        let gate = Authentication::new(move || {
            UNIX_EPOCH + Duration::from_secs(now.load(Ordering::SeqCst))
        });
        let issuer = |name, keys: &Published| {
            Issuer::new(TokenRequirements::new(name, "shop"), Keys::new(keys.clone()))
        };
        let other = issuer("https://other.example", &Published::default());
        self.gate = gate.issuer(other).issuer(issuer("https://id.example", published));
        self
    }

    /// A call that finds that the keys are due, and the fetching that it starts.
    pub(crate) async fn renew(&self, token: &str) {
        let _ = self.of(token).await;
        settle().await;
    }

    pub(crate) fn pass(&self, seconds: u64) {
        self.now.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Whose a token is.
    pub(crate) async fn of(&self, token: &str) -> Result<Option<Principal>> {
        let mut context = Context::default();
        let value = HeaderValue::try_from(format!("Bearer {token}")).unwrap();
        context.headers_mut().insert(AUTHORIZATION, value);
        let mut head = Head::new(Target::Unknown("/".into()), context);
        match self.gate.admit(&mut head) {
            Admission::Ready(decision) => decision?,
            Admission::Waits => self.gate.wait(&mut head).await?,
        }
        Ok(head.context.principal().cloned())
    }
}
