//! Starts that go wrong, and many at once.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use http::header::RETRY_AFTER;
use tidewire_hosting::{Listen, Program, State};
use tidewire_service::{Code, Error, Outcome};

use crate::{Folder, get, host, limits, programs, python, some_time_passes, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_first_requests_at_once_start_one_process() {
    let folder = Folder::new();
    let file = folder.0.join("starts");
    let path = file.display().to_string();
    for program in programs(&["starts", &path]) {
        let host = host();
        let limits = limits(|limits| (limits.queue_max, limits.concurrency) = (1000, 16));
        let hosted = host.add(program, limits);
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..1000 {
            let hosted = hosted.clone();
            calls.spawn(async move { (get(&hosted, &format!("/{number}")).await, number) });
        }
        while let Some(answer) = calls.join_next().await {
            let (answer, number) = answer.unwrap();
            assert_eq!(answer.unwrap(), format!("/{number}"));
        }
        let starts = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!((starts.as_str(), hosted.status().starts), ("started\n", 1));
        host.stop().await;
    }
}

#[tokio::test]
async fn a_full_queue_refuses_at_once_and_says_when_to_come_back() {
    for program in programs(&[]) {
        let host = host();
        let limits = limits(|limits| (limits.queue_max, limits.concurrency) = (1, 1));
        let hosted = host.add(program, limits);
        // The first call is answered, and holds its place; the second waits.
        let open = crate::open(&hosted).await;
        let waiting = tokio::spawn({
            let hosted = hosted.clone();
            async move { get(&hosted, "/b").await }
        });
        hosted.until(|status| status.waiting == 1).await;
        let error = get(&hosted, "/c").await.unwrap_err();
        assert_eq!((error.code(), error.http_status().as_u16()), (Code::ResourceExhausted, 503));
        assert_eq!(error.headers().get(RETRY_AFTER).unwrap(), "1");
        drop(open);
        assert_eq!(waiting.await.unwrap().unwrap(), "/b");
        host.stop().await;
    }
}

#[tokio::test]
async fn a_call_that_waits_for_too_long_is_told_so() {
    for program in programs(&[]) {
        let host = host();
        let limits = limits(|limits| {
            (limits.concurrency, limits.queue_timeout) = (1, Duration::from_millis(100));
        });
        let hosted = host.add(program, limits);
        // It can be called before it is, so that the start takes no part in the wait.
        hosted.start();
        hosted.until(|status| status.state == State::Ready).await;
        let open = crate::open(&hosted).await;
        let error = get(&hosted, "/b").await.unwrap_err();
        assert_eq!((error.code(), error.http_status().as_u16()), (Code::Unavailable, 503));
        assert!(
            error.message().ends_with("had no place for a call within queue_timeout = 100ms"),
            "{error}"
        );
        assert_eq!(error.outcome(), Outcome::NotRun);
        drop(open);
        host.stop().await;
    }
}

#[tokio::test]
async fn a_call_waits_for_a_start_for_longer_than_for_a_place() {
    for program in programs(&["never"]) {
        let host = host();
        let limits = limits(|limits| {
            limits.start_timeout = Duration::from_millis(300);
            limits.queue_timeout = Duration::from_millis(1);
        });
        let hosted = host.add(program.listen(Listen::Port), limits);
        let error = get(&hosted, "/").await.unwrap_err();
        assert!(error.message().contains("start_timeout = 300ms"), "{error}");
        host.stop().await;
    }
    for program in programs(&[]) {
        let host = host();
        let hosted =
            host.add(program, limits(|limits| limits.queue_timeout = Duration::from_millis(1)));
        assert_eq!(get(&hosted, "/slow-start").await.unwrap(), "/slow-start");
        host.stop().await;
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_error_at_once_and_no_storm() {
    let host = host();
    for program in [
        Program::new("none", ["/no/such/program"]),
        Program::new("none", ["/etc/passwd"]),
        python(&[]).folder("/no/such/folder"),
        python(&[]).user("nobody-of-this-name"),
    ] {
        let hosted = host.add(program, crate::patient_limits());
        for _ in 0..2 {
            assert_unavailable(&get(&hosted, "/").await.unwrap_err());
        }
        let status = hosted.status();
        assert_eq!((status.state, status.starts), (State::Broken, 0));
        assert!(status.failure.unwrap().starts_with("it cannot be run: "));
    }
    host.stop().await;
}

#[tokio::test]
async fn a_program_is_looked_for_in_the_path_of_its_own_environment() {
    let folder = std::env::temp_dir().join(format!("tidewire-path-{}", std::process::id()));
    // The first folder is not there, what is in the second may not be run, the third has a script
    // without `#!`.
    let files = [("data", 0o644, ""), ("shell", 0o755, "exec python3 -I -S \"$1\"\n")];
    let mut path = format!("{}/none", folder.display());
    for (name, mode, contents) in files {
        let at = folder.join(name);
        std::fs::create_dir_all(&at).unwrap();
        std::fs::write(at.join("found"), contents).unwrap();
        std::fs::set_permissions(at.join("found"), std::fs::Permissions::from_mode(mode)).unwrap();
        path = format!("{path}:{}", at.display());
    }
    let path = format!("{path}:{}", std::env::var("PATH").unwrap());
    let program = Program::new("found", ["found", crate::PYTHON[3]]).listen(Listen::Unix);
    let host = host();
    let hosted = host.add(program.environment("PATH", path), crate::patient_limits());
    assert_eq!(get(&hosted, "/path").await.unwrap(), "/path");
    host.stop().await;
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_program_that_is_taken_away_is_an_error_of_its_next_start() {
    // What is run is the file itself: one in Go, and a script that names its interpreter.
    let folder = Folder::new();
    let script = "#!/bin/sh\nexec python3 -I -S \"$1\"\n";
    for (name, contents) in
        [("go", std::fs::read(crate::go()).unwrap()), ("script", script.as_bytes().to_vec())]
    {
        let file = folder.0.join(name);
        std::fs::write(&file, contents).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = Program::new(name, [file.to_str().unwrap(), crate::PYTHON[3]]);
        let host = host();
        let hosted = host.add(program.listen(Listen::Unix), crate::patient_limits());
        let pid = get(&hosted, "/pid").await.unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(get(&hosted, "/pid").await.unwrap(), pid, "what runs goes on");
        let error = get(&hosted, "/crash").await.unwrap_err();
        assert_eq!(error.http_status().as_u16(), 502);
        assert_unavailable(&get(&hosted, "/pid").await.unwrap_err());
        let failure = hosted.status().failure.unwrap();
        assert!(failure.starts_with("it cannot be run: No such file"), "{failure}");
        host.stop().await;
    }
}

#[tokio::test]
async fn a_program_that_is_replaced_while_it_runs_goes_on_and_its_next_start_is_of_the_new_one() {
    let folder = Folder::new();
    let (file, other) = (folder.0.join("program"), folder.0.join("other"));
    // In one step, as deployments do: what runs may not be written to.
    let put = |contents: &str, mode| {
        std::fs::write(&other, contents).unwrap();
        std::fs::set_permissions(&other, std::fs::Permissions::from_mode(mode)).unwrap();
        std::fs::rename(&other, &file).unwrap();
    };
    for command in crate::commands() {
        put("#!/bin/sh\nexec \"$@\"\n", 0o755);
        let host = host();
        let program = crate::program(&[file.to_str().unwrap()], command);
        let hosted = host.add(program.listen(Listen::Unix), crate::patient_limits());
        let is_replaced = async || {
            let environment = get(&hosted, "/environment").await.unwrap();
            environment.lines().any(|name| name == "REPLACED")
        };
        let pid = get(&hosted, "/pid").await.unwrap();
        put("#!/bin/sh\nREPLACED=1 exec \"$@\"\n", 0o755);
        assert_eq!((get(&hosted, "/pid").await.unwrap(), is_replaced().await), (pid, false));
        hosted.stop();
        hosted.until(|status| status.state == State::Stopped).await;
        assert!(is_replaced().await);
        // One that nobody may run.
        put("", 0o644);
        assert!(is_replaced().await, "what runs goes on");
        hosted.stop();
        hosted.until(|status| status.state == State::Stopped).await;
        assert_unavailable(&get(&hosted, "/pid").await.unwrap_err());
        let failure = hosted.status().failure.unwrap();
        assert!(failure.starts_with("it cannot be run: Permission denied"), "{failure}");
        host.stop().await;
    }
}

#[tokio::test]
async fn a_crash_loop_breaks_the_circuit_and_its_last_words_are_kept() {
    for listen in [Listen::Unix, Listen::Native] {
        for program in programs(&["crash"]) {
            let host = host();
            let hosted = host.add(program.listen(listen), crate::patient_limits());
            while hosted.status().state != State::Broken {
                assert_unavailable(&get(&hosted, "/").await.unwrap_err());
            }
            let status = hosted.status();
            let failure = status.failure.unwrap();
            assert!(failure.contains("it ended with exit code 1"), "{listen:?}: {failure}");
            let lines = hosted.output();
            let said = lines.iter().filter(|line| line.text == "no database").count();
            assert_eq!(said, 5, "{listen:?}: {lines:?}");
            host.stop().await;
        }
    }
}

#[tokio::test]
async fn a_program_that_never_listens_is_killed_and_who_waited_is_told() {
    for program in programs(&["never"]) {
        let host = host();
        let program = program.listen(Listen::Port);
        let hosted =
            host.add(program, limits(|limits| limits.start_timeout = Duration::from_millis(300)));
        let error = get(&hosted, "/").await.unwrap_err();
        assert_eq!((error.code(), error.http_status().as_u16()), (Code::Unavailable, 503));
        assert!(error.headers().contains_key(RETRY_AFTER), "{error:?}");
        let text = "was not ready within start_timeout = 300ms";
        assert!(error.message().ends_with(text), "{error}");
        let failure = hosted.status().failure.unwrap();
        let told = "it did not listen within start_timeout = 300ms, at port ";
        let port = failure.strip_prefix(told).map(str::parse::<u16>);
        assert!(matches!(port, Some(Ok(_))), "{failure}");
        host.stop().await;
    }
}

#[tokio::test]
async fn a_program_that_listens_elsewhere_is_told_where() {
    let folder = Folder::new();
    let listens = folder.0.join("port");
    let host = host();
    let program = python(&["elsewhere", listens.to_str().unwrap()]).listen(Listen::Port);
    let hosted = host.add(program, crate::patient_limits());
    let called = async {
        until(|| listens.exists()).await;
        some_time_passes(crate::patient_limits().start_timeout).await;
    };
    let (answer, ()) = futures_util::future::join(get(&hosted, "/"), called).await;
    answer.unwrap_err();
    let failure = hosted.status().failure.unwrap();
    let port = std::fs::read_to_string(&listens).unwrap();
    assert!(failure.ends_with(&format!(": it listens at 127.0.0.1:{port}")), "{failure}");
    host.stop().await;
}

#[tokio::test]
async fn a_program_of_another_user_has_its_own_socket_home_and_nothing_of_the_gateway() {
    let is_root = rustix::process::geteuid().is_root();
    for listen in [Listen::Unix, Listen::Inherited, Listen::Port] {
        for program in programs(&[]) {
            let host = host();
            let hosted = host.add(program.listen(listen).user("nobody"), crate::patient_limits());
            if is_root {
                let told = get(&hosted, "/user").await.unwrap();
                assert_eq!(told.split(' ').next(), Some("65534"), "nobody: {listen:?}");
                // The signal by which it ends with its supervisor is there although its user
                // changed.
                assert!(told.ends_with(" 9"), "{told}");
            } else {
                assert_unavailable(&get(&hosted, "/user").await.unwrap_err());
                let failure = hosted.status().failure.unwrap();
                let expected = "it cannot be run as another user, which only root may do: ";
                assert!(failure.starts_with(expected), "{listen:?}: {failure}");
            }
            host.stop().await;
        }
    }
}

#[tokio::test]
async fn a_call_that_waits_for_a_busy_process_gets_another_one_and_no_more_than_may_be() {
    for program in programs(&[]) {
        let host = host();
        let limits = limits(|limits| (limits.concurrency, limits.instances_max) = (1, 2));
        let hosted = host.add(program, limits);
        let first = crate::open(&hosted).await;
        let second = crate::open(&hosted).await;
        let third = tokio::spawn({
            let hosted = hosted.clone();
            async move { get(&hosted, "/pid").await }
        });
        hosted.until(|status| status.waiting == 1).await;
        assert_eq!(hosted.status().starts, 2);
        let free = second.pid.clone();
        drop(second);
        assert_eq!(third.await.unwrap().unwrap(), free, "it waited for the first that was free");
        assert_ne!(first.pid, free);
        drop(first);
        host.stop().await;
    }
}

#[tokio::test]
async fn spares_take_the_first_call_and_are_replaced() {
    for program in programs(&[]) {
        let host = host();
        let limits = limits(|limits| (limits.spares, limits.idle_stop) = (1, Some(Duration::ZERO)));
        let hosted = host.add(program, limits);
        for starts in 1..=3 {
            let standing =
                hosted.until(|status| status.spares == 1 && status.pids.len() == 1).await;
            assert_eq!((standing.state, standing.starts), (State::Stopped, starts));
            let pid = get(&hosted, "/pid").await.unwrap();
            assert_eq!(pid, standing.pids[0].to_string());
        }
        host.stop().await;
    }
}

#[tokio::test]
async fn the_next_spare_is_started_while_the_call_that_took_one_goes_on() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, limits(|limits| limits.spares = 1));
        hosted.until(|status| status.spares == 1).await;
        // Not read, so that it goes on.
        let open = crate::reply(&hosted, "/pid").await.unwrap();
        let status = hosted.until(|status| status.spares == 1).await;
        assert_eq!((status.starts, status.pids.len(), status.calls), (2, 2, 1));
        drop(open);
        host.stop().await;
    }
}

#[tokio::test]
async fn a_replaced_program_serves_until_the_next_can_and_no_call_fails() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program.clone(), crate::patient_limits());
        let callers = [(); 4].map(|()| {
            let hosted = hosted.clone();
            tokio::spawn(async move {
                let mut calls = 0;
                while hosted.status().starts < 6 {
                    assert_eq!(get(&hosted, "/a").await.unwrap(), "/a");
                    calls += 1;
                }
                calls
            })
        });
        for starts in 1..=5 {
            hosted.until(|status| status.starts == starts).await;
            hosted.replace(program.clone(), crate::patient_limits());
        }
        for caller in callers {
            assert!(caller.await.unwrap() > 0);
        }
        // One whose executable is gone leaves the old one serving.
        let broken = Program::new("test", ["/no/such/program"]).listen(Listen::Inherited);
        hosted.replace(broken, crate::patient_limits());
        hosted.until(|status| status.failure.is_some()).await;
        assert_eq!(get(&hosted, "/b").await.unwrap(), "/b");
        host.stop().await;
    }
}

#[tokio::test]
async fn a_version_that_never_accepts_does_not_replace_the_one_that_works() {
    for listen in [Listen::Port, Listen::Unix, Listen::Inherited] {
        let host = host();
        let hosted = host.add(python(&[]).listen(listen), crate::patient_limits());
        assert_eq!(get(&hosted, "/a").await.unwrap(), "/a");
        let folder = Folder::new();
        let listens = folder.0.join("listens");
        let short = limits(|limits| limits.start_timeout = Duration::from_secs(60));
        let program = python(&["unborn", &listens.display().to_string()]).listen(listen);
        hosted.replace(program, short);
        // Its socket is there; only then its time passes.
        until(|| listens.exists()).await;
        some_time_passes(Duration::from_secs(60)).await;
        hosted.until(|status| status.failure.is_some()).await;
        let failure = hosted.status().failure.unwrap();
        // Whether the gateway had seen the socket by then.
        let texts = ["it did not listen within ", "it accepted no connection within "];
        let is_told = texts.iter().any(|text| failure.starts_with(text));
        assert!(is_told, "{listen:?}: {failure}");
        assert_eq!(get(&hosted, "/b").await.unwrap(), "/b", "{listen:?}");
        host.stop().await;
    }
}

#[tokio::test]
async fn a_program_is_called_once_the_path_that_says_so_answers() {
    let folder = Folder::new();
    let is_ready = folder.0.join("ready");
    let file = is_ready.display().to_string();
    let asked = format!("{file}.asked");
    for listen in [Listen::Port, Listen::Unix, Listen::Inherited] {
        let host = host();
        let program = python(&["", &file]).listen(listen).ready("/healthz");
        let hosted = host.add(program, crate::patient_limits());
        let called = tokio::spawn({
            let hosted = hosted.clone();
            async move { get(&hosted, "/a").await }
        });
        until(|| std::path::Path::new(&asked).exists()).await;
        assert!(!called.is_finished() && hosted.status().starts == 0, "{listen:?}");
        std::fs::write(&is_ready, "").unwrap();
        assert_eq!(called.await.unwrap().unwrap(), "/a", "{listen:?}");
        std::fs::remove_file(&asked).unwrap();
        std::fs::remove_file(&is_ready).unwrap();
        host.stop().await;
    }
}

fn assert_unavailable(error: &Error) {
    assert_eq!((error.code(), error.http_status().as_u16()), (Code::Unavailable, 503));
    assert!(error.headers().contains_key(RETRY_AFTER), "{error:?}");
    assert_eq!(error.message().split(' ').nth(1), Some("cannot"), "{error}");
}
