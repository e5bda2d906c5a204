//! Where the keys of an issuer of tokens are: a file, or an address.
//!
//! Keys that anybody on the way could change are not keys, so an address is of `https`, or of this
//! machine.

use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode, Uri};
use tidewire_auth::KeySource;
use tidewire_client::Client;
use tidewire_service::{Call, Context, Error, Result, Service};

use crate::config::{ConfigError, JwtConfig};

type FetchFuture<'a> = Pin<Box<dyn Future<Output = Result<Bytes>> + Send + 'a>>;

/// Keys in a file, which is read each time.
pub(crate) struct File(PathBuf);

impl File {
    pub(crate) fn new(path: &str) -> Self {
        Self(path.into())
    }
}

impl KeySource for File {
    fn fetch(&self) -> FetchFuture<'_> {
        let path = self.0.clone();
        Box::pin(async move {
            let read = tokio::task::spawn_blocking(|| std::fs::read(path)).await;
            let read = read.map_err(std::io::Error::other).and_then(|read| read);
            let failed = |error| Error::unavailable(format!("{}: {error}", self.name()));
            read.map(Bytes::from).map_err(failed)
        })
    }

    fn name(&self) -> String {
        self.0.display().to_string()
    }
}

/// Keys at an address.
struct Remote {
    client: Client,
    uri: Uri,
    name: String,
}

impl KeySource for Remote {
    fn fetch(&self) -> FetchFuture<'_> {
        let call = Call::http(Method::GET, self.uri.clone(), Context::default(), "");
        let answer = self.client.call(call);
        Box::pin(async move {
            let reply = answer.await?;
            if reply.status != StatusCode::OK {
                return Err(Error::unavailable(format!("answered {}", reply.status)));
            }
            reply.body.collect(KEYS_BYTES_MAX).await
        })
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

const KEYS_BYTES_MAX: usize = 1 << 20;
const TIMEOUT: Duration = Duration::from_secs(10);

/// The keys at the address of `[auth.jwt]`; `None` where it is a file.
pub(crate) fn of_address(jwt: &JwtConfig) -> Result<Option<impl KeySource + use<>>, ConfigError> {
    let name = jwt.keys.clone();
    let fault = |why: String| ConfigError::new(format!("auth.jwt.keys = {name:?}: {why}"));
    if !name.starts_with("http://") && !name.starts_with("https://") {
        return match &jwt.authorities {
            Some(_) => Err(fault("authorities are for an address; remove them".to_owned())),
            None => Ok(None),
        };
    }
    let uri: Uri = name.parse().map_err(|_| fault("this is not an address".to_owned()))?;
    let host = uri.host().unwrap_or_default();
    let is_here = matches!(host, "127.0.0.1" | "localhost" | "[::1]");
    if uri.scheme_str() != Some("https") && !is_here {
        let text = "keys fetched over http:// can be replaced on the way; write https://";
        return Err(fault(text.to_owned()));
    }
    let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
    let scheme = uri.scheme_str().unwrap_or("https");
    let builder = Client::builder(format!("{scheme}://{authority}")).timeout(TIMEOUT);
    let builder = trusting(builder, jwt)?;
    let client = builder.build().map_err(|error| fault(error.to_string()))?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let uri = path.parse().map_err(|_| fault("this is not an address".to_owned()))?;
    Ok(Some(Remote { client, uri, name }))
}

#[cfg(feature = "tls")]
fn trusting(
    builder: tidewire_client::Builder,
    jwt: &JwtConfig,
) -> Result<tidewire_client::Builder, ConfigError> {
    let Some(path) = &jwt.authorities else { return Ok(builder) };
    let pem = std::fs::read(path).map_err(|error| {
        ConfigError::new(format!("auth.jwt.authorities: cannot read {}: {error}", path.display()))
    })?;
    Ok(builder.tls(tidewire_client::Tls::new().authorities(pem)))
}

#[cfg(not(feature = "tls"))]
fn trusting(
    builder: tidewire_client::Builder,
    _: &JwtConfig,
) -> Result<tidewire_client::Builder, ConfigError> {
    Ok(builder)
}
