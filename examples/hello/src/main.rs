//! One service over Connect, gRPC, gRPC-Web and REST, on one port.

tidewire::include_protos!();

use hello::v1::{GreetReply, GreetRequest, Greeter, GreeterServer};
use tidewire::{Context, Reply, Result};

struct Hello;

impl Greeter for Hello {
    async fn greet(&self, _: Context, request: GreetRequest) -> Result<Reply<GreetReply>> {
        let text = format!("Hello, {}!", request.name);
        Ok(GreetReply { text, ..Default::default() }.into())
    }
}

#[tokio::main]
async fn main() -> tidewire::Exit {
    tidewire::serve(GreeterServer::new(Hello)).await
}
