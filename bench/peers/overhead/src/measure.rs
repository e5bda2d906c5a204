//! The load of a client comparison: calls in flight all the time, and what they cost this process.

use std::future::Future;
use std::time::{Duration, Instant};

/// What a client is asked for: `ADDRESS grpc|connect|json h1|h2 CALLS_AT_ONCE SECONDS`.
pub struct Asked {
    pub address: String,
    pub is_grpc: bool,
    pub is_json: bool,
    pub is_http2: bool,
    at_once: usize,
    seconds: f64,
}

impl Asked {
    pub fn of_arguments() -> Self {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [address, way, http, at_once, seconds] = &arguments[..] else {
            panic!("ADDRESS grpc|connect|json h1|h2 CALLS_AT_ONCE SECONDS")
        };
        Self {
            address: address.clone(),
            is_grpc: way == "grpc",
            is_json: way == "json",
            is_http2: http == "h2",
            at_once: at_once.parse().unwrap(),
            seconds: seconds.parse().unwrap(),
        }
    }

    /// Warms up for half a second, then prints how many calls were made, the CPU seconds they took,
    /// and how many calls were made in all.
    pub async fn run<F, Fut>(&self, call: F)
    where
        F: Fn() -> Fut,
        Fut: Future<Output = ()>,
    {
        let warm_up = self.calls(0.5, &call).await;
        let before = cpu();
        let count = self.calls(self.seconds, &call).await;
        println!("{count} {} {}", cpu() - before, warm_up + count);
    }

    async fn calls<F, Fut>(&self, seconds: f64, call: &F) -> usize
    where
        F: Fn() -> Fut,
        Fut: Future<Output = ()>,
    {
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        let one = || async {
            let mut count = 0;
            while Instant::now() < end {
                call().await;
                count += 1;
            }
            count
        };
        futures::future::join_all((0..self.at_once).map(|_| one())).await.iter().sum()
    }
}

/// CPU seconds of this process, in nanoseconds' resolution where the scheduler has it.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}
