//! The same service by tonic. First line of output is the address.

#[allow(warnings)]
mod proto {
    include!(concat!(env!("OUT_DIR"), "/tonic/hello.v1.rs"));
}

use futures::stream::{self, BoxStream, StreamExt};
use proto::Hello;
use proto::greeter_server::{Greeter, GreeterServer};
use proto::many_server::{Many, ManyServer};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

struct Echo;

#[tonic::async_trait]
impl Greeter for Echo {
    async fn say_hello(&self, request: Request<Hello>) -> Result<Response<Hello>, Status> {
        Ok(Response::new(request.into_inner()))
    }

    async fn look_hello(&self, request: Request<Hello>) -> Result<Response<Hello>, Status> {
        Ok(Response::new(request.into_inner()))
    }
}

#[tonic::async_trait]
impl Many for Echo {
    type ManyHelloStream = BoxStream<'static, Result<Hello, Status>>;

    async fn many_hello(
        &self,
        request: Request<Hello>,
    ) -> Result<Response<Self::ManyHelloStream>, Status> {
        let hello = request.into_inner();
        let many = stream::iter((0..1000).map(move |_| Ok(hello.clone())));
        Ok(Response::new(many.boxed()))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into()).unwrap().with_nodelay(Some(true));
    println!("{}", incoming.local_addr().unwrap());
    let server = Server::builder().add_service(GreeterServer::new(Echo));
    server.add_service(ManyServer::new(Echo)).serve_with_incoming(incoming).await.unwrap();
}
