//! The table of what goes wrong (`docs/hosting-checks.md`) names tests that are there, and these
//! run programs in Python and in Go.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(folder: &Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all += &sources(&path);
        } else if path.extension().is_some_and(|it| it == "rs") {
            all += &std::fs::read_to_string(path).unwrap();
        }
    }
    all
}

/// The text of a function, from its name to its end; those of a module are indented.
fn function<'a>(sources: &'a str, name: &str) -> Option<&'a str> {
    let begin = sources.find(&format!("fn {name}("))?;
    let length = sources[begin..].find("\n}\n")?;
    Some(&sources[begin..begin + length])
}

/// Whether it is given a program by `native::behaves`, which has it in each language, or has both
/// itself.
fn has_both_languages(test: &str) -> bool {
    let has = |part| test.contains(part);
    let is_given = has("(gateway: &Gateway") || has("(command: &[String]");
    let has_both = (has("python") || has("PYTHON")) && has("go()");
    is_given
        || has_both
        || ["commands()", "programs(", "ways(", "Shop::all()", "never_ready()"].into_iter().any(has)
}

/// About one runtime, the pool, what no SDK of ours does, or no program of ours; what is in two
/// tests, one a language.
const ALONE: [&str; 29] = [
    "a_reader_that_is_fast_enough_and_idle_event_streams_keep_their_places",
    "another_takes_over_from_a_process_that_is_not_well_and_no_call_fails",
    "who_calls_a_process_that_runs_out_of_memory_is_told_so_and_so_are_operators",
    "a_process_starts_no_more_others_than_it_may",
    "one_that_has_served_for_as_long_as_it_may_serves_until_another_takes_over",
    "a_page_is_told_who_calls_and_what_a_caller_says_of_that_never_arrives",
    "a_program_is_nobody_but_itself_or_whose_credential_it_shows",
    "a_program_with_methods_that_is_taken_out_and_put_back_serves_them_again",
    "what_a_program_in_rust_reads_beside_its_handlers_is_not_forgotten",
    "a_change_of_the_configuration_of_files_and_a_hangup_replace_a_program_under_load_and_no_call_fails",
    "a_new_executable_the_configuration_and_a_hangup_replace_a_program_in_go_under_load_too",
    "a_clock_that_jumps_ahead_ends_no_call_and_starts_nothing_twice",
    "a_call_that_finds_the_session_of_its_process_over_has_another_process",
    "a_command_within_a_call_that_is_over_before_it_may_have_run",
    "a_change_of_a_key_that_is_no_text_is_one_of_any_key",
    "an_answer_that_was_made_without_a_part_that_it_asked_for_is_not_kept",
    "a_page_has_its_own_length_and_a_status_whatever_its_process_says",
    "a_process_that_breaks_a_rule_by_its_answer_ends_that_call_at_once",
    "a_process_that_takes_no_more_calls_keeps_its_own_and_another_gets_the_next",
    "a_process_whose_hello_is_refused_is_told_why_and_so_is_the_log",
    "what_a_process_does_not_take_is_refused_at_once_and_does_not_reach_it",
    "a_response_that_is_not_of_pipe_json_is_502_and_another_process_takes_over",
    "a_worker_that_ends_within_its_response_is_502_and_the_next_call_starts_anew",
    "a_worker_that_does_not_answer_is_504_and_is_killed_if_it_answers_nobody",
    "calls_wait_for_a_worker_whose_queue_of_connections_is_full",
    "a_program_starts_with_signals_as_nobody_changed_them",
    "a_program_that_is_not_there_is_an_error_at_once_and_no_storm",
    "what_a_program_in_node_prints_before_it_exits_is_all_read",
    "what_npm_starts_is_told_its_port_and_ends_with_npm",
];

#[test]
fn the_table_of_what_goes_wrong_names_tests_that_run_programs_in_python_and_in_go() {
    let table = std::fs::read_to_string(root().join("docs/hosting-checks.md")).unwrap();
    let (_, table) = table.split_once("\n## The program\n").unwrap();
    let folders = ["crates/hosting/tests/it", "crates/hosting/src", "crates/cli/tests/it"];
    let sources = folders.map(|folder| sources(&root().join(folder))).concat();
    for line in table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what")) {
        let (_, checks) = line.trim_end_matches(" |").rsplit_once(" | ").unwrap();
        let names: Vec<_> = checks.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "nothing shows: {line}");
        for name in names {
            let test = function(&sources, name).unwrap_or_else(|| panic!("no test {name}"));
            let is_shown = has_both_languages(test) || ALONE.contains(&name);
            assert!(is_shown, "{name} runs no program in Python and in Go");
        }
    }
}
