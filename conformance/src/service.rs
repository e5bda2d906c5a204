//! The suite's service: it answers as each request defines.

use std::time::{Duration, Instant};

use buffa::{EnumValue, Message, MessageField, MessageName};
use futures_util::stream::unfold;
use tidewire::{Code, Context, Detail, Error, Headers, Reply, Result, Stream};

use crate::headers::{header_map, headers};
use crate::proto::connectrpc::conformance::v1::__buffa::oneof::unary_response_definition::Response;
use crate::proto::connectrpc::conformance::v1::conformance_payload::RequestInfo;
use crate::proto::connectrpc::conformance::v1::{self as suite, *};

type Any = buffa_types::google::protobuf::Any;

/// The service under test.
pub(crate) struct Conformance;

impl ConformanceService for Conformance {
    async fn unary(&self, context: Context, request: UnaryRequest) -> Result<Reply<UnaryResponse>> {
        let info = request_info(&context, vec![any(&request)]);
        let reply = unary(request.response_definition.into_option(), info).await?;
        Ok(reply.map(|payload| UnaryResponse { payload, ..Default::default() }))
    }

    async fn idempotent_unary(
        &self,
        context: Context,
        request: IdempotentUnaryRequest,
    ) -> Result<Reply<IdempotentUnaryResponse>> {
        let info = request_info(&context, vec![any(&request)]);
        let reply = unary(request.response_definition.into_option(), info).await?;
        Ok(reply.map(|payload| IdempotentUnaryResponse { payload, ..Default::default() }))
    }

    async fn server_stream(
        &self,
        context: Context,
        request: ServerStreamRequest,
    ) -> Result<Reply<Stream<ServerStreamResponse>>> {
        let info = request_info(&context, vec![any(&request)]);
        let definition = request.response_definition.into_option().unwrap_or_default();
        let (headers, trailers) = metadata(&definition);
        let script = Script { info: Some(info), ..Script::new(definition) };
        let replies =
            Stream::new(unfold(script, async |mut script| Some((script.next().await?, script))));
        let replies = replies
            .map(|payload| Ok(ServerStreamResponse { payload: payload?, ..Default::default() }));
        Ok(Reply::new(replies).with_headers(headers).with_trailers(trailers))
    }

    async fn client_stream(
        &self,
        context: Context,
        mut requests: Stream<ClientStreamRequest>,
    ) -> Result<Reply<ClientStreamResponse>> {
        let mut definition = None;
        let mut seen = Vec::new();
        while let Some(request) = requests.next().await? {
            let is_first = seen.is_empty();
            seen.push(any(&request));
            if is_first {
                definition = request.response_definition.into_option();
            }
        }
        let reply = unary(definition, request_info(&context, seen)).await?;
        Ok(reply.map(|payload| ClientStreamResponse { payload, ..Default::default() }))
    }

    async fn bidi_stream(
        &self,
        context: Context,
        mut requests: Stream<BidiStreamRequest>,
    ) -> Result<Reply<Stream<BidiStreamResponse>>> {
        let Some(first) = requests.next().await? else {
            return Ok(Stream::from_values([]).into());
        };
        let info = request_info(&context, vec![any(&first)]);
        let definition = first.response_definition.into_option().unwrap_or_default();
        let (headers, trailers) = metadata(&definition);
        let script = Script { info: Some(info), ..Script::new(definition) };
        let conversation =
            Conversation { script, requests: Some(requests), full_duplex: first.full_duplex };
        let replies = Stream::new(unfold(conversation, async |mut conversation| {
            Some((conversation.next().await.transpose()?, conversation))
        }));
        let replies = replies
            .map(|payload| Ok(BidiStreamResponse { payload: payload?, ..Default::default() }));
        Ok(Reply::new(replies).with_headers(headers).with_trailers(trailers))
    }

    async fn unimplemented(
        &self,
        _: Context,
        _: UnimplementedRequest,
    ) -> Result<Reply<UnimplementedResponse>> {
        Err(Error::unimplemented("the suite wants this method to be unimplemented"))
    }
}

type Payload = MessageField<ConformancePayload, buffa::Inline<ConformancePayload>>;

/// The one reply, or the error, that a request defines.
async fn unary(
    definition: Option<UnaryResponseDefinition>,
    info: RequestInfo,
) -> Result<Reply<Payload>> {
    let definition = definition.unwrap_or_default();
    let headers = header_map(&definition.response_headers);
    let trailers = header_map(&definition.response_trailers);
    delay(definition.response_delay_ms).await;
    let data = match definition.response {
        Some(Response::Error(error)) => {
            let mut error = defined_error(&error, Some(&info));
            *error.headers_mut() = headers.into();
            *error.trailers_mut() = trailers.into();
            return Err(error);
        }
        Some(Response::ResponseData(data)) => data,
        None => Vec::new(),
    };
    Ok(Reply::new(payload(data, Some(info))).with_headers(headers).with_trailers(trailers))
}

/// The replies that a request defines, one after the other, and the error at their end.
struct Script {
    data: std::vec::IntoIter<Vec<u8>>,
    error: Option<suite::Error>,
    delay_ms: u32,
    /// What the next reply, or the error if none was sent, says of the requests.
    info: Option<RequestInfo>,
    sent_any: bool,
}

impl Script {
    fn new(definition: StreamResponseDefinition) -> Self {
        Self {
            error: definition.error.into_option(),
            delay_ms: definition.response_delay_ms,
            data: definition.response_data.into_iter(),
            info: None,
            sent_any: false,
        }
    }

    async fn next(&mut self) -> Option<Result<Payload>> {
        if let Some(data) = self.data.next() {
            delay(self.delay_ms).await;
            self.sent_any = true;
            return Some(Ok(payload(data, self.info.take())));
        }
        let info = self.info.take().filter(|_| !self.sent_any);
        self.error.take().map(|error| Err(defined_error(&error, info.as_ref())))
    }
}

/// A script that is played against a stream of requests.
struct Conversation {
    script: Script,
    /// `None` once all were read or no more are wanted.
    requests: Option<Stream<BidiStreamRequest>>,
    full_duplex: bool,
}

impl Conversation {
    async fn next(&mut self) -> Result<Option<Payload>> {
        if !self.full_duplex {
            self.read_all().await?;
        } else if self.script.sent_any && self.requests.is_some() {
            self.read_one().await?;
        }
        self.script.next().await.transpose()
    }

    async fn read_all(&mut self) -> Result<()> {
        let Some(mut requests) = self.requests.take() else { return Ok(()) };
        while let Some(request) = requests.next().await? {
            if let Some(info) = &mut self.script.info {
                info.requests.push(any(&request));
            }
        }
        Ok(())
    }

    async fn read_one(&mut self) -> Result<()> {
        let Some(requests) = &mut self.requests else { return Ok(()) };
        match requests.next().await? {
            Some(request) => {
                let requests = vec![any(&request)];
                self.script.info = Some(RequestInfo { requests, ..Default::default() });
            }
            None => self.requests = None,
        }
        Ok(())
    }
}

async fn delay(milliseconds: u32) {
    if milliseconds > 0 {
        tokio::time::sleep(Duration::from_millis(milliseconds.into())).await;
    }
}

fn payload(data: Vec<u8>, request_info: Option<RequestInfo>) -> Payload {
    let request_info = request_info.into();
    MessageField::some(ConformancePayload { data, request_info, ..Default::default() })
}

fn request_info(context: &Context, requests: Vec<Any>) -> RequestInfo {
    // First, since an answer that may be given to others is computed in the time that all have.
    let request_headers = headers(context.headers());
    let remaining = context.remaining(Instant::now());
    RequestInfo {
        request_headers,
        timeout_ms: remaining.and_then(|left| i64::try_from(left.as_millis()).ok()),
        requests,
        ..Default::default()
    }
}

fn defined_error(error: &suite::Error, info: Option<&RequestInfo>) -> Error {
    let number = match error.code {
        EnumValue::Known(code) => code as u32,
        EnumValue::Unknown(_) => 0,
    };
    let code = Code::from_number(number).unwrap_or(Code::Unknown);
    let mut out = Error::new(code, error.message.clone().unwrap_or_default());
    for detail in &error.details {
        let type_name = detail.type_url.rsplit('/').next().unwrap_or_default().to_owned();
        out = out.with_detail(Detail { type_name, value: detail.value.clone() });
    }
    match info {
        Some(info) => out.with_detail(Detail::new(info)),
        None => out,
    }
}

fn any<M: Message + MessageName>(message: &M) -> Any {
    Any::pack(message, M::TYPE_URL)
}

fn metadata(definition: &StreamResponseDefinition) -> (Headers, Headers) {
    (header_map(&definition.response_headers), header_map(&definition.response_trailers))
}
