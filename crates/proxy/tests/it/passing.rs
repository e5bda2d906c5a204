//! What passes to an upstream and back, and what stays behind.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{Method, StatusCode};
use tidewire_cache::{PageCache, PageSettings};
use tidewire_proxy::{HeaderRules, Route, Routes, TokioPages};
use tidewire_service::{Body, Call, Context, Frame, Layer, Principal, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::interim::front;
use crate::origin::{Origin, Step, ok, response};
use crate::{StoppedClock, call, get, text, upstream, upstream_with};

#[tokio::test]
async fn any_verb_passes_with_its_body_and_any_status_comes_back() {
    let origin = Origin::start(|received| {
        let said = format!("{} {}", received.method, received.target);
        response(418, &[("X-Own", "1"), ("X-Own", "2")], &said)
    })
    .await;
    let shop = upstream(&[&origin.url()]);
    for verb in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"] {
        let method = Method::from_bytes(verb.as_bytes()).unwrap();
        let body = if verb == "GET" { Body::Empty } else { Body::from("tea") };
        let reply = shop.call(call(method, "/a%20b?c=d&e", &[], body)).await.unwrap();
        assert_eq!(reply.status, StatusCode::IM_A_TEAPOT);
        assert_eq!(reply.headers.get_all("x-own").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(text(reply).await.unwrap(), format!("{verb} /a%20b?c=d&e"));
        let expected = if verb == "GET" { &b""[..] } else { b"tea" };
        assert_eq!(origin.last().body, expected, "{verb}");
    }
}

#[tokio::test]
async fn a_target_without_a_path_is_the_root() {
    let origin = Origin::start(|received| ok(&[], &received.target)).await;
    let shop = upstream(&[&origin.url()]);
    for (target, passed) in [
        ("http://shop.example#x", "/"),
        ("http://shop.example", "/"),
        ("http://shop.example?a", "/?a"),
        ("/", "/"),
    ] {
        let reply = shop.call(call(Method::GET, target, &[], Body::Empty)).await.unwrap();
        assert_eq!(text(reply).await.unwrap(), passed, "{target}");
    }
}

#[tokio::test]
async fn headers_of_a_connection_stay_behind_both_ways() {
    let origin = Origin::start(|_| {
        let headers = [
            ("Connection", "x-hop, keep-alive"),
            ("X-Hop", "1"),
            ("Keep-Alive", "timeout=5"),
            ("Proxy-Authenticate", "Basic"),
            ("X-Own", "1"),
        ];
        ok(&headers, "")
    })
    .await;
    let sent = [
        ("connection", "x-hop, x-forwarded-for"),
        ("x-hop", "1"),
        ("te", "trailers"),
        ("proxy-authorization", "Basic YTpi"),
        ("upgrade", "h2c"),
        ("x-own", "1"),
        ("tidewire-principal", "{}"),
        ("x-forwarded-for", "10.0.0.1"),
        ("forwarded", "for=10.0.0.1"),
    ];
    let mut routes = Routes::new();
    routes.add(Route::new("/*").unwrap(), upstream(&[&origin.url()])).unwrap();
    let reply = routes.call(call(Method::GET, "/", &sent, Body::Empty)).await.unwrap();
    let mut names: Vec<_> = reply.headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-length", "x-own"]);
    let received = origin.last();
    let mut names: Vec<_> = received.headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["host", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-own"]
    );
    assert_eq!(received.header("host"), Some("shop.example"));
    assert_eq!(received.header("x-forwarded-for"), Some("192.0.2.7"));
}

#[tokio::test]
async fn an_upstream_is_told_who_calls() {
    let origin = Origin::start(|_| ok(&[], "")).await;
    let mut asked = call(Method::GET, "/", &[], Body::Empty);
    asked.context.set_principal(Principal::new("https://id.example", "ada"));
    upstream(&[&origin.url()]).call(asked).await.unwrap();
    let told = origin.last().header("tidewire-principal").map(str::to_owned);
    assert!(told.is_some_and(|told| told.contains("\"subject\":\"ada\"")));
}

#[tokio::test]
async fn bodies_pass_piece_by_piece_both_ways() {
    let more = Arc::new(Notify::new());
    let waits = Arc::clone(&more);
    let origin = Origin::start(move |_| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n";
        let end = "3\r\ntwo\r\n0\r\nX-Sum: 6\r\n\r\n";
        vec![Step::Send(head.into()), Step::Wait(Arc::clone(&waits)), Step::Send(end.into())]
    })
    .await;
    let pieces = futures_util::stream::iter(["a", "b", "c"].map(|it| Ok(Bytes::from(it))));
    let asked = call(Method::POST, "/", &[], Body::stream(pieces));
    let reply = upstream(&[&origin.url()]).call(asked).await.unwrap();
    assert_eq!(origin.last().body, b"abc");
    let mut frames = reply.body.into_frames();
    // The second piece is sent only once the first was read.
    let Some(Ok(Frame::Data(first))) = frames.next().await else { panic!("a piece") };
    assert_eq!(first, "one");
    more.notify_one();
    let Some(Ok(Frame::Data(second))) = frames.next().await else { panic!("a piece") };
    assert_eq!(second, "two");
    let Some(Ok(Frame::Trailers(trailers))) = frames.next().await else { panic!("trailers") };
    assert_eq!(trailers.get("x-sum").unwrap(), "6");
}

#[tokio::test]
async fn a_connection_is_used_again() {
    // An unused one is kept for a second, which does not pass.
    let _stopped = StoppedClock::stop();
    let origin = Origin::start(|_| ok(&[], "x")).await;
    let shop = upstream(&[&origin.url()]);
    for _ in 0..5 {
        get(&shop, "/").await.unwrap();
    }
    assert_eq!((origin.count(), origin.connections()), (5, 1));
}

#[tokio::test]
async fn a_connection_is_used_again_after_a_body_where_the_server_is_said_to_read_them() {
    // An unused one is kept for a second, which does not pass.
    let _stopped = StoppedClock::stop();
    for (reuse, connections) in [(true, 1), (false, 5)] {
        let origin = Origin::start(|_| ok(&[], "x")).await;
        let shop = upstream_with(&[&origin.url()], |settings| settings.reuse_after_body = reuse);
        // As a server has it, a body comes in pieces up to the length that its head says.
        let pieces = || {
            Body::frames(futures_util::stream::iter(
                ["te", "xt"].map(|it| Ok(Frame::Data(it.into()))),
            ))
        };
        for body in [Body::from("text"), pieces(), pieces(), Body::from("text"), pieces()] {
            let posted = call(Method::POST, "/", &[("content-length", "4")], body);
            assert_eq!(text(shop.call(posted).await.unwrap()).await.unwrap(), "x");
        }
        assert_eq!((origin.count(), origin.connections()), (5, connections));
    }
}

#[tokio::test]
async fn the_route_is_taken_off_and_put_before_locations() {
    let origin = Origin::start(|_| response(302, &[("Location", "/login")], "")).await;
    let mut routes = Routes::new();
    let route = Route::new("/shop/*").unwrap().strip_prefix(true);
    routes.add(route, upstream(&[&origin.url()])).unwrap();
    let reply = routes.call(call(Method::GET, "/shop/cart?x=1", &[], Body::Empty)).await.unwrap();
    assert_eq!(reply.headers.get("location").unwrap(), "/shop/login");
    assert_eq!(origin.last().target, "/cart?x=1");
    assert_eq!(origin.last().header("x-forwarded-prefix"), Some("/shop"));
}

#[tokio::test]
async fn servers_have_turns() {
    let origins = [Origin::start(|_| ok(&[], "a")).await, Origin::start(|_| ok(&[], "b")).await];
    let urls = origins.each_ref().map(Origin::url);
    let shop = upstream(&[&urls[0], &urls[1]]);
    for _ in 0..6 {
        get(&shop, "/").await.unwrap();
    }
    assert_eq!(origins.each_ref().map(Origin::count), [3, 3]);
}

#[tokio::test]
async fn http2_passes_the_host_and_trailers() {
    let told = async |call: Call| {
        let target = call.http_target().unwrap().uri.clone();
        let te = call.context.header("te").is_some();
        let text = format!("{} {te}", target.authority().unwrap());
        tidewire_service::Reply::text(text).with_trailer("x-sum", 6)
    };
    let server = tidewire_server::Server::builder()
        .listen(std::net::SocketAddr::from(([127, 0, 0, 1], 0)))
        .hosts(tidewire_server::Hosts::any());
    let server = server.route(Method::POST, "/a", told).start().await.unwrap();
    let address = server.url().to_string();
    let shop = upstream(&[&address.replace("http://", "h2c://")]);
    let headers = [("content-type", "application/grpc-like")];
    let reply = shop.call(call(Method::POST, "/a", &headers, "x")).await.unwrap();
    let mut frames = reply.body.into_frames();
    let Some(Ok(Frame::Data(said))) = frames.next().await else { panic!("a body") };
    assert_eq!(said, "shop.example true");
    let Some(Ok(Frame::Trailers(trailers))) = frames.next().await else { panic!("trailers") };
    assert_eq!(trailers.get("x-sum").unwrap(), "6");
}

#[tokio::test]
async fn a_unix_socket_is_an_upstream() {
    let folder = std::env::temp_dir().join(format!("tidewire-proxy-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("a.sock");
    let _ = std::fs::remove_file(&socket);
    let server = tidewire_server::Server::builder()
        .listen(format!("unix:{}", socket.display()).parse::<tidewire_server::Address>().unwrap())
        .route(Method::GET, "/a", async |_: Call| Ok("by a socket"))
        .start()
        .await
        .unwrap();
    let shop = upstream(&[&format!("unix:{}", socket.display())]);
    let asked = Call::http(Method::GET, "/a".parse().unwrap(), Context::default(), Body::Empty);
    assert_eq!(text(shop.call(asked).await.unwrap()).await.unwrap(), "by a socket");
    drop(server);
    let _ = std::fs::remove_dir_all(&folder);
}

#[tokio::test]
async fn headers_are_changed_by_rules_before_pages_are_stored() {
    let origin = Origin::start(|received| {
        assert_eq!(received.header("cookie"), None);
        assert_eq!(received.header("x-shop"), Some("1"));
        ok(&[("Set-Cookie", "a=b"), ("Cache-Control", "no-store")], "page")
    })
    .await;
    let mut rules = HeaderRules::default();
    rules.request.remove("Cookie").unwrap();
    rules.request.set("X-Shop", "1").unwrap();
    rules.response.remove("Set-Cookie").unwrap();
    rules.response.set("Cache-Control", "max-age=60").unwrap();
    let shop = rules.layer(Arc::new(upstream(&[&origin.url()])));
    let pages = PageCache::new(TokioPages::default());
    let shop = pages.layer("shop", PageSettings::default()).layer(shop);
    for _ in 0..2 {
        let sent = [("cookie", "c=d"), ("x-shop", "2"), ("x-shop", "3")];
        let reply = shop.call(call(Method::GET, "/a", &sent, Body::Empty)).await.unwrap();
        assert_eq!(reply.headers["cache-control"], "max-age=60");
        assert!(!reply.headers.contains_key("set-cookie"));
        assert_eq!(text(reply).await.unwrap(), "page");
    }
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn an_upstream_is_told_the_way() {
    let origin = Origin::start(|_| ok(&[], "")).await;
    let shop = upstream(&[&origin.url()]);
    for (target, sent, expected) in [
        ("/a", &[][..], &["1.1 tidewire"][..]),
        ("/a", &[("via", "1.0 fred")], &["1.0 fred", "1.1 tidewire"]),
        ("http://shop.example/a", &[], &["2.0 tidewire"]),
    ] {
        shop.call(call(Method::GET, target, sent, Body::Empty)).await.unwrap();
        let last = origin.last();
        assert_eq!(last.headers.get_all("via").iter().collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn the_way_says_in_which_version_a_request_came() {
    let origin = Origin::start(|_| ok(&[], "")).await;
    let (server, _) = front(upstream(&[&origin.url()])).await;
    for (head, expected) in [
        ("GET /a HTTP/1.1\r\nhost: shop.example\r\n", "1.1 tidewire"),
        ("GET http://shop.example/a HTTP/1.1\r\nhost: shop.example\r\n", "1.1 tidewire"),
        ("GET /a HTTP/1.0\r\n", "1.0 tidewire"),
        ("GET http://shop.example/a HTTP/1.0\r\n", "1.0 tidewire"),
    ] {
        let address = server.url();
        let mut stream = TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
        let head = format!("{head}connection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains(" 200 OK\r\n"), "{head}{answer}");
        let last = origin.last();
        assert_eq!(last.headers.get_all("via").iter().collect::<Vec<_>>(), [expected], "{head}");
    }
}
