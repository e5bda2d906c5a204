//! Calls of every kind.

use bytes::Bytes;
use tidewire_service::{Body, Code, StreamKind};

use crate::pair::{command, pair, query, streamed, text};

fn numbers(count: u32) -> Body {
    let items = (0..count).map(|n| Ok(Bytes::from(n.to_string())));
    Body::stream(futures_util::stream::iter(items))
}

#[tokio::test]
async fn calls_of_every_kind_are_answered() {
    let (link, _served) = pair();
    let link = &link;
    assert_eq!(text(link.call(query("Say", Bytes::from("hello"))).await).await.unwrap(), "hello");
    assert_eq!(text(link.call(command("Count")).await).await.unwrap(), "1");
    assert_eq!(text(link.call(query("Fail", Body::Empty)).await).await, Err(Code::NotFound));
    let sum = link.call(streamed("Sum", StreamKind::Client, numbers(1000))).await;
    assert_eq!(text(sum).await.unwrap(), (0..1000).sum::<u32>().to_string());
    let one = link.call(streamed("Sum", StreamKind::Client, Bytes::from("5"))).await;
    assert_eq!(text(one).await.unwrap(), "5", "one message is a stream of one");
    let none = link.call(streamed("Sum", StreamKind::Client, Body::Empty)).await;
    assert_eq!(text(none).await.unwrap(), "0");
    let all = (0..1000).map(|n| n.to_string()).collect::<String>();
    let sent = link.call(streamed("Numbers", StreamKind::Server, Body::Empty)).await;
    assert_eq!(text(sent).await.unwrap(), all);
    let echoed = link.call(streamed("Echo", StreamKind::Bidi, numbers(1000))).await;
    assert_eq!(text(echoed).await.unwrap(), all);
}

#[tokio::test]
async fn a_body_larger_than_the_window_comes_whole_both_ways() {
    let (link, _served) = pair();
    let large = "0123456789".repeat(300_000);
    let said = link.call(query("Say", Bytes::from(large.clone()))).await;
    assert_eq!(text(said).await.unwrap(), large);
}

#[tokio::test]
async fn items_about_as_large_as_a_piece_come_as_they_are() {
    let (link, _served) = pair();
    for size in 16_370..16_390 {
        let item = Bytes::from(vec![b'x'; size]);
        let items = Body::stream(futures_util::stream::iter([Ok(item.clone()), Ok(item.clone())]));
        let echoed = link.call(streamed("Echo", StreamKind::Bidi, items)).await;
        assert_eq!(text(echoed).await.map(|text| text.len()), Ok(2 * size), "{size}");
        let said = link.call(query("Say", item)).await;
        assert_eq!(text(said).await.map(|text| text.len()), Ok(size), "{size}");
    }
}

#[tokio::test]
async fn a_thousand_calls_at_once_are_answered_in_turn() {
    let (link, _served) = pair();
    let calls = (0..2000).map(|n| {
        let link = link.clone();
        async move {
            text(link.call(query("Say", Bytes::from(n.to_string()))).await).await.unwrap()
        }
    });
    let answers = futures_util::future::join_all(calls).await;
    assert_eq!(answers, (0..2000).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_dropped_query_is_cancelled_and_a_dropped_command_runs_on() {
    let (link, served) = pair();
    for (call, runs_on) in [(query("Wait", Body::Empty), false), (command("Wait"), true)] {
        tokio::select! {
            _ = link.call(call) => panic!("nobody opened the gate"),
            () = served.echo.began.notified() => {}
        }
        // The cancel has arrived when what was sent after it is answered.
        assert_eq!(text(link.call(query("Say", Bytes::from("x"))).await).await.unwrap(), "x");
        tokio::task::yield_now().await;
        let dropped = std::mem::take(&mut *served.echo.dropped.lock().unwrap());
        assert_eq!(dropped.is_empty(), runs_on, "{dropped:?}");
    }
    served.echo.gate.notify_one();
    served.tasks.close();
    drop(link);
    while served.echo.counted.load(std::sync::atomic::Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
}
