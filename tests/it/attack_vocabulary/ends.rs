//! Of every request an observer is told one end, and what its gates left is dropped after it:
//! `Observer`, `Observation`, `End` and `Head::leave`.

use std::time::Duration;

use tidewire::http::StatusCode;
use tidewire::server::Cors;
use tidewire::service::{EndReason, Phase};
use tidewire::{Code, Context, Stream};
use tidewire_tests::proto::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{PROTOCOLS, client, stage, told};
use crate::harness::{SERVICE, at_last, late, send, start};

#[tokio::test]
async fn whatever_is_asked_for_ends_once_with_the_status_that_was_sent_and_the_bytes() {
    let (builder, mut heard) = told(stage().reflection(true));
    let (_running, address) = start(builder).await;
    let json = "content-type: application/json";
    for (head, body, code) in [
        ("GET /plain/fine".to_owned(), "", None),
        ("GET /things/fine".into(), "", None),
        ("HEAD /plain/fine".into(), "", None),
        ("HEAD /things/fine".into(), "", None),
        ("GET /plain/missing".into(), "", Some(Code::NotFound)),
        ("HEAD /plain/missing".into(), "", Some(Code::NotFound)),
        ("GET /plain/refused".into(), "", Some(Code::ResourceExhausted)),
        ("GET /gone".into(), "", None),
        ("OPTIONS /plain/fine".into(), "", Some(Code::Unimplemented)),
        ("OPTIONS *".into(), "", Some(Code::NotFound)),
        ("DELETE /things/fine".into(), "", Some(Code::Unimplemented)),
        ("GET /nowhere".into(), "", Some(Code::NotFound)),
        ("BREW /plain/fine".into(), "", Some(Code::Unimplemented)),
        ("GET /openapi.json".into(), "", None),
        (format!("POST {SERVICE}/Nothing\n{json}"), "{}", Some(Code::Unimplemented)),
        (format!("POST {SERVICE}/Echo\ncontent-type: text/xml"), "<a/>", Some(Code::Unimplemented)),
        (format!("POST {SERVICE}/Echo\n{json}"), "{", Some(Code::InvalidArgument)),
        (format!("POST {SERVICE}/Echo\n{json}"), "{\"text\":\"a\"}", None),
        (format!("POST {SERVICE}/Panic\n{json}"), "{}", Some(Code::Internal)),
    ] {
        let answer = send(address, &head, body.as_bytes()).await;
        let told = heard.one().await;
        let what = format!("{head}: {told:?} {answer:?}");
        assert_eq!(told.end.status, StatusCode::from_u16(answer.status).ok(), "{what}");
        if !head.contains("Nothing") && !head.contains("xml") {
            assert_eq!(told.end.code, code, "{what}");
        }
        assert_eq!(told.end.bytes_out, answer.body.len() as u64, "{what}");
        if head.contains("Echo\ncontent-type: application/json") {
            assert_eq!(told.end.bytes_in, body.len() as u64, "{what}");
        }
        let how = if head.contains("Panic") { EndReason::Panicked } else { EndReason::Answered };
        assert_eq!(told.end.how, how, "{what}");
        heard.silent();
    }
}

#[tokio::test]
async fn of_health_observers_are_told_and_no_gate_is_asked() {
    let (builder, mut heard) = told(stage());
    let (_running, address) = start(builder).await;
    let check = "POST /grpc.health.v1.Health/Check\ncontent-type: application/json";
    send(address, check, b"{}").await.check(200, &["SERVING"]);
    assert!(matches!(heard.0.recv().await, Some(super::Event::Begin(_))));
    let end = heard.end().await;
    assert_eq!((end.how, end.code), (EndReason::Answered, None));
    heard.silent();
}

#[tokio::test]
async fn the_question_of_a_browser_is_the_one_request_that_nobody_is_told_of() {
    let (builder, mut heard) = told(stage().cors(Cors::new(["http://pages.example"])));
    let (_running, address) = start(builder).await;
    let question = "OPTIONS /plain/a\norigin: http://pages.example\n\
                    access-control-request-method: GET";
    send(address, question, b"").await.check(204, &[]);
    heard.silent();
    send(address, "OPTIONS /plain/a\norigin: http://pages.example", b"").await.check(405, &[]);
    assert_eq!(heard.one().await.target, "OPTIONS /plain/a");
}

#[tokio::test]
async fn a_compressed_answer_counts_as_it_was_handed_to_the_connection() {
    let (builder, mut heard) = told(stage());
    let (_running, address) = start(builder).await;
    let long = "a".repeat(4000);
    let answer = send(address, &format!("GET /things/{long}\naccept-encoding: gzip"), b"").await;
    assert!(answer.head.contains("content-encoding: gzip") && answer.body.len() < 1000);
    assert_eq!(heard.one().await.end.bytes_out, answer.body.len() as u64);
    let head = format!("HEAD /things/{long}\naccept-encoding: gzip");
    send(address, &head, b"").await.check(200, &[]);
    assert_eq!(heard.one().await.end.bytes_out, 0);
}

#[tokio::test]
async fn each_rpc_protocol_ends_once_answered_failed_panicked_late_and_canceled() {
    let (builder, mut heard) = told(stage());
    let (_running, address) = start(builder).await;
    for protocol in PROTOCOLS {
        let client = client(address, protocol);
        client.echo(EchoRequest::default()).await.unwrap();
        let told = heard.one().await;
        assert_eq!(
            (told.end.how, told.end.code),
            (EndReason::Answered, None),
            "{protocol:?} {told:?}"
        );

        client.panic(PanicRequest::default()).await.unwrap_err();
        let told = heard.one().await;
        let panicked = (EndReason::Panicked, Some(Code::Internal));
        assert_eq!((told.end.how, told.end.code), panicked, "{protocol:?} {told:?}");

        let request = CountRequest { n: 9, fail_after: 2, ..Default::default() };
        let mut replies = client.count(request).await.unwrap().body;
        while let Ok(Some(_)) = replies.next().await {}
        let told = heard.one().await;
        let aborted = (EndReason::Answered, Some(Code::Aborted));
        assert_eq!((told.end.how, told.end.code), aborted, "{protocol:?} {told:?}");

        // The caller goes away while the handler runs.
        let slow = SlowRequest { millis: 60_000, ..Default::default() };
        let context = || Context::default();
        let mut call = Box::pin(BehaviourService::slow(&client, context(), slow.clone()));
        loop {
            let _ = futures_util::poll!(&mut call);
            match heard.0.try_recv() {
                Ok(super::Event::Phase(Phase::Handler)) => break,
                _ => tokio::task::yield_now().await,
            }
        }
        drop(call);
        let end = heard.end().await;
        assert_eq!((end.how, end.status), (EndReason::Canceled, None), "{protocol:?} {end:?}");
        assert!(matches!(heard.0.recv().await, Some(super::Event::Dropped)), "{protocol:?}");
        heard.silent();

        let context = Context::default().with_deadline(at_last());
        let begins = async {
            let handles = |event| matches!(event, super::Event::Phase(Phase::Handler));
            while !handles(heard.0.recv().await.expect("it begins")) {}
        };
        late(BehaviourService::slow(&client, context, slow), begins).await.unwrap_err();
        let end = heard.end().await;
        let is_late = matches!(end.how, EndReason::Deadline | EndReason::Canceled);
        assert!(is_late, "{protocol:?} {end:?}");
        assert!(matches!(heard.0.recv().await, Some(super::Event::Dropped)), "{protocol:?}");
        heard.silent();
    }
}

#[tokio::test]
async fn a_stream_that_its_caller_drops_in_the_middle_is_canceled() {
    let (builder, mut heard) = told(stage());
    let (_running, address) = start(builder).await;
    for protocol in PROTOCOLS {
        let client = client(address, protocol);
        let requests = Stream::unfold((), async |()| {
            Some((Ok(ChatRequest { text: "a".into(), ..Default::default() }), ()))
        });
        let mut replies = client.chat(requests).await.unwrap().body;
        replies.next().await.unwrap().unwrap();
        drop(replies);
        let told = heard.one().await;
        assert_eq!(told.end.how, EndReason::Canceled, "{protocol:?} {told:?}");
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /endless HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    stream.read_u8().await.unwrap();
    drop(stream);
    let told = heard.one().await;
    assert_eq!(
        (told.end.how, told.end.status),
        (EndReason::Canceled, Some(StatusCode::OK)),
        "{told:?}"
    );
    heard.silent();
}

#[tokio::test]
async fn an_upgrade_ends_once() {
    let (builder, mut heard) = told(stage());
    let (_running, address) = start(builder).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = b"GET /upgrade HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
    stream.write_all(b"x").await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"xxx");
    let told = heard.one().await;
    let switched = (EndReason::Answered, Some(StatusCode::SWITCHING_PROTOCOLS), None);
    assert_eq!((told.end.how, told.end.status, told.end.code), switched, "{told:?}");
    heard.silent();
}

#[tokio::test]
async fn what_runs_when_the_server_is_dropped_or_drained_ends_as_drained() {
    let mut limits = tidewire::Limits::default();
    limits.drain_timeout = Duration::from_millis(30);
    for gently in [true, false] {
        for path in ["/endless", "/plain/stuck", "/things/stuck"] {
            let (builder, mut heard) = told(stage().limits(limits.clone()));
            let (running, address) = start(builder).await;
            let mut stream = TcpStream::connect(address).await.unwrap();
            let head = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            // It has begun.
            let Some(super::Event::Begin(_)) = heard.0.recv().await else { panic!("no begin") };
            loop {
                let Some(event) = heard.0.recv().await else { panic!("{path}") };
                if matches!(event, super::Event::Phase(Phase::Handler)) {
                    break;
                }
            }
            if gently {
                assert!(!running.drain().await, "{path}: it was cut off");
            } else {
                drop(running);
            }
            let mut end = None;
            loop {
                match heard.0.recv().await {
                    Some(super::Event::End(told)) => assert!(end.replace(told).is_none()),
                    Some(super::Event::Dropped) => break,
                    Some(_) => {}
                    None => panic!("{path} gently: {gently}: the guard was not dropped"),
                }
            }
            assert_eq!(end.unwrap().how, EndReason::Drained, "{path}, gently: {gently}");
        }
    }
}

#[tokio::test]
async fn a_body_over_the_limit_that_comes_in_chunks_is_an_end_with_413() {
    let mut limits = tidewire::Limits::default();
    limits.body_bytes_max = 10;
    let (builder, mut heard) = told(stage().limits(limits));
    let (_running, address) = start(builder).await;
    let chunked = b"b\r\nxxxxxxxxxxx\r\n0\r\n\r\n";
    send(address, "POST /sink\ntransfer-encoding: chunked", chunked).await.check(413, &[]);
    let told = heard.one().await;
    assert_eq!(told.end.code, Some(Code::ResourceExhausted), "{told:?}");
    assert_eq!(told.end.status, Some(StatusCode::PAYLOAD_TOO_LARGE), "{told:?}");
    send(address, "POST /sink", b"xxxxxxxxxxx").await.check(413, &[]);
    let told = heard.one().await;
    assert_eq!(told.end.code, Some(Code::ResourceExhausted), "{told:?}");
    send(address, "POST /sink", b"xxxxxxxxxx").await.check(200, &["10"]);
    assert_eq!(heard.one().await.end.bytes_in, 10);
    assert_eq!(heard.0.try_recv().ok().map(|_| ()), None);
}

#[tokio::test]
async fn a_phase_that_somebody_tells_late_twice_or_out_of_order_is_not_told() {
    // `Observation`: each phase at most once, in this order, and the end last.
    let (kept, mut keeps) = tokio::sync::mpsc::unbounded_channel();
    let layer = super::answering(move |call, inner: std::sync::Arc<dyn tidewire::Service>| {
        for phase in [Phase::Gates, Phase::Handler, Phase::Memo, Phase::Memo, Phase::Queued] {
            call.context.phase(phase);
        }
        kept.send(call.context.clone()).unwrap();
        inner.call(call)
    });
    let (builder, mut heard) = told(stage().layer(layer));
    let (_running, address) = start(builder).await;
    for head in ["GET /plain/a", "GET /things/a", "GET /plain/missing"] {
        send(address, head, b"").await;
        heard.one().await;
        keeps.recv().await.unwrap().phase(Phase::Written);
        heard.silent();
    }
}

#[tokio::test]
async fn a_request_that_ends_while_its_gate_waits_ends_once_too() {
    struct GateFuture;
    impl tidewire::Gate for GateFuture {
        fn admit(&self, _: &mut tidewire::Head) -> tidewire::gate::Admission {
            tidewire::gate::Admission::Waits
        }

        fn wait<'a>(&'a self, _: &'a mut tidewire::Head) -> tidewire::gate::GateFuture<'a> {
            Box::pin(std::future::pending())
        }
    }
    let mut limits = tidewire::Limits::default();
    limits.drain_timeout = Duration::from_millis(30);
    let (builder, mut heard) = told(stage().limits(limits));
    let (running, address) = start(builder.gate(GateFuture)).await;
    let begin = async || {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /plain/a HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        stream
    };
    let stream = begin().await;
    assert!(matches!(heard.0.recv().await, Some(super::Event::Begin(_))));
    assert!(matches!(heard.0.recv().await, Some(super::Event::Phase(Phase::Gates))));
    drop(stream);
    let ended = async |heard: &mut super::Heard, how| {
        let end = heard.end().await;
        assert_eq!((end.how, end.status), (how, None));
        assert!(matches!(heard.0.recv().await, Some(super::Event::Dropped)));
        heard.silent();
    };
    ended(&mut heard, EndReason::Canceled).await;
    send(address, "GET /plain/a\nconnect-timeout-ms: 20", b"").await.check(504, &[]);
    assert_eq!(heard.one().await.end.how, EndReason::Deadline);
    let _stream = begin().await;
    assert!(matches!(heard.0.recv().await, Some(super::Event::Begin(_))));
    assert!(matches!(heard.0.recv().await, Some(super::Event::Phase(Phase::Gates))));
    assert!(!running.drain().await);
    ended(&mut heard, EndReason::Drained).await;
}
