//! What a mapping of WireMock answers.

use tidewire_mock::document::{Node, Tree, parse_json};
use tidewire_proto::http::Segment;
use tidewire_schema::Schema;
use tidewire_service::Code;

use super::url::{self, Target};
use super::{ENCODING, body, json_path};
use crate::finding::{Findings, Gap};
use crate::gripmock::{code_name, code_of};
use crate::nodes::{any_of, integer, list, number, object, one, present, scalar_text, text, truth};
use crate::rules_out;
use crate::stub::Stub;
use crate::templates;

const RESPONSE_KEYS: [&str; 14] = [
    "status",
    "statusMessage",
    "jsonBody",
    "body",
    "headers",
    "fixedDelayMilliseconds",
    "delayDistribution",
    "fault",
    "transformers",
    "transformerParameters",
    "proxyBaseUrl",
    "bodyFileName",
    "base64Body",
    "chunkedDribbleDelay",
];

/// Adds what the mapping answers.
pub(super) fn answer(
    stub: &mut Stub,
    schema: &Schema,
    response: &Node,
    target: &Target,
    findings: &mut Findings,
) -> Result<(), Gap> {
    for member in response.members() {
        let key = format!("response.{}", member.key);
        match member.key.as_str() {
            "bodyFileName" | "base64Body" | "chunkedDribbleDelay" => {
                findings.at(member.place, key, "has no counterpart; it is left out");
            }
            name if !RESPONSE_KEYS.contains(&name) => {
                findings.at(member.place, key, "has no counterpart; it is left out");
            }
            _ => {}
        }
    }
    delay(stub, response, findings);
    if let Some(fault) = present(response, "fault") {
        return fault_of(stub, fault);
    }
    if let Some(upstream) = present(response, "proxyBaseUrl") {
        let said = scalar_text(upstream).unwrap_or_default();
        let why = format!("is not in rules; start the mock with --upstream {said}");
        findings.at(upstream.place, "response.proxyBaseUrl", why);
        stub.set("upstream", truth(true));
        return Ok(());
    }
    let transformers = present(response, "transformers").map_or(&[][..], Node::items);
    let is_template = |one: &Node| one.as_text() == Some("response-template");
    let renders = transformers.iter().any(is_template);
    for other in transformers.iter().filter(|one| !is_template(one)) {
        findings.at(
            other.place,
            "response.transformers",
            "only response-template has a counterpart",
        );
    }
    let mut gaps = Vec::new();
    headers(stub, schema, response, target, renders, &mut gaps);
    let document = document(response, &mut gaps);
    let document = match (document, renders) {
        (Some(document), true) => {
            let translate = |expression: &str| template(expression, schema, target);
            templates::value(&document, "response.body", &translate, &mut gaps)
        }
        (document, _) => document,
    };
    let failure = failure(response, document.as_ref(), target, &mut gaps)?;
    let streams = stub.method.kind.server_streams();
    match failure {
        Some(failure) => stub.set("error", object(failure)),
        None => {
            let made = document.unwrap_or_else(|| object(Vec::new()));
            let field = target.route.as_ref().map(|route| route.response_body.as_str());
            let made = match field.filter(|field| !field.is_empty()) {
                Some(field) => one(field, made),
                None => made,
            };
            match streams {
                true => stub.set("stream", list(vec![one("body", made)])),
                false => stub.set("body", made),
            }
        }
    }
    if !renders {
        rules_out::verbatim(&mut stub.answer);
    }
    for gap in gaps {
        findings.at(gap.place, gap.key, gap.why);
    }
    Ok(())
}

fn delay(stub: &mut Stub, response: &Node, findings: &mut Findings) {
    if let Some(fixed) = present(response, "fixedDelayMilliseconds")
        && let Some(millis) = integer(fixed).filter(|millis| *millis > 0)
    {
        stub.set("delay", rules_out::millis(millis));
    }
    let Some(spread) = present(response, "delayDistribution") else { return };
    let key = "response.delayDistribution";
    let part = |name: &str| present(spread, name).cloned();
    let millis = |name: &str| present(spread, name).and_then(integer).map(rules_out::millis);
    let kind = present(spread, "type").and_then(scalar_text).unwrap_or_default();
    let made = match kind.as_str() {
        "fixed" => millis("milliseconds"),
        "uniform" => millis("lower").zip(millis("upper")).map(|(min, max)| {
            object(vec![
                ("dist".to_owned(), text("uniform")),
                ("min".to_owned(), min),
                ("max".to_owned(), max),
            ])
        }),
        "lognormal" => {
            if let Some(max) = part("maxValue") {
                findings.at(max.place, format!("{key}.maxValue"), "has no counterpart");
            }
            millis("median").zip(part("sigma")).map(|(median, sigma)| {
                object(vec![
                    ("dist".to_owned(), text("lognormal")),
                    ("median".to_owned(), median),
                    ("sigma".to_owned(), sigma),
                ])
            })
        }
        _ => None,
    };
    let Some(made) = made else {
        findings.at(spread.place, key, format!("a distribution {kind} has no counterpart"));
        return;
    };
    match stub.answer.iter().any(|(key, _)| key == "delay") {
        true => {
            findings.at(spread.place, key, "is added to the fixed delay there, and left out here")
        }
        false => stub.set("delay", made),
    }
}

fn fault_of(stub: &mut Stub, fault: &Node) -> Result<(), Gap> {
    let said = scalar_text(fault).unwrap_or_default();
    let made = match said.as_str() {
        "CONNECTION_RESET_BY_PEER" | "EMPTY_RESPONSE" => {
            object(vec![("kind".to_owned(), text("reset")), ("after".to_owned(), number(0))])
        }
        _ => {
            let why = format!("{said} has no counterpart");
            return Err(Gap::new(fault.place, "response.fault", why));
        }
    };
    stub.set("body", object(Vec::new()));
    stub.set("fault", made);
    Ok(())
}

fn headers(
    stub: &mut Stub,
    schema: &Schema,
    response: &Node,
    target: &Target,
    renders: bool,
    gaps: &mut Vec<Gap>,
) {
    let mut made = Vec::new();
    for member in present(response, "headers").map_or(&[][..], Node::members) {
        let name = member.key.to_lowercase();
        if ENCODING.contains(&&*name) || name.starts_with("grpc-") {
            continue;
        }
        let key = format!("response.headers.{}", member.key);
        let value = match renders {
            true => {
                let translate = |expression: &str| template(expression, schema, target);
                templates::value(&member.value, &key, &translate, gaps)
            }
            false => Some(member.value.clone()),
        };
        let Some(value) = value else { continue };
        match &value.value {
            Tree::List(items) => {
                let texts: Option<Vec<_>> = items.iter().map(scalar_text).collect();
                made.push((name, text(texts.unwrap_or_default().join(", "))));
            }
            _ => made.push((name, text(scalar_text(&value).unwrap_or_default()))),
        }
    }
    if !made.is_empty() {
        stub.set("headers", object(made));
    }
}

/// The body as JSON.
fn document(response: &Node, gaps: &mut Vec<Gap>) -> Option<Node> {
    if let Some(json) = present(response, "jsonBody") {
        return Some(json.clone());
    }
    let body = present(response, "body")?;
    let said = scalar_text(body)?;
    if said.trim().is_empty() {
        return None;
    }
    match parse_json(&said) {
        Ok(Some(mut read)) if read.is_object() || matches!(read.value, Tree::List(_)) => {
            read.place = body.place;
            Some(read)
        }
        _ => {
            let is_error =
                present(response, "status").and_then(integer).is_some_and(|code| code >= 400);
            if is_error {
                return Some(Node { value: Tree::Text(said), place: body.place });
            }
            let why = "a body that is not JSON has no counterpart; it is left out";
            gaps.push(Gap::new(body.place, "response.body", why));
            None
        }
    }
}

/// The error that a response is.
fn failure(
    response: &Node,
    document: Option<&Node>,
    target: &Target,
    gaps: &mut Vec<Gap>,
) -> Result<Option<crate::nodes::Members>, Gap> {
    let header = |wanted: &str| {
        let headers = present(response, "headers")?;
        let found = headers.members().iter().find(|one| one.key.eq_ignore_ascii_case(wanted))?;
        scalar_text(&found.value)
    };
    let place = present(response, "status").map_or(response.place, |status| status.place);
    if let Some(name) = header("grpc-status-name") {
        if name == "OK" {
            return Ok(None);
        }
        let code = code_of(&text(name.clone()));
        let code = code.ok_or_else(|| {
            Gap::new(place, "response.headers.grpc-status-name", format!("{name} is not a code"))
        })?;
        let reason = header("grpc-status-reason").unwrap_or_default();
        return Ok(Some(rules_out::error(&code, &reason)));
    }
    let status = present(response, "status").and_then(integer).unwrap_or(200);
    if target.route.is_none() {
        return over_grpc(status, place);
    }
    let served = target.method.http_status.map_or(200, i128::from);
    if (200..300).contains(&status) {
        if status != served {
            let why = format!("{status} is answered as {served}");
            gaps.push(Gap::new(place, "response.status", why));
        }
        return Ok(None);
    }
    let said = document.map(error_body).unwrap_or_default();
    let code = match (said.code, status) {
        (Some(code), _) => code,
        (None, 400..=599) => {
            code_name(i128::from(code_of_status(status).number())).unwrap_or("UNKNOWN").to_owned()
        }
        (None, _) => {
            let why = format!("a status {status} has no counterpart");
            return Err(Gap::new(place, "response.status", why));
        }
    };
    let ours = Code::ALL.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(&code));
    let ours = ours.map_or(500, |code| i128::from(code.http_status().as_u16()));
    if ours != status {
        let why = format!("{status} is answered as {ours}, which is {code}");
        gaps.push(Gap::new(place, "response.status", why));
    }
    if said.is_lost {
        let why = "of an error only code, message and details have a counterpart";
        gaps.push(Gap::new(place, "response.body", why));
    }
    let mut members = rules_out::error(&code, &said.message);
    members.extend(said.details.map(|details| ("details".to_owned(), details)));
    Ok(Some(members))
}

/// What the extension for gRPC makes of a status of HTTP.
fn over_grpc(
    status: i128,
    place: tidewire_mock::document::Position,
) -> Result<Option<crate::nodes::Members>, Gap> {
    Ok(Some(match status {
        200..=299 => return Ok(None),
        400 => rules_out::error("INTERNAL", "Bad Request"),
        401 => rules_out::error("UNAUTHENTICATED", ""),
        403 => rules_out::error("PERMISSION_DENIED", ""),
        404 => rules_out::error("UNIMPLEMENTED", ""),
        429 | 502..=504 => rules_out::error("UNAVAILABLE", ""),
        _ => {
            let why = format!("a status {status} over gRPC has no counterpart");
            return Err(Gap::new(place, "response.status", why));
        }
    }))
}

/// The code for a status of HTTP.
fn code_of_status(status: i128) -> Code {
    match status {
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::NotFound,
        409 => Code::AlreadyExists,
        412 => Code::FailedPrecondition,
        416 => Code::OutOfRange,
        429 => Code::ResourceExhausted,
        499 => Code::Canceled,
        501 => Code::Unimplemented,
        502 | 503 => Code::Unavailable,
        504 => Code::DeadlineExceeded,
        400..=498 => Code::InvalidArgument,
        _ => Code::Internal,
    }
}

/// What the body of an error says.
#[derive(Debug, Default)]
struct ErrorBody {
    code: Option<String>,
    message: String,
    details: Option<Node>,
    /// Whether it says more than that.
    is_lost: bool,
}

/// `{code, message, details}` of google.rpc.Status and of Connect, or within `error`.
fn error_body(document: &Node) -> ErrorBody {
    if let Some(text) = document.as_text() {
        return ErrorBody { message: text.to_owned(), ..ErrorBody::default() };
    }
    let inner = present(document, "error").filter(|inner| inner.is_object()).unwrap_or(document);
    let named = any_of(inner, &["status", "code"]).and_then(code_of);
    let message = any_of(inner, &["message", "error"]).and_then(scalar_text);
    let known = ["code", "status", "message", "details", "error"];
    ErrorBody {
        code: named,
        message: message.unwrap_or_default(),
        details: present(inner, "details").filter(|all| !all.items().is_empty()).cloned(),
        is_lost: inner.members().iter().any(|member| !known.contains(&&*member.key)),
    }
}

/// An expression of Handlebars.
fn template(expression: &str, schema: &Schema, target: &Target) -> Result<String, String> {
    let no = || Err(format!("the template {{{{{expression}}}}} has no counterpart"));
    let words: Vec<_> = expression.split_whitespace().collect();
    match words[..] {
        ["jsonPath", "request.body", path] => {
            let path = path.trim_matches(['\'', '"']);
            let Some(place) = body::place(schema, target) else { return no() };
            return json_path::plain_path(path, &place);
        }
        ["randomValue", "type='UUID'"] => return Ok("utils.uuid()".to_owned()),
        ["now"] => return Ok("cel: string(now)".to_owned()),
        [_] => {}
        _ => return no(),
    }
    let Some(input) = schema.message_type(&target.method.input) else { return no() };
    let name = |rest: &str| rest.trim_end_matches(".[0]").trim_matches(['[', ']']).to_owned();
    if let Some(rest) = expression.strip_prefix("request.headers.") {
        return Ok(format!("metadata.{}", name(rest).to_lowercase()));
    }
    if let Some(rest) = expression.strip_prefix("request.query.") {
        let name = name(rest);
        return url::field(input, &name).map_or_else(no, |place| {
            Ok(match place.is_list {
                true => format!("{}[0]", place.path),
                false => place.path,
            })
        });
    }
    let of_path = ["request.pathSegments.", "request.path."];
    if let Some(rest) = of_path.iter().find_map(|before| expression.strip_prefix(before)) {
        let known = target.parameters.iter().find(|(name, _)| name == rest);
        if let Some((_, path)) = known {
            return Ok(path.clone());
        }
        let index = rest.trim_matches(['[', ']']).parse::<usize>();
        if let (Ok(index), Some(route)) = (index, &target.route) {
            let variables = route.template.variables.iter();
            let found = variables.clone().find(|one| one.segments == (index..index + 1));
            if let Some(place) = found.and_then(|found| url::field(input, &found.field)) {
                return Ok(place.path);
            }
            if let Some(Segment::Literal(text)) = route.template.segments.get(index) {
                return Ok(format!("cel: {}", crate::cel::quote(text)));
            }
        }
    }
    no()
}
