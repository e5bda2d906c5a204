//! Query parameters of every kind.

use tidewire_rest::{RestOptions, UnknownNames};

use super::service::{CANONICAL, builder, start};
use crate::http::get;

#[tokio::test]
async fn every_kind_of_field_can_be_given_in_a_query() {
    let server = start().await;
    for (query, expected) in [
        ("text=a%20b+c%2B", r#"{"text":"a b c+"}"#),
        ("text=", "{}"),
        ("text", "{}"),
        ("&&text=x&", r#"{"text":"x"}"#),
        ("text=a=b", r#"{"text":"a=b"}"#),
        ("flag=true", r#"{"flag":true}"#),
        ("i32=-2147483648&u32=4294967295", r#"{"i32":-2147483648,"u32":4294967295}"#),
        ("i64=-9223372036854775808", r#"{"i64":"-9223372036854775808"}"#),
        ("u64=18446744073709551615", r#"{"u64":"18446744073709551615"}"#),
        ("s32=-1&s64=-2", r#"{"s32":-1,"s64":"-2"}"#),
        ("f32=1&f64=2&sf32=-3&sf64=-4", r#"{"f32":1,"f64":"2","sf32":-3,"sf64":"-4"}"#),
        ("single=1.5&twice=-2.5e3", r#"{"single":1.5,"twice":-2500.0}"#),
        ("single=NaN&twice=-Infinity", r#"{"single":"NaN","twice":"-Infinity"}"#),
        ("data=_-8", r#"{"data":"/+8="}"#),
        ("kind=GOOD", r#"{"kind":"GOOD"}"#),
        ("kind=2", r#"{"kind":"BAD"}"#),
        ("kind=77", r#"{"kind":77}"#),
        ("tags=b&tags=a&tags=b", r#"{"tags":["b","a","b"]}"#),
        ("bigNumbers=1&big_numbers=2", r#"{"bigNumbers":["1","2"]}"#),
        ("kinds=BAD&kinds=1", r#"{"kinds":["BAD","GOOD"]}"#),
        (
            "nested.text=x&nested.inner.inner.count=7",
            r#"{"nested":{"text":"x","inner":{"inner":{"count":"7"}}}}"#,
        ),
        (
            "nested.inner.text=x&i32=1&nested.count=2",
            r#"{"i32":1,"nested":{"inner":{"text":"x"},"count":"2"}}"#,
        ),
        ("nested.kinds=GOOD&nested.kinds=BAD", r#"{"nested":{"kinds":["GOOD","BAD"]}}"#),
        ("maybe=", r#"{"maybe":""}"#),
        ("maybe_big=0", r#"{"maybeBig":"0"}"#),
        ("right=5", r#"{"right":"5"}"#),
        ("at=2026-01-02T03:04:05.5Z", r#"{"at":"2026-01-02T03:04:05.500Z"}"#),
        ("took=1.5s", r#"{"took":"1.500s"}"#),
        ("mask=snake_case_name,nested.text", r#"{"mask":"snakeCaseName,nested.text"}"#),
        ("mask=snakeCaseName", r#"{"mask":"snakeCaseName"}"#),
        ("wrapped_text=", r#"{"wrappedText":""}"#),
        ("wrappedBig=5&wrapped_flag=false", r#"{"wrappedBig":"5","wrappedFlag":false}"#),
        ("wrapped_data=aGk", r#"{"wrappedData":"aGk="}"#),
        (
            "times=2026-01-02T03:04:05Z&times=1970-01-01T00:00:00Z",
            r#"{"times":["2026-01-02T03:04:05Z","1970-01-01T00:00:00Z"]}"#,
        ),
        ("snakeCaseName=a", r#"{"snakeCaseName":"a"}"#),
        ("snake_case_name=a", r#"{"snakeCaseName":"a"}"#),
        ("otherName=a", r#"{"otherName":"a"}"#),
        ("renamed=a", r#"{"otherName":"a"}"#),
        ("t%65xt=a", r#"{"text":"a"}"#),
    ] {
        let answer = get(&server, &format!("/query?{query}")).await;
        assert_eq!((answer.status, answer.text()), (200, expected), "{query}");
    }
}

#[tokio::test]
async fn unknown_parameters_can_be_ignored() {
    let mut options = RestOptions::default();
    options.json = CANONICAL;
    options.unknown_parameters = UnknownNames::Ignored;
    let server = builder(options).start().await.unwrap();
    let answer = get(&server, "/query?utm_source=x&text=a&nested.nope=1").await;
    assert_eq!((answer.status, answer.text()), (200, r#"{"text":"a"}"#));
    let answer = get(&server, "/query?nested=1").await;
    assert_eq!(answer.status, 400, "a known field that does not fit is still refused");
}
