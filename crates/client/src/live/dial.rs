//! Opening a connection of the live protocol: a socket, TLS, and the upgrade to a WebSocket (RFC
//! 6455, section 4.1).

use bytes::Bytes;
use http::header::{
    CONNECTION, HOST, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{Request, Response, StatusCode};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tidewire_live::{
    ByteStream, Dial, PATH, SUBPROTOCOL, Transport, WebSocket, accept_key, random_key,
};
use tidewire_service::{Error, Result};

use crate::dial::Socket;
use crate::endpoint::Opening;
use crate::raw::RawDialer;

/// Where the server is.
#[derive(Clone)]
pub(crate) struct Server(RawDialer);

impl Server {
    pub(crate) fn new(dialer: RawDialer) -> Self {
        Self(dialer)
    }

    /// What its connections carry.
    pub(crate) fn speaks(&self) -> Opening {
        self.0.endpoint().speaks
    }
}

impl Dial for Server {
    async fn dial(&self) -> Result<Box<dyn Transport>> {
        let name = self.0.endpoint().name();
        let timeout = self.0.timeout();
        tokio::time::timeout(timeout, self.open()).await.unwrap_or_else(|_| {
            let text = format!("{name} did not answer within limits.connect_timeout = {timeout:?}");
            Err(Error::unavailable(text))
        })
    }
}

impl Server {
    async fn open(&self) -> Result<Box<dyn Transport>> {
        let socket = self.0.socket().await?;
        Ok(match self.speaks() {
            Opening::Frames => Box::new(ByteStream::new(socket)),
            Opening::Http => {
                let upgraded = self.upgrade(socket).await?;
                Box::new(WebSocket::client(TokioIo::new(upgraded)).await)
            }
        })
    }

    /// Makes a WebSocket of a connection.
    async fn upgrade(&self, socket: Socket) -> Result<Upgraded> {
        let name = self.0.endpoint().name();
        let broke = |error: hyper::Error| {
            Error::unavailable(format!("{name} broke the upgrade to a WebSocket off: {error}"))
        };
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(socket)).await.map_err(broke)?;
        let mut connection = Box::pin(connection.with_upgrades());
        let key = random_key();
        let request = self.request(&key)?;
        let answered = async {
            let response = sender.send_request(request).await.map_err(broke)?;
            check(&name, &key, &response)?;
            hyper::upgrade::on(response).await.map_err(broke)
        };
        let mut answered = std::pin::pin!(answered);
        tokio::select! {
            biased;
            upgraded = &mut answered => upgraded,
            // It is over for HTTP once it is handed over.
            _ = &mut connection => answered.await,
        }
    }

    fn request(&self, key: &str) -> Result<Request<Empty<Bytes>>> {
        let prefix = self.0.endpoint().prefix.as_str();
        let path = if prefix.is_empty() { PATH } else { prefix };
        Request::get(path)
            .header(HOST, self.0.endpoint().authority.as_str())
            .header(CONNECTION, HeaderValue::from_static("upgrade"))
            .header(UPGRADE, HeaderValue::from_static("websocket"))
            .header(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"))
            .header(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL))
            .header(SEC_WEBSOCKET_KEY, key)
            .body(Empty::new())
            .map_err(|error| Error::internal(format!("the path {path} is not a path: {error}")))
    }
}

/// Checks that the server agreed to what was asked.
fn check(name: &str, key: &str, response: &Response<Incoming>) -> Result<()> {
    let status = response.status();
    let is = |header: http::HeaderName, wanted: &str| {
        let value = response.headers().get(header).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| value.trim() == wanted)
    };
    let text = if status == StatusCode::FORBIDDEN {
        format!("{name} refuses the WebSocket with {status}")
    } else if status != StatusCode::SWITCHING_PROTOCOLS {
        format!("{name} takes no WebSocket there: it answers {status}")
    } else if !is(SEC_WEBSOCKET_ACCEPT, &accept_key(key.as_bytes())) {
        format!("{name} answers the upgrade to a WebSocket with a wrong key")
    } else if !is(SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL) {
        format!("{name} does not speak the subprotocol {SUBPROTOCOL}")
    } else {
        return Ok(());
    };
    Err(Error::unavailable(text))
}
