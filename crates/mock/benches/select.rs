//! What a mock costs beyond the server: from the bytes of a request to the bytes of a reply.
//!
//! ```text
//! cargo bench -p tidewire-mock --bench select                     every case, in ns
//! valgrind --tool=callgrind <bench> 'rules 100000' 20000          instructions: subtract a run of half
//! ```
//!
//! `rules N` is a method with N rules that differ by a literal and one that is asked for in turn,
//! in protobuf; `template` renders two expressions, `schema` makes an answer without a rule. The
//! log is off in `rules`, and on in `logged`.

#![allow(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use tidewire_mock::{Mock, RuleFiles};
use tidewire_schema::Schema;
use tidewire_service::{Call, Clock, Codec, Context, Method, Service};

const PROTO: &str = r#"
syntax = "proto3";
package cost;
service Cost { rpc Get(Item) returns (Item); }
message Item { string name = 1; string note = 2; int64 count = 3; }
"#;

/// No time passes.
struct Still(Instant);

impl Clock for Still {
    fn now(&self) -> Instant {
        self.0
    }

    fn sleep_until(&self, _: Instant) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}

struct Case {
    mock: Mock,
    method: Method,
    requests: Vec<Bytes>,
}

impl Case {
    fn new(rules: &str, names: usize, log_calls: usize) -> Self {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        std::fs::write(folder.path().join("cost.proto"), PROTO).expect("the folder can be written");
        let schema = Schema::from_folder(folder.path()).expect("it compiles");
        let files = match rules {
            "" => RuleFiles::new(),
            rules => RuleFiles::new().with("cost.cost.get.yaml", rules),
        };
        let interface = schema.interface("cost.Cost").ok().flatten().expect("it is there");
        let method = interface.methods()[0].clone();
        let requests = (0..64)
            .map(|n| {
                let mut item = schema.message("cost.Item").expect("it is there");
                let name = format!("name{}", n * names / 64);
                item.set("name", name.as_str()).expect("it is text");
                item.encode(Codec::Proto).expect("it has a form")
            })
            .collect();
        let (mock, findings) =
            Mock::builder(schema, Still(Instant::now())).rules(files).log_calls(log_calls).build();
        assert!(findings.is_empty(), "{findings:?}");
        Self { mock, method, requests }
    }

    fn run(&self, calls: usize) {
        for number in 0..calls {
            let request = self.requests[number % self.requests.len()].clone();
            let call = Call::method(self.method.clone(), Context::default(), Codec::Proto, request);
            let mut answer = self.mock.call(call);
            match Pin::new(&mut answer).poll(&mut TaskContext::from_waker(Waker::noop())) {
                Poll::Ready(reply) => drop(black_box(reply.expect("it answers"))),
                Poll::Pending => unreachable!("nothing is waited for"),
            }
        }
    }
}

fn literals(count: usize) -> String {
    (0..count)
        .map(|n| {
            format!("- {{when: {{request.name: name{n}}}, body: {{note: note{n}, count: {n}}}}}\n")
        })
        .collect()
}

fn case(name: &str) -> Case {
    let template = "- {body: {note: 'Hello {{request.name}}, {{metadata.x-a}}'}}";
    match name.split_once(' ') {
        Some(("rules", count)) => {
            let count = count.parse().expect("a number of rules");
            Case::new(&literals(count), count, 0)
        }
        _ => match name {
            "logged" => Case::new(&literals(1), 1, 1000),
            "template" => Case::new(template, 64, 0),
            "schema" => Case::new("", 64, 0),
            other => panic!("there is no case {other}"),
        },
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|one| one != "--bench").collect();
    if let [name, calls] = &arguments[..] {
        return case(name).run(calls.parse().expect("a number of calls"));
    }
    for name in ["rules 1", "rules 100", "rules 100000", "logged", "template", "schema"] {
        let case = case(name);
        case.run(1_000);
        let begun = Instant::now();
        case.run(20_000);
        println!("{name:14} {:8.0} ns", begun.elapsed().as_nanos() as f64 / 20_000.0);
    }
}
