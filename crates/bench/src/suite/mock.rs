//! The suite `mock`: the protocols of a mock, which answers by a rule with a literal, beside
//! servers that answer the same message because somebody wrote them; at 1, 10, 50 and 100 calls
//! under way.
//!
//! Mock servers publish their figures in their own tables; `published_tables.rs` makes these from a
//! run.

use std::time::Duration;

use tidewire_loadgen::{MessageCodec, Protocol};

use super::{Answer, Case, Load, OriginUse, Suite, Work};

pub(super) const MOCK: Suite = Suite {
    name: "mock",
    about: "a mock with a literal rule beside static servers: Connect (JSON, protobuf), gRPC; 1, 10, 50, 100 calls under way",
    reading: "`tidewire mock` as shipped (call log on, files watched) answers by the second of four rules; \
              connect-go, grpc-go and connect-es answer the same message from code. Connect over as many \
              HTTP/1.1 connections as calls are under way, gRPC over as many streams of one HTTP/2 \
              connection. One server core; RSS is that after the measurement. Other mock servers are in no \
              package registry, so they are not in this run.",
    duration: Duration::from_secs(4),
    quick: Duration::from_secs(1),
    cases: &[
        CONNECT_JSON.of("Connect (JSON), 1 under way", 1),
        CONNECT_JSON.of("Connect (JSON), 10 under way", 10),
        CONNECT_JSON.of("Connect (JSON), 50 under way", 50),
        CONNECT_JSON.of("Connect (JSON), 100 under way", 100),
        CONNECT_PROTO.of("Connect (binary), 1 under way", 1),
        CONNECT_PROTO.of("Connect (binary), 10 under way", 10),
        CONNECT_PROTO.of("Connect (binary), 50 under way", 50),
        CONNECT_PROTO.of("Connect (binary), 100 under way", 100),
        GRPC.of("gRPC, 1 under way", 1),
        GRPC.of("gRPC, 10 under way", 10),
        GRPC.of("gRPC, 50 under way", 50),
        GRPC.of("gRPC, 100 under way", 100),
    ],
};

/// A protocol, as peers' `lacks` call it, and how messages are encoded over it.
struct ProtocolCase(&'static str, Protocol, MessageCodec);

const CONNECT_JSON: ProtocolCase = ProtocolCase("connect", Protocol::Connect, MessageCodec::Json);
const CONNECT_PROTO: ProtocolCase = ProtocolCase("connect", Protocol::Connect, MessageCodec::Proto);
const GRPC: ProtocolCase = ProtocolCase("grpc", Protocol::Grpc, MessageCodec::Proto);

impl ProtocolCase {
    const fn of(self, name: &'static str, under_way: usize) -> Case {
        let Self(needs, protocol, codec) = self;
        let streams = matches!(protocol, Protocol::Grpc);
        let (connections, depth) = if streams { (1, under_way) } else { (under_way, 1) };
        let sent = match codec {
            MessageCodec::Json => r#"{"name":"User1"}"#,
            // `hello.v1.Hello` with that name (1).
            MessageCodec::Proto => "\n\u{5}User1",
        };
        let path = "/hello.v1.Greeter/SayHello";
        let answer = Answer::Has(&["Hello from a mock"]);
        Case {
            name,
            needs,
            work: Work::Call { path, protocol, codec, sent, answer, origin: OriginUse::Absent },
            load: Load::Steady { connections, depth },
        }
    }
}
