//! The relay: asks a key/value store over HTTP, reads its answer as a message, and answers with
//! another. Connections to the store are kept and shared by all calls.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tidewire::http::{Method, StatusCode, Uri};
use tidewire::{Call, Client, Context, Error, Reply, Result, Service as _};

use crate::keyvalue::check_key;
use crate::proto::keyvalue::v1::{Relay, RelayReply, RelayRequest, StoreReply};

/// `keyvalue.v1.Relay` of a store elsewhere.
#[derive(Debug)]
pub(crate) struct ToStore(pub(crate) Client);

impl Relay for ToStore {
    async fn relay(&self, context: Context, request: RelayRequest) -> Result<Reply<RelayReply>> {
        let key = request.key;
        check_key(&key)?;
        if key.is_empty() {
            return Err(Error::invalid_argument("field key is empty; give at least one character"));
        }
        let path = format!("/store/{}", utf8_percent_encode(&key, NON_ALPHANUMERIC));
        let path = Uri::try_from(path)
            .map_err(|cause| Error::internal("the key makes no path").with_cause(cause))?;
        let call = Call::http(Method::GET, path, context.outgoing(), "");
        let reply = self.0.call(call).await?;
        if reply.status != StatusCode::OK {
            let status = reply.status.as_u16();
            return Err(Error::unavailable(format!("the key/value store answered {status}")));
        }
        let json = reply.body.collect(REPLY_BYTES_MAX).await.map_err(|cause| {
            Error::unavailable("the key/value store's answer did not arrive whole")
                .with_cause(cause)
        })?;
        let StoreReply { value, .. } = read(&json)?;
        Ok(RelayReply { key, value, ..Default::default() }.into())
    }
}

fn read(json: &[u8]) -> Result<StoreReply> {
    let odd = || Error::unavailable("the key/value store answered something else than a value");
    // A list of its values would be read as a message too.
    if !json.trim_ascii_start().starts_with(b"{") {
        return Err(odd());
    }
    serde_json::from_slice(json).map_err(|cause| odd().with_cause(cause))
}

/// More than any value of a key can need.
const REPLY_BYTES_MAX: usize = 64 << 10;
