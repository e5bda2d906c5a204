//! The server under attack: its own process, so that its memory is its own.

use std::net::SocketAddr;
use std::path::Path;

use tidewire_tests::http2::{END_STREAM, HEADERS, frame, hello, next, request};
use tidewire_tests::program::root;
use tidewire_tests::served::Served;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// A running server.
pub(crate) struct Victim(Served);

/// How much memory is resident, in KiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) now: u64,
    pub(crate) peak: u64,
}

/// The path of a method that answers with its request.
pub(crate) const ECHO: &str = "/tidewire.test.v1.BehaviourService/Echo";
/// One that takes a stream, and answers once.
pub(crate) const SUM: &str = "/tidewire.test.v1.BehaviourService/Sum";
/// One that takes a stream; of a mock it answers with a megabyte in a thousand messages.
pub(crate) const CHAT: &str = "/tidewire.test.v1.BehaviourService/Chat";

/// What a server answers with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Replies {
    /// With the fields of the request, by `tidewire serve`.
    OfRequests,
    /// By the rules in `tests/attack/rules`, by `tidewire mock`.
    ByRules,
}

impl Victim {
    /// Starts a server of the test service.
    pub(crate) async fn start(program: &Path, replies: Replies, settings: &[&str]) -> Self {
        let proto = root().join("tests/proto").display().to_string();
        let rules = root().join("tests/attack/rules").display().to_string();
        let mut arguments = match replies {
            Replies::OfRequests => vec!["serve", &proto],
            Replies::ByRules => vec!["mock", &proto, "--rules", &rules],
        };
        arguments.extend(["--listen", "127.0.0.1:0"]);
        for setting in settings {
            arguments.extend(["--set", setting]);
        }
        Self(Served::start(program, &arguments, 1).await)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.addresses[0]
    }

    /// What the system says of its memory; nothing once it is gone.
    pub(crate) fn memory(&self) -> Memory {
        let status = std::fs::read_to_string(self.file("status")).unwrap_or_default();
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        Memory { now: value("VmRSS:"), peak: value("VmHWM:") }
    }

    /// Begins to look for a peak.
    pub(crate) fn forget_peak(&self) {
        std::fs::write(self.file("clear_refs"), "5").expect("the process is ours");
    }

    fn file(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.0.id())
    }

    /// Calls it over gRPC.
    pub(crate) async fn answers(&self) -> Result<(), String> {
        let wrong = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect(self.address()).await.map_err(wrong)?;
        let call = [hello(&[]), request(1, ECHO, "application/grpc", &[0; 5])].concat();
        stream.write_all(&call).await.map_err(wrong)?;
        while let Some(found) = next(&mut stream).await.map_err(wrong)? {
            if found.kind == HEADERS && found.flags & END_STREAM != 0 {
                return Ok(());
            }
        }
        let _ = stream.write_all(&frame(7, 0, 0, &[0; 8])).await;
        Err("a call was not answered".into())
    }
}
