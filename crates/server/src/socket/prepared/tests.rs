//! What is prepared of a response, how long it is given, and what all of it takes.

use std::sync::atomic::AtomicUsize;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tidewire_service::{CachedBody, Forms, FormsBudget, Interface, Service, Staleness, Validator};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use super::*;
use crate::limits::Limits;
use crate::socket::activity::{Activity, UnreadBytes};
use crate::socket::detect::DetectedProtocol;
use crate::socket::gather::Gather;

/// What a cache has.
struct Kept {
    age: Option<Duration>,
    forms: Forms,
    asked: AtomicUsize,
}

impl CachedBody for Kept {
    fn validator(&self) -> Option<Validator> {
        None
    }

    fn is_stale(&self, _: u64) -> bool {
        false
    }

    fn staleness(&self, _: u64) -> Arc<dyn Staleness> {
        unreachable!("nobody watches")
    }

    fn again(&self, version: u64) -> Option<Duration> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.age.filter(|_| version == 7)
    }

    fn body(&self) -> &Bytes {
        unreachable!("it is prepared")
    }

    fn forms(&self) -> &Forms {
        &self.forms
    }
}

fn kept(age: Option<u64>) -> Arc<dyn CachedBody> {
    let age = age.map(Duration::from_secs);
    let forms = Forms::new(Arc::new(FormsBudget::new(0)));
    Arc::new(Kept { age, forms, asked: AtomicUsize::new(0) })
}

fn hit(kept: &Arc<dyn CachedBody>) -> CachedHit {
    CachedHit::new(kept, 7, 0)
}

const GET: &[u8] = b"GET /a HTTP/1.1\r\nhost: a\r\n\r\n";
const POST: &[u8] = b"POST /a HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}";
const DATE: &str = "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

fn response(headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\n{headers}content-length: {length}\r\n{DATE}\r\n{body}")
}

/// What is answered to a request once it was answered so twice, but for the date.
fn again(request: &[u8], response: &str, age: u64, later: u64) -> Option<String> {
    let replies = PreparedReplies::new(1 << 20, None);
    let now = kept(Some(age));
    for _ in 0..2 {
        replies.prepare(request, response.as_bytes(), hit(&now), 0);
    }
    let at_first = kept(Some(later));
    let mut table = replies.shards.iter().map(|shard| shard.write());
    let found = table.find_map(|shard| {
        let reply = shard.replies.values().next()?;
        assert!(reply.answers(request) && !reply.answers(&request[1..]));
        let mut output = Vec::new();
        reply.write(at_first.again(7).unwrap(), &mut output);
        Some(String::from_utf8(output).unwrap())
    })?;
    let (head, body) = found.split_once("\r\n\r\n").unwrap();
    let lines: Vec<_> = head.lines().filter(|line| !line.starts_with("date: ")).collect();
    assert_eq!(head.lines().count(), lines.len() + 1, "one date");
    Some(format!("{}|{body}", lines.join("|")))
}

#[test]
fn a_response_is_given_as_it_was_but_for_its_date_and_age() {
    const HIT: &str = "cache-status: tidewire; hit\r\n";
    let told = |age: &str| response(&format!("{HIT}{age}"), "b");
    let expected = |age: &str| {
        let age = if age.is_empty() { String::new() } else { format!("|age: {age}") };
        Some(format!("HTTP/1.1 200 OK|cache-status: tidewire; hit{age}|content-length: 1|b"))
    };
    assert_eq!(again(GET, &told(""), 0, 0), expected(""));
    assert_eq!(again(GET, &told(""), 0, 3), expected("3"));
    assert_eq!(again(GET, &told("age: 0\r\n"), 0, 0), expected("0"));
    assert_eq!(again(GET, &told("age: 12\r\n"), 12, 345), expected("345"));
    // A second has begun since the response was made.
    assert_eq!(again(GET, &told(""), 1, 1), expected("1"));
    assert_eq!(again(GET, &told("age: 12\r\n"), 13, 13), expected("13"));
    let post = Some("HTTP/1.1 200 OK|content-length: 1|b".to_owned());
    assert_eq!(again(POST, &response("", "b"), 5, 6), post);
    let unchanged = format!("HTTP/1.1 304 Not Modified\r\n{HIT}{DATE}\r\n");
    let expected = "HTTP/1.1 304 Not Modified|cache-status: tidewire; hit|";
    assert_eq!(again(GET, &unchanged, 0, 0), Some(expected.to_owned()));
}

#[test]
fn what_may_be_another_the_next_time_is_not_prepared() {
    const HIT: &str = "cache-status: tidewire; hit\r\n";
    for (request, response, age) in [
        (GET, response("", "b"), 0),
        (GET, response("cache-status: tidewire; fwd=miss; stored\r\n", "b"), 0),
        (GET, response(&format!("{HIT}age: 3\r\n"), "b"), 5),
        (GET, response(&format!("{HIT}age: 3\r\n"), "b"), 2),
        (GET, response(&format!("{HIT}age: x\r\n"), "b"), 0),
        (GET, response(HIT, "b"), 2),
        (GET, response(&format!("{HIT}connection: close\r\n"), "b"), 0),
        (GET, response(&format!("{HIT}set-cookie: a=b\r\n"), "b"), 0),
        (GET, response(&format!("{HIT}{DATE}"), "b"), 0),
        (GET, response(HIT, "b") + "more", 0),
        (GET, response(HIT, "b").replace(DATE, ""), 0),
        (GET, response(HIT, "b").replace("content-length", "x-length"), 0),
        (GET, response(HIT, &"b".repeat(RESPONSE_BYTES_MAX)), 0),
        (b"GET /a HTTP/1.1\r\nCookie: a=b\r\n\r\n", response(HIT, "b"), 0),
        (b"GET /a HTTP/1.1\r\nauthorization: b\r\n\r\n", response(HIT, "b"), 0),
        (b"HEAD /a HTTP/1.1\r\n\r\n", response(HIT, ""), 0),
        (b"PUT /a HTTP/1.1\r\n\r\n", response(HIT, ""), 0),
    ] {
        assert_eq!(again(request, &response, age, age), None, "{response}");
    }
}

/// How many bytes of requests are answered.
fn answered(replies: &PreparedReplies, input: &[u8]) -> usize {
    replies.answer(input, &Arc::new(Peer::new(None)), &mut Vec::new(), usize::MAX).bytes
}

#[test]
fn memory_is_asked_for_each_request_and_the_editions_have_to_be_the_same() {
    let told = response("cache-status: tidewire; hit\r\n", "b");
    let replies = PreparedReplies::new(1 << 20, None);
    let answer = |request: &[u8]| answered(&replies, request);
    let now = kept(Some(0));
    replies.prepare(GET, told.as_bytes(), hit(&now), 0);
    assert_eq!(answer(GET), 0, "it may never come again");
    replies.prepare(GET, told.as_bytes(), hit(&now), 0);
    assert_eq!(answer(GET), GET.len());
    let twice = [GET, GET].concat();
    assert_eq!(answer(&twice), twice.len());
    assert_eq!(answer(&[GET, b"GET /b HTTP/1.1\r\n\r\n"].concat()), GET.len());
    assert_eq!(answer(&twice[..GET.len() + 5]), GET.len());
    assert_eq!(answer(&GET[..GET.len() - 1]), 0);
    replies.set_edition(1);
    assert_eq!(answer(GET), 0);
    replies.set_edition(0);
    assert_eq!(answer(GET), GET.len());
    drop(now);
    assert_eq!(answer(GET), 0, "it left memory");
    let stale = kept(None);
    replies.prepare(GET, told.as_bytes(), hit(&stale), 0);
    replies.prepare(GET, told.as_bytes(), hit(&stale), 0);
    assert_eq!(answer(GET), 0);
}

#[test]
fn all_of_it_takes_no_more_than_its_bound_and_what_is_used_stays() {
    let bytes_max = 64 << 10;
    let replies = PreparedReplies::new(bytes_max, None);
    let now = kept(Some(0));
    let told = response("cache-status: tidewire; hit\r\n", &"b".repeat(300));
    let request = |n: usize| format!("GET /{n} HTTP/1.1\r\n\r\n").into_bytes();
    let answers = |n: usize| answered(&replies, &request(n)) > 0;
    for n in 0..2000 {
        for _ in 0..2 {
            replies.prepare(&request(n), told.as_bytes(), hit(&now), 0);
        }
        assert!(answers(0), "{n}");
        let all = replies.shards.iter().map(|shard| shard.read());
        let counted: usize = all
            .map(|shard| {
                assert_eq!(shard.order.len(), shard.replies.len());
                let bytes = shard.replies.values().map(PreparedReply::bytes).sum::<usize>();
                assert_eq!(shard.bytes, bytes);
                bytes
            })
            .sum();
        assert!(counted <= bytes_max, "{counted}");
    }
    assert!((1..2000).filter(|n| answers(*n)).count() > 20);
}

/// Services that may change.
struct Changing(AtomicU64);

impl ServiceSource for Changing {
    fn edition(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn services(&self) -> Vec<(Interface, Arc<dyn Service>)> {
        Vec::new()
    }
}

#[test]
fn what_was_prepared_before_other_services_were_offered_is_not_given() {
    let source = Arc::new(Changing(AtomicU64::new(3)));
    let replies = PreparedReplies::new(1 << 20, Some(Arc::clone(&source) as _));
    let answer = || answered(&replies, GET);
    let now = kept(Some(0));
    let told = response("cache-status: tidewire; hit\r\n", "b");
    for _ in 0..2 {
        replies.prepare(GET, told.as_bytes(), hit(&now), 3);
    }
    assert_eq!(answer(), GET.len());
    source.0.store(4, Ordering::Relaxed);
    assert_eq!(answer(), 0);
    for _ in 0..2 {
        replies.prepare(GET, told.as_bytes(), hit(&now), 3);
    }
    assert_eq!(answer(), 0, "it was asked for before they changed");
    for _ in 0..2 {
        replies.prepare(GET, told.as_bytes(), hit(&now), 4);
    }
    assert_eq!(answer(), GET.len());
}

#[test]
fn a_small_bound_takes_large_responses() {
    let replies = PreparedReplies::new(40 << 10, None);
    let now = kept(Some(0));
    let told = response("cache-status: tidewire; hit\r\n", &"b".repeat(30_000));
    for _ in 0..2 {
        replies.prepare(GET, told.as_bytes(), hit(&now), 0);
    }
    assert_eq!(answered(&replies, GET), GET.len());
}

/// Polls once.
fn read(io: &mut (impl AsyncRead + Unpin), buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
    Pin::new(io).poll_read(&mut Context::from_waker(Waker::noop()), buf)
}

#[tokio::test]
async fn no_more_is_answered_ahead_than_is_held_for_a_client() {
    const REQUESTS: usize = 500;
    let limits = Limits::default();
    let activity = Activity::new(Arc::new(UnreadBytes::new(&limits)), &limits);
    let replies = Arc::new(PreparedReplies::new(1 << 20, None));
    let now = kept(Some(0));
    let told = response("cache-status: tidewire; hit\r\n", &"b".repeat(10_000));
    for _ in 0..2 {
        replies.prepare(GET, told.as_bytes(), hit(&now), 0);
    }
    replies.begin();
    let peer = Arc::new(Peer::new(None));
    let (mut client, server) = tokio::io::duplex(1 << 10);
    let first = (DetectedProtocol::Http1, Bytes::from(GET.repeat(REQUESTS)));
    let (mut gather, _) =
        Gather::new(server, first, Arc::clone(&activity), &limits, Some((&replies, &peer)));

    let mut space = vec![0; 1 << 16];
    assert!(read(&mut gather, &mut ReadBuf::new(&mut space)).is_pending());
    let few = replies.answer_count();
    assert!(few < 12, "{few} responses of 10 KB wait, and 64 KiB may");
    assert!(activity.is_blocked() && !activity.waits_for_head());
    let mut some = vec![0; 1 << 16];
    let mut got = 0;
    let reads = async {
        while got < REQUESTS * told.len() {
            got += client.read(&mut some).await.unwrap();
            assert!(read(&mut gather, &mut ReadBuf::new(&mut space)).is_pending());
        }
    };
    // Who polls by hand is not told that its turn is over.
    tokio::task::unconstrained(reads).await;
    assert_eq!((got, replies.answer_count()), (REQUESTS * told.len(), REQUESTS as u64));
    assert!(!activity.is_blocked());
}
