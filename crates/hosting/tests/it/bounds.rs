//! What a process may have, and for how long it serves.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use http::{Method, StatusCode};
use tidewire_hosting::{HostedService, LifeLimits, State};
use tidewire_service::{Body, Error, Service};

use crate::{StoppedClock, call, get, host, limits, programs, python, text};

/// Those cgroups of a process that are its instance's.
fn groups(pid: i32) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let names = paths.filter_map(|path| path.rsplit('/').next());
    let names = names.filter(|name| name.starts_with("tidewire-")).map(str::to_owned);
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let hierarchies: Vec<_> = hierarchies.map(|entry| entry.path()).collect();
    let of_name =
        |name: String| hierarchies.iter().map(move |at| at.join(&name)).collect::<Vec<_>>();
    names.flat_map(of_name).filter(|path| path.is_dir()).collect()
}

/// Which is not made once more.
async fn post(hosted: &HostedService, path: &str) -> Result<String, Error> {
    let reply = hosted.call(call(Method::POST, path, Body::Empty)).await?;
    Ok(text(reply.body.collect(100).await?))
}

fn bounded(cgroups: bool, change: impl FnOnce(&mut LifeLimits)) -> LifeLimits {
    limits(|limits| {
        limits.cgroups = cgroups;
        change(limits);
    })
}

#[tokio::test]
async fn who_calls_a_process_that_runs_out_of_memory_is_told_so_and_so_are_operators() {
    for cgroups in [true, false] {
        let host = host();
        let hosted = host.add(python(&[]), bounded(cgroups, |it| it.memory_max = Some(128 << 20)));
        let pid: i32 = get(&hosted, "/pid").await.unwrap().parse().unwrap();
        let status = hosted.status();
        let [process] = &status.processes[..] else { panic!("{status:?}") };
        let told = &process.limits;
        let by_cgroup = told.starts_with("memory by cgroup v") && cgroups;
        assert!(by_cgroup || told == "memory by RLIMIT_DATA and polling", "{told}");
        assert_eq!((process.pid, process.state, process.requests), (pid, State::Ready, 1));
        let groups = groups(pid);
        // An end is known when it is, however long that takes.
        let stopped = StoppedClock::stop();
        let error = post(&hosted, "/hog").await.unwrap_err();
        drop(stopped);
        assert_eq!(error.http_status(), StatusCode::BAD_GATEWAY);
        let ended = "it ran out of memory: memory_max = 134217728 bytes";
        assert_eq!(error.message(), format!("test ended before it answered: {ended}"));
        let status = hosted.status();
        let failure = format!("{ended}, in its one call, POST /hog");
        assert_eq!((status.failure, status.out_of_memory), (Some(failure), 1));
        assert_eq!(get(&hosted, "/a").await.unwrap(), "/a");
        host.stop().await;
        assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
    }
}

/// How many processes and threads the system lets the user of a process have; `None` of one that is
/// gone.
fn user_processes_max(pid: impl std::fmt::Display) -> Option<u64> {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let most = limits.lines().find_map(|line| line.strip_prefix("Max processes"))?;
    Some(most.split_whitespace().next()?.parse().unwrap_or(u64::MAX))
}

/// The same of the user of a program.
async fn hosted_processes_max(hosted: &HostedService) -> u64 {
    hosted.start();
    loop {
        let status = hosted.until(|status| !status.pids.is_empty()).await;
        if let Some(most) = user_processes_max(status.pids[0]) {
            return most;
        }
    }
}

#[tokio::test]
async fn a_process_starts_no_more_others_than_it_may() {
    for cgroups in [true, false] {
        let host = host();
        let change = |it: &mut LifeLimits| {
            (it.processes_max, it.cpu_percent_max) = (Some(10), Some(50));
        };
        let hosted = host.add(python(&[]), bounded(cgroups, change));
        // Without a cgroup the system counts those of a user together, but for root. Other tests
        // are of the same one, and may have more by the time that this program starts its own.
        if !rustix::process::geteuid().is_root() {
            let (most, own) = (hosted_processes_max(&hosted).await, user_processes_max("self"));
            let is_by_system = most < own.unwrap();
            assert!(cgroups || is_by_system, "{most}");
            if is_by_system {
                assert!(most > 10, "{most}");
                host.stop().await;
                continue;
            }
        }
        get(&hosted, "/a").await.unwrap();
        let told = hosted.status().processes.remove(0).limits;
        let (processes, cpu) = told.split_once(", ").unwrap();
        assert!(processes.starts_with("processes by "), "{told}");
        let has_none = cpu == "cpu not limited, since no cgroup can be written";
        assert!(has_none || cgroups && cpu.starts_with("cpu by cgroup v"), "{told}");
        let stopped = StoppedClock::stop();
        match post(&hosted, "/forks").await {
            Ok(forks) => assert!(forks.parse::<usize>().unwrap() < 10, "{forks}"),
            Err(error) => {
                let text = "it had more processes and threads than processes_max = 10";
                assert_eq!(error.message(), format!("test ended before it answered: {text}"));
            }
        }
        drop(stopped);
        host.stop().await;
    }
}

#[tokio::test]
async fn what_else_its_user_runs_is_no_process_of_a_program() {
    // The system counts no processes of root, and only root may run them as another.
    let is_root = rustix::process::geteuid().is_root();
    let others = [(); 9].map(|()| {
        let mut command = std::process::Command::new("sleep");
        if is_root {
            command.uid(NOBODY);
        }
        command.arg("1d").spawn().unwrap()
    });
    let host = host();
    let life = bounded(false, |it| it.processes_max = Some(8));
    let program = if is_root { python(&[]).user("nobody") } else { python(&[]) };
    let hosted = host.add(program, life);
    let (most, own) = (hosted_processes_max(&hosted).await, user_processes_max("self").unwrap());
    assert!((9 + 8..own).contains(&most), "{most}");
    host.stop().await;
    for mut other in others {
        other.kill().unwrap();
        other.wait().unwrap();
    }
}

/// The user of this name, as Debian has it.
const NOBODY: u32 = 65_534;

#[tokio::test]
async fn a_process_that_has_had_its_calls_is_followed_by_another_and_no_call_fails() {
    for spares in [0, 1] {
        for program in programs(&[]) {
            let host = host();
            let life = limits(|it| (it.max_requests, it.spares) = (Some(3), spares));
            let hosted = host.add(program, life);
            let mut pids = Vec::new();
            while pids.len() < 4 {
                let pid = get(&hosted, "/pid").await.unwrap();
                if pids.last() != Some(&pid) {
                    pids.push(pid);
                }
            }
            pids.sort();
            pids.dedup();
            assert_eq!(pids.len(), 4, "none serves again");
            assert_eq!(hosted.status().failure, None);
            host.stop().await;
        }
    }
}
