//! The floor for a generated service: connectrpc with its own. First line of output is the address.

#[allow(warnings)]
mod proto {
    connectrpc::include_generated!();
}

use connectrpc::{RequestContext, Response, Router, Server, ServiceRequest, ServiceResult};
use proto::hello::v1::{Greeter, GreeterExt, Hello};

struct Echo;

impl Greeter for Echo {
    async fn say_hello(&self, _: RequestContext, request: ServiceRequest<'_, Hello>) -> ServiceResult<Hello> {
        Response::ok(request.to_owned_message())
    }

    async fn look_hello(&self, _: RequestContext, request: ServiceRequest<'_, Hello>) -> ServiceResult<Hello> {
        Response::ok(request.to_owned_message())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let router = std::sync::Arc::new(Echo).register(Router::new());
    let bound = Server::bind("127.0.0.1:0").await.unwrap();
    println!("{}", bound.local_addr().unwrap());
    bound.serve(router).await.unwrap();
}
