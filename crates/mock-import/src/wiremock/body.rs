//! `bodyPatterns`: what the body of a request has to be.

use tidewire_mock::document::{Node, Tree, parse_json};
use tidewire_schema::{Kind, MessageType, Schema, Single};

use super::url::Target;
use super::{MATCHER, json_path};
use crate::finding::Gap;
use crate::matching::{Comparison, Conditions, absent, whole};
use crate::nodes::{number, one, present, truth};
use crate::regexes::Pattern;

/// The message that a body is, and where it is in the request.
pub(super) struct BodyPlace<'s> {
    pub(super) path: String,
    pub(super) owner: MessageType<'s>,
}

/// The place of the body of a target.
pub(super) fn place<'s>(schema: &'s Schema, target: &Target) -> Option<BodyPlace<'s>> {
    let input = schema.message_type(&target.method.input)?;
    let body = target.route.as_ref().map_or("*", |route| route.body.as_str());
    match body {
        "*" => Some(BodyPlace { path: "request".to_owned(), owner: input }),
        "" => None,
        name => {
            let field = input.field(name)?;
            let Kind::One(Single::Message(owner)) = field.kind() else { return None };
            Some(BodyPlace { path: format!("request.{}", field.name()), owner })
        }
    }
}

/// Adds the conditions of all patterns.
pub(super) fn body(request: &Node, schema: &Schema, target: &mut Target) -> Result<(), Gap> {
    let patterns = present(request, "bodyPatterns").map_or(&[][..], Node::items);
    for (at, pattern) in patterns.iter().enumerate() {
        let key = format!("request.bodyPatterns[{at}]");
        let gap = |why: &str| Gap::new(pattern.place, &key, why);
        let Some(place) = place(schema, target) else {
            return Err(gap("this method has no body"));
        };
        // Those within the body.
        let within = place.path.trim_start_matches("request").trim_start_matches('.');
        let path_fields = target.path_fields().into_iter().filter_map(|field| match within {
            "" => Some(field),
            within => field.strip_prefix(within)?.strip_prefix('.'),
        });
        let path_fields: Vec<String> = path_fields.map(str::to_owned).collect();
        let out = &mut target.conditions;
        if let Some(json) = present(pattern, "equalToJson") {
            let key = format!("{key}.equalToJson");
            let json = document(json, &key)?;
            equal(&json, pattern, &place, &path_fields, &key, out)?;
        } else if let Some(expression) = present(pattern, "matchesJsonPath") {
            json_path::matches(expression, &place, &format!("{key}.matchesJsonPath"), out)?;
        } else if let Some(text) = present(pattern, "equalTo") {
            let key = format!("{key}.equalTo");
            let not_json = |_| {
                Gap::new(text.place, &key, "the body is compared as JSON, and this is not JSON")
            };
            let json = document(text, &key).map_err(not_json)?;
            if !json.is_object() {
                return Err(Gap::new(
                    text.place,
                    key,
                    "the body is compared as JSON, and this is not JSON",
                ));
            }
            equal(&json, pattern, &place, &path_fields, &key, out)?;
        } else if let Some(all) = present(pattern, "and") {
            // Each of them holds, as of several patterns.
            let inner = crate::nodes::object(vec![("bodyPatterns".to_owned(), all.clone())]);
            body(&inner, schema, target)?;
        } else {
            let first = pattern.members().first();
            let name = first.map(|member| member.key.as_str()).unwrap_or_default();
            let why = format!("{name} looks at the text of a body, and rules at its message");
            return Err(gap(&why));
        }
    }
    Ok(())
}

/// JSON, as a text or as it is.
pub(super) fn document(node: &Node, key: &str) -> Result<Node, Gap> {
    let Tree::Text(text) = &node.value else { return Ok(node.clone()) };
    match parse_json(text) {
        Ok(Some(read)) => Ok(read),
        Ok(None) => Err(Gap::new(node.place, key, "no JSON")),
        Err(fault) => Err(Gap::new(node.place, key, fault.message)),
    }
}

const PLACEHOLDER: &str = "${json-unit.";

fn equal(
    json: &Node,
    pattern: &Node,
    place: &BodyPlace<'_>,
    path_fields: &[String],
    key: &str,
    out: &mut Conditions,
) -> Result<(), Gap> {
    let is_set = |name: &str| present(pattern, name).is_some_and(Node::is_truthy);
    let any_order = is_set("ignoreArrayOrder");
    let gap = |why: &str| Gap::new(pattern.place, key, why);
    if !json.is_object() {
        return Err(gap("a body that is not an object"));
    }
    if any_order && has_deep_list(json, 0) {
        return Err(gap("ignoreArrayOrder of lists within lists or messages has no counterpart"));
    }
    let of_path =
        |name: &str| path_fields.iter().any(|field| field.split('.').next() == Some(name));
    if is_set("ignoreExtraElements") {
        let how = if any_order { Comparison::Part } else { Comparison::Prefix };
        let rest = placeholders(json, place.owner, &place.path, key, true, out)?;
        return MATCHER.members(place.owner, &place.path, key, &rest, how, out);
    }
    let has_placeholders = holds_placeholder(json);
    if !any_order && !has_placeholders && path_fields.is_empty() {
        // Whether the schema has its fields is found out here.
        MATCHER.members(
            place.owner,
            &place.path,
            key,
            json,
            Comparison::Exactly,
            &mut Conditions::default(),
        )?;
        out.add(&*place.path, whole(json));
        return Ok(());
    }
    let rest = placeholders(json, place.owner, &place.path, key, false, out)?;
    let how = if any_order { Comparison::AnyOrder } else { Comparison::Exactly };
    MATCHER.members(place.owner, &place.path, key, &rest, how, out)?;
    for field in place.owner.fields() {
        let is_said = json.members().iter().any(|member| {
            place.owner.field(&member.key).is_some_and(|said| said.number() == field.number())
        });
        if !is_said && !of_path(field.name()) {
            let test = match field.kind() {
                Kind::List(_) => one("len", number(0)),
                _ => absent(),
            };
            out.add(format!("{}.{}", place.path, field.name()), test);
        }
    }
    Ok(())
}

/// Whether the order of some list below the first level matters.
fn has_deep_list(node: &Node, depth: usize) -> bool {
    match &node.value {
        Tree::List(items) => {
            (depth > 1 && items.len() > 1)
                || items.iter().any(|item| has_deep_list(item, depth + 1))
        }
        Tree::Object(members) => members.iter().any(|one| has_deep_list(&one.value, depth + 1)),
        _ => false,
    }
}

fn holds_placeholder(node: &Node) -> bool {
    match &node.value {
        Tree::Text(text) => text.starts_with(PLACEHOLDER) || text.starts_with("#{json-unit."),
        Tree::List(items) => items.iter().any(holds_placeholder),
        Tree::Object(members) => members.iter().any(|one| holds_placeholder(&one.value)),
        _ => false,
    }
}

/// The conditions of `${json-unit.any-string}` and its like, and what else is in an object.
fn placeholders(
    json: &Node,
    owner: MessageType<'_>,
    path: &str,
    key: &str,
    is_deep: bool,
    out: &mut Conditions,
) -> Result<Node, Gap> {
    let mut rest = Vec::new();
    for member in json.members() {
        if !holds_placeholder(&member.value) {
            rest.push((member.key.clone(), member.value.clone()));
            continue;
        }
        let key = format!("{key}.{}", member.key);
        let gap = |why: String| Gap::new(member.place, &key, why);
        let field = owner.field(&member.key);
        let field = field
            .ok_or_else(|| gap(format!("{} has no field {}", owner.full_name(), member.key)))?;
        let path = format!("{path}.{}", field.name());
        match (&member.value.value, field.kind()) {
            (Tree::Text(text), kind) => {
                let name = text.trim_start_matches(['$', '#']).trim_start_matches("{json-unit.");
                match (name.trim_end_matches('}'), kind) {
                    ("ignore" | "ignore-element", _) => {}
                    ("any-string" | "any-number" | "any-boolean", _) => {
                        out.add(path, one("exists", truth(true)));
                    }
                    (_, Kind::One(single)) if name.starts_with("regex}") => {
                        let pattern = Pattern::of_java(&name["regex}".len()..]).map_err(gap)?;
                        let test = MATCHER.pattern(single, field.has_presence(), &pattern);
                        out.add(path, test.map_err(gap)?);
                    }
                    _ => return Err(gap(format!("{text} has no counterpart"))),
                }
            }
            (Tree::Object(_), Kind::One(Single::Message(inner))) if is_deep => {
                let inner_rest = placeholders(&member.value, inner, &path, &key, true, out)?;
                rest.push((member.key.clone(), inner_rest));
            }
            _ => return Err(gap("a placeholder within a message or a list".to_owned())),
        }
    }
    Ok(crate::nodes::object(rest))
}
