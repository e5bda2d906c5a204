//! Streams over every protocol: small items that go together, large ones, what ends them, and those
//! who leave.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tidewire::{Address, Client, Code, Error, Stream};
use tidewire_tests::proto::*;

use crate::client::ways;
use crate::harness::{behaviour, start};

/// Every way to a server over TCP, and the Unix socket of another.
async fn all_ways() -> (Vec<(String, Client)>, impl Sized) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("streams.sock");
    let unix: Address = format!("unix:{}", path.display()).parse().unwrap();
    let near = behaviour().0.listen(unix.clone()).start().await.unwrap();
    let (running, address) = start(behaviour().0).await;
    let mut all = ways(address);
    let builder = Client::builder(unix.to_string());
    all.push(("unix".into(), builder.protocol(tidewire::client::Protocol::Live).build().unwrap()));
    (all, (running, near, directory))
}

fn texts(sizes: impl Iterator<Item = usize>) -> Vec<String> {
    // None is another of its size, so that a mistake in their order shows.
    sizes
        .enumerate()
        .map(|(n, size)| format!("{n:04}").repeat(size / 4 + 1)[..size].into())
        .collect()
}

async fn chat(client: &Client, texts: Vec<Result<String, Error>>) -> (Vec<String>, Option<Code>) {
    let requests =
        texts.into_iter().map(|text| Ok(ChatRequest { text: text?, ..Default::default() }));
    let client = BehaviourServiceClient::new(client.channel());
    let mut came = Vec::new();
    let mut replies = match client.chat(Stream::from_results(requests)).await {
        Ok(reply) => reply.body,
        Err(error) => return (came, Some(error.code())),
    };
    loop {
        match replies.next().await {
            Ok(Some(reply)) => came.push(reply.text),
            Ok(None) => return (came, None),
            Err(error) => return (came, Some(error.code())),
        }
    }
}

/// What a future gives, unless it is dropped before, after so many polls.
async fn polled<T>(future: impl Future<Output = T>, times: i64) -> Option<T> {
    let (mut future, mut left) = (pin!(future), times);
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

#[tokio::test]
async fn items_of_every_size_come_back_in_order() {
    let (ways, _servers) = all_ways().await;
    let large = [0, 1, 0, 120, 127, 128, 5000, 16_370, 16_380, 16_384, 40_000, 0, 300_000, 1];
    let sent = texts((0..1000).map(|n| n % 40).chain(large).chain((0..1000).rev()));
    for (way, client) in ways {
        let (came, error) = chat(&client, sent.iter().cloned().map(Ok).collect()).await;
        assert!(
            came == sent && error.is_none(),
            "{way}: {} of {}, {error:?}",
            came.len(),
            sent.len()
        );
    }
}

#[tokio::test]
async fn an_error_comes_behind_all_that_was_made_before_it() {
    let (ways, _servers) = all_ways().await;
    for (way, client) in ways {
        for fail_after in [1, 127, 8192, 20_000] {
            let request = CountRequest { n: 30_000, fail_after, ..Default::default() };
            let client = BehaviourServiceClient::new(client.channel());
            let mut numbers = client.count(request).await.unwrap().body;
            for expected in 1..=fail_after {
                let number = numbers.next().await.unwrap().unwrap().number;
                assert_eq!(number, expected, "{way} {fail_after}");
            }
            let error = numbers.next().await.unwrap_err();
            assert_eq!(error.code(), Code::Aborted, "{way} {fail_after}");
            assert!(numbers.next().await.unwrap().is_none(), "{way}: nothing follows an error");
        }
        let fails = texts((0..3000).map(|n| n % 50)).into_iter().map(Ok);
        let fails = fails.chain([Err(Error::not_found("torn")), Ok("after it".into())]).collect();
        let (came, error) = chat(&client, fails).await;
        assert!(error.is_some() && !came.iter().any(|text| text == "after it"), "{way} {error:?}");
    }
}

#[tokio::test]
async fn who_leaves_a_stream_after_any_number_of_polls_may_go_on_calling() {
    let (ways, _servers) = all_ways().await;
    let sent = texts((0..200).map(|n| n % 30).chain([20_000, 0, 5]));
    for (way, client) in ways {
        let typed = BehaviourServiceClient::new(client.channel());
        for times in 0_i64.. {
            let came = polled(chat(&client, sent.iter().cloned().map(Ok).collect()), times).await;
            let request = EchoRequest { number: times, ..Default::default() };
            assert_eq!(typed.echo(request).await.unwrap().body.number, times, "{way}");
            if let Some(came) = came {
                assert!(came == (sent.clone(), None), "{way} {times}");
                break;
            }
        }
    }
}
