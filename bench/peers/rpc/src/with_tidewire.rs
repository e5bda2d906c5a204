//! Tidewire: services, and clients over each of its transports; replicas of kept answers, also over
//! a relay.

mod proto {
    tidewire::include_protos!();
}

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tidewire::client::{Protocol, Replicas};
use tidewire::memo::{Graph, Memo, Source};
use tidewire::{Address, Client, Codec, Context, ReplyCache, Error, Limits, Reply, Server, Stream};
use tidewire::service::Channel;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::answers::{CREATED_AT, EMAIL, GREETED, NAME, PETS, burn};
use crate::load::{Caller, Plan, Window};
pub use proto::kept::v1::{Board, BoardClient, BoardServer, Cell};
use proto::kept::v1::{Kept, KeptClient, KeptServer};
use proto::rpc::v1::{
    Hello, Item, Many, Micros, Pet, Rpc, RpcClient, RpcServer, Two, User, hello::Choice,
};
pub use proto::rpc::v1::{Id, One};

type Answer<T> = tidewire::Result<Reply<T>>;

struct Answers;

impl Rpc for Answers {
    async fn sum(&self, _: Context, two: Two) -> Answer<One> {
        Ok(sum(&two).into())
    }

    async fn get_user(&self, _: Context, id: Id) -> Answer<User> {
        Ok(user(id.id).into())
    }

    async fn say_hello(&self, _: Context, hello: Hello) -> Answer<Hello> {
        Ok(hello.into())
    }

    async fn items(&self, _: Context, many: Many) -> Answer<Stream<Item>> {
        let item = Item { data: vec![7; many.bytes as usize].into(), ..Default::default() };
        Ok(Stream::from_values((0..many.count).map(move |_| item.clone())).into())
    }

    async fn burn(&self, _: Context, micros: Micros) -> Answer<One> {
        burn(micros.micros);
        Ok(One::default().into())
    }
}

/// The same answers, made of rows that nobody changes; what reads no source is not kept.
struct OfRows(Source<i64>);

impl Kept for OfRows {
    async fn sum(&self, _: Context, two: Two) -> Answer<One> {
        self.0.read(&i64::from(two.a));
        Ok(sum(&two).into())
    }

    async fn get_user(&self, _: Context, id: Id) -> Answer<User> {
        self.0.read(&id.id);
        Ok(user(id.id).into())
    }

    async fn say_hello(&self, _: Context, hello: Hello) -> Answer<Hello> {
        self.0.read(&0);
        Ok(hello.into())
    }
}

fn sum(two: &Two) -> One {
    One { n: i64::from(two.a) + i64::from(two.b), ..Default::default() }
}

fn user(id: i64) -> User {
    let (name, email) = (NAME.into(), EMAIL.into());
    let (created_at, modified_at) = (CREATED_AT, CREATED_AT + id);
    User { id, version: 1, created_at, modified_at, name, email, ..Default::default() }
}

/// Numbers that somebody changes.
struct Numbers {
    written: std::sync::Mutex<std::collections::HashMap<i64, i64>>,
    source: Source<i64>,
}

impl Board for Numbers {
    async fn read(&self, _: Context, id: Id) -> Answer<One> {
        self.source.read(&id.id);
        let written = self.written.lock().map_err(|_| Error::internal("poisoned"))?;
        let n = written.get(&id.id).copied().unwrap_or_default();
        Ok(One { n, ..Default::default() }.into())
    }

    async fn write(&self, _: Context, cell: Cell) -> Answer<One> {
        let write = self.source.write(&cell.id);
        let mut written = self.written.lock().map_err(|_| Error::internal("poisoned"))?;
        written.insert(cell.id, cell.n);
        drop(written);
        write.finish();
        Ok(One { n: cell.n, ..Default::default() }.into())
    }

    async fn touch(&self, _: Context, _: Id) -> Answer<One> {
        self.source.changed_all();
        Ok(One::default().into())
    }
}

/// Serves everything; over all protocols, at one address.
pub async fn serve(address: &str) -> Result<()> {
    let running = server(address)?.start().await?;
    println!("{}", running.addresses()[0]);
    running.until_stopped().await?;
    Ok(())
}

/// A server that is not started yet, whose answers are kept in a graph of the process.
pub fn server(address: &str) -> Result<tidewire::Builder> {
    let graph = Graph::global();
    graph.set_budget(4 << 30);
    let numbers = Numbers { written: Default::default(), source: Source::new("numbers") };
    let mut limits = Limits::default();
    limits.streams_max = 1024;
    Ok(Server::builder()
        .service(RpcServer::new(Answers))
        .service(KeptServer::new(OfRows(Source::new("rows"))))
        .service(BoardServer::new(numbers))
        .limits(limits)
        .memo(ReplyCache::new(&graph))
        .listen(address.parse::<Address>()?))
}

/// Serves the board of another server, whose address it is given, from replicas.
pub async fn relay(board: &str) -> Result<()> {
    let graph = Graph::global();
    let client =
        Client::builder(format!("tcp://{board}")).replicas(Replicas::new(&graph)).build()?;
    let running = Server::builder()
        .service(BoardServer::new(BoardClient::new(client.channel())))
        .memo(ReplyCache::new(&graph))
        .listen(SocketAddr::from(([127, 0, 0, 1], 0)))
        .start()
        .await?;
    println!("{}", running.addresses()[0]);
    running.until_stopped().await?;
    Ok(())
}

pub fn in_process() -> Local<RpcClient> {
    Local(RpcClient::new(Channel::new(RpcServer::new(Answers))))
}

pub fn replica(address: &str) -> Result<Local<KeptClient>> {
    let replicas = Replicas::new(&Graph::global());
    let client = Client::builder(format!("tcp://{address}")).replicas(replicas).build()?;
    Ok(Local(KeptClient::new(client.channel())))
}

/// A client over a network.
pub fn connect(way: &str, address: &str) -> Result<RpcClient> {
    let builder = match way {
        "unix" => Client::builder(address).protocol(Protocol::Live),
        "tcp" | "ws" => Client::builder(format!("{way}://{address}")),
        "grpc" => Client::builder(format!("http://{address}")).protocol(Protocol::Grpc),
        "connect-json" => Client::builder(format!("http://{address}")).codec(Codec::Json),
        _ => Client::builder(format!("http://{address}")),
    };
    Ok(RpcClient::new(builder.build()?.channel()))
}

fn hello() -> Hello {
    let pet = |(name, color): (&str, &str)| Pet {
        name: name.into(),
        color: color.into(),
        ..Default::default()
    };
    Hello {
        name: "it".into(),
        d: 4.2,
        f: 4.2,
        b: true,
        n: GREETED,
        l: 42,
        choice: Some(Choice::C1("hello".into())),
        pets: PETS.map(pet).into(),
        ..Default::default()
    }
}

impl Caller for RpcClient {
    async fn sum(&self, a: i32, b: i32) -> Result<i64> {
        Ok(RpcClient::sum(self, Two { a, b, ..Default::default() }).await?.body.n)
    }

    async fn user(&self, id: i64) -> Result<i64> {
        Ok(self.get_user(Id { id, ..Default::default() }).await?.body.id)
    }

    async fn hello(&self) -> Result<i32> {
        Ok(self.say_hello(hello()).await?.body.n)
    }

    async fn items(
        &self,
        count: u32,
        bytes: u32,
        mut each: impl FnMut(usize) -> bool + Send,
    ) -> Result<()> {
        let many = Many { count, bytes, ..Default::default() };
        let mut items = RpcClient::items(self, many).await?.body;
        while let Some(item) = items.next().await? {
            if !each(item.data.len()) {
                break;
            }
        }
        Ok(())
    }

    async fn burn(&self, micros: u32) -> Result<()> {
        RpcClient::burn(self, Micros { micros, ..Default::default() }).await?;
        Ok(())
    }
}

/// A client whose answers come from this process.
#[derive(Clone)]
pub struct Local<C>(C);

impl Caller for Local<RpcClient> {
    const IS_LOCAL: bool = true;

    async fn sum(&self, a: i32, b: i32) -> Result<i64> {
        Caller::sum(&self.0, a, b).await
    }

    async fn user(&self, id: i64) -> Result<i64> {
        self.0.user(id).await
    }

    async fn hello(&self) -> Result<i32> {
        Caller::hello(&self.0).await
    }

    async fn items(
        &self,
        count: u32,
        bytes: u32,
        each: impl FnMut(usize) -> bool + Send,
    ) -> Result<()> {
        Caller::items(&self.0, count, bytes, each).await
    }
}

impl Caller for Local<KeptClient> {
    const IS_LOCAL: bool = true;

    async fn sum(&self, a: i32, b: i32) -> Result<i64> {
        Ok(self.0.sum(Two { a, b, ..Default::default() }).await?.body.n)
    }

    async fn user(&self, id: i64) -> Result<i64> {
        Ok(self.0.get_user(Id { id, ..Default::default() }).await?.body.id)
    }

    async fn hello(&self) -> Result<i32> {
        Ok(self.0.say_hello(hello()).await?.body.n)
    }
}

/// From a write at the server to its value in a memo of this process, which holds it as a replica
/// of a relay's replica: three processes.
pub async fn hops(address: &str, plan: &Plan) -> Result<Value> {
    let mut relay = tokio::process::Command::new(std::env::current_exe()?)
        .args(["serve", "relay", address])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let told = relay.stdout.take().context("the relay says nothing")?;
    let via = BufReader::new(told).lines().next_line().await?.context("the relay did not start")?;
    let replicas = Replicas::new(&Graph::global());
    let far = Client::builder(format!("tcp://{via}")).replicas(replicas).build()?;
    let (far, near) =
        (BoardClient::new(far.channel()), Client::builder(format!("tcp://{address}")));
    let near = BoardClient::new(near.build()?.channel());
    let seen = Memo::new("seen", move |id: i64| {
        let far = far.clone();
        async move { Ok::<_, Error>(far.read(Id { id, ..Default::default() }).await?.body.n) }
    });
    let mut values = seen.watch(1);
    let window = Window::after(plan.warm_up, plan.length);
    for n in 1.. {
        // Between a millisecond and the time that a change takes, so that none waits for another.
        tokio::time::sleep(Duration::from_millis(2)).await;
        let began = Instant::now();
        if began >= window.end {
            break;
        }
        near.write(Cell { id: 1, n, ..Default::default() }).await?;
        loop {
            let value = values.next().await.context("the memo is closed")??;
            ensure!(*value <= n, "{} was not written yet", *value);
            if *value == n {
                break;
            }
        }
        window.answered(began, Instant::now());
    }
    relay.kill().await?;
    window.counted()
}
