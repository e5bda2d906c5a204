//! The program of the behaviour suite, in Rust: generated traits served over the inherited socket.

mod misbehave;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use http::StatusCode;
use tidewire::memo::Memo;
use tidewire::program::{Gateway, GatewayAsCaller, Program, Source};
use tidewire::service::{Answer, Channel, Target};
use tidewire::{
    Body, Call, Code, Codec, Context, Detail, Error, Principal, Reply, Result, Service, Stream,
};
use tokio::sync::watch;

mod generated {
    ::tidewire::include_protos!();
}

use generated::tidewire::hosted::v1::{Hosted, HostedClient, HostedServer, Number, Real, Text};

/// All there is to remember.
struct State {
    items: Source<String>,
    runs: Mutex<HashMap<String, i32>>,
    heard: watch::Sender<HashSet<String>>,
    /// Reads an item, and is kept by the program itself.
    kept: Memo<String, ()>,
    /// Asks the gateway how often Bare ran.
    asked: Memo<String, i32>,
}

#[derive(Clone)]
struct Suite(Arc<State>);

impl Suite {
    fn run(&self, key: String) -> Reply<Number> {
        number(self.ran(key)).into()
    }

    /// How often it ran for a key.
    fn ran(&self, key: String) -> i32 {
        let mut runs = self.0.runs.lock().expect("nobody panics with it");
        let count = runs.entry(key).or_default();
        *count += 1;
        *count
    }

    /// Notes a text when this is dropped: its call is over.
    fn noting(&self, text: String) -> NoteOnDrop {
        NoteOnDrop { suite: self.clone(), text }
    }
}

struct NoteOnDrop {
    suite: Suite,
    text: String,
}

impl Drop for NoteOnDrop {
    fn drop(&mut self) {
        let text = std::mem::take(&mut self.text);
        self.suite.0.heard.send_if_modified(|heard| heard.insert(text));
    }
}

fn text(text: impl Into<String>) -> Text {
    Text { text: text.into(), ..Text::default() }
}

fn number(number: i32) -> Number {
    Number { number, ..Number::default() }
}

fn described(known: &Principal) -> String {
    let tenant = known.claim("tenant").and_then(|tenant| tenant.as_str()).unwrap_or("-");
    let issuer = known.issuer();
    let subject = known.subject();
    let scopes = known.scopes().join("+");
    format!("{issuer} {subject} {scopes} {tenant} {}", known.has_scope("read"))
}

/// The gateway, asked as the cases ask it: what is kept in one codec is not in another.
fn gateway() -> HostedClient {
    HostedClient::new(Channel::new(Gateway).with_codec(Codec::Json))
}

impl Hosted for Suite {
    async fn echo(&self, context: Context, request: Text) -> Result<Reply<Text>> {
        let reply = Reply::new(request);
        match context.header("x-ping") {
            Some(ping) => reply.with_header("x-pong", ping)?.with_trailer("x-pong-trailer", ping),
            None => Ok(reply),
        }
    }

    async fn get(&self, _: Context, request: Text) -> Result<Reply<Number>> {
        match request.text.split_once(' ') {
            Some(("task", key)) => {
                let suite = self.clone();
                let key = key.to_owned();
                let reads = tokio::spawn(async move { suite.0.items.read(&key) });
                reads.await.expect("it reads");
            }
            Some(("asks", key)) => {
                let asks = tokio::spawn({
                    let key = text(key);
                    async move { gateway().get(key).await }
                });
                asks.await.expect("it asks")?;
            }
            Some(("recalls", key)) => drop(self.0.asked.get(key.to_owned()).await),
            Some(("memo", key)) => drop(self.0.kept.get(key.to_owned()).await),
            _ => {}
        }
        self.0.items.read(&request.text);
        Ok(self.run(request.text))
    }

    async fn bare(&self, _: Context, request: Text) -> Result<Reply<Number>> {
        Ok(self.run(request.text))
    }

    async fn list(&self, _: Context, request: Number) -> Result<Reply<Text>> {
        match request.number {
            0 => self.0.items.read_all(),
            ..0 => Source::<u64>::new(&"s".repeat(20_000)).read(&1),
            last => (1..=last).for_each(|key| self.0.items.read(&key.to_string())),
        }
        let ran = self.ran(request.number.to_string());
        let came = Codec::Json.encode(&request)?;
        Ok(text(format!("{ran} {}", String::from_utf8_lossy(&came))).into())
    }

    async fn set(&self, _: Context, request: Text) -> Result<Reply<Text>> {
        self.0.items.changed(&request.text);
        Ok(request.into())
    }

    async fn size(&self, _: Context, request: Real) -> Result<Reply<Number>> {
        self.0.items.read(&request.number.to_string());
        Ok(self.run(format!("size {}", request.number)))
    }

    async fn resize(&self, _: Context, request: Real) -> Result<Reply<Real>> {
        self.0.items.changed(&request.number.to_string());
        Ok(request.into())
    }

    async fn count(&self, _: Context, request: Number) -> Result<Reply<Stream<Number>>> {
        Ok(Reply::new(Stream::from_values((1..=request.number).map(number))))
    }

    async fn sum(&self, _: Context, mut requests: Stream<Number>) -> Result<Reply<Number>> {
        let mut sum = 0;
        while let Some(request) = requests.next().await? {
            if request.number == -1 {
                return Ok(number(-1).into());
            }
            sum += request.number;
        }
        Ok(number(sum).into())
    }

    async fn chat(&self, _: Context, requests: Stream<Text>) -> Result<Reply<Stream<Text>>> {
        let said = futures_util::stream::try_unfold(requests, async |mut requests| {
            let request = requests.next().await?;
            assert!(request.as_ref().is_none_or(|request| request.text != "raise"), "secret");
            Ok(request.map(|request| (text(format!("re: {}", request.text)), requests)))
        });
        Ok(Reply::new(Stream::new(said)))
    }

    async fn fail(&self, _: Context, request: Text) -> Result<Reply<Text>> {
        self.0.items.read(&request.text);
        let value = Bytes::from_static(b"\x0a\x01x");
        let detail = Detail { type_name: "tidewire.hosted.v1.Text".to_owned(), value };
        let mut error = Error::new(Code::NotFound, format!("there is no {}", request.text));
        error.set_header("x-fail", "yes")?;
        error.trailers_mut().insert("x-fail-trailer", http::HeaderValue::from_static("late"));
        Err(error.with_detail(detail))
    }

    async fn wait(&self, _: Context, request: Text) -> Result<Reply<Text>> {
        let _noting = self.noting(request.text);
        std::future::pending().await
    }

    async fn drip(&self, _: Context, request: Text) -> Result<Reply<Stream<Number>>> {
        let noting = self.noting(request.text);
        let drops =
            futures_util::stream::try_unfold((0, noting), async |(sent, noting)| match sent {
                0 => Ok(Some((number(1), (1, noting)))),
                _ => std::future::pending().await,
            });
        Ok(Reply::new(Stream::new(drops)))
    }

    async fn heard(&self, _: Context, request: Text) -> Result<Reply<Text>> {
        let mut heard = self.0.heard.subscribe();
        let noted = heard.wait_for(|heard| heard.contains(&request.text)).await.is_ok();
        debug_assert!(noted, "the sender is there as long as the suite");
        Ok(request.into())
    }

    async fn begin(&self, context: Context, request: Text) -> Result<Reply<Text>> {
        let mut words = request.text.split(' ').map(text);
        let [first, second, third] = std::array::from_fn(|_| words.next().unwrap_or_default());
        drop(self.noting(first.text));
        self.heard(context, second).await?;
        drop(self.noting(third.text));
        Ok(text("").into())
    }

    async fn within(&self, _: Context, request: Text) -> Result<Reply<Text>> {
        if request.text == "sum" {
            let sum = gateway().sum(Stream::from_values([number(5)])).await?;
            return Ok(text(sum.body.number.to_string()).into());
        }
        gateway().echo(text(format!("inner {}", request.text))).await
    }

    async fn through(&self, _: Context, request: Text) -> Result<Reply<Number>> {
        let reply = gateway().get(request).await?;
        Ok(reply.body.into())
    }

    async fn who(&self, context: Context, request: Text) -> Result<Reply<Text>> {
        match request.text.as_str() {
            "self" => return gateway().who(text("")).await,
            "caller" => {
                let gateway = Channel::new(GatewayAsCaller).with_codec(Codec::Json);
                return HostedClient::new(gateway).who(text("")).await;
            }
            _ => self.0.items.read(&"who".to_owned()),
        }
        let said = context.principal().map_or_else(|| "nobody".to_owned(), described);
        Ok(text(format!("{said} {}", self.ran("who".to_owned()))).into())
    }

    async fn who_public(&self, context: Context, request: Text) -> Result<Reply<Text>> {
        self.who(context, request).await
    }

    async fn who_vary(&self, context: Context, request: Text) -> Result<Reply<Text>> {
        self.who(context, request).await
    }

    async fn who_caller(&self, context: Context, request: Text) -> Result<Reply<Text>> {
        self.who(context, request).await
    }

    async fn who_query(&self, context: Context, request: Text) -> Result<Reply<Text>> {
        self.who(context, request).await
    }

    async fn left(&self, context: Context, _: Text) -> Result<Reply<Number>> {
        let left = context.remaining(Instant::now()).unwrap_or_default().as_millis();
        Ok(number(i32::try_from(left).unwrap_or(i32::MAX)).into())
    }

    async fn r#do(&self, _: Context, request: Text) -> Result<Reply<Text>> {
        misbehave::as_told(&request.text).await.map(|said| text(said).into())
    }
}

/// Says what it was asked.
struct Pages;

impl Service for Pages {
    fn call(&self, call: Call) -> Answer {
        Answer::pending(async move {
            let Call { target: Target::Http(asked), body, .. } = call else {
                return Err(Error::unimplemented("it answers pages"));
            };
            let path = asked.uri.path_and_query().map_or("/", |path| path.as_str());
            let mut said = format!("{} {} ", asked.method, path.replace("%20", " ")).into_bytes();
            said.extend_from_slice(&body.collect(64 << 20).await?);
            let reply = Reply::new(Body::from(said)).with_status(StatusCode::CREATED);
            reply.with_header("x-page", "yes")
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tidewire::Exit {
    let items = Source::new("items");
    let heard = watch::Sender::default();
    let kept = Memo::infallible("kept", async |key| Source::<String>::new("items").read(&key));
    let asked = Memo::infallible("asked", async |key| {
        gateway().bare(text(key)).await.map_or(0, |reply| reply.body.number)
    });
    let suite = Suite(Arc::new(State { items, runs: Mutex::default(), heard, kept, asked }));
    Ok(Program::new().service(HostedServer::new(suite)).pages(Pages).run().await?)
}
