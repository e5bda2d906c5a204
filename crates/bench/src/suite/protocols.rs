//! The suite `protocols`: one small message answered with itself by a generated service, over every
//! standard protocol, at 1, 10, 50 and 100 calls under way.

use std::time::Duration;

use tidewire_loadgen::{MessageCodec, Protocol};

use super::{Answer, Case, Load, OriginUse, Suite, Work};

pub(super) const PROTOCOLS: Suite = Suite {
    name: "protocols",
    about: "a generated service over Connect (JSON, protobuf), gRPC and gRPC-Web: 1, 10, 50, 100 calls under way",
    reading: "A message with a name and a number is answered with itself by a generated service. Connect and \
              gRPC-Web over as many HTTP/1.1 connections as calls are under way, gRPC over as many streams \
              of one HTTP/2 connection. One server core; RSS is that after the measurement.",
    duration: Duration::from_secs(4),
    quick: Duration::from_secs(1),
    cases: &[
        CONNECT_JSON.of("Connect JSON, 1 under way", 1),
        CONNECT_JSON.of("Connect JSON, 10 under way", 10),
        CONNECT_JSON.of("Connect JSON, 50 under way", 50),
        CONNECT_JSON.of("Connect JSON, 100 under way", 100),
        CONNECT_PROTO.of("Connect protobuf, 1 under way", 1),
        CONNECT_PROTO.of("Connect protobuf, 10 under way", 10),
        CONNECT_PROTO.of("Connect protobuf, 50 under way", 50),
        CONNECT_PROTO.of("Connect protobuf, 100 under way", 100),
        GRPC.of("gRPC, 1 under way", 1),
        GRPC.of("gRPC, 10 under way", 10),
        GRPC.of("gRPC, 50 under way", 50),
        GRPC.of("gRPC, 100 under way", 100),
        GRPC_WEB.of("gRPC-Web, 1 under way", 1),
        GRPC_WEB.of("gRPC-Web, 10 under way", 10),
        GRPC_WEB.of("gRPC-Web, 50 under way", 50),
        GRPC_WEB.of("gRPC-Web, 100 under way", 100),
    ],
};

/// A protocol, as peers' `lacks` call it, and how messages are encoded over it.
struct ProtocolCase(&'static str, Protocol, MessageCodec);

const CONNECT_JSON: ProtocolCase = ProtocolCase("connect", Protocol::Connect, MessageCodec::Json);
const CONNECT_PROTO: ProtocolCase = ProtocolCase("connect", Protocol::Connect, MessageCodec::Proto);
const GRPC: ProtocolCase = ProtocolCase("grpc", Protocol::Grpc, MessageCodec::Proto);
const GRPC_WEB: ProtocolCase = ProtocolCase("grpc-web", Protocol::GrpcWeb, MessageCodec::Proto);

/// `hello.v1.Hello` with a name (1) and a number (5).
const JSON: &str = r#"{"name":"Ada","n":42}"#;
const PROTO: &str = "\n\u{3}Ada(*";

impl ProtocolCase {
    const fn of(self, name: &'static str, under_way: usize) -> Case {
        let Self(needs, protocol, codec) = self;
        let (message, parts): (_, &'static [&'static str]) = match codec {
            MessageCodec::Json => (JSON, &["\"Ada\"", "42"]),
            MessageCodec::Proto => (PROTO, &[PROTO]),
        };
        let streams = matches!(protocol, Protocol::Grpc);
        let (connections, depth) = if streams { (1, under_way) } else { (under_way, 1) };
        Case {
            name,
            needs,
            work: Work::Call {
                path: "/hello.v1.Greeter/SayHello",
                protocol,
                codec,
                sent: message,
                answer: Answer::Has(parts),
                origin: OriginUse::Absent,
            },
            load: Load::Steady { connections, depth },
        }
    }
}
