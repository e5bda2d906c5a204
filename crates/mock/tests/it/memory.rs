//! What calls leave behind: uses, attempts, state, sessions, the log and its verification.

use serde_json::json;
use tidewire_mock::{Calls, RuleFiles, Times};
use tidewire_service::{Code, Context};

use crate::harness::{PRICE, call, call_in, json_of, message, session, shop, sku, with_rules};

#[tokio::test(start_paused = true)]
async fn times_sequences_and_attempts_count_in_their_session() {
    let mock = with_rules(
        PRICE,
        "responses:
  - {when: {request.sku: twice}, times: 2, error: {code: UNAVAILABLE, message: again}}
  - {when: {request.sku: steps}, body: {price: 9}, sequence: [{body: {note: one}}, {error: {code: ABORTED}}, {delay_ms: 0}]}
  - {when: {request.sku: round}, cycle: true, sequence: [{body: {note: a}}, {body: {note: b}}]}
  - {when: {attempt: {gt: 12}}, body: {note: enough}}
  - {body: {note: 'attempt {{attempt}}'}}
",
    );
    for expected in [Some(Code::Unavailable), Some(Code::Unavailable), None] {
        let error = call(&mock, "Price", &[sku("twice")]).await.err();
        assert_eq!(error.map(|error| error.code()), expected);
    }
    assert_eq!(message(&mock, "Price", sku("steps")).await, json!({"note": "one"}));
    assert_eq!(call(&mock, "Price", &[sku("steps")]).await.unwrap_err().code(), Code::Aborted);
    assert_eq!(
        message(&mock, "Price", sku("steps")).await,
        json!({"price": "9"}),
        "what the response says itself"
    );
    assert_eq!(
        message(&mock, "Price", sku("steps")).await,
        json!({"price": "9"}),
        "the last one stays"
    );
    for note in ["a", "b", "a"] {
        assert_eq!(message(&mock, "Price", sku("round")).await["note"], note);
    }
    assert_eq!(message(&mock, "Price", sku("x")).await["note"], "attempt 11");
    message(&mock, "Price", sku("x")).await;
    assert_eq!(message(&mock, "Price", sku("x")).await["note"], "enough");
    let other = call_in(&mock, session("other"), "Price", &[sku("x")]).await.unwrap();
    assert_eq!(json_of(other)["note"], "attempt 1", "another session");
    mock.reset(None);
    assert_eq!(message(&mock, "Price", sku("x")).await["note"], "attempt 1");
}

#[tokio::test(start_paused = true)]
async fn a_scenario_is_state_that_rules_set_and_ask_for() {
    let mock = with_rules(
        PRICE,
        "responses:
  - {when: {request.sku: pay, state.cart: open}, set_state: {cart: paid, by: '{{metadata.x-user}}'}, body: {note: paid}}
  - {when: {request.sku: open}, set_state: {cart: open}, body: {note: opened}}
  - {when: {state.cart: paid}, body: {note: 'paid by {{state.by}}'}}
  - {when: {request.sku: drop}, set_state: {cart: null}, body: {note: dropped}}
  - {body: {note: nothing}}
",
    );
    let user = || session("s").with_header("x-user", "ada").unwrap();
    let mut notes = Vec::new();
    for request in ["pay", "open", "pay", "look"] {
        notes.push(
            json_of(call_in(&mock, user(), "Price", &[sku(request)]).await.unwrap())["note"]
                .clone(),
        );
    }
    assert_eq!(notes, ["nothing", "opened", "paid", "paid by ada"]);
    assert_eq!(message(&mock, "Price", sku("look")).await["note"], "nothing", "another session");
}

#[tokio::test(start_paused = true)]
async fn a_hundred_sessions_at_once_do_not_see_one_another() {
    let mock =
        with_rules(PRICE, "responses: [{times: 1, body: {note: first}}, {body: {note: later}}]");
    let names: Vec<&'static str> =
        (0..100).map(|n| &*Box::leak(format!("s{n}").into_boxed_str())).collect();
    let request = [sku("a")];
    let calls = names.iter().map(|name| call_in(&mock, session(name), "Price", &request));
    for reply in futures_util::future::join_all(calls).await {
        assert_eq!(json_of(reply.unwrap())["note"], "first");
    }
    let wanted = Calls::of("shop.v1.Cart/Price").in_session("s42");
    mock.verify(&wanted, Times::Exactly(1)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn calls_are_verified_and_near_misses_told_field_by_field() {
    let (mock, _) = shop().build();
    for (name, quantity) in [("tea", 2), ("tea", 3), ("milk", 7)] {
        call(&mock, "Price", &[json!({"sku": name, "quantity": quantity})]).await.unwrap();
    }
    let price = || Calls::of("shop.v1.Cart/Price");
    mock.verify(&price(), Times::Exactly(3)).unwrap();
    mock.verify(&price().with("quantity", json!({"gte": 3})), Times::AtLeast(2)).unwrap();
    mock.verify(&Calls::of("shop.v1.Cart/Watch"), Times::Never).unwrap();
    mock.verify_order(&[price().with("sku", "tea"), price().with("sku", "milk")]).unwrap();

    let missed = mock
        .verify(&price().with("sku", "tea").with("quantity", 7), Times::Exactly(1))
        .unwrap_err();
    assert_eq!(
        missed.to_string(),
        "expected exactly 1 call of shop.v1.Cart/Price with sku \"tea\" and quantity 7, got 0
  closest: call 3
    sku is \"milk\", wanted \"tea\"
  closest: call 2
    quantity is \"3\", wanted 7
  closest: call 1
    quantity is \"2\", wanted 7"
    );
    let often = mock.verify(&price().with("sku", "milk"), Times::Never).unwrap_err();
    assert_eq!(
        often.to_string(),
        "expected no calls of shop.v1.Cart/Price with sku \"milk\", got 1\n  came: call 3"
    );
    let order =
        mock.verify_order(&[price().with("sku", "milk"), price().with("sku", "tea")]).unwrap_err();
    assert!(
        order.to_string().contains(" after call 3, a call of ")
            && order.to_string().ends_with("; it came before, as call 1"),
        "{order}"
    );
    mock.reset(None);
    mock.verify(&price(), Times::Never).unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_log_is_bounded_and_says_what_it_forgot() {
    let (mock, _) = shop().log_calls(2).build();
    for _ in 0..5 {
        call(&mock, "Price", &[sku("a")]).await.unwrap();
    }
    let calls = mock.calls(&Calls::all());
    assert_eq!(calls.iter().map(|call| call.number).collect::<Vec<_>>(), [4, 5]);
    let missed = mock.verify(&Calls::all(), Times::Exactly(5)).unwrap_err();
    assert!(missed.to_string().contains("the log has forgotten 3 calls"), "{missed}");
}

#[tokio::test(start_paused = true)]
async fn the_log_names_the_response_that_answered() {
    let mock = with_rules(
        PRICE,
        "responses:\n  - {name: cheap, when: {request.sku: tea}, body: {}}\n  - error: {code: 5}\n",
    );
    call(&mock, "Price", &[sku("tea")]).await.unwrap();
    call(&mock, "Price", &[sku("x")]).await.unwrap_err();
    let calls = mock.calls(&Calls::all());
    let rules: Vec<_> =
        calls.iter().map(|call| (call.rule.clone().unwrap().line, call.error)).collect();
    assert_eq!(rules, [(2, None), (3, Some(Code::NotFound))]);
    assert_eq!(calls[0].rule.clone().unwrap().name.as_deref(), Some("cheap"));
}

#[tokio::test(start_paused = true)]
async fn a_preview_changes_nothing_and_says_why_each_response_would_not_answer() {
    let mock = with_rules(
        PRICE,
        "match: {request: {quantity: {lt: 10}}}
responses:
  - {when: {request.sku: tea, metadata.x-tenant: acme}, times: 1, set_state: {seen: true}, body: {note: tea}}
  - {body: {note: fallback}}
",
    );
    let headers = tidewire_service::Headers::new();
    let preview = mock
        .preview("shop.v1.Cart/Price", &[json!({"sku": "milk", "quantity": 12})], &headers)
        .unwrap();
    assert_eq!(preview.gate_misses, ["request.quantity is \"12\", wanted {\"lt\":10}"]);
    assert_eq!(
        preview.responses[0].misses,
        ["request.sku is \"milk\", wanted \"tea\"", "metadata.x-tenant is absent, wanted \"acme\""]
    );
    assert_eq!((preview.responses[0].is_chosen, preview.responses[1].is_chosen), (false, true));
    assert!(mock.calls(&Calls::all()).is_empty());
    let wrong = mock.preview("shop.v1.Cart/Price", &[json!({"skuu": 1})], &headers).unwrap_err();
    assert_eq!(wrong.code(), Code::InvalidArgument);
}

#[tokio::test(start_paused = true)]
async fn a_test_says_what_a_method_answers() {
    let (mock, findings) = shop()
        .on("shop.v1.Cart/Price")
        .with("sku", "tea")
        .header("x-a", "1")
        .reply(json!({"price": 4}))
        .on("shop.v1.Cart/Watch")
        .reply_stream([json!({"note": "a"}), json!({"note": "b"})])
        .build();
    assert!(findings.is_empty(), "{findings:?}");
    let reply = call(&mock, "Price", &[sku("tea")]).await.unwrap();
    assert_eq!(reply.headers["x-a"], "1");
    assert_eq!(json_of(reply), json!({"price": "4"}));
    assert_eq!(crate::harness::stream(&mock, "Watch", &[sku("x")], 9).await.notes(), ["a", "b"]);
    mock.on("shop.v1.Cart/Price").with("sku", "milk").times(1).fail(Code::NotFound, "no milk");
    let error = call_in(&mock, Context::default(), "Price", &[sku("milk")]).await.unwrap_err();
    assert_eq!(error.message(), "no milk");
    call(&mock, "Price", &[sku("milk")]).await.unwrap();
    let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = mock.on("shop.v1.Cart/Prize").reply(json!({}));
    }));
    let told = *told.unwrap_err().downcast::<String>().unwrap();
    assert!(
        told.contains("no method is called /shop.v1.Cart/Prize")
            && told.contains("/shop.v1.Cart/Price"),
        "{told}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stub_of_a_session_answers_no_other_and_goes_with_it() {
    let (mock, _) = shop().build();
    mock.on("shop.v1.Cart/Price").reply(json!({"note": "all"}));
    mock.on("shop.v1.Cart/Price").in_session("a").with("sku", "tea").reply(json!({"note": "of a"}));
    let note = async |name| {
        let reply = call_in(&mock, session(name), "Price", &[sku("tea")]).await.unwrap();
        json_of(reply)["note"].as_str().unwrap().to_owned()
    };
    assert_eq!((&*note("a").await, &*note("b").await), ("of a", "all"));
    mock.reset(Some("a"));
    assert_eq!(note("a").await, "all");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_verified_is_no_success() {
    let (mock, _) = shop().log_calls(2).build();
    let told = |calls: &Calls| mock.verify(calls, Times::Never).unwrap_err().to_string();
    assert!(told(&Calls::of("shop.v1.Cart/Prise")).contains("no method is called"));
    assert!(told(&Calls::of("shop.v1.Cart/Price").with("skuu", "x")).contains("has no field skuu"));
    let odd = Calls::all().with("sku", json!({"regex": "("}));
    assert!(told(&odd).contains("the pattern never matches"));
    // A call that was forgotten may have been one.
    let never = Calls::of("shop.v1.Cart/Price").with("sku", "first");
    for name in ["first", "second", "third"] {
        call_in(&mock, session("a"), "Price", &[sku(name)]).await.unwrap();
    }
    assert!(told(&never).contains("the log has forgotten 1 call"), "{}", told(&never));
    mock.verify(&Calls::of("shop.v1.Cart/Price"), Times::AtLeast(2)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_watches_a_query_is_told_when_a_command_changes_the_state_that_its_rule_reads() {
    let customer = "responses: [{set_state: {cart: '{{request.sku}}'}, body: {login: ok}}]";
    let price = "responses: [{when: {state.cart: paid}, body: {note: paid}}, {body: {note: open}}]";
    let files = RuleFiles::new().with(PRICE, price).with("shop.v1.cart.customer.yaml", customer);
    let (mock, findings) = shop().rules(files).build();
    assert!(findings.is_empty(), "{findings:?}");
    let ask = async |name| call_in(&mock, session(name), "Price", &[]).await.unwrap();
    let pay = async |sku_is| {
        call_in(&mock, session("one"), "Customer", &[sku(sku_is)]).await.unwrap();
    };
    let (one, other) = (ask("one").await, ask("two").await);
    assert!(!one.freshness.is_stale());
    pay("paid").await;
    assert!(one.freshness.is_stale(), "its answer is another now");
    assert!(!other.freshness.is_stale(), "another session");
    let one = ask("one").await;
    assert_ne!(one.freshness.validator(), other.freshness.validator());
    pay("paid").await;
    assert!(!one.freshness.is_stale(), "the same value");
    mock.reset(Some("one"));
    assert!(one.freshness.is_stale());
    assert_eq!(json_of(ask("one").await)["note"], "open");
}

#[tokio::test(start_paused = true)]
async fn a_query_that_sets_state_tells_nobody() {
    let text =
        "responses: [{set_state: {cart: '{{request.sku}}'}, body: {note: '{{state.cart}}'}}]";
    let mock = with_rules(PRICE, text);
    let first = call(&mock, "Price", &[sku("a")]).await.unwrap();
    call(&mock, "Price", &[sku("b")]).await.unwrap();
    assert!(!first.freshness.is_stale(), "it would be asked again for ever");
}

#[tokio::test(start_paused = true)]
async fn a_query_that_sets_state_keeps_its_watchers_for_the_next_command() {
    let customer = "responses: [{set_state: {cart: '{{request.sku}}'}, body: {login: ok}}]";
    let price =
        "responses: [{set_state: {seen: '{{request.sku}}'}, body: {note: '{{state.cart}}'}}]";
    let files = RuleFiles::new().with(PRICE, price).with("shop.v1.cart.customer.yaml", customer);
    let (mock, findings) = shop().rules(files).build();
    assert!(findings.is_empty(), "{findings:?}");
    let watched = call(&mock, "Price", &[sku("a")]).await.unwrap();
    call(&mock, "Price", &[sku("b")]).await.unwrap();
    assert!(!watched.freshness.is_stale(), "queries tell nobody");
    call(&mock, "Customer", &[sku("paid")]).await.unwrap();
    assert!(watched.freshness.is_stale(), "its answer is another now");
}

#[tokio::test(start_paused = true)]
async fn who_watches_in_a_session_that_is_forgotten_is_told() {
    let mock = with_rules(PRICE, "responses: [{body: {note: '{{state.cart}}'}}]");
    let watched = call_in(&mock, session("first"), "Price", &[]).await.unwrap();
    assert!(!watched.freshness.is_stale());
    for number in 0..10_000_u16 {
        let context = Context::default().with_header("x-mock-session", number).unwrap();
        call_in(&mock, context, "Price", &[]).await.unwrap();
    }
    assert!(watched.freshness.is_stale(), "its values are gone");
}

#[tokio::test(start_paused = true)]
async fn stubs_added_or_removed_for_one_session_change_no_count_of_another() {
    let file = "responses: [{times: 1, body: {note: once of the file}}]";
    let mock = with_rules(PRICE, file);
    let stub = |note: &str, session| {
        let response = json!({"times": 1, "body": {"note": note}});
        mock.stub("shop.v1.Cart/Price", &response, Some(session)).unwrap();
    };
    let ask = async |name| {
        json_of(call_in(&mock, session(name), "Price", &[]).await.unwrap())["note"].clone()
    };
    stub("once of two", "two");
    stub("once of one", "one");
    assert_eq!(ask("one").await, "once of one");
    mock.reset(Some("two"));
    stub("again of two", "two");
    assert_eq!(ask("one").await, "once of the file");
    assert!(ask("one").await.is_null(), "both have answered");
    assert_eq!(ask("two").await, "again of two");
}

#[tokio::test(start_paused = true)]
async fn stubs_of_a_session_go_before_stubs_for_all_calls() {
    let (mock, _) = shop().build();
    let stub = |response, session| mock.stub("shop.v1.Cart/Price", &response, session).unwrap();
    stub(json!({"when": {"request.sku": "tea"}, "body": {"note": "tea for all"}}), None);
    stub(json!({"body": {"note": "for one"}}), Some("one"));
    stub(json!({"when": {"request.sku": "tea"}, "body": {"note": "tea for one"}}), Some("one"));
    let ask = async |name, what| {
        json_of(call_in(&mock, session(name), "Price", &[sku(what)]).await.unwrap())["note"].clone()
    };
    assert_eq!(ask("one", "tea").await, "tea for one");
    assert_eq!(ask("one", "milk").await, "for one");
    assert_eq!(ask("two", "tea").await, "tea for all");
}

#[tokio::test(start_paused = true)]
async fn a_response_in_which_anything_is_found_is_refused_and_the_others_stay() {
    let (mock, _) = shop().build();
    mock.stub("shop.v1.Cart/Price", &json!({"body": {"note": "good"}}), None).unwrap();
    for (response, why) in [
        (json!({"when": {}, "body": {"pryce": 1}}), "has no field pryce"),
        (json!({"when": {}, "body": {"price": "dear"}}), "not a valid int64"),
        (json!({"when": {}, "bodi": {}}), "bodi"),
    ] {
        let found = mock.stub("shop.v1.Cart/Price", &response, None).unwrap_err();
        assert!(found[0].to_string().contains(why), "{}", found[0]);
    }
    assert_eq!(message(&mock, "Price", sku("a")).await["note"], "good");
    let found = mock.stub("shop.v1.Cart/Prize", &json!({}), None).unwrap_err();
    assert!(found[0].to_string().contains("no method is called"), "{}", found[0]);
    let one = json!({"times": 1, "body": {"note": "once"}});
    // A session fills its own room only.
    let stub = |session| mock.stub("shop.v1.Cart/Price", &one, session).err();
    let why = (0..257).find_map(|_| stub(Some("one"))).unwrap()[0].to_string();
    let bound = "/shop.v1.Cart/Price has 256 stubs in the session one already";
    assert!(why.contains(bound) && why.contains("reset the session"), "{why}");
    assert!(stub(Some("two")).is_none() && stub(None).is_none());
    mock.reset(Some("one"));
    assert!(stub(Some("one")).is_none());
}

#[tokio::test(start_paused = true)]
async fn the_stubs_of_all_sessions_have_a_limit_in_bytes() {
    let (mock, _) = shop().build();
    let large = json!({"body": {"note": "x".repeat(2 << 20)}});
    let stub =
        |name: usize| mock.stub("shop.v1.Cart/Price", &large, Some(&format!("s{name}"))).err();
    let (refused, why) = (0..100).find_map(|name| Some((name, stub(name)?))).unwrap();
    assert_eq!(refused, 7, "seven times 2 MiB and a little fit into 16 MiB");
    let why = why[0].to_string();
    assert!(
        why.contains("in all sessions would take over 16 MiB")
            && why.contains("reset the sessions"),
        "{why}"
    );
    mock.reset(Some("s3"));
    assert!(stub(7).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_near_miss_is_of_the_rules_of_its_session() {
    let (mock, _) = shop().build();
    for (name, wanted) in [("one", "tea"), ("two", "milk")] {
        let response = json!({"when": {"request.sku": wanted, "request.quantity": 7}, "body": {}});
        mock.stub("shop.v1.Cart/Price", &response, Some(name)).unwrap();
    }
    call_in(&mock, session("one"), "Price", &[sku("milk")]).await.unwrap();
    let nearest = mock.near_misses().remove(0).closest.remove(0);
    let misses =
        ["request.quantity is absent, wanted 7", "request.sku is \"milk\", wanted \"tea\""];
    assert_eq!(nearest.misses, misses);
}

#[tokio::test(start_paused = true)]
async fn what_one_session_forgets_leaves_the_calls_of_another_countable() {
    let (mock, _) = shop().log_calls(2).build();
    let ask = async |name| drop(call_in(&mock, session(name), "Price", &[]).await.unwrap());
    let once = |name| mock.verify(&Calls::all().in_session(name), Times::Exactly(1));
    ask("one").await;
    ask("two").await;
    mock.reset(Some("one"));
    once("two").unwrap();
    mock.verify(&Calls::all(), Times::Exactly(1)).unwrap();
    ask("three").await;
    ask("four").await;
    once("three").unwrap();
    let why = once("two").unwrap_err().to_string();
    assert!(why.contains("the log has forgotten 1 call"), "{why}");
    assert!(mock.verify(&Calls::all(), Times::Exactly(2)).is_err());
}

#[tokio::test(start_paused = true)]
async fn what_was_expected_and_what_came_is_told_in_plain_words() {
    let (mock, _) = shop().build();
    for _ in 0..5 {
        call_in(&mock, session("a b"), "Price", &[sku("tea")]).await.unwrap();
    }
    let told = |calls: &Calls, times| mock.verify(calls, times).unwrap_err().to_string();
    let all = Calls::of("shop.v1.Cart/Price");
    let of_session = all.clone().in_session("a b");
    let none = all.clone().with("sku", "milk").in_session("c");
    for (calls, times, expected) in [
        (&all, Times::AtLeast(6), "expected at least 6 calls of shop.v1.Cart/Price, got 5"),
        (
            &of_session,
            Times::AtMost(1),
            "expected at most 1 call of shop.v1.Cart/Price in session \"a b\", got 5\n  \
             came: call 1\n  came: call 2\n  came: call 3\n  and 2 calls more",
        ),
        (&all, Times::Between(6, 7), "expected 6 to 7 calls of shop.v1.Cart/Price, got 5"),
        (
            &none,
            Times::Exactly(2),
            "expected exactly 2 calls of shop.v1.Cart/Price with sku \"milk\" in session \"c\", \
             got 0; 5 calls of other methods or sessions came",
        ),
    ] {
        assert_eq!(told(calls, times), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_used_up_is_the_closest_and_says_so() {
    let mock = with_rules(PRICE, "[{times: 1, when: {request.sku: tea}, body: {}}, {body: {}}]");
    for _ in 0..2 {
        call(&mock, "Price", &[sku("tea")]).await.unwrap();
    }
    let misses = mock.near_misses();
    assert_eq!((misses.len(), misses[0].call.number), (1, 2));
    let closest = &misses[0].closest[0];
    assert_eq!((closest.matched(), closest.conditions), (1, 1));
    assert_eq!(closest.loss.as_deref(), Some("it has answered as often as `times` says"));
}

#[tokio::test(start_paused = true)]
async fn a_fallback_of_a_session_hides_no_near_miss_and_is_none_itself() {
    let (mock, _) = shop().build();
    let stub = |response| mock.stub("shop.v1.Cart/Price", &response, Some("s")).unwrap();
    stub(json!({"when": {"request.sku": "tea"}, "body": {"note": "tea"}}));
    stub(json!({"body": {"note": "any"}}));
    for name in ["tea", "milk"] {
        call_in(&mock, session("s"), "Price", &[sku(name)]).await.unwrap();
    }
    let misses = mock.near_misses();
    assert_eq!((misses.len(), misses[0].call.number), (1, 2));
    assert_eq!((misses[0].closest.len(), misses[0].closest[0].conditions), (1, 1));
    assert_eq!(misses[0].closest[0].misses, ["request.sku is \"milk\", wanted \"tea\""]);
}
