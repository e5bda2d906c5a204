//! A peer that the test reads and writes by hand, when it likes: our own session on its own socket.

use std::net::SocketAddr;

use tidewire::{Code, Codec};
use tidewire_live_proto::{
    CallId, Config, Continuation, Event, Metadata, Reason, Request, Session, Watch,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(super) struct ByHand {
    address: SocketAddr,
    pub(super) session: Session,
    pub(super) socket: TcpStream,
    /// How many bytes came.
    pub(super) read: usize,
}

/// What the session told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    Connected { resumed: bool },
    Reply { call: CallId, is_watched: bool, text: String },
    Stale(CallId),
    Suspect(CallId),
    Failed(CallId, Code),
    Credential { is_refused: bool, is_limited: bool },
    Closed(Reason),
    Lost,
    Other,
}

impl ByHand {
    /// Connects, and waits for the server's hello.
    pub(super) async fn dial(address: SocketAddr) -> Self {
        Self::dial_with(address, Metadata::default()).await
    }

    /// Connects with default headers.
    pub(super) async fn dial_with(address: SocketAddr, metadata: Metadata) -> Self {
        let config = Config { boot: Some([1; 16]), metadata, ..Config::default() };
        let session = Session::dialer(config);
        let socket = TcpStream::connect(address).await.unwrap();
        let mut dialed = Self { address, session, socket, read: 0 };
        assert_eq!(dialed.greet().await, [Told::Connected { resumed: false }]);
        dialed
    }

    /// Says hello on the socket that there is; what was told until it was connected.
    async fn greet(&mut self) -> Vec<Told> {
        self.session.connect(0);
        let mut told = Vec::new();
        while !matches!(told.last(), Some(Told::Connected { .. })) {
            told.push(self.next().await);
        }
        told
    }

    /// Goes on with the session on another connection.
    pub(super) async fn dial_again(&mut self) -> Vec<Told> {
        self.dial_again_with(&Metadata::default()).await
    }

    /// The same with other default headers.
    pub(super) async fn dial_again_with(&mut self, headers: &Metadata) -> Vec<Told> {
        self.session.connection_lost(0);
        while self.told().is_some() {}
        self.session.auth(headers);
        self.socket = TcpStream::connect(self.address).await.unwrap();
        self.greet().await
    }

    /// Asks a query, which is sent with what is written next.
    pub(super) fn ask(&mut self, path: &str, json: &str, watch: Watch) -> CallId {
        let method = self.session.method(path, Codec::Json);
        self.session.call(Request::query(method, json.to_owned()).watch(watch), 0).unwrap()
    }

    /// Writes what the session has to write.
    pub(super) async fn write(&mut self) {
        let mut out = Vec::new();
        while self.session.poll_output(0, &mut out) {}
        self.socket.write_all(&out).await.unwrap();
    }

    /// Reads what is there, or waits for it.
    pub(super) async fn read(&mut self) {
        self.session.input().reserve(16 << 10);
        let read = self.socket.read_buf(self.session.input()).await.unwrap();
        if read == 0 {
            self.session.connection_lost(0);
        }
        self.read += read;
    }

    /// What was told next of what was read.
    pub(super) fn told(&mut self) -> Option<Told> {
        Some(match self.session.poll_event(0)? {
            Event::Connected { resumed } => Told::Connected { resumed },
            Event::Reply(reply) => Told::Reply {
                call: reply.call,
                is_watched: reply.then() == Continuation::Watch,
                text: String::from_utf8(reply.payload().to_vec()).unwrap(),
            },
            Event::Stale { call } => Told::Stale(call),
            Event::Suspect { call } => Told::Suspect(call),
            Event::Failed { call, error, .. } => Told::Failed(call, error.code()),
            Event::Credential { refused, expires_ms } => {
                Told::Credential { is_refused: refused.is_some(), is_limited: expires_ms > 0 }
            }
            Event::Closed(violation) => Told::Closed(violation.reason),
            Event::Lost => Told::Lost,
            _ => Told::Other,
        })
    }

    /// What is told next, whatever has to be written and read for it.
    pub(super) async fn next(&mut self) -> Told {
        loop {
            if let Some(told) = self.told() {
                return told;
            }
            self.write().await;
            self.read().await;
        }
    }
}
