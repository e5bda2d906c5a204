//! Connections that end at any byte, in either direction: what was called has its answer, and
//! commands run once. The clock is paused, so waiting to dial again takes no time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tidewire_live::ByteStream;
use tidewire_service::{Body, Error, Outcome, Result, StreamKind};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};

use crate::pair::{Served, client, command, query, streamed, text};

/// How many bytes each direction lets pass.
#[derive(Debug, Clone, Copy)]
struct Passes {
    sent: usize,
    answered: usize,
}

const ALL: Passes = Passes { sent: usize::MAX, answered: usize::MAX };

/// A connection to `served` that ends after so many bytes.
fn connect(served: &Served, passes: Passes) -> DuplexStream {
    let (near, mut inner) = tokio::io::duplex(4096);
    let (mut outer, far) = tokio::io::duplex(4096);
    served.serve(ByteStream::new(far));
    tokio::spawn(async move {
        let (mut near_in, mut near_out) = tokio::io::split(&mut inner);
        let (mut far_in, mut far_out) = tokio::io::split(&mut outer);
        tokio::select! {
            () = copy(&mut near_in, &mut far_out, passes.sent) => {}
            () = copy(&mut far_in, &mut near_out, passes.answered) => {}
        }
    });
    near
}

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut left: usize,
) {
    let mut buffer = [0; 4096];
    while left > 0 {
        let space = left.min(buffer.len());
        match from.read(&mut buffer[..space]).await {
            Ok(read @ 1..) if to.write_all(&buffer[..read]).await.is_ok() => left -= read,
            _ => return,
        }
    }
}

/// Makes a call again for as long as it surely did not run.
async fn again<F>(call: impl Fn() -> F) -> String
where
    F: Future<Output = Result<tidewire_service::Reply>>,
{
    loop {
        match call().await {
            Err(error) if error.outcome() == Outcome::NotRun => {}
            outcome => return text(outcome).await.unwrap(),
        }
    }
}

/// Everything at once over connections of which the first two are cut.
async fn talk(passes: Passes) {
    let served = Arc::new(Served::new());
    let (server, opened) = (Arc::clone(&served), AtomicUsize::new(0));
    let link = client(move || {
        let nth = opened.fetch_add(1, Ordering::SeqCst);
        Ok(connect(&server, if nth < 2 { passes } else { ALL }))
    });
    let link = &link;
    let items = || (0..4).map(|n: u32| Ok(Bytes::from(n.to_string())));
    let sums = || Body::stream(futures_util::stream::iter(items()));
    let (counted, said, sum, numbers) = tokio::join!(
        again(|| link.call(command("Count"))),
        again(|| link.call(query("Say", Bytes::from("hello")))),
        again(|| link.call(streamed("Sum", StreamKind::Client, sums()))),
        again(|| link.call(streamed("Numbers", StreamKind::Server, Body::Empty))),
    );
    let all = (0..1000).map(|n| n.to_string()).collect::<String>();
    assert_eq!((counted.as_str(), said.as_str(), sum.as_str()), ("1", "hello", "6"), "{passes:?}");
    assert_eq!(numbers, all, "{passes:?}");
    assert_eq!(served.echo.counted.load(Ordering::SeqCst), 1, "{passes:?}: it ran once");
}

#[tokio::test(start_paused = true)]
async fn a_connection_cut_after_any_byte_that_was_sent_loses_nothing() {
    for sent in 1..500 {
        talk(Passes { sent, ..ALL }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_cut_after_any_byte_that_was_answered_loses_nothing() {
    for answered in (1..500).chain((500..5000).step_by(97)) {
        talk(Passes { answered, ..ALL }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_never_sent_ends_with_the_first_connection_that_there_is_not() {
    let link = client(|| Err(Error::unavailable("nobody is there")));
    let error = link.call(command("Count")).await.unwrap_err();
    assert_eq!((error.message(), error.outcome()), ("nobody is there", Outcome::NotRun));
}
