//! Requests of every protocol over HTTP/1.1 that come again: what is prepared for them is what a
//! server says that prepares nothing.

use std::fmt::Write as _;
use std::net::SocketAddr;

use tidewire::gate::Admission;
use tidewire::telemetry::Metrics;
use tidewire::{Gate, Head, Limits, RunningServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::harness::start;
use crate::memoized::{Rows, built};

/// One server and a connection to it.
struct Side {
    running: RunningServer,
    address: SocketAddr,
    rows: Rows,
    client: BufReader<TcpStream>,
    metrics: Metrics,
}

/// Lets all pass, also without a look at them.
struct Open;

impl Gate for Open {
    fn admit(&self, _: &mut Head) -> Admission {
        Admission::Ready(Ok(()))
    }

    fn admits_again(&self, _: &Head) -> bool {
        true
    }
}

impl Side {
    async fn new(prepared_bytes_max: usize, observed: bool) -> Self {
        let (mut builder, rows) = built();
        let metrics = Metrics::new();
        if observed {
            builder = builder.observer(metrics.clone()).gate(Open);
        }
        let mut limits = Limits::default();
        limits.prepared_bytes_max = prepared_bytes_max;
        let (running, address) = start(builder.limits(limits)).await;
        let client = BufReader::new(TcpStream::connect(address).await.unwrap());
        Self { running, address, rows, client, metrics }
    }

    /// What was counted of requests that are over, but for times.
    async fn figures(&self) -> Vec<String> {
        loop {
            let figures = self.metrics.figures();
            if figures.iter().all(|figures| figures.running == 0) {
                let shown = figures.into_iter().map(|mut figures| {
                    (figures.p50_us, figures.p99_us) = (0, 0);
                    format!("{figures:?}")
                });
                return shown.collect();
            }
            tokio::task::yield_now().await;
        }
    }

    /// The response to a request but for `date` and `age`.
    async fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        self.client.get_mut().write_all(request).await.unwrap();
        let (mut text, mut length) = (Vec::new(), 0);
        loop {
            let mut line = String::new();
            while !line.ends_with("\r\n") {
                line.push(char::from(self.client.read_u8().await.unwrap()));
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim_end().parse().unwrap();
            }
            assert!(!line.starts_with("transfer-encoding"), "{line}");
            if line == "\r\n" {
                break;
            }
            if !line.starts_with("date: ") && !line.starts_with("age: ") {
                text.extend_from_slice(line.as_bytes());
            }
        }
        let begin = text.len();
        if !text.starts_with(b"HTTP/1.1 304") {
            text.resize(begin + length, 0);
            self.client.read_exact(&mut text[begin..]).await.unwrap();
        }
        text
    }
}

fn get(path: &str, headers: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: test\r\n{headers}\r\n").into_bytes()
}

fn post(path: &str, kind: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut request = format!("POST {path} HTTP/1.1\r\nhost: test\r\ncontent-type: {kind}\r\n");
    write!(request, "content-length: {}\r\n{headers}\r\n", body.len()).unwrap();
    [request.as_bytes(), body].concat()
}

fn requests(id: u8) -> Vec<Vec<u8>> {
    let json = format!(r#"{{"id":"{id}"}}"#);
    let proto = [8, id];
    let framed = [&[0, 0, 0, 0, 2][..], &proto].concat();
    let mut all = Vec::new();
    for (method, path) in [("Get", "rows"), ("Long", "long"), ("Mine", "mine")] {
        let rest = format!("/{path}/{id}");
        let called = format!("/test.v1.Rows/{method}");
        let message = json.replace('{', "%7B").replace('}', "%7D").replace('"', "%22");
        let query = format!("{called}?connect=v1&encoding=json&message={message}");
        for headers in [
            "",
            "accept-encoding: gzip\r\n",
            "authorization: Bearer a\r\n",
            "authorization: Bearer b\r\n",
            "cookie: a=b\r\n",
            "if-none-match: *\r\n",
            "origin: https://other.example\r\n",
            "connect-timeout-ms: 100000\r\n",
        ] {
            all.extend([get(&rest, headers), get(&query, headers)]);
            all.push(post(&called, "application/json", headers, json.as_bytes()));
            all.push(post(&called, "application/proto", headers, &proto));
            all.push(post(&called, "application/grpc-web", headers, &framed));
        }
    }
    all.push(get(&format!("/page/{id}"), ""));
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn every_protocol_says_what_it_says_unprepared() {
    compare(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_protocol_is_counted_as_it_is_unprepared() {
    compare(true).await;
}

async fn compare(observed: bool) {
    let mut sides = [Side::new(16 << 20, observed).await, Side::new(0, observed).await];
    let mut prepared = 0;
    // The last one is not found.
    for id in [7, 101] {
        for value in 0..3 {
            for request in requests(id) {
                let shown = String::from_utf8_lossy(&request).into_owned();
                let mut told = Vec::new();
                for _ in 0..6 {
                    let [one, two] = &mut sides;
                    let [one, two] = [one.ask(&request).await, two.ask(&request).await];
                    let [one, two] = [&one, &two].map(|it| String::from_utf8_lossy(it));
                    assert_eq!(one, two, "{shown}");
                    told.push(one.into_owned());
                }
                assert_eq!(told[2], told[5], "{shown}");
                let answers = |side: &Side| side.running.usage().prepared_answers;
                // What is not found is printed each time, and credentials are not kept.
                let is_prepared =
                    id == 7 && !shown.contains("authorization") && !shown.contains("cookie");
                let of_last = answers(&sides[0]) - prepared;
                let wanted = if is_prepared { 3..7 } else { 0..1 };
                assert!(wanted.contains(&of_last), "{of_last} of six were prepared: {shown}");
                assert_eq!(answers(&sides[1]), 0);
                prepared += of_last;
            }
            for side in &mut sides {
                let row = format!(r#"{{"id":"{id}","value":"{value}"}}"#);
                let set = post("/rows", "application/json", "", row.as_bytes());
                let text = side.ask(&set).await;
                assert!(text.starts_with(b"HTTP/1.1 200 "), "{}", side.address);
            }
        }
    }
    let [one, two] = &sides;
    assert_eq!(one.rows.looks(), two.rows.looks());
    let [one, two] = [one.figures().await, two.figures().await];
    assert_eq!((one.is_empty(), &one), (!observed, &two));
}
