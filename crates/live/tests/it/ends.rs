//! How connections and sessions end: by silence, by another connection, for good.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tidewire_live::{Arrival, ByteStream, ConnectionEnd, Reason, Violation};
use tidewire_service::{Body, Code, Outcome};
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::pair::{Served, client, command, pair, query, text};

/// Connections to a server that are lost for the client, and stay open for the server, when they
/// are told.
#[derive(Clone, Default)]
struct Torn {
    tear: Arc<Notify>,
    ends: Arc<Mutex<Vec<JoinHandle<Option<ConnectionEnd>>>>>,
}

impl Torn {
    fn connect(&self, served: &Served) -> DuplexStream {
        let (near, mut inner) = tokio::io::duplex(4096);
        let (mut outer, far) = tokio::io::duplex(4096);
        self.ends.lock().unwrap().push(served.serve(ByteStream::new(far)));
        let tear = Arc::clone(&self.tear);
        tokio::spawn(async move {
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut inner, &mut outer) => {}
                () = tear.notified() => {
                    drop(inner);
                    // What the server writes is not read, and nothing comes.
                    std::future::pending::<()>().await;
                    drop(outer);
                }
            }
        });
        near
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_seems_open_is_taken_over_by_the_next() {
    let (served, torn) = (Arc::new(Served::new()), Torn::default());
    let (server, tears) = (Arc::clone(&served), torn.clone());
    let link = client(move || Ok(tears.connect(&server)));
    let waits = tokio::spawn({
        let link = link.clone();
        async move { link.call(command("Wait")).await }
    });
    served.echo.began.notified().await;
    torn.tear.notify_one();
    // Answered over the second connection, long before the first would be missed.
    assert_eq!(text(link.call(query("Say", Bytes::from("a"))).await).await.unwrap(), "a");
    let first = torn.ends.lock().unwrap().remove(0);
    assert_eq!(first.await.unwrap(), Some(ConnectionEnd::TakenOver));
    served.echo.gate.notify_one();
    assert_eq!(text(waits.await.unwrap()).await.unwrap(), "waited");
    assert_eq!(served.echo.counted.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_falls_silent_is_asked_and_then_its_session_is_parked() {
    let served = Served::new();
    let (mut near, far) = tokio::io::duplex(4096);
    let serving = served.serve(ByteStream::new(far));
    let began = tokio::time::Instant::now();
    near_hello(&mut near).await;
    // A hello of the server, and a ping after ten seconds of silence.
    let mut heard = Vec::new();
    near.read_to_end(&mut heard).await.unwrap();
    assert_eq!(heard[heard.len() - 16..][8], 10, "a ping");
    assert_eq!(serving.await.unwrap(), Some(ConnectionEnd::Lost));
    assert!(began.elapsed() >= Duration::from_secs(25));
    assert_eq!(served.links.parked(), 1);
}

/// The hello of a dialer that can resume.
async fn near_hello(near: &mut DuplexStream) {
    use tokio::io::AsyncWriteExt;
    let mut hello = vec![28, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'T', b'W', b'L', b'V'];
    hello.extend([1, 4, 1, 0, 1, 0, 2, 1, 8, 0x0b, 16]);
    hello.extend([7; 16]);
    hello[0] = u8::try_from(hello.len() - 16).unwrap();
    near.write_all(&hello).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_says_no_hello_in_time_is_told_and_let_go() {
    let served = Served::new();
    let (mut near, far) = tokio::io::duplex(4096);
    let serving = served.serve(ByteStream::new(far));
    let mut heard = Vec::new();
    near.read_to_end(&mut heard).await.unwrap();
    assert_eq!(heard[8], 12, "a goaway");
    drop(near);
    assert_eq!(serving.await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_nothing_makes_nothing_grow_and_is_let_go() {
    let served = Served::new();
    let (mut near, far) = tokio::io::duplex(4096);
    let serving = served.serve(ByteStream::new(far));
    near_hello(&mut near).await;
    // It reads no byte: the pings that would answer for it never come either.
    assert_eq!(serving.await.unwrap(), Some(ConnectionEnd::Lost));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_resumes_is_given_up_and_its_command_runs_on() {
    let (served, opened) = (Arc::new(Served::new()), AtomicUsize::new(0));
    let links = Arc::clone(&served.links);
    tokio::spawn(async move { links.keep().await });
    let server = Arc::clone(&served);
    let (cut, cutting) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let ends = Arc::clone(&cut);
    let link = client(move || {
        if opened.fetch_add(1, Ordering::SeqCst) > 0 {
            return Err(tidewire_service::Error::unavailable("gone"));
        }
        let (near, mut inner) = tokio::io::duplex(4096);
        let (mut outer, far) = tokio::io::duplex(4096);
        server.serve(ByteStream::new(far));
        let ends = Arc::clone(&ends);
        tokio::spawn(async move {
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut inner, &mut outer) => {}
                () = ends.notified() => {}
            }
        });
        Ok(near)
    });
    drop(cutting);
    let call = |call| {
        let link = link.clone();
        tokio::spawn(async move { link.call(call).await })
    };
    let (asked, commanded) = (call(query("Wait", Body::Empty)), call(command("Wait")));
    served.echo.began.notified().await;
    served.echo.began.notified().await;
    cut.notify_one();
    let (asked, commanded) = (asked.await.unwrap(), commanded.await.unwrap());
    assert_eq!(asked.unwrap_err().outcome(), Outcome::Unknown);
    assert_eq!(commanded.unwrap_err().outcome(), Outcome::Unknown);
    tokio::time::advance(Duration::from_secs(200)).await;
    while served.links.parked() > 0 {
        tokio::task::yield_now().await;
    }
    while served.echo.dropped.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(*served.echo.dropped.lock().unwrap(), ["Wait"], "the query, and not the command");
    served.echo.gate.notify_one();
    served.tasks.close();
    served.tasks.wait().await;
    assert_eq!(served.echo.counted.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_refused_credential_ends_calls_and_is_not_shown_again_and_again() {
    let (served, opened) = (Arc::new(Served::new()), Arc::new(AtomicUsize::new(0)));
    let (links, count) = (Arc::clone(&served.links), Arc::clone(&opened));
    let link = client(move || {
        count.fetch_add(1, Ordering::SeqCst);
        let (near, far) = tokio::io::duplex(4096);
        let links = Arc::clone(&links);
        tokio::spawn(async move {
            let refuses = async |_| Err(Violation::new(Reason::Unauthenticated, "who are you"));
            links.greet(ByteStream::new(far), Arrival::default(), refuses).await.is_err()
        });
        Ok(near)
    });
    let error = link.call(query("Say", Body::Empty)).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Code::Unauthenticated, Outcome::NotRun));
    assert!(error.message().contains("who are you"), "{error}");
    assert!(!link.is_connected());
    assert_eq!(opened.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn bye_ends_the_session_on_both_sides() {
    let (link, served) = pair();
    assert_eq!(text(link.call(command("Count")).await).await.unwrap(), "1");
    drop(link);
    served.tasks.close();
    served.tasks.wait().await;
    assert_eq!(served.links.parked(), 0, "nobody will come back");
}
