//! An upstream of these tests: HTTP/1.1 by hand, so that it can misbehave, and remember what it was
//! sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;
use tidewire_service::Headers;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
    /// How many requests were received before, on all connections.
    pub(crate) number: usize,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// What an upstream does in answer.
#[derive(Debug)]
pub(crate) enum Step {
    Send(Vec<u8>),
    /// Waits until the test says so.
    Wait(Arc<Notify>),
    Close,
    /// Sends back what it is sent from now on.
    Echo,
}

/// A response with a length.
pub(crate) fn ok(headers: &[(&str, &str)], body: &str) -> Vec<Step> {
    response(200, headers, body)
}

pub(crate) fn response(status: u16, headers: &[(&str, &str)], body: &str) -> Vec<Step> {
    let mut text = format!("HTTP/1.1 {status} Whatever\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        && !matches!(status, 204 | 304)
    {
        text += &format!("Content-Length: {}\r\n", body.len());
    }
    vec![Step::Send((text + "\r\n" + body).into_bytes())]
}

pub(crate) struct Origin {
    port: u16,
    received: Arc<Mutex<Vec<Received>>>,
    connections: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Origin {
    pub(crate) async fn start(
        answer: impl Fn(&Received) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let connections = Arc::<AtomicUsize>::default();
        let (seen, count, answer) =
            (Arc::clone(&received), Arc::clone(&connections), Arc::new(answer));
        let task = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                open.spawn(async move {
                    let _ = serve(BufStream::new(stream), &seen, &*answer).await;
                });
            }
        });
        Self { port, received, connections, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().clone()
    }

    /// How many requests it was sent.
    pub(crate) fn count(&self) -> usize {
        self.received.lock().len()
    }

    pub(crate) fn last(&self) -> Received {
        self.received.lock().last().cloned().expect("a request arrived")
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Waits until it was sent so many requests.
    pub(crate) async fn until(&self, count: usize) {
        while self.count() < count {
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut stream: BufStream<TcpStream>,
    seen: &Mutex<Vec<Received>>,
    answer: &(dyn Fn(&Received) -> Vec<Step> + Send + Sync),
) -> std::io::Result<()> {
    loop {
        let (method, target, headers) = head(&mut stream).await?;
        let body = body(&mut stream, &headers).await?;
        let received = {
            let mut seen = seen.lock();
            let number = seen.len();
            let received = Received { method, target, headers, body, number };
            seen.push(received.clone());
            received
        };
        for step in answer(&received) {
            match step {
                Step::Send(bytes) => {
                    stream.write_all(&bytes).await?;
                    stream.flush().await?;
                }
                Step::Wait(notify) => notify.notified().await,
                Step::Close => return Ok(()),
                Step::Echo => loop {
                    let mut bytes = [0; 1024];
                    let count = stream.read(&mut bytes).await?;
                    if count == 0 {
                        return Ok(());
                    }
                    stream.write_all(&bytes[..count]).await?;
                    stream.flush().await?;
                },
            }
        }
    }
}

async fn line(stream: &mut BufStream<TcpStream>) -> std::io::Result<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(stream.read_u8().await?);
    }
    line.truncate(line.len() - 2);
    Ok(String::from_utf8(line).unwrap())
}

async fn head(stream: &mut BufStream<TcpStream>) -> std::io::Result<(String, String, Headers)> {
    let first = line(stream).await?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let mut headers = Headers::new();
    loop {
        let line = line(stream).await?;
        let Some((name, value)) = line.split_once(':') else {
            return Ok((method, target, headers));
        };
        let value = HeaderValue::from_str(value.trim()).unwrap();
        headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
    }
}

async fn body(stream: &mut BufStream<TcpStream>, headers: &Headers) -> std::io::Result<Vec<u8>> {
    let length = headers.get("content-length").map(|it| it.to_str().unwrap().parse().unwrap());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    if headers.contains_key("transfer-encoding") {
        loop {
            let size = usize::from_str_radix(&line(stream).await?, 16).unwrap();
            let mut chunk = vec![0; size];
            stream.read_exact(&mut chunk).await?;
            body.extend(chunk);
            line(stream).await?;
            if size == 0 {
                break;
            }
        }
    }
    Ok(body)
}
