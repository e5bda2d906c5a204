//! connectrpc with protobuf over Connect on HTTP/2, with the transport that it recommends.

#[allow(warnings)]
mod proto {
    connectrpc::include_generated!();
}

use anyhow::Result;
use connectrpc::client::{ClientConfig, Http2Connection, SharedHttp2Connection};
use connectrpc::{
    RequestContext, Response, Router, Server, ServiceRequest, ServiceResult, ServiceStream,
};
use futures::{StreamExt as _, stream};
use proto::rpc::v1::{
    Hello, Id, Item, Many, Micros, One, Pet, Rpc, RpcClient, RpcExt, Two, User, hello::Choice,
};

use crate::answers::{CREATED_AT, EMAIL, GREETED, NAME, PETS, burn};
use crate::load::Caller;

struct Answers;

#[allow(refining_impl_trait)]
impl Rpc for Answers {
    async fn sum(&self, _: RequestContext, two: ServiceRequest<'_, Two>) -> ServiceResult<One> {
        Response::ok(One { n: i64::from(two.a) + i64::from(two.b), ..Default::default() })
    }

    async fn get_user(&self, _: RequestContext, id: ServiceRequest<'_, Id>) -> ServiceResult<User> {
        let (name, email) = (NAME.into(), EMAIL.into());
        let (created_at, modified_at) = (CREATED_AT, CREATED_AT + id.id);
        let id = id.id;
        Response::ok(User {
            id,
            version: 1,
            created_at,
            modified_at,
            name,
            email,
            ..Default::default()
        })
    }

    async fn say_hello(
        &self,
        _: RequestContext,
        hello: ServiceRequest<'_, Hello>,
    ) -> ServiceResult<Hello> {
        Response::ok(hello.to_owned_message())
    }

    async fn items(
        &self,
        _: RequestContext,
        many: ServiceRequest<'_, Many>,
    ) -> ServiceResult<ServiceStream<Item>> {
        let item = Item { data: vec![7; many.bytes as usize].into(), ..Default::default() };
        let items = stream::iter((0..many.count).map(move |_| Ok(item.clone())));
        Response::ok(items.boxed())
    }

    async fn burn(
        &self,
        _: RequestContext,
        micros: ServiceRequest<'_, Micros>,
    ) -> ServiceResult<One> {
        burn(micros.micros);
        Response::ok(One::default())
    }
}

pub async fn serve(address: &str) -> Result<()> {
    let router = std::sync::Arc::new(Answers).register(Router::new());
    let bound = Server::bind(address).await.map_err(|error| anyhow::anyhow!("{error}"))?;
    println!("{}", bound.local_addr()?);
    bound.serve(router).await.map_err(|error| anyhow::anyhow!("{error}"))
}

pub fn connect(address: &str) -> Result<RpcClient<SharedHttp2Connection>> {
    let uri: hyper::Uri = format!("http://{address}").parse()?;
    let connection = Http2Connection::lazy_plaintext(uri.clone()).shared(1024);
    Ok(RpcClient::new(connection, ClientConfig::new(uri)))
}

impl Caller for RpcClient<SharedHttp2Connection> {
    async fn sum(&self, a: i32, b: i32) -> Result<i64> {
        Ok(RpcClient::sum(self, Two { a, b, ..Default::default() }).await?.into_owned().n)
    }

    async fn user(&self, id: i64) -> Result<i64> {
        Ok(self.get_user(Id { id, ..Default::default() }).await?.into_owned().id)
    }

    async fn hello(&self) -> Result<i32> {
        Ok(self.say_hello(hello()).await?.into_owned().n)
    }

    async fn items(
        &self,
        count: u32,
        bytes: u32,
        mut each: impl FnMut(usize) -> bool + Send,
    ) -> Result<()> {
        let many = Many { count, bytes, ..Default::default() };
        let mut items = RpcClient::items(self, many).await?;
        while let Some(item) = items.message().await? {
            if !each(item.data().len()) {
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
