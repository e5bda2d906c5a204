//! Stubs of other mock servers: imported, served and called.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use crate::mocked::RunningMock;
use crate::program::{Ran, folder, run};

const SHOP: &str = r#"syntax = "proto3";
package shop.v1;
import "google/api/annotations.proto";
service Cart {
  rpc Price(PriceRequest) returns (PriceReply) {
    option (google.api.http) = {get: "/v1/prices/{sku}" additional_bindings {post: "/v1/prices" body: "*"}};
  }
  rpc Watch(PriceRequest) returns (stream PriceReply);
}
message PriceRequest { string sku = 1; int32 quantity = 2; repeated string tags = 3; }
message PriceReply { int64 price = 1; string note = 2; }
"#;

const GRIPMOCK: &str = r#"
- service: shop.v1.Cart
  method: Price
  input: {contains: {tags: [black]}, matches: {sku: "^t"}}
  output: {data: {price: 5, note: "{{.Request.sku}} is black"}}
- service: shop.v1.Cart
  method: Price
  headers: {equals: {x-tenant: acme}}
  input: {equals: {sku: none}}
  output: {error: no such item, code: 5}
- service: shop.v1.Cart
  method: Watch
  input: {equals: {sku: tea}}
  output: {stream: [{price: 1}, {price: 2}]}
"#;

const WIREMOCK: &str = r#"{"mappings": [
  {"request": {"method": "GET", "urlPathPattern": "/v1/prices/SK-[0-9]+", "queryParameters": {"quantity": {"equalTo": "2"}}},
   "response": {"status": 200, "jsonBody": {"price": "7", "note": "{{request.pathSegments.[2]}}"}, "transformers": ["response-template"]}},
  {"request": {"method": "POST", "url": "/v1/prices", "bodyPatterns": [{"equalToJson": {"sku": "tea", "tags": ["a"]}}]},
   "response": {"status": 409, "jsonBody": {"code": 6, "message": "taken", "details": []}}}
]}"#;

const FAUXRPC: &str = r#"---
stubs:
- id: bulk
  target: shop.v1.Cart/Price
  active_if: req.quantity >= 100
  priority: 10
  cel_content: "{'price': req.quantity * 2, 'note': 'bulk'}"
"#;

/// A folder in which stubs were imported, and its mock.
fn imported(kind: &str, file: &str, text: &str) -> RunningMock {
    let files = [("protos/shop.proto", SHOP), (file, text)];
    let before = folder(&files);
    let stubs = file.split('/').next().unwrap();
    run(before.path(), &["mocks", "import", kind, stubs]).check(0, &["carried"]);
    let mut rules = Vec::new();
    for entry in std::fs::read_dir(before.path().join("rules")).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("rules/{}", path.file_name().unwrap().to_str().unwrap());
        rules.push((name, std::fs::read_to_string(&path).unwrap()));
    }
    run(before.path(), &["check", "rules", "protos"]).check(0, &[]);
    let rules: Vec<_> = rules.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    RunningMock::start(&[&files[..], &rules].concat(), &["--validate"])
}

fn call(mock: &RunningMock, method: &str, request: &str, more: &[&str]) -> Ran {
    run(mock.path(), &[&["call", &mock.address, method, request], more].concat())
}

/// The status and the body of a plain request.
fn http(mock: &RunningMock, line: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(&mock.address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{line} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[test]
fn stubs_of_gripmock_answer_calls_over_grpc_and_connect() {
    let mock = imported("gripmock", "stubs/deep/cart.yaml", GRIPMOCK);
    for protocol in ["grpc", "connect", "grpc-web"] {
        let call = |request: &str, more: &[&str]| {
            call(&mock, "Price", request, &[&["--protocol", protocol], more].concat())
        };
        let fits = call(r#"{"sku":"tea","tags":["green","black"]}"#, &[]);
        fits.check(0, &[r#"{"price":"5","note":"tea is black"}"#]);
        call(r#"{"sku":"tea","tags":["blackish"]}"#, &[]).check(69, &["no stub fits"]);
        call(r#"{"sku":"ptea","tags":["black"]}"#, &[]).check(69, &["no stub fits"]);
        call(r#"{"sku":"none"}"#, &["-H", "x-tenant: acme"]).check(69, &["no such item"]);
        call(r#"{"sku":"none"}"#, &["-H", "x-tenant: other"]).check(69, &["no stub fits"]);
    }
    call(&mock, "Cart/Watch", r#"{"sku":"tea"}"#, &[])
        .check(0, &["{\"price\":\"1\"}\n{\"price\":\"2\"}"]);
}

#[test]
fn mappings_of_wiremock_answer_plain_http() {
    let mock = imported("wiremock", "wire/mappings/prices.json", WIREMOCK);
    let (status, body) = http(&mock, "GET /v1/prices/SK-12?quantity=2", "");
    assert_eq!((status, body.as_str()), (200, r#"{"price":7,"note":"SK-12"}"#));
    for line in [
        "GET /v1/prices/SK-12",
        "GET /v1/prices/SK-x?quantity=2",
        "GET /v1/prices/aSK-12?quantity=2",
    ] {
        assert_eq!(http(&mock, line, "").0, 404, "{line}");
    }
    let (status, body) = http(&mock, "POST /v1/prices", r#"{"sku":"tea","tags":["a"]}"#);
    assert_eq!(status, 409);
    assert!(body.contains("taken"), "{body}");
    for body in [
        r#"{"sku":"tea"}"#,
        r#"{"sku":"tea","tags":["a","b"]}"#,
        r#"{"sku":"tea","tags":["a"],"quantity":1}"#,
    ] {
        assert_eq!(http(&mock, "POST /v1/prices", body).0, 404, "{body}");
    }
    // The same rule over gRPC.
    let request = r#"{"sku":"tea","tags":["a"]}"#;
    call(&mock, "Price", request, &["--protocol", "grpc"]).check(70, &["taken"]);
}

#[test]
fn stubs_of_fauxrpc_answer_where_they_are_active() {
    let mock = imported("fauxrpc", "faux/stubs.yaml", FAUXRPC);
    let bulk = call(&mock, "Price", r#"{"quantity":100}"#, &[]);
    bulk.check(0, &[r#"{"price":"200","note":"bulk"}"#]);
    let other = call(&mock, "Price", r#"{"quantity":99}"#, &[]);
    assert!(!other.check(0, &[]).stdout.contains("bulk"), "{}", other.stdout);
}

#[test]
fn what_cannot_be_carried_over_is_told_and_nothing_is_replaced_unasked() {
    let stubs = "- service: shop.v1.Cart\n  method: Price\n  input: {equals: {sku: tea}}\n  output:\n    data: {note: \"{{faker.Person.Name}}\", price: 3}\n";
    let there = folder(&[
        ("protos/shop.proto", SHOP),
        ("stubs/a.yaml", stubs),
        ("stubs/b.yaml", "service: ["),
    ]);
    let import = |more: &[&str]| {
        run(there.path(), &[&["mocks", "import", "gripmock", "stubs"], more].concat())
    };
    let rule = there.path().join("rules/shop.v1.cart.price.yaml");
    import(&["--dry-run"]).check(1, &["--- shop.v1.cart.price.yaml", "would carry 1 of 1 stubs"]);
    assert!(!rule.exists());
    import(&[]).check(
        1,
        &[
            "stubs/a.yaml:5: output.data.note: the template {{faker.Person.Name}} has no counterpart; it is left out\n",
            "stubs/b.yaml:2: not valid YAML: ",
            "wrote rules/shop.v1.cart.price.yaml\ncarried 1 of 1 stubs over to 1 rule file\n",
            "2 things could not be carried over",
        ],
    );
    std::fs::write(&rule, "mine").unwrap();
    import(&[]).check(
        2,
        &["rules/shop.v1.cart.price.yaml exists, so nothing is written; --overwrite replaces it"],
    );
    assert_eq!(std::fs::read_to_string(&rule).unwrap(), "mine");
    // A link is replaced, and what it leads to is not.
    let outside = there.path().join("outside");
    std::fs::write(&outside, "theirs").unwrap();
    std::fs::remove_file(&rule).unwrap();
    std::os::unix::fs::symlink(&outside, &rule).unwrap();
    import(&[]).check(2, &["exists"]);
    import(&["--overwrite"]).check(1, &["wrote"]);
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "theirs");
    assert!(std::fs::read_to_string(&rule).unwrap().contains("price: 3"));
    run(there.path(), &["mocks", "import", "gripmock", "nowhere"])
        .check(2, &["nowhere: does not exist"]);
    run(there.path(), &["mocks", "import", "gripmock", "stubs", "--protos", "none"])
        .check(2, &["there is no service in none"]);
}

/// The schema comes from a server, which is another mock here.
#[test]
fn a_mock_has_the_schema_of_a_running_server() {
    let real = RunningMock::start(&[("protos/shop.proto", SHOP)], &[]);
    let url = format!("http://{}", real.address);
    let rule = "responses: [{when: {request.sku: tea}, body: {price: 4}}, {upstream: true}]";
    let files = [("rules/shop.v1.cart.price.yaml", rule)];
    let mock = RunningMock::start(&files, &[&url, "--upstream", &url]);
    call(&mock, "Price", r#"{"sku":"tea"}"#, &["--protocol", "grpc"])
        .check(0, &[r#"{"price":"4"}"#]);
    let (status, body) = http(&mock, "GET /v1/prices/tea", "");
    assert_eq!((status, body.as_str()), (200, r#"{"price":4,"note":""}"#));
    let real = call(&real, "Price", r#"{"sku":"milk"}"#, &[]).check(0, &[]).stdout.clone();
    assert_eq!(call(&mock, "Price", r#"{"sku":"milk"}"#, &[]).check(0, &[]).stdout, real);
    // Rules are still watched, and what every server has is not mocked.
    let path = mock.path().join("rules/shop.v1.cart.price.yaml");
    std::fs::write(path, "responses: [{body: {price: 5}}]").unwrap();
    crate::program::until(|| {
        call(&mock, "Price", r#"{"sku":"tea"}"#, &[]).stdout.contains("\"5\"")
    });
    run(mock.path(), &["list", &mock.address]).check(0, &["shop.v1.Cart"]);
    let gone = folder(&[]);
    run(gone.path(), &["mock", "http://127.0.0.1:1", "--port", "0"]).check(3, &[]);
}

const EDITION: &str = r#"edition = "2023";
package ed.v1;
service Shelf { rpc Find(FindRequest) returns (Book); }
message FindRequest { string title = 1 [features.field_presence = IMPLICIT]; int32 row = 2; }
message Book { string title = 1; repeated int32 pages = 2 [features.repeated_field_encoding = EXPANDED]; Cover cover = 3; }
enum Cover { option features.enum_type = CLOSED; HARD = 1; SOFT = 2; }
"#;

/// The same as an image of buf in JSON, which `buf build -o shelf.json` writes.
const IMAGE: &str = r#"{"file":[{"name":"shelf.proto","package":"ed.v1","messageType":[
{"name":"FindRequest","field":[{"name":"title","number":1,"label":"LABEL_OPTIONAL","type":"TYPE_STRING","jsonName":"title","options":{"features":{"fieldPresence":"IMPLICIT"}}},{"name":"row","number":2,"label":"LABEL_OPTIONAL","type":"TYPE_INT32","jsonName":"row"}]},
{"name":"Book","field":[{"name":"title","number":1,"label":"LABEL_OPTIONAL","type":"TYPE_STRING","jsonName":"title"},{"name":"pages","number":2,"label":"LABEL_REPEATED","type":"TYPE_INT32","jsonName":"pages","options":{"features":{"repeatedFieldEncoding":"EXPANDED"}}},{"name":"cover","number":3,"label":"LABEL_OPTIONAL","type":"TYPE_ENUM","typeName":".ed.v1.Cover","jsonName":"cover"}]}],
"enumType":[{"name":"Cover","value":[{"name":"HARD","number":1},{"name":"SOFT","number":2}],"options":{"features":{"enumType":"CLOSED"}}}],
"service":[{"name":"Shelf","method":[{"name":"Find","inputType":".ed.v1.FindRequest","outputType":".ed.v1.Book"}]}],
"syntax":"editions","edition":"EDITION_2023","bufExtension":{"isImport":false}}]}"#;

#[test]
fn a_source_of_edition_2023_and_its_images_of_buf_are_mocked_alike() {
    let rule = "- {when: {request.row: {exists: false}}, body: {title: 'no row'}}\n\
                - {when: {request.title: {exists: false}}, body: {title: 'no title'}}\n\
                - {body: {title: '{{request.title}}', pages: [1, 2], cover: SOFT}}\n";
    let files = [
        ("sources/shelf.proto", EDITION),
        ("shelf.json", IMAGE),
        ("rules/ed.v1.shelf.find.yaml", rule),
    ];
    let made = folder(&files);
    run(made.path(), &["describe", "sources", "--descriptor-set-out", "shelf.binpb"]).check(0, &[]);
    let gzip = Command::new("gzip").args(["-k", "shelf.binpb"]).current_dir(made.path()).status();
    assert!(gzip.unwrap().success());
    for schema in ["sources", "shelf.json", "shelf.binpb", "shelf.binpb.gz"] {
        let path = made.path().join(schema).display().to_string();
        run(made.path(), &["check", "rules", &path]).check(0, &["nothing wrong"]);
        let mock = RunningMock::start(&files[2..], &[&path]);
        let find = |request: &str| call(&mock, "Find", request, &["--protocol", "grpc"]);
        find(r#"{"title":"a"}"#).check(0, &[r#"{"title":"no row"}"#]);
        find(r#"{"row":0,"title":""}"#).check(0, &[r#"{"title":"no title"}"#]);
        find(r#"{"row":0,"title":"a"}"#)
            .check(0, &[r#"{"title":"a","pages":[1,2],"cover":"SOFT"}"#]);
    }
}
