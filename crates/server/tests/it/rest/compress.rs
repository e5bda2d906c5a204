//! Replies to clients that take gzip.

use std::io::Read as _;

use flate2::read::GzDecoder;
use tidewire_rest::RestOptions;

use super::service::builder;
use crate::http::{Answer, get, send};

const GZIP: &str = "accept-encoding: br;q=0.9, gzip\r\n";

fn unpacked(answer: &Answer) -> String {
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    let mut text = String::new();
    GzDecoder::new(&answer.body[..]).read_to_string(&mut text).unwrap();
    text
}

#[tokio::test]
async fn a_long_reply_is_smaller_and_the_same_for_a_client_that_takes_gzip() {
    let server = builder(RestOptions::default()).start().await.unwrap();
    let target = format!("/query?text={}", "x".repeat(2000));
    let plain = get(&server, &target).await;
    assert_eq!(plain.header("content-encoding"), None);
    assert_eq!(plain.header("vary"), Some("accept-encoding"), "a cache must tell them apart");
    let packed = send(&server, "GET", &target, GZIP, b"").await;
    assert_eq!(packed.header("vary"), Some("accept-encoding"));
    assert_eq!(unpacked(&packed), plain.text());
    assert!(packed.body.len() < 500, "{}", packed.body.len());
    let head = send(&server, "HEAD", &target, GZIP, b"").await;
    let length = packed.body.len().to_string();
    assert_eq!((head.header("content-length"), head.body.len()), (Some(&*length), 0));
}

#[tokio::test]
async fn a_stream_is_compressed_batch_by_batch() {
    let server = builder(RestOptions::default()).start().await.unwrap();
    let plain = get(&server, "/count/20000").await;
    let packed = send(&server, "GET", "/count/20000", GZIP, b"").await;
    assert!(packed.complete);
    assert_eq!(unpacked(&packed), plain.text());
    let lines = "accept: application/x-ndjson\r\naccept-encoding: gzip\r\n";
    let lines = send(&server, "GET", "/count/3", lines, b"").await;
    assert_eq!(unpacked(&lines).lines().count(), 3);
}

#[tokio::test]
async fn what_is_short_raw_or_not_wanted_is_sent_as_it_is() {
    let server = builder(RestOptions::default()).start().await.unwrap();
    let long = format!("/query?text={}", "x".repeat(2000));
    for (target, headers) in [
        ("/query?text=x", GZIP),
        (&long, ""),
        (&long, "accept-encoding: gzip;q=0\r\n"),
        (&long, "accept-encoding: br\r\n"),
    ] {
        let answer = send(&server, "GET", target, headers, b"").await;
        assert_eq!(answer.header("content-encoding"), None, "{target} {headers}");
        assert!(answer.text().starts_with('{'));
    }
    let mut options = RestOptions::default();
    options.compression = false;
    let server = builder(options).start().await.unwrap();
    let answer = send(&server, "GET", &long, GZIP, b"").await;
    assert_eq!((answer.header("content-encoding"), answer.header("vary")), (None, None));
}
