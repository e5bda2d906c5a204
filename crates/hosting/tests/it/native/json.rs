//! The JSON that programs with `codec = "json"` and their callers send each other: what a program
//! sees is of its schema and has one form, and so is what its callers get.

use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tidewire_service::{Body, Code, Codec, Context, Error, Frame};

use super::{Gateway, dotnet, go, json_of, node, python, rust};

/// Bodies that are not messages of one number, and what their caller is told first.
const WRONG: [(&str, &str); 9] = [
    (r#"{"number":1.5}"#, "field number: invalid value: floating point `1.5`, expected an i32"),
    (r#"{"number":"a"}"#, "field number: invalid value: string \"a\", expected an i32"),
    (r#"{"number":true}"#, "field number: invalid type: boolean `true`, expected an i32"),
    (
        r#"{"number":2147483648}"#,
        "field number: invalid value: integer `2147483648`, expected an i32",
    ),
    (r#"{"number":1,"number":1}"#, "number occurs twice"),
    (r#"{"number":1"#, "request is not valid JSON"),
    ("[1]", "invalid type: sequence, expected an object"),
    ("null", "invalid type: null, expected an object"),
    ("", "request body is empty"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_program_sees_json_of_its_schema_in_one_form() {
    for command in [python("threads"), python("async"), node("fetch"), go(), dotnet(), rust()] {
        let gateway = Gateway::start(&command, Codec::Json, crate::patient_limits()).await;
        what_is_not_of_the_schema_never_reaches_the_program(&gateway).await;
        requests_of_one_value_come_in_one_form(&gateway).await;
        streamed_requests_do_too(&gateway).await;
        gateway.stop().await;
    }
}

async fn what_is_not_of_the_schema_never_reaches_the_program(gateway: &Gateway) {
    for (body, said) in WRONG {
        let error = listed(gateway, body.into()).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{body}");
        assert!(error.message().starts_with(said), "{body}: {}", error.message());
    }
    let error = listed(gateway, Bytes::from_static(b"{\"number\":\"\xff\"}")).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(gateway.hosted.status().starts, 0, "none was started for it");
}

async fn requests_of_one_value_come_in_one_form(gateway: &Gateway) {
    let same = [
        r#"{"number":7}"#,
        r#"{"number":7.0}"#,
        r#" { "number" : 7e0 } "#,
        r#"{"number":"7"}"#,
        r#"{"number":7,"more":[null]}"#,
        r#"{"n\u0075mber":7}"#,
    ];
    // Each is kept by itself, and ends with the key of the value that all have.
    for (before, body) in (0..).zip(same) {
        for _ in 0..2 {
            let expected = (before + 1, json!({ "number": 7 }));
            assert_eq!(listed(gateway, body.into()).await.unwrap(), expected, "{body}");
        }
    }
    gateway.text("Set", "7").await.unwrap();
    for (before, body) in (same.len()..).zip(same) {
        assert_eq!(listed(gateway, body.into()).await.unwrap().0, before + 1, "{body}");
    }
    for body in [r#"{"number":0}"#, r#"{"number":null}"#, r#"{"more":1}"#, "{}"] {
        assert_eq!(listed(gateway, body.into()).await.unwrap().1, json!({}), "{body}");
    }
}

/// What List answers: how often it ran, and what it saw.
async fn listed(gateway: &Gateway, body: Bytes) -> Result<(usize, Value), Error> {
    let answer = json_of(gateway.reply("List", Context::default(), body).await?).await?;
    let (ran, saw) = answer["text"].as_str().unwrap().split_once(' ').unwrap();
    Ok((ran.parse().unwrap(), serde_json::from_str(saw).unwrap()))
}

async fn streamed_requests_do_too(gateway: &Gateway) {
    let sum = async |messages: &'static [&'static str]| {
        let messages = messages.iter().map(|message| Ok(Bytes::from_static(message.as_bytes())));
        let body = Body::stream(futures_util::stream::iter(messages));
        json_of(gateway.reply("Sum", Context::default(), body).await?).await
    };
    let right = sum(&[r#"{"number":1.0}"#, r#"{"number":"2"}"#, r#"{"more":5}"#]).await;
    assert_eq!(right.unwrap(), json!({ "number": 3 }));
    let error = sum(&[r#"{"number":1}"#, r#"{"number":1.5}"#]).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().starts_with(WRONG[0].1), "{}", error.message());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_answers_is_checked_and_not_its_callers_fault() {
    // In Rust nothing else can be said.
    for command in [python("threads"), python("async"), node("fetch"), go()] {
        let gateway = Gateway::start(&command, Codec::Json, crate::patient_limits()).await;
        let error = gateway.ask("Do", json!({ "text": "odd answer" })).await.unwrap_err();
        is_of_the_program(&error, "unknown field \"more\"");
        let error = gateway.ask("Do", json!({ "text": "wrong answer" })).await.unwrap_err();
        is_of_the_program(&error, "field text: ");
        let reply = gateway.reply("Count", Context::default(), r#"{"number":-2}"#).await.unwrap();
        let Body::Stream(mut frames) = reply.body else { panic!("it streams") };
        let first = frames.next().await.unwrap().unwrap();
        assert!(matches!(first, Frame::Data(one) if one == r#"{"number":1}"#), "{command:?}");
        let error = frames.next().await.unwrap().unwrap_err();
        is_of_the_program(&error, "field number: ");
        assert_eq!(gateway.text("Echo", "a").await.unwrap(), "a", "{command:?}");
        assert_eq!(gateway.hosted.status().starts, 1, "{command:?}");
        gateway.stop().await;
    }
}

/// Its caller is told that it is none of its fault.
fn is_of_the_program(error: &Error, why: &str) {
    assert_eq!(error.code(), Code::Internal);
    let text = format!("the service's answer is not of its schema: {why}");
    assert!(error.message().starts_with(&text), "{}", error.message());
}
