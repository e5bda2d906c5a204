//! Processor time: of backends, from `/proc`, and of this process.

use std::time::Duration;

use tokio_postgres::Client;

use crate::cluster;

/// The backends of one kind.
pub(crate) struct Backends(Vec<i32>);

impl Backends {
    /// Those whose application's name begins so, in the client's database.
    pub(crate) async fn named(config: &tokio_postgres::Config, name: &str) -> Self {
        let sql = "SELECT pid FROM pg_stat_activity \
                   WHERE starts_with(application_name, $1) AND datname = current_database()";
        let rows = cluster::open(config).await.query(sql, &[&name]).await.unwrap();
        Self(rows.iter().map(|row| row.get(0)).collect())
    }

    pub(crate) async fn of(client: &Client) -> Self {
        Self(vec![client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0)])
    }

    /// What they have used since they began.
    pub(crate) fn used(&self) -> Duration {
        let used = |pid: &i32| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
            text.split(' ').next().unwrap().parse::<u64>().unwrap()
        };
        Duration::from_nanos(self.0.iter().map(used).sum())
    }
}

/// What this process has used.
pub(crate) fn own() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

/// The load of the last minute, as the machine says.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
