//! Whether a process that runs is well, and how many are started at a time.

use std::num::NonZero;
use std::time::Duration;

use tidewire_hosting::{Listen, State};

use crate::{Folder, StoppedClock, get, host, limits, python, until};

#[tokio::test]
async fn another_takes_over_from_a_process_that_is_not_well_and_no_call_fails() {
    let folder = Folder::new();
    let is_well = folder.0.join("well");
    for listen in [Listen::Port, Listen::Unix, Listen::Inherited] {
        std::fs::write(&is_well, "").unwrap();
        let host = host();
        let program = python(&["", &is_well.display().to_string()]).listen(listen);
        let hourly = limits(|limits| {
            (limits.health_interval, limits.idle_stop) = (HOUR, None);
        });
        let hosted = host.add(program.health("/healthz"), hourly);
        let pid = get(&hosted, "/pid").await.unwrap();
        let stopped = StoppedClock::stop();
        let checks = || hosted.status().processes[0].health_checks;
        for check in 1..=8 {
            // Two failures in a row are no reason yet.
            match check {
                4 | 6 => std::fs::remove_file(&is_well).unwrap(),
                5 => drop(std::fs::write(&is_well, "")),
                _ => {}
            }
            tokio::time::advance(HOUR * 2).await;
            until(|| checks() == check).await;
            assert_eq!(hosted.status().processes[0].pid.to_string(), pid, "{listen:?}");
        }
        drop(stopped);
        until(|| hosted.status().starts == 2).await;
        assert_ne!(get(&hosted, "/pid").await.unwrap(), pid, "{listen:?}");
        let status = hosted.status();
        assert_eq!((status.state, status.failure), (State::Ready, None), "{listen:?}");
        host.stop().await;
    }
}

#[tokio::test]
async fn as_many_are_started_at_a_time_as_there_are_cores_unless_a_call_waits() {
    let folder = Folder::new();
    let host = host();
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let programs: Vec<_> = (0..cores + 2)
        .map(|number| {
            // It says that it was started, and can never be called.
            let file = folder.0.join(number.to_string());
            let program = python(&["unborn", &file.display().to_string()]).listen(Listen::Port);
            (host.add(program, crate::patient_limits()), file)
        })
        .collect();
    programs.iter().for_each(|(hosted, _)| hosted.start());
    let started = || programs.iter().filter(|(_, file)| file.exists()).count();
    until(|| started() == cores).await;
    let (waits, file) = programs.iter().find(|(_, file)| !file.exists()).unwrap();
    let waits = waits.clone();
    let call = tokio::spawn(async move { get(&waits, "/a").await });
    until(|| file.exists()).await;
    assert_eq!(started(), cores + 1);
    call.abort();
    drop(host);
}

const HOUR: Duration = Duration::from_hours(1);
