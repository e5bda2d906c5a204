//! Upstreams that are not there, or go away.

use std::time::Duration;

use http::{Method, StatusCode};
use tidewire_proxy::{Route, Routes};
use tidewire_service::{Body, Code, Error, Service};

use crate::origin::{Origin, Step, ok, response};
use crate::{call, get, text, upstream, upstream_with};

/// A URL where nothing listens.
fn nowhere() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

fn told(error: &Error) -> (StatusCode, &str) {
    let why = error.headers().get("proxy-status").map(|value| value.to_str().unwrap());
    (error.http_status(), why.unwrap_or("none"))
}

#[tokio::test]
async fn each_failure_is_named_as_rfc_9209_has_it() {
    let refused = upstream(&[&nowhere()]);
    let error = get(&refused, "/").await.unwrap_err();
    assert_eq!(told(&error), (StatusCode::BAD_GATEWAY, "tidewire; error=connection_refused"));
    assert_eq!(error.message(), "shop refused the connection", "not where it is");

    let unknown = upstream(&["http://no-such-host.invalid:1"]);
    let error = get(&unknown, "/").await.unwrap_err();
    assert_eq!(told(&error), (StatusCode::BAD_GATEWAY, "tidewire; error=dns_error"));

    let missing = upstream(&["unix:/no/such/folder/a.sock"]);
    let error = get(&missing, "/").await.unwrap_err();
    assert_eq!(told(&error), (StatusCode::BAD_GATEWAY, "tidewire; error=destination_unavailable"));

    for (said, expected) in [
        ("", "tidewire; error=connection_terminated"),
        ("SSH-2.0-OpenSSH\r\n\r\n", "tidewire; error=http_protocol_error"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "tidewire; error=http_protocol_error",
        ),
    ] {
        let origin = Origin::start(move |_| vec![Step::Send(said.into()), Step::Close]).await;
        let shop = upstream(&[&origin.url()]);
        let error = shop.call(call(Method::POST, "/", &[], "x")).await.unwrap_err();
        assert_eq!(told(&error), (StatusCode::BAD_GATEWAY, expected), "{said:?}");
    }

    let silent = Origin::start(|_| vec![Step::Wait(std::sync::Arc::default())]).await;
    let shop = upstream_with(&[&silent.url()], |it| it.request_timeout = Duration::from_millis(50));
    let error = get(&shop, "/").await.unwrap_err();
    let expected = (StatusCode::GATEWAY_TIMEOUT, "tidewire; error=http_response_timeout");
    assert_eq!(told(&error), expected);
}

#[tokio::test]
async fn a_refused_connection_costs_no_call_whatever_its_verb() {
    let origin = Origin::start(|_| ok(&[], "there")).await;
    let shop = upstream(&[&nowhere(), &origin.url()]);
    for method in [Method::POST, Method::GET, Method::DELETE, Method::POST] {
        let reply = shop.call(call(method, "/", &[], "body")).await.unwrap();
        assert_eq!(text(reply).await.unwrap(), "there");
    }
    assert_eq!(origin.count(), 4);
    assert!(origin.received().iter().all(|received| received.body == b"body"));
}

#[tokio::test]
async fn only_a_safe_request_is_made_again_once_a_server_has_it() {
    let breaks = || Origin::start(|_| vec![Step::Close]);
    for (method, count) in [(Method::GET, 1), (Method::POST, 0)] {
        let (bad, good) = (breaks().await, Origin::start(|_| ok(&[], "there")).await);
        let shop = upstream(&[&bad.url(), &good.url()]);
        let outcome = shop.call(call(method.clone(), "/", &[], Body::Empty)).await;
        assert_eq!((outcome.is_ok(), good.count()), (count == 1, count), "{method}");
        assert_eq!(bad.count(), 1);
    }
}

#[tokio::test]
async fn a_response_that_breaks_off_is_not_whole() {
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    let origin = Origin::start(move |_| vec![Step::Send(cut.into()), Step::Close]).await;
    let reply = upstream(&[&origin.url()]).call(call(Method::GET, "/", &[], Body::Empty)).await;
    assert!(match reply {
        Ok(reply) => text(reply).await.is_err(),
        Err(_) => true,
    });
}

#[tokio::test]
async fn a_server_that_is_not_well_gets_no_calls_until_it_is() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    let is_well = Arc::new(AtomicBool::new(false));
    let well = Arc::clone(&is_well);
    let sick = Origin::start(move |received| match received.target.as_str() {
        "/healthz" if !well.load(Ordering::SeqCst) => response(503, &[], ""),
        _ => ok(&[], "sick"),
    })
    .await;
    let good = Origin::start(|_| ok(&[], "good")).await;
    let shop = upstream_with(&[&sick.url(), &good.url()], |it| {
        it.health = Some("/healthz".to_owned());
        it.health_interval = Duration::from_millis(1);
    });
    // Servers are known from the first call on.
    get(&shop, "/").await.unwrap();
    // A fourth time after three failures says that the third was taken note of.
    let before = sick.count();
    sick.until(before + 4).await;
    let asked = |origin: &Origin| origin.received().iter().filter(|it| it.target == "/").count();
    let before = asked(&sick);
    for _ in 0..10 {
        assert_eq!(get(&shop, "/").await.unwrap(), "good");
    }
    assert_eq!(asked(&sick), before);
    is_well.store(true, Ordering::SeqCst);
    let before = sick.count();
    sick.until(before + 3).await;
    let said = [get(&shop, "/").await.unwrap(), get(&shop, "/").await.unwrap()];
    assert!(said.contains(&"sick".to_owned()), "{said:?}");
}

#[tokio::test]
async fn a_grpc_caller_reads_a_failure() {
    let mut routes = Routes::new();
    routes.add(Route::new("/*").unwrap(), upstream(&[&nowhere()])).unwrap();
    let headers = [("content-type", "application/grpc")];
    let error = routes.call(call(Method::POST, "/a.v1.A/Get", &headers, "x")).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert_eq!(error.headers().get("content-type").unwrap(), "application/grpc");
}
