//! Refusals over HTTP/2 reach a client that is still sending: curl, as it is installed.

use std::future::poll_fn;
use std::io::Write as _;

use http::{Method, Request, StatusCode};
use tidewire_server::{RunningServer, Server};
use tidewire_service::{Admission, Call, Error, Gate, Head, Reply};
use tokio::process::Command;

use crate::host::start;

/// Refuses as the header `x-refuse` says.
struct Refusing;

impl Gate for Refusing {
    fn admit(&self, head: &mut Head) -> Admission {
        let wanted = head.context.headers().get("x-refuse").map_or(&b""[..], |it| it.as_bytes());
        Admission::Ready(match wanted {
            b"401" => Err(Error::unauthenticated("this call needs a credential, and none came")),
            b"429" => Err(Error::resource_exhausted("too many calls; wait")),
            _ => Ok(()),
        })
    }
}

/// Posts a body of so many bytes by curl; its exit code, the status, and what was answered.
async fn post(server: &RunningServer, path: &str, bytes: usize, header: &str) -> (i32, String) {
    let mut body = tempfile::NamedTempFile::new().unwrap();
    body.write_all(&vec![b'x'; bytes]).unwrap();
    let output = Command::new("curl")
        .args(["-sS", "--http2-prior-knowledge", "-X", "POST", "-w", "\n%{http_code}"])
        .args(["-H", "content-type: application/json", "-H", header])
        .args(["--data-binary", &format!("@{}", body.path().display())])
        .arg(format!("{}{path}", server.url()))
        .output()
        .await
        .unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[tokio::test]
async fn curl_reads_every_refusal_over_http2_although_it_is_still_sending() {
    let unread = async |_: Call| Err::<Reply, _>(Error::not_found("no such item"));
    let builder = Server::builder().route(Method::POST, "/items", unread).gate(Refusing);
    let server = start(builder).await;
    for (path, header, status) in [
        ("/items", "x-refuse: 401", StatusCode::UNAUTHORIZED),
        ("/items", "x-refuse: 429", StatusCode::TOO_MANY_REQUESTS),
        ("/nothing", "x-refuse: no", StatusCode::NOT_FOUND),
        ("/items", "x-refuse: no", StatusCode::NOT_FOUND),
        ("/items", "host: u@a", StatusCode::BAD_REQUEST),
    ] {
        for bytes in [1, 100, 20_000, 100_000, 900_000].repeat(4) {
            let (exit, answer) = post(&server, path, bytes, header).await;
            assert_eq!(exit, 0, "{path} {status} {bytes}: {answer}");
            assert!(answer.ends_with(status.as_str()), "{path} {status} {bytes}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_body_that_somebody_keeps_until_after_the_reply_is_taken_in_then() {
    let (give, mut held) = tokio::sync::mpsc::unbounded_channel();
    let keeping = move |call: Call| {
        give.send(call.body).unwrap();
        let error = Error::unauthenticated("this call needs a credential, and none came");
        std::future::ready(Err::<Reply, _>(error))
    };
    let server = start(Server::builder().route(Method::POST, "/items", keeping)).await;
    let socket =
        tokio::net::TcpStream::connect(server.url().trim_start_matches("http://")).await.unwrap();
    let (mut client, connection) = h2::client::handshake(socket).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::post(format!("{}/items", server.url()))
        .header("content-type", "application/json")
        .body(())
        .unwrap();
    let (response, mut body) = client.send_request(request, false).unwrap();
    let mut response = response.await.unwrap();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    while let Some(piece) = response.body_mut().data().await {
        let bytes = piece.unwrap().len();
        response.body_mut().flow_control().release_capacity(bytes).unwrap();
    }
    drop(held.recv().await.unwrap());
    let mut left = 900_000;
    while left > 0 {
        body.reserve_capacity(left);
        let room = poll_fn(|cx| body.poll_capacity(cx)).await.expect("the stream is not reset");
        let bytes = left.min(room.unwrap());
        body.send_data(vec![b'x'; bytes].into(), bytes == left).unwrap();
        left -= bytes;
    }
    drop((client, body, response));
    connection.await.unwrap().unwrap();
}
