//! Schemas as large and as entangled as they come.

use std::fmt::Write as _;

use crate::api::Api;

#[test]
fn thousands_of_messages_in_one_cycle_are_served_and_described_on_a_small_stack() {
    const MESSAGES: usize = 3000;
    let mut proto = "service T {\n".to_owned();
    for n in 0..200 {
        let rule = format!("get: \"/r{n}/{{id}}\"");
        writeln!(
            proto,
            "rpc R{n}(M{n}) returns (M{n}) {{ option (google.api.http) = {{ {rule} }}; }}"
        )
        .unwrap();
    }
    proto.push_str("}\n");
    for n in 0..MESSAGES {
        let next = (n + 1) % MESSAGES;
        writeln!(proto, "message M{n} {{ int64 id = 1; M{next} next = 2; }}").unwrap();
    }
    let api = Api::new(&proto);
    assert_eq!(api.echoed("GET", "/r7/7?next.id=8", b"").unwrap(), r#"{"id":7,"next":{"id":8}}"#);
    // A thread that serves has 2 MiB; a walk that goes down a chain of messages takes more.
    let document = std::thread::scope(|threads| {
        let small = std::thread::Builder::new().stack_size(256 << 10);
        small.spawn_scoped(threads, || api.rest.document(&())).unwrap().join().unwrap()
    });
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    assert_eq!(document["components"]["schemas"].as_object().unwrap().len(), MESSAGES + 1);
}

#[test]
fn a_method_has_so_many_query_parameters_and_no_more() {
    let mut proto =
        "service T { rpc R(M0) returns (M0) { option (google.api.http) = { get: \"/r\" }; } }\n"
            .to_owned();
    for level in 0..5 {
        let fields = (2..=40).map(|n| format!("M{} f{n} = {n}; ", level + 1));
        let fields: String = fields.collect();
        writeln!(proto, "message M{level} {{ string text = 1; {fields} }}").unwrap();
    }
    proto.push_str("message M5 { string text = 1; }");
    let document = Api::new(&proto).rest.document(&());
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    let parameters = &document["paths"]["/r"]["get"]["parameters"];
    let parameters = parameters.as_array().unwrap();
    assert_eq!(parameters.iter().filter(|parameter| parameter["in"] == "query").count(), 256);
}
