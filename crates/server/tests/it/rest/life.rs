//! How long calls live: commands to their end, queries as long as someone waits; and HTTP/2.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidewire_rest::RestOptions;
use tidewire_server::{Address, RunningServer, Server};
use tidewire_service::{Call, Reply};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};

use super::service::{CANONICAL, builder, in_json, schema};

/// A server whose calls say when they begin, and how they end once they are let go.
async fn held(go: Arc<Notify>, events: mpsc::UnboundedSender<&'static str>) -> RunningServer {
    struct Guard(mpsc::UnboundedSender<&'static str>, bool);
    impl Drop for Guard {
        fn drop(&mut self) {
            let _ = self.0.send(if self.1 { "done" } else { "canceled" });
        }
    }
    let backend = move |_: Call| {
        let (go, events) = (Arc::clone(&go), events.clone());
        async move {
            let mut guard = Guard(events, false);
            let _ = guard.0.send("began");
            go.notified().await;
            guard.1 = true;
            Ok(Reply::new("{}".into()))
        }
    };
    let any: Address = "127.0.0.1:0".parse().unwrap();
    let service = schema().serve("rest.v1.Echo", in_json(backend)).unwrap();
    Server::builder().listen(any).service(service).start().await.unwrap()
}

async fn connect(server: &RunningServer) -> TcpStream {
    TcpStream::connect(server.url().trim_start_matches("http://")).await.unwrap()
}

#[tokio::test]
async fn a_command_runs_to_its_end_when_its_caller_goes_away() {
    let (go, (send, mut events)) = (Arc::new(Notify::new()), mpsc::unbounded_channel());
    let server = held(Arc::clone(&go), send).await;
    let mut stream = connect(&server).await;
    stream.write_all(b"POST /whole HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    assert_eq!(events.recv().await, Some("began"));
    drop(stream);
    let drained = tokio::spawn(server.drain());
    go.notify_one();
    assert_eq!(events.recv().await, Some("done"));
    assert!(drained.await.unwrap(), "the drain waited for the command");
}

#[tokio::test]
async fn a_query_is_canceled_when_its_caller_goes_away() {
    let (go, (send, mut events)) = (Arc::new(Notify::new()), mpsc::unbounded_channel());
    let server = held(go, send).await;
    let mut stream = connect(&server).await;
    stream.write_all(b"GET /query HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    assert_eq!(events.recv().await, Some("began"));
    drop(stream);
    assert_eq!(events.recv().await, Some("canceled"));
}

type Sending<B> = SendRequest<B>;

async fn h2<B>(server: &RunningServer) -> Sending<B>
where
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream = TokioIo::new(connect(server).await);
    let (sending, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    sending
}

async fn canonical() -> RunningServer {
    let mut options = RestOptions::default();
    options.json = CANONICAL;
    builder(options).start().await.unwrap()
}

#[tokio::test]
async fn http2_is_answered_alike() {
    let server = canonical().await;
    let mut sending = h2::<Empty<Bytes>>(&server).await;
    for (verb, path, status, length, body) in [
        (Method::GET, "/items/7", 200, Some("12"), "{\"text\":\"7\"}"),
        (Method::HEAD, "/items/7", 200, Some("12"), ""),
        (Method::DELETE, "/items/7", 204, None, ""),
        (
            Method::PUT,
            "/items/7",
            405,
            None,
            "{\"code\":\"unimplemented\",\"message\":\"this path answers DELETE, GET, PURGE\"}",
        ),
    ] {
        let uri = format!("http://test.example{path}");
        let request = Request::builder().method(verb.clone()).uri(uri).body(Empty::new()).unwrap();
        let response = sending.send_request(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::from_u16(status).unwrap());
        if length.is_some() {
            let found = response.headers().get("content-length").map(|v| v.to_str().unwrap());
            assert_eq!(found, length, "{verb} {path}");
        }
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(bytes, body, "{verb} {path}");
    }
}

#[tokio::test]
async fn the_authority_of_http2_reaches_the_service_as_its_host() {
    let backend = async |call: Call| {
        let host = call.context.header("host").unwrap().to_str().unwrap();
        Ok(Reply::new(format!("{{\"text\":{host:?}}}").into()))
    };
    let any: Address = "127.0.0.1:0".parse().unwrap();
    let service = schema().serve("rest.v1.Echo", in_json(backend)).unwrap();
    let mut options = RestOptions::default();
    options.json = CANONICAL;
    let server = Server::builder().listen(any).rest(options).service(service).start();
    let server = server.await.unwrap();
    let mut sending = h2::<Empty<Bytes>>(&server).await;
    let request = Request::get("http://test.example:81/items/7").body(Empty::new()).unwrap();
    let body = sending.send_request(request).await.unwrap().into_body();
    let expected = "{\"text\":\"test.example:81\"}";
    assert_eq!(body.collect().await.unwrap().to_bytes(), expected);
}

#[tokio::test]
async fn each_line_of_a_bidirectional_stream_is_answered_before_the_next_is_sent() {
    let server = canonical().await;
    let (lines, receiver) = mpsc::unbounded_channel::<&'static str>();
    let frames = futures_util::stream::unfold(receiver, async |mut receiver| {
        let line = receiver.recv().await?;
        Some((Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(line.as_bytes()))), receiver))
    });
    let mut sending = h2(&server).await;
    let request = Request::post("http://test/chat").header("content-type", "application/json");
    let request = request.body(StreamBody::new(Box::pin(frames)));
    let response = sending.send_request(request.unwrap()).await.unwrap();
    let mut answers = response.into_body();
    for line in ["{\"text\":\"a\"}\n", "{\"text\":\"b\"}\n"] {
        lines.send(line).unwrap();
        let answer = answers.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(answer, line);
    }
    drop(lines);
    assert!(answers.frame().await.is_none_or(|end| end.unwrap().into_data().unwrap().is_empty()));
}
