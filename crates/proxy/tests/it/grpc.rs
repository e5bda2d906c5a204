//! Calls of gRPC to servers of HTTP/2, which see what their caller sends.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use tidewire_proxy::{Route, Routes};
use tidewire_server::{Limits, RunningServer, Server};
use tidewire_service::{Body, Call, Reply, Service};
use tokio::net::{TcpListener, TcpStream};

use crate::{call, text, upstream};

/// A server of HTTP/2 that answers each request by `answer`, and its URL.
async fn server<F>(
    answer: impl Fn(Request<h2::RecvStream>, h2::server::SendResponse<Bytes>) -> F
    + Clone
    + Send
    + 'static,
) -> String
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("h2c://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((request, respond))) = connection.accept().await {
                    tokio::spawn(answer(request, respond));
                }
            });
        }
    });
    url
}

fn routes(url: &str) -> Routes {
    let mut routes = Routes::new();
    routes.add(Route::new("/*").unwrap(), upstream(&[url])).unwrap();
    routes
}

fn head() -> Response<()> {
    Response::builder().header("content-type", "application/grpc").body(()).unwrap()
}

/// Says each piece back as it comes, until one ends the connection.
async fn echo(request: Request<h2::RecvStream>, mut respond: h2::server::SendResponse<Bytes>) {
    let mut body = request.into_body();
    let mut said = respond.send_response(head(), false).unwrap();
    while let Some(Ok(piece)) = body.data().await {
        body.flow_control().release_capacity(piece.len()).unwrap();
        if piece.ends_with(b"end") {
            said.send_reset(h2::Reason::INTERNAL_ERROR);
            return;
        }
        said.send_data(piece, false).unwrap();
    }
    let trailers = http::HeaderMap::from_iter([(
        http::HeaderName::from_static("grpc-status"),
        http::HeaderValue::from_static("0"),
    )]);
    said.send_trailers(trailers).unwrap();
}

/// A gateway before an echo, and a stream of gRPC through it.
struct Stream {
    _gateway: RunningServer,
    send: h2::SendStream<Bytes>,
    replies: h2::RecvStream,
}

impl Stream {
    async fn open(limits: Limits) -> Self {
        let url = server(echo).await;
        let gateway = Server::builder()
            .listen(SocketAddr::from(([127, 0, 0, 1], 0)))
            .limits(limits)
            .mount("/", routes(&url));
        let gateway = gateway.start().await.unwrap();
        let address = gateway.url().to_string();
        let stream = TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
        let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = Request::post("http://shop.example/a.A/Turns");
        let request = request.header("content-type", "application/grpc").body(()).unwrap();
        let (response, send) = client.send_request(request, false).unwrap();
        let replies = response.await.unwrap().into_body();
        Self { _gateway: gateway, send, replies }
    }

    fn say(&mut self, message: &[u8]) {
        let length = u32::try_from(message.len()).unwrap();
        let envelope = [&[0][..], &length.to_be_bytes(), message].concat();
        self.send.send_data(envelope.into(), false).unwrap();
    }

    /// The message that comes back.
    async fn hear(&mut self) -> Vec<u8> {
        let mut heard = Vec::new();
        while heard.len() < 5 || heard.len() < 5 + usize::from(heard[4]) {
            let piece = self.replies.data().await.expect("the stream goes on").unwrap();
            self.replies.flow_control().release_capacity(piece.len()).unwrap();
            heard.extend(piece);
        }
        heard.split_off(5)
    }

    /// The code and the message that it ends with.
    async fn end(&mut self) -> (String, String) {
        let trailers = self.replies.trailers().await.unwrap().expect("trailers");
        let said = |name: &str| {
            trailers.get(name).map_or(String::new(), |said| said.to_str().unwrap().to_owned())
        };
        (said("grpc-status"), said("grpc-message"))
    }
}

#[tokio::test]
async fn a_stream_is_bounded_by_its_messages_and_neither_by_their_sum_nor_by_silence() {
    let mut limits = Limits::default();
    limits.body_bytes_max = 100;
    limits.message_bytes_max = 20;
    // Over before all messages have come back.
    limits.body_progress_timeout = Duration::from_millis(1);
    limits.body_progress_bytes_min = 1 << 20;
    let mut stream = Stream::open(limits).await;
    for _ in 0..20 {
        stream.say(b"twenty bytes of text");
        assert_eq!(stream.hear().await, b"twenty bytes of text");
    }
    stream.say(b"twenty-one bytes of it");
    let (code, message) = stream.end().await;
    assert_eq!(code, "8", "{message}");
    assert!(message.contains("limits.message_bytes_max = 20"), "{message}");
}

#[tokio::test]
async fn a_page_is_bounded_whatever_it_says_that_it_is() {
    let mut limits = Limits::default();
    limits.body_bytes_max = 100;
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let own = |call: Call| async move {
        let body = call.body.collect(1 << 20).await?;
        Ok(Reply::text(body.len().to_string()))
    };
    let server = Server::builder().listen(local).limits(limits).route(Method::POST, "/own", own);
    let server = server.start().await.unwrap();
    let client = tidewire_client::Client::builder(server.url()).build().unwrap();
    for (bytes, is_taken) in [(100, true), (101, false)] {
        let headers = [("content-type", "application/grpc")];
        let body = Body::from(vec![0; bytes]);
        let outcome = client.call(call(Method::POST, "/own", &headers, body)).await;
        let status = match &outcome {
            Ok(reply) => reply.status.as_u16(),
            Err(error) => error.http_status().as_u16(),
        };
        assert_eq!(status == 200, is_taken, "{bytes}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_reply_that_breaks_off_ends_by_a_status() {
    let mut stream = Stream::open(Limits::default()).await;
    stream.say(b"one");
    assert_eq!(stream.hear().await, b"one");
    stream.say(b"end");
    let (code, message) = stream.end().await;
    let expected = ("13", "the server broke off in the middle of its reply");
    assert_eq!((code.as_str(), message.as_str()), expected, "not where it is");
}

#[tokio::test]
async fn a_server_is_told_what_is_left_of_the_time_that_a_caller_waits() {
    let url = server(|request, mut respond| async move {
        let said = request.headers()["grpc-timeout"].as_bytes().to_vec();
        let mut body = respond.send_response(Response::new(()), false).unwrap();
        body.send_data(said.into(), true).unwrap();
    })
    .await;
    let routes = routes(&url);
    let headers = [("content-type", "application/grpc"), ("grpc-timeout", "1H")];
    let reply = routes.call(call(Method::POST, "/a.A/Get", &headers, "x")).await.unwrap();
    let told = text(reply).await.unwrap();
    let millis: u64 = told.strip_suffix('m').expect(&told).parse().unwrap();
    assert!((1..3_600_000).contains(&millis), "{told}");
    let headers = [("content-type", "application/grpc"), ("grpc-timeout", "abc")];
    let error = routes.call(call(Method::POST, "/a.A/Get", &headers, "x")).await.unwrap_err();
    assert!(error.message().contains("grpc-timeout"), "{error}");
}
