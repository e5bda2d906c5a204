//! A session whose peer comes back over another connection while the old one is in the middle of
//! something.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::FutureExt as _;
use tidewire_live::{Arrival, ByteStream, Config, Connection, Identity, Link};
use tidewire_live_proto::{Event, Request, Session};
use tidewire_service::Codec;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use crate::pair::Served;

/// What came of the second connection: its near end, and what is to be run of its far one.
type Second = (DuplexStream, (Link, Connection<ByteStream<DuplexStream>>));

/// The bytes that a session has to write.
fn output(session: &mut Session) -> Vec<u8> {
    let mut out = Vec::new();
    session.poll_output(0, &mut out);
    out
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_taken_over_while_it_answers_takes_no_hello_of_the_new_one() {
    let served = Arc::new(Served::new());
    let config = Config { boot: Some([2; 16]), ..Config::default() };
    let session = Arc::new(Mutex::new(Session::dialer(config)));
    let (mut near, far) = tokio::io::duplex(64 << 10);
    served.serve(ByteStream::new(far));
    let hello = {
        let mut session = session.lock().unwrap();
        session.connect(0);
        output(&mut session)
    };
    near.write_all(&hello).await.unwrap();
    let mut heard = vec![0; 4096];
    loop {
        let count = near.read(&mut heard).await.unwrap();
        let mut session = session.lock().unwrap();
        session.input().extend_from_slice(&heard[..count]);
        if matches!(session.poll_event(0), Some(Event::Connected { .. })) {
            break;
        }
    }

    let second: Arc<Mutex<Option<Second>>> = Arc::default();
    let (links, dialer, made) =
        (Arc::clone(&served.links), Arc::clone(&session), Arc::clone(&second));
    *served.echo.meanwhile.lock().unwrap() = Some(Box::new(move || {
        let hello = {
            let mut session = dialer.lock().unwrap();
            session.connection_lost(0);
            while session.poll_event(0).is_some() {}
            session.connect(0);
            output(&mut session)
        };
        let (near, far) = tokio::io::duplex(64 << 10);
        let arrival = Arrival { first: hello.into(), ..Arrival::default() };
        let greeted = links.greet(ByteStream::new(far), arrival, async |_| Ok(Identity::default()));
        let greeted = greeted.now_or_never().and_then(Result::ok).unwrap();
        *made.lock().unwrap() = Some((near, greeted));
    }));
    let call = {
        let mut session = session.lock().unwrap();
        let method = session.method("/test.v1.Echo/Meanwhile", Codec::Proto);
        session.call(Request::query(method, Bytes::new()), 0).unwrap();
        output(&mut session)
    };
    near.write_all(&call).await.unwrap();

    let (mut near, (_link, connection)) = loop {
        tokio::task::yield_now().await;
        if let Some(second) = second.lock().unwrap().take() {
            break second;
        }
    };
    tokio::spawn(connection.run());
    let mut head = [0; 16];
    near.read_exact(&mut head).await.unwrap();
    assert_eq!(head[8], 1, "the first frame is a hello: {head:?}");
}
