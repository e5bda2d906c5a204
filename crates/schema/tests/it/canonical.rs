//! JSON that is taken as it comes is what would be printed of it.

use serde_json::Value;
use tidewire_json::is_canonical;
use tidewire_service::{Body, Call, Code, Codec, Context, Error, Reply, Service};

use super::schema;

const ITEMS: [&str; 5] = [
    "{}",
    r#"{"name":"té\n\u0001","count":"-5","price":4.2,"color":"COLOR_RED","key":"AQI=","size":0}"#,
    r#"{"tags":["a","","b"],"labels":{"a":"1","b":""},"items":[{},{"sold":true}],"country":""}"#,
    r#"{"firstName":"Ada","weight":1e300,"serial":"18446744073709551615","colors":["COLOR_NONE"]}"#,
    r#"{"price":1.0,"weight":-0.5,"parent":{"parent":{"code":0,"count":"-9223372036854775808"}}}"#,
];

fn is_known(text: &[u8]) -> bool {
    let pool = schema().pool().clone();
    is_canonical(&pool, pool.message_index("shop.v1.Item").unwrap(), text)
}

fn printed(text: &[u8]) -> Option<Value> {
    let item = schema().decode("shop.v1.Item", Codec::Json, text).ok()?;
    Some(serde_json::from_slice(&item.encode(Codec::Json).unwrap()).unwrap())
}

#[test]
fn what_is_printed_is_known_to_be_canonical() {
    for text in ITEMS {
        let item = schema().decode("shop.v1.Item", Codec::Json, text.as_bytes()).unwrap();
        let text = item.encode(Codec::Json).unwrap();
        assert!(is_known(&text), "{}", String::from_utf8_lossy(&text));
    }
    assert!(is_known(b" { \"sold\" : true , \"name\" : \"a\" } "));
}

#[test]
fn other_texts_of_a_value_are_not_canonical() {
    for text in [
        r#"{"size":1.0}"#,
        r#"{"size":"1"}"#,
        r#"{"size":01}"#,
        r#"{"size":-0}"#,
        r#"{"size":2147483648}"#,
        r#"{"count":5}"#,
        r#"{"count":"0"}"#,
        r#"{"count":" 5"}"#,
        r#"{"serial":"18446744073709551616"}"#,
        r#"{"first_name":"a"}"#,
        r#"{"name":""}"#,
        r#"{"name":null}"#,
        r#"{"name":"a","name":"b"}"#,
        r#"{"name":"\ud800"}"#,
        r#"{"tags":[]}"#,
        r#"{"labels":{}}"#,
        r#"{"labels":{"a":"1","a":"2"}}"#,
        r#"{"country":"a","code":1}"#,
        r#"{"weight":1}"#,
        r#"{"weight":0.0}"#,
        r#"{"weight":1e1}"#,
        r#"{"key":"AQJ="}"#,
        r#"{"key":"AQ"}"#,
        r#"{"color":1}"#,
        r#"{"color":"COLOR_NONE"}"#,
        r#"{"sold":false}"#,
        r#"{"unknown":1}"#,
        r#"{"name":"a"}x"#,
        r#"{"name":"a",}"#,
        "{bad",
        "[1]",
        "null",
        "",
    ] {
        assert!(!is_known(text.as_bytes()), "{text}");
    }
    assert!(!is_known(b"{\"name\":\"\xff\"}"));
}

#[test]
fn what_is_known_to_be_canonical_is_what_would_be_printed() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    println!("seed {state:#x}");
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % u64::try_from(below).unwrap()).unwrap()
    };
    let bytes = b"\"\\{}[]:,. -+0159eEnuatAQ=/\n\x01\xff";
    let mut known = 0;
    for _ in 0..60_000 {
        let mut text = ITEMS[random(ITEMS.len())].as_bytes().to_vec();
        for _ in 0..=random(3) {
            let (place, byte) = (random(text.len()), bytes[random(bytes.len())]);
            match random(4) {
                0 => text[place] = byte,
                1 => text.insert(place, byte),
                2 if text.len() > 1 => drop(text.remove(place)),
                _ => {
                    let end = place + random(text.len() - place);
                    let part = text[place..end].to_vec();
                    text.splice(place..place, part);
                }
            }
        }
        if is_known(&text) {
            known += 1;
            let value: Value = serde_json::from_slice(&text).unwrap();
            assert_eq!(printed(&text), Some(value), "{}", String::from_utf8_lossy(&text));
        }
    }
    assert!(known > 100, "{known}");
}

#[tokio::test]
async fn a_service_of_json_sees_canonical_messages_and_its_callers_answers_of_the_schema() {
    let put = schema().interface("shop.v1.Items").unwrap().unwrap().methods()[0].clone();
    let echo = |call: Call| async move { Ok(Reply::new(call.body)) };
    let ask = async |service: &dyn Service, text: &'static str| {
        let call = Call::method(put.clone(), Context::default(), Codec::Json, text);
        let reply = schema().transcode(Codec::Json, service, call).await?;
        reply.body.collect(1 << 20).await
    };
    let answer = ask(&echo, r#"{"size":1.0,"count":5,"first_name":"a","name":""}"#).await.unwrap();
    assert_eq!(answer, r#"{"count":"5","size":1,"firstName":"a"}"#);
    let never = |_: Call| async { Err::<Reply, _>(Error::unavailable("it was asked")) };
    for text in ["{bad", "[1]", "", "5", r#"{"name":5}"#] {
        assert_eq!(ask(&never, text).await.unwrap_err().code(), Code::InvalidArgument, "{text}");
    }
    for text in ["[1,2]", "\"abc\"", "5", "", r#"{"name":5}"#] {
        let wrong = move |_: Call| async move { Ok(Reply::new(Body::from(text))) };
        let error = ask(&wrong, "{}").await.unwrap_err();
        assert_eq!(error.code(), Code::Internal, "{text}");
        assert!(
            error.message().starts_with("the service's answer is not of its schema"),
            "{error}"
        );
    }
}
