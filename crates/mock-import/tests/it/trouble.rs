//! Stub files that are broken, hostile or empty: told with their places, and never a panic.

use tidewire_mock_import::{Program, StubFile, import};

use crate::harness::{imported, schema, told};

const ALL: [Program; 3] = [Program::GripMock, Program::WireMock, Program::FauxRpc];

#[test]
fn a_broken_file_is_told_with_its_line_and_the_others_are_read() {
    let good = "service: Cart\nmethod: GetPrice\noutput: {data: {note: x}}\n";
    let file = |name: &str, text: &str| StubFile { name: name.to_owned(), text: text.to_owned() };
    let files = [
        file("a.yaml", "service: [\n"),
        file("b.json", "{\n  \"service\": nope\n}"),
        file("c.yaml", good),
        file("d.yaml", ""),
    ];
    let made = import(Program::GripMock, &files, schema());
    let told = told(&made);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("a.yaml:2: not valid YAML: "), "{told:?}");
    assert!(told[1].starts_with("b.json:2: not valid JSON: "), "{told:?}");
    assert_eq!(made.files.len(), 1);
}

#[test]
fn no_name_of_a_file_comes_from_a_stub() {
    for service in ["../../etc/Cart", "shop.v1.Cart/../x", "..", "", "/", "shop.v1.Cart\\u0000"] {
        let text =
            format!("{{service: \"{service}\", method: \"../GetPrice\", output: {{data: {{}}}}}}");
        let made = imported(Program::GripMock, "a.yaml", &text);
        assert!(made.files.is_empty() && made.findings.len() == 1, "{made:?}");
        let text = format!(
            "{{\"stubs\": [{{\"target\": \"{service}/../GetPrice\", \"content\": {{}}}}]}}"
        );
        assert!(imported(Program::FauxRpc, "a.json", &text).files.is_empty());
    }
    let made = imported(
        Program::GripMock,
        "..\n/a.yaml",
        "{id: \"../../x\\ny\", service: Cart, method: GetPrice, output: {data: {note: x}}}",
    );
    assert_eq!(made.files[0].name, "shop.v1.cart.getprice.yaml");
    assert!(!made.files[0].text.contains("\ny") && !made.files[0].text.contains("..\n/"));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of documents")]
fn values_of_any_shape_are_findings_and_no_panic() {
    let shapes = [
        "null",
        "7",
        "-1",
        "1e999",
        "true",
        "\"\"",
        "\"x\"",
        "[]",
        "[null]",
        "[[]]",
        "{}",
        "{\"a\": null}",
        "{\"\": {\"\": []}}",
        "[{\"equals\": 3}]",
        "\"(\"",
        "\"{{\"",
        "\"$[?(\"",
        "\"${json-unit.\"",
        "\"é\"",
    ];
    let documents: [(Program, &str); 21] = [
        (Program::GripMock, "@"),
        (Program::GripMock, r#"[@]"#),
        (Program::GripMock, r#"{"service": @, "method": "GetPrice", "output": {}}"#),
        (
            Program::GripMock,
            r#"{"service": "Cart", "method": "GetPrice", "input": @, "output": {"data": {}}}"#,
        ),
        (
            Program::GripMock,
            r#"{"service": "Cart", "method": "GetPrice", "headers": @, "options": @, "priority": @, "output": @}"#,
        ),
        (
            Program::GripMock,
            r#"{"service": "Cart", "method": "Watch", "output": {"stream": @, "delay": @, "error": @, "code": @, "details": @}}"#,
        ),
        (
            Program::GripMock,
            r#"{"service": "Cart", "method": "Sum", "inputs": @, "output": {"data": @, "headers": @}}"#,
        ),
        (
            Program::GripMock,
            r#"{"service": "Cart", "method": "Chat", "inputs": [@, @], "output": {"stream": [@]}}"#,
        ),
        (
            Program::GripMock,
            r#"{"service": "Cart", "method": "GetPrice", "input": {"equals": {"sku": @, "tags": @, "shop": @, "labels": @, "others": @, "size": @, "at": @}}, "output": {"data": {}}}"#,
        ),
        (
            Program::GripMock,
            r#"{"service": "Cart", "method": "GetPrice", "input": {"matches": {"sku": @}, "contains": {"others": [@], "tags": [@]}, "anyOf": @}, "output": {"data": {}}}"#,
        ),
        (Program::FauxRpc, r#"{"stubs": @}"#),
        (Program::FauxRpc, r#"{"stubs": [{"target": @, "ref": @}]}"#),
        (
            Program::FauxRpc,
            r#"{"stubs": [{"target": "shop.v1.Cart/GetPrice", "active_if": @, "priority": @, "content": @}]}"#,
        ),
        (
            Program::FauxRpc,
            r#"{"stubs": [{"target": "shop.v1.Cart/GetPrice", "cel_content": @, "json": @, "error": @}]}"#,
        ),
        (Program::FauxRpc, r#"{"stubs": [{"target": "shop.v1.Cart/Watch", "stream": @}]}"#),
        (Program::WireMock, r#"{"mappings": @}"#),
        (Program::WireMock, r#"{"request": @, "response": @}"#),
        (Program::WireMock, r#"{"request": {"url": @, "method": @}, "response": {}}"#),
        (
            Program::WireMock,
            r#"{"request": {"urlPathPattern": @, "queryParameters": @}, "response": {"status": @}}"#,
        ),
        (
            Program::WireMock,
            r#"{"request": {"urlPath": "/v1/prices", "method": "POST", "bodyPatterns": [{"equalToJson": @}, {"matchesJsonPath": @}, {"equalTo": @}], "headers": {"a": @}, "cookies": @}, "response": {"jsonBody": @, "headers": @}}"#,
        ),
        (
            Program::WireMock,
            r#"{"request": {"urlPath": "/v1/prices", "method": "GET", "queryParameters": {"tags": @, "quantity": {"matches": @}}}, "response": {"fault": @, "delayDistribution": @, "transformers": @, "body": @}, "scenarioName": @, "requiredScenarioState": @, "newScenarioState": @, "priority": @}"#,
        ),
    ];
    for (program, document) in documents {
        for shape in shapes {
            let text = document.replace('@', shape);
            // What is written is read again, so that it is never worse than a finding.
            let made = imported(program, "a.json", &text);
            for finding in &made.findings {
                assert!(!finding.why.is_empty(), "{text}");
            }
        }
    }
}

#[test]
fn deep_and_long_values_come_to_an_end() {
    let deep = format!("{}1{}", "{\"a\":".repeat(5000), "}".repeat(5000));
    let expression = format!("{}1{}", "(".repeat(20_000), ")".repeat(20_000));
    let filter = format!("$[?({}@.sku{})]", "(".repeat(5000), ")".repeat(5000));
    for program in ALL {
        assert!(imported(program, "a.json", &deep).files.is_empty());
    }
    let stub = format!(
        r#"{{"stubs": [{{"target": "shop.v1.Cart/GetPrice", "active_if": "{expression} == 1", "cel_content": "[{expression}]"}}]}}"#
    );
    let made = imported(Program::FauxRpc, "a.json", &stub);
    assert!(!made.findings.is_empty());
    let stub = format!(
        r#"{{"request": {{"urlPath": "/v1/prices", "method": "POST", "bodyPatterns": [{{"matchesJsonPath": "{filter}"}}]}}, "response": {{}}}}"#
    );
    assert!(imported(Program::WireMock, "a.json", &stub).files.is_empty());
}
