//! What a process has of the machine, as `/proc` tells it (0 of one that is gone), and its end.

use std::fs;
use std::pin::pin;
use std::time::Duration;

/// The bytes of a process that are in memory.
pub(crate) fn resident(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm"));
    let pages = text.ok().and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// For how long the threads of a process have run on a core.
pub(crate) fn cpu_time(pid: i32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ticks = ticks(&text).unwrap_or(0);
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / per_second))
}

/// How a process ended, if that is told within `wait`. One that is gone by then is waited for
/// longer, since its supervisor is about to tell. Cancel safe.
pub(crate) async fn known_end<T>(
    pid: i32,
    ended: impl Future<Output = T>,
    wait: Duration,
) -> Option<T> {
    let mut ended = pin!(ended);
    match tokio::time::timeout(wait, &mut ended).await {
        Ok(end) => Some(end),
        Err(_) if is_alive(pid) => None,
        Err(_) => tokio::time::timeout(END_IS_CERTAIN, ended).await.ok(),
    }
}

/// A supervisor that has much to do tells of an end within this time.
pub(crate) const END_IS_CERTAIN: Duration = Duration::from_secs(30);

/// Whether a process runs; one that has ended, and nobody has asked how, does not.
fn is_alive(pid: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

/// `utime` and `stime` of `/proc/PID/stat` (proc_pid_stat(5)): the 14th and the 15th field; the
/// second is a name that may have anything in it.
fn ticks(stat: &str) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(") ")?;
    let mut fields = behind_name.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_found_behind_a_name_that_has_parentheses() {
        let stat = "7 (a) (b c) S 1 7 7 0 -1 4194304 9 0 0 0 250 31 1 2 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat), Some(281));
        assert_eq!(ticks(""), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_process_that_is_gone_is_waited_for() {
        let told = || async {
            tokio::time::sleep(Duration::from_secs(9)).await; // tidy: allow-sleep the clock is virtual
            "told"
        };
        let wait = Duration::from_millis(500);
        let itself = std::process::id().cast_signed();
        assert_eq!(known_end(itself, told(), wait).await, None);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        while is_alive(pid) {
            std::thread::yield_now();
        }
        assert_eq!(known_end(pid, told(), wait).await, Some("told"), "nobody has asked for it");
        child.wait().unwrap();
        assert_eq!(known_end(pid, told(), wait).await, Some("told"));
    }

    #[test]
    fn a_process_that_is_gone_has_nothing() {
        assert_eq!((resident(-1), cpu_time(-1)), (0, Duration::ZERO));
        assert!(resident(std::process::id().cast_signed()) > 100_000);
    }
}
