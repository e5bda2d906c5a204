//! The live protocol on the server's ports, over real sockets.

mod by_hand;
mod cuts;
mod ends;
mod errors;
mod foreign;
mod freshness;
mod hostile;
mod identity;
mod proxies;
mod slow;
mod tabs;
mod upgrade;

use std::net::SocketAddr;

use tidewire::service::{Idempotency, Spec, StreamKind};
use tidewire::{Call, Client, Codec, Context};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The head of an upgrade, but for what is sent of a browser.
const UPGRADE: &str = "GET /tidewire.live.v1\nupgrade: websocket\nsec-websocket-version: 13\n\
                       sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\n\
                       sec-websocket-protocol: tidewire.live.v1\n";

/// A hello of a dialer that offers nothing.
const HELLO: [u8; 22] = [
    6, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'T', b'W', b'L', b'V', // head
    1, 4, 1, 0, 1, 0, // versions 1 to 1
];

fn client(url: String) -> Client {
    Client::builder(url).build().unwrap()
}

/// `Look` of the behaviour service.
fn look(key: &str) -> Call {
    let service = "tidewire.test.v1.BehaviourService";
    let mut spec = Spec::dynamic(service, "Look", StreamKind::Unary, ["", ""]);
    spec.idempotency = Idempotency::NoSideEffects;
    let message = format!(r#"{{"key":"{key}"}}"#);
    Call::method(std::sync::Arc::new(spec), Context::default(), Codec::Json, message)
}

/// A WebSocket of which every byte is written by hand.
struct Raw(TcpStream);

impl Raw {
    async fn open(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = UPGRADE.replacen('\n', " HTTP/1.1\nhost: a\nconnection: upgrade\n", 1);
        let head = head.replace('\n', "\r\n");
        stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.unwrap());
        }
        let answer = String::from_utf8(answer).unwrap().to_lowercase();
        assert!(answer.starts_with("http/1.1 101"), "{answer}");
        // The example of RFC 6455, section 1.3.
        assert!(answer.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{answer}");
        assert!(answer.contains("sec-websocket-protocol: tidewire.live.v1"), "{answer}");
        assert!(!answer.contains("sec-websocket-extensions"), "{answer}");
        Self(stream)
    }

    /// Sends a message of up to 125 bytes, masked with zeros.
    async fn send(&mut self, opcode: u8, message: &[u8]) {
        let length = u8::try_from(message.len()).unwrap();
        assert!(length <= 125);
        let head = [0x80 | opcode, 0x80 | length, 0, 0, 0, 0];
        self.0.write_all(&[&head, message].concat()).await.unwrap();
    }

    /// The next message: its opcode and its bytes.
    async fn read(&mut self) -> (u8, Vec<u8>) {
        let head = [self.0.read_u8().await.unwrap(), self.0.read_u8().await.unwrap()];
        let length = match head[1] {
            126 => self.0.read_u16().await.unwrap(),
            length => length.into(),
        };
        let mut message = vec![0; length.into()];
        self.0.read_exact(&mut message).await.unwrap();
        (head[0] & 15, message)
    }

    /// The code of the close that the server sends, whatever comes before it.
    async fn close_code(&mut self) -> u16 {
        loop {
            let (opcode, message) = self.read().await;
            if opcode == CLOSE {
                return u16::from_be_bytes([message[0], message[1]]);
            }
        }
    }
}

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
