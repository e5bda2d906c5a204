//! Rounds of writing, the ways one after the other in each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_postgres::Config;

use crate::cluster::{self, Cluster};
use crate::report::{Bar, Report, Section};
use crate::times::{Round, Spread};
use crate::ways::{Running, Way};

/// How long a run is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Length {
    pub(crate) rounds: u32,
    pub(crate) seconds: Duration,
}

/// Who writes.
#[derive(Debug, Clone, Copy)]
struct Load {
    writers: u32,
    /// Between writes of one writer, up to this, at random.
    pause: Duration,
    /// Whether memos of the other host depend on what is written.
    is_warm: bool,
}

/// A way with what its rounds showed.
struct Measured {
    name: String,
    way: Way,
    config: Config,
    rounds: Vec<Round>,
}

impl Measured {
    fn spread(&self, of: impl Fn(&Round) -> f64) -> Spread {
        Spread::of(self.rounds.iter().map(of))
    }

    fn row(&self) -> String {
        let lost: usize = self.rounds.iter().map(|round| round.lost).sum();
        let writes: usize = self.rounds.iter().map(|round| round.writes).sum();
        let rate = self.spread(|round| round.writes_per_second);
        if self.rounds.iter().any(|round| round.p50.is_nan()) {
            return format!("{} | – | – | {rate} | –", self.name);
        }
        let p50 = self.spread(|round| round.p50);
        let p99 = self.spread(|round| round.p99);
        format!("{} | {p50} | {p99} | {rate} | {lost} of {writes}", self.name)
    }
}

const HEAD: &str = "way | p50 ms | p99 ms | writes/s | lost";

async fn measure(
    cluster: &Cluster,
    length: Length,
    load: Load,
    ways: &[(&str, Way)],
) -> Vec<Measured> {
    let mut measured = Vec::new();
    for (name, way) in ways {
        let config = way.database(cluster).await;
        let rounds = Vec::new();
        measured.push(Measured { name: (*name).to_owned(), way: *way, config, rounds });
    }
    for _ in 0..length.rounds {
        for measured in &mut measured {
            // The checkpoint of one round is not another's.
            cluster::execute(&measured.config, "CHECKPOINT").await;
            let running = Arc::new(measured.way.start(&measured.config).await);
            measured.rounds.push(round(&running, length.seconds, load).await);
            Arc::into_inner(running).unwrap().stop().await;
            cluster::execute(&measured.config, "VACUUM row").await;
        }
    }
    measured
}

async fn round(running: &Arc<Running>, length: Duration, load: Load) -> Round {
    let mut writers = Vec::new();
    for _ in 0..load.writers {
        writers.push(running.writer().await);
    }
    let mut tasks = JoinSet::new();
    let begun = Instant::now();
    let end = begun + length;
    for (number, mut writer) in writers.into_iter().enumerate() {
        let running = Arc::clone(running);
        tasks.spawn(async move {
            let mut random = number as u64 + 1;
            while Instant::now() < end && running.write(&mut writer, load.is_warm).await {
                if !load.pause.is_zero() {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let share = (random >> 33) as f64 / f64::from(1_u32 << 31);
                    tokio::time::sleep(load.pause.mul_f64(share)).await;
                }
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    running.times.round(begun.elapsed(), running.is_heard()).await
}

/// Ours beside others, one write at a time.
pub(crate) async fn one_writer(cluster: &Cluster, length: Length, report: &mut Report) {
    let load = Load { writers: 1, pause: Duration::from_millis(10), is_warm: true };
    let ways = [
        ("ours, woken", Way::Woken),
        ("`NOTIFY` in the transaction", Way::Naive),
        ("serial-id outbox, woken", Way::Serial),
    ];
    let measured = measure(cluster, length, load, &ways).await;
    delays(report, "1 writer", &measured[0], [1.5, 12.0]);
    report.section(Section {
        title: "One writer".to_owned(),
        text: "A write every 5 ms or so. Milliseconds from the acknowledgement of a commit until its dependants are stale on another host.".to_owned(),
        head: HEAD,
        rows: measured.iter().map(Measured::row).collect(),
    });
}

fn delays(report: &mut Report, who: &str, measured: &Measured, bars: [f64; 2]) {
    let p50 = measured.spread(|round| round.p50);
    let p99 = measured.spread(|round| round.p99);
    for (which, bar, spread) in [("p50", bars[0], p50), ("p99", bars[1], p99)] {
        let what = format!("acknowledged → stale elsewhere, {who}, {which}");
        report.bar(&what, Bar::AtMost(bar, "ms"), spread.median, &format!("{spread} ms"));
    }
}

/// The same under load.
pub(crate) async fn sixteen_writers(cluster: &Cluster, length: Length, report: &mut Report) {
    let load = Load { writers: 16, pause: Duration::ZERO, is_warm: true };
    let ways = [
        ("ours, woken", Way::Woken),
        ("ours, not woken", Way::Unwoken),
        ("`NOTIFY` in the transaction", Way::Naive),
        ("serial-id outbox, woken", Way::Serial),
        ("not captured", Way::Uncaptured),
    ];
    let measured = measure(cluster, length, load, &ways).await;
    delays(report, "16 writers", &measured[0], [3.0, 20.0]);
    let ratio = ratios(&measured[0], &measured[1]);
    let what = "writes of 16 writers, woken to not woken";
    report.bar(what, Bar::AtLeast(0.9, "×"), ratio.median, &format!("{ratio} ×"));
    let lost: usize = measured[0].rounds.iter().map(|round| round.lost).sum();
    report.bar(
        "commits that never came, ours",
        Bar::AtMost(0.0, ""),
        lost as f64,
        &lost.to_string(),
    );
    report.section(Section {
        title: "Sixteen writers".to_owned(),
        text: "Each writes without pause. *Lost*: acknowledged, and not stale on the other host a second after the last.".to_owned(),
        head: HEAD,
        rows: measured.iter().map(Measured::row).collect(),
    });
}

/// Round by round.
fn ratios(of: &Measured, to: &Measured) -> Spread {
    let pairs = of.rounds.iter().zip(&to.rounds);
    Spread::of(pairs.map(|(of, to)| of.writes_per_second / to.writes_per_second))
}

/// Writers that know nothing of a log.
pub(crate) async fn past(cluster: &Cluster, length: Length, report: &mut Report) {
    let load = Load { writers: 1, pause: Duration::from_millis(30), is_warm: true };
    let five = Way::Past(Duration::from_millis(5));
    let usual = Way::Past(Duration::from_millis(25));
    let ways = [("a poll every 5 ms", five), ("a poll every 25 ms", usual)];
    let measured = measure(cluster, length, load, &ways).await;
    delays(report, "by psql, polls of 25 ms", &measured[1], [15.0, 35.0]);
    report.section(Section {
        title: "Writes past the application".to_owned(),
        text: "As `psql` writes, at random moments: nobody is woken.".to_owned(),
        head: HEAD,
        rows: measured.iter().map(Measured::row).collect(),
    });
}

/// What capture costs writers.
pub(crate) async fn throughput(cluster: &Cluster, length: Length, report: &mut Report) {
    let ways = [
        ("one statement, not captured", Way::Uncaptured),
        ("one statement, triggers", Way::Captured),
        ("one statement, triggers, two hosts", Way::Past(Duration::from_millis(25))),
        ("`BEGIN`, statement, `COMMIT`, not captured", Way::Bare),
        ("`transaction`, which lists its changes", Way::Listed),
    ];
    let modes = [
        ("fsync on", "-c fsync=on", [0.85, 0.85]),
        ("`synchronous_commit` off", "-c fsync=on -c synchronous_commit=off", [0.6, 0.7]),
    ];
    for (mode, options, bars) in modes {
        cluster.restart_with(options);
        let load = Load { writers: 16, pause: Duration::ZERO, is_warm: false };
        let measured = measure(cluster, length, load, &ways).await;
        for (what, captured, bare, bar) in [
            ("triggers", 1, 0, bars[0]),
            ("triggers and two hosts on its cores", 2, 0, bars[0]),
            ("`transaction` and two hosts on its cores", 4, 3, bars[1]),
        ] {
            let ratio = ratios(&measured[captured], &measured[bare]);
            let what = format!("write throughput with {what}, {mode}");
            report.bar(&what, Bar::AtLeast(bar, "×"), ratio.median, &format!("{ratio} ×"));
        }
        report.section(Section {
            title: format!("Write throughput, {mode}"),
            text: "Sixteen writers without pause; nothing in memory depends on what they write. Each way is compared with the same statements without capture.".to_owned(),
            head: "way | writes/s",
            rows: measured
                .iter()
                .map(|way| format!("{} | {}", way.name, way.spread(|round| round.writes_per_second)))
                .collect(),
        });
    }
    cluster.restart_with("-c fsync=on");
}
