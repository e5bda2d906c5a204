//! A folder made for wishmock works unchanged: 930 calls over gRPC and Connect, with the answers
//! that pass.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::{Value as Json, json};
use tidewire::client::{HttpVersion, Protocol};
use tidewire::mock::{MockFolders, serve};
use tidewire::service::Frame;
use tidewire::{
    Body, Call, Client, Code, Codec, Context, Error, Method, Reply, Schema, Server, Service,
};

use crate::harness::{send, start};

pub(crate) fn folder() -> PathBuf {
    tidewire_tests::program::root().join("tests/fixtures/mock/golden")
}

/// What a call came to.
#[derive(Debug, Default)]
struct Got {
    code: String,
    message: String,
    messages: Vec<Json>,
    trailers: Vec<(String, String)>,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_golden_case_over_grpc_gets_an_answer_that_passes() {
    check_all("grpc.jsonl").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_golden_case_over_connect_gets_an_answer_that_passes() {
    check_all("connect.jsonl").await;
}

async fn check_all(file: &str) {
    let folders = MockFolders::new(folder().join("protos")).rules(folder().join("rules"));
    let (mock, _) = folders.mock(folders.load()).build();
    let (_running, address) = start(serve(Server::builder(), &mock)).await;
    let caller = Arc::new(Caller::new(mock.schema(), address));
    let text = std::fs::read_to_string(folder().join(file)).unwrap();
    let cases: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(cases.len() > 400, "the cases are there");
    let is_grpc = file.starts_with("grpc");
    let outcomes = futures_util::stream::iter(cases).map(|case| {
        let caller = Arc::clone(&caller);
        async move {
            let got = if is_grpc { caller.grpc(&case).await } else { caller.connect(&case).await };
            let accept = case["accept"].as_array().unwrap();
            let whys: Vec<_> = accept.iter().map(|answer| differs(answer, &got)).collect();
            let passes = whys.iter().any(Option::is_none);
            (!passes).then(|| format!("{}: {}", case["id"], whys[0].clone().unwrap()))
        }
    });
    let failed: Vec<_> =
        outcomes.buffer_unordered(16).filter_map(std::future::ready).collect().await;
    assert!(failed.is_empty(), "{} cases:\n{}", failed.len(), failed.join("\n"));
}

struct Caller {
    schema: Schema,
    address: SocketAddr,
    client: Client,
}

impl Caller {
    fn new(schema: Schema, address: SocketAddr) -> Self {
        let client = Client::builder(format!("http://{address}"))
            .protocol(Protocol::Grpc)
            .http(HttpVersion::Http2)
            .build()
            .unwrap();
        Self { schema, address, client }
    }

    /// The method that a case calls; of one that is not there the types come from another.
    fn method(&self, case: &Json) -> Method {
        let known = case["types_of"].as_str().or_else(|| case["method"].as_str()).unwrap();
        let (service, name) = known.split_once('/').unwrap();
        let interface = self.schema.interface(service).unwrap().unwrap();
        interface.methods().iter().find(|method| method.method == name).unwrap().clone()
    }

    async fn grpc(&self, case: &Json) -> Got {
        let method = self.method(case);
        let mut context = Context::default();
        for pair in case["metadata"].as_array().into_iter().flatten() {
            let name: tidewire::http::HeaderName = pair[0].as_str().unwrap().parse().unwrap();
            context.headers_mut().append(name, pair[1].as_str().unwrap().parse().unwrap());
        }
        let deadline = Duration::from_millis(case["deadline_ms"].as_u64().unwrap_or(8_000));
        let context = context.with_deadline(Instant::now() + deadline);
        let requests: Vec<_> = case["requests"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|json| self.schema.from_json(&method.input, json).unwrap().encode(Codec::Proto))
            .collect();
        let body = match method.kind.client_streams() {
            true => Body::stream(futures_util::stream::iter(requests)),
            false => Body::Full(requests.into_iter().next().unwrap().unwrap()),
        };
        let most = case["cancel_after"].as_u64().unwrap_or(u64::MAX);
        let call = Call::method(method.clone(), context, Codec::Proto, body);
        match self.client.call(call).await {
            Ok(reply) => self.read(&method.output, reply, most).await,
            Err(error) => failed(Got::default(), &error),
        }
    }

    async fn read(&self, output: &str, reply: Reply, most: u64) -> Got {
        let mut got = Got { code: "ok".to_owned(), ..Got::default() };
        got.add_trailers(&reply.trailers);
        let mut frames = match reply.body {
            Body::Stream(frames) => frames,
            Body::Full(bytes) => {
                got.messages.push(self.canonical(output, Codec::Proto, &bytes).unwrap());
                return got;
            }
            Body::Empty => return got,
        };
        while let Some(frame) = frames.next().await {
            match frame {
                Ok(Frame::Data(bytes)) => {
                    got.messages.push(self.canonical(output, Codec::Proto, &bytes).unwrap());
                    if got.messages.len() as u64 >= most {
                        got.code = "canceled_by_client".to_owned();
                        return got;
                    }
                }
                Ok(Frame::Trailers(trailers)) => got.add_trailers(&trailers),
                Err(error) => return failed(got, &error),
            }
        }
        got
    }

    /// A message as canonical JSON; none where JSON is not a message of the type.
    fn canonical(&self, output: &str, codec: Codec, bytes: &[u8]) -> Option<Json> {
        let message = match codec {
            Codec::Proto => self.schema.decode(output, codec, bytes),
            Codec::Json => self.schema.decode_exactly(output, bytes),
        };
        Some(serde_json::from_slice(&message.ok()?.encode(Codec::Json).unwrap()).unwrap())
    }

    async fn connect(&self, case: &Json) -> Got {
        let method = self.method(case);
        let body = match case["raw_body"].as_str() {
            Some(raw) => raw.to_owned(),
            None => case["requests"].get(0).map_or_else(|| "{}".to_owned(), Json::to_string),
        };
        let mut head = format!(
            "POST /{}\ncontent-type: application/json\nconnect-protocol-version: 1",
            case["method"].as_str().unwrap()
        );
        for pair in case["metadata"].as_array().into_iter().flatten() {
            let text = |index: usize| pair[index].as_str().unwrap().to_owned();
            head.push_str(&format!("\n{}: {}", text(0), text(1)));
        }
        let response = send(self.address, &head, body.as_bytes()).await;
        let mut got = Got { code: "ok".to_owned(), ..Got::default() };
        for line in response.head.lines() {
            if let Some((name, value)) = line.split_once(": ")
                && let Some(name) = name.strip_prefix("trailer-")
            {
                got.trailers.push((name.to_owned(), value.to_owned()));
            }
        }
        if response.status == 200 {
            got.messages.push(
                self.canonical(&method.output, Codec::Json, &response.body)
                    .unwrap_or_else(|| json!({"!not_protojson": response.text()})),
            );
            return got;
        }
        let error: Json = serde_json::from_slice(&response.body).unwrap();
        got.code = error["code"].as_str().unwrap_or("missing").to_owned();
        got.message = error["message"].as_str().unwrap_or_default().to_owned();
        got
    }
}

impl Got {
    fn add_trailers(&mut self, trailers: &tidewire::Headers) {
        for (name, value) in trailers {
            self.trailers.push((name.to_string(), value.to_str().unwrap().to_owned()));
        }
    }
}

fn failed(mut got: Got, error: &Error) -> Got {
    got.code = error.code().as_str().to_owned();
    got.message = error.message().to_owned();
    got.add_trailers(error.trailers());
    got
}

/// How an outcome differs from an answer that passes.
fn differs(answer: &Json, got: &Got) -> Option<String> {
    let why = |what: &str, wanted: &Json| Some(format!("{what}: wanted {wanted}, got {got:?}"));
    if answer["code"].as_str() != Some(&got.code) {
        return why("code", &answer["code"]);
    }
    // What a parser of JSON says is its own.
    let is_free = answer["message_free"] == true
        || got.code == Code::InvalidArgument.as_str() && got.message.contains("JSON");
    if let Some(message) = answer["message"].as_str().filter(|_| !is_free)
        && message != got.message
    {
        return why("message", &answer["message"]);
    }
    for (name, value) in answer["trailers"].as_object().into_iter().flatten() {
        let found = got.trailers.iter().find(|(known, _)| known == name);
        if found.map(|(_, value)| value.as_str()) != value.as_str() {
            return why(name, value);
        }
    }
    let wanted = answer["messages"].as_array()?;
    let is_equal = match answer["any_order"] == true {
        true => {
            wanted.len() <= got.messages.len()
                && got.messages.chunks(wanted.len()).all(|round| {
                    wanted.iter().all(|one| round.iter().any(|other| matches(one, other)))
                })
        }
        false => matches(&answer["messages"], &Json::Array(got.messages.clone())),
    };
    if !is_equal {
        return why("messages", &answer["messages"]);
    }
    let texts = got.messages.iter().map(|message| message["text"].to_string());
    let texts: std::collections::HashSet<_> = texts.collect();
    match answer["same_text"].as_str() {
        Some("all") if texts.len() != 1 => why("same_text", &answer["same_text"]),
        Some("none") if texts.len() == 1 => why("same_text", &answer["same_text"]),
        _ => None,
    }
}

/// Whether a value is what is wanted, where a text may be a pattern: `~uuid`, `~millis`, `~/…/`.
fn matches(wanted: &Json, got: &Json) -> bool {
    match (wanted, got) {
        (Json::String(pattern), got) if pattern.starts_with('~') => {
            let text = got.as_str().map_or_else(|| got.to_string(), str::to_owned);
            match pattern.as_str() {
                "~uuid" => text.len() == 36 && text.as_bytes()[14] == b'4',
                "~millis" => text.len() == 13 && text.bytes().all(|b| b.is_ascii_digit()),
                pattern => {
                    let pattern = pattern.trim_start_matches("~/").trim_end_matches('/');
                    regex::Regex::new(pattern).unwrap().is_match(&text)
                }
            }
        }
        (Json::Array(wanted), Json::Array(got)) => {
            wanted.len() == got.len()
                && wanted.iter().zip(got).all(|(wanted, got)| matches(wanted, got))
        }
        (Json::Object(wanted), Json::Object(got)) => {
            wanted.len() == got.len()
                && wanted.iter().all(|(key, one)| got.get(key).is_some_and(|got| matches(one, got)))
        }
        _ => wanted == got,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_file_in_a_wishmock_folder_is_named_and_the_others_are_served() {
    let text = std::fs::read_to_string(folder().join("boot.jsonl")).unwrap();
    for case in text.lines().map(|line| serde_json::from_str::<Json>(line).unwrap()) {
        let id = case["id"].as_str().unwrap();
        let here = tempfile::tempdir().unwrap();
        copy(&folder().join("protos"), &here.path().join("protos"));
        copy(&folder().join("rules"), &here.path().join("rules"));
        let file = case["file"].as_str().unwrap();
        let path = here.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, case["content"].as_str().unwrap()).unwrap();
        let folders = MockFolders::new(here.path().join("protos")).rules(here.path().join("rules"));
        let loaded = folders.load();
        let faults = format!("{:?}", loaded.faults);
        let (mock, findings) = folders.mock(loaded).build();
        let found = format!("{faults} {findings:?}");
        let (_running, address) = start(serve(Server::builder(), &mock)).await;
        let head = "POST /golden.core.Match/Literal\ncontent-type: application/json";
        let reply = send(address, head, br#"{"pick":"text","name":"Bob"}"#).await;
        reply.check(200, &["text"]);
        let is_fault =
            case["verdict"] == "defect" && case["expected"].to_string().contains("reports");
        // A folder is not a file, and a service without a package is served.
        let is_served = ["boot.folder-named-yaml", "boot.service-without-package"].contains(&id);
        let name = file.rsplit('/').next().unwrap();
        assert!(!is_fault || is_served || found.contains(name), "{id}: {found}");
    }
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}
