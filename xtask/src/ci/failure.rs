//! What of a long log says why it failed: a reader, and a service that keeps only the end of what
//! was printed, see it last.

/// Lines shown at most; the first ones, since what follows a failure is often its consequence.
const LINES_MAX: usize = 24;
/// Of one line, in characters.
const LINE_MAX: usize = 240;

/// The lines of `log` that say what failed, each panic with the line of its message.
pub(super) fn reasons(log: &str) -> Vec<String> {
    let mut shown = Vec::new();
    let mut after_panic = false;
    for line in log.lines() {
        if after_panic || says_failure(line) {
            shown.push(line.chars().take(LINE_MAX).collect::<String>());
        }
        after_panic = line.contains("panicked at");
    }
    shown.dedup();
    shown.truncate(LINES_MAX);
    shown
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
        let found = reasons(log);
        assert_eq!(found.len(), 6, "{found:#?}");
        assert_eq!(found[2], "assertion `left == right` failed");
        assert!(!found.iter().any(|line| line.ends_with("ok")), "{found:#?}");
    }

    #[test]
    fn a_flood_of_errors_is_cut_after_the_first() {
        let log: String = (0..1000).map(|at| format!("error: number {at}\n")).collect();
        let found = reasons(&log);
        assert_eq!(found.len(), LINES_MAX);
        assert_eq!(found[0], "error: number 0");
    }
}
