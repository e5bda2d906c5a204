//! One service over Connect, gRPC, gRPC-Web and REST, on one port.

tidewire::include_protos!();

use hello::v1::{GreetReply, GreetRequest, Greeter, GreeterServer};
use tidewire::config::Config;
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
    let config = Config::load(None, std::env::vars(), &[])?;
    config.log.start()?;
    let server = config.server()?.service(GreeterServer::new(Hello)).start().await?;
    let (url, address) = (server.url(), server.addresses()[0].clone());
    let stopped = server.until_stopped();
    println!("try: curl {url}/hello/Ada");
    println!("     curl {url}/hello.v1.Greeter/Greet --json '{{\"name\":\"Ada\"}}'");
    println!("     grpcurl -plaintext -d '{{\"name\":\"Ada\"}}' {address} hello.v1.Greeter/Greet");
    stopped.await?;
    Ok(())
}
