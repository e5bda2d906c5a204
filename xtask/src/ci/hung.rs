//! A test program that does not end: which of its tests, and where its threads are.
//!
//! What runs the tests elsewhere kills them in the end and shows little; this says what a person
//! would look for, while the program is still there.

use std::process::Command;

/// Frames shown of one thread.
const FRAMES_MAX: usize = 8;
/// Of no use to a reader: they are in every stack.
const OF_LIBRARIES: [&str; 6] = ["std", "core", "alloc", "tokio", "test", "parking_lot"];

/// The tests that were announced as slow and have not ended since, as libtest prints both.
pub(super) fn unfinished_tests(printed: &str) -> Vec<&str> {
    let slow = printed.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("test ")?.split_once(" has been running for over")?;
        Some(name)
    });
    slow.filter(|name| !printed.contains(&format!("test {name} ... "))).collect()
}

/// Where each thread of a process is, a line each; empty where there is no `gdb`, or it may not
/// look.
pub(super) fn stacks(process: u32) -> Vec<String> {
    let mut gdb = Command::new("gdb");
    gdb.args(["-batch", "-ex", "thread apply all bt 60", "-p"]).arg(process.to_string());
    let looked = gdb.output().map(|output| output.stdout).unwrap_or_default();
    summary(&String::from_utf8_lossy(&looked))
}

/// Of what gdb prints, a line for each thread with frames that are not libraries': its name and
/// the innermost ones.
fn summary(looked: &str) -> Vec<String> {
    let mut threads: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in looked.lines() {
        if line.starts_with("Thread ") {
            threads.push((line.split('"').nth(1).unwrap_or("?"), Vec::new()));
        } else if let (Some((_, frames)), Some(function)) = (threads.last_mut(), function(line)) {
            frames.push(function);
        }
    }
    let line = |(name, mut frames): (&str, Vec<&str>)| {
        frames.dedup();
        frames.truncate(FRAMES_MAX);
        format!("{name}: {}", frames.join(" < "))
    };
    threads.into_iter().filter(|(_, frames)| !frames.is_empty()).map(line).collect()
}

/// The function of a frame, `#3  0x000055 in tidewire_memo::graph::close ()`, unless a library has
/// it.
fn function(frame: &str) -> Option<&str> {
    let (_, rest) = frame.strip_prefix('#')?.split_once(" in ")?;
    let (name, _) = rest.rsplit_once(" (")?;
    let library = name.trim_start_matches('<').split([':', '[']).next()?;
    let is_rust = name.contains("::");
    (is_rust && !OF_LIBRARIES.contains(&library)).then_some(without_hash(name))
}

/// Without the compiler's `::h5dcc553e7acc3f2f`.
fn without_hash(name: &str) -> &str {
    name.rsplit_once("::h").filter(|(_, hash)| hash.len() == 16).map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_were_slow_and_ended_are_not_unfinished() {
        let printed = "test a::b ... ok\n\
                       test a::c has been running for over 60 seconds\n\
                       test a::d has been running for over 60 seconds\n\
                       test a::c ... ok\n";
        assert_eq!(unfinished_tests(printed), ["a::d"]);
    }

    #[test]
    fn a_thread_is_told_by_its_frames_of_this_project() {
        let looked = "[New LWP 12]\n\
            Thread 2 (Thread 0x7f (LWP 12) \"strict::a_stric\"):\n\
            #0  0x00007f in syscall () from libc.so.6\n\
            #1  0x000055 in <parking_lot::raw_mutex::RawMutex>::lock_slow ()\n\
            #2  0x000055 in tidewire_memo::graph::close::h5dcc553e7acc3f2f ()\n\
            #3  0x000055 in tidewire_memo::graph::close ()\n\
            #4  0x000055 in it::strict::waits ()\n\
            Thread 1 (Thread 0x7f (LWP 11) \"it\"):\n\
            #0  0x00007f in syscall () from libc.so.6\n\
            #1  0x000055 in <std[e28293b1aa0f68bd]::sys::Thread>::start ()\n";
        let expected = "strict::a_stric: tidewire_memo::graph::close < it::strict::waits";
        assert_eq!(summary(looked), [expected]);
        assert!(summary("").is_empty());
    }

    #[test]
    fn a_process_that_waits_can_be_looked_at_or_not_and_is_left_as_it_is() {
        let mut waits = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        assert!(stacks(waits.id()).is_empty(), "it has no frames of this project");
        drop(waits.stdin.take());
        assert!(waits.wait().unwrap().success());
    }
}
