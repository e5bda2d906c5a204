//! What is found in rule files, with line and column, and what was meant.

use tidewire_mock::RuleFiles;

use crate::harness::schema;

fn check(name: &str, text: &str, expected: &[&str]) {
    let files = RuleFiles::new().with(name, text);
    let told: Vec<_> = files.check(&schema()).iter().map(ToString::to_string).collect();
    assert_eq!(told, expected, "{text}");
}

const P: &str = "shop.v1.cart.price.yaml";

/// A file, what it says, and what is found in it.
const FAULTS: &[(&str, &str, &str)] = &[
    (
        P,
        "- {when: {request: {sku: a}}, body: {}}",
        "shop.v1.cart.price.yaml:1:21: there is no operator sku, so the object is taken for a text that every message has\n  next step: write request.sku",
    ),
    (
        P,
        "- {body: {note: '{{now}}'}}",
        "shop.v1.cart.price.yaml:1:17: {{now}} gives nothing: nothing is called now\n  next step: write {{utils.now()}}",
    ),
    (
        "shop.v1.cart.prise.yaml",
        "[]",
        "shop.v1.cart.prise.yaml: no method is called shop.v1.cart.prise, so this file is dead\n  next step: write shop.v1.cart.price",
    ),
    (
        P,
        "respones: []",
        "shop.v1.cart.price.yaml:1:1: a rule file has no key respones; it is passed over\n  next step: write responses",
    ),
    (
        P,
        "- {bdy: {}}",
        "shop.v1.cart.price.yaml:1:4: a response has no key bdy; it is passed over\n  next step: write body",
    ),
    (
        P,
        "- {when: {request.skuu: a}, body: {}}",
        "shop.v1.cart.price.yaml:1:11: shop.v1.PriceRequest has no field skuu, so it is always absent\n  next step: write sku",
    ),
    (
        P,
        "- {when: {sku: a}, body: {}}",
        "shop.v1.cart.price.yaml:1:11: sku is always absent: nothing is called sku\n  next step: write request.sku",
    ),
    (
        P,
        "- {body: {nte: a}}",
        "shop.v1.cart.price.yaml:1:11: shop.v1.PriceReply has no field nte\n  next step: write note",
    ),
    (
        P,
        "- {body: {nte: '{{request.sku}}'}}",
        "shop.v1.cart.price.yaml:1:11: shop.v1.PriceReply has no field nte\n  next step: write note",
    ),
    (
        P,
        "- {body: {note: '{{request.sku}}', prce: 1}}",
        "shop.v1.cart.price.yaml:1:36: shop.v1.PriceReply has no field prce\n  next step: write price",
    ),
    (
        P,
        "- {body: {nestd: {name: '{{request.sku}}'}}}",
        "shop.v1.cart.price.yaml:1:11: shop.v1.PriceReply has no field nestd\n  next step: write nested",
    ),
    (
        P,
        "- {body: {price: 1, nested: {nme: '{{request.sku}}'}}}",
        "shop.v1.cart.price.yaml:1:30: shop.v1.Nested has no field nme\n  next step: write name",
    ),
    (
        P,
        "- {fake: true, body: {nte: '{{request.sku}}'}}",
        "shop.v1.cart.price.yaml:1:23: shop.v1.PriceReply has no field nte\n  next step: write note",
    ),
    (
        "shop.v1.cart.watch.yaml",
        "- {stream_items: [{note: a}, {nte: '{{request.sku}}'}]}",
        "shop.v1.cart.watch.yaml:1:31: shop.v1.PriceReply has no field nte\n  next step: write note",
    ),
    (
        "shop.v1.cart.watch.yaml",
        "- {stream: [{delay: '{{request.quantity}}ms', body: {nte: '{{request.sku}}'}}]}",
        "shop.v1.cart.watch.yaml:1:54: shop.v1.PriceReply has no field nte\n  next step: write note",
    ),
    (
        "shop.v1.cart.paint.yaml",
        "- {when: {request.kind: KIND_C}, body: {}}",
        "shop.v1.cart.paint.yaml:1:25: shop.v1.Kind has no value KIND_C\n  next step: write KIND_A",
    ),
    (
        "shop.v1.cart.paint.yaml",
        "- {when: {request.kind: {in: [KIND_A, 2, kind_b]}}, body: {}}",
        "shop.v1.cart.paint.yaml:1:42: shop.v1.Kind has no value kind_b\n  next step: write KIND_B",
    ),
    (
        "shop.v1.cart.paint.yaml",
        "- {body: {kind: KIND_X}}",
        "shop.v1.cart.paint.yaml:1:17: kind: shop.v1.Kind has no value KIND_X\n  next step: write KIND_A",
    ),
    (
        P,
        "- {body: {price: dear}}",
        "shop.v1.cart.price.yaml:1:18: price: the text \"dear\" is not a valid int64",
    ),
    (
        P,
        "- {body: {nested: {size: 3000000000}}}",
        "shop.v1.cart.price.yaml:1:26: nested.size: 3000000000 is out of the range of int32",
    ),
    (
        P,
        "- {body: {note: '{{request.skuu}}'}}",
        "shop.v1.cart.price.yaml:1:17: shop.v1.PriceRequest has no field skuu, so it is always absent\n  next step: write sku",
    ),
    (
        P,
        "- {when: {request.sku: {regx: a}}}",
        "shop.v1.cart.price.yaml:1:25: there is no operator regx, so the object is taken for a text that every message has\n  next step: write regex",
    ),
    (
        P,
        "- {when: {request.sku: {regex: '('}}}",
        "shop.v1.cart.price.yaml:1:32: the pattern never matches: Parsing error at position 1: Opening parenthesis without closing parenthesis",
    ),
    (
        P,
        "- {when: {request.sku: 2024-01-02}}",
        "shop.v1.cart.price.yaml:1:24: a date that is not quoted equals no text; quote it",
    ),
    (
        P,
        "- {error: {code: NOT_FUND}}",
        "shop.v1.cart.price.yaml:1:18: NOT_FUND is not a code of an error\n  next step: write not_found",
    ),
    (
        P,
        "- {error: {code: 5, details: [{'@type': google.rpc.BadReqest}]}}",
        "shop.v1.cart.price.yaml:1:31: the schema has no message type google.rpc.BadReqest",
    ),
    (
        P,
        "- {delay: soon}",
        "shop.v1.cart.price.yaml:1:11: soon is not a duration; write 80ms, 1.5s or milliseconds",
    ),
    (P, "- {headers: {'a b': x}}", "shop.v1.cart.price.yaml:1:14: a b is not a name of a header"),
    (
        P,
        "- {headers: {grpc-encoding: x}}",
        "shop.v1.cart.price.yaml:1:14: grpc-encoding belongs to the protocol; leave it out",
    ),
    (
        P,
        "- {stream_items: [{}]}",
        "shop.v1.cart.price.yaml:1:18: stream_items is passed over: /shop.v1.Cart/Price answers with one message",
    ),
    (
        P,
        "- {when: {request: {cel: 'this.skuu == 1'}}}",
        "shop.v1.cart.price.yaml:1:26: the expression is never true: shop.v1.PriceRequest has no field skuu",
    ),
    (
        P,
        "- {when: {request.sku: {cel: 'this + 1'}}}",
        "shop.v1.cart.price.yaml:1:30: the expression is never true: it gives no boolean",
    ),
    (
        P,
        "- {body: {note: '{{cel: request.skuu}}'}}",
        "shop.v1.cart.price.yaml:1:17: the expression has no value: shop.v1.PriceRequest has no field skuu",
    ),
    (
        P,
        "- {body: {note: '{{util.now()}}'}}",
        "shop.v1.cart.price.yaml:1:17: there is no function util.now, so {{util.now()}} gives its own text\n  next step: write utils.now",
    ),
    (
        P,
        "- {body: {note: '{{request.sku.toUpperCase()}}'}}",
        "shop.v1.cart.price.yaml:1:17: {{request.sku.toUpperCase()}} stays as it is: it calls an unknown function; {{cel: …}} has more",
    ),
    (
        P,
        "- {body: {note: '{{requst.sku}}'}}",
        "shop.v1.cart.price.yaml:1:17: {{requst.sku}} gives nothing: nothing is called requst\n  next step: write request",
    ),
    (
        P,
        "- {body: {note: '{{request.sku}}', price: dear}}",
        "shop.v1.cart.price.yaml:1:43: price: the text \"dear\" is not a valid int64",
    ),
    (
        P,
        "- {when: {request.tags: {any: {sku: tea}}}}",
        "shop.v1.cart.price.yaml:1:32: there is no operator sku, so `any` has no test\n  next step: write any: {cel: 'this.sku == …'}",
    ),
    (
        P,
        "- {when: {request.tags: {none: {not: {startWith: tea}}}}}",
        "shop.v1.cart.price.yaml:1:39: there is no operator startWith, so `not` has no test\n  next step: write startsWith",
    ),
    (
        P,
        "- {when: {request.sku: {any_of: [a, {bogus: 1}]}}}",
        "shop.v1.cart.price.yaml:1:38: there is no operator bogus, so `any_of` has no test",
    ),
    (
        P,
        "- {when: {request.quantity: {gt: abc}}}",
        "shop.v1.cart.price.yaml:1:34: gt wants a number, a time or a duration: it is never true of text",
    ),
    (
        P,
        "- {when: {request.sku: {regex: 5}}}",
        "shop.v1.cart.price.yaml:1:32: the pattern is a number; quote it",
    ),
    (
        P,
        "- {when: {request.sku: a}, priority: high}",
        "shop.v1.cart.price.yaml:1:38: priority is a number; text counts as 0",
    ),
    (
        P,
        "- {set_state: 5}",
        "shop.v1.cart.price.yaml:1:15: set_state is a number; write set_state: {name: value}",
    ),
    (
        P,
        "- {when: {state: open}}",
        "shop.v1.cart.price.yaml:1:11: state is an object; write state.NAME for what is in it",
    ),
    (
        P,
        "- {when: {metadata: a}}",
        "shop.v1.cart.price.yaml:1:11: metadata is all headers; write metadata.NAME for one of them",
    ),
    (
        P,
        "- {delay: {dist: uniform, min: 9ms, max: 1ms}}",
        "shop.v1.cart.price.yaml:1:11: min is longer than max",
    ),
    (
        P,
        "- {body: {note: a}, error: {code: NOT_FOUND}}",
        "shop.v1.cart.price.yaml:1:10: body is passed over beside error",
    ),
    (
        P,
        "- {body: {note: a}, body_base64: CgFh}",
        "shop.v1.cart.price.yaml:1:10: body is passed over beside body_base64",
    ),
    (
        P,
        "- {headers: {x: {a: b}}}",
        "shop.v1.cart.price.yaml:1:17: x is an object; a header is text",
    ),
    (
        P,
        "- {body: {note: 'a {{utils.uuid()'}}",
        "shop.v1.cart.price.yaml:1:17: {{ is not closed with }}, so it stays as it is",
    ),
    (
        P,
        "- {body: {nested: {size: 1.5}}}",
        "shop.v1.cart.price.yaml:1:26: nested.size: 1.5 is not a valid int32",
    ),
    (
        P,
        "- {headers: [{nme: a, value: b}]}",
        "shop.v1.cart.price.yaml:1:14: a header in a list is {name: x-a, value: text}",
    ),
];

#[test]
fn each_fault_has_its_place_and_what_was_meant() {
    for (name, text, expected) in FAULTS {
        check(name, text, &[*expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_test_that_says_nothing_is_an_error_for_stubs_and_where_calls_are_verified() {
    let mock = crate::harness::with_rules(P, "- {body: {}}");
    crate::harness::call(&mock, "Price", &[serde_json::json!({"tags": ["milk"]})]).await.unwrap();
    for test in
        [serde_json::json!({"any": {"sku": "tea"}}), serde_json::json!({"not": {"bogus": 1}})]
    {
        let stub = serde_json::json!({"when": {"request.tags": test}, "body": {"note": "hit"}});
        let findings = mock.stub("shop.v1.Cart/Price", &stub, None).unwrap_err();
        assert!(findings.iter().any(|one| one.is_error), "{test}: {findings:?}");
        let wanted = tidewire_mock::Calls::of("/shop.v1.Cart/Price").with("tags", test.clone());
        let told = mock.verify(&wanted, tidewire_mock::Times::Exactly(1)).unwrap_err().to_string();
        assert!(told.contains("there is no operator"), "{told}");
    }
}

#[test]
fn a_response_for_a_real_service_is_found_where_there_is_none() {
    let files = RuleFiles::new().with(P, "- {upstream: true}");
    let (mock, findings) = crate::harness::shop().rules(files.clone()).build();
    let place = "shop.v1.cart.price.yaml:1:3: upstream: true has nobody to answer";
    assert!(findings[0].to_string().starts_with(place), "{findings:?}");
    let reloaded = mock.reload(schema(), &files);
    assert!(reloaded.findings[0].to_string().starts_with(place), "{:?}", reloaded.findings);
    let stub = serde_json::json!({"upstream": true});
    assert!(mock.stub("shop.v1.Cart/Price", &stub, None).is_err());
}

#[test]
fn integers_may_be_written_as_floats() {
    check(P, "- {body: {price: 42.0, nested: {size: '7.9'}}}", &[]);
}

#[test]
fn a_template_may_be_the_value_of_every_field_that_a_message_has() {
    check(P, "- {body: {note: '{{request.sku}}', nested: {name: '{{request.sku}}'}}}", &[]);
    let customer = "- {body: {createdAt: {seconds: '{{request.quantity}}'}, \
                    counts: {any: '{{request.quantity}}'}, parent: {street: '{{request.sku}}'}}}";
    check("shop.v1.cart.customer.yaml", customer, &[]);
}

#[test]
fn responses_that_never_answer_are_found() {
    check(
        P,
        "- {body: {note: a}}\n- {body: {note: b}}\n- {when: {request.sku: x}, body: {}}\n- {when: {request.sku: x}, body: {}}\n- {when: {}, body: {}}\n- {when: {request.sku: y}, priority: -1, body: {}}\n",
        &[
            "shop.v1.cart.price.yaml:1:3: never answers: the response at 5:3 always holds",
            "shop.v1.cart.price.yaml:2:3: never answers: the response at 1:3 has no `when` either and goes first",
            "shop.v1.cart.price.yaml:4:3: never answers: the response at 3:3 has the same `when` and goes first",
            "shop.v1.cart.price.yaml:6:3: never answers: the response at 5:3 always holds and goes first",
        ],
    );
    check(P, "- {times: 1, body: {note: a}}\n- {body: {note: b}}\n", &[]);
}

#[test]
fn what_is_wrong_in_an_included_file_is_said_of_that_file() {
    let told = |included: &str| -> Vec<String> {
        let files =
            RuleFiles::new().with(P, "include: _p.yaml\nresponses: []").with("_p.yaml", included);
        files.check(&schema()).iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        told("responses:\n  - {when: {request.sku: {regex: 'a^b'}}, body: {nte: a}}"),
        ["_p.yaml:2:50: shop.v1.PriceReply has no field nte\n  next step: write note"]
    );
    assert_eq!(told("responses: 7"), ["_p.yaml:1:12: responses is a number; write a list"]);
    assert_eq!(told("vars: 5"), ["_p.yaml:1:7: vars is a number; write an object"]);
    assert_eq!(
        told("hello"),
        ["_p.yaml:1:1: an included file is an object or a list, and this is text"]
    );
    check(P, "vars: 5", &["shop.v1.cart.price.yaml:1:7: vars is a number; write an object"]);
}

#[test]
fn what_is_no_value_of_a_well_known_type_is_said_where_it_stands() {
    let told = |body: &str| -> String {
        let files = RuleFiles::new()
            .with("shop.v1.cart.customer.yaml", format!("- body:\n    email: a\n    {body}"));
        files.check(&schema()).iter().map(ToString::to_string).collect()
    };
    let timestamp = told("created_at: soon");
    assert!(timestamp.starts_with("shop.v1.cart.customer.yaml:3:17: created_at: "), "{timestamp}");
}

#[tokio::test(start_paused = true)]
async fn what_goes_wrong_at_a_call_names_the_rule() {
    let mock = crate::harness::with_rules(P, "responses:\n  - {body: {price: '{{request.sku}}'}}");
    let asked = [serde_json::json!({"sku": "dear"})];
    let error = crate::harness::call(&mock, "Price", &asked).await.unwrap_err();
    let expected = "the rule's answer (shop.v1.cart.price.yaml:2) at price: the text \"dear\"";
    assert!(error.message().starts_with(expected), "{error}");
}
