//! Servers to call: ours of the behaviour service, one in Go, and some that speak something else.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tidewire::mock::error_details;
use tidewire::service::{Answer, Frame};
use tidewire::{
    Address, Body, Builder, Call, Code, Codec, Detail, Error, Reply, RunningServer, Schema, Server,
    Service,
};

/// The repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

pub(crate) fn behaviour_protos() -> String {
    root().join("tests/proto").display().to_string()
}

/// A server in the background; stops when dropped.
pub(crate) struct Background {
    runtime: Option<tokio::runtime::Runtime>,
    _running: RunningServer,
    pub(crate) address: String,
}

impl Background {
    pub(crate) fn start(builder: Builder) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let builder = builder.listen(SocketAddr::from(([127, 0, 0, 1], 0)));
        let running = runtime.block_on(builder.start()).unwrap();
        let tcp = running.addresses().iter().find_map(|address| match address {
            Address::Tcp(address) => Some(address.to_string()),
            _ => None,
        });
        Self { runtime: Some(runtime), address: tcp.unwrap(), _running: running }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Our own server of the behaviour service, whose messages are known only at run time.
pub(crate) fn behaviour() -> Builder {
    let schema = Schema::from_folder(root().join("tests/proto")).unwrap();
    let name = "tidewire.test.v1.BehaviourService";
    let backend = Behaviour { schema: schema.clone() };
    Server::builder().service(schema.serve(name, backend).unwrap())
}

#[derive(Clone)]
struct Behaviour {
    schema: Schema,
}

impl Service for Behaviour {
    fn call(&self, call: Call) -> Answer {
        let this = self.clone();
        Answer::pending(async move { this.answer(call).await })
    }
}

impl Behaviour {
    async fn answer(&self, call: Call) -> tidewire::Result<Reply> {
        let method = call.spec().cloned().unwrap();
        let codec = call.codec;
        let schema = self.schema.clone();
        let json = move |bytes: &[u8]| -> tidewire::Result<String> {
            let message = schema.decode(&method.input, codec, bytes)?.encode(Codec::Json)?;
            Ok(String::from_utf8_lossy(&message).into_owned())
        };
        let (schema, name) = (self.schema.clone(), call.spec().unwrap().method.to_string());
        let output = call.spec().unwrap().output.to_string();
        let reply =
            move |json: String| schema.decode(&output, Codec::Json, json.as_bytes())?.encode(codec);
        if name == "Chat" {
            let Body::Stream(frames) = call.body else { return Ok(Reply::new(Body::Empty)) };
            let replies = futures_util::StreamExt::filter_map(frames, move |frame| {
                std::future::ready(match frame {
                    Ok(Frame::Data(bytes)) => Some(json(&bytes).and_then(&reply)),
                    Ok(Frame::Trailers(_)) => None,
                    Err(error) => Some(Err(error)),
                })
            });
            return Ok(Reply::new(Body::stream(replies)));
        }
        let ping = call.context.header("x-ping").cloned();
        if name == "Sum" {
            let mut messages = 0;
            let Body::Stream(mut frames) = call.body else { return Ok(Reply::new(Body::Empty)) };
            while let Some(frame) = futures_util::StreamExt::next(&mut frames).await {
                messages += u32::from(matches!(frame?, Frame::Data(_)));
            }
            let body = reply(format!("{{\"messages\":{messages}}}"))?;
            return Ok(Reply::new(Body::Full(body)));
        }
        let request = json(&call.body.collect(1 << 20).await?)?;
        let value: serde_json::Value = serde_json::from_str(&request).unwrap();
        let body = match name.as_str() {
            "Count" => {
                let n = value["n"].as_u64().unwrap_or(0);
                let numbers = (1..=n).map(move |n| reply(format!("{{\"number\":{n}}}")));
                return Ok(Reply::new(Body::stream(futures_util::stream::iter(numbers))));
            }
            "Fail" => {
                let detail = self.schema.decode(
                    "tidewire.test.v1.FailDetail",
                    Codec::Json,
                    b"{\"reason\":\"asked for\"}",
                )?;
                let code = u32::try_from(value["code"].as_u64().unwrap_or(2)).unwrap();
                let message = value["message"].as_str().unwrap_or_default();
                if message == "google.rpc" {
                    return Err(detailed(Error::new(Code::from_number(code).unwrap(), message))?);
                }
                return Err(Error::new(Code::from_number(code).unwrap(), message).with_detail(
                    Detail {
                        type_name: "tidewire.test.v1.FailDetail".to_owned(),
                        value: detail.encode(Codec::Proto)?,
                    },
                ));
            }
            // Never answers: whoever calls has a deadline.
            "Slow" => std::future::pending().await,
            "Look" => reply(format!("{{\"value\":{}}}", value["key"]))?,
            _ => reply(request)?,
        };
        let mut answer = Reply::new(Body::Full(body));
        if let Some(ping) = ping {
            answer.headers.insert("x-pong", ping);
        }
        Ok(answer)
    }
}

/// The error with a detail that everybody knows, and one that nobody does.
fn detailed(error: Error) -> tidewire::Result<Error> {
    let wait = br#"{"retryDelay":"3s"}"#;
    let wait = error_details().decode("google.rpc.RetryInfo", Codec::Json, wait)?;
    let (type_name, value) = ("google.rpc.RetryInfo".to_owned(), wait.encode(Codec::Proto)?);
    let unknown = Detail { type_name: "nobody.Knows".to_owned(), value: "abc".into() };
    Ok(error.with_detail(Detail { type_name, value }).with_detail(unknown))
}

/// A server in Go of the behaviour service.
pub(crate) struct Foreign {
    child: Child,
    pub(crate) address: String,
}

impl Foreign {
    /// connect-go's, without reflection.
    pub(crate) fn start() -> Self {
        Self::run("foreign-go-server", &[])
    }

    /// grpc-go's, with one version of reflection.
    pub(crate) fn with_reflection(version: &str) -> Self {
        Self::run("foreign-grpc-server", &["127.0.0.1:0", version])
    }

    fn run(name: &str, arguments: &[&str]) -> Self {
        let path: PathBuf = root().join(".tools/bin").join(name);
        assert!(path.exists(), "{name} is not installed; run `make setup` once");
        let mut child = Command::new(path).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { child, address }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port on which every connection is answered by `answer`, whatever is sent.
pub(crate) fn says(answer: &'static [u8]) -> String {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { break };
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            if answer.is_empty() {
                // Takes everything, says nothing.
                std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
                continue;
            }
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(answer);
        }
    });
    address
}

/// A service of plain HTTP.
pub(crate) fn hello() -> Builder {
    use tidewire::http::Method;
    let hello = |call: Call| async move {
        let verb = call.http_target().map(|target| target.method.clone()).unwrap();
        let body = call.body.collect(1 << 10).await?;
        Ok(Reply::text(format!("{verb} {}", String::from_utf8_lossy(&body))))
    };
    Server::builder()
        .route(Method::GET, "/hello", hello)
        .route(Method::POST, "/hello", hello)
        .route(Method::GET, "/broken", |_: Call| async {
            Err::<Reply<Body>, _>(Error::internal("broken"))
        })
}
