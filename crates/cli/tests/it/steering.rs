//! A running mock that is steered: `tidewire mocks …` and the same over HTTP.

use serde_json::{Value as Json, json};

use crate::mocked::{FILE, RULES, RunningMock};
use crate::program::{folder, run};

#[test]
fn a_rule_file_is_created_changed_and_deleted_and_holds_at_once() {
    let mock = RunningMock::start(&[], &["--no-watch"]);
    let name = "/v1/mocks/files/more/shop.v1.cart.price.yaml";
    let text = |price| format!("responses: [{{body: {{price: {price}}}}}]");
    let (status, made) = mock.http(&format!("PUT {name}"), &json!({"text": text(4)}));
    assert_eq!((status, &made["method"]), (200, &json!("shop.v1.Cart/Price")), "{made}");
    assert_eq!(mock.price("{}"), r#"{"price":"4"}"#);
    let (status, again) = mock.http(&format!("PUT {name}"), &json!({"text": text(5)}));
    assert_eq!((status, &again["code"]), (409, &json!("already_exists")), "{again}");
    let change = json!({"text": text(5), "etag": made["etag"]});
    let (status, changed) = mock.http(&format!("PUT {name}"), &change);
    assert_eq!(status, 200, "{changed}");
    assert_ne!(changed["etag"], made["etag"]);
    assert_eq!(mock.price("{}"), r#"{"price":"5"}"#);
    let (status, got) = mock.http(&format!("GET {name}"), &Json::Null);
    assert_eq!((status, &got["text"]), (200, &json!(text(5))));
    let (status, _) = mock.http(&format!("DELETE {name}?etag=old"), &Json::Null);
    assert_eq!(status, 412);
    let etag = changed["etag"].as_str().unwrap();
    let (status, gone) = mock.http(&format!("DELETE {name}?etag={etag}"), &Json::Null);
    assert_eq!(status, 200, "{gone}");
    assert_eq!(mock.http(&format!("GET {name}"), &Json::Null).0, 404);
    let left: Vec<_> = std::fs::read_dir(mock.path().join("rules/more")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn of_two_editors_the_later_one_is_told_and_nothing_of_the_first_is_lost() {
    let mock = RunningMock::start(&[(FILE, RULES)], &["--no-watch"]);
    let name = "shop.v1.cart.price.yaml";
    let etag = mock.mocks(&["get-file", name])["etag"].as_str().unwrap().to_owned();
    std::fs::write(mock.path().join("first.yaml"), RULES.replace("price: 9", "price: 7")).unwrap();
    let put = ["put-file", name, "--text", "@first.yaml", "--etag", &etag];
    mock.mocks(&put);
    std::fs::write(mock.path().join("first.yaml"), RULES.replace("price: 9", "price: 1")).unwrap();
    mock.mocks_ran(&put).check(1, &["aborted", "has changed and has the etag"]);
    assert_eq!(mock.price("{}"), r#"{"price":"7"}"#);
    // A change on disk counts as well.
    let etag = mock.mocks(&["get-file", name])["etag"].as_str().unwrap().to_owned();
    std::fs::write(mock.path().join(FILE), RULES.replace("price: 9", "price: 8")).unwrap();
    let put = ["put-file", name, "--text", "@first.yaml", "--etag", &etag];
    mock.mocks_ran(&put).check(1, &["aborted"]);
}

#[test]
fn names_lead_nowhere_but_to_rule_files_of_the_folder() {
    let outside = folder(&[("secret.yaml", "hunter2: 1")]);
    let mock = RunningMock::start(&[(FILE, RULES), ("rules/odd name.yaml", "[]")], &["--no-watch"]);
    let rules = mock.path().join("rules");
    std::os::unix::fs::symlink(outside.path().join("secret.yaml"), rules.join("link.yaml"))
        .unwrap();
    std::os::unix::fs::symlink(outside.path(), rules.join("away")).unwrap();
    for name in [
        "..%2fprotos%2fshop.yaml",
        "..%2f..%2fetc%2fpasswd",
        "../tidewire.yaml",
        "%2e%2e/secret.yaml",
        "a/../../secret.yaml",
        "link.yaml",
        "away/secret.yaml",
        "away/new.yaml",
        ".hidden.yaml",
        "%2fetc%2fpasswd.yaml",
        "a%00.yaml",
        "a%5c..%5cb.yaml",
        "shop.v1.cart.price.toml",
        "a//b.yaml",
    ] {
        let put = json!({"text": "responses: []"});
        for (line, body) in [("GET", &Json::Null), ("PUT", &put), ("DELETE", &Json::Null)] {
            let (status, told) = mock.http(&format!("{line} /v1/mocks/files/{name}"), body);
            assert!((400..500).contains(&status), "{line} {name}: {status} {told}");
            assert!(!told.to_string().contains("hunter2"), "{told}");
        }
        // Over the protocols that put the name into a message too.
        let decoded = name.replace("%2f", "/").replace("%2e", ".").replace("%5c", "\\");
        let call = "POST /tidewire.admin.v1.Mocks/PutFile";
        let (status, told) = mock.http(call, &json!({"name": decoded, "text": "responses: []"}));
        assert!((400..500).contains(&status), "{decoded}: {status} {told}");
    }
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    // A file that is there has the name that it has.
    assert_eq!(mock.http("GET /v1/mocks/files/odd%20name.yaml", &Json::Null).0, 200);
    assert_eq!(mock.http("GET /v1/mocks/files/odd%20nam.yaml", &Json::Null).0, 400);
}

#[test]
fn who_may_only_read_changes_nothing_and_who_has_no_token_sees_nothing() {
    let mock = RunningMock::start(&[(FILE, RULES)], &[]);
    let put = json!({"text": RULES, "etag": "x"});
    let line = "PUT /v1/mocks/files/shop.v1.cart.price.yaml";
    assert_eq!(mock.http_as(line, &put, "nobody").0, 401);
    assert_eq!(mock.http_as("GET /v1/mocks/rules", &Json::Null, "nobody").0, 401);
}

#[test]
fn a_text_that_is_wrong_is_told_with_its_place_and_not_written() {
    let mock = RunningMock::start(&[(FILE, RULES)], &["--no-watch"]);
    let name = "shop.v1.cart.price.yaml";
    let broken = "responses:\n  - body: {price: dear}\n";
    let found = mock.mocks(&["check", name, "--text", broken]);
    assert_eq!(found["findings"][0]["line"], 2, "{found}");
    assert_eq!(found["findings"][0]["error"], true);
    let etag = mock.mocks(&["get-file", name])["etag"].as_str().unwrap().to_owned();
    let put = ["put-file", name, "--text", broken, "--etag", &etag];
    mock.mocks_ran(&put).check(1, &["invalid_argument", "2:19", "not a valid int64"]);
    let preview = ["preview", "Price", "--name", name, "--text", broken];
    mock.mocks_ran(&preview).check(1, &["invalid_argument", "2:19", "not a valid int64"]);
    mock.mocks_ran(&["put-file", name, "--etag", &etag]).check(2, &["--text"]);
    assert_eq!(std::fs::read_to_string(mock.path().join(FILE)).unwrap(), RULES);
    let listed = mock.mocks(&["list-rules"]);
    assert_eq!(listed["files"][0]["name"], name);
    assert_eq!(listed["files"][0]["etag"], *etag);
}

#[test]
fn a_preview_says_which_response_wins_and_why_each_other_lost() {
    let mock = RunningMock::start(&[(FILE, RULES)], &[]);
    let told = mock.mocks(&["preview", "Price", "--requests", r#"{"sku":"tea","quantity":3}"#]);
    assert_eq!(told["replies"][0], r#"{"price":"5"}"#);
    let responses = told["responses"].as_array().unwrap();
    assert_eq!(responses[0]["misses"][0], r#"request.quantity is "3", wanted {"gte":100}"#);
    assert_eq!(responses[1]["chosen"], true);
    assert!(responses[2]["loss"].as_str().unwrap().ends_with("price.yaml:3 goes before it"));
    // Of a text that is not written.
    let draft = ["--name", "shop.v1.cart.price.yaml", "--text", "[{body: {price: 77}}]"];
    let told = mock.mocks(&[&["preview", "Price"], &draft[..]].concat());
    assert_eq!(told["replies"][0], r#"{"price":"77"}"#);
    assert_eq!(mock.price("{}"), r#"{"price":"9"}"#);
    mock.mocks_ran(&["preview", "Prize"]).check(1, &["not_found", "no method is called"]);
    assert_eq!(mock.mocks(&["list-calls"])["calls"].as_array().unwrap().len(), 1);
}

#[test]
fn calls_are_told_with_bodies_near_misses_and_counts_without_secrets() {
    let mock = RunningMock::start(&[(FILE, RULES)], &[]);
    let call = |request: &str, header: &str| {
        let words = ["call", &mock.address, "Price", request, "-H", header];
        run(mock.path(), &words).check(0, &[]);
    };
    call(r#"{"sku":"tea","card":"hunter2"}"#, "authorization: Bearer hunter2hunter2");
    call(r#"{"sku":"milk","quantity":9}"#, "x-mock-session: t1");
    let calls = mock.mocks(&["list-calls", "--method", "Price", "--bodies"]);
    assert!(!calls.to_string().contains("hunter2"), "{calls}");
    assert_eq!(calls["calls"][0]["requests"][0], r#"{"card":"***","sku":"tea"}"#);
    let one = mock.mocks(&["list-calls", "--session", "t1"]);
    assert_eq!(one["calls"].as_array().unwrap().len(), 1);
    let near = mock.mocks(&["near-misses"]);
    assert_eq!(near["misses"].as_array().unwrap().len(), 1, "{near}");
    let misses = &near["misses"][0]["misses"];
    assert_eq!(misses[0], r#"request.quantity is "9", wanted {"gte":100}"#);
    let verified = mock.mocks(&["verify", "Price", "--exactly", "2"]);
    assert_eq!((&verified["verified"], &verified["calls"]), (&json!(true), &json!("2")));
    let range = |least: &str, most: &str| {
        mock.mocks_ran(&["verify", "Price", "--at-least", least, "--at-most", most])
    };
    range("1", "2").check(0, &[]);
    range("3", "4").check(1, &["expected 3 to 4 calls of shop.v1.Cart/Price, got 2"]);
    range("2", "1").check(1, &["the smaller one first"]);
    let tea = ["verify", "Price", "--with", r#"{"sku":"tea"}"#, "--exactly"];
    mock.mocks(&[&tea[..], &["1"]].concat());
    let not = [&tea[..], &["3"]].concat();
    let expected = "expected exactly 3 calls of shop.v1.Cart/Price with sku \"tea\", got 1\n  \
                    closest: call 2\n    sku is \"milk\", wanted \"tea\"\n";
    mock.mocks_ran(&not).check(1, &[expected]);
    let card = ["verify", "Price", "--with", r#"{"card":"other"}"#, "--exactly", "1"];
    let told = mock.mocks_ran(&card);
    told.check(1, &["card is another one"]);
    assert!(!format!("{told:?}").contains("hunter2"), "{told:?}");
    let draft = "[{when: {request.card: other}, body: {price: 1}}]";
    let words = ["preview", "Price", "--requests", r#"{"card":"hunter2"}"#];
    let draft = ["--name", "shop.v1.cart.price.yaml", "--text", draft];
    let told = mock.mocks(&[&words[..], &draft].concat());
    assert_eq!(told["responses"][0]["misses"][0], "request.card is another one", "{told}");
    let sessions = mock.mocks(&["list-sessions"]);
    assert_eq!(sessions["sessions"][1]["name"], "t1", "{sessions}");
    mock.mocks(&["reset", "t1"]);
    let sessions = mock.mocks(&["list-sessions"]);
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1, "{sessions}");
}

#[test]
fn a_limit_leaves_the_newest_calls_and_the_closest_misses() {
    let mock = RunningMock::start(&[(FILE, RULES)], &[]);
    for _ in 0..2 {
        mock.price(r#"{"sku":"milk"}"#);
    }
    run(
        mock.path(),
        &["call", &mock.address, "Price", r#"{"sku":"x"}"#, "-H", "x-mock-session: s"],
    )
    .check(0, &[]);
    for _ in 0..3 {
        run(mock.path(), &["call", &mock.address, "Cart/Watch", "{}"]).check(0, &[]);
    }
    let numbers = |told: &Json, of: &dyn Fn(&Json) -> Json| -> Vec<String> {
        let all = told.as_array().unwrap().iter();
        all.map(|one| of(one)["number"].as_str().unwrap().to_owned()).collect()
    };
    let listed = |more: &[&str]| {
        let told = mock.mocks(&[&["list-calls", "--limit", "2"], more].concat());
        numbers(&told["calls"], &Json::clone)
    };
    assert_eq!(listed(&[]), ["5", "6"]);
    assert_eq!(listed(&["--after", "1"]), ["2", "3"], "who reads on passes none over");
    let near = |more: &[&str]| {
        let told = mock.mocks(&[&["near-misses"], more].concat());
        (numbers(&told["misses"], &|miss| miss["call"].clone()), told["more"].clone())
    };
    let listed = |numbers: &[&str]| numbers.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
    // The newest goes first among those that are as close; methods without conditions have none.
    assert_eq!(near(&["--limit", "2"]), (listed(&["3", "2"]), json!("1")));
    assert_eq!(near(&[]), (listed(&["3", "2", "1"]), Json::Null));
    assert_eq!(near(&["--session", "s"]).0, ["3"]);
    assert_eq!(near(&["--after", "2", "--method", "Price"]).0, ["3"]);
}

#[test]
fn a_stub_answers_one_session_and_a_wrong_one_is_refused_with_what_is_wrong() {
    let mock = RunningMock::start(&[(FILE, RULES)], &["--no-watch"]);
    let response = r#"{"when": {"request.sku": "tea"}, "body": {"price": 1}}"#;
    mock.mocks(&["stub", "Price", "--response", response, "--session", "t1"]);
    let preview = |more: &[&str]| {
        let tea = ["preview", "Price", "--requests", r#"{"sku":"tea"}"#];
        mock.mocks(&[&tea, more].concat())["replies"][0].clone()
    };
    assert_eq!(preview(&["--headers", "x-mock-session=t1"]), r#"{"price":"1"}"#);
    assert_eq!(preview(&[]), r#"{"price":"5"}"#);
    mock.mocks(&["reset", "t1"]);
    assert_eq!(preview(&["--headers", "x-mock-session=t1"]), r#"{"price":"5"}"#);
    mock.mocks(&["stub", "Price", "--response", response]);
    assert_eq!(preview(&[]), r#"{"price":"1"}"#);
    assert_eq!(mock.mocks(&["unstub", "Price"])["stubs"], 1);
    assert_eq!(preview(&[]), r#"{"price":"5"}"#);
    for (response, why) in [
        (
            r#"{"body": {"pryce": 1}}"#,
            "shop.v1.Cart/Price: shop.v1.PriceReply has no field pryce; write price",
        ),
        (r#"{"body": {"price": "dear"}}"#, "not a valid int64"),
        ("[]", "response is not an object"),
    ] {
        let stub = ["stub", "Price", "--response", response];
        mock.mocks_ran(&stub).check(1, &["invalid_argument", why]);
    }
    mock.mocks_ran(&["stub", "Prize", "--response", "{}"]).check(1, &["no method is called"]);
    assert_eq!(mock.price("{}"), r#"{"price":"9"}"#);
}

#[test]
fn near_misses_are_the_closest_calls_and_responses_and_say_how_many_more_there_are() {
    let rules = "responses:
  - {when: {request.sku: a, request.quantity: 1, metadata.x-a: b}, body: {price: 1}}
  - {name: near, when: {request.sku: tea, request.quantity: 2}, body: {price: 2}}
  - {when: {request.sku: c}, body: {price: 3}}
  - {when: {request.sku: d, request.quantity: 4}, body: {price: 3}}
";
    let mock = RunningMock::start(&[(FILE, rules)], &[]);
    for sku in ["x", "x", "x", "tea", "x"] {
        mock.price(&format!("{{\"sku\":\"{sku}\",\"quantity\":1}}"));
    }
    let file = mock.mocks(&["list-rules"])["rules"][0]["file"].as_str().unwrap().to_owned();
    let expected = format!(
        "4 shop.v1.Cart/Price ok no rule
  {file}:3 near: 1 of 2 conditions held
    request.quantity is \"1\", wanted 2
  {file}:4: 0 of 1 condition held
    request.sku is \"tea\", wanted \"c\"
  {file}:2: 1 of 3 conditions held
    request.sku is \"tea\", wanted \"a\"
    metadata.x-a is absent, wanted \"b\"
  and 1 response further away
"
    );
    let printed = mock.mocks_ran(&["near-misses", "--limit", "1"]);
    let more = "and 4 calls further away; --limit 5 lists them\n";
    assert_eq!(printed.check(0, &[]).stdout, expected + more);
    let printed = mock.mocks_ran(&["near-misses"]).stdout;
    assert!(printed.ends_with("and 2 calls further away; --limit 5 lists them\n"), "{printed}");
}

#[test]
fn every_command_prints_lines_or_json() {
    let mock = RunningMock::start(&[(FILE, RULES)], &["--no-watch"]);
    let lines = |arguments: &[&str]| mock.mocks_ran(arguments).check(0, &[]).stdout.clone();
    let name = "shop.v1.cart.price.yaml";
    mock.price(r#"{"sku":"tea"}"#);
    let rule = mock.mocks(&["list-calls"])["calls"][0]["rule"].as_str().unwrap().to_owned();
    let file = rule.trim_end_matches(":3");
    assert_eq!(
        lines(&["list-calls", "--bodies"]),
        format!("1 shop.v1.Cart/Price ok {rule}\n  {{\"sku\":\"tea\"}}\n")
    );
    assert_eq!(lines(&["near-misses"]), "");
    assert_eq!(lines(&["verify", "Price"]), "verified: 1 call\n");
    assert_eq!(lines(&["list-sessions"]), "no session: 1 call\n");
    let got = mock.mocks_ran(&["get-file", name]);
    assert_eq!(got.check(0, &["etag "]).stdout, RULES);
    let etag = got.stderr.trim().trim_start_matches("etag ");
    let put = ["put-file", name, "--text", RULES, "--etag", etag];
    assert_eq!(lines(&put), format!("wrote {name}, etag {etag}\n"));
    assert_eq!(lines(&["check", name, "--text", RULES]), "nothing wrong\n");
    let odd = "responses: [{body: {pryce: 1}, bodi: {}}]";
    let found = lines(&["check", name, "--text", odd]);
    assert!(found.starts_with(&format!("{name}:1:")), "{found}");
    assert!(found.contains(": warning: ") && found.contains("\n  = write price\n"), "{found}");
    let preview = lines(&["preview", "Price", "--requests", r#"{"sku":"tea"}"#]);
    assert!(
        preview.starts_with(&format!("{rule} answers: ok\n  {{\"price\":\"5\"}}\n")),
        "{preview}"
    );
    let lost = format!("{file}:4 does not answer\n  {rule} goes before it\n");
    assert!(preview.ends_with(&lost), "{preview}");
    let stub = ["stub", "Price", "--response", r#"{"body": {"price": 1}}"#];
    assert_eq!(lines(&stub), "added a stub of Price\n");
    assert!(lines(&[]).contains("shop.v1.Cart/Price\n  stubs: 1\n"));
    assert_eq!(lines(&["unstub"]), "removed 1 stub\n");
    let set = lines(&["set-faults", "{delay: 1ms}", "--method", "Price"]);
    assert_eq!(set, "shop.v1.Cart/Price: {delay: 1ms}\n");
    assert_eq!(lines(&["get-faults"]), set);
    assert_eq!(lines(&["set-faults", "", "--method", "Price"]), "");
    assert_eq!(lines(&["list-protos"]), "shop.proto\n");
    assert!(lines(&["get-proto", "shop.proto"]).starts_with("syntax = \"proto3\";"));
    assert_eq!(lines(&["reset", "t1"]), "forgot session t1\n");
    mock.mocks_ran(&["reset", ""]).check(2, &["a value is required for '[SESSION]'"]);
    assert_eq!(lines(&["reset"]), "forgot the calls, counts and state of all sessions\n");
    let failed = mock.mocks_ran(&["verify", "Price", "--at-least", "2"]);
    failed.check(1, &["tidewire: expected at least 2 calls of shop.v1.Cart/Price, got 0\n"]);
    assert_eq!(failed.stdout, "");
    for words in [&["list-calls"][..], &["reset"], &["get-faults"], &["near-misses"], &["unstub"]] {
        assert!(mock.mocks(words).is_object(), "{words:?}");
    }
}
