//! Mappings of WireMock, over REST bindings of methods and of its gRPC extension.
//!
//! Priority 1 goes first, and 5 is the default; of equal ones the mapping that was added last.
//! Patterns have to fit all of a value. A request is compared as a message: a member of JSON that
//! has the default of its field counts as one that is not there.

mod address;
mod body;
mod json_path;
mod patterns;
mod response;
mod url;

use tidewire_mock::document::{Node, Tree};
use tidewire_schema::Schema;

use crate::finding::{Findings, Gap};
use crate::matching::{Conditions, Matcher};
use crate::methods::Methods;
use crate::nodes::{integer, list, object, one, present, scalar_text, text};
use crate::stub::Stub;

const MAPPING_KEYS: [&str; 13] = [
    "id",
    "uuid",
    "name",
    "request",
    "response",
    "priority",
    "scenarioName",
    "requiredScenarioState",
    "newScenarioState",
    "persistent",
    "metadata",
    "insertionIndex",
    "comment",
];
const REQUEST_KEYS: [&str; 14] = [
    "method",
    "url",
    "urlPath",
    "urlPattern",
    "urlPathPattern",
    "urlPathTemplate",
    "queryParameters",
    "pathParameters",
    "headers",
    "bodyPatterns",
    "basicAuth",
    "basicAuthCredentials",
    "cookies",
    "scheme",
];

/// The priority of a mapping that has none.
const PRIORITY: i128 = 5;

pub(crate) const MATCHER: Matcher = Matcher { unset_is_default: false };

/// Reads a file: a mapping, or `mappings`. Says how many there are.
pub(crate) fn read(
    root: &Node,
    schema: &Schema,
    methods: &Methods,
    findings: &mut Findings,
    stubs: &mut Vec<Stub>,
) -> usize {
    let all: Vec<&Node> = match (root.get("mappings"), &root.value) {
        (Some(all), _) => all.items().iter().collect(),
        (None, Tree::Object(_)) => vec![root],
        _ => {
            let why = format!("a mapping is an object, and this is {}", root.kind());
            findings.at(root.place, "", why);
            return 0;
        }
    };
    for node in &all {
        stubs.extend(findings.or_tell("mapping", |it| mapping(node, schema, methods, it)));
    }
    all.len()
}

/// A response for each method that a mapping can be for.
fn mapping(
    node: &Node,
    schema: &Schema,
    methods: &Methods,
    findings: &mut Findings,
) -> Result<Vec<Stub>, Gap> {
    for member in node.members() {
        if !MAPPING_KEYS.contains(&&*member.key) {
            findings.at(member.place, &*member.key, "has no counterpart");
        }
    }
    let request = present(node, "request");
    let request =
        request.ok_or_else(|| Gap::new(node.place, "request", "a mapping has a request"))?;
    for member in request.members() {
        if !REQUEST_KEYS.contains(&&*member.key) {
            let key = format!("request.{}", member.key);
            return Err(Gap::new(member.place, key, "has no counterpart"));
        }
    }
    let response = present(node, "response");
    let response =
        response.ok_or_else(|| Gap::new(node.place, "response", "a mapping has a response"))?;
    let url::Targets { fit, mut gaps } = url::targets(request, schema, methods, findings)?;
    let mut made = Vec::new();
    for target in fit {
        let of = target.binding();
        match stub(node, request, response, schema, target, findings) {
            Ok(stub) => made.push(stub),
            Err(gap) => gaps.push((of, gap)),
        }
    }
    if made.is_empty() && gaps.len() == 1 {
        return Err(gaps.remove(0).1);
    }
    for (of, gap) in gaps {
        let why = format!("{}; the mapping is left out for {of}", gap.why);
        findings.at(gap.place, gap.key, why);
    }
    Ok(made)
}

/// The response of a mapping for one method.
fn stub(
    node: &Node,
    request: &Node,
    response: &Node,
    schema: &Schema,
    mut target: url::Target,
    findings: &mut Findings,
) -> Result<Stub, Gap> {
    if target.method.kind.client_streams() {
        let why = format!("{} takes a stream of requests", target.method.path);
        return Err(Gap::new(request.place, "request", why));
    }
    url::query(request, schema, &mut target)?;
    headers(request, &mut target.conditions, findings)?;
    body::body(request, schema, &mut target)?;
    scenario(node, &mut target.conditions)?;
    let mut stub = Stub::new(node.place, &target.method);
    stub.name = present(node, "name").and_then(scalar_text);
    stub.priority = PRIORITY - present(node, "priority").and_then(integer).unwrap_or(PRIORITY);
    response::answer(&mut stub, schema, response, &target, findings)?;
    if let Some(state) = present(node, "newScenarioState").and_then(scalar_text) {
        let name = scenario_name(node)?;
        stub.set("set_state", one(&name, text(state)));
    }
    stub.conditions = target.conditions.list;
    Ok(stub)
}

/// The state that a scenario has to be in; nothing is set in the beginning.
fn scenario(node: &Node, out: &mut Conditions) -> Result<(), Gap> {
    let Some(required) = present(node, "requiredScenarioState").and_then(scalar_text) else {
        return Ok(());
    };
    let path = format!("state.{}", scenario_name(node)?);
    out.add(
        path,
        match required.as_str() {
            "Started" => one("in", list(vec![text(""), text("Started")])),
            _ => text(required),
        },
    );
    Ok(())
}

/// The name of a scenario as a path can say it.
fn scenario_name(node: &Node) -> Result<String, Gap> {
    let name = present(node, "scenarioName").and_then(scalar_text);
    let name =
        name.ok_or_else(|| Gap::new(node.place, "scenarioName", "a state is one of a scenario"))?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    Ok(name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect())
}

/// Headers that say how a message is encoded: rules answer all encodings.
const ENCODING: [&str; 8] = [
    "content-type",
    "accept",
    "content-length",
    "content-encoding",
    "accept-encoding",
    "transfer-encoding",
    "connection",
    "te",
];

fn headers(request: &Node, out: &mut Conditions, findings: &mut Findings) -> Result<(), Gap> {
    for member in present(request, "headers").map_or(&[][..], Node::members) {
        let key = format!("request.headers.{}", member.key);
        let name = member.key.to_lowercase();
        if ENCODING.contains(&&*name) {
            let why = "says how messages are encoded, and rules answer every encoding; the condition is left out";
            findings.at(member.place, key, why);
            continue;
        }
        out.add(format!("metadata.{name}"), patterns::header(&member.value, &key)?);
    }
    for name in ["basicAuth", "basicAuthCredentials"] {
        let Some(node) = present(request, name) else { continue };
        let part = |key: &str| present(node, key).and_then(scalar_text).unwrap_or_default();
        let pair = format!("{}:{}", part("username"), part("password"));
        let encoded = {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD.encode(pair)
        };
        out.add("metadata.authorization", text(format!("Basic {encoded}")));
    }
    for member in present(request, "cookies").map_or(&[][..], Node::members) {
        let key = format!("request.cookies.{}", member.key);
        let Some(wanted) = present(&member.value, "equalTo").and_then(scalar_text) else {
            return Err(Gap::new(member.place, key, "only equalTo of a cookie has a counterpart"));
        };
        let name = regex::escape(&member.key);
        let pattern = format!("(?:^|;\\s*){name}={}(?:;|$)", regex::escape(&wanted));
        out.add("metadata.cookie", object(vec![("regex".to_owned(), text(pattern))]));
    }
    Ok(())
}
