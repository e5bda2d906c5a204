//! The suite `web`: what a web server costs for the least it can do, by a plain handler and by a
//! method that is bound to the request, in text and JSON.

use std::time::Duration;

use tidewire_loadgen::{MessageCodec, Protocol};

use super::{Answer, Case, Load, OriginUse, Suite, Work};

pub(super) const WEB: Suite = Suite {
    name: "web",
    about: "plain handlers and bound methods, text and JSON: 8 and 64 connections, pipelined",
    reading: "A handler answers by the path alone; a method takes its arguments from the request as the \
              framework binds them (a service of protobuf over REST in Tidewire, an extractor elsewhere). \
              One server core. Between fast servers rates measure the load generator as much as the \
              server: compare CPU per request.",
    duration: Duration::from_secs(4),
    quick: Duration::from_secs(1),
    cases: &[
        handler("text, handler, 8 connections", &TEXT, 8, 1),
        handler("text, handler, 64 connections", &TEXT, 64, 1),
        handler("text, handler, 8 connections, 16 pipelined", &TEXT, 8, 16),
        handler("JSON, handler, 8 connections", &JSON, 8, 1),
        handler("JSON, handler, 64 connections", &JSON, 64, 1),
        handler("JSON, handler, 8 connections, 16 pipelined", &JSON, 8, 16),
        handler("text, method, 8 connections", &METHOD_TEXT, 8, 1),
        handler("text, method, 64 connections", &METHOD_TEXT, 64, 1),
        handler("JSON, method, 8 connections", &METHOD_JSON, 8, 1),
        handler("JSON, method, 64 connections", &METHOD_JSON, 64, 1),
    ],
};

struct Resource {
    path: &'static str,
    body: &'static str,
}

const TEXT: Resource = Resource { path: "/plaintext", body: "Hello, World!" };
const JSON: Resource = Resource { path: "/json", body: r#"{"message":"Hello World!"}"# };
const METHOD_TEXT: Resource = Resource { path: "/method/plaintext", body: "Hello World!" };
const METHOD_JSON: Resource =
    Resource { path: "/method/json", body: r#"{"message":"Hello World!"}"# };

const fn handler(name: &'static str, what: &Resource, connections: usize, depth: usize) -> Case {
    Case {
        name,
        needs: what.path,
        work: Work::Call {
            path: what.path,
            protocol: Protocol::Plain,
            codec: MessageCodec::Json,
            sent: "",
            answer: Answer::Is(what.body),
            origin: OriginUse::Absent,
        },
        load: Load::Steady { connections, depth },
    }
}
