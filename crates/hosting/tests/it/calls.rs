//! Calls of a program that behaves.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::EXPECT;
use http::{HeaderValue, Method};
use tidewire_hosting::{Listen, Program, State};
use tidewire_service::{Body, Frame, Service};
use tokio::sync::mpsc;

use crate::ends::{ask_text, start_gateway_with};
use crate::{call, get, host, limits, programs, python, text};

#[tokio::test]
async fn a_program_is_started_by_its_first_call_however_it_listens() {
    for listen in [Listen::Inherited, Listen::Unix, Listen::Port] {
        let host = host();
        let hosted = host.add(python(&[]).listen(listen), crate::patient_limits());
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
        let hosted = host.add(program, crate::patient_limits());
        let reply = hosted.call(call(Method::PUT, "/", "text")).await.unwrap();
        assert_eq!(text(reply.body.collect(100).await.unwrap()), "text", "{listen:?}");
    }
    host.stop().await;
}

#[tokio::test]
async fn bodies_pass_in_both_directions_piece_by_piece_and_any_verb_does() {
    let host = host();
    let hosted = host.add(python(&[]), crate::patient_limits());
    // A GET seldom has a body, and may.
    for (verb, path) in [(Method::POST, "/echo"), (Method::GET, "/long-get")] {
        let (send, mut pieces) = mpsc::channel::<&'static str>(1);
        let body = Body::frames(futures_util::stream::poll_fn(move |cx| {
            pieces.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::Data(Bytes::from(piece)))))
        }));
        // Which is not held back.
        let mut call = call(verb, path, body);
        call.context.headers_mut().insert(EXPECT, HeaderValue::from_static("100-continue"));
        let reply = hosted.call(call);
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
    for program in programs(&[]) {
        let host = host();
        let idle = limits(|limits| limits.idle_freeze = Some(Duration::ZERO));
        let (hosted, other) = (host.add(program.clone(), idle.clone()), host.add(program, idle));
        let reply = hosted.call(call(Method::POST, "/echo", "text")).await.unwrap();
        // One whose answer was read is frozen meanwhile.
        get(&other, "/a").await.unwrap();
        other.until(|status| status.state == State::Frozen).await;
        assert_eq!(hosted.status().state, State::Ready, "its answer is still being read");
        assert_eq!(text(reply.body.collect(100).await.unwrap()), "text");
        hosted.until(|status| status.state == State::Frozen).await;
        host.stop().await;
    }
}

#[tokio::test]
async fn a_program_finds_a_clean_world() {
    // What the gateway inherited open passes to the supervisor, and no further.
    let path = std::env::temp_dir().join(format!("tidewire-inherited-{}", std::process::id()));
    let inherited = rustix::io::dup(std::fs::File::create(&path).unwrap()).unwrap();
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program.environment("STAGE", "test"), crate::patient_limits());
        let environment = get(&hosted, "/environment").await.unwrap();
        let names: Vec<_> = environment.lines().collect();
        for wanted in ["HOSTED_BY_TIDEWIRE", "LISTEN_FDS", "LISTEN_PID", "PATH", "STAGE"] {
            assert!(names.contains(&wanted), "{wanted} in {names:?}");
        }
        assert!(!names.iter().any(|name| name.starts_with("CARGO")), "{names:?}");

        let pid = get(&hosted, "/pid").await.unwrap();
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        // Its own connection may be closed meanwhile.
        let open = open.filter_map(|it| std::fs::read_link(it.unwrap().path()).ok());
        let open: Vec<_> = open.collect();
        assert!(!open.contains(&path), "{open:?}");
        // Its output and errors; whatever else it has is its socket and its own.
        let pipes = open.iter().filter(|link| link.to_string_lossy().starts_with("pipe:"));
        assert_eq!(pipes.count(), 2, "{open:?}");
        host.stop().await;
    }
    drop(inherited);
    std::fs::remove_file(path).unwrap();
}

/// What changes how an interpreter or a runtime starts, and whom it trusts.
const STEERING: [&str; 12] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "NODE_OPTIONS",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "GODEBUG",
    "GOGC",
    "GOTRACEBACK",
];

#[tokio::test]
async fn nothing_that_steers_a_runtime_passes_from_a_gateway_to_its_programs() {
    for command in crate::commands() {
        let steering = STEERING.map(|name| (name, "1"));
        let (mut gateway, socket) = start_gateway_with("steered", command, &steering).await;
        let environment = ask_text(&socket, "/environment");
        let names: Vec<_> = environment.lines().collect();
        assert!(names.contains(&"PATH"), "{names:?}");
        assert!(!names.iter().any(|name| STEERING.contains(name)), "{names:?}");
        gateway.kill().unwrap();
        gateway.wait().unwrap();
        std::fs::remove_file(&socket).unwrap();
    }
}
