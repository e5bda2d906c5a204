//! The client that the Connect conformance suite tests: our client, called with encoded messages.
//!
//! The suite writes length-prefixed `ClientCompatRequest`s to standard input. Each is one call,
//! against a server that the suite runs; what came back is written as a `ClientCompatResponse`.
//! Several run at once.

mod headers;
mod script;

/// The suite's messages and services.
mod proto {
    ::tidewire::include_protos!();
}

use std::io::{Read, Write};

use anyhow::Context;
use buffa::{EnumValue, Message};
use tidewire::Client;
use tidewire::client::{ClientLimits, Compression, Encoding, HttpVersion, Protocol, Tls};
use tokio::task::JoinSet;

use self::proto::connectrpc::conformance::v1::__buffa::oneof::client_compat_response::Result as Outcome;
use self::proto::connectrpc::conformance::v1::{
    self as suite, ClientCompatRequest, ClientCompatResponse, ClientErrorResult,
};

/// How many calls run at once.
const AT_ONCE: usize = 16;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (give, mut requests) = tokio::sync::mpsc::channel(AT_ONCE);
    let reader = tokio::task::spawn_blocking(move || -> anyhow::Result<()> {
        while let Some(message) = read_message()? {
            if give.blocking_send(ClientCompatRequest::decode_from_slice(&message)?).is_err() {
                break;
            }
        }
        Ok(())
    });
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            request = requests.recv(), if running.len() < AT_ONCE => match request {
                Some(request) => drop(running.spawn(answer(request))),
                None => break,
            },
            Some(response) = running.join_next() => write_message(&response?)?,
        }
    }
    while let Some(response) = running.join_next().await {
        write_message(&response?)?;
    }
    reader.await?
}

async fn answer(request: ClientCompatRequest) -> Vec<u8> {
    let test_name = request.test_name.clone();
    let result = match client(&request) {
        Ok(client) => script::run(&client, request).await,
        Err(error) => Err(error),
    };
    let result = match result {
        Ok(response) => Outcome::Response(Box::new(response)),
        Err(error) => Outcome::Error(Box::new(ClientErrorResult {
            message: format!("{error:#}"),
            ..Default::default()
        })),
    };
    ClientCompatResponse { test_name, result: Some(result), ..Default::default() }.encode_to_vec()
}

/// The client that a request asks for.
fn client(request: &ClientCompatRequest) -> anyhow::Result<Client> {
    let is_tls = !request.server_tls_cert.is_empty();
    let scheme = if is_tls { "https" } else { "http" };
    let mut limits = ClientLimits::default();
    if request.message_receive_limit > 0 {
        limits.message_bytes_max = request.message_receive_limit as usize;
    }
    let mut builder = Client::builder(format!("{scheme}://{}:{}", request.host, request.port))
        .limits(limits)
        .protocol(match request.protocol {
            EnumValue::Known(suite::Protocol::PROTOCOL_GRPC) => Protocol::Grpc,
            EnumValue::Known(suite::Protocol::PROTOCOL_GRPC_WEB) => Protocol::GrpcWeb,
            _ => Protocol::Connect,
        })
        .http(match request.http_version {
            EnumValue::Known(suite::HTTPVersion::HTTP_VERSION_1) => HttpVersion::Http1,
            EnumValue::Known(suite::HTTPVersion::HTTP_VERSION_2) => HttpVersion::Http2,
            _ => anyhow::bail!("HTTP version {:?}", request.http_version),
        })
        .compression(match request.compression {
            EnumValue::Known(suite::Compression::COMPRESSION_GZIP) => {
                Compression::requests(Encoding::Gzip).from_bytes(0)
            }
            EnumValue::Known(suite::Compression::COMPRESSION_ZSTD) => {
                Compression::requests(Encoding::Zstd).from_bytes(0)
            }
            _ => Compression::default(),
        });
    if request.use_get_http_method {
        builder = builder.queries_by_get();
    }
    if is_tls {
        let mut tls = Tls::new().authorities(request.server_tls_cert.clone());
        if let Some(own) = request.client_tls_creds.as_option() {
            tls = tls.identity(own.cert.clone(), own.key.clone());
        }
        builder = builder.tls(tls);
    }
    builder.build().context("the client cannot be built")
}

fn read_message() -> anyhow::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    if let Err(error) = std::io::stdin().read_exact(&mut length) {
        if error.kind() == std::io::ErrorKind::UnexpectedEof {
            return Ok(None);
        }
        return Err(error.into());
    }
    let mut message = vec![0; u32::from_be_bytes(length) as usize];
    std::io::stdin().read_exact(&mut message)?;
    Ok(Some(message))
}

fn write_message(message: &[u8]) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&u32::try_from(message.len())?.to_be_bytes())?;
    stdout.write_all(message)?;
    Ok(stdout.flush()?)
}
