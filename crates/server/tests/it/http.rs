//! A plain HTTP/1.1 client over a socket: what is sent and received is exactly what a test says.

use tidewire_server::RunningServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
    /// Whether the body was complete.
    pub(crate) complete: bool,
}

impl Answer {
    /// All lines of a header.
    pub(crate) fn lines_of(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, it)| it).collect()
    }

    /// A header, if it is there.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }
}

/// Sends a request on its own connection. Headers are lines, each with its end.
pub(crate) async fn send(
    server: &RunningServer,
    verb: &str,
    target: &str,
    headers: &str,
    body: &[u8],
) -> Answer {
    let address = server.url();
    let mut stream = TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
    let length = match body {
        [] => String::new(),
        body => format!("content-length: {}\r\n", body.len()),
    };
    let head = format!(
        "{verb} {target} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{length}{headers}\r\n"
    );
    stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
    let mut bytes = Vec::new();
    // A server that cuts a body off resets the connection.
    let _ = stream.read_to_end(&mut bytes).await;
    parse(&bytes)
}

/// `GET` without a header.
pub(crate) async fn get(server: &RunningServer, target: &str) -> Answer {
    send(server, "GET", target, "", b"").await
}

/// A request with a JSON body.
pub(crate) async fn json(server: &RunningServer, verb: &str, target: &str, body: &str) -> Answer {
    send(server, verb, target, "content-type: application/json\r\n", body.as_bytes()).await
}

fn parse(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = str::from_utf8(&bytes[..end]).unwrap().to_owned();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut answer = Answer { status, head, body: bytes[end + 4..].to_vec(), complete: true };
    if answer.header("transfer-encoding") == Some("chunked") {
        (answer.body, answer.complete) = dechunked(&answer.body);
    }
    answer
}

fn dechunked(mut bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") {
        let size = str::from_utf8(&bytes[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        bytes = &bytes[end + 2..];
        if size == 0 {
            return (body, true);
        }
        if bytes.len() < size + 2 {
            break;
        }
        body.extend_from_slice(&bytes[..size]);
        bytes = &bytes[size + 2..];
    }
    (body, false)
}
