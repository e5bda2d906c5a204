//! Mappings of WireMock in the forms of its documentation.

use serde_json::{Value as Json, json};
use tidewire_mock_import::Program;

use crate::harness::{Answers, NONE, imported, told};

fn wire(mapping: &Json) -> Answers {
    Answers::of_all(Program::WireMock, "mapping.json", &mapping.to_string())
}

/// One mapping of a request, and what calls of a method it fits.
async fn check(request: Json, method: &str, fits: &[Json], does_not: &[Json]) {
    let answers = wire(&json!({"request": request, "response": {"jsonBody": {"note": "fits"}}}));
    for call in fits {
        let note = answers.note(method, call.clone()).await;
        assert_eq!(note, "fits", "{request} and {call}\n{}", answers.rules());
    }
    for call in does_not {
        let note = answers.note(method, call.clone()).await;
        assert_eq!(note, NONE, "{request} and {call}\n{}", answers.rules());
    }
}

#[tokio::test]
async fn addresses_are_those_of_rest_bindings() {
    let get = |key: &str, url: &str| json!({"method": "GET", key: url});
    let tea = json!({"sku": "tea"});
    check(
        get("url", "/v1/prices/tea"),
        "GetPrice",
        std::slice::from_ref(&tea),
        &[json!({"sku": "milk"}), json!({"sku": "tea", "quantity": 1})],
    )
    .await;
    check(
        get("url", "/v1/prices/tea?quantity=2&tags=a&tags=b"),
        "GetPrice",
        &[json!({"sku": "tea", "quantity": 2, "tags": ["a", "b"]})],
        &[tea.clone(), json!({"sku": "tea", "quantity": 2, "tags": ["b", "a"]})],
    )
    .await;
    check(
        get("urlPath", "/v1/prices/a%20b"),
        "GetPrice",
        &[json!({"sku": "a b", "quantity": 9})],
        &[json!({"sku": "a"})],
    )
    .await;
    check(
        get("urlPathPattern", "/v1/prices/SK-[0-9]+"),
        "GetPrice",
        &[json!({"sku": "SK-12"})],
        &[json!({"sku": "SK-12-x"}), json!({"sku": "x-SK-1"})],
    )
    .await;
    check(
        get("urlPathTemplate", "/v1/prices/{id}"),
        "GetPrice",
        &[tea.clone(), json!({"sku": "milk"})],
        &[],
    )
    .await;
    check(
        json!({"method": "ANY", "urlPathTemplate": "/v1/prices/{id}", "pathParameters": {"id": {"contains": "ea"}}}),
        "GetPrice",
        &[tea],
        &[json!({"sku": "milk"})],
    )
    .await;
    check(get("urlPath", "/v1/prices"), "ListPrices", &[json!({})], &[]).await;
}

#[tokio::test]
async fn a_mapping_that_fits_several_methods_is_in_the_rules_of_each() {
    let text = |request: Json| {
        json!({"request": request, "response": {"jsonBody": {"note": "fits"}}}).to_string()
    };
    for request in [
        json!({"method": "ANY", "urlPath": "/v1/prices"}),
        json!({"urlPath": "/v1/prices"}),
        json!({"urlPathPattern": "/v1/prices"}),
        json!({"urlPattern": "/v1/prices.*"}),
        json!({"urlPathPattern": "/v1/.*"}),
    ] {
        let answers = Answers::of_all(Program::WireMock, "mapping.json", &text(request.clone()));
        for method in ["GetPrice", "ListPrices"] {
            assert_eq!(answers.note(method, json!({})).await, "fits", "{request} {method}");
        }
    }
    let told_of = |request: Json| imported(Program::WireMock, "m.json", &text(request));
    // Those of gRPC too; what cannot be said is told of each method.
    let of_grpc = told_of(json!({"urlPathPattern": "/shop\\.v1\\.Cart/.*"}));
    let streams = |method: &str| {
        format!(
            "m.json:1: request: /shop.v1.Cart/{method} takes a stream of requests; the mapping is left out for shop.v1.Cart/{method}"
        )
    };
    assert_eq!(told(&of_grpc), [streams("Sum"), streams("Chat")]);
    let answers = Answers::of(of_grpc);
    for method in ["GetPrice", "ListPrices", "Watch"] {
        assert_eq!(answers.note(method, json!({})).await, "fits", "{method}");
    }
    let body = json!([{"equalToJson": {"sku": "tea"}}]);
    let with_body =
        told_of(json!({"method": "ANY", "urlPath": "/v1/prices", "bodyPatterns": body}));
    assert_eq!(
        told(&with_body),
        [
            "m.json:1: request.bodyPatterns[0]: this method has no body; the mapping is left out for GET of shop.v1.Cart/ListPrices"
        ]
    );
    assert_eq!(Answers::of(with_body).note("GetPrice", json!({"sku": "tea"})).await, "fits");
    let spans = told_of(json!({"urlPathPattern": "/v1/shops/.*/prices/(a|b/c)"}));
    let why = "a part of the pattern that may be several segments of a path is one here";
    assert_eq!(told(&spans), [format!("m.json:1: request.urlPathPattern: {why}")]);
}

#[tokio::test]
async fn query_parameters_are_fields() {
    let request = |parameters: Json| json!({"method": "GET", "urlPath": "/v1/prices", "queryParameters": parameters});
    let list = "ListPrices";
    check(
        request(json!({"quantity": {"equalTo": "2"}})),
        list,
        &[json!({"quantity": 2})],
        &[json!({"quantity": 3}), json!({})],
    )
    .await;
    check(
        request(json!({"active": {"equalTo": "true"}})),
        list,
        &[json!({"active": true})],
        &[json!({})],
    )
    .await;
    check(
        request(json!({"shop.name": {"matches": "a.*"}})),
        list,
        &[json!({"shop": {"name": "abc"}})],
        &[json!({"shop": {"name": "bac"}}), json!({})],
    )
    .await;
    check(
        request(json!({"tags": {"equalTo": "a"}})),
        list,
        &[json!({"tags": ["b", "a"]})],
        &[json!({"tags": ["b"]})],
    )
    .await;
    check(
        request(json!({"tags": {"hasExactly": [{"equalTo": "a"}, {"contains": "b"}]}})),
        list,
        &[json!({"tags": ["xbx", "a"]})],
        &[json!({"tags": ["a"]}), json!({"tags": ["a", "b", "c"]})],
    )
    .await;
    check(request(json!({"sku": {"absent": true}})), list, &[json!({})], &[json!({"sku": "x"})])
        .await;
    check(request(json!({"sku": {"or": [{"equalTo": "TEA", "caseInsensitive": true}, {"doesNotMatch": ".*[0-9]"}]}})), list, &[json!({"sku": "tea"}), json!({"sku": "x"})], &[json!({"sku": "x1"})]).await;
    check(
        request(json!({"size": {"equalTo": "SIZE_LARGE"}})),
        list,
        &[json!({"size": 2})],
        &[json!({"size": 1})],
    )
    .await;
}

#[tokio::test]
async fn bodies_are_compared_as_messages() {
    let request =
        |pattern: Json| json!({"method": "POST", "url": "/v1/prices", "bodyPatterns": [pattern]});
    let get = "GetPrice";
    let tea = json!({"sku": "tea", "quantity": 2});
    check(
        request(json!({"equalToJson": {"sku": "tea", "quantity": 2}})),
        get,
        std::slice::from_ref(&tea),
        &[json!({"sku": "tea"}), json!({"sku": "tea", "quantity": 2, "active": true})],
    )
    .await;
    check(
        request(json!({"equalToJson": "{\"sku\": \"tea\"}", "ignoreExtraElements": true})),
        get,
        std::slice::from_ref(&tea),
        &[json!({"sku": "milk"})],
    )
    .await;
    check(
        request(json!({"equalToJson": {"tags": ["a", "b"], "shop": {"name": "s"}}, "ignoreArrayOrder": true})),
        get,
        &[json!({"tags": ["b", "a"], "shop": {"name": "s"}})],
        &[json!({"tags": ["b", "a", "c"], "shop": {"name": "s"}}), json!({"tags": ["a", "b"], "shop": {"name": "s"}, "sku": "x"})],
    )
    .await;
    check(
        request(json!({"equalToJson": {"sku": "${json-unit.regex}[a-z]+", "quantity": "${json-unit.any-number}"}})),
        get,
        std::slice::from_ref(&tea),
        &[json!({"sku": "T1", "quantity": 2}), json!({"sku": "tea"}), json!({"sku": "tea", "quantity": 2, "active": true})],
    )
    .await;
    check(
        request(json!({"equalTo": "{\"sku\":\"tea\",\"quantity\":2}"})),
        get,
        std::slice::from_ref(&tea),
        &[json!({})],
    )
    .await;
    check(
        json!({"method": "PUT", "url": "/v1/shops/s1/prices/tea", "bodyPatterns": [{"equalToJson": {"floor": 3}}]}),
        get,
        &[json!({"sku": "tea", "shop": {"name": "s1", "floor": 3}})],
        &[json!({"sku": "tea", "shop": {"name": "s1"}}), json!({"sku": "tea", "shop": {"name": "s2", "floor": 3}})],
    )
    .await;
}

#[tokio::test]
async fn paths_of_json_lead_into_the_message() {
    let request = |path: Json| json!({"method": "POST", "urlPath": "/v1/prices", "bodyPatterns": [{"matchesJsonPath": path}]});
    let get = "GetPrice";
    check(
        request(json!("$.shop.name")),
        get,
        &[json!({"shop": {"name": "a"}})],
        &[json!({"shop": {"floor": 1}}), json!({})],
    )
    .await;
    check(
        request(json!({"expression": "$.sku", "matches": "[a-z]+"})),
        get,
        &[json!({"sku": "tea"})],
        &[json!({"sku": "tea1"})],
    )
    .await;
    check(
        request(json!({"expression": "$.others[0].floor", "equalTo": "2"})),
        get,
        &[json!({"others": [{"floor": 2}]})],
        &[json!({"others": [{"floor": 1}, {"floor": 2}]})],
    )
    .await;
    check(
        request(json!("$[?(@.sku == 'tea' && (@.quantity > 1 || @.active == true))]")),
        get,
        &[json!({"sku": "tea", "quantity": 2}), json!({"sku": "tea", "active": true})],
        &[json!({"sku": "tea"}), json!({"quantity": 2})],
    )
    .await;
    check(
        request(json!("$.others[?(@.name == 'b' && @.floor >= 2)]")),
        get,
        &[json!({"others": [{"name": "a"}, {"name": "b", "floor": 2}]})],
        &[json!({"others": [{"name": "b"}, {"floor": 2}]})],
    )
    .await;
    check(
        request(json!("$.[?(@.sku =~ /t.a/i)]")),
        get,
        &[json!({"sku": "TEA"})],
        &[json!({"sku": "teas"})],
    )
    .await;
    check(
        request(json!({"expression": "$.others[*].name", "contains": "b"})),
        get,
        &[json!({"others": [{"name": "abc"}]})],
        &[json!({"others": [{"name": "a"}]})],
    )
    .await;
    check(
        request(json!({"expression": "$.shop", "equalToJson": {"name": "a"}})),
        get,
        &[json!({"shop": {"name": "a"}})],
        &[json!({"shop": {"name": "a", "floor": 1}})],
    )
    .await;
}

#[tokio::test]
async fn headers_patterns_fit_all_of_a_value() {
    let answers = wire(&json!({
        "request": {"method": "GET", "urlPath": "/v1/prices", "headers": {
            "X-Tenant": {"matches": "ac.e"}, "X-Other": {"absent": true}}, "basicAuth": {"username": "u", "password": "p"}},
        "response": {"jsonBody": {"note": "fits"}, "headers": {"X-Shard": "7", "Content-Type": "application/json"}},
    }));
    let call = |headers: &'static [(&str, &str)]| {
        let answers = &answers;
        async move { answers.call_with("ListPrices", &[json!({})], headers).await.remove(0) }
    };
    assert_eq!(
        call(&[("x-tenant", "acme"), ("authorization", "Basic dTpw")]).await,
        r#"{"note":"fits"}"#
    );
    assert_eq!(call(&[("x-tenant", "acmes"), ("authorization", "Basic dTpw")]).await, NONE);
    assert_eq!(
        call(&[("x-tenant", "acme"), ("x-other", "1"), ("authorization", "Basic dTpw")]).await,
        NONE
    );
    assert_eq!(call(&[("x-tenant", "acme")]).await, NONE);
}

#[tokio::test]
async fn priority_1_goes_first_and_then_what_was_added_last() {
    let mapping = |priority: Option<i32>, url: &str, note: &str| {
        let mut mapping = json!({"request": {"method": "GET", "urlPathPattern": url}, "response": {"jsonBody": {"note": note}}});
        if let Some(priority) = priority {
            mapping["priority"] = priority.into();
        }
        mapping
    };
    let answers = wire(&json!({"mappings": [
        mapping(Some(1), "/v1/prices/first", "first"),
        mapping(None, "/v1/prices/tea", "hidden"),
        mapping(None, "/v1/prices/t.*", "later"),
        mapping(Some(10), "/v1/prices/.*", "any"),
        mapping(Some(2), "/v1/prices/fi.*", "second"),
    ]}));
    for (sku, note) in [("first", "first"), ("fine", "second"), ("tea", "later"), ("x", "any")] {
        assert_eq!(
            answers.note("GetPrice", json!({"sku": sku})).await,
            note,
            "{}",
            answers.rules()
        );
    }
}

#[tokio::test]
async fn scenarios_go_from_state_to_state() {
    let step = |required: &str, next: Option<&str>, note: &str| {
        let mut mapping = json!({
            "scenarioName": "To do list", "requiredScenarioState": required,
            "request": {"method": "GET", "urlPath": "/v1/prices"}, "response": {"jsonBody": {"note": note}},
        });
        if let Some(next) = next {
            mapping["newScenarioState"] = next.into();
        }
        mapping
    };
    let answers = wire(&json!({"mappings": [
        step("Started", Some("open"), "begun"), step("open", Some("Started"), "open"),
    ]}));
    for note in ["begun", "open", "begun"] {
        assert_eq!(answers.note("ListPrices", json!({})).await, note, "{}", answers.rules());
    }
}

#[tokio::test(start_paused = true)]
async fn answers_have_errors_delays_and_templates() {
    let answers = wire(&json!({"mappings": [
        {"request": {"method": "GET", "urlPathTemplate": "/v1/prices/{id}"},
         "response": {"transformers": ["response-template"], "headers": {"x-of": "{{request.headers.X-From}}"},
          "jsonBody": {"note": "{{request.path.id}} {{request.pathSegments.[1]}} {{request.query.quantity}}"}}},
        {"request": {"method": "POST", "urlPath": "/v1/prices", "bodyPatterns": [{"matchesJsonPath": "$.shop"}]},
         "response": {"transformers": ["response-template"], "body": "{\"note\": \"{{jsonPath request.body '$.shop.name'}}\"}"}},
        {"request": {"method": "GET", "urlPath": "/v1/prices"}, "response": {"jsonBody": {"note": "{{plain}}"}}},
        {"request": {"method": "GET", "urlPath": "/v1/prices/gone"},
         "response": {"status": 404, "jsonBody": {"code": 5, "message": "no gone", "details": []}, "fixedDelayMilliseconds": 250}},
        {"request": {"method": "GET", "urlPath": "/v1/prices/busy"}, "response": {"status": 503, "body": "later"}},
    ]}));
    let begun = tokio::time::Instant::now();
    assert_eq!(answers.call("GetPrice", json!({"sku": "busy"})).await, "unavailable: later");
    assert_eq!(begun.elapsed().as_millis(), 0);
    assert_eq!(answers.call("ListPrices", json!({})).await, r#"{"note":"{{plain}}"}"#);
    assert_eq!(answers.call("GetPrice", json!({"sku": "gone"})).await, "not_found: no gone");
    assert_eq!(begun.elapsed().as_millis(), 250);
    assert_eq!(
        answers.note("GetPrice", json!({"sku": "tea", "quantity": 3})).await,
        "tea prices 3"
    );
    assert_eq!(answers.note("GetPrice", json!({"shop": {"name": "s"}})).await, "s");
}

#[tokio::test]
async fn mappings_of_grpc_are_of_their_method() {
    let answers = wire(&json!({"mappings": [
        {"request": {"method": "POST", "urlPath": "/shop.v1.Cart/GetPrice", "bodyPatterns": [{"equalToJson": {"sku": "tea"}}]},
         "response": {"status": 200, "jsonBody": {"note": "tea"}, "headers": {"grpc-status-name": "OK"}}},
        {"request": {"method": "POST", "urlPath": "/shop.v1.Cart/GetPrice", "bodyPatterns": [{"matchesJsonPath": "$[?(@.userId == '7')]"}]},
         "response": {"status": 200, "headers": {"grpc-status-name": "FAILED_PRECONDITION", "grpc-status-reason": "not now"}}},
        {"request": {"method": "POST", "urlPath": "/shop.v1.Cart/Watch"}, "response": {"body": "{\"note\": \"one\"}"}},
    ]}));
    assert_eq!(answers.note("GetPrice", json!({"sku": "tea"})).await, "tea");
    assert_eq!(
        answers.call("GetPrice", json!({"userId": 7})).await,
        "failed_precondition: not now"
    );
    assert_eq!(answers.call("GetPrice", json!({"sku": "milk"})).await, NONE);
    assert_eq!(answers.call("Watch", json!({})).await, r#"{"note":"one"}"#);
}

#[tokio::test]
async fn what_has_no_counterpart_is_told_and_the_rest_is_served() {
    let text = r#"{"mappings": [
{"request": {"method": "GET", "urlPath": "/v1/prices", "headers": {"Accept": {"contains": "json"}}},
 "response": {"status": 201, "jsonBody": {"note": "{{now format='yyyy'}}", "price": 4}, "transformers": ["response-template"]}},
{"request": {"method": "GET", "urlPath": "/elsewhere"}, "response": {}},
{"request": {"method": "POST", "urlPath": "/v1/prices", "bodyPatterns": [{"contains": "tea"}]}, "response": {}},
{"request": {"method": "POST", "urlPath": "/v1/prices", "bodyPatterns": [{"matchesXPath": "//a"}]}, "response": {}},
{"request": {"method": "GET", "urlPath": "/v1/prices", "queryParameters": {"nope": {"equalTo": "x"}}}, "response": {}},
{"request": {"method": "GET", "urlPath": "/v1/prices/a"}, "response": {"fault": "RANDOM_DATA_THEN_CLOSE"}},
{"request": {"method": "GET", "urlPath": "/v1/prices/b"}, "response": {"status": 302}},
{"request": {"method": "GET", "urlPath": "/v1/prices/c", "customMatcher": {"name": "x"}}, "response": {}},
{"request": {"method": "GET", "urlPathPattern": "/v1/prices/a++"}, "response": {}}
]}"#;
    let made = imported(Program::WireMock, "m.json", text);
    assert_eq!(
        told(&made),
        [
            "m.json:2: request.headers.Accept: says how messages are encoded, and rules answer every encoding; the condition is left out",
            "m.json:3: response.body.note: the template {{now format='yyyy'}} has no counterpart; it is left out",
            "m.json:3: response.status: 201 is answered as 200",
            "m.json:4: request.urlPath: no method has a REST binding for this GET; the mapping is left out",
            "m.json:5: request.bodyPatterns[0]: contains looks at the text of a body, and rules at its message; the mapping is left out",
            "m.json:6: request.bodyPatterns[0]: matchesXPath looks at the text of a body, and rules at its message; the mapping is left out",
            "m.json:7: request.queryParameters.nope: shop.v1.PriceRequest has no field nope; the mapping is left out",
            "m.json:8: response.fault: RANDOM_DATA_THEN_CLOSE has no counterpart; the mapping is left out",
            "m.json:9: response.status: a status 302 has no counterpart; the mapping is left out",
            "m.json:10: request.customMatcher: has no counterpart; the mapping is left out",
            "m.json:11: request.urlPathPattern: a possessive quantifier has no counterpart in patterns of rules; the mapping is left out",
        ]
    );
    let answers = Answers::of(made);
    assert_eq!(answers.call("ListPrices", json!({})).await, r#"{"price":"4"}"#);
    assert_eq!(answers.imported.stubs_written, 1);
}
