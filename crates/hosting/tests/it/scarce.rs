//! Too few descriptors, and places that others have taken.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tidewire_hosting::Listen;

use crate::ends::{ask_text, start_gateway_by};
use crate::{gateway, get, host, limits, native, programs};

/// How programs are reached, one way over plain HTTP, and the commands of those in Python and in
/// Go.
fn ways(http: &'static str) -> [(&'static str, [Vec<String>; 2]); 2] {
    let owned = |command: &[&str]| command.iter().map(|word| (*word).to_owned()).collect();
    let [python, go] = crate::commands().map(owned);
    [(http, [python, go]), ("native", [native::python("threads"), native::go()])]
}

/// A gateway that may have so many descriptors: how a call of its program ended, if it started at
/// all.
fn called_with(descriptors: usize, listen: &str, program: &[String]) -> Option<String> {
    let socket = std::env::temp_dir().join(format!("scarce-{}", std::process::id()));
    let _ = std::fs::remove_file(&socket);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -n {descriptors} && exec \"$@\"")).arg("sh").arg(gateway());
    shell.arg(&socket).args(program).env("LISTEN", listen).stderr(Stdio::null());
    let mut gateway = shell.spawn().unwrap();
    let ended = loop {
        if let Some(end) = gateway.try_wait().unwrap() {
            break Some(end);
        }
        if UnixStream::connect(&socket).is_ok() {
            break None;
        }
        std::thread::yield_now();
    };
    if let Some(end) = ended {
        assert!(end.code().is_some(), "it says what it lacks, and does not crash: {end}");
        return None;
    }
    let answer = ask(&socket);
    // It may be better the second time, as some were free by then, and never hangs.
    let again = ask(&socket);
    assert!(["200", "201", "503"].contains(&&again[9..12]), "{descriptors}: {again}");
    let id = gateway.id().to_string();
    assert!(Command::new("kill").arg(&id).status().unwrap().success());
    assert_eq!(gateway.wait().unwrap().code(), Some(0), "{descriptors}: it ends well");
    Some(answer)
}

fn ask(socket: &Path) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "GET /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_gateway_that_runs_out_of_descriptors_says_so_to_its_caller_and_goes_on() {
    for (listen, commands) in ways("unix") {
        for program in commands {
            let (mut served, mut refused) = (0, 0);
            for descriptors in (10..=30).rev() {
                match called_with(descriptors, listen, &program) {
                    Some(answer) if answer.starts_with("HTTP/1.1 20") => served += 1,
                    Some(answer) => {
                        assert!(answer.starts_with("HTTP/1.1 503"), "{descriptors}: {answer}");
                        assert!(answer.to_lowercase().contains("retry-after: "), "{answer}");
                        refused += 1;
                    }
                    // With fewer it does not start either.
                    None => break,
                }
            }
            assert!(served > 0 && refused > 0, "{served} served, {refused} refused");
        }
    }
}

#[test]
fn a_call_that_no_descriptor_is_left_for_is_told_so_and_the_next_is_answered() {
    let socket = std::env::temp_dir().join(format!("short-{}", std::process::id()));
    for program in crate::commands() {
        let _ = std::fs::remove_file(&socket);
        let mut gateway = Command::new(gateway());
        let mut gateway = gateway.arg(&socket).args(program).stderr(Stdio::null()).spawn().unwrap();
        let id = gateway.id().to_string();
        let mut caller = connected(&socket);
        // A connection that has carried a body is used by nobody else, so each call needs one more.
        let mut post = || {
            let body = "transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
            write!(caller, "POST /whole HTTP/1.1\r\nhost: a\r\n{body}").unwrap();
            answer(&mut caller)
        };
        let limit = |number| limit(&id, number);
        limit("1024");
        assert!(post().starts_with("HTTP/1.1 200"));
        // Those that are open go on, another is not to be had.
        limit("3");
        let told = post();
        assert!(told.starts_with("HTTP/1.1 503"), "{told}");
        assert!(told.contains("no file descriptor free"), "{told}");
        limit("1024");
        assert!(post().starts_with("HTTP/1.1 200"));
        assert!(Command::new("kill").arg(&id).status().unwrap().success());
        assert_eq!(gateway.wait().unwrap().code(), Some(0));
    }
}

/// Without a descriptor that is free, a gateway goes on with the processes that it has.
#[test]
fn calls_of_the_live_protocol_need_no_descriptor_and_a_start_that_gets_none_is_told_so() {
    let socket = std::env::temp_dir().join(format!("none-{}", std::process::id()));
    let [_, (listen, commands)] = ways("unix");
    for program in commands {
        let _ = std::fs::remove_file(&socket);
        let mut gateway = Command::new(gateway());
        gateway.arg(&socket).args(program).env("LISTEN", listen).stderr(Stdio::null());
        let mut gateway = gateway.spawn().unwrap();
        let id = gateway.id().to_string();
        let mut caller = connected(&socket);
        let mut get = || {
            write!(caller, "GET /a HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
            answer(&mut caller)
        };
        let is_answered = |answer: &str| answer.starts_with("HTTP/1.1 201");
        assert!(is_answered(&get()));
        limit(&id, "3");
        for _ in 0..10 {
            assert!(is_answered(&get()));
        }
        let supervisor = only_child(&id);
        let process = only_child(&supervisor);
        assert!(Command::new("kill").args(["-9", &process]).status().unwrap().success());
        // One that finds it dying may break off; then none is to be had.
        while !get().starts_with("HTTP/1.1 503") {}
        limit(&id, "1024");
        while !is_answered(&get()) {}
        assert!(Command::new("kill").arg(&id).status().unwrap().success());
        assert_eq!(gateway.wait().unwrap().code(), Some(0));
    }
}

fn connected(socket: &Path) -> UnixStream {
    loop {
        match UnixStream::connect(socket) {
            Ok(caller) => return caller,
            Err(_) => std::thread::yield_now(),
        }
    }
}

/// Reads one answer, of a length or in chunks.
fn answer(caller: &mut UnixStream) -> String {
    let (mut answer, mut head) = (Vec::new(), None);
    loop {
        let mut byte = [0];
        caller.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
        if head.is_none() && answer.ends_with(b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&answer).to_lowercase();
            let length = text.split_once("content-length: ").and_then(|(_, it)| it.lines().next());
            head = Some(length.map(|length| answer.len() + length.parse::<usize>().unwrap()));
        }
        let is_whole = match head {
            None => false,
            Some(Some(length)) => answer.len() == length,
            Some(None) => answer.ends_with(b"\r\n0\r\n\r\n"),
        };
        if is_whole {
            return String::from_utf8(answer).unwrap();
        }
    }
}

/// Sets how many descriptors a process may have.
fn limit(id: &str, number: &str) {
    let mut set = Command::new("prlimit");
    set.args(["--pid", id]).arg(format!("--nofile={number}:1024"));
    assert!(set.status().unwrap().success());
}

/// The only child of a process, whichever of its threads started it.
fn only_child(id: &str) -> String {
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let children = threads.map(|thread| thread.unwrap().path().join("children"));
    let all: String = children.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    all.trim().to_owned()
}

#[tokio::test]
async fn a_program_finds_its_socket_as_descriptor_3_whatever_its_gateway_has_there() {
    let path = std::env::temp_dir().join(format!("tidewire-third-{}", std::process::id()));
    let elses = UnixListener::bind(&path).unwrap();
    for (listen, commands) in ways("inherited") {
        for command in commands {
            // What a gateway is started with passes to its supervisor: nothing, a file, the socket
            // of another.
            for third in ["3<&-", "3</dev/null", "3<&0"] {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(format!("exec \"$@\" {third}")).arg("sh").arg(gateway());
                shell.env("LISTEN", listen).stdin(OwnedFd::from(elses.try_clone().unwrap()));
                let (mut gateway, socket) = start_gateway_by(shell, "third", &command).await;
                for _ in 0..2 {
                    let answer = ask_text(&socket, "/a");
                    assert!(answer.contains("/a"), "{third}: {command:?}: {answer}");
                }
                gateway.kill().unwrap();
                gateway.wait().unwrap();
                std::fs::remove_file(&socket).unwrap();
            }
        }
    }
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn no_other_user_reaches_or_takes_the_place_of_a_socket() {
    let user = rustix::process::geteuid();
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program.listen(Listen::Unix), crate::patient_limits());
        let socket = PathBuf::from(get(&hosted, "/place").await.unwrap());
        let folder = socket.parent().unwrap();
        let metadata = folder.metadata().unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.uid()), (0o700, user.as_raw()));
        if user.is_root() {
            // Who is let in nowhere finds out as another user.
            for what in [
                "ls \"$1\"",
                "ln -s /tmp/a \"$1/2.sock\"",
                "mv \"$1\" \"$1\".a",
                "rm \"$1/1.sock\"",
            ] {
                let mut tries = Command::new("sh");
                tries.args(["-c", what, "sh"]).arg(folder).stderr(Stdio::null());
                let tried = tries.uid(65_534).gid(65_534).current_dir("/").status().unwrap();
                assert!(!tried.success(), "{what}");
            }
        }
        assert_eq!(get(&hosted, "/a").await.unwrap(), "/a");
        host.stop().await;
    }
}

#[tokio::test]
async fn a_program_of_another_user_does_not_lead_its_calls_to_the_socket_of_somebody_else() {
    let path = std::env::temp_dir().join(format!("tidewire-decoy-{}", std::process::id()));
    let elses = UnixListener::bind(&path).unwrap();
    elses.set_nonblocking(true).unwrap();
    for program in programs(&["decoy", path.to_str().unwrap()]) {
        let host = host();
        let limits = limits(|limits| limits.start_timeout = Duration::from_secs(1));
        let hosted = host.add(program.listen(Listen::Unix).user("nobody"), limits);
        let error = get(&hosted, "/a").await.unwrap_err();
        assert_eq!(error.http_status().as_u16(), 503);
        assert_eq!(elses.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "nobody called it");
        // Without root it is not even started.
        let is_root = rustix::process::geteuid().is_root();
        let expected = if is_root {
            "it did not listen within start_timeout = 1s"
        } else {
            "it cannot be run as another user, which only root may do: "
        };
        let failure = hosted.status().failure.unwrap();
        assert!(failure.starts_with(expected), "{failure}: {:?}", hosted.output());
        host.stop().await;
    }
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn a_folder_of_sockets_that_another_has_taken_is_let_be() {
    // Another user can take names in a folder that all may write; these are random, and one that
    // exists is never used.
    let taken = std::env::temp_dir().join("tidewire-1.1.1.0000000000000000");
    std::fs::create_dir_all(&taken).unwrap();
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program.listen(Listen::Unix), crate::patient_limits());
        assert_eq!(get(&hosted, "/a").await.unwrap(), "/a");
        host.stop().await;
    }
    assert!(taken.is_dir(), "it is of another namespace");
    std::fs::remove_dir(&taken).unwrap();
}
