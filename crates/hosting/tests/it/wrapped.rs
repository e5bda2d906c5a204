//! Programs behind a shell or npm, what they print at their end, and what the supervisor makes of
//! them.

use std::time::Duration;

use http::Method;
use tidewire_hosting::{Listen, Program, State};
use tidewire_service::{Body, Code, Frame, Service};

use crate::{call, get, host, limits, programs, python};

#[tokio::test]
async fn what_npm_starts_is_told_its_port_and_ends_with_npm() {
    let folder = std::env::temp_dir().join(format!("tidewire-npm-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let script = "require('http').createServer((asked, answer) => answer.end(String(process.pid))).listen(process.env.PORT)";
    std::fs::write(folder.join("server.js"), script).unwrap();
    std::fs::write(folder.join("package.json"), r#"{"scripts":{"start":"node server.js"}}"#)
        .unwrap();
    let host = host();
    let program = Program::new("npm", ["npm", "run", "--silent", "start"]).folder(&folder);
    let hosted = host.add(program, crate::patient_limits());
    let pid: i32 = get(&hosted, "/").await.unwrap().parse().unwrap();
    assert_ne!(hosted.status().pids, [pid], "npm is between");
    host.stop().await;
    assert!(!crate::is_alive(pid));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_wrapper_that_keeps_the_socket_from_its_program_is_named() {
    for command in [crate::PYTHON.join(" "), crate::go().to_owned()] {
        let host = host();
        let of_shell = |line: String| {
            Program::new("test", ["sh".to_owned(), "-c".to_owned(), line]).listen(Listen::Inherited)
        };
        // The program finds that LISTEN_PID is not its own, and PORT is not set: it does not
        // listen, and waits for what never comes.
        let short = limits(|limits| limits.start_timeout = Duration::from_millis(200));
        let hosted = host.add(of_shell(format!("{command} never; true")), short);
        let error = get(&hosted, "/").await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable);
        let cause = hosted.status().failure.unwrap();
        assert!(cause.contains("LISTEN_PID") && cause.contains("sh"), "{cause}");
        // Where the shell becomes the program, all is well.
        let hosted = host.add(of_shell(format!("exec {command}")), crate::patient_limits());
        assert_eq!(get(&hosted, "/a").await.unwrap(), "/a");
        host.stop().await;
    }
}

#[tokio::test]
async fn what_a_program_in_node_prints_before_it_exits_is_all_read() {
    let host = host();
    // Twice what the pipe has room for, and faster than anybody reads on a busy machine.
    let script = "console.log('begun'); require('http').createServer(() => { \
        for (let i = 0; i < 20000; i++) console.log('x'.repeat(100)); \
        process.exit(1) }).listen(process.env.PORT)";
    let hosted = host.add(Program::new("test", ["node", "-e", script]), crate::patient_limits());
    hosted.start();
    // Once anything was read, what it prints waits to be read; until then the pipe has room for 1
    // MiB.
    crate::until(|| !hosted.output().is_empty()).await;
    let print = hosted.call(call(Method::POST, "/", Body::Empty)).await;
    assert_eq!(print.unwrap_err().code(), Code::Unavailable);
    host.stop().await;
    let kept = u64::try_from(hosted.output().len()).unwrap();
    assert_eq!(kept + hosted.output_dropped(), 20_001);
}

#[tokio::test]
async fn a_program_starts_with_signals_as_nobody_changed_them() {
    let host = host();
    // The supervisor inherits it from this process, as from a gateway behind nohup.
    let command = ["grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"];
    let hosted = host.add(Program::new("test", command), crate::patient_limits());
    get(&hosted, "/").await.unwrap_err();
    let said = hosted.output();
    let sets = said.iter().map(|line| line.text.split('\t').nth(1).unwrap());
    let sets: Vec<_> = sets.map(|set| u64::from_str_radix(set, 16).unwrap()).collect();
    // 32 and 33 are the C library's own, which it lets nobody set.
    let own = 3 << 31;
    assert_eq!((sets[0], sets[1] & !own, sets.len()), (0, 0, 2), "{said:?}");
    host.stop().await;
}

#[tokio::test]
async fn a_frozen_process_that_is_stopped_runs_what_it_has_for_that() {
    for program in programs(&["polite"]) {
        let host = host();
        let hosted = host.add(program, limits(|limits| limits.idle_freeze = Some(Duration::ZERO)));
        get(&hosted, "/pid").await.unwrap();
        hosted.until(|status| status.state == State::Frozen).await;
        host.stop().await;
        let said = hosted.output();
        assert!(said.iter().any(|line| line.text == "bye"), "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_calls_find_a_frozen_process_and_all_are_answered() {
    for program in programs(&[]) {
        let host = host();
        let limits = limits(|limits| {
            (limits.idle_freeze, limits.queue_max) = (Some(Duration::ZERO), 1000);
        });
        let hosted = host.add(program, limits);
        get(&hosted, "/pid").await.unwrap();
        hosted.until(|status| status.state == State::Frozen).await;
        let calls = (0..1000).map(|_| get(&hosted, "/a"));
        for answer in futures_util::future::join_all(calls).await {
            assert_eq!(answer.unwrap(), "/a");
        }
        assert_eq!(hosted.status().starts, 1);
        host.stop().await;
    }
}

#[tokio::test]
async fn children_hang_on_the_only_thread_of_the_supervisor() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, crate::patient_limits());
        let pid = get(&hosted, "/pid").await.unwrap();
        let status = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let field = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim().to_owned()
        };
        // The death signal of a child is of the thread that started it, which so cannot end before
        // it.
        let supervisor = field(&status(&pid), "PPid:");
        assert_eq!(field(&status(&supervisor), "Threads:"), "1");
        host.stop().await;
    }
}

#[tokio::test]
async fn what_is_forked_for_a_start_is_small_however_large_the_gateway_is() {
    // A fork copies the tables of all pages: of a gateway of 1 GiB that takes 30 ms.
    let large = vec![1_u8; 1 << 30];
    let resident = |pid: &str| -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    assert!(resident("self") > 1 << 20);
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, crate::patient_limits());
        let pid = get(&hosted, "/pid").await.unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let supervisor = stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().to_owned();
        assert!(resident(&supervisor) < 64 << 10, "{} KiB", resident(&supervisor));
        host.stop().await;
    }
    assert_eq!(large.last(), Some(&1));
}

#[tokio::test]
async fn nothing_is_left_of_a_chain_of_forks_when_its_service_is_stopped() {
    for program in programs(&["chain"]) {
        let host = host();
        let hosted = host.add(program, crate::patient_limits());
        let mark = get(&hosted, "/environment-mark").await.unwrap();
        hosted.stop();
        hosted.until(|status| status.state == State::Stopped).await;
        host.stop().await;
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let left = all.filter(|folder| {
            let environment = std::fs::read(folder.path().join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&mark)
        });
        assert_eq!(left.count(), 0);
    }
}

#[tokio::test]
async fn a_caller_that_sends_slowly_takes_nobodys_time_and_a_program_that_reads_nothing_its_own() {
    let host = host();
    let short = limits(|limits| limits.request_timeout = Duration::from_secs(3));
    let hosted = host.add(python(&[]), short);
    let (pieces, taken) = tokio::sync::mpsc::channel(1);
    let body = futures_util::stream::unfold(taken, async |mut taken| {
        taken.recv().await.map(|piece: &str| (Ok(Frame::Data(piece.into())), taken))
    });
    let slow = {
        let call = call(Method::POST, "/whole", Body::frames(body));
        let hosted = hosted.clone();
        tokio::spawn(async move { hosted.call(call).await })
    };
    pieces.send("first ").await.unwrap();
    // Twice as long as an answer may take.
    for _ in 0..2 {
        let piece = Frame::Data(vec![b'x'; 16 << 20].into());
        let without_end = futures_util::stream::iter([Ok(piece)]);
        let unread = call(Method::POST, "/unread", Body::frames(without_end));
        let error = hosted.call(unread).await.unwrap_err();
        assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
    }
    pieces.send("last").await.unwrap();
    drop(pieces);
    let reply = slow.await.unwrap().unwrap();
    assert_eq!(reply.body.collect(100).await.unwrap(), "first last");
    assert_eq!(hosted.status().starts, 1);
    host.stop().await;
}
