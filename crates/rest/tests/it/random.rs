//! Random requests and replies: nothing panics, and what is read is printed to be read again.

use tidewire_service::Codec;

use crate::api::{Api, read};

/// Numbers that look random; shown in messages of failures.
#[derive(Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// The same sequence at each run, or that of `SEED`.
    pub(crate) fn seeded() -> Self {
        let given = std::env::var("SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
        Self { state: given.unwrap_or(1) | 1 }
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state % end as u64).unwrap()
    }

    fn text(&mut self, pieces: &[&str], max: usize) -> String {
        (0..self.below(max)).map(|_| pieces[self.below(pieces.len())]).collect()
    }
}

const PROTO: &str = r#"
service T {
  rpc Echo(M) returns (M) {
    option (google.api.http) = { get: "/e/{m.s}" additional_bindings { post: "/e" body: "*" }
                                 additional_bindings { put: "/e/{i}" body: "m" }
                                 additional_bindings { patch: "/e/{i}" body: "tags" }
                                 additional_bindings { get: "/f/{s=**}/x" response_body: "m" } };
  }
}
message M {
  string s = 1; int32 i = 2; M m = 3; repeated string tags = 4; map<string, M> map = 5;
  google.protobuf.Struct any = 6; oneof o { bytes b = 7; double d = 8; }
  google.protobuf.Timestamp at = 9; google.protobuf.Int64Value w = 10;
}
"#;

const IN_A_TARGET: &[&str] = &[
    "a",
    "/",
    "%2F",
    "%",
    "%zz",
    "%ff",
    "x",
    ":",
    "?",
    "&",
    "=",
    "s",
    "i",
    "m.s",
    "m.m.i",
    "tags",
    "at",
    "w",
    "b",
    "d",
    "1",
    "-1",
    "NaN",
    "+",
    ".",
    "map",
    "any",
    "1970-01-01T00:00:00Z",
];

const IN_A_BODY: &[&str] = &[
    "{", "}", "[", "]", ":", ",", "\"s\"", "\"i\"", "\"m\"", "\"tags\"", "\"map\"", "\"any\"",
    "\"b\"", "\"d\"", "\"at\"", "\"w\"", "null", "1", "-1.5", "\"\"", "true", " ", "\\",
    "\"a\":{}", "é",
];

#[test]
fn random_requests_are_refused_or_become_messages() {
    let api = Api::new(PROTO);
    let mut random = Random::seeded();
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..30_000 {
        let verb = ["GET", "POST", "PUT", "PATCH"][random.below(4)];
        let start = ["/e/", "/e?", "/f/", "/e/1?"][random.below(4)];
        let target = start.to_owned() + &random.text(IN_A_TARGET, 8);
        let Ok(uri) = target.parse::<http::Uri>() else { continue };
        let tidewire_rest::RestMatch::Binding(binding) =
            api.rest.find(&verb.parse().unwrap(), uri.path())
        else {
            continue;
        };
        let body = if verb == "GET" { String::new() } else { random.text(IN_A_BODY, 10) };
        match read(binding, &target, body.as_bytes()) {
            Ok(message) => {
                accepted += 1;
                let decoded = api.schema.decode("t.M", Codec::Proto, &message);
                decoded.unwrap_or_else(|why| panic!("{random:?} {verb} {target} {body}: {why}"));
                binding.print(message).unwrap_or_else(|why| panic!("{random:?} {target}: {why}"));
            }
            Err(error) => {
                refused += 1;
                assert_eq!(error.http_status(), 400, "{random:?} {target} {body}: {error}");
            }
        }
    }
    assert!(accepted > 500 && refused > 500, "{accepted} accepted, {refused} refused");
}

#[test]
fn random_replies_are_printed_or_are_errors_of_the_service() {
    let api = Api::new(PROTO);
    let mut random = Random::seeded();
    let bindings = [api.binding("POST", "/e"), api.binding("GET", "/f/x")];
    let mut printed = 0;
    for _ in 0..30_000 {
        const BYTES: &[u8] =
            &[0x0a, 0x10, 0x1a, 0x22, 0x2a, 0x32, 0x3a, 0x41, 0x4a, 0x52, 0, 1, 2, 3, 255];
        let reply: Vec<u8> =
            (0..random.below(24)).map(|_| BYTES[random.below(BYTES.len())]).collect();
        match bindings[random.below(2)].print(reply.clone().into()) {
            Ok(body) => {
                printed += 1;
                let json: Result<serde_json::Value, _> = serde_json::from_slice(&body.body);
                json.unwrap_or_else(|why| panic!("{random:?} {reply:?}: {why}"));
            }
            Err(error) => assert_eq!(error.http_status(), 500, "{random:?} {reply:?}"),
        }
    }
    assert!(printed > 500, "{printed} printed");
}
