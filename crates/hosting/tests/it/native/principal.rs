//! Who calls, as a program is told by its library, and with whose rights it calls on.

use http::HeaderValue;
use http::header::AUTHORIZATION;
use serde_json::json;
use tidewire_service::{Code, Codec, Context, Error};

use super::{Gateway, json_of, key};
use crate::principal::Names;

pub(super) async fn all(command: &[String]) {
    let limits = crate::patient_limits();
    let gateway =
        Gateway::start_with(command, Codec::Json, limits, |server| server.gate(Names)).await;
    a_program_is_told_who_calls(&gateway).await;
    a_reply_that_is_kept_is_its_callers_or_says_of_nobody(&gateway).await;
    a_program_calls_on_as_itself_or_as_its_caller(&gateway).await;
    gateway.stop().await;
}

/// What a method says of who calls it, and how often it and its like ran by then.
async fn who(gateway: &Gateway, method: &str, name: &str, text: &str) -> Result<String, Error> {
    let mut context = Context::default();
    context.headers_mut().insert("x-tenant", HeaderValue::from_static("a"));
    let forged = HeaderValue::from_static(r#"{"issuer":"i","subject":"root"}"#);
    context.headers_mut().insert("tidewire-principal", forged);
    if !name.is_empty() {
        let said = HeaderValue::from_str(&format!("Bearer {name}")).unwrap();
        context.headers_mut().insert(AUTHORIZATION, said);
    }
    let reply = gateway.reply(method, context, json!({ "text": text }).to_string()).await?;
    Ok(json_of(reply).await?["text"].as_str().unwrap().to_owned())
}

/// The same without the number.
async fn asked(gateway: &Gateway, method: &str, name: &str, text: &str) -> String {
    let said = who(gateway, method, name, text).await.unwrap();
    said.rsplit_once(' ').unwrap().0.to_owned()
}

const ADA: &str = "https://id.example \u{e4}da \"\\ \u{1f30a} read+write a true";
const BOB: &str = "https://id.example \u{e4}bob \"\\ \u{1f30a} write a false";
const ITSELF: &str = "tidewire service/hosted  - false";

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_nobody_but_itself_or_whose_credential_it_shows() {
    let (command, limits) = (super::python("threads"), crate::patient_limits());
    let gateway =
        Gateway::start_with(&command, Codec::Json, limits, |server| server.gate(Names)).await;
    for said in [
        r#"tidewire-principal: {"issuer":"i","subject":"root"}"#,
        r#"Tidewire_Principal: {"issuer":"i","subject":"root"}"#,
        "apart",
    ] {
        assert_eq!(asked(&gateway, "Who", "da", said).await, ITSELF, "{said}");
    }
    assert_eq!(asked(&gateway, "Who", "da", "authorization: Bearer bob").await, BOB);
    for (said, code) in [
        ("apart as caller", Code::FailedPrecondition),
        ("tidewire-rights: root", Code::InvalidArgument),
    ] {
        let refused = who(&gateway, "Who", "da", said).await.unwrap_err();
        assert_eq!(refused.code(), code, "{said}: {refused}");
    }
    gateway.stop().await;
}

async fn a_program_is_told_who_calls(gateway: &Gateway) {
    for method in ["Who", "WhoQuery"] {
        assert_eq!(asked(gateway, method, "da", "").await, ADA, "{method}");
        assert_eq!(asked(gateway, method, "bob", "").await, BOB, "{method}");
        assert_eq!(asked(gateway, method, "", "").await, "nobody", "{method}");
    }
}

async fn a_reply_that_is_kept_is_its_callers_or_says_of_nobody(gateway: &Gateway) {
    let ada = who(gateway, "WhoCaller", "da", "").await.unwrap();
    let bob = who(gateway, "WhoCaller", "bob", "").await.unwrap();
    assert!(ada.starts_with(ADA) && bob.starts_with(BOB), "{ada}, {bob}");
    assert_eq!(who(gateway, "WhoCaller", "da", "").await.unwrap(), ada, "it is kept");
    assert_eq!(asked(gateway, "WhoCaller", "", "").await, "nobody");
    for method in ["WhoPublic", "WhoVary"] {
        let kept = who(gateway, method, "da", "").await.unwrap();
        assert!(kept.starts_with("nobody "), "{method}: {kept}");
        assert_eq!(who(gateway, method, "bob", "").await.unwrap(), kept, "{method}: it is kept");
    }
    gateway.text("Set", &key()).await.unwrap();
}

async fn a_program_calls_on_as_itself_or_as_its_caller(gateway: &Gateway) {
    for method in ["Who", "WhoQuery", "WhoCaller"] {
        assert_eq!(asked(gateway, method, "da", "self").await, ITSELF, "{method}");
        assert_eq!(asked(gateway, method, "da", "caller").await, ADA, "{method}");
        assert_eq!(asked(gateway, method, "bob", "caller").await, BOB, "{method}");
        assert_eq!(asked(gateway, method, "", "self").await, ITSELF, "{method}");
        assert_eq!(asked(gateway, method, "", "caller").await, "nobody", "{method}");
    }
    for method in ["WhoPublic", "WhoVary"] {
        assert_eq!(asked(gateway, method, "da", "self").await, ITSELF, "{method}");
        let refused = who(gateway, method, "da", "caller").await.unwrap_err();
        // What a call within is refused by is the program's own fault for who calls one in Rust.
        let codes = [Code::FailedPrecondition, Code::Internal];
        assert!(codes.contains(&refused.code()), "{method}: {refused}");
    }
}
