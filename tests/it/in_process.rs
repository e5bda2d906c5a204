//! A generated client speaks to a generated server in the same process, without a socket.

use tidewire::service::Channel;
use tidewire::{Body, Call, Code, Codec, Context, Headers, Reply, Result, Stream};
use tidewire_tests::behaviour::Behaviour;
use tidewire_tests::proto::*;

fn client(codec: Codec) -> BehaviourServiceClient {
    let server = BehaviourServiceServer::new(Behaviour::default());
    BehaviourServiceClient::new(Channel::new(server).with_codec(codec))
}

#[tokio::test]
async fn all_four_stream_kinds_work_with_both_codecs() {
    for codec in [Codec::Proto, Codec::Json] {
        let client = client(codec);
        let request = EchoRequest { text: "a".into(), number: i64::MAX, ..Default::default() };
        let reply = client.echo(request).await.unwrap();
        assert_eq!((reply.body.text.as_str(), reply.body.number), ("a", i64::MAX));

        let mut numbers =
            client.count(CountRequest { n: 3, ..Default::default() }).await.unwrap().body;
        let mut sum = 0;
        while let Some(number) = numbers.next().await.unwrap() {
            sum += number.number;
        }
        assert_eq!(sum, 6);
        assert_eq!(numbers.trailers()["x-counted"], "3");

        let values =
            Stream::from_values((1..=4).map(|value| SumRequest { value, ..Default::default() }));
        let sum = client.sum(values).await.unwrap().body;
        assert_eq!((sum.total, sum.messages), (10, 4));

        let texts =
            ["a", "b"].map(|text| ChatRequest { text: text.to_owned(), ..Default::default() });
        let mut replies = client.chat(Stream::from_values(texts)).await.unwrap().body;
        assert_eq!(replies.next().await.unwrap().unwrap().text, "a");
        assert_eq!(replies.next().await.unwrap().unwrap().text, "b");
        assert!(replies.next().await.unwrap().is_none());
    }
}

#[tokio::test]
async fn an_error_keeps_code_message_and_details() {
    let request =
        FailRequest { code: 5, message: "gone".into(), with_detail: true, ..Default::default() };
    let error = client(Codec::Proto).fail(request).await.unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::NotFound, "gone"));
    assert_eq!(error.details()[0].type_name, "tidewire.test.v1.FailDetail");
    assert_eq!(error.headers()["x-fail"], "yes");
}

#[tokio::test]
async fn a_client_is_a_drop_in_for_the_service() {
    async fn look(service: &impl BehaviourService) -> String {
        let request = LookRequest { key: "k".into(), ..Default::default() };
        service.look(Context::default(), request).await.unwrap().body.value
    }
    let remote = client(Codec::Proto);
    assert_eq!(look(&remote).await, look(&Behaviour::default()).await);
}

#[tokio::test]
async fn a_stream_that_is_passed_on_keeps_its_trailers_unless_it_gets_others() {
    let count = async || {
        let request = CountRequest { n: 2, ..Default::default() };
        client(Codec::Proto).count(request).await.unwrap().body
    };
    let mut passed_on = count().await.map(|number| number);
    while passed_on.next().await.unwrap().is_some() {}
    assert_eq!(passed_on.trailers()["x-counted"], "2");

    let mut replaced = count().await.with_trailers(Headers::new);
    while replaced.next().await.unwrap().is_some() {}
    assert!(replaced.trailers().is_empty());
}

#[tokio::test]
async fn a_reply_that_is_no_message_is_a_fault_of_the_service_and_not_of_its_caller() {
    for (codec, bytes) in [(Codec::Proto, &b"\xff\xff"[..]), (Codec::Json, b"{\"text\": 7}")] {
        let broken = move |_: Call| async move { Ok(Reply::new(Body::from(bytes.to_vec()))) };
        let client = BehaviourServiceClient::new(Channel::new(broken).with_codec(codec));
        let error = client.echo(EchoRequest::default()).await.unwrap_err();
        assert_eq!(error.code(), Code::Internal, "{error}");
        assert!(
            error.is_upstream()
                && error.message().contains(match codec {
                    Codec::Proto => "reply is not a valid message",
                    Codec::Json => "field text",
                }),
            "{error}"
        );
    }
}

/// Asks another service for each call of its own.
struct Gateway(BehaviourServiceClient);

impl BehaviourServicePartial for Gateway {
    async fn fail(&self, context: Context, request: FailRequest) -> Result<Reply<FailReply>> {
        let passes_on = request.with_detail;
        let outcome = BehaviourService::fail(&self.0, context.outgoing(), request).await;
        if passes_on {
            return outcome.map_err(tidewire::Error::passed_on);
        }
        outcome
    }
}

#[tokio::test]
async fn an_upstream_that_refuses_a_request_does_not_blame_whoever_called_the_handler() {
    let gateway = BehaviourServiceServer::new(Gateway(client(Codec::Proto)));
    let gateway = BehaviourServiceClient::new(Channel::new(gateway));
    let proxy = BehaviourServiceServer::new(client(Codec::Proto));
    let proxy = BehaviourServiceClient::new(Channel::new(proxy));
    let fail = |code: Code, with_detail| FailRequest {
        code: i32::from(code.number()),
        message: "of the upstream".into(),
        with_detail,
        ..Default::default()
    };
    for (code, seen) in [
        (Code::InvalidArgument, Code::Internal),
        (Code::Unauthenticated, Code::Internal),
        (Code::NotFound, Code::NotFound),
        (Code::Unavailable, Code::Unavailable),
    ] {
        let error = gateway.fail(fail(code, false)).await.unwrap_err();
        assert_eq!(error.code(), seen, "{code}");
        assert_eq!(error.message().contains("of the upstream"), seen == code, "{error}");
        let error = gateway.fail(fail(code, true)).await.unwrap_err();
        assert_eq!(error.code(), code, "passed on");
        let error = proxy.fail(fail(code, false)).await.unwrap_err();
        assert_eq!(error.code(), code, "a client in the place of an implementation");
    }
    let error = gateway.slow(SlowRequest::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented, "left out by the gateway itself");
}
