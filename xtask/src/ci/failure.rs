//! What of a long log says why it failed: a reader, and a service that keeps only the end of what
//! was printed, see it last.

/// Lines shown at most; the first ones, since what follows a failure is often its consequence.
const LINES_MAX: usize = 24;
/// How many lines are shown of the end of the step that failed.
const LAST_LINES: usize = 5;
/// Of one line, in characters.
const LINE_MAX: usize = 240;

/// The lines of `log` that say what failed, each panic with the line of its message, and the last
/// ones before the times.
pub(super) fn reasons(log: &str) -> Vec<String> {
    let mut shown = Vec::new();
    let mut after_panic = false;
    for line in log.lines() {
        if after_panic || says_failure(line) {
            shown.push(line);
        }
        after_panic = line.contains("panicked at");
    }
    shown.truncate(LINES_MAX);
    let (steps, _) = log.rsplit_once("── times").unwrap_or((log, ""));
    let last: Vec<_> = steps.lines().rev().take(LAST_LINES).collect();
    shown.extend(last.into_iter().rev());
    shown.dedup();
    shown.into_iter().map(|line| line.chars().take(LINE_MAX).collect()).collect()
}

fn says_failure(line: &str) -> bool {
    let line = line.trim_start();
    line.contains("panicked at")
        || line.contains("FAILED")
        || line.contains("Traceback (most recent call last)")
        || ["error", "Error", "not ok ", "AssertionError", "--- FAIL", "failed: ", "E  "]
            .iter()
            .any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_found_between_what_passed() {
        let log = "test a_failed_call_is_said ... ok\n\
                   test adapter::events ... FAILED\n\
                   test others ... ok\n\
                   thread 'adapter::events' (7) panicked at crates/hosting/tests/it/adapter.rs:9:5:\n\
                   assertion `left == right` failed\n\
                   \x20 left: 1\n\
                   error[E0308]: mismatched types\n\
                   not ok 4 - a page is stopped\n\
                   ok 5 - an error is shown\n\
                   failed: hosting it\n";
        let log = format!("{log}1\n2\n3\n4\nits place is there 2 times\n── times\noplog FAILED\n");
        let found = reasons(&log);
        assert_eq!(found[2], "assertion `left == right` failed");
        assert!(!found.iter().any(|line| line.ends_with("ok")), "{found:#?}");
        assert_eq!(found.last().unwrap(), "its place is there 2 times");
    }

    #[test]
    fn a_flood_of_errors_is_cut_after_the_first() {
        let log: String = (0..1000).map(|at| format!("error: number {at}\n")).collect();
        let found = reasons(&log);
        assert_eq!(found.len(), LINES_MAX + LAST_LINES);
        assert_eq!(found[0], "error: number 0");
    }
}
