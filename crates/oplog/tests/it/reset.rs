//! When a host starts over: the database lost what was committed, or everything changed at once.

use std::sync::Arc;

use tidewire_oplog::ResetReason;
use tokio::sync::Barrier;

use crate::cluster::Cluster;
use crate::support::{CONTACTS, Host, database, psql};

/// Case 4: a backup that is restored, as a standby that lagged and is promoted, has older rows and
/// gives out transaction ids again.
#[tokio::test]
async fn a_database_that_went_back_is_what_every_host_shows() {
    let cluster = Cluster::start();
    let config = cluster.database().await;
    psql(&config, CONTACTS);
    let hosts = [Host::start(&config).await, Host::start(&config).await];
    cluster.back_up();
    for _ in 0..20 {
        psql(&config, "UPDATE contact SET surname = 'lost' WHERE id = 1");
    }
    for host in &hosts {
        host.poll().await;
        host.world.warm().await;
        assert_eq!(host.world.surname(1).await.as_deref(), Some("lost"));
    }
    let failures: Vec<u64> = hosts.iter().map(|host| host.oplog.status().counts.failures).collect();
    cluster.restore();
    // Ids come again, and the hosts' last positions contain them.
    psql(&config, "UPDATE contact SET surname = 'again' WHERE id = 2");
    for (host, failures) in hosts.iter().zip(failures) {
        host.until(|status| status.counts.failures > failures && status.problem.is_none()).await;
        host.poll().await;
        let resets = host.oplog.status().counts.resets;
        assert_eq!(resets.get(&ResetReason::NewIncarnation), Some(&1), "{resets:?}");
        assert_eq!(host.world.surname(1).await.as_deref(), Some("Last"));
        assert_eq!(host.world.surname(2).await.as_deref(), Some("again"));
        host.world.warm().await;
        assert_eq!(host.world.fresh(), [0, 1, 2, 3]);
    }
}

/// Case 27.
#[tokio::test]
async fn a_herd_after_a_reset_loads_each_key_once() {
    let (config, client) = database().await;
    let host = Host::start(&config).await;
    host.world.warm().await;
    let sql = "INSERT INTO tidewire.log (source) VALUES ('contacts'), ('contacts.count')";
    client.batch_execute(sql).await.unwrap();
    host.poll().await;
    let loads = host.world.loads();
    let together = Arc::new(Barrier::new(200));
    let herd: Vec<_> = (0..200)
        .map(|_| {
            let (world, together) = (host.world.clone(), together.clone());
            tokio::spawn(async move {
                together.wait().await;
                world.warm().await;
            })
        })
        .collect();
    for one in herd {
        one.await.unwrap();
    }
    assert_eq!(host.world.loads(), loads + 4);
}
