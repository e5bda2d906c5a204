//! Settings that change while connections are open: what is asked next on them has the new ones.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, HeaderMap, HeaderValue, ORIGIN};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidewire_live::{ByteStream, Config, Dial, Remote, Transport};
use tidewire_server::{
    AccessRules, Builder, Cors, Limits, ReloadHandle, RunningServer, Server, Settings,
};
use tidewire_service::{Access, Call, Code, Codec, Context, Error, Spec, StreamKind};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

const ORIGIN_ADDED: &str = "https://app.example";

async fn started(builder: Builder) -> (RunningServer, ReloadHandle) {
    let reload = builder.reload_handle();
    (crate::host::start(builder).await, reload)
}

async fn server() -> (RunningServer, ReloadHandle) {
    let all = async |call: Call| {
        let body = call.body.collect(usize::MAX).await?;
        Ok(format!("{} bytes", body.len()))
    };
    started(Server::builder().route(Method::POST, "/all", all)).await
}

async fn connect(server: &RunningServer) -> TokioIo<TcpStream> {
    TokioIo::new(crate::host::connect(server).await)
}

/// One connection, and what is asked on it.
enum Client {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    async fn both(server: &RunningServer) -> [Self; 2] {
        let (http1, connection) = http1::handshake(connect(server).await).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        let stream = connect(server).await;
        let (http2, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        [Self::Http1(http1), Self::Http2(http2)]
    }

    /// Posts so many bytes from a page of another origin.
    async fn post(&mut self, target: &str, bytes: usize) -> (StatusCode, HeaderMap, String) {
        let request = Request::post(format!("http://test{target}"))
            .header("host", "test")
            .header("content-type", "application/octet-stream")
            .header(ORIGIN, ORIGIN_ADDED)
            .body(Full::from(vec![b'x'; bytes]));
        let request = request.unwrap();
        let response = match self {
            Self::Http1(sender) => sender.send_request(request).await,
            Self::Http2(sender) => sender.send_request(request).await,
        };
        let (head, body) = response.unwrap().into_parts();
        let text = body.collect().await.unwrap().to_bytes();
        (head.status, head.headers, String::from_utf8(text.to_vec()).unwrap())
    }
}

/// As at the start, but for the origin, without which nothing is answered.
fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.cors = Cors::new([ORIGIN_ADDED]);
    settings
}

fn authenticated(settings: Settings) -> Settings {
    let mut settings = settings;
    settings.access = AccessRules::default().path("/all", Access::Authenticated);
    settings
}

fn bounded(bound: impl FnOnce(&mut Limits)) -> Settings {
    let mut settings = settings();
    bound(&mut settings.limits);
    settings
}

#[tokio::test]
async fn a_later_request_on_an_open_connection_has_the_new_settings() {
    let (server, reload) = server().await;
    let allowed = Some(HeaderValue::from_static(ORIGIN_ADDED));
    let full = (200, "100 bytes", &allowed);
    // Each refusal leaves the body unread, after which HTTP/1.1 is closed.
    for (before, after, first, second) in [
        (settings(), bounded(|limits| limits.body_bytes_max = 99), full, (413, "99", &allowed)),
        (settings(), authenticated(settings()), full, (401, "", &allowed)),
        (settings(), Settings::default(), full, (403, "origin", &None)),
        (bounded(|limits| limits.body_bytes_max = 100), settings(), full, full),
    ] {
        for index in 0..2 {
            reload.reload(before.clone()).unwrap();
            let mut client = Client::both(&server).await.into_iter().nth(index).unwrap();
            for (settings, (status, says, origin)) in [(&before, first), (&after, second)] {
                reload.reload(settings.clone()).unwrap();
                let (answered, headers, text) = client.post("/all", 100).await;
                assert_eq!(answered, status, "{text}");
                assert!(text.contains(says), "{text}");
                assert_eq!(headers.get(ACCESS_CONTROL_ALLOW_ORIGIN), origin.as_ref());
            }
        }
    }
}

#[tokio::test]
async fn what_is_allowed_later_is_answered_on_an_open_connection() {
    let (server, reload) = server().await;
    for mut client in Client::both(&server).await {
        reload.reload(Settings::default()).unwrap();
        let (status, headers, _) = client.post("/all", 0).await;
        assert_eq!((status.as_u16(), headers.get(ACCESS_CONTROL_ALLOW_ORIGIN)), (403, None));
        reload.reload(authenticated(settings())).unwrap();
        assert_eq!(client.post("/all", 0).await.0, 401);
        reload.reload(settings()).unwrap();
        let (status, headers, text) = client.post("/all", 10).await;
        assert_eq!((status.as_u16(), &*text), (200, "10 bytes"));
        assert_eq!(headers[ACCESS_CONTROL_ALLOW_ORIGIN], ORIGIN_ADDED);
    }
}

#[tokio::test]
async fn settings_that_cannot_be_used_change_nothing() {
    let (server, reload) = server().await;
    reload.reload(settings()).unwrap();
    let mut excluded = settings();
    excluded.cors = Cors::new(["*"]);
    excluded.cors.credentials = true;
    let unknown = AccessRules::default().method("no.such.Service/Method", Access::Anonymous);
    let mut nobody = settings();
    nobody.access = unknown;
    let bounds = bounded(|limits| limits.stream_window_bytes = 0);
    for (wrong, says) in [
        (excluded, "cors.credentials"),
        (nobody, "no.such.Service"),
        (bounds, "limits.stream_window_bytes"),
    ] {
        let checked = reload.check(&wrong).unwrap_err().to_string();
        assert!(checked.contains(says), "{checked}");
        assert_eq!(reload.reload(wrong).unwrap_err().to_string(), checked);
        for mut client in Client::both(&server).await {
            assert_eq!(client.post("/all", 100).await.0, 200, "{says}");
        }
    }
}

#[tokio::test]
async fn a_call_under_way_goes_on_by_what_it_began_with() {
    let (runs, let_go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let told = (Arc::clone(&runs), Arc::clone(&let_go));
    let waits = move |call: Call| {
        let (runs, let_go) = told.clone();
        async move {
            runs.notify_one();
            let_go.notified().await;
            let body = call.body.collect(usize::MAX).await?;
            Ok::<_, Error>(format!("{} bytes", body.len()))
        }
    };
    let (server, reload) = started(Server::builder().route(Method::POST, "/all", waits)).await;
    for mut client in Client::both(&server).await {
        reload.reload(settings()).unwrap();
        let called = tokio::spawn(async move { client.post("/all", 100).await });
        runs.notified().await;
        let mut closed = authenticated(settings());
        closed.limits.body_bytes_max = 50;
        reload.reload(closed).unwrap();
        let_go.notify_one();
        let (status, headers, text) = called.await.unwrap();
        assert_eq!((status.as_u16(), &*text), (200, "100 bytes"));
        assert_eq!(headers[ACCESS_CONTROL_ALLOW_ORIGIN], ORIGIN_ADDED);
    }
}

#[tokio::test]
async fn places_of_calls_follow_their_bound_on_open_connections() {
    let (runs, let_go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let told = (Arc::clone(&runs), Arc::clone(&let_go));
    let waits = move |_: Call| {
        let (runs, let_go) = told.clone();
        async move {
            runs.notify_one();
            let_go.notified().await;
            Ok::<_, Error>("at last")
        }
    };
    let builder = Server::builder().route(Method::POST, "/waits", waits).route(
        Method::POST,
        "/all",
        async |_: Call| Ok("answered"),
    );
    let (server, reload) = started(builder).await;
    let calls = |count| {
        bounded(|limits| {
            limits.calls_max = Some(count);
            limits.queue_timeout = std::time::Duration::ZERO;
        })
    };
    let [mut first, mut second] = Client::both(&server).await;
    reload.reload(calls(2)).unwrap();
    let called = tokio::spawn(async move { first.post("/waits", 0).await.0 });
    runs.notified().await;
    assert_eq!(second.post("/all", 0).await.0, 200);
    reload.reload(calls(1)).unwrap();
    let (status, _, text) = second.post("/all", 0).await;
    assert_eq!(status, 503, "{text}");
    let_go.notify_one();
    assert_eq!(called.await.unwrap(), 200);
    assert_eq!(second.post("/all", 0).await.0, 200);
}

/// Connects to a server by the live protocol, from the first byte on.
struct LiveDial(SocketAddr);

impl Dial for LiveDial {
    async fn dial(&self) -> Result<Box<dyn Transport>, Error> {
        let stream = TcpStream::connect(self.0).await;
        let stream = stream.map_err(|error| Error::unavailable(error.to_string()))?;
        Ok(Box::new(ByteStream::new(stream)))
    }
}

fn session(server: &RunningServer) -> Remote<LiveDial> {
    let address = server.url().trim_start_matches("http://").parse().unwrap();
    Remote::new(LiveDial(address), Config::default(), None, TaskTracker::new())
}

/// Asks for the health of a service whose name has so many bytes.
fn health(bytes: usize) -> Call {
    let spec = Spec::dynamic("grpc.health.v1.Health", "Check", StreamKind::Unary, ["", ""]);
    let mut message = vec![0x0a, (bytes % 128 + 128) as u8, (bytes / 128) as u8];
    message.extend(vec![b'x'; bytes]);
    Call::method(Arc::new(spec), Context::default(), Codec::Proto, Bytes::from(message))
}

fn post(bytes: usize) -> Call {
    let body = Bytes::from(vec![b'x'; bytes]);
    Call::http(Method::POST, "/all".parse().unwrap(), Context::default(), body)
}

async fn code(link: &tidewire_live::Link, call: Call) -> Option<(Code, String)> {
    let outcome = match link.call(call).await {
        Ok(reply) => reply.body.collect(usize::MAX).await.map(|_| ()),
        Err(error) => Err(error),
    };
    outcome.err().map(|error| (error.code(), error.message().to_owned()))
}

#[tokio::test]
async fn a_later_call_on_an_open_live_session_has_the_new_settings() {
    let (server, reload) = server().await;
    let remote = session(&server);
    let link = &remote.link();
    assert_eq!(code(link, post(100)).await, None);
    assert_eq!(code(link, health(2000)).await.unwrap().0, Code::NotFound);

    reload.reload(authenticated(settings())).unwrap();
    assert_eq!(code(link, post(100)).await.unwrap().0, Code::Unauthenticated);
    let mut closed = settings();
    closed.access = AccessRules::default().method("grpc.health.v1.Health/*", Access::Authenticated);
    reload.reload(closed).unwrap();
    assert_eq!(code(link, health(2000)).await.unwrap().0, Code::Unauthenticated);
    assert_eq!(code(link, post(100)).await, None);

    reload.reload(bounded(|limits| limits.message_bytes_max = 1000)).unwrap();
    let (refused, text) = code(link, health(2000)).await.unwrap();
    assert_eq!(refused, Code::ResourceExhausted, "{text}");
    assert!(text.contains("limits.message_bytes_max = 1000"), "{text}");
    assert_eq!(code(link, health(500)).await.unwrap().0, Code::NotFound);

    reload.reload(bounded(|limits| limits.body_bytes_max = 50)).unwrap();
    let (refused, text) = code(link, post(100)).await.unwrap();
    assert_eq!(refused, Code::ResourceExhausted, "{text}");
    assert!(text.contains("limits.body_bytes_max = 50"), "{text}");
    assert_eq!(code(link, post(50)).await, None);
    assert!(remote.is_connected());
}

#[tokio::test]
async fn an_origin_that_is_added_opens_a_live_session_on_an_open_connection() {
    let (server, reload) = server().await;
    let mut stream = crate::host::connect(&server).await;
    let ask = format!(
        "GET /tidewire.live.v1 HTTP/1.1\r\nhost: test\r\nconnection: upgrade\r\n\
         upgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         sec-websocket-protocol: tidewire.live.v1\r\norigin: {ORIGIN_ADDED}\r\n\r\n"
    );
    let first = "GET /nowhere HTTP/1.1\r\nhost: test\r\n\r\n";
    stream.write_all(first.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"}") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 404"));
    reload.reload(settings()).unwrap();
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(str::from_utf8(&answer).unwrap(), "HTTP/1.1 101");
}
