//! A restart behind a socket that somebody else keeps open: nobody is refused, and no call is lost.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use crate::program::{command, folder, ran};

const PROTO: &str = r#"
syntax = "proto3";
package shop.v1;
service Items { rpc Get(Item) returns (Item); }
message Item { string name = 1; }
"#;

/// What systemd does for a service with a socket unit.
struct Supervisor {
    socket: TcpListener,
    address: SocketAddr,
    notified: UnixDatagram,
    folder: TempDir,
}

/// One run of the program; it ends with the test.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Supervisor {
    fn new() -> Self {
        let folder = folder(&[("shop.proto", PROTO)]);
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let notified = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        notified.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        Self { socket, address, notified, folder }
    }

    /// Starts the program with the socket as its file 3, and waits until it says that it is ready.
    fn start(&self) -> Run {
        let address = self.address.to_string();
        let program = command(self.folder.path(), &["serve", "shop.proto", "--listen", &address]);
        let mut shell = Command::new("sh");
        let script = r#"export LISTEN_PID=$$; exec "$0" "$@" 3<&0 </dev/null"#;
        shell.arg("-c").arg(script).arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let socket = OwnedFd::from(self.socket.try_clone().unwrap());
        shell.current_dir(self.folder.path()).stdin(Stdio::from(socket));
        shell.env("LISTEN_FDS", "1").env("NOTIFY_SOCKET", self.folder.path().join("notify"));
        let run = Run(shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        self.says("READY=1");
        run
    }

    fn says(&self, expected: &str) {
        let mut said = [0; 64];
        let length = loop {
            match self.notified.recv(&mut said) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                length => break length.expect("it says something within a minute"),
            }
        };
        assert_eq!(std::str::from_utf8(&said[..length]).unwrap(), expected);
    }

    fn stop(&self, mut run: Run) {
        let id = run.0.id().to_string();
        assert!(Command::new("kill").arg(&id).status().unwrap().success());
        self.says("STOPPING=1");
        assert_eq!(run.0.wait().unwrap().code(), Some(0));
    }
}

/// One call on its own connection.
fn call(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection is not refused");
    let body = r#"{"name":"tea"}"#;
    let length = body.len();
    let request = format!(
        "POST /shop.v1.Items/Get HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let mut answer = String::new();
    let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
    answer
}

#[test]
fn a_restart_under_load_refuses_nobody_and_loses_no_call() {
    let supervisor = Supervisor::new();
    let first = supervisor.start();
    let (over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let callers = [(); 4].map(|()| {
        let (over, answered, address) =
            (Arc::clone(&over), Arc::clone(&answered), supervisor.address);
        std::thread::spawn(move || {
            while !over.load(Ordering::SeqCst) {
                let answer = call(address);
                assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
                answered.fetch_add(1, Ordering::SeqCst);
            }
        })
    });
    let more = |calls: usize| {
        let wanted = answered.load(Ordering::SeqCst) + calls;
        while answered.load(Ordering::SeqCst) < wanted && !callers.iter().any(|c| c.is_finished()) {
            std::thread::yield_now();
        }
    };
    more(200);
    // Both serve for a while.
    let second = supervisor.start();
    supervisor.stop(first);
    more(200);
    // Nobody serves for a while; who connects waits.
    supervisor.stop(second);
    let third = supervisor.start();
    more(200);
    over.store(true, Ordering::SeqCst);
    for caller in callers {
        caller.join().expect("every call is answered");
    }
    supervisor.stop(third);
}

#[test]
fn sockets_that_are_not_there_are_an_error_and_not_files_of_the_program() {
    let folder = folder(&[("shop.proto", PROTO)]);
    for (count, script, expected) in [
        ("5", "exec 3</dev/null", "LISTEN_FDS = 5, but descriptor 3 is not an open socket: "),
        ("2", "exec 3<&- 4<&-", "LISTEN_FDS = 2, but descriptor 3 is not an open socket: "),
        ("-1", ":", "LISTEN_FDS = \"-1\" is not a number of sockets, 0 to 64"),
        ("abc", ":", "LISTEN_FDS = \"abc\" is not a number of sockets, 0 to 64"),
    ] {
        let program = command(folder.path(), &["serve", "shop.proto", "--port", "0"]);
        let mut shell = Command::new("timeout");
        let script = format!("{script}; export LISTEN_PID=$$; exec \"$0\" \"$@\"");
        shell.args(["60", "sh", "-c", &script]).arg(program.get_program());
        shell.args(program.get_args()).current_dir(folder.path()).env("LISTEN_FDS", count);
        let ran = ran(shell.stdin(Stdio::null()).output().unwrap());
        ran.check(1, &[expected]);
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    }
}
