//! Peers that break the rules, fall silent or do not read.

use std::time::Duration;

use tidewire::{Limits, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{BINARY, HELLO, Raw, TEXT, client, look};
use crate::harness::{behaviour, send, start};

#[tokio::test]
async fn a_text_message_and_part_of_a_frame_are_malformed() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    for greeted in [false, true] {
        for (opcode, message) in [(TEXT, &b"hello"[..]), (BINARY, &[1, 2, 3]), (BINARY, b"")] {
            let mut raw = Raw::open(address).await;
            if greeted {
                raw.send(BINARY, &HELLO).await;
                let (opcode, hello) = raw.read().await;
                assert_eq!((opcode, &hello[12..16]), (BINARY, &b"TWLV"[..]));
            }
            raw.send(opcode, message).await;
            assert_eq!(raw.close_code().await, 4005, "malformed");
        }
    }
}

#[tokio::test]
async fn who_says_no_hello_is_told_so_and_closed() {
    let (builder, _) = behaviour();
    let mut limits = Limits::default();
    limits.handshake_timeout = Duration::from_millis(50);
    limits.header_read_timeout = Duration::from_millis(50);
    let (_running, address) = start(builder.limits(limits)).await;
    assert_eq!(Raw::open(address).await.close_code().await, 4017, "handshake_timeout");
    let mut half = TcpStream::connect(address).await.unwrap();
    half.write_all(&HELLO[..20]).await.unwrap();
    let mut answer = Vec::new();
    half.read_to_end(&mut answer).await.unwrap();
    // A goaway, among whose metadata is the reason: tag 16, one byte, 17.
    assert!(answer[8] == 12 && answer.windows(3).any(|field| field == [16, 1, 17]), "{answer:?}");
}

#[tokio::test]
async fn bytes_that_are_no_protocol_are_answered_as_http() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut wrong = HELLO;
    wrong[15] = b'X';
    stream.write_all(&wrong).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
}

#[tokio::test]
async fn a_connection_that_breaks_a_rule_leaves_others_alone() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    let client = client(format!("tcp://{address}"));
    client.call(look("a")).await.unwrap();
    let mut wrong = TcpStream::connect(address).await.unwrap();
    // A second hello.
    wrong.write_all(&[HELLO, HELLO].concat()).await.unwrap();
    let mut answer = Vec::new();
    wrong.read_to_end(&mut answer).await.unwrap();
    assert!(answer.ends_with(b"second hello") || answer.len() > 40, "{answer:?}");
    client.call(look("b")).await.unwrap();
    send(address, "GET /nowhere", b"").await.check(404, &[]);
}
