//! A large reply beside small calls on a slow link, in virtual time: 10 Mbit/s, 20 ms each way.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use tidewire_live_proto::{CallId, Config, Limits, OutgoingReply, Request, Session, feature};

use crate::heard::{Event, hear};
use crate::pair::Pair;

const BYTES_PER_MS: usize = 1_250;
const DELAY_MS: u64 = 20;
/// The owner takes output while less than this waits in the socket.
const SOCKET_BYTES: usize = 4 << 10;
const BODY_BYTES: usize = 64 << 20;
const CALLS: u64 = 1_000;

/// One direction: bytes that the socket took, and those on the way.
#[derive(Default)]
struct Link {
    socket: BytesMut,
    way: VecDeque<(u64, BytesMut)>,
}

impl Link {
    fn step(&mut self, from: &mut Session, to: &mut Session, now_ms: u64) {
        if self.socket.len() < SOCKET_BYTES {
            let mut out = Vec::new();
            from.poll_output(now_ms * 1000, &mut out);
            self.socket.extend_from_slice(&out);
        }
        let count = self.socket.len().min(BYTES_PER_MS);
        if count > 0 {
            self.way.push_back((now_ms + DELAY_MS, self.socket.split_to(count)));
        }
        while let Some((_, bytes)) = self.way.pop_front_if(|(at, _)| *at <= now_ms) {
            to.input().extend_from_slice(&bytes);
        }
        from.handle_timeout(now_ms * 1000);
    }
}

struct Outcome {
    /// Of each small call, sorted.
    millis: Vec<u64>,
    body: usize,
    took_ms: u64,
    output_max: usize,
    input_max: usize,
}

/// Makes the small calls, and a large one before them if there is a body.
fn run(body: &Bytes) -> Outcome {
    let limits = Limits { body_max: BODY_BYTES as u32, ..Config::default().limits };
    let features = feature::USUAL & !feature::ZSTD;
    let config = Config { limits, features, ..Config::default() };
    let mut pair = Pair::with(config.clone(), config);
    let method = pair.method();
    let large = pair.client.call(Request::query(method, &b"large"[..]), 0).unwrap();
    let (mut up, mut down) = (Link::default(), Link::default());
    let mut open: Vec<(CallId, u64)> = Vec::new();
    let mut outcome =
        Outcome { millis: Vec::new(), body: 0, took_ms: 0, output_max: 0, input_max: 0 };
    let (mut made, mut is_over) = (0, false);
    for now in 0.. {
        if made < CALLS && now % 50 == 7 {
            made += 1;
            let call = pair.client.call(Request::query(method, &b"small"[..]), now * 1000);
            open.push((call.unwrap(), now));
        }
        up.step(&mut pair.client, &mut pair.server, now);
        down.step(&mut pair.server, &mut pair.client, now);
        while let Some(event) = hear(&mut pair.server, now * 1000) {
            match event {
                Event::Request(asked) if asked.payload == b"large" => {
                    pair.server.reply_body(asked.call, &OutgoingReply::default(), body);
                }
                Event::Request(asked) => {
                    pair.server.reply(asked.call, OutgoingReply::new(&[1; 100]))
                }
                Event::Lost | Event::Closed(_) => panic!("{event:?}"),
                _ => {}
            }
        }
        while let Some(event) = hear(&mut pair.client, now * 1000) {
            match event {
                Event::Piece { call, bytes, .. } => {
                    outcome.body += bytes.len();
                    pair.client.consumed(call, bytes.len() as u64);
                }
                Event::Reply(answer) if answer.call != large => {
                    let at = open.iter().position(|(call, _)| *call == answer.call).unwrap();
                    outcome.millis.push(now - open.swap_remove(at).1);
                }
                Event::End { call, .. } => is_over |= call == large,
                Event::Reply(answer) => is_over |= !answer.payload.is_empty(),
                Event::Lost | Event::Closed(_) => panic!("{event:?}"),
                _ => {}
            }
        }
        let usage = [pair.client.usage(), pair.server.usage()];
        for usage in usage {
            outcome.output_max = outcome.output_max.max(usage.output_bytes);
            outcome.input_max =
                outcome.input_max.max(usage.input_bytes + usage.received_bytes as usize);
        }
        if is_over && made == CALLS && open.is_empty() {
            outcome.took_ms = now;
            break;
        }
    }
    outcome.millis.sort_unstable();
    outcome
}

fn p99(outcome: &Outcome) -> u64 {
    outcome.millis[outcome.millis.len() * 99 / 100]
}

#[test]
fn small_calls_wait_for_a_piece_of_a_large_reply_and_not_for_the_reply() {
    let alone = run(&Bytes::from_static(b"nothing"));
    let beside = run(&Bytes::from(vec![7; BODY_BYTES]));
    println!(
        "p99 of {CALLS} small calls: {} ms alone, {} ms beside; the body took {} ms; output at most {} bytes, input {}",
        p99(&alone),
        p99(&beside),
        beside.took_ms,
        beside.output_max,
        beside.input_max
    );
    assert_eq!((alone.millis.len(), beside.millis.len()), (CALLS as usize, CALLS as usize));
    assert_eq!(beside.body, BODY_BYTES);
    assert!(beside.millis.last() < Some(&1_000), "none waits for the body");
    assert!(p99(&beside) <= p99(&alone) + 40, "{} after {}", p99(&beside), p99(&alone));
    let at_line_rate = (BODY_BYTES / BYTES_PER_MS) as u64;
    assert!(beside.took_ms < at_line_rate * 11 / 10, "{} ms", beside.took_ms);
    assert!(beside.output_max <= 64 << 10 && beside.input_max <= 64 << 10, "memory is bounded");
}
