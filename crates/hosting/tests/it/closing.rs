//! A program that closes its connections between two calls and does not say so.

use http::Method;
use tidewire_service::{Outcome, Service};

use crate::{call, get, host, program};

const CLOSING: [&str; 4] =
    ["python3", "-I", "-S", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/closing.py")];

#[tokio::test]
async fn a_safe_request_on_a_connection_that_is_being_closed_goes_on_another() {
    let host = host();
    let hosted = host.add(program(&CLOSING, &[]), crate::patient_limits());
    assert_eq!(get(&hosted, "/").await.unwrap(), "GET");
    assert_eq!(get(&hosted, "/reset").await.unwrap(), "GET GET-lost GET");
    assert_eq!(get(&hosted, "/").await.unwrap(), "GET GET-lost GET G-lost GET");
    // Nobody knows whether a command was carried out.
    let error = hosted.call(call(Method::POST, "/", "text")).await.unwrap_err();
    assert_eq!((error.http_status().as_u16(), error.outcome()), (502, Outcome::Unknown));
    let seen = get(&hosted, "/").await.unwrap();
    assert_eq!(seen, "GET GET-lost GET G-lost GET POST-lost GET");
    assert_eq!(hosted.status().starts, 1);
    host.stop().await;
}

#[tokio::test]
async fn all_safe_requests_are_answered_where_each_connection_has_one_answer() {
    let host = host();
    let hosted = host.add(program(&CLOSING, &[]), crate::patient_limits());
    for _ in 0..50 {
        get(&hosted, "/close").await.unwrap();
    }
    host.stop().await;
}
