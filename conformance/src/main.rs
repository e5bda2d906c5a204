//! The server that the Connect conformance suite tests: our generated service on our server.
//!
//! The suite starts it, writes a length-prefixed `ServerCompatRequest` to standard input, reads a
//! `ServerCompatResponse` from standard output, makes its calls and ends it by a signal. With
//! `--memo` answers of queries are kept, which nobody is to notice. With `--mock PROTOS RULES` a
//! mock plays the service, by rules and nothing else.

mod headers;
mod service;

/// The suite's messages and services.
mod proto {
    ::tidewire::include_protos!();
}

use std::io::{Read, Write};

use anyhow::Context;
use buffa::Message;
use tidewire::memo::Graph;
use tidewire::mock::{MockFolders, serve};
use tidewire::server::Tls;
use tidewire::{Address, Builder, Limits, ReplyCache, Server};

use self::proto::connectrpc::conformance::v1::{
    ConformanceServiceServer, ServerCompatRequest, ServerCompatResponse,
};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let request = ServerCompatRequest::decode_from_slice(&read_message()?)?;
    let mut limits = Limits::default();
    if request.message_receive_limit > 0 {
        limits.message_bytes_max = request.message_receive_limit as usize;
    }
    let mut builder =
        Server::builder().limits(limits).listen(Address::Tcp(([127, 0, 0, 1], 0).into()));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    builder = match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        ["--mock", protos, rules] => mocked(builder, protos, rules)?,
        _ => builder.service(ConformanceServiceServer::new(service::Conformance)),
    };
    if arguments.iter().any(|argument| argument == "--memo") {
        builder = builder.memo(ReplyCache::new(&Graph::global()));
    }
    let mut pem_cert = Vec::new();
    if request.use_tls {
        let creds = request.server_creds.as_option().context("TLS without credentials")?;
        let tls = if request.client_tls_cert.is_empty() {
            Tls::new(&creds.cert, &creds.key)?
        } else {
            Tls::with_client_authorities(&creds.cert, &creds.key, &request.client_tls_cert)?
        };
        builder = builder.tls(tls);
        pem_cert = creds.cert.clone();
    }
    let running = builder.start().await?;
    let Some(Address::Tcp(address)) = running.addresses().first() else {
        anyhow::bail!("the server has no TCP address");
    };
    let response = ServerCompatResponse {
        host: address.ip().to_string(),
        port: address.port().into(),
        pem_cert,
        ..Default::default()
    };
    write_message(&response.encode_to_vec())?;
    // The suite ends it by a signal.
    running.until_stopped().await?;
    Ok(())
}

/// The service as rules say it.
fn mocked(builder: Builder, protos: &str, rules: &str) -> anyhow::Result<Builder> {
    let folders = MockFolders::new(protos).rules(rules);
    let (mock, findings) = folders.mock(folders.load()).build();
    match findings.iter().find(|finding| finding.is_error) {
        Some(finding) => anyhow::bail!("{finding}"),
        None => Ok(serve(builder, &mock)),
    }
}

fn read_message() -> anyhow::Result<Vec<u8>> {
    let mut length = [0; 4];
    std::io::stdin().read_exact(&mut length)?;
    let mut message = vec![0; u32::from_be_bytes(length) as usize];
    std::io::stdin().read_exact(&mut message)?;
    Ok(message)
}

fn write_message(message: &[u8]) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&u32::try_from(message.len())?.to_be_bytes())?;
    stdout.write_all(message)?;
    Ok(stdout.flush()?)
}
