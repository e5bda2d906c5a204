//! The docs page: where it is, who may load it, and what it is told.

use http::Method;
use serde_json::Value;
use tidewire_rest::RestOptions;
use tidewire_schema::{Schema, Sources};
use tidewire_server::{AccessRules, Address, Builder, RunningServer, Server};
use tidewire_service::{Access, Call, Error, Gate, Head, Reply};

use super::rest::service::builder;
use crate::http::{Answer, get, send};

async fn started(builder: Builder) -> RunningServer {
    builder.start().await.unwrap()
}

fn plain() -> Builder {
    builder(RestOptions::default())
}

fn json(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_slice(&answer.body).unwrap()
}

#[tokio::test]
async fn it_is_on_where_reflection_is_and_every_address_is_local_or_where_it_was_asked_for() {
    let everywhere = || Address::Tcp(([0, 0, 0, 0], 0).into());
    for (builder, expected) in [
        (plain(), 200),
        (plain().docs(false), 404),
        (plain().reflection(false), 404),
        (plain().listen(everywhere()), 404),
        (plain().listen(everywhere()).reflection(true), 404),
        (plain().listen(everywhere()).reflection(true).docs(true), 200),
    ] {
        let server = started(builder).await;
        for path in ["/docs", "/docs/docs.js", "/docs/services.json"] {
            assert_eq!(get(&server, path).await.status, expected, "{path}");
        }
        assert_eq!(server.docs_url().is_some(), expected == 200);
    }
    let error = plain().reflection(false).docs(true).start().await.unwrap_err().to_string();
    assert!(error.contains("server.docs is on and reflection is off"), "{error}");
    let server = started(Server::builder().listen("127.0.0.1:0".parse::<Address>().unwrap())).await;
    assert_eq!(get(&server, "/docs").await.status, 404, "no service is there to describe");
}

#[tokio::test]
async fn what_a_program_has_at_the_path_stays() {
    let own = async |_: Call| Ok(Reply::text("our own"));
    for builder in [
        plain().route(Method::GET, "/docs", own),
        plain().route(Method::GET, "/docs/{page}", own).route(Method::GET, "/docs", own),
        plain().mount("/docs", own),
        plain().mount("/", own),
        plain().route(Method::GET, "/{page}", own),
        plain().docs(true).route(Method::GET, "/docs", own),
    ] {
        let server = started(builder).await;
        assert_eq!(get(&server, "/docs").await.text(), "our own");
        assert_eq!(server.docs_url(), None);
    }
    let server = started(plain().docs(true).mount("/", own)).await;
    assert!(get(&server, "/docs").await.text().contains("docs/docs.js"), "it was asked for");
    assert_eq!(get(&server, "/other").await.text(), "our own");
}

#[tokio::test]
async fn a_binding_of_a_method_at_the_path_stays() {
    let folder = tempfile::tempdir().unwrap();
    let proto = r#"syntax = "proto3";
        package a;
        import "google/api/annotations.proto";
        service Pages { rpc Get(Page) returns (Page) {
          option idempotency_level = NO_SIDE_EFFECTS;
          option (google.api.http) = { get: "/{name}" };
        } }
        message Page { string name = 1; }"#;
    std::fs::write(folder.path().join("a.proto"), proto).unwrap();
    let schema = Schema::compile(&Sources::new().folder(folder.path())).unwrap();
    let echo = async |call: Call| {
        Ok(Reply::new(tidewire_service::Body::Full(call.body.collect(1000).await?)))
    };
    let service = schema.serve("a.Pages", echo).unwrap();
    let address: Address = "127.0.0.1:0".parse().unwrap();
    let server = started(Server::builder().listen(address).service(service).docs(true)).await;
    let answer = get(&server, "/docs").await;
    assert_ne!(answer.header("content-type"), Some("text/html; charset=utf-8"), "{answer:?}");
}

struct Closed;

impl Gate for Closed {
    fn admit(&self, _: &mut Head) -> tidewire_service::Admission {
        tidewire_service::Admission::Ready(Err(Error::unauthenticated("nobody passes")))
    }
}

#[tokio::test]
async fn it_has_the_access_rule_of_reflection() {
    let rules = AccessRules::default;
    for (rules, expected) in [
        (rules(), 200),
        (rules().otherwise(Access::Authenticated), 401),
        (rules().otherwise(Access::Authenticated).reflection(Access::Anonymous), 200),
        (rules().reflection(Access::Authenticated), 401),
        (rules().reflection(Access::Authenticated).path("/docs/*", Access::Anonymous), 200),
    ] {
        let server = started(plain().access(rules.clone())).await;
        for path in ["/docs", "/docs/style.css", "/docs/services.json", "/docs/methods/a.B/C"] {
            let status = get(&server, path).await.status;
            let expected = if path.ends_with('C') && expected == 200 { 404 } else { expected };
            assert_eq!(status, expected, "{path} {rules:?}");
        }
    }
    for (rules, expected) in [(rules(), 401), (rules().reflection(Access::Anonymous), 200)] {
        let server = started(plain().access(rules).gate(Closed)).await;
        assert_eq!(get(&server, "/docs/services.json").await.status, expected);
    }
}

#[tokio::test]
async fn its_files_may_load_nothing_from_elsewhere_and_run_no_inline_script() {
    let server = started(plain()).await;
    for path in ["/docs", "/docs/docs.js", "/docs/services.json"] {
        let answer = get(&server, path).await;
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    let page = get(&server, "/docs").await;
    for link in page.text().split(['"', ' ']).filter(|word| word.starts_with("docs/")) {
        assert_eq!(get(&server, &format!("/{link}")).await.status, 200, "{link}");
    }
    let script = get(&server, "/docs/docs.js").await;
    for import in script.text().lines().filter(|line| line.starts_with("import ")) {
        let name = import.split("\"./").nth(1).unwrap().trim_end_matches("\";");
        assert_eq!(get(&server, &format!("/docs/{name}")).await.status, 200, "{name}");
    }
    assert_eq!(get(&server, "/docs/").await.header("location"), Some("../docs"));
}

#[tokio::test]
async fn services_are_told_with_comments_types_samples_and_bindings_that_answer() {
    let server = started(plain()).await;
    let list = json(&get(&server, "/docs/services.json").await);
    let services = list["services"].as_array().unwrap();
    assert_eq!(services.len(), 1, "the server's own are not among them: {list}");
    assert_eq!((&services[0]["name"], &list["openapi"]), (&"rest.v1.Echo".into(), &true.into()));
    let methods = services[0]["methods"].as_array().unwrap();
    let bound = methods.iter().find(|method| !method["rest"].as_array().unwrap().is_empty());
    let bound = bound.unwrap();
    assert!(bound["rest"][0]["template"].as_str().unwrap().starts_with('/'), "{bound}");
    let path = bound["path"].as_str().unwrap();
    let method = json(&get(&server, &format!("/docs/methods/{path}")).await);
    assert!(method["proto"].as_str().unwrap().contains("rpc "), "{method}");
    assert_eq!(method["types"][0]["name"], bound["input"]);
    assert!(method["sample"].as_str().unwrap().starts_with('{'), "{method}");
    assert_eq!(get(&server, "/docs/methods/rest.v1.Echo/None").await.status, 404);
}

#[tokio::test]
async fn a_front_page_says_what_there_is_and_sends_browsers_to_the_page() {
    let server = started(plain().front_page("Echoes.")).await;
    let text = get(&server, "/").await;
    assert!(text.text().starts_with("Echoes.\n\nrest.v1.Echo\n  "), "{text:?}");
    assert!(text.text().contains("/docs") && text.text().contains("/openapi.json"), "{text:?}");
    let browser = send(&server, "GET", "/", "accept: text/html,*/*\r\n", b"").await;
    assert_eq!((browser.status, browser.header("location")), (307, Some("docs")));
    let hidden = started(plain().front_page("Echoes.").reflection(false)).await;
    assert_eq!(get(&hidden, "/").await.status, 404);
    let own = async |_: Call| Ok(Reply::text("our own"));
    let taken = started(plain().front_page("Echoes.").route(Method::GET, "/", own)).await;
    assert_eq!(get(&taken, "/").await.text(), "our own");
}
