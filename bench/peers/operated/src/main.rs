//! A generated service with the settings of a file, for bench/operate.py: what gates and observers
//! cost. First line of output is the address.

mod proto {
    tidewire::include_protos!();
}

use std::path::PathBuf;

use proto::hello::v1::{Greeter, GreeterServer, Hello};
use tidewire::config::Config;
use tidewire::{Context, Reply, Result};

struct Echo;

impl Greeter for Echo {
    async fn say_hello(&self, _: Context, request: Hello) -> Result<Reply<Hello>> {
        Ok(request.into())
    }

    async fn look_hello(&self, _: Context, request: Hello) -> Result<Reply<Hello>> {
        Ok(request.into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let file = std::env::args_os().nth(1).map(PathBuf::from);
    let config = Config::load(file.as_deref(), [], &[]).unwrap();
    let running = config.server().unwrap().service(GreeterServer::new(Echo)).start().await.unwrap();
    println!("{}", running.addresses()[0]);
    running.until_stopped().await.unwrap();
}
