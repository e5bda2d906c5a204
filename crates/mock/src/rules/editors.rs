//! The JSON Schema of rule files says what the compiler takes: keys, operators, and every rule that
//! the golden cases, the conformance suite and the guides have.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::{RULE_SCHEMA, RuleFiles, yaml};
use crate::compile::{FILE_KEYS, RESPONSE_KEYS};
use crate::condition::{MORE_OPERATORS, OPERATORS};
use crate::value::view::plain_json;

#[test]
fn the_schema_for_editors_knows_every_key_and_operator() {
    let schema: Json = serde_json::from_str(RULE_SCHEMA).unwrap();
    let names = |pointer: &str| -> Vec<String> {
        let properties = schema.pointer(pointer).and_then(Json::as_object).unwrap();
        let mut names: Vec<_> = properties.keys().cloned().collect();
        names.sort();
        names
    };
    let sorted = |keys: &mut dyn Iterator<Item = &&str>| -> Vec<String> {
        let mut keys: Vec<_> = keys.map(|key| (*key).to_owned()).collect();
        keys.sort();
        keys
    };
    assert_eq!(names("/$defs/file/properties"), sorted(&mut FILE_KEYS.iter()));
    assert_eq!(names("/$defs/response/properties"), sorted(&mut RESPONSE_KEYS.iter()));
    let operators = names("/$defs/test/oneOf/1/properties");
    assert_eq!(operators, sorted(&mut OPERATORS.iter().chain(&MORE_OPERATORS)));
}

/// Golden cases with values of the wrong type and operators that do not exist, which wishmock takes
/// as JavaScript does.
const ODD: [&str; 7] = [
    "golden.core.choose.fallbacks.yaml",
    "golden.core.choose.nullentry.yaml",
    "golden.core.choose.priority.yaml",
    "golden.core.choose.scalarfile.yaml",
    "golden.core.match.literal.yaml",
    "golden.core.match.operator.yaml",
    "golden.flows.down.items.yaml",
];

/// Whether the schema takes a rule file.
fn judge() -> impl Fn(&Json) -> Result<(), String> {
    let schema: Json = serde_json::from_str(RULE_SCHEMA).unwrap();
    move |rule| takes(&schema, &schema, rule, "")
}

/// JSON Schema, as far as the schema of rules uses it: another keyword is a panic.
fn takes(whole: &Json, schema: &Json, value: &Json, at: &str) -> Result<(), String> {
    let Some(keywords) = schema.as_object() else {
        return match schema {
            Json::Bool(true) => Ok(()),
            _ => Err(format!("{at} is not allowed")),
        };
    };
    for (keyword, wanted) in keywords {
        match (&**keyword, value) {
            ("$ref", _) => {
                let pointer = wanted.as_str().unwrap().strip_prefix('#').unwrap();
                takes(whole, whole.pointer(pointer).unwrap(), value, at)?;
            }
            ("allOf", _) => {
                for one in wanted.as_array().unwrap() {
                    takes(whole, one, value, at)?;
                }
            }
            ("oneOf", _) => {
                let judged = wanted.as_array().unwrap().iter();
                let judged: Vec<_> = judged.map(|one| takes(whole, one, value, at)).collect();
                if judged.iter().filter(|one| one.is_ok()).count() != 1 {
                    let whys: Vec<_> = judged.into_iter().filter_map(Result::err).collect();
                    return Err(format!("{at}: not one of: {}", whys.join("; ")));
                }
            }
            ("properties" | "additionalProperties", Json::Object(members)) => {
                for (key, member) in members {
                    let own = keywords.get("properties").and_then(|own| own.get(key));
                    let part = if keyword == "properties" { own } else { own.xor(Some(wanted)) };
                    if let Some(part) = part {
                        takes(whole, part, member, &format!("{at}/{key}"))?;
                    }
                }
            }
            ("items", Json::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    takes(whole, wanted, item, &format!("{at}/{index}"))?;
                }
            }
            _ if keyword_holds(keyword, wanted, value) => {}
            _ => return Err(format!("{at}: {value}, but {keyword} is {wanted}")),
        }
    }
    Ok(())
}

/// Whether a keyword that looks at the value alone holds.
fn keyword_holds(keyword: &str, wanted: &Json, value: &Json) -> bool {
    match (keyword, value) {
        ("type", _) => {
            let names = wanted.as_array().cloned().unwrap_or_else(|| vec![wanted.clone()]);
            names.iter().any(|name| is_of_type(value, name.as_str().unwrap()))
        }
        ("required", Json::Object(members)) => {
            let mut keys = wanted.as_array().unwrap().iter();
            keys.all(|key| members.contains_key(key.as_str().unwrap()))
        }
        ("minItems", Json::Array(items)) => items.len() as u64 >= wanted.as_u64().unwrap(),
        ("enum", _) => wanted.as_array().unwrap().contains(value),
        ("const", _) => value == wanted,
        ("pattern", Json::String(text)) => {
            let pattern = fancy_regex::Regex::new(wanted.as_str().unwrap()).unwrap();
            pattern.is_match(text).unwrap()
        }
        ("minimum", Json::Number(number)) => number.as_f64() >= wanted.as_f64(),
        ("maximum", Json::Number(number)) => number.as_f64() <= wanted.as_f64(),
        ("$schema" | "$id" | "$defs" | "title" | "description", _) => true,
        ("properties" | "additionalProperties" | "items" | "required" | "minItems", _) => true,
        ("pattern" | "minimum" | "maximum", _) => true,
        (other, _) => panic!("this test does not know the keyword {other}"),
    }
}

fn is_of_type(value: &Json, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no type {other}"),
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_rule_of_the_golden_cases_and_of_the_conformance_suite_is_taken() {
    let judge = judge();
    let (mut count, mut refused) = (0, Vec::new());
    for folder in ["tests/fixtures/mock/golden/rules", "tests/fixtures/mock/conformance"] {
        for path in files(&repository().join(folder)) {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let read = match name.ends_with(".json") {
                true => yaml::parse_json(&text),
                false => yaml::parse(&text),
            };
            let Some(rule) = read.unwrap() else { continue };
            count += 1;
            let judged = judge(&plain_json(&rule));
            refused.extend(judged.err().map(|why| format!("{name}: {why}")));
        }
    }
    refused.sort();
    let names: Vec<_> = refused.iter().filter_map(|told| Some(told.split_once(": ")?.0)).collect();
    assert_eq!(names, ODD, "{}", refused.join("\n"));
    assert!(count > 50, "{count} files");
}

#[test]
fn every_rule_of_the_guides_is_taken() {
    let judge = judge();
    let mut count = 0;
    for page in ["mocking.md", "mock-rules.md"] {
        let text = std::fs::read_to_string(repository().join("docs/guide").join(page)).unwrap();
        for block in text.split("```yaml").skip(1) {
            let (_, block) = block.split_once('\n').unwrap();
            let (block, _) = block.split_once("```").unwrap();
            let rule = yaml::parse(block).unwrap().unwrap();
            let judged = judge(&plain_json(&rule));
            assert!(judged.is_ok(), "{page}: {block}\n{judged:?}");
            count += 1;
        }
    }
    assert!(count > 4, "{count} blocks");
}

#[test]
fn what_the_check_finds_in_the_form_of_a_file_the_schema_finds_too() {
    let judge = judge();
    for rule in [
        "responses: 5",
        "match: {headers: {a: b}}",
        "- {when: {request.sku: {regx: a}}}",
        "- {error: {cod: 5}}",
        "- {error: 5}",
        "- {error: {details: [{name: a}]}}",
        "- {delay: {min: 5}}",
        "- {stream: [{bdy: {}}]}",
        "- {on_message: [{snd: []}]}",
        "- {times: many}",
        "- {sequence: []}",
        "- {fault: {kind: rest}}",
        "- {fault: {kind: reset, p: 2}}",
        "- {fault: 5}",
        "- {fake: {sed: 1}}",
        "- {headers: [{nme: a}]}",
        "5",
    ] {
        let node = yaml::parse(rule).unwrap().unwrap();
        assert!(judge(&plain_json(&node)).is_err(), "{rule}");
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false if RuleFiles::is_rule_file(&path) => found.push(path),
            false => {}
        }
    }
    found
}
