//! Calls of a program that behaves.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::Method;
use tidewire_process::{Life, Listen, Program, State};
use tidewire_service::{Body, Frame, Service};
use tokio::sync::mpsc;

use crate::{call, get, host, life, python, text};

#[tokio::test]
async fn a_program_is_started_by_its_first_call_however_it_listens() {
    for listen in [Listen::Inherited, Listen::Unix, Listen::Port] {
        let host = host();
        let hosted = host.add(python(&[]).listen(listen), Life::default());
        assert_eq!(hosted.status().state, State::Stopped);
        assert_eq!(get(&hosted, "/a?b=c&d").await.unwrap(), "/a?b=c&d", "{listen:?}");
        let pid: i32 = get(&hosted, "/pid").await.unwrap().parse().unwrap();
        let status = hosted.status();
        assert_eq!((status.state, status.pids, status.starts), (State::Ready, vec![pid], 1));
        host.stop().await;
        assert!(!crate::is_alive(pid));
    }
}

#[tokio::test]
async fn a_program_in_node_is_hosted_as_it_is() {
    let host = host();
    for (listen, place) in [
        (Listen::Port, "process.env.PORT"),
        (Listen::Unix, "process.env.SOCKET"),
        (Listen::Inherited, "{ fd: 3 }"),
    ] {
        let script = format!(
            "require('http').createServer((asked, answer) => {{ asked.pipe(answer) }}).listen({place})"
        );
        let program = Program::new("node", ["node", "-e", &script]).listen(listen);
        let hosted = host.add(program, Life::default());
        let reply = hosted.call(call(Method::PUT, "/", "text")).await.unwrap();
        assert_eq!(text(reply.body.collect(100).await.unwrap()), "text", "{listen:?}");
    }
    host.stop().await;
}

#[tokio::test]
async fn bodies_pass_in_both_directions_piece_by_piece_and_any_verb_does() {
    let host = host();
    let hosted = host.add(python(&[]), Life::default());
    // A GET seldom has a body, and may.
    for (verb, path) in [(Method::POST, "/echo"), (Method::GET, "/long-get")] {
        let (send, mut pieces) = mpsc::channel::<&'static str>(1);
        let body = Body::frames(futures_util::stream::poll_fn(move |cx| {
            pieces.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::Data(Bytes::from(piece)))))
        }));
        let reply = hosted.call(call(verb, path, body));
        let Body::Stream(mut frames) = reply.await.unwrap().body else { panic!("a stream") };
        for piece in ["one", "two", "three"] {
            // The next piece is sent once this one is back.
            send.send(piece).await.unwrap();
            match frames.next().await {
                Some(Ok(Frame::Data(data))) => assert_eq!(data, piece),
                other => panic!("{other:?}"),
            }
        }
        drop(send);
        assert!(frames.next().await.is_none());
    }
    let verb = Method::from_bytes(b"PROPFIND").unwrap();
    let reply = hosted.call(call(verb, "/x", Body::Empty)).await.unwrap();
    assert_eq!(text(reply.body.collect(100).await.unwrap()), "PROPFIND /x");
    host.stop().await;
}

#[tokio::test]
async fn an_open_answer_keeps_its_process_busy() {
    let host = host();
    let hosted = host.add(python(&[]), life(|life| life.idle_stop = Some(Duration::ZERO)));
    let reply = hosted.call(call(Method::POST, "/echo", "text")).await.unwrap();
    assert_eq!(hosted.status().state, State::Ready, "its answer is still being read");
    assert_eq!(text(reply.body.collect(100).await.unwrap()), "text");
    hosted.until(|status| status.state == State::Stopped).await;
    host.stop().await;
}

#[tokio::test]
async fn a_program_finds_a_clean_world() {
    // What the gateway inherited open passes to the warden, and no further.
    let inherited = rustix::io::dup(std::io::stderr()).unwrap();
    let host = host();
    drop(inherited);
    let program = python(&[]).environment("STAGE", "test");
    let hosted = host.add(program, Life::default());
    let environment = get(&hosted, "/environment").await.unwrap();
    let names: Vec<_> = environment.lines().collect();
    for wanted in ["HOSTED_BY_TIDEWIRE", "LISTEN_FDS", "LISTEN_PID", "PATH", "STAGE"] {
        assert!(names.contains(&wanted), "{wanted} in {names:?}");
    }
    assert!(!names.iter().any(|name| name.starts_with("CARGO")), "{names:?}");
    assert_eq!(get(&hosted, "/sigpipe").await.unwrap(), "True", "as Python itself sets it");
    assert_eq!(get(&hosted, "/blocked").await.unwrap(), "0", "no signal is");
    // The streams, its socket, the connection, and the folder that is being listed.
    assert_eq!(get(&hosted, "/descriptors").await.unwrap(), "0 1 2 3 4 5");
    host.stop().await;
}
