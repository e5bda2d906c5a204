//! What is known of a caller: what it holds, its command keys, its principal, and what of its
//! context goes into other calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidewire::http::{HeaderName, HeaderValue, Method, StatusCode};
use tidewire::service::{Freshness, Peer, Protocol, Signal, Token, Validator};
use tidewire::{Call, Code, Context, Error, Head, Headers, Principal, Reply, Result, Service};
use tidewire_tests::proto::*;

use super::{PROTOCOLS, answering, client, stage};
use crate::harness::{SERVICE, behaviour, send, start};

const HELD: Validator = Validator::new([0xab; 16]);

/// Says that what the caller holds is still right, whether it holds anything or not.
async fn unchanged(_: Call, _: Arc<dyn Service>) -> Result<Reply> {
    Ok(Reply::unchanged(HELD))
}

#[tokio::test]
async fn who_holds_nothing_is_never_told_that_it_is_unchanged() {
    let (_running, address) = start(stage().layer(answering(unchanged))).await;
    for protocol in PROTOCOLS {
        let client = client(address, protocol);
        let outcome = client.look(LookRequest::default()).await;
        let error = outcome.map(|_| ()).expect_err(&format!("{protocol:?}"));
        assert_eq!(error.code(), Code::Internal, "{protocol:?}: {error}");
        // A header of HTTP says nothing in a call by POST.
        let mut context = Context::default();
        let tag = HeaderValue::try_from(format!("\"{HELD}\"")).unwrap();
        context.headers_mut().insert("if-none-match", tag);
        let outcome = BehaviourService::look(&client, context, LookRequest::default()).await;
        let error = outcome.map(|_| ()).expect_err(&format!("{protocol:?}"));
        assert_eq!(error.code(), Code::Internal, "{protocol:?}: {error}");
    }
    let get = format!("GET {SERVICE}/Look?encoding=json&message=%7B%7D");
    let (plain, printed) = (format!("\"{HELD}\""), tag_of_rest().await);
    for (head, own) in [
        ("GET /plain/a", &plain),
        ("GET /things/a", &printed),
        (&*get, &plain),
        ("HEAD /plain/a", &plain),
    ] {
        let other = "00112233445566778899aabbccddeeff";
        for tags in ["", &format!("if-none-match: \"{other}\"")] {
            let answer = send(address, &format!("{head}\n{tags}"), b"").await;
            assert_eq!(answer.status, 500, "{head} {tags} {answer:?}");
        }
        for tags in [
            "if-none-match: *".to_owned(),
            format!("if-none-match: {own}"),
            format!("if-none-match: W/{own}"),
            format!("if-none-match: \"x,y\" , W/\"{other}\",{own}"),
            format!("if-none-match: \"{other}\"\nif-none-match: {own}"),
        ] {
            let answer = send(address, &format!("{head}\n{tags}"), b"").await;
            assert_eq!(answer.status, 304, "{head} {tags} {answer:?} {}", answer.text());
            assert!(answer.body.is_empty(), "{head}");
            assert!(answer.head.contains(&format!("etag: {own}")), "{head} {answer:?}");
        }
    }
    let tag = format!("if-none-match: \"{HELD}\"");
    send(address, &format!("POST /sink\n{tag}"), b"").await.check(500, &[]);
}

#[tokio::test]
async fn tags_that_are_no_validators_name_nothing() {
    let layer = answering(async |call: Call, _: Arc<dyn Service>| {
        Ok(Reply::text(call.context.caller_validators().len().to_string()))
    });
    let (_running, address) = start(stage().layer(layer)).await;
    let upper = "AB".repeat(16);
    let none = [
        upper.as_str(),
        "W/*",
        "\"\"",
        "\"",
        ",,,",
        "abababababababababababababababab",
        "\"abababababababababababababababa\"",
        "\"abababababababababababababababab",
        "w/\"abababababababababababababababab\"",
        "\"gbababababababababababababababab\"",
    ];
    for tag in none {
        let answer = send(address, &format!("GET /plain/a\nif-none-match: {tag}"), b"").await;
        answer.check(200, &["0"]);
    }
    let upper = format!("GET /plain/a\nif-none-match: \"{upper}\"");
    send(address, &upper, b"").await.check(200, &["0"]);
    let many = format!("\"{HELD}\", ").repeat(5_000 / 36);
    let answer = send(address, &format!("GET /plain/a\nif-none-match: {many}"), b"").await;
    assert!(answer.text().parse::<usize>().unwrap() >= 1, "{answer:?}");
}

/// The tag by which REST names that content: with how it is printed behind it.
async fn tag_of_rest() -> String {
    let layer = answering(async |call: Call, inner: Arc<dyn Service>| {
        let reply = inner.call(call).await?;
        Ok(reply.with_freshness(Freshness::immutable().with_validator(HELD)))
    });
    let (_running, address) = start(stage().layer(layer)).await;
    let answer = send(address, "GET /things/a", b"").await;
    let tag = answer.head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    assert!(tag.starts_with(&format!("\"{HELD}.")) && tag.len() == 32 + 1 + 16 + 2, "{tag}");
    tag.to_owned()
}

#[tokio::test]
async fn a_validator_of_an_answer_is_its_tag_on_every_get() {
    let layer = answering(async |call: Call, inner: Arc<dyn Service>| {
        let reply = inner.call(call).await?;
        Ok(reply.with_freshness(Freshness::immutable().with_validator(HELD)))
    });
    let (_running, address) = start(stage().layer(layer)).await;
    let get = format!("GET {SERVICE}/Look?encoding=json&message=%7B%7D");
    let (plain, printed) = (format!("\"{HELD}\""), tag_of_rest().await);
    for (head, own) in [("GET /plain/a", &plain), ("GET /things/a", &printed), (&*get, &plain)] {
        let answer = send(address, head, b"").await;
        assert!(answer.head.contains(&format!("etag: {own}")), "{head}: {}", answer.head);
        // The server compares by itself, although the service has not looked.
        let again = send(address, &format!("{head}\nif-none-match: {own}"), b"").await;
        assert!(again.status == 304 || again.status == 200, "{head}: {again:?}");
        assert_eq!(again.body.is_empty(), again.status == 304, "{head}: {again:?}");
    }
}

/// Answers with the command key.
async fn keyed(call: Call, _: Arc<dyn Service>) -> Result<Reply> {
    let key = call.context.command_key()?;
    Ok(Reply::text(key.map_or_else(|| "none".to_owned(), |key| key.to_string())))
}

/// A gate that believes what it is told.
fn believe(head: &mut Head) -> Result<()> {
    if let Some(who) = head.context.header("x-who").and_then(|who| who.to_str().ok()) {
        let (issuer, subject) = who.split_once('|').unwrap_or(("", who));
        let principal = Principal::new(issuer, subject);
        head.context.set_principal(principal);
    }
    Ok(())
}

#[tokio::test]
async fn a_command_key_over_http_is_the_callers_own_or_refused() {
    let (_running, address) = start(stage().gate(believe).layer(answering(keyed))).await;
    let key = async |headers: &str| send(address, &format!("POST /sink\n{headers}"), b"").await;
    key("").await.check(200, &["none"]);
    let long = format!("idempotency-key: {}", "k".repeat(255));
    key(&long).await.check(200, &[&"k".repeat(255)]);
    for bad in [
        format!("idempotency-key: {}", "k".repeat(256)),
        "idempotency-key:".into(),
        "idempotency-key: \"\"".into(),
        "idempotency-key: a b".into(),
        "idempotency-key: a\nidempotency-key: a".into(),
        "idempotency-key: \u{fc}".into(),
    ] {
        let answer = key(&bad).await;
        assert_eq!(answer.status, 400, "{bad:?}: {answer:?} {}", answer.text());
    }
    let quoted = key("idempotency-key: \"abc\"").await.text();
    assert_eq!(quoted, key("idempotency-key: abc").await.text());
    // No choice of issuer, subject and key makes one caller look like another.
    let mut keys = Vec::new();
    for who in ["", "x-who: a|b\n", "x-who: |ab\n", "x-who: ab|\n", "x-who: a|bc\n", "x-who: |\n"] {
        for id in ["c", "bc", "1:c", "abc"] {
            keys.push(key(&format!("{who}idempotency-key: {id}")).await.text());
        }
    }
    let all = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), all, "{keys:?}");
}

#[tokio::test]
async fn a_command_key_is_the_same_over_every_protocol() {
    let layer = answering(async |call: Call, inner: Arc<dyn Service>| {
        if call.context.header("idempotency-key").is_some() {
            let key = call.context.command_key()?.map(|key| key.to_string());
            return Err(Error::aborted(key.unwrap_or_default()));
        }
        inner.call(call).await
    });
    let (_running, address) = start(stage().gate(believe).layer(layer)).await;
    let plain = send(address, "POST /sink\nx-who: a|b\nidempotency-key: k", b"").await;
    let plain: serde_json::Value = serde_json::from_slice(&plain.body).unwrap();
    for protocol in PROTOCOLS {
        let mut context = Context::default();
        context.headers_mut().insert("idempotency-key", HeaderValue::from_static("k"));
        context.headers_mut().insert("x-who", HeaderValue::from_static("a|b"));
        let client = client(address, protocol);
        let error = BehaviourService::echo(&client, context, EchoRequest::default()).await;
        let error = error.unwrap_err();
        assert_eq!(
            (error.code(), error.message()),
            (Code::Aborted, plain["message"].as_str().unwrap())
        );
    }
}

#[tokio::test]
async fn the_last_gate_that_says_who_calls_is_believed() {
    let first = |head: &mut Head| {
        head.context.set_principal(Principal::new("first", "ada"));
        Ok(())
    };
    let second = |head: &mut Head| {
        assert_eq!(head.context.principal().unwrap().issuer(), "first");
        head.context.set_principal(Principal::new("second", "grace"));
        Ok(())
    };
    let third = |head: &mut Head| {
        if head.context.header("x-nobody").is_some() {
            head.context.set_principal(None);
        }
        Ok(())
    };
    let layer = answering(async |call: Call, _: Arc<dyn Service>| {
        let who = call.context.principal().map(|who| who.subject().to_owned());
        Ok(Reply::text(who.unwrap_or_else(|| "nobody".into())))
    });
    let builder = stage().gate(first).gate(second).gate(third).layer(layer);
    let (_running, address) = start(builder).await;
    send(address, "GET /plain/a", b"").await.check(200, &["grace"]);
    send(address, "GET /plain/a\nx-nobody: 1", b"").await.check(200, &["nobody"]);
}

#[test]
fn an_outgoing_context_has_deadline_trace_and_tokens_and_nothing_else() {
    let mut headers = Headers::new();
    for name in [
        "authorization",
        "cookie",
        "proxy-authorization",
        "x-api-key",
        "idempotency-key",
        "if-none-match",
        "x-forwarded-for",
        "x-forwarded-client-cert",
        "grpc-timeout",
        "connect-timeout-ms",
        "content-type",
        "baggage",
        "host",
        "te",
        "www-authenticate",
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static("secret"));
    }
    headers.insert("traceparent", HeaderValue::from_static("00-1-2-01"));
    headers.append("tracestate", HeaderValue::from_static("a=1"));
    headers.append("tracestate", HeaderValue::from_static("b=2"));
    let deadline = Instant::now() + Duration::from_secs(9);
    let mut context = Context::new(headers)
        .with_deadline(deadline)
        .with_peer(Arc::new(Peer::new(None)))
        .with_protocol(Protocol::Grpc)
        .with_conditions()
        .with_stopping(Signal::new());
    context.set_principal(Principal::new("a", "b"));
    context.set_command("client", "id");
    context.set_held(vec![HELD]);
    context.add_tokens(&Token::new("seen").unwrap().into());
    context.extensions_mut().insert(7_u32);
    let outgoing = context.outgoing();
    let names: Vec<_> =
        outgoing.headers().iter().map(|(name, value)| (name.as_str(), value)).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    let states: Vec<_> = outgoing.headers().get_all("tracestate").iter().collect();
    assert_eq!(states, ["a=1", "b=2"]);
    assert_eq!(outgoing.header("traceparent").unwrap(), "00-1-2-01");
    assert_eq!(outgoing.deadline(), Some(deadline));
    assert_eq!(outgoing.tokens(), context.tokens());
    assert!(outgoing.principal().is_none() && outgoing.peer().is_none());
    assert!(outgoing.protocol().is_none() && outgoing.caller_validators().is_empty());
    assert!(outgoing.command_key().unwrap().is_none() && outgoing.extensions().is_empty());
}

#[tokio::test]
async fn a_handler_learns_of_a_drain_and_ends_its_stream_by_it() {
    let ticking = async |call: Call| {
        let stopping = call.context.stopping();
        let first = futures_util::stream::iter([Ok("first ".into())]);
        let last = futures_util::stream::once(async move {
            stopping.await;
            Ok("last".into())
        });
        let body = tidewire::Body::stream(futures_util::StreamExt::chain(first, last));
        Ok(Reply::new(body))
    };
    let (builder, _) = behaviour();
    let builder = builder.route(Method::GET, "/ticking", ticking);
    let (running, address) = start(builder).await;
    let (told, begun) = tokio::sync::oneshot::channel();
    let reading = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /ticking HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut answer = vec![stream.read_u8().await.unwrap()];
        told.send(()).unwrap();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    });
    begun.await.unwrap();
    assert!(running.drain().await, "everything ended by itself");
    let answer = reading.await.unwrap();
    assert!(answer.contains("first ") && answer.contains("last\r\n0\r\n\r\n"), "{answer}");
    let within = Context::default().stopping();
    assert!(futures_util::FutureExt::now_or_never(within).is_none());
}

#[tokio::test]
async fn unchanged_with_a_script_or_with_freshness_stays_unchanged() {
    for made in [
        Reply::unchanged(HELD)
            .with_script(tidewire::service::Script::new(tidewire::service::Fault::LoseTrailers)),
        Reply::unchanged(HELD).with_freshness(Freshness::lasting(Duration::from_secs(1))),
    ] {
        assert!(made.is_unchanged());
        assert!(made.is_held(&[HELD]) && !made.is_held(&[]));
    }
    let upgrade = tidewire::service::Upgrade::new(async |_| ());
    let upgrade = Reply::upgrade(StatusCode::SWITCHING_PROTOCOLS, upgrade);
    let mut upgrade = upgrade.with_script(tidewire::service::Script::default());
    assert!(upgrade.script().is_some());
    assert!(upgrade.take_upgrade().is_some() && upgrade.take_upgrade().is_none());
}
