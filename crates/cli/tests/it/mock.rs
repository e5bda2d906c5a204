//! `tidewire mock`, and `tidewire check` of rules.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::program::{command, folder, run, until};

const SHOP: &str = r#"syntax = "proto3";
package shop.v1;
service Cart { rpc Price(PriceRequest) returns (PriceReply); }
message PriceRequest { string sku = 1; }
message PriceReply { string email = 1; int64 price = 2; }
"#;

/// A running program, ended when it goes out of scope.
struct RunningServer(Child, String);

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(here: &std::path::Path, arguments: &[&str]) -> RunningServer {
    let anywhere = ["--listen", "127.0.0.1:0"];
    let listen = if arguments.contains(&"--listen") { &[][..] } else { &anywhere };
    let arguments = [&["mock"], listen, arguments].concat();
    let mut child =
        command(here, &arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").expect(&line).to_owned();
    RunningServer(child, address)
}

#[test]
fn every_method_answers_by_rules_or_from_the_schema() {
    let rule = "responses: [{when: {request.sku: tea}, body: {price: 4}}]";
    let here = folder(&[("protos/shop.proto", SHOP), ("rules/shop.v1.cart.price.yaml", rule)]);
    let server = start(here.path(), &[]);
    for protocol in ["connect", "grpc", "grpc-web"] {
        let words = ["call", &server.1, "Price", r#"{"sku":"tea"}"#, "--protocol", protocol];
        run(here.path(), &words).check(0, &["{\"price\":\"4\"}"]);
    }
    let bare = folder(&[("protos/shop.proto", SHOP)]);
    let server = start(bare.path(), &["--seed", "7"]);
    run(bare.path(), &["call", &server.1, "Price"]).check(0, &["@example.com"]);
}

#[test]
fn a_method_with_scopes_answers_everybody_unless_credentials_are_configured() {
    let scopes = "returns (PriceReply) { option (tidewire.v1.method) = { scopes: [\"read\"] }; }";
    let proto = SHOP.replace("returns (PriceReply);", scopes);
    let proto = proto
        .replace("package shop.v1;", "package shop.v1;\nimport \"tidewire/v1/options.proto\";");
    let here = folder(&[("protos/shop.proto", &proto)]);
    let server = start(here.path(), &[]);
    run(here.path(), &["call", &server.1, "Price"]).check(0, &["@example.com"]);
    let key = "[[auth.api_key]]\nsubject = \"ada\"\nsha256 = \"9f86d081884c7d659a2feaa0c55ad015\
               a3bf4f1b2b0b822cd15d6c15b0f00a08\"\n";
    let here = folder(&[("protos/shop.proto", &proto), ("tidewire.toml", key)]);
    let server = start(here.path(), &[]);
    run(here.path(), &["call", &server.1, "Price"]).check(80, &["unauthenticated"]);
}

#[test]
fn who_watches_an_answer_goes_on_when_its_server_is_started_anew() {
    let query = "returns (PriceReply) { option idempotency_level = NO_SIDE_EFFECTS; }";
    let proto = SHOP.replace("returns (PriceReply);", query);
    let rule =
        |price| format!("responses: [{{when: {{state.a: b}}}}, {{body: {{price: {price}}}}}]");
    let name = "rules/shop.v1.cart.price.yaml";
    let here = folder(&[("protos/shop.proto", &proto), (name, &rule(4))]);
    let server = start(here.path(), &[]);
    let address = server.1.clone();
    let mut watch = command(here.path(), &["call", &address, "Price", "{}", "--watch"]);
    let watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut watch = RunningServer(watch, String::new());
    let mut lines = BufReader::new(watch.0.stdout.take().unwrap()).lines();
    let mut told = BufReader::new(watch.0.stderr.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), r#"{"price":"4"}"#);
    drop(server);
    let away = told.next().unwrap().unwrap();
    assert!(away.starts_with("the server is away ("), "{away}");
    std::fs::write(here.path().join(name), rule(7)).unwrap();
    let _server = start(here.path(), &["--listen", &address]);
    assert_eq!(lines.next().unwrap().unwrap(), r#"{"price":"7"}"#);
}

#[test]
fn a_folder_without_a_service_is_refused() {
    let here = folder(&[("protos/a.proto", "syntax = \"proto3\"; message A {}")]);
    run(here.path(), &["mock", "--listen", "127.0.0.1:0"])
        .check(2, &["there is no service in protos"]);
}

#[test]
fn the_schema_of_rules_is_printed_for_editors() {
    let here = folder(&[]);
    let printed = run(here.path(), &["mock", "--schema"]);
    printed.check(0, &["\"stream_items\""]);
    let json: serde_json::Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!(json["title"], "Rules of one method of a mock");
}

#[test]
fn rules_are_checked_with_line_column_and_what_was_meant() {
    let rule = "responses:\n  - when: {request.skuu: tea}\n    body: {price: dear}\n";
    let files = [
        ("protos/shop.proto", SHOP),
        ("rules/shop.v1.cart.price.yaml", rule),
        ("rules/shop.v1.cart.prize.yaml", "[]"),
    ];
    let here = folder(&files);
    run(here.path(), &["check", "rules"]).check(
        1,
        &[
            "rules/shop.v1.cart.price.yaml:2:12: warning: shop.v1.PriceRequest has no field skuu",
            "write sku",
            "rules/shop.v1.cart.price.yaml:3:19: error: price: the text \"dear\" is not a valid int64",
            "    3 |     body: {price: dear}",
            "rules/shop.v1.cart.prize.yaml: warning: no method is called shop.v1.cart.prize",
            "checked 2 files",
        ],
    );
    run(here.path(), &["check", "rules/shop.v1.cart.price.yaml", "protos"]).check(1, &["3:19"]);
    run(here.path(), &["check"]).check(1, &["3:19"]);
    let alone = folder(&[("rules/shop.v1.cart.price.yaml", rule)]);
    run(alone.path(), &["check", "rules"]).check(2, &["name both: tidewire check my-protos rules"]);
}

#[test]
fn a_rule_file_by_itself_is_checked_with_what_it_includes() {
    let shared = "vars: {note: shared}\nresponses: [{body: {price: dear}}]";
    let here = folder(&[
        ("protos/shop.proto", crate::mocked::SHOP),
        ("rules/more/shop.v1.cart.price.yaml", "include: ../_one.yaml\nresponses: []"),
        ("rules/_one.yaml", "include: [sub/_two.yaml]\nvars: {a: 1}"),
        ("rules/sub/_two.yaml", shared),
        ("rules/shop.v1.cart.watch.yaml", "include: _missing.yaml"),
    ]);
    let check = |path: &str| run(here.path(), &["check", path]);
    check("rules/more/shop.v1.cart.price.yaml")
        .check(1, &["rules/sub/_two.yaml:2:28: error", "dear"]);
    std::fs::write(here.path().join("rules/sub/_two.yaml"), shared.replace("dear", "7")).unwrap();
    check("rules/more/shop.v1.cart.price.yaml").check(0, &["nothing wrong"]);
    let missing = "rules/_missing.yaml is not among the rule files";
    check("rules/shop.v1.cart.watch.yaml").check(1, &[missing]);
    check("rules").check(1, &[missing]);
}

#[test]
fn a_check_says_which_rules_want_a_real_service() {
    let rule = "responses:\n  - {when: {request.sku: a}, upstream: true}\n  - {upstream: true}\n";
    let here = folder(&[("protos/shop.proto", crate::mocked::SHOP), (crate::mocked::FILE, rule)]);
    let ran = run(here.path(), &["check", "--strict", "rules"]);
    ran.check(0, &["nothing wrong"]);
    let told = "shop.v1.cart.price.yaml:2 and 1 more: upstream: true has nobody to answer unless";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
}

#[test]
fn a_long_value_in_a_rule_is_shown_by_its_beginning() {
    let long = "x".repeat(400_000);
    let rule = format!("responses: [{{body: {{note: a, price: {long}}}}}]");
    let here = folder(&[("protos/shop.proto", crate::mocked::SHOP), (crate::mocked::FILE, &rule)]);
    let ran = run(here.path(), &["check", "rules"]);
    ran.check(1, &["price: the text \"xxxx", "    1 | responses: [{body: {note: a, price: xxxx"]);
    assert!(ran.stdout.lines().all(|line| line.len() < 600), "{}", ran.stdout.len());
}

#[test]
fn a_rule_that_breaks_while_it_is_served_is_logged_and_the_old_one_stays() {
    let rule = "responses: [{body: {price: 4}}]";
    let files = [("protos/shop.proto", SHOP), ("rules/shop.v1.cart.price.yaml", rule)];
    let here = folder(&files);
    let mut child = command(here.path(), &["mock", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").expect(&line).to_owned();
    let server = RunningServer(child, address);
    std::fs::write(here.path().join(files[1].0), "responses: [{body: {price: ").unwrap();
    let mut told = log.by_ref().map(Result::unwrap);
    let fault = told.find(|line| line.contains("not valid YAML")).unwrap();
    assert!(fault.contains("rules/shop.v1.cart.price.yaml:2:1"), "{fault}");
    assert!(fault.ends_with("; what it said before stays"), "{fault}");
    run(here.path(), &["call", &server.1, "Price"]).check(0, &["{\"price\":\"4\"}"]);
}

#[test]
fn a_service_with_a_broken_rule_of_validation_fails_its_calls_and_others_are_served() {
    let rule = "import \"buf/validate/validate.proto\";\nservice Cart";
    let good = SHOP
        .replace("service Cart", rule)
        .replace("string sku = 1;", "string sku = 1 [(buf.validate.field).string.min_len = 3];");
    let bad = "syntax = \"proto3\";\npackage b;\nimport \"buf/validate/validate.proto\";\n\
        service Bad { rpc Do(Asked) returns (Asked); }\n\
        message Asked { string name = 1 [(buf.validate.field).string.pattern = \"[\"]; }\n";
    let here = folder(&[("protos/shop.proto", &*good), ("protos/bad.proto", bad)]);
    let server = start(here.path(), &["--validate"]);
    run(here.path(), &["call", &server.1, "Price", r#"{"sku":"tea"}"#]).check(0, &["price"]);
    let refused = run(here.path(), &["call", &server.1, "Price", r#"{"sku":"x"}"#]);
    refused.check(67, &["invalid_argument"]);
    run(here.path(), &["call", &server.1, "Do"]).check(77, &["internal", "b.Bad", "bad.proto"]);
}

#[test]
fn a_fifo_beside_rules_is_named_and_stops_neither_check_nor_reloads() {
    let rule = "responses: [{body: {price: 4}}]";
    let files = [("protos/shop.proto", SHOP), ("rules/shop.v1.cart.price.yaml", rule)];
    let here = folder(&files);
    let fifo = here.path().join("rules/x.yaml");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    run(here.path(), &["check", "rules"]).check(1, &["x.yaml", "it is not a regular file"]);
    let server = start(here.path(), &[]);
    run(here.path(), &["call", &server.1, "Price"]).check(0, &["{\"price\":\"4\"}"]);
    std::fs::write(here.path().join(files[1].0), rule.replace('4', "5")).unwrap();
    // It is live once it is; asked until then.
    let is_live = || {
        let asked = command(here.path(), &["call", &server.1, "Price"]).output().unwrap();
        String::from_utf8_lossy(&asked.stdout).contains("{\"price\":\"5\"}")
    };
    until(is_live);
}

#[test]
fn a_mock_ends_when_its_standard_input_does() {
    let here = folder(&[("protos/shop.proto", SHOP)]);
    let arguments = ["mock", "--listen", "127.0.0.1:0", "--until-stdin-closes"];
    let mut child = command(here.path(), &arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").expect(&line).to_owned();
    run(here.path(), &["call", &address, "Price"]).check(0, &[]);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}
