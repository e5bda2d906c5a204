//! Tidewire: two plain handlers and a service of two methods. First line of output is the address.

mod proto {
    tidewire::include_protos!();
}

use proto::google::api::HttpBody;
use proto::web::v1::{Index, IndexServer, Named, Said};
use tidewire::http::Method;
use tidewire::{Call, Context, Reply, Result, Server};

#[derive(serde::Serialize)]
struct Message<'a> {
    message: &'a str,
}

struct Controller;

impl Index for Controller {
    async fn plain_text(&self, _: Context, _: Named) -> Result<Reply<HttpBody>> {
        let (content_type, data) = ("text/plain".to_owned(), b"Hello World!".to_vec());
        Ok(HttpBody { content_type, data, ..Default::default() }.into())
    }

    async fn json(&self, _: Context, _: Named) -> Result<Reply<Said>> {
        Ok(Said { message: "Hello World!".to_owned(), ..Default::default() }.into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let running = Server::builder()
        .service(IndexServer::new(Controller))
        .route(Method::GET, "/plaintext", async |_: Call| Ok("Hello, World!"))
        .route(Method::GET, "/json", async |_: Call| {
            Reply::json(&Message { message: "Hello World!" })
        })
        .listen(std::net::SocketAddr::from(([127, 0, 0, 1], 0)))
        .start()
        .await
        .unwrap();
    println!("{}", running.addresses()[0]);
    running.until_stopped().await.unwrap();
}
