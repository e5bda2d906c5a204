//! The suite `rpc`: small calls and streams between two processes, over every transport of Tidewire
//! and by what a reader would take instead; from a replica; and how long word of a change takes
//! over two hops.
//!
//! Each peer brings its client, since what a call costs is as much the client's as the server's.

use std::time::Duration;

use super::{Case, Load, Suite, Work};

pub(super) const RPC: Suite = Suite {
    name: "rpc",
    about: "typed calls and streams between two processes: live, Connect, replicas; tonic, connectrpc, grpc-go, tarpc, Redis",
    reading: "Two numbers and their sum, a user, a greeting of 44 bytes that comes back; streams of items of 1, 100 \
              and 10,000 bytes, ten at once. Client and server are generated code in protobuf unless the row says \
              otherwise, their own processes, with one core each and one connection (over HTTP/1.1 one for each \
              call under way); every answer is looked at. *CPU* is the server's for each call or item, warm-up \
              included; of what needs no server, the client's own. Replicas and Redis's client-side caching answer \
              in the client what was asked for once, of 1,000 keys; calls in process and of replicas are too short \
              to be timed one by one. Redis has users only, as text. *Beside*: one SayHello after the other, while a method \
              that keeps the server's core for 5 ms is called again and again on the same connection, whose CPU it is. *Two hops*: \
              from a write until its value is in a memo of the client, which has it as a replica of a relay's \
              replica; the relay is on the client's core.",
    duration: Duration::from_secs(4),
    quick: Duration::from_secs(1),
    cases: &[
        case("Sum, 1 in flight", "sum-1"),
        case("Sum, 1,000 in flight", "sum-1000"),
        case("GetUser, 1 in flight", "user-1"),
        case("GetUser, 1,000 in flight", "user-1000"),
        case("SayHello, 1 in flight", "hello-1"),
        case("SayHello, 1,000 in flight", "hello-1000"),
        case("Stream1", "stream-1"),
        case("Stream100", "stream-100"),
        case("Stream10K", "stream-10k"),
        case("SayHello beside 5 ms", "beside"),
        case("A change, two hops away", "hops"),
    ],
};

const fn case(name: &'static str, word: &'static str) -> Case {
    Case { name, needs: word, work: Work::Itself(word), load: Load::Apart }
}
