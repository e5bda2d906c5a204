//! Tidewire with a plain handler and a generated service. First line of output is the address.

mod proto {
    tidewire::include_protos!();
}

use proto::hello::v1::{Greeter, GreeterServer, Hello, Many, ManyServer};
use tidewire::http::Method;
use tidewire::{Call, Context, Reply, Result, Server, Stream};

struct Echo;

impl Greeter for Echo {
    async fn say_hello(&self, _: Context, request: Hello) -> Result<Reply<Hello>> {
        Ok(request.into())
    }

    async fn look_hello(&self, _: Context, request: Hello) -> Result<Reply<Hello>> {
        Ok(request.into())
    }
}

impl Many for Echo {
    async fn many_hello(&self, _: Context, request: Hello) -> Result<Reply<Stream<Hello>>> {
        let many = (0..1000).map(move |_| request.clone());
        Ok(Stream::from_values(many).into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let running = Server::builder()
        .service(GreeterServer::new(Echo))
        .service(ManyServer::new(Echo))
        .route(Method::GET, "/plaintext", async |_: Call| Ok("Hello, World!"))
        .listen(std::net::SocketAddr::from(([127, 0, 0, 1], 0)))
        .start()
        .await
        .unwrap();
    println!("{}", running.addresses()[0]);
    running.until_stopped().await.unwrap();
}
