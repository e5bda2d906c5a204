//! One call of the conformance suite, played as its request says: delays, cancellation, duplex.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use buffa::{EnumValue, Message, MessageField, MessageName};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::unfold;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidewire::service::ThinHeaders;
use tidewire::service::{Frame, Spec, StreamKind};
use tidewire::{Body, Call, Client, Codec, Context, Error, Service};
use tokio::sync::mpsc;

use crate::headers::{header_map, headers};
use crate::proto::connectrpc::conformance::v1::__buffa::oneof::client_compat_request::cancel::CancelTiming;
use crate::proto::connectrpc::conformance::v1::conformance_service as methods;
use crate::proto::connectrpc::conformance::v1::{self as suite, *};

/// Makes the call and tells what came back.
pub(crate) async fn run(
    client: &Client,
    request: ClientCompatRequest,
) -> Result<ClientResponseResult> {
    let service =
        request.service.as_deref().unwrap_or("connectrpc.conformance.v1.ConformanceService");
    if service != "connectrpc.conformance.v1.ConformanceService" {
        bail!("no service {service}");
    }
    // Makes the messages known that an `Any` in JSON can hold.
    drop(ConformanceServiceClient::new(client.channel()));
    match request.method.as_deref().unwrap_or_default() {
        "Unary" => play::<UnaryRequest, UnaryResponse>(client, &methods::UNARY, request).await,
        "IdempotentUnary" => {
            let spec = &methods::IDEMPOTENT_UNARY;
            play::<IdempotentUnaryRequest, IdempotentUnaryResponse>(client, spec, request).await
        }
        "ServerStream" => {
            let spec = &methods::SERVER_STREAM;
            play::<ServerStreamRequest, ServerStreamResponse>(client, spec, request).await
        }
        "ClientStream" => {
            let spec = &methods::CLIENT_STREAM;
            play::<ClientStreamRequest, ClientStreamResponse>(client, spec, request).await
        }
        "BidiStream" => {
            let spec = &methods::BIDI_STREAM;
            play::<BidiStreamRequest, BidiStreamResponse>(client, spec, request).await
        }
        "Unimplemented" => {
            let spec = &methods::UNIMPLEMENTED;
            play::<UnimplementedRequest, UnimplementedResponse>(client, spec, request).await
        }
        other => bail!("no method {other}"),
    }
}

/// A reply of the suite's service, which holds at most one payload.
trait Payload: Message + MessageName + Serialize + DeserializeOwned {
    fn payload(self) -> Option<ConformancePayload>;
}

macro_rules! payload {
    ($($name:ident)*) => {$(
        impl Payload for $name {
            fn payload(self) -> Option<ConformancePayload> {
                Some(self.payload.into_option().unwrap_or_default())
            }
        }
    )*};
}

payload!(UnaryResponse IdempotentUnaryResponse ServerStreamResponse ClientStreamResponse BidiStreamResponse);

impl Payload for UnimplementedResponse {
    fn payload(self) -> Option<ConformancePayload> {
        None
    }
}

/// When a call is cancelled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cancel {
    Never,
    InPlaceOfClose,
    AfterClose(Duration),
    AfterReplies(usize),
}

/// What came back so far.
#[derive(Default)]
struct PartialReply {
    headers: ThinHeaders,
    trailers: ThinHeaders,
    payloads: Vec<ConformancePayload>,
}

async fn play<Req, Res>(
    client: &Client,
    spec: &'static Spec,
    request: ClientCompatRequest,
) -> Result<ClientResponseResult>
where
    Req: Message + MessageName + Serialize + DeserializeOwned,
    Res: Payload,
{
    let codec = match request.codec {
        EnumValue::Known(suite::Codec::CODEC_JSON) => Codec::Json,
        _ => Codec::Proto,
    };
    let messages: Result<Vec<_>> = request
        .request_messages
        .iter()
        .map(|any| Ok(codec.encode(&Req::decode_from_slice(&any.value)?)?))
        .collect();
    let messages = messages?;
    let count = messages.len();
    let cancel = cancel(&request);
    let delay = Duration::from_millis(request.request_delay_ms.into());
    let full_duplex = StreamType::STREAM_TYPE_FULL_DUPLEX_BIDI_STREAM;
    let is_duplex = request.stream_type == EnumValue::Known(full_duplex);

    let taken = Arc::new(AtomicUsize::new(0));
    let (give, take) = mpsc::channel(1);
    let body = if spec.kind.client_streams() {
        counted(take, Arc::clone(&taken))
    } else {
        taken.store(count, Ordering::SeqCst);
        let [message] = &messages[..] else { bail!("{count} requests, one expected") };
        Body::Full(message.clone())
    };
    let mut context = Context::new(header_map(&request.request_headers));
    if let Some(timeout) = request.timeout_ms {
        context = context.with_deadline(Instant::now() + Duration::from_millis(timeout.into()));
    }
    let mut seen = PartialReply::default();
    let (replied, mut replies) = mpsc::channel(1);
    let sending = async {
        if spec.kind.client_streams() {
            for message in messages {
                tokio::time::sleep(delay).await;
                if give.send(message).await.is_err()
                    || (is_duplex && replies.recv().await.is_none())
                {
                    return std::future::pending().await;
                }
            }
        }
        match cancel {
            Cancel::InPlaceOfClose => {
                // The last message is taken when the channel has room again.
                drop(give.reserve().await);
            }
            Cancel::AfterClose(wait) => {
                drop(give);
                // The other messages are read while this waits.
                tokio::time::sleep(wait).await;
            }
            Cancel::Never | Cancel::AfterReplies(_) => {
                drop(give);
                drain(&mut replies).await
            }
        }
    };
    let receiving = async {
        if !spec.kind.client_streams() {
            tokio::time::sleep(delay).await;
        }
        let call = Call::method(spec, context, codec, body);
        receive::<Res>(client, call, spec.kind, cancel, replied, &mut seen).await
    };
    let outcome = tokio::select! {
        // A busy machine may come to both at once: then the call is over by its cancellation.
        biased;
        () = sending => Err(Error::canceled("the caller gave up")),
        outcome = receiving => outcome,
    };
    Ok(result(seen, outcome, count - taken.load(Ordering::SeqCst).min(count)))
}

/// The messages of a channel, counted as they are taken.
fn counted(take: mpsc::Receiver<Bytes>, taken: Arc<AtomicUsize>) -> Body {
    Body::stream(unfold(take, move |mut take| {
        let taken = Arc::clone(&taken);
        async move {
            let message = take.recv().await?;
            taken.fetch_add(1, Ordering::SeqCst);
            Some((Ok(message), take))
        }
    }))
}

async fn drain(replies: &mut mpsc::Receiver<()>) {
    while replies.recv().await.is_some() {}
    std::future::pending().await
}

fn cancel(request: &ClientCompatRequest) -> Cancel {
    let Some(cancel) = request.cancel.as_option() else { return Cancel::Never };
    match &cancel.cancel_timing {
        None => Cancel::AfterClose(Duration::ZERO),
        Some(CancelTiming::BeforeCloseSend(_)) => Cancel::InPlaceOfClose,
        Some(CancelTiming::AfterCloseSendMs(wait)) => {
            Cancel::AfterClose(Duration::from_millis((*wait).into()))
        }
        Some(CancelTiming::AfterNumResponses(count)) => Cancel::AfterReplies(*count as usize),
    }
}

async fn receive<Res: Payload>(
    client: &Client,
    call: Call,
    kind: StreamKind,
    cancel: Cancel,
    replied: mpsc::Sender<()>,
    seen: &mut PartialReply,
) -> Result<(), Error> {
    let codec = call.codec;
    let reply = client.call(call).await?;
    (seen.headers, seen.trailers) = (reply.headers, reply.trailers);
    let Body::Stream(mut frames) = reply.body else {
        if !kind.server_streams() {
            let bytes = reply.body.collect(usize::MAX).await?;
            seen.payloads.extend(codec.decode_reply::<Res>(&bytes)?.payload());
        }
        return Ok(());
    };
    let mut count = 0;
    while let Some(frame) = frames.next().await {
        match frame? {
            Frame::Data(bytes) => {
                seen.payloads.extend(codec.decode_reply::<Res>(&bytes)?.payload());
                count += 1;
                if cancel == Cancel::AfterReplies(count) {
                    return Err(Error::canceled("the caller gave up"));
                }
                // The sender may be done.
                let _ = replied.send(()).await;
            }
            Frame::Trailers(trailers) => seen.trailers = trailers,
        }
    }
    Ok(())
}

fn result(seen: PartialReply, outcome: Result<(), Error>, unsent: usize) -> ClientResponseResult {
    let mut response_headers = headers(&seen.headers);
    let mut response_trailers = headers(&seen.trailers);
    let error = outcome.err().map(|error| {
        if !error.headers().is_empty() {
            response_headers = headers(error.headers());
        }
        if !error.trailers().is_empty() {
            response_trailers = headers(error.trailers());
        }
        suite::Error {
            code: EnumValue::from(i32::from(error.code().number())),
            message: Some(error.message().to_owned()),
            details: error
                .details()
                .iter()
                .map(|detail| buffa_types::google::protobuf::Any {
                    type_url: format!("type.googleapis.com/{}", detail.type_name),
                    value: detail.value.clone(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }
    });
    ClientResponseResult {
        response_headers,
        response_trailers,
        payloads: seen.payloads,
        error: error.map_or_else(MessageField::none, MessageField::some),
        num_unsent_requests: i32::try_from(unsent).unwrap_or(i32::MAX),
        ..Default::default()
    }
}
