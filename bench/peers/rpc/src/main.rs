//! Calls between two processes, of Tidewire and of those that a reader would take instead.
//!
//! ```text
//! rpc serve WAY [ADDRESS]                                       prints the address as its first line
//! rpc load WAY ADDRESS CASE SECONDS WARM_UP CONNECTIONS         prints one line of JSON with what it counted
//! rpc watches COUNT                                             what subscriptions cost a server
//! ```
//!
//! Every way is used as its guide says, with the bounds on streams at 1,024 for all. Whoever may
//! use one core only does it with one thread.

mod answers;
mod bare;
mod latency;
mod load;
mod watches;
mod with_connectrpc;
mod with_redis;
mod with_tarpc;
mod with_tidewire;
mod with_tonic;

use anyhow::{Result, bail};

use load::Plan;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    runtime()?.block_on(async {
        match &words[..] {
            ["serve", way, address @ ..] => serve(way, address.first().copied()).await,
            ["load", way, address, plan @ ..] => load(way, address, Plan::of(plan)?).await,
            ["watches", rest @ ..] => watches::run(rest).await,
            _ => bail!("usage: rpc serve|load|watches, as its source says"),
        }
    })
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    match std::thread::available_parallelism().map_or(1, Into::into) {
        1 => tokio::runtime::Builder::new_current_thread().enable_all().build(),
        _ => tokio::runtime::Runtime::new(),
    }
}

async fn serve(way: &str, address: Option<&str>) -> Result<()> {
    let address = address.unwrap_or("127.0.0.1:0");
    match way {
        "tidewire" => with_tidewire::serve(address).await,
        "relay" => with_tidewire::relay(address).await,
        "tonic" => with_tonic::serve(address).await,
        "connectrpc" => with_connectrpc::serve(address).await,
        "tarpc" => with_tarpc::serve(address).await,
        "bare" => bare::serve(address).await,
        other => bail!("nothing serves by the way {other:?}"),
    }
}

async fn load(way: &str, address: &str, plan: Plan) -> Result<()> {
    let counted = match way {
        "replica" if plan.case == load::Case::Hops => with_tidewire::hops(address, &plan).await?,
        "in-process" => plan.measure(|| async { Ok(with_tidewire::in_process()) }).await?,
        "replica" => plan.measure(|| async { with_tidewire::replica(address) }).await?,
        "tcp" | "ws" | "unix" | "connect" | "connect-json" | "grpc" => {
            plan.measure(|| async { with_tidewire::connect(way, address) }).await?
        }
        "tonic" => plan.measure(|| with_tonic::connect(address)).await?,
        "connectrpc" => plan.measure(|| async { with_connectrpc::connect(address) }).await?,
        "tarpc" => plan.measure(|| with_tarpc::connect(address)).await?,
        "redis" => plan.measure(|| with_redis::connect(address, false)).await?,
        "redis-cached" => plan.measure(|| with_redis::connect(address, true)).await?,
        "bare" => plan.measure(|| bare::connect(address)).await?,
        other => bail!("nothing is loaded by the way {other:?}"),
    };
    println!("{counted}");
    Ok(())
}
