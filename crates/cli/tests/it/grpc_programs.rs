//! gRPC servers in other languages as hosted programs: `protocol = "h2c"`.

use std::path::Path;
use std::process::Command;

use crate::hosting::{Served, send};
use crate::program::{folder, run};
use crate::server::root;

/// A gRPC server that nobody wrote for Tidewire: it listens at a Unix socket, echoes bytes, and
/// ends when it is told to.
const ECHO: &str = r#"
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import grpc

def echo(request, context):
    if request == b"end":
        os._exit(7)
    metadata = dict(context.invocation_metadata())
    context.set_trailing_metadata((("x-place-bin", metadata.get("x-place-bin", b"")),))
    return request

def turns(requests, context):
    for request in requests:
        if request == b"end":
            os._exit(7)
        if request == b"leave":
            server.stop(60)
        yield request + b"!"

def waits(request, context):
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "100 % grün")

MAX = int(os.environ.get("STREAMS_MAX", "100"))
methods = {
    "Echo": grpc.unary_unary_rpc_method_handler(echo),
    "Turns": grpc.stream_stream_rpc_method_handler(turns),
    "Fails": grpc.unary_unary_rpc_method_handler(waits),
}
server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.max_concurrent_streams", MAX)])
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a.Echo", methods),))
server.add_insecure_port("unix:" + os.environ["SOCKET"])
signal.signal(signal.SIGTERM, lambda *_: server.stop(1))
server.start()
server.wait_for_termination()
"#;

/// What calls it, by gRPC's library alone.
const CALLER: &str = r#"
import queue
import sys

import grpc

channel = grpc.insecure_channel(sys.argv[1])
TIMEOUT = 120

def unary(name, request, **options):
    return channel.unary_unary("/a.Echo/" + name).with_call(request, timeout=TIMEOUT, **options)

def failure(name, request):
    try:
        unary(name, request)
    except grpc.RpcError as error:
        return error.code().name, error.details()

def turns():
    sent = queue.SimpleQueue()
    replies = channel.stream_stream("/a.Echo/Turns")(iter(sent.get, None), timeout=TIMEOUT)
    return sent, replies

def ends_in_a_call():
    reply, call = unary("Echo", b"a" * 100_000, metadata=(("x-place-bin", b"\0\xff"),))
    print(reply == b"a" * 100_000, call.trailing_metadata())
    print(failure("Fails", b""))
    print(failure("None", b""))
    # Each message is answered before the next is sent.
    sent, replies = turns()
    for message in (b"one", b"two"):
        sent.put(message)
        print(next(replies))
    sent.put(None)
    print(list(replies))
    print(failure("Echo", b"end")[0])

def ends_in_a_stream():
    # Its reply has begun.
    sent, replies = turns()
    sent.put(b"one")
    print(next(replies))
    sent.put(b"end")
    try:
        next(replies)
    except grpc.RpcError as error:
        print((error.code().name, error.details()))

def listens_no_more():
    # It still has a call; the next one goes to the next process.
    sent, replies = turns()
    sent.put(b"leave")
    print(next(replies))
    print(unary("Echo", b"the next")[0])
    sent.put(None)
    print(list(replies))

globals()[sys.argv[2]]()
"#;

/// Many calls at once.
const BURST: &str = r#"
import sys

import grpc

channel = grpc.insecure_channel(sys.argv[1])
echo = channel.unary_unary("/a.Echo/Echo")
calls = [echo.future(b"%d" % number, timeout=120) for number in range(40)]
print([call.result() for call in calls] == [b"%d" % number for number in range(40)])
"#;

fn settings(run: &str, more: &str) -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[service]]\nname = \"echo\"\nroute = \"/*\"\n\
         protocol = \"h2c\"\nrun = {run}\nstart_timeout = \"2m\"\n{more}"
    )
}

fn python() -> String {
    root().join(".tools/foreign-python/bin/python").display().to_string()
}

/// Runs a client of the behaviour service, and asserts that all its cases agree.
fn agrees(client: &mut Command) {
    let output = client.current_dir(root()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let failed: Vec<_> = said.lines().filter(|line| !line.starts_with("ok ")).collect();
    assert!(output.status.success() && failed.is_empty(), "{failed:#?}");
    assert!(said.lines().count() >= 40, "only these cases ran:\n{said}");
}

fn serve(folder: &Path) -> Served {
    run(folder, &["check"]).check(0, &["checked 1 file: nothing wrong"]);
    Served::start(folder)
}

#[test]
fn a_server_in_go_is_hosted_and_callers_in_go_and_python_see_all_that_it_does() {
    let program = root().join(".tools/bin/foreign-go-server");
    let command = format!("[{program:?}, \"127.0.0.1:{{port}}\"]");
    let folder = folder(&[("tidewire.toml", &settings(&command, ""))]);
    let served = serve(folder.path());
    agrees(Command::new(root().join(".tools/bin/foreign-go-client")).arg(&served.address));
    let client = root().join("tests/foreign/python/client.py");
    agrees(Command::new(python()).arg(client).arg(&served.address));
}

#[test]
fn a_server_in_python_is_hosted_on_a_socket_and_its_end_in_a_call_is_unavailable() {
    let command = format!("[{:?}, \"-I\", \"echo.py\"]", python());
    let settings = settings(&command, "listen = \"unix\"\n");
    let files = [("tidewire.toml", settings.as_str()), ("echo.py", ECHO), ("caller.py", CALLER)];
    let folder = folder(&files);
    let served = serve(folder.path());
    let caller = folder.path().join("caller.py");
    let calls = |part: &str, expected: &[&str]| {
        let mut python = Command::new(python());
        let output = python.arg("-I").arg(&caller).args([&served.address, part]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.lines().collect::<Vec<_>>(), expected, "{part}: {errors}");
    };
    // A call is lost that is sent in the moment in which the process ends.
    let is_known_to_have_ended =
        || served.says("service::inner: crashed: it ended with exit code 7");
    let expected = [
        r"True (_Metadatum(key='x-place-bin', value=b'\x00\xff'),)",
        "('FAILED_PRECONDITION', '100 % grün')",
        "('UNIMPLEMENTED', 'Method not found!')",
        "b'one!'",
        "b'two!'",
        "[]",
        "UNAVAILABLE",
    ];
    calls("ends_in_a_call", &expected);
    is_known_to_have_ended();
    let broke_off = "('UNAVAILABLE', 'the server broke off in the middle of its reply')";
    calls("ends_in_a_stream", &["b'one!'", broke_off]);
    is_known_to_have_ended();
    calls("listens_no_more", &["b'leave!'", "b'the next'", "[]"]);
    // A WebSocket has no way to it.
    let upgrade = "upgrade: websocket\r\nconnection: upgrade\r\n";
    let answer = send(&served.address, "GET /chat", upgrade);
    assert!(answer.starts_with("HTTP/1.1 501 "), "{answer}");
}

#[test]
fn a_server_that_allows_one_stream_at_a_time_is_called_often_and_fails_no_call() {
    let command = format!("[{:?}, \"-I\", \"echo.py\"]", python());
    let settings = settings(&command, "listen = \"unix\"\nenvironment = { STREAMS_MAX = \"1\" }\n");
    let files = [("tidewire.toml", settings.as_str()), ("echo.py", ECHO), ("burst.py", BURST)];
    let folder = folder(&files);
    let served = serve(folder.path());
    for _ in 0..2 {
        let burst = folder.path().join("burst.py");
        let output =
            Command::new(python()).arg("-I").arg(burst).arg(&served.address).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "True\n", "{errors}");
    }
}
