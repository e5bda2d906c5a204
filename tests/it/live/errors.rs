//! What is not a success: of plain HTTP over live, of methods, and of watches whose caller lost his
//! rights.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidewire::http::{Method, StatusCode};
use tidewire::service::{Spec, StreamKind};
use tidewire::{
    Body, Call, Code, Codec, Context, Error, Head, Outcome, Reply, Result, Schema, Server, Service,
};
use tidewire_live_proto::Watch;

use super::by_hand::{ByHand, Told};
use super::client;
use crate::harness::{behaviour, send, start};
use crate::memoized::{built, served};

fn get(path: &str) -> Call {
    Call::http(Method::GET, path.parse().unwrap(), Context::default(), "")
}

#[tokio::test]
async fn plain_http_over_live_is_answered_by_its_route_and_is_not_found_elsewhere() {
    let (builder, _) = behaviour();
    let hello = |call: Call| async move {
        match call.describe().as_str() {
            text if text.contains("/teapot") => {
                Ok(Reply::new(Body::Full("short".into())).with_status(StatusCode::IM_A_TEAPOT))
            }
            text if text.contains("/fails") => Err(Error::already_exists("it is there")),
            _ => Ok(Reply::new(Body::Full("hello".into()))),
        }
    };
    let builder = builder.route(Method::GET, "/say/{what}", hello);
    let (_running, address) = start(builder).await;
    for scheme in ["ws", "tcp"] {
        let client = client(format!("{scheme}://{address}"));
        for (path, status, text) in [("/say/x", 200, "hello"), ("/say/teapot", 418, "short")] {
            let reply = client.call(get(path)).await.unwrap();
            assert_eq!(
                (reply.status.as_u16(), reply.body.collect(99).await.unwrap()),
                (status, text.into())
            );
        }
        let error = client.call(get("/say/fails")).await.unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::AlreadyExists, "it is there"));
        assert_eq!(error.outcome(), Outcome::Answered);
        let error = client.call(get("/nowhere")).await.unwrap_err();
        assert_eq!((error.code(), error.outcome()), (Code::NotFound, Outcome::NotRun), "{error}");
    }
}

/// As one is whose program ends in it.
#[tokio::test]
async fn a_command_of_which_nobody_knows_what_became_is_not_said_to_be_answered() {
    let service = "tidewire.test.v1.BehaviourService";
    let schema = Schema::from_folder(tidewire_tests::program::root().join("tests/proto")).unwrap();
    let lost = async |_: Call| -> Result<Reply> {
        Err(Error::aborted("it ended").with_outcome(Outcome::Unknown))
    };
    let builder = Server::builder().service(schema.serve(service, lost).unwrap());
    let (_running, address) = start(builder).await;
    let client = client(format!("tcp://{address}"));
    let spec = Spec::dynamic(service, "Echo", StreamKind::Unary, ["", ""]);
    let call = Call::method(Arc::new(spec), Context::default(), Codec::Json, "{}");
    let error = client.call(call).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Code::Aborted, Outcome::Unknown), "{error}");
}

#[tokio::test]
async fn what_is_not_there_is_the_same_error_over_live_as_over_rest() {
    let (_running, address, _) = served().await;
    send(address, "GET /rows/100", b"").await.check(404, &["no row has this id"]);
    let mut peer = ByHand::dial(address).await;
    let call = peer.ask("/test.v1.Rows/Get", r#"{"id":"100"}"#, Watch::No);
    assert_eq!(peer.next().await, Told::Failed(call, Code::NotFound));
}

#[tokio::test]
async fn a_watch_of_values_ends_with_the_gates_word_once_its_callers_rights_are_taken_away() {
    let may_read = Arc::new(AtomicBool::new(true));
    let known = Arc::clone(&may_read);
    let gate = move |head: &mut Head| -> Result<()> {
        match head.target.describe().ends_with("/Get") {
            true if !known.load(Ordering::SeqCst) => Err(Error::permission_denied("not any more")),
            _ => Ok(()),
        }
    };
    let (builder, _) = built();
    let (_running, address) = start(builder.gate(gate)).await;
    let mut peer = ByHand::dial(address).await;
    let call = peer.ask("/test.v1.Rows/Get", r#"{"id":"7"}"#, Watch::Values);
    while !matches!(peer.next().await, Told::Reply { is_watched: true, .. }) {}
    let write = async |value: &str| {
        let row = format!(r#"{{"id":"7","value":"{value}"}}"#);
        let head = "POST /rows\ncontent-type: application/json";
        send(address, head, row.as_bytes()).await.check(200, &[]);
    };
    write("41").await;
    while !matches!(peer.next().await, Told::Reply { text, .. } if text.contains("41")) {}
    may_read.store(false, Ordering::SeqCst);
    write("42").await;
    loop {
        match peer.next().await {
            Told::Failed(failed, code) => {
                assert_eq!((failed, code), (call, Code::PermissionDenied));
                break;
            }
            Told::Reply { text, .. } => panic!("{text} after the rights were taken away"),
            _ => {}
        }
    }
    assert_eq!(peer.session.usage().calls_out, 0);
}
