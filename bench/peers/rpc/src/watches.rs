//! What subscriptions cost a server: its own memory for each, beyond the answers that it keeps, and
//! the time from one write that touches all of them to the last notice at their client, which is
//! its own process.

use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use tidewire::Client;
use tidewire::memo::Graph;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::load::resident_bytes;
use crate::with_tidewire::{BoardClient, Id, server};

/// `COUNT`, and of the subscriber `ADDRESS COUNT`.
pub async fn run(words: &[&str]) -> Result<()> {
    match words {
        [count] => serve(count).await,
        [address, count] => subscribe(address, count.parse()?).await,
        _ => bail!("usage: rpc watches COUNT"),
    }
}

/// Serves, starts the subscriber, and tells what its steps cost.
async fn serve(count: &str) -> Result<()> {
    let watches: u64 = count.parse()?;
    let running = server("127.0.0.1:0")?.start().await?;
    let address = running.addresses()[0].to_string();
    let mut subscriber = tokio::process::Command::new(std::env::current_exe()?)
        .args(["watches", &address, count])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut steps = BufReader::new(subscriber.stdout.take().context("no steps")?).lines();
    let mut goes_on = subscriber.stdin.take().context("nobody to tell")?;
    let mut before = resident_bytes()?;
    while let Some(step) = steps.next_line().await? {
        let now = resident_bytes()?;
        let each = now.saturating_sub(before) / watches;
        let kept = Graph::global().stats().bytes >> 20;
        println!(
            "{step}; the server has {} MiB, {kept} of them in its memos; {each} bytes more for each",
            now >> 20
        );
        before = now;
        let _ = goes_on.write_all(b"\n").await;
    }
    Ok(())
}

/// The client: prints each step, and goes on when it is told.
async fn subscribe(address: &str, count: i64) -> Result<()> {
    let mut told = BufReader::new(tokio::io::stdin()).lines();
    let mut step = async |text: String| {
        println!("{text}");
        told.next_line().await
    };
    let url = format!("tcp://{address}");
    let plain = BoardClient::new(Client::builder(&url).build()?.channel());
    let watching = BoardClient::new(Client::builder(&url).watch_queries().build()?.channel());
    let id = |id: i64| Id { id, ..Default::default() };
    plain.read(id(1)).await?;
    watching.read(id(1)).await?;
    step("connected".to_owned()).await?;
    for key in 1..=count {
        plain.read(id(key)).await?;
    }
    step(format!("{count} answers are kept")).await?;
    let mut held = Vec::new();
    for key in 1..=count {
        held.push(watching.read(id(key)).await?);
    }
    let granted = held.iter().filter(|reply| reply.freshness.staleness().is_some()).count();
    step(format!("{granted} of them are watched")).await?;
    let began = Instant::now();
    plain.touch(id(1)).await?;
    let written = began.elapsed();
    for reply in &held {
        if let Some(staleness) = reply.freshness.staleness() {
            std::future::poll_fn(|cx| staleness.poll_stale(cx)).await;
        }
    }
    let last = began.elapsed();
    step(format!("written in {written:?}, the last notice after {last:?}")).await?;
    Ok(())
}
