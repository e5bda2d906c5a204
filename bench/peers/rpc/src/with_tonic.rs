//! gRPC by tonic.

#[allow(warnings)]
mod proto {
    include!(concat!(env!("OUT_DIR"), "/tonic/rpc.v1.rs"));
}

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use proto::rpc_client::RpcClient;
use proto::rpc_server::{Rpc, RpcServer};
use proto::{Hello, Id, Item, Many, Micros, One, Pet, Two, User, hello::Choice};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

use crate::answers::{CREATED_AT, EMAIL, GREETED, NAME, PETS, burn};
use crate::load::Caller;

struct Answers;

#[tonic::async_trait]
impl Rpc for Answers {
    type ItemsStream = BoxStream<'static, Result<Item, Status>>;

    async fn sum(&self, request: Request<Two>) -> Result<Response<One>, Status> {
        let two = request.into_inner();
        Ok(Response::new(One { n: i64::from(two.a) + i64::from(two.b) }))
    }

    async fn get_user(&self, request: Request<Id>) -> Result<Response<User>, Status> {
        let id = request.into_inner().id;
        let (name, email) = (NAME.into(), EMAIL.into());
        let (created_at, modified_at) = (CREATED_AT, CREATED_AT + id);
        Ok(Response::new(User { id, version: 1, created_at, modified_at, name, email }))
    }

    async fn say_hello(&self, request: Request<Hello>) -> Result<Response<Hello>, Status> {
        Ok(Response::new(request.into_inner()))
    }

    async fn items(&self, request: Request<Many>) -> Result<Response<Self::ItemsStream>, Status> {
        let many = request.into_inner();
        let item = Item { data: Bytes::from(vec![7; many.bytes as usize]) };
        let items = stream::iter((0..many.count).map(move |_| Ok(item.clone())));
        Ok(Response::new(items.boxed()))
    }

    async fn burn(&self, request: Request<Micros>) -> Result<Response<One>, Status> {
        burn(request.into_inner().micros);
        Ok(Response::new(One::default()))
    }
}

pub async fn serve(address: &str) -> anyhow::Result<()> {
    let incoming = TcpIncoming::bind(address.parse()?)?.with_nodelay(Some(true));
    println!("{}", incoming.local_addr()?);
    let server = Server::builder().max_concurrent_streams(Some(1024));
    server.clone().add_service(RpcServer::new(Answers)).serve_with_incoming(incoming).await?;
    Ok(())
}

pub async fn connect(address: &str) -> anyhow::Result<RpcClient<Channel>> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
    Ok(RpcClient::new(endpoint.connect().await?))
}

impl Caller for RpcClient<Channel> {
    async fn sum(&self, a: i32, b: i32) -> anyhow::Result<i64> {
        Ok(RpcClient::sum(&mut self.clone(), Two { a, b }).await?.into_inner().n)
    }

    async fn user(&self, id: i64) -> anyhow::Result<i64> {
        Ok(self.clone().get_user(Id { id }).await?.into_inner().id)
    }

    async fn hello(&self) -> anyhow::Result<i32> {
        Ok(self.clone().say_hello(hello()).await?.into_inner().n)
    }

    async fn items(
        &self,
        count: u32,
        bytes: u32,
        mut each: impl FnMut(usize) -> bool + Send,
    ) -> anyhow::Result<()> {
        let many = Many { count, bytes };
        let mut items = RpcClient::items(&mut self.clone(), many).await?.into_inner();
        while let Some(item) = items.message().await? {
            if !each(item.data.len()) {
                break;
            }
        }
        Ok(())
    }

    async fn burn(&self, micros: u32) -> anyhow::Result<()> {
        RpcClient::burn(&mut self.clone(), Micros { micros }).await?;
        Ok(())
    }
}

fn hello() -> Hello {
    let pet = |(name, color): (&str, &str)| Pet { name: name.into(), color: color.into() };
    let choice = Some(Choice::C1("hello".into()));
    let pets = PETS.map(pet).into();
    Hello { name: "it".into(), d: 4.2, f: 4.2, b: true, n: GREETED, l: 42, choice, pets }
}
