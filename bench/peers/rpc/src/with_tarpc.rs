//! tarpc with bincode over TCP. It has no streams.

use anyhow::Result;
use futures::{StreamExt as _, future};
use serde::{Deserialize, Serialize};
use tarpc::serde_transport::tcp;
use tarpc::server::{BaseChannel, Channel as _};
use tarpc::tokio_serde::formats::Bincode;
use tarpc::{client, context};

use crate::answers::{CREATED_AT, EMAIL, GREETED, NAME, PETS, burn};
use crate::load::Caller;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct User {
    id: i64,
    version: i64,
    created_at: i64,
    modified_at: i64,
    name: String,
    email: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Choice {
    C1(String),
    C2(bool),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Pet {
    name: String,
    color: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    name: String,
    d: f64,
    f: f32,
    b: bool,
    n: i32,
    l: i64,
    choice: Option<Choice>,
    pets: Vec<Pet>,
}

#[tarpc::service]
pub trait Rpc {
    async fn sum(a: i32, b: i32) -> i64;
    async fn user(id: i64) -> User;
    async fn say_hello(hello: Hello) -> Hello;
    async fn burn(micros: u32);
}

#[derive(Clone)]
struct Answers;

impl Rpc for Answers {
    async fn sum(self, _: context::Context, a: i32, b: i32) -> i64 {
        i64::from(a) + i64::from(b)
    }

    async fn user(self, _: context::Context, id: i64) -> User {
        let (name, email) = (NAME.into(), EMAIL.into());
        let (created_at, modified_at) = (CREATED_AT, CREATED_AT + id);
        User { id, version: 1, created_at, modified_at, name, email }
    }

    async fn say_hello(self, _: context::Context, hello: Hello) -> Hello {
        hello
    }

    async fn burn(self, _: context::Context, micros: u32) {
        burn(micros);
    }
}

pub async fn serve(address: &str) -> Result<()> {
    let mut listener = tcp::listen(address, Bincode::default).await?;
    println!("{}", listener.local_addr());
    while let Some(transport) = listener.next().await {
        let transport = transport?;
        transport.get_ref().set_nodelay(true)?;
        let channel = BaseChannel::with_defaults(transport);
        tokio::spawn(channel.execute(Answers.serve()).for_each(|answer| {
            tokio::spawn(answer);
            future::ready(())
        }));
    }
    Ok(())
}

pub async fn connect(address: &str) -> Result<RpcClient> {
    let transport = tcp::connect(address, Bincode::default).await?;
    transport.get_ref().set_nodelay(true)?;
    let mut config = client::Config::default();
    config.max_in_flight_requests = 1024;
    config.pending_request_buffer = 1024;
    Ok(RpcClient::new(config, transport).spawn())
}

impl Caller for RpcClient {
    async fn sum(&self, a: i32, b: i32) -> Result<i64> {
        Ok(RpcClient::sum(self, context::current(), a, b).await?)
    }

    async fn user(&self, id: i64) -> Result<i64> {
        Ok(RpcClient::user(self, context::current(), id).await?.id)
    }

    async fn hello(&self) -> Result<i32> {
        Ok(self.say_hello(context::current(), hello()).await?.n)
    }

    async fn burn(&self, micros: u32) -> Result<()> {
        Ok(RpcClient::burn(self, context::current(), micros).await?)
    }
}

fn hello() -> Hello {
    let pet = |(name, color): (&str, &str)| Pet { name: name.into(), color: color.into() };
    let choice = Some(Choice::C1("hello".into()));
    let pets = PETS.map(pet).into();
    Hello { name: "it".into(), d: 4.2, f: 4.2, b: true, n: GREETED, l: 42, choice, pets }
}
