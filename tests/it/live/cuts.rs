//! Connections that a proxy cuts after every byte: what was called has its answer, and ran once.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use tidewire::{Call, Outcome, Service, Stream};
use tidewire_tests::proto::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::client;
use crate::harness::{behaviour, start};

/// Which half of a connection is cut, after how many bytes.
#[derive(Debug, Clone, Copy)]
enum Cut {
    Sent(usize),
    Answered(usize),
}

/// Passes connections on to `server`; the first is cut.
async fn proxy(server: SocketAddr, cut: Cut) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut cut = Some(cut);
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect(server).await.unwrap();
            tokio::spawn(pass(near, far, cut.take()));
        }
    });
    address
}

/// Copies both ways until either is cut, or ends.
async fn pass(mut near: TcpStream, mut far: TcpStream, cut: Option<Cut>) {
    let (mut near_in, mut near_out) = near.split();
    let (mut far_in, mut far_out) = far.split();
    let (sent, answered) = match cut {
        Some(Cut::Sent(bytes)) => (bytes, usize::MAX),
        Some(Cut::Answered(bytes)) => (usize::MAX, bytes),
        None => (usize::MAX, usize::MAX),
    };
    tokio::select! {
        () = copy(&mut near_in, &mut far_out, sent) => {}
        () = copy(&mut far_in, &mut near_out, answered) => {}
    }
}

async fn copy(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
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

/// How often each command ran, by its text.
type Ran = Arc<Mutex<HashMap<String, usize>>>;

fn counting(ran: Ran) -> impl tidewire::Layer {
    move |inner: Arc<dyn Service>| -> Arc<dyn Service> {
        let ran = Arc::clone(&ran);
        Arc::new(move |mut call: Call| {
            let (ran, inner) = (Arc::clone(&ran), Arc::clone(&inner));
            async move {
                if call.describe().ends_with("/Echo") {
                    let message = call.message().await?;
                    let text = String::from_utf8_lossy(&message[2..]).into_owned();
                    *ran.lock().unwrap().entry(text).or_default() += 1;
                }
                inner.call(call).await
            }
        })
    }
}

/// A command, a query and streams both ways, over a connection that is cut.
async fn talk(server: SocketAddr, scheme: &str, cut: Cut) -> String {
    let address = proxy(server, cut).await;
    let typed = BehaviourServiceClient::new(client(format!("{scheme}://{address}")).channel());
    let text = format!("{scheme} {cut:?}");
    let echo = async {
        let request = EchoRequest { text: text.clone(), ..Default::default() };
        again(|| typed.echo(request.clone())).await.body.text
    };
    let look = async {
        let request = LookRequest { key: "k".into(), ..Default::default() };
        again(|| typed.look(request.clone())).await.body.value
    };
    let count = async {
        let request = CountRequest { n: 3, ..Default::default() };
        let mut numbers = again(|| typed.count(request.clone())).await.body;
        let mut seen = Vec::new();
        while let Some(number) = numbers.next().await.unwrap() {
            seen.push(number.number);
        }
        seen
    };
    let sum = async {
        let values = || (1..=4).map(|value| SumRequest { value, ..Default::default() });
        again(|| typed.sum(Stream::from_values(values()))).await.body.total
    };
    let (echoed, looked, counted, sum) = tokio::join!(echo, look, count, sum);
    assert_eq!((echoed.as_str(), looked.as_str()), (text.as_str(), "value of k"));
    assert_eq!((counted, sum), (vec![1, 2, 3], 10), "{text}");
    text
}

/// Makes a call again for as long as it surely did not run: there was no connection yet.
async fn again<T, F>(call: impl Fn() -> F) -> T
where
    F: Future<Output = tidewire::Result<T>>,
{
    loop {
        match call().await {
            Ok(reply) => return reply,
            Err(error) if error.outcome() == Outcome::NotRun => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_after_any_byte_loses_nothing_and_runs_nothing_twice() {
    let ran = Ran::default();
    let (builder, _) = behaviour();
    let (_running, address) = start(builder.layer(counting(Arc::clone(&ran)))).await;
    let cuts = |bytes| (1..bytes).flat_map(|n| [Cut::Sent(n), Cut::Answered(n)]);
    let of_tcp = cuts(700).map(|cut| talk(address, "tcp", cut));
    let of_tcp: Vec<_> = futures_util::stream::iter(of_tcp).buffer_unordered(64).collect().await;
    let of_ws = cuts(1100).step_by(7).map(|cut| talk(address, "ws", cut));
    let of_ws: Vec<_> = futures_util::stream::iter(of_ws).buffer_unordered(64).collect().await;
    let ran = ran.lock().unwrap().clone();
    for text in of_tcp.iter().chain(&of_ws) {
        assert_eq!(ran.get(text), Some(&1), "{text}");
    }
    assert_eq!(ran.len(), of_tcp.len() + of_ws.len());
}
