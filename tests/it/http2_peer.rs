//! An HTTP/2 server that a test plays frame by frame, for gRPC calls of one connection at a time.
//!
//! It knows the few frames that it needs: what a request is called is not read, and what it answers
//! are the heads of gRPC, written without compression.

use std::collections::HashMap;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

/// END_STREAM of a stream's frames, ACK of a connection's.
const END: u8 = 1;
const END_HEADERS: u8 = 4;

pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

/// A port where connections are taken when a test says so.
pub(crate) struct Port(TcpListener);

impl Port {
    pub(crate) async fn open() -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (Self(listener), address)
    }

    /// The next connection, greeted with these settings.
    pub(crate) async fn accept(&self, settings: &[(u16, u32)]) -> Peer {
        let (mut stream, _) = self.0.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).await.unwrap();
        let (windows, connection_window) = (HashMap::new(), 65_535);
        let mut peer = Peer { stream, windows, connection_window, stream_window: 65_535 };
        peer.settings(settings).await;
        peer
    }

    /// Refuses every request of every connection, and counts them; ends when dropped.
    pub(crate) async fn refuse_all(self, seen: &std::sync::atomic::AtomicUsize) {
        loop {
            let mut peer = self.accept(&ROOMY).await;
            while let Some(id) = peer.try_request().await {
                seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                peer.reset(id, REFUSED_STREAM).await;
            }
        }
    }
}

/// Settings with a window of 1 MiB for each stream.
pub(crate) const ROOMY: [(u16, u32); 1] = [(4, 1 << 20)];
/// The number of the setting that says how many streams may be open at once.
pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;

/// The server's end of a connection.
pub(crate) struct Peer {
    stream: TcpStream,
    /// What may still be sent: on each stream, on all of them, and on one that is new.
    windows: HashMap<u32, usize>,
    connection_window: usize,
    stream_window: usize,
}

/// A frame, as far as the tests care.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A head or data of this request.
    Request {
        id: u32,
        is_end: bool,
        data: usize,
    },
    Reset(u32),
    /// The client has seen all that was sent before the settings or the PING that this
    /// acknowledges.
    Acknowledged,
    /// A PING of the client's, which is answered.
    Ping,
    Other,
}

impl Peer {
    async fn send(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let head = [&length[1..], &[kind, flags], &id.to_be_bytes()].concat();
        // The client may be gone; the test then fails by what it expects of the client.
        let _ = self.stream.write_all(&[&head, payload].concat()).await;
    }

    pub(crate) async fn settings(&mut self, settings: &[(u16, u32)]) {
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend_from_slice(&name.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        self.send(SETTINGS, 0, 0, &payload).await;
        self.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 24).to_be_bytes()).await;
    }

    pub(crate) async fn go_away(&mut self, last: u32, reason: u32) {
        let payload = [last.to_be_bytes(), reason.to_be_bytes()].concat();
        self.send(GOAWAY, 0, 0, &payload).await;
    }

    pub(crate) async fn reset(&mut self, id: u32, reason: u32) {
        self.send(RST_STREAM, 0, id, &reason.to_be_bytes()).await;
    }

    /// Waits until the client has seen all that was sent.
    pub(crate) async fn settle(&mut self) {
        self.send(PING, 0, 0, b"settled?").await;
        while self.frame().await.expect("the connection goes on") != Frame::Acknowledged {}
    }

    /// The next frame; `None` when the client is gone. What has to be answered is.
    pub(crate) async fn frame(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let (kind, flags) = (head[3], head[4]);
        let id = u32::from_be_bytes(head[5..].try_into().unwrap());
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.stream.read_exact(&mut payload).await.ok()?;
        let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        Some(match kind {
            HEADERS => {
                self.windows.entry(id).or_insert(self.stream_window);
                Frame::Request { id, is_end: flags & END != 0, data: 0 }
            }
            DATA => Frame::Request { id, is_end: flags & END != 0, data: payload.len() },
            RST_STREAM => Frame::Reset(id),
            SETTINGS | PING if flags & END != 0 => Frame::Acknowledged,
            SETTINGS => {
                for setting in payload.chunks(6).filter(|setting| setting[..2] == [0, 4]) {
                    let window = u32::from_be_bytes(setting[2..].try_into().unwrap());
                    self.stream_window = usize::try_from(window).unwrap();
                }
                self.send(SETTINGS, END, 0, b"").await;
                Frame::Other
            }
            PING => {
                self.send(PING, END, 0, &payload).await;
                Frame::Ping
            }
            WINDOW_UPDATE => {
                let more = usize::try_from(number(0)).unwrap();
                match id {
                    0 => self.connection_window += more,
                    id => *self.windows.entry(id).or_default() += more,
                }
                Frame::Other
            }
            _ => Frame::Other,
        })
    }

    /// The next request, once all of it is there; `None` when the client is gone.
    pub(crate) async fn try_request(&mut self) -> Option<u32> {
        loop {
            if let Frame::Request { id, is_end: true, .. } = self.frame().await? {
                return Some(id);
            }
        }
    }

    pub(crate) async fn request(&mut self) -> u32 {
        self.try_request().await.expect("a request")
    }

    /// Answers a gRPC call with one empty message.
    pub(crate) async fn answer(&mut self, id: u32) {
        self.head(id).await;
        self.message(id).await;
        self.end(id).await;
    }

    pub(crate) async fn head(&mut self, id: u32) {
        let head = [&[0x88][..], &field("content-type", "application/grpc")].concat();
        self.send(HEADERS, END_HEADERS, id, &head).await;
    }

    pub(crate) async fn message(&mut self, id: u32) {
        self.data(id, &[0; 5]).await;
    }

    /// Sends data once the windows have room for it, as a server must.
    async fn data(&mut self, id: u32, data: &[u8]) {
        while self.connection_window < data.len() || self.windows[&id] < data.len() {
            self.frame().await.expect("the client gives room in its windows");
        }
        self.connection_window -= data.len();
        *self.windows.get_mut(&id).unwrap() -= data.len();
        self.send(DATA, 0, id, data).await;
    }

    /// Sends as much as the windows allow: empty messages, and what is begun of one.
    pub(crate) async fn fill(&mut self, id: u32) {
        loop {
            let room = self.windows[&id].min(self.connection_window).min(16_384);
            if room == 0 {
                return;
            }
            let messages = vec![0; room];
            self.data(id, &messages).await;
        }
    }

    pub(crate) async fn end(&mut self, id: u32) {
        self.send(HEADERS, END_HEADERS | END, id, &field("grpc-status", "0")).await;
    }

    /// Answers plain HTTP with an empty body.
    pub(crate) async fn answer_http(&mut self, id: u32) {
        self.send(HEADERS, END_HEADERS | END, id, &[0x88]).await;
    }
}

/// A header field as HPACK has it, neither compressed nor kept.
fn field(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}
