//! Unmodified programs behind a real server: WebSockets, streams of events, and what they are told.

use futures_util::{SinkExt, StreamExt};
use http::Method;
use tidewire_hosting::{Host, HostedService, LifeLimits, Listen, State};
use tidewire_proxy::{Route, Routes};
use tidewire_server::{Address, RunningServer, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::{StoppedClock, host, limits, python};

/// A server with the program of the tests at `/shop`.
struct Gateway {
    host: Host,
    hosted: HostedService,
    running: RunningServer,
}

impl Gateway {
    async fn start(listen: Listen, limits: LifeLimits) -> Self {
        let host = host();
        let hosted = host.add(python(&[]).listen(listen), limits);
        let mut sites = Routes::new();
        let site = Route::new("/shop/*").unwrap().strip_prefix(true);
        sites.add(site, hosted.clone()).unwrap();
        let address: Address = "127.0.0.1:0".parse().unwrap();
        let server = Server::builder().listen(address).mount("/", sites);
        Self { host, hosted, running: server.start().await.unwrap() }
    }

    fn address(&self) -> String {
        self.running.url().replace("http://", "")
    }

    async fn ask(&self, path: &str, headers: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(self.address()).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: tea.example:81\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        BufReader::new(stream)
    }

    async fn stop(self) {
        self.running.drain().await;
        self.host.stop().await;
    }
}

#[tokio::test]
async fn a_websocket_passes_both_ways_and_keeps_its_process_until_it_is_closed() {
    for listen in [Listen::Port, Listen::Unix, Listen::Inherited] {
        let idle = limits(|limits| limits.idle_stop = Some(std::time::Duration::ZERO));
        let gateway = Gateway::start(listen, idle).await;
        let url = format!("ws://{}/shop/socket?a=b", gateway.address());
        let mut request = url.into_client_request().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", "tea".parse().unwrap());
        let stream = TcpStream::connect(gateway.address()).await.unwrap();
        let (mut socket, answer) = tokio_tungstenite::client_async(request, stream).await.unwrap();
        assert_eq!(answer.headers()["sec-websocket-protocol"], "tea");
        for text in ["one", "two"] {
            socket.send(Message::text(text)).await.unwrap();
            let heard = socket.next().await.unwrap().unwrap();
            assert_eq!(heard, Message::text(format!("/socket?a=b {text}")));
        }
        assert_eq!(gateway.hosted.status().state, State::Ready, "{listen:?}: it is a call");
        socket.close(None).await.unwrap();
        while socket.next().await.is_some_and(|message| message.is_ok()) {}
        drop(socket);
        gateway.hosted.until(|status| status.state == State::Stopped).await;
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_websocket_over_http2_passes_too() {
    let gateway = Gateway::start(Listen::Port, crate::patient_limits()).await;
    let stream = TcpStream::connect(gateway.address()).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let mut asked = http::Request::new(());
    *asked.uri_mut() = "http://tea.example/shop/socket".parse().unwrap();
    *asked.method_mut() = Method::GET;
    // Settings of the server are known once it answered anything.
    client.send_request(asked.clone(), true).unwrap().0.await.unwrap();
    *asked.method_mut() = Method::CONNECT;
    asked.headers_mut().insert("sec-websocket-version", "13".parse().unwrap());
    asked.headers_mut().insert("sec-websocket-protocol", "tea".parse().unwrap());
    asked.extensions_mut().insert(h2::ext::Protocol::from_static("websocket"));
    let mut client = client.ready().await.unwrap();
    let (answer, mut send) = client.send_request(asked, false).unwrap();
    let answer = answer.await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["sec-websocket-protocol"]),
        (200, &"tea".parse().unwrap())
    );
    assert!(!answer.headers().contains_key("sec-websocket-accept"));
    // One masked message, by a mask of nothing.
    send.send_data(b"\x81\x83\0\0\0\0one"[..].into(), false).unwrap();
    let mut heard = Vec::new();
    let mut body = answer.into_body();
    while !heard.ends_with(b"/socket one") {
        heard.extend(body.data().await.unwrap().unwrap());
    }
    drop((send, body, client));
    connection.abort();
    gateway.stop().await;
}

#[tokio::test]
async fn a_program_that_wants_no_websocket_answers_and_h2c_is_not_passed() {
    let gateway = Gateway::start(Listen::Port, crate::patient_limits()).await;
    for (wanted, told) in [("websocket", "websocket"), ("h2c", "None")] {
        let headers = format!("connection: upgrade\r\nupgrade: {wanted}\r\n");
        let mut stream = gateway.ask("/shop/upgrade", &headers).await;
        let (status, body) = answer(&mut stream).await;
        assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 200 OK", told), "{wanted}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn events_are_there_as_they_are_sent() {
    let gateway = Gateway::start(Listen::Port, crate::patient_limits()).await;
    let mut events = gateway.ask("/shop/events", "").await;
    for number in ["1", "2", "3"] {
        // The program sends the next one when it is told to.
        let event = until(&mut events, "\n\n").await;
        assert!(event.contains(&format!("data: {number}")), "{event}");
        let call = crate::call(Method::GET, "/next", tidewire_service::Body::Empty);
        tidewire_service::Service::call(&gateway.hosted, call).await.unwrap();
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_program_is_told_whom_and_what_its_caller_asked_for() {
    let gateway = Gateway::start(Listen::Port, crate::patient_limits()).await;
    let mut stream = gateway.ask("/shop/told", "x-forwarded-for: 10.1.1.1\r\n").await;
    let (_, body) = answer(&mut stream).await;
    assert_eq!(body, "tea.example:81 127.0.0.1 tea.example:81 http /shop");
    gateway.stop().await;
}

#[tokio::test]
async fn a_path_that_leads_elsewhere_when_it_is_read_reaches_no_program() {
    let gateway = Gateway::start(Listen::Port, crate::patient_limits()).await;
    for path in
        ["/shop/..;/admin", "/shop;x=1/../admin", "/shop/%2e%2e;x/admin", "/shop/..%2Fadmin"]
    {
        let mut stream = gateway.ask(path, "").await;
        assert_eq!(answer(&mut stream).await.0, "HTTP/1.1 400 Bad Request", "{path}");
    }
    assert_eq!(gateway.hosted.status().starts, 0);
    let mut stream = gateway.ask("/shop/told;x=1", "").await;
    assert_ne!(answer(&mut stream).await.0, "HTTP/1.1 400 Bad Request");
    gateway.stop().await;
}

#[tokio::test]
async fn an_answer_that_could_not_be_passed_on_as_what_it_is_is_502() {
    let gateway = Gateway::start(Listen::Port, crate::patient_limits()).await;
    for path in ["/shop/switch", "/shop/coded"] {
        let mut stream = gateway.ask(path, "").await;
        assert_eq!(answer(&mut stream).await.0, "HTTP/1.1 502 Bad Gateway", "{path}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn over_http2_cookies_are_one_field_no_content_has_no_length_and_trailers_pass() {
    let gateway = Gateway::start(Listen::Port, crate::patient_limits()).await;
    let stream = TcpStream::connect(gateway.address()).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut asked = http::Request::new(());
    *asked.uri_mut() = "http://tea.example/shop/cookie".parse().unwrap();
    for crumb in ["a=1", "b=2", "c=3"] {
        asked.headers_mut().append("cookie", crumb.parse().unwrap());
    }
    let answer = client.send_request(asked, true).unwrap().0.await.unwrap();
    let mut body = answer.into_body();
    assert_eq!(body.data().await.unwrap().unwrap(), "a=1; b=2; c=3");
    let mut asked = http::Request::new(());
    *asked.uri_mut() = "http://tea.example/shop/nothing".parse().unwrap();
    let answer = client.send_request(asked, true).unwrap().0.await.unwrap();
    assert_eq!(answer.status().as_u16(), 204);
    assert!(!answer.headers().contains_key("content-length"));
    assert!(answer.into_body().data().await.is_none());
    let mut asked = http::Request::new(());
    *asked.uri_mut() = "http://tea.example/shop/sums".parse().unwrap();
    let mut body = client.send_request(asked, true).unwrap().0.await.unwrap().into_body();
    assert_eq!(body.data().await.unwrap().unwrap(), "a");
    assert_eq!(body.trailers().await.unwrap().unwrap()["x-sum"], "42");
    drop((client, body));
    connection.abort();
    gateway.stop().await;
}

#[tokio::test]
async fn a_connection_to_a_program_serves_one_call_after_another() {
    let gateway = Gateway::start(Listen::Inherited, crate::patient_limits()).await;
    gateway.hosted.start();
    gateway.hosted.until(|status| status.state == State::Ready).await;
    // An unused one is kept for a second, which does not pass.
    let _stopped = StoppedClock::stop();
    for _ in 0..3 {
        let mut stream = gateway.ask("/shop/connections", "").await;
        // The first one found out that it accepts connections.
        assert_eq!(answer(&mut stream).await.1, "2");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_connection_on_which_a_body_was_sent_is_used_by_nobody_else() {
    // A program that leaves one unread takes it for the next request, which would be another
    // caller's.
    let gateway = Gateway::start(Listen::Inherited, crate::patient_limits()).await;
    gateway.hosted.start();
    gateway.hosted.until(|status| status.state == State::Ready).await;
    // An unused one is kept for a second, which does not pass.
    let _stopped = StoppedClock::stop();
    // The first one found out that it accepts connections.
    for connection in 2..=4 {
        let mut stream = gateway.ask("/shop/connections", "").await;
        assert_eq!(answer(&mut stream).await.1, connection.to_string());
        let call = crate::call(Method::POST, "/echo", "text");
        let reply = tidewire_service::Service::call(&gateway.hosted, call).await.unwrap();
        assert_eq!(reply.body.collect(100).await.unwrap(), "text");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn it_is_used_again_where_the_program_is_said_to_read_what_it_is_sent() {
    let host = host();
    let program = python(&[]).reuse_after_body();
    let hosted = host.add(program, crate::patient_limits());
    hosted.start();
    hosted.until(|status| status.state == State::Ready).await;
    let _stopped = StoppedClock::stop();
    for _ in 0..3 {
        // The first one found out that it accepts connections.
        assert_eq!(crate::get(&hosted, "/connections").await.unwrap(), "2");
        let call = crate::call(Method::POST, "/echo", "text");
        let reply = tidewire_service::Service::call(&hosted, call).await.unwrap();
        assert_eq!(reply.body.collect(100).await.unwrap(), "text");
    }
    host.stop().await;
}

#[tokio::test]
async fn a_body_in_answer_to_head_is_not_the_reply_to_the_next_caller() {
    let gateway = Gateway::start(Listen::Inherited, crate::patient_limits()).await;
    for _ in 0..20 {
        let call = crate::call(Method::HEAD, "/another", "");
        let reply = tidewire_service::Service::call(&gateway.hosted, call).await.unwrap();
        assert_eq!(reply.body.collect(100).await.unwrap(), "");
        assert_eq!(crate::get(&gateway.hosted, "/own").await.unwrap(), "/own");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn who_is_answered_before_its_request_was_there_is_told_that_its_connection_ends() {
    let gateway = Gateway::start(Listen::Port, crate::patient_limits()).await;
    let stream = TcpStream::connect(gateway.address()).await.unwrap();
    let mut stream = BufReader::new(stream);
    // One that the program reads may be followed by others.
    for body in [
        "content-length: 4\r\n\r\ntext",
        "transfer-encoding: chunked\r\n\r\n4\r\ntext\r\n0\r\n\r\n",
    ] {
        let asked = format!("POST /shop/echo HTTP/1.1\r\nhost: a\r\n{body}");
        stream.write_all(asked.as_bytes()).await.unwrap();
        let head = until(&mut stream, "0\r\n\r\n").await;
        assert!(head.contains("200 OK") && !head.contains("connection"), "{head}");
    }
    // Of what is there so much that the program is asked.
    let begun = "t".repeat(64 << 10);
    for head in ["content-length: 70000\r\n\r\n", "transfer-encoding: chunked\r\n\r\n11170\r\n"] {
        let mut stream = gateway.ask("/shop/early", &format!("{head}{begun}")).await;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains("connection: close\r\n") && answer.ends_with("/early"), "{answer}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_program_of_a_caller_that_named_no_host_is_told_none() {
    let gateway = Gateway::start(Listen::Port, crate::patient_limits()).await;
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    stream.write_all(b"GET /shop/told HTTP/1.0\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("\r\n\r\n 127.0.0.1 None http /shop"), "{answer}");
    gateway.stop().await;
}

/// The status line and the body, whose length is told.
async fn answer(stream: &mut BufReader<TcpStream>) -> (String, String) {
    let head = until(stream, "\r\n\r\n").await;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().unwrap())
    });
    let mut body = vec![0; length.unwrap_or_else(|| panic!("{head}"))];
    stream.read_exact(&mut body).await.unwrap();
    (head.lines().next().unwrap().to_owned(), String::from_utf8(body).unwrap())
}

/// What comes up to an end, with it; heads of chunks among it.
async fn until(stream: &mut BufReader<TcpStream>, end: &str) -> String {
    let mut text = Vec::new();
    loop {
        let Ok(byte) = stream.read_u8().await else {
            panic!("it ends early: {}", String::from_utf8_lossy(&text));
        };
        text.push(byte);
        if text.ends_with(end.as_bytes()) && text.len() > end.len() {
            let text = String::from_utf8(text).unwrap();
            if end != "\n\n" || text.contains("data") {
                return text;
            }
            return Box::pin(until(stream, end)).await;
        }
    }
}
