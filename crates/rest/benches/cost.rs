//! What REST costs beyond HTTP and the service: from a head and a body to a message, and back.
//!
//! ```text
//! cargo bench -p tidewire-rest --bench cost              every case: ns and allocations
//! valgrind --tool=callgrind <bench> 'reply raw' 10000    instructions: subtract a run of half
//! cargo bench -p tidewire-rest --bench cost -- start     a large schema: ms until it serves
//! ```
//!
//! `query` has a path part and two parameters, `body` is a contact of 154 bytes in JSON,
//! `reply list` has a hundred of them; `raw` is a `google.api.HttpBody` of 12 bytes, `raw 64k` one
//! of 65,536. Messages are as a service is given them and gives them. The large schema has 5,000
//! messages in one cycle and 2,000 methods.

#![allow(unsafe_code, reason = "counting allocations needs a GlobalAlloc")]
#![allow(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Uri};
use tidewire_rest::{Binding, Request, Rest, RestMatch, RestOptions};
use tidewire_schema::Schema;
use tidewire_service::{Codec, Headers};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every method forwards to `System` unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` above with this layout.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// How messages come to a service and from it.
const CODEC: Codec = Codec::Proto;

const PROTO: &str = r#"
syntax = "proto3";
package cost;
import "google/api/annotations.proto";
import "google/api/httpbody.proto";
service Cost {
  rpc Query(Contact) returns (Contact) {
    option (google.api.http) = { get: "/contacts/{id}" };
  }
  rpc Add(Contact) returns (Contact) {
    option (google.api.http) = { post: "/contacts" body: "*" };
  }
  rpc All(Contact) returns (Contacts) {
    option (google.api.http) = { get: "/contacts" };
  }
  rpc Raw(google.api.HttpBody) returns (google.api.HttpBody) {
    option (google.api.http) = { post: "/raw" body: "*" };
  }
}
message Contact {
  int64 id = 1;
  string first_name = 2;
  string last_name = 3;
  string email = 4;
  string phone = 5;
  string city = 6;
  int64 created = 7;
  bool vip = 8;
}
message Contacts { repeated Contact contacts = 1; }
"#;

const CONTACT: &str = r#"{"id":"123456","firstName":"Adalbert","lastName":"Lovelace","email":"ada@example.com","phone":"+49 170 1234567","city":"London","created":"1712345678901"}"#;

/// Something that is done again and again.
struct Case {
    name: &'static str,
    run: Box<dyn Fn()>,
}

fn compiled(name: &str, proto: &str) -> Schema {
    let folder = std::env::temp_dir().join(format!("tidewire-rest-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is a temporary folder");
    std::fs::write(folder.join("cost.proto"), proto).expect("it can be written to");
    let schema = Schema::from_folder(&folder).expect("the proto is right");
    std::fs::remove_dir_all(&folder).expect("it was made above");
    schema
}

fn table(schema: &Schema) -> Rest {
    let interface = schema.interface("cost.Cost").expect("it is right").expect("it is there");
    let interfaces = [interface];
    let none = std::iter::empty();
    let options = || {
        let mut options = RestOptions::default();
        options.openapi = Some(true);
        options
    };
    Rest::new(interfaces.iter(), none, options()).expect("the annotations are right")
}

fn find_binding(rest: &Rest, verb: &Method, uri: &Uri) -> Arc<Binding> {
    match rest.find(verb, uri.path()) {
        RestMatch::Binding(binding) => Arc::clone(binding),
        other => panic!("{verb} {uri} is {other:?}"),
    }
}

fn request(
    name: &'static str,
    rest: &Arc<Rest>,
    verb: Method,
    uri: &'static str,
    body: &[u8],
) -> Case {
    let (rest, uri, body) = (Arc::clone(rest), Uri::from_static(uri), Bytes::copy_from_slice(body));
    let mut headers = Headers::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let run = move || {
        let binding = find_binding(&rest, &verb, &uri);
        let request = Request::new(&binding, &uri, &headers, !body.is_empty());
        let message = request.and_then(|request| request.message(&body));
        black_box(message.expect("the request is right"));
    };
    Case { name, run: Box::new(run) }
}

fn reply(
    name: &'static str,
    rest: &Rest,
    verb: &Method,
    uri: &'static str,
    message: Bytes,
) -> Case {
    let binding = find_binding(rest, verb, &Uri::from_static(uri));
    let run = move || {
        black_box(binding.print(message.clone()).expect("the reply is right"));
    };
    Case { name, run: Box::new(run) }
}

fn cases() -> Vec<Case> {
    let schema = compiled("cost", PROTO);
    let rest = Arc::new(table(&schema));
    let encoded = |name: &str, json: &str| {
        let message = schema.decode(name, Codec::Json, json.as_bytes());
        message.and_then(|message| message.encode(CODEC)).expect("the message is right")
    };
    let contacts = format!(r#"{{"contacts":[{}]}}"#, [CONTACT; 100].join(","));
    let raw = |base64: &str| {
        let json = format!(r#"{{"contentType":"text/plain; charset=utf-8","data":"{base64}"}}"#);
        encoded("google.api.HttpBody", &json)
    };
    let large = "AAAA".repeat(65_536 / 3) + "AA==";
    let (get, post) = (Method::GET, Method::POST);
    let uri = "/contacts/123456?first_name=Adalbert&city=London";
    vec![
        request("request query", &rest, get.clone(), uri, b""),
        request("request body", &rest, post.clone(), "/contacts", CONTACT.as_bytes()),
        request("request raw", &rest, post.clone(), "/raw", b"Hello World!"),
        request("request raw 64k", &rest, post.clone(), "/raw", &[0; 65_536]),
        reply("reply json", &rest, &get, uri, encoded("cost.Contact", CONTACT)),
        reply("reply list", &rest, &get, "/contacts", encoded("cost.Contacts", &contacts)),
        reply("reply raw", &rest, &post, "/raw", raw("SGVsbG8gV29ybGQh")),
        reply("reply raw 64k", &rest, &post, "/raw", raw(&large)),
    ]
}

/// A cycle of messages with everything annotated: how long until it serves.
fn start() {
    const MESSAGES: usize = 5000;
    const METHODS: usize = 2000;
    let mut proto = PROTO.split("service Cost").next().unwrap_or_default().to_owned();
    proto.push_str("service Cost {\n");
    for n in 0..METHODS {
        let _ = writeln!(
            proto,
            "rpc R{n}(M{n}) returns (M{n}) {{ option (google.api.http) = {{ get: \"/r{n}/{{id}}\" }}; }}"
        );
    }
    proto.push_str("}\n");
    for n in 0..MESSAGES {
        let next = (n + 1) % MESSAGES;
        let _ = writeln!(
            proto,
            "message M{n} {{ int64 id = 1; M{next} next = 2; repeated string tags = 3; }}"
        );
    }
    let schema = compiled("start", &proto);
    let clock = Instant::now();
    let rest = table(&schema);
    println!("{:<24} {:>9.1} ms", "start", clock.elapsed().as_secs_f64() * 1e3);
    let uri = Uri::from_static("/r7/7?next.next.id=1");
    let clock = Instant::now();
    let binding = find_binding(&rest, &Method::GET, &uri);
    let request = Request::new(&binding, &uri, &Headers::new(), false).expect("it is right");
    let message = request.message(b"").expect("it is right");
    black_box(binding.print(message).expect("it is right"));
    println!("{:<24} {:>9.3} ms", "first call", clock.elapsed().as_secs_f64() * 1e3);
    let clock = Instant::now();
    black_box(rest.find(&Method::GET, "/openapi.json"));
    println!("{:<24} {:>9.1} ms", "first /openapi.json", clock.elapsed().as_secs_f64() * 1e3);
    let clock = Instant::now();
    let interface = schema.interface("cost.Cost").expect("it is right").expect("it is there");
    assert!(tidewire_rest::check_rest(&[interface]).is_ok());
    println!("{:<24} {:>9.1} ms", "check", clock.elapsed().as_secs_f64() * 1e3);
}

fn measure(case: &Case, times: u32) {
    (case.run)();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let clock = Instant::now();
    (0..times).for_each(|_| (case.run)());
    let each = clock.elapsed() / times;
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    #[expect(clippy::cast_precision_loss, reason = "these are small")]
    let allocations = allocations as f64 / f64::from(times);
    println!("{:<24} {:>9} ns {allocations:>7.1} allocations", case.name, each.as_nanos());
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    match &arguments[..] {
        [] => cases().iter().for_each(|case| measure(case, 20_000)),
        [start_only] if start_only == "start" => start(),
        [name, times] => {
            let times = times.parse().expect("a number of times");
            let cases = cases();
            let case = cases.iter().find(|case| case.name == name).expect("a known case");
            (0..times).for_each(|_: u32| (case.run)());
        }
        _ => panic!("usage: cost [start | CASE TIMES]"),
    }
}
