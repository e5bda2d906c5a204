//! What goes wrong while everybody reads and writes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Config;

use crate::cluster::Cluster;
use crate::history::Random;
use crate::host::LEASE;
use crate::process::HostProcess;
use crate::{CELLS, connect};

/// One fault after the other, until the end.
pub(crate) async fn run(
    mut random: Random,
    cluster: Arc<Cluster>,
    config: Config,
    hosts: Arc<[HostProcess]>,
    end: Instant,
) {
    let long = tokio::spawn(stay_open(Random(random.below(1 << 40)), config.clone(), end));
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(300 + random.below(700))).await;
        let host = &hosts[random.below(hosts.len() as u64) as usize];
        match random.below(8) {
            0 | 1 => host.kill().await,
            2 | 3 => host.pause(LEASE + Duration::from_millis(random.below(1000))).await,
            4 => host.pause(Duration::from_millis(random.below(500))).await,
            5 => end_backends(&config).await,
            6 => {
                // What blocks runs elsewhere.
                let cluster = Arc::clone(&cluster);
                let crash = move || {
                    cluster.crash();
                    cluster.resume();
                };
                tokio::task::spawn_blocking(crash).await.unwrap();
            }
            _ => {}
        }
    }
    long.await.unwrap();
}

/// Ends every connection but its own.
async fn end_backends(config: &Config) {
    if let Some(client) = connect(config).await {
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE pid <> pg_backend_pid() AND datname = current_database() AND random() < 0.7";
        let _ = client.batch_execute(sql).await;
    }
}

/// A transaction that changes a row and commits long after others have, or never.
async fn stay_open(mut random: Random, config: Config, end: Instant) {
    while Instant::now() < end {
        let Some(client) = connect(&config).await else { continue };
        let id = CELLS + random.below(3);
        let sql = format!(
            "BEGIN; INSERT INTO cell VALUES ({id}, 1) ON CONFLICT (id) DO UPDATE SET value = cell.value + 1"
        );
        if client.batch_execute(&sql).await.is_err() {
            continue;
        }
        let left = end.saturating_duration_since(Instant::now());
        let length = Duration::from_millis(random.below(4000)).min(left);
        tokio::time::sleep(length).await;
        let last = if random.below(4) == 0 { "ROLLBACK" } else { "COMMIT" };
        let _ = client.batch_execute(last).await;
    }
}
