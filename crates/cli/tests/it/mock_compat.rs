//! `tidewire mock --compat wishmock`: its admin routes, environment names and ports, by a client in
//! Node that was written against wishmock's documentation.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use crate::program::{command, folder, run};

const HELLO: &str = r#"syntax = "proto3";
package helloworld;
service Greeter { rpc SayHello(HelloRequest) returns (HelloReply); }
message HelloRequest {
  string name = 1;
  map<string, int32> labels = 2;
  oneof way { string mail = 3; string phone = 4; }
  Mood mood = 5;
}
message HelloReply { string message = 1; }
enum Mood { NONE = 0; HAPPY = 1; }
"#;
const RULE: &str = "responses: [{body: {message: 'Hello {{request.name}}'}}]";
const NAME: &str = "rules/grpc/helloworld.greeter.sayhello.yaml";

/// Ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that nobody has, out of a range from which the system gives none to others; another one
/// each time.
fn port() -> u16 {
    static TURN: LazyLock<AtomicU32> =
        LazyLock::new(|| AtomicU32::new(std::process::id().wrapping_mul(257)));
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let ports = std::iter::repeat_with(|| {
        let turn = TURN.fetch_add(1, Ordering::Relaxed) % 9_000;
        11_000 + u16::try_from(turn).unwrap()
    });
    ports.take(9_000).find(is_free).expect("there is a free port from 11000 to 19999")
}

fn start(here: &Path, variables: &[(&str, String)], more: &[&str]) -> Running {
    let arguments = [&["mock", "--compat", "wishmock"], more].concat();
    let mut command = command(here, &arguments);
    started(command.envs(variables.iter().map(|(name, value)| (name, value))))
}

/// A mock at free ports.
struct Anywhere {
    grpc: u16,
    connect: u16,
    admin: u16,
    _running: Running,
}

/// Starts one, its port of gRPC by this variable.
fn start_anywhere(here: &Path, variable: &str, more: &[&str]) -> Anywhere {
    let [grpc, connect, admin] = std::array::from_fn(|_| port());
    let ports = [(variable, grpc), ("CONNECT_PORT", connect), ("HTTP_PORT", admin)];
    let _running = start(here, &ports.map(|(name, port)| (name, port.to_string())), more);
    Anywhere { grpc, connect, admin, _running }
}

/// The folder of a mock with streams.
fn with_streams() -> TempDir {
    folder(&[
        ("protos/helloworld.proto", HELLO),
        ("protos/streaming.proto", STREAMS),
        (NAME, RULE),
        ("rules/grpc/streaming.streamservice.getmessages.yaml", STREAM_RULE),
    ])
}

fn started(command: &mut Command) -> Running {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // It is there once it says what it mocks.
    let is_there = lines.by_ref().map_while(Result::ok).any(|line| line.starts_with("mocking "));
    assert!(is_there, "it did not start");
    Running(child)
}

#[test]
fn every_documented_route_answers_as_a_client_in_node_expects() {
    let here = folder(&[("protos/helloworld.proto", HELLO), (NAME, RULE)]);
    let mock = start_anywhere(here.path(), "GRPC_PORT_PLAINTEXT", &["--compat-open"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/foreign/node/wishmock.js");
    let urls = [mock.admin, mock.connect].map(|port| format!("http://127.0.0.1:{port}"));
    let seen = Command::new("node").arg(script).args(urls).output().unwrap();
    let told = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert!(seen.status.success(), "{told}{}", String::from_utf8_lossy(&seen.stderr));
    assert!(told.lines().filter(|line| line.starts_with("ok ")).count() > 50, "{told}");
    // gRPC has its port.
    let address = format!("127.0.0.1:{}", mock.grpc);
    let words = ["call", &address, "SayHello", "{}", "--protocol", "grpc"];
    run(here.path(), &words).check(0, &["changed"]);
}

#[test]
fn the_routes_want_the_token_unless_they_are_opened_and_probes_do_not() {
    let settings = "[admin]\ntoken_file = \"admin.token\"\n";
    let files = [("protos/helloworld.proto", HELLO), (NAME, RULE), ("tidewire.toml", settings)];
    let here = folder(&files);
    let mock = start_anywhere(here.path(), "GRPC_PORT", &[]);
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", mock.admin);
    run(here.path(), &["call", &url("/liveness")]).check(0, &["alive"]);
    let refused = run(here.path(), &["call", &url("/admin/status")]);
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    let token = std::fs::read_to_string(here.path().join("admin.token")).unwrap();
    let header = format!("authorization: Bearer {}", token.trim());
    run(here.path(), &["call", &url("/admin/status"), "-H", &header]).check(0, &["grpc_port"]);
    // Without either nobody could be let in.
    let bare = folder(&[("protos/helloworld.proto", HELLO), (NAME, RULE)]);
    let mut mock = command(bare.path(), &["mock", "--compat", "wishmock"]);
    mock.envs([("GRPC_PORT", port().to_string()), ("CONNECT_PORT", port().to_string())]);
    crate::program::ran(mock.output().unwrap()).check(2, &["--compat-open", "admin.token_file"]);
}

#[test]
fn grpc_has_a_port_with_tls_where_that_is_on() {
    let here = folder(&[("protos/helloworld.proto", HELLO), (NAME, RULE)]);
    let [grpc, secure, connect, admin] = [port(), port(), port(), port()];
    let tls = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/tls");
    let file = |name: &str| tls.join(name).display().to_string();
    let variables = [
        ("GRPC_PORT_PLAINTEXT", grpc.to_string()),
        ("GRPC_PORT_TLS", secure.to_string()),
        ("GRPC_TLS_ENABLED", "true".to_owned()),
        ("GRPC_TLS_CERT_PATH", file("server.pem")),
        ("GRPC_TLS_KEY_PATH", file("server.key")),
        ("GRPC_TLS_CA_PATH", file("authority.pem")),
        ("GRPC_TLS_REQUIRE_CLIENT_CERT", "true".to_owned()),
        ("CONNECT_PORT", connect.to_string()),
        ("HTTP_PORT", admin.to_string()),
    ];
    let _running = start(here.path(), &variables, &["--compat-open"]);
    let said = r#"{"name":"Ada"}"#;
    let plain = format!("127.0.0.1:{grpc}");
    run(here.path(), &["call", &plain, "SayHello", said]).check(0, &["Hello Ada"]);
    let (url, authority) = (format!("https://127.0.0.1:{secure}"), file("authority.pem"));
    let words = ["call", &url, "SayHello", said, "--protocol", "grpc", "--cacert", &authority];
    assert_ne!(run(here.path(), &words).code, 0, "a client without a certificate is refused");
    let (certificate, key) = (file("client.pem"), file("client.key"));
    let client = [&words[..], &["--cert", &certificate, "--key", &key]].concat();
    run(here.path(), &client).check(0, &["Hello Ada"]);
    let status = format!("http://127.0.0.1:{admin}/admin/status");
    run(here.path(), &["call", &status]).check(0, &[&secure.to_string()]);
}

const STREAMS: &str = r#"syntax = "proto3";
package streaming;
service StreamService {
  rpc GetMessages(MessageRequest) returns (stream MessageResponse);
  rpc Talk(stream MessageRequest) returns (stream MessageResponse);
}
message MessageRequest { string user_id = 1; int32 limit = 2; }
message MessageResponse { string id = 1; int64 timestamp = 2; }
"#;
const STREAM_RULE: &str = "
- when: {request.user_id: gone}
  stream: [{body: {id: a}}, {error: {code: NOT_FOUND, message: 'no more'}}]
- stream_items: [{id: a, timestamp: 1701878400}, {id: '{{request.user_id}}'}]
  stream_delay_ms: 0
";

/// The calls of the example `node.mjs` of wishmock, with nothing but `fetch`: unary ones as Connect
/// has them, and streams as JSON lines to a plain POST.
#[test]
fn a_page_that_was_written_for_wishmock_reads_streams_as_lines_of_json() {
    let here = with_streams();
    let mock = start_anywhere(here.path(), "GRPC_PORT_PLAINTEXT", &["--compat-open"]);
    let script = "
        const [url] = process.argv.slice(1);
        const health = await (await fetch(`${url}/health`)).json();
        console.log('health', health.status, health.services.join(' '), health.reflection);
        const ask = (path, body) => fetch(`${url}/${path}`, {
          method: 'POST',
          headers: { 'Content-Type': 'application/json', 'Connect-Protocol-Version': '1' },
          body: JSON.stringify(body),
        });
        console.log('unary', (await (await ask('helloworld.Greeter/SayHello', { name: 'NodeJS' })).json()).message);
        for (const user_id of ['user123', 'gone']) {
          const response = await ask('streaming.StreamService/GetMessages', { user_id, limit: 5 });
          console.log('status', response.status, response.headers.get('content-type'));
          let buffer = '';
          for await (const chunk of response.body) buffer += new TextDecoder().decode(chunk, { stream: true });
          for (const line of buffer.split('\\n').filter((line) => line.trim())) console.log('line', JSON.stringify(JSON.parse(line)));
        }
        const no = await ask('streaming.StreamService/Talk', {});
        console.log('requests', no.status, (await no.json()).code);
        const unknown = await ask('streaming.StreamService/Nothing', {});
        console.log('unknown', unknown.status, (await unknown.json()).code);
    ";
    let words =
        ["--input-type=module", "-e", script, "--", &format!("http://127.0.0.1:{}", mock.connect)];
    let seen = Command::new("node").args(words).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&seen.stdout),
        r#"health serving helloworld.Greeter streaming.StreamService true
unary Hello NodeJS
status 200 application/json
line {"id":"a","timestamp":"1701878400"}
line {"id":"user123"}
status 200 application/json
line {"id":"a"}
line {"error":{"code":"not_found","message":"no more"}}
requests 501 unimplemented
unknown 501 unimplemented
"#,
        "{}",
        String::from_utf8_lossy(&seen.stderr)
    );
}

/// A way of its own to a method is no way past the rules for it.
#[test]
fn who_asks_for_lines_of_json_is_held_to_access_and_validation() {
    let proto = STREAMS.replace(
        "string user_id = 1;",
        "string user_id = 1 [(buf.validate.field).string.min_len = 3];",
    );
    let proto = proto.replace("package", "import \"buf/validate/validate.proto\";\npackage");
    // The key is `letmein`.
    let settings = "
[[auth.api_key]]
subject = \"page\"
sha256 = \"1c8bfe8f801d79745c4631d09fff36c82aa37fc4cce4fc946683d7b336b63032\"
[auth.methods.\"streaming.StreamService/GetMessages\"]
access = \"authenticated\"
";
    let here = folder(&[
        ("protos/streaming.proto", &proto),
        ("rules/grpc/streaming.streamservice.getmessages.yaml", STREAM_RULE),
        ("tidewire.toml", settings),
    ]);
    let mock = start_anywhere(here.path(), "GRPC_PORT", &["--compat-open", "--validate"]);
    let url = format!("http://127.0.0.1:{}/streaming.StreamService/GetMessages", mock.connect);
    for kind in ["application/json", "application/grpc-web+json"] {
        let kind = format!("content-type: {kind}");
        let ask = |user: &str, key: &[&str]| {
            let body = format!("{{\"user_id\": \"{user}\"}}");
            let words = ["-s", "-X", "POST", &url, "-H", &kind, "-d", &body];
            let seen = Command::new("curl").args([&words, key].concat()).output().unwrap();
            String::from_utf8(seen.stdout).unwrap()
        };
        let key = ["-H", "x-api-key: letmein"];
        let refused = ask("user123", &[]);
        assert!(refused.contains("\"code\":\"unauthenticated\""), "{refused}");
        assert!(!refused.contains("\"id\""), "{refused}");
        assert_eq!(
            ask("user123", &key),
            "{\"id\":\"a\",\"timestamp\":\"1701878400\"}\n{\"id\":\"user123\"}\n"
        );
        let broken = ask("x", &key);
        assert!(broken.contains("\"code\":\"invalid_argument\""), "{broken}");
        assert!(broken.contains("userId"), "{broken}");
    }
}

/// What the examples of wishmock send as `application/grpc-web+json`: JSON without envelopes.
const WEB_SCRIPT: &str = "
    const [url] = process.argv.slice(1);
    const ask = (path, body, more) => fetch(`${url}/${path}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/grpc-web+json', 'X-Grpc-Web': '1', ...more },
      body,
    });
    const tell = async (name, asked) => {
      const response = await asked;
      const text = (await response.text()).replace(/[\\0-\\x1f\\x80-\\uffff]+/g, ' ').trim();
      console.log(name, response.status, response.headers.get('content-type'), text);
    };
    const hello = 'helloworld.Greeter/SayHello';
    await tell('unary', ask(hello, '{\"name\":\"Ada\"}', { Accept: 'application/grpc-web+json' }));
    await tell('nothing', ask(hello, ''));
    await tell('broken', ask(hello, 'invalid json{'));
    await tell('unknown', ask('nonexistent.Service/Method', '{}'));
    await tell('stream', ask('streaming.StreamService/GetMessages', '{\"user_id\":\"Bob\"}'));
    const json = Buffer.from('{\"name\":\"Eve\"}');
    const envelope = Buffer.concat([Buffer.from([0, 0, 0, 0, json.length]), json]);
    await tell('envelope', ask(hello, envelope));
    await tell('library', ask(hello, envelope, { 'X-User-Agent': 'library' }));
    await tell('nowhere', ask('nonexistent.Service/Method', envelope));
";

fn web(port: u16) -> String {
    let url = format!("http://127.0.0.1:{port}");
    let words = ["--input-type=module", "-e", WEB_SCRIPT, "--", &url];
    let seen = Command::new("node").args(words).output().unwrap();
    assert!(seen.status.success(), "{}", String::from_utf8_lossy(&seen.stderr));
    String::from_utf8(seen.stdout).unwrap()
}

#[test]
fn json_without_envelopes_is_taken_as_grpc_web_for_clients_of_wishmock_only() {
    let here = with_streams();
    let mock = start_anywhere(here.path(), "GRPC_PORT", &["--compat-open"]);
    let seen = web(mock.connect);
    let lines: Vec<_> = seen.lines().collect();
    assert_eq!(lines[0], r#"unary 200 application/json {"message":"Hello Ada"}"#);
    assert_eq!(lines[1], r#"nothing 200 application/json {"message":"Hello "}"#);
    assert!(
        lines[2].starts_with(r#"broken 400 application/json {"code":"invalid_argument""#),
        "{seen}"
    );
    assert!(
        lines[3].starts_with(r#"unknown 501 application/json {"code":"unimplemented""#),
        "{seen}"
    );
    assert_eq!(
        lines[4],
        r#"stream 200 application/json {"id":"a","timestamp":"1701878400"} {"id":"Bob"}"#
    );
    // Who sends envelopes is answered in them, with or without a name.
    let enveloped = r#"200 application/grpc-web+json {"message":"Hello Eve"} grpc-status: 0"#;
    assert_eq!(lines[5].replacen("envelope ", "", 1), enveloped, "{seen}");
    assert_eq!(lines[6].replacen("library ", "", 1), enveloped, "{seen}");
    assert!(lines[7].starts_with("nowhere 501"), "{seen}");

    let plain = port();
    let words = ["mock", "--no-console", "--port", &plain.to_string()];
    let _running = started(&mut command(here.path(), &words));
    let seen = web(plain);
    let lines: Vec<_> = seen.lines().collect();
    for line in &lines[..3] {
        assert!(line.contains(" 200 application/grpc-web+json "), "{seen}");
        assert!(line.contains("grpc-status: ") && !line.contains("Hello"), "{seen}");
    }
    assert_eq!(lines[5].replacen("envelope ", "", 1), enveloped, "{seen}");
}
