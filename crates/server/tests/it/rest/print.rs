//! How replies are printed: defaults, 64-bit numbers, names; and that no value changes by it.

use std::fmt::Write as _;

use http::header::HOST;
use tidewire_rest::{Defaults, FieldNames, Int64, JsonOptions, RestOptions};
use tidewire_schema::Schema;
use tidewire_server::{Address, RunningServer, Server};
use tidewire_service::{Body, Call, Codec, Reply};

use super::service::{CANONICAL, in_json, schema};
use crate::http::{get, json};

/// A server whose replies are the bytes it was sent in `text`, whatever they are.
async fn echo(json: JsonOptions) -> RunningServer {
    let backend = async |call: Call| {
        let Body::Full(request) = call.body else { panic!("a whole request") };
        let request: serde_json::Value = serde_json::from_slice(&request).unwrap();
        Ok(Reply::new(request["text"].as_str().unwrap_or_default().to_owned().into()))
    };
    let service = schema().serve("rest.v1.Echo", in_json(backend)).unwrap();
    let any: Address = "127.0.0.1:0".parse().unwrap();
    let mut options = RestOptions::default();
    options.services.insert("rest.v1.Echo".to_owned(), json);
    Server::builder().listen(any).rest(options).service(service).start().await.unwrap()
}

/// What the server makes of a reply.
async fn printed(server: &RunningServer, reply: &str) -> String {
    let request = serde_json::json!({ "text": reply }).to_string();
    let answer = json(server, "POST", "/whole", &request).await;
    assert_eq!(answer.status, 200, "{reply}: {}", answer.text());
    answer.text().to_owned()
}

const DEFAULT: &str = concat!(
    r#"{"text":"","flag":false,"i32":0,"i64":0,"u32":0,"u64":0,"s32":0,"s64":0,"f32":0,"f64":0,"#,
    r#""sf32":0,"sf64":0,"single":0.0,"twice":0.0,"data":"","kind":"KIND_UNSPECIFIED","tags":[],"#,
    r#""bigNumbers":[],"kinds":[],"children":[],"counts":{},"byNumber":{},"snakeCaseName":"","#,
    r#""otherName":"","times":[]}"#
);

#[tokio::test]
async fn defaults_are_printed_where_their_fields_are_declared() {
    let server = echo(JsonOptions::default()).await;
    assert_eq!(printed(&server, "{}").await, DEFAULT);
    assert_eq!(printed(&server, "").await, DEFAULT, "an empty reply is a message without fields");
    for (reply, was, is) in [
        (r#"{"text":"a"}"#, r#""text":"""#, r#""text":"a""#),
        (r#"{"otherName":"a"}"#, r#""otherName":"""#, r#""otherName":"a""#),
        (r#"{"tags":["a"]}"#, r#""tags":[]"#, r#""tags":["a"]"#),
        (r#"{ "i64" : "5" }"#, r#""i64":0"#, r#""i64":5"#),
        (r#"{"i64":"-9007199254740991"}"#, r#""i64":0"#, r#""i64":-9007199254740991"#),
        (r#"{"i64":"9007199254740992"}"#, r#""i64":0"#, r#""i64":"9007199254740992""#),
        (r#"{"u64":"18446744073709551615"}"#, r#""u64":0"#, r#""u64":"18446744073709551615""#),
        (r#"{"bigNumbers":["1","2"]}"#, r#""bigNumbers":[]"#, r#""bigNumbers":[1,2]"#),
        (r#"{"counts":{"a":"1"}}"#, r#""counts":{}"#, r#""counts":{"a":1}"#),
        (
            r#"{"byNumber":{"7":{}}}"#,
            r#""byNumber":{}"#,
            r#""byNumber":{"7":{"text":"","count":0,"kinds":[]}}"#,
        ),
        (
            r#"{"children":[{"text":"x"},{"count":"3"}]}"#,
            r#""children":[]"#,
            r#""children":[{"text":"x","count":0,"kinds":[]},{"text":"","count":3,"kinds":[]}]"#,
        ),
        (r#"{"te\u0078t":"a\"b"}"#, r#""text":"""#, r#""text":"a\"b""#),
    ] {
        assert_eq!(printed(&server, reply).await, DEFAULT.replace(was, is), "{reply}");
    }
}

#[tokio::test]
async fn fields_that_may_be_absent_are_printed_only_where_they_are_set() {
    let server = echo(JsonOptions::default()).await;
    for (reply, before, is) in [
        (r#"{"maybe":""}"#, r#""snake"#, r#""maybe":"","#),
        (r#"{"maybeBig":"0"}"#, r#""snake"#, r#""maybeBig":0,"#),
        (r#"{"right":"7"}"#, r#""snake"#, r#""right":7,"#),
        (r#"{"wrappedBig":"7"}"#, r#""snake"#, r#""wrappedBig":7,"#),
        (r#"{"extra":{"a":"1","b":[]}}"#, r#""snake"#, r#""extra":{"a":"1","b":[]},"#),
        (r#"{"anything":null}"#, r#""snake"#, r#""anything":null,"#),
        (r#"{"nothing":{}}"#, r#""snake"#, r#""nothing":{},"#),
        (r#"{"nested":{}}"#, r#""children"#, r#""nested":{"text":"","count":0,"kinds":[]},"#),
    ] {
        let text = printed(&server, reply).await;
        let members = |text: &str| {
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            value
        };
        let expected = DEFAULT.replacen(before, &format!("{is}{before}"), 1);
        assert_eq!(members(&text), members(&expected), "{reply}");
        assert!(text.contains(is.trim_end_matches(',')), "{reply}: {text}");
    }
}

#[tokio::test]
async fn names_can_be_those_of_the_proto_file() {
    let names = FieldNames::Original;
    let server = echo(JsonOptions { names, ..CANONICAL }).await;
    let reply = r#"{"snakeCaseName":"a","otherName":"b","bigNumbers":["1"],"children":[{"inner":{}}],"i64":"1"}"#;
    let expected = r#"{"i64":"1","big_numbers":["1"],"children":[{"inner":{}}],"snake_case_name":"a","renamed":"b"}"#;
    assert_eq!(printed(&server, reply).await, expected);
}

#[tokio::test]
async fn a_reply_that_is_no_message_is_an_internal_error() {
    let backend = async |_: Call| Ok(Reply::new(Body::from("\n\u{5}a")));
    let service = schema().serve("rest.v1.Echo", backend).unwrap();
    let any: Address = "127.0.0.1:0".parse().unwrap();
    let server = Server::builder().listen(any).service(service).start().await.unwrap();
    for target in ["/items/7", "/tags", "/download/x", "/count/1", "/downloads/1"] {
        let answer = get(&server, target).await;
        assert_eq!(answer.status, 500, "{target}: {}", answer.text());
        assert!(answer.text().contains("the service's reply is not"), "{}", answer.text());
    }
}

#[tokio::test]
async fn any_message_means_the_same_after_it_was_printed() {
    let schema = schema();
    let given = std::env::var("SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let seed = given.unwrap_or(1);
    for (defaults, int64, names) in [
        (Defaults::Printed, Int64::Number, FieldNames::Json),
        (Defaults::Printed, Int64::Text, FieldNames::Original),
        (Defaults::Omitted, Int64::Number, FieldNames::Original),
        (Defaults::Omitted, Int64::Number, FieldNames::Json),
    ] {
        let server = echo(JsonOptions { defaults, int64, names }).await;
        let mut random = Random(seed | 1);
        for _ in 0..100 {
            let message = random.everything(0);
            let canonical = normal(&schema, &message);
            for reply in [&message, &canonical] {
                let text = printed(&server, reply).await;
                assert_eq!(normal(&schema, &text), canonical, "seed {seed}\n{reply}\n{text}");
            }
        }
    }
}

/// The message that a text means, as canonical JSON.
fn normal(schema: &Schema, text: &str) -> String {
    let message = schema.decode("rest.v1.Everything", Codec::Json, text.as_bytes());
    let message = message.unwrap_or_else(|error| panic!("{error}: {text}"));
    // By way of the binary form, so that what JSON may say in two ways is the same.
    let bytes = message.encode(Codec::Proto).unwrap();
    let message = schema.decode("rest.v1.Everything", Codec::Proto, &bytes).unwrap();
    String::from_utf8(message.encode(Codec::Json).unwrap().to_vec()).unwrap()
}

/// Random messages as JSON text, members in random order and spelling, with white space.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below as u64).unwrap()
    }

    fn pick(&mut self, from: &[&str]) -> String {
        from[self.next(from.len())].to_owned()
    }

    fn big(&mut self) -> String {
        self.pick(&[
            "\"0\"",
            "\"1\"",
            "\"-7\"",
            "12",
            "\"9007199254740991\"",
            "\"9007199254740992\"",
            "\"-9223372036854775808\"",
        ])
    }

    fn text(&mut self) -> String {
        self.pick(&[r#""""#, r#""a""#, r#""\"\\\u0007é€😀{[,:""#, r#""{\"i64\":\"5\"}""#])
    }

    fn nested(&mut self, depth: usize) -> String {
        let mut members = Vec::new();
        if self.next(2) == 0 {
            members.push(format!("\"text\":{}", self.text()));
        }
        if self.next(2) == 0 {
            members.push(format!("\"count\":{}", self.big()));
        }
        if self.next(3) == 0 {
            members.push("\"kinds\":[\"GOOD\",\"BAD\",77]".to_owned());
        }
        if depth < 4 && self.next(2) == 0 {
            members.push(format!("\"inner\":{}", self.nested(depth + 1)));
        }
        self.object(members)
    }

    fn object(&mut self, mut members: Vec<String>) -> String {
        if self.next(2) == 0 {
            for last in (1..members.len()).rev() {
                let other = self.next(last + 1);
                members.swap(last, other);
            }
        }
        let separator = self.pick(&[",", " , ", ",\n"]);
        format!("{{{}}}", members.join(&separator))
    }

    fn everything(&mut self, depth: usize) -> String {
        let mut members = Vec::new();
        for (name, kind) in FIELDS {
            if self.next(3) > 0 {
                continue;
            }
            let value = match *kind {
                "text" => self.text(),
                "big" => self.big(),
                "bigs" => format!("[{}, {}]", self.big(), self.big()),
                "nested" => self.nested(depth),
                "list" => format!("[{},{}]", self.nested(depth), self.nested(depth)),
                "map" => format!("{{\"1\":{},\"-2\":{}}}", self.nested(depth), self.nested(depth)),
                "bigmap" => format!("{{\"\":{},\"a\\\"\":{}}}", self.big(), self.big()),
                literal => literal.to_owned(),
            };
            let mut member = String::new();
            write!(member, "\"{name}\":{value}").unwrap();
            members.push(member);
        }
        self.object(members)
    }
}

/// Fields of `Everything` in the order of their declaration, and values for them.
const FIELDS: &[(&str, &str)] = &[
    ("text", "text"),
    ("flag", "true"),
    ("i32", "-5"),
    ("i64", "big"),
    ("u64", "\"18446744073709551615\""),
    ("sf64", "big"),
    ("single", "1.5"),
    ("twice", "\"NaN\""),
    ("data", "\"AP8=\""),
    ("kind", "\"BAD\""),
    ("tags", "[\"a\",\"\"]"),
    ("big_numbers", "bigs"),
    ("kinds", "[]"),
    ("nested", "nested"),
    ("children", "list"),
    ("counts", "bigmap"),
    ("byNumber", "map"),
    ("maybe", "\"\""),
    ("maybeBig", "big"),
    ("right", "big"),
    ("at", "\"2026-01-02T03:04:05Z\""),
    ("took", "\"1.5s\""),
    ("mask", "\"text,nested.text\""),
    ("wrappedBig", "big"),
    ("wrappedText", "\"\""),
    ("extra", "{\"i64\":\"5\",\"a\":[null,{}]}"),
    ("anything", "[\"7\",null]"),
    ("nothing", "{}"),
    ("snake_case_name", "text"),
    ("otherName", "text"),
    ("times", "[\"2026-01-02T03:04:05Z\"]"),
];

#[tokio::test]
async fn the_host_of_the_request_reaches_the_service() {
    let backend = async |call: Call| {
        let host = call.context.header(HOST).unwrap().to_str().unwrap();
        Ok(Reply::new(format!(r#"{{"text":"{host}"}}"#).into()))
    };
    let service = schema().serve("rest.v1.Echo", in_json(backend)).unwrap();
    let any: Address = "127.0.0.1:0".parse().unwrap();
    let mut options = RestOptions::default();
    options.json = CANONICAL;
    let server =
        Server::builder().listen(any).rest(options).service(service).start().await.unwrap();
    assert_eq!(get(&server, "/items/7").await.text(), r#"{"text":"test"}"#);
}
