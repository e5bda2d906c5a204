//! The load test of the web-server comparison as a contract: its requests in its order, on
//! connections that are kept, with its assertions to the letter.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{HeaderMap, Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::app::App;

/// As the plan's files of words and names have them, and worse.
const WORDS: [&str; 5] = ["the", "hello", "benchmark", "zzz", "a"];
const NAMES: [(&str, &str); 5] = [
    ("Ada", "Lovelace"),
    ("Zoë", "O'Brien"),
    ("Cher", ""),
    ("Łukasz", "van der Berg"),
    ("Robert'); DROP TABLE contact;--", "Tables"),
];

#[tokio::test]
async fn the_load_test_of_the_comparison_finds_no_error_on_either_database() {
    for app in App::each().await {
        let mut threads = JoinSet::new();
        for _ in 0..4 {
            threads.spawn(thread(app.address()));
        }
        while let Some(ended) = threads.join_next().await {
            ended.unwrap();
        }
        app.stop().await;
    }
}

/// One thread of the plan: each of its groups in turn, with the files from the top.
async fn thread(address: String) {
    let mut connection = Connection::open(address.clone()).await;
    for word in WORDS {
        assert_eq!(connection.send(Method::GET, "/health", "").await.code, 204);
        let echo = connection.send(Method::GET, &format!("/echo/{word}"), "").await;
        assert_eq!((echo.code, echo.body.as_str()), (200, word));
    }
    for (first_name, surname) in NAMES {
        let json = format!(r#"{{"firstName":"{first_name}","surname":"{surname}"}}"#);
        let created = connection.send(Method::POST, "/contacts", &json).await;
        let id = contact_id(&created.body);
        assert_eq!(created.code, 201);
        assert!(created.headers.contains("content-type: application/json\n"));
        let location = format!("location: http://{address}/contacts/{id}\n");
        assert!(created.headers.contains(&location), "{}", created.headers);
        let path = format!("/contacts/{id}");
        let found = connection.send(Method::GET, &path, "").await;
        assert_eq!(found.code, 200);
        assert!(found.headers.contains("content-type: application/json\n"));
        for body in [created.body, found.body] {
            assert!(body.contains(&format!(r#""id":{id}"#)), "{body}");
            assert!(body.contains(&format!(r#""firstName":"{first_name}""#)), "{body}");
            assert!(body.contains(&format!(r#""surname":"{surname}""#)), "{body}");
        }
        assert_eq!(connection.send(Method::DELETE, &path, "").await.code, 204);
        assert_eq!(connection.send(Method::DELETE, &path, "").await.code, 204);
        assert_eq!(connection.send(Method::GET, &path, "").await.code, 404);
    }
}

/// The plan's extractor `$.id`.
fn contact_id(body: &str) -> i64 {
    let json: serde_json::Value = serde_json::from_str(body).unwrap();
    json["id"].as_i64().expect("a number, not a string")
}

/// A connection that is kept.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    address: String,
}

struct Answer {
    code: u16,
    headers: String,
    body: String,
}

impl Connection {
    async fn open(address: String) -> Self {
        let io = TokioIo::new(TcpStream::connect(&address).await.unwrap());
        let (sender, connection) = http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        Self { sender, address }
    }

    async fn send(&mut self, method: Method, path: &str, body: &str) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.address)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_owned())))
            .unwrap();
        self.sender.ready().await.unwrap();
        let response = self.sender.send_request(request).await.unwrap();
        let (code, headers) = (response.status().as_u16(), lines(response.headers()));
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Answer { code, headers, body: String::from_utf8(body.to_vec()).unwrap() }
    }
}

fn lines(headers: &HeaderMap) -> String {
    let lines =
        headers.iter().map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()));
    lines.collect()
}
