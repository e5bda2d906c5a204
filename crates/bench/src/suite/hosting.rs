//! The suite `hosting`: what a call of a hosted process costs, kept, warm, cold, frozen and from a
//! spare, in each language of workers, beside proxies before the same workers and the processes
//! alone.

use std::time::Duration;

use super::{Case, Load, Suite, Work};

/// What workers are written in, as the cases name it.
pub(super) const LANGUAGES: [&str; 5] = ["Python", "Node", "Go", "Rust", ".NET Core 3.1.2"];

pub(super) const HOSTING: Suite = Suite {
    name: "hosting",
    about: "workers in Python, Node, Go, Rust, .NET: kept, HTTP and pipe, warm, cold, frozen, spare; nginx, uWSGI, bare proxies",
    reading: "A worker greets whoever asks, over HTTP (http.server, node:http, net/http, hyper, Kestrel) or over the \
              pipe (the live protocol on an inherited socket, by the file for its language). Warm: eight \
              connections, each with one request under way; alone: one of them, over a Unix socket as the same worker \
              beside it is asked by, with nothing between (*bare process*). Cold: one request at a time, each timed from before it \
              is sent to its full answer, with no worker there when it comes; of 1 GiB where the gateway has \
              so much resident in answers that it keeps; frozen with one that is stopped, spare with one that stands by. *first* is \
              the first request of all. CPU and RSS are the front's without its worker's, PSS is that of all \
              processes; a bare process and uWSGI are front and worker in one. *bare process* is the worker \
              started with the request waiting in its socket: the floor of a cold start. All cores are for everyone; the \
              gateway has threads for half of them, as it has by itself, nginx one worker, the bare proxies one thread.",
    duration: Duration::from_secs(4),
    quick: Duration::from_secs(1),
    cases: &[
        case("Kept answer, Python", "kept", "pipe-cached-python"),
        case("Kept answer, Node", "kept", "pipe-cached-node"),
        case("Kept answer, Go", "kept", "pipe-cached-go"),
        case("Kept answer, Rust", "kept", "pipe-cached-rust"),
        case("Kept answer, .NET Core 3.1.2", "kept", "pipe-cached-dotnet"),
        case("HTTP warm, Python", "http-warm-python", "http-warm-python"),
        case("HTTP warm, Node", "http-warm", "http-warm-node"),
        case("HTTP warm, Go", "http-warm", "http-warm-go"),
        case("HTTP warm, Rust", "http-warm", "http-warm-rust"),
        case("HTTP warm, .NET Core 3.1.2", "http-warm", "http-warm-dotnet"),
        case("HTTP cold, Python", "cold", "http-cold-python"),
        case("HTTP cold, Node", "cold", "http-cold-node"),
        case("HTTP cold, Go", "cold", "http-cold-go"),
        case("HTTP cold, Rust", "cold", "http-cold-rust"),
        case("HTTP cold, .NET Core 3.1.2", "cold", "http-cold-dotnet"),
        case("Pipe warm, Python", "pipe-warm", "pipe-warm-python"),
        case("Pipe warm, Node", "pipe-warm", "pipe-warm-node"),
        case("Pipe warm, Go", "pipe-warm", "pipe-warm-go"),
        case("Pipe warm, Rust", "pipe-warm", "pipe-warm-rust"),
        case("Pipe warm, .NET Core 3.1.2", "pipe-warm", "pipe-warm-dotnet"),
        case("Pipe alone, Python", "alone", "pipe-alone-python"),
        case("Pipe alone, Node", "alone", "pipe-alone-node"),
        case("Pipe alone, Go", "alone", "pipe-alone-go"),
        case("Pipe alone, Rust", "alone", "pipe-alone-rust"),
        case("Pipe alone, .NET Core 3.1.2", "alone", "pipe-alone-dotnet"),
        case("Pipe cold, Python", "cold", "pipe-cold-python"),
        case("Pipe cold, Node", "cold", "pipe-cold-node"),
        case("Pipe cold, Go", "cold", "pipe-cold-go"),
        case("Pipe cold, Rust", "cold", "pipe-cold-rust"),
        case("Pipe cold, .NET Core 3.1.2", "cold", "pipe-cold-dotnet"),
        case("Pipe cold of 1 GiB, Rust", "large", "pipe-large-rust"),
        case("Frozen, Python", "frozen", "pipe-frozen-python"),
        case("Frozen, Node", "frozen", "pipe-frozen-node"),
        case("Frozen, Go", "frozen", "pipe-frozen-go"),
        case("Frozen, Rust", "frozen", "pipe-frozen-rust"),
        case("Frozen, .NET Core 3.1.2", "frozen", "pipe-frozen-dotnet"),
        case("Spare, Python", "spare", "pipe-spare-python"),
        case("Spare, Node", "spare", "pipe-spare-node"),
        case("Spare, Go", "spare", "pipe-spare-go"),
        case("Spare, Rust", "spare", "pipe-spare-rust"),
        case("Spare, .NET Core 3.1.2", "spare", "pipe-spare-dotnet"),
    ],
};

const fn case(name: &'static str, needs: &'static str, word: &'static str) -> Case {
    Case { name, needs, work: Work::Itself(word), load: Load::Itself }
}
