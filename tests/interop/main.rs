//! `grpc.testing.TestService`, which gRPC's own interop clients are run against:
//! `scripts/proof.sh interop`.
//!
//! It prints its address first, and serves until it is stopped.
#![allow(clippy::print_stdout, reason = "its address goes to standard output")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use crate::proto::grpc::testing::*;
use tidewire::http::header::HeaderName;
use tidewire::{Code, Context, Error, Reply, Result, Server, Stream};

#[allow(missing_docs, reason = "generated")]
mod proto {
    ::tidewire::include_protos!();
}

struct Interop;

impl TestService for Interop {
    async fn empty_call(&self, _: Context, _: Empty) -> Result<Reply<Empty>> {
        Ok(Empty::default().into())
    }

    async fn unary_call(
        &self,
        context: Context,
        request: SimpleRequest,
    ) -> Result<Reply<SimpleResponse>> {
        wanted(request.response_status.into_option())?;
        let payload = zeros(request.response_size)?.into();
        Ok(echoed(&context, SimpleResponse { payload, ..Default::default() }))
    }

    async fn streaming_output_call(
        &self,
        context: Context,
        request: StreamingOutputCallRequest,
    ) -> Result<Reply<Stream<StreamingOutputCallResponse>>> {
        let replies = Replies { wanted: VecDeque::from([request]), ..Replies::default() };
        Ok(echoed(&context, replies.into_stream()))
    }

    async fn streaming_input_call(
        &self,
        _: Context,
        mut requests: Stream<StreamingInputCallRequest>,
    ) -> Result<Reply<StreamingInputCallResponse>> {
        let mut bytes = 0;
        while let Some(request) = requests.next().await? {
            bytes += request.payload.into_option().map_or(0, |payload| payload.body.len());
        }
        let aggregated_payload_size = i32::try_from(bytes)
            .map_err(|_| Error::out_of_range("the payloads have more than 2 GiB"))?;
        Ok(StreamingInputCallResponse { aggregated_payload_size, ..Default::default() }.into())
    }

    async fn full_duplex_call(
        &self,
        context: Context,
        requests: Stream<StreamingOutputCallRequest>,
    ) -> Result<Reply<Stream<StreamingOutputCallResponse>>> {
        let replies = Replies { requests: Some(requests), ..Replies::default() };
        Ok(echoed(&context, replies.into_stream()))
    }

    async fn unimplemented_call(&self, _: Context, _: Empty) -> Result<Reply<Empty>> {
        Err(Error::unimplemented("the suite wants this method to be unimplemented"))
    }
}

/// The replies that requests ask for, in their order.
#[derive(Default)]
struct Replies {
    requests: Option<Stream<StreamingOutputCallRequest>>,
    wanted: VecDeque<StreamingOutputCallRequest>,
    parameters: VecDeque<ResponseParameters>,
}

impl Replies {
    fn into_stream(self) -> Stream<StreamingOutputCallResponse> {
        Stream::unfold(self, |mut replies| async move {
            replies.next().await.transpose().map(|reply| (reply, replies))
        })
    }

    async fn next(&mut self) -> Result<Option<StreamingOutputCallResponse>> {
        loop {
            if let Some(parameters) = self.parameters.pop_front() {
                let interval = u64::try_from(parameters.interval_us).unwrap_or(0);
                tokio::time::sleep(Duration::from_micros(interval)).await; // tidy: allow-sleep the client says how long
                let payload = zeros(parameters.size)?.into();
                return Ok(Some(StreamingOutputCallResponse { payload, ..Default::default() }));
            }
            let next = match (self.wanted.pop_front(), &mut self.requests) {
                (None, Some(requests)) => requests.next().await?,
                (wanted, _) => wanted,
            };
            let Some(request) = next else { return Ok(None) };
            wanted(request.response_status.into_option())?;
            self.parameters = request.response_parameters.into();
        }
    }
}

/// The error that a request asks for.
fn wanted(status: Option<EchoStatus>) -> Result<()> {
    match status.filter(|status| status.code != 0) {
        Some(EchoStatus { code, message, .. }) => {
            let code = u32::try_from(code).ok().and_then(Code::from_number);
            Err(Error::new(code.unwrap_or(Code::Unknown), message))
        }
        None => Ok(()),
    }
}

fn zeros(size: i32) -> Result<Payload> {
    let size = usize::try_from(size).map_err(|_| {
        Error::invalid_argument("a reply has no size below zero; ask for 0 or more")
    })?;
    Ok(Payload { body: vec![0; size], ..Default::default() })
}

/// The reply with the metadata that the suite wants back.
fn echoed<T>(context: &Context, body: T) -> Reply<T> {
    let mut reply = Reply::new(body);
    if let Some(value) = context.header(&INITIAL) {
        reply.headers.insert(INITIAL, value.clone());
    }
    if let Some(value) = context.header(&TRAILING) {
        reply.trailers.insert(TRAILING, value.clone());
    }
    reply
}

const INITIAL: HeaderName = HeaderName::from_static("x-grpc-test-echo-initial");
const TRAILING: HeaderName = HeaderName::from_static("x-grpc-test-echo-trailing-bin");

#[tokio::main]
async fn main() -> tidewire::Exit {
    let server = Server::builder()
        .listen(SocketAddr::from(([127, 0, 0, 1], 0)))
        .service(TestServiceServer::new(Interop));
    let server = server.start().await?;
    let address = server.addresses()[0].clone();
    let stopped = server.until_stopped();
    println!("{address}");
    stopped.await?;
    Ok(())
}
