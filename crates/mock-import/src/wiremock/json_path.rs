//! `matchesJsonPath`: paths, and filters as expressions of CEL.
//!
//! | a path | the rule |
//! |---|---|
//! | `$.item.sku` | something is there at `request.item.sku` |
//! | the same with a pattern | a test of it |
//! | `$.items[0].sku` | the same of an element |
//! | `$.items[*].sku` with a pattern | `any` element |
//! | `$[?(@.a == 'x' && @.b > 3)]` | an expression over the message |
//! | `$.items[?(@.sku == 'x')]` | an expression over any element |
//!
//! Deep scans (`$..a`), slices and functions have no counterpart.

use tidewire_mock::document::{Node, Number, Tree};
use tidewire_schema::{Field, Kind, MessageType, Scalar, Single};

use super::body::BodyPlace;
use super::patterns;
use crate::cel;
use crate::finding::Gap;
use crate::matching::{Conditions, entry};
use crate::nodes::{number, one, present, scalar_text, text, truth};
use crate::regexes::Pattern;

/// A step of a path.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Name(String),
    Index(usize),
    Any,
    Filter(String),
}

/// Adds the condition of a path, or of `{expression, …}`.
pub(super) fn matches(
    node: &Node,
    place: &BodyPlace<'_>,
    key: &str,
    out: &mut Conditions,
) -> Result<(), Gap> {
    let gap = |why: String| Gap::new(node.place, key, why);
    let (said, pattern) = match &node.value {
        Tree::Object(members) => {
            let said = present(node, "expression").and_then(scalar_text);
            let said = said.ok_or_else(|| gap("wants an expression".to_owned()))?;
            let rest = members.iter().filter(|one| one.key != "expression");
            let rest: Vec<_> = rest.map(|one| (one.key.clone(), one.value.clone())).collect();
            let mut pattern = crate::nodes::object(rest);
            pattern.place = node.place;
            (said, (!pattern.members().is_empty()).then_some(pattern))
        }
        _ => (scalar_text(node).unwrap_or_default(), None),
    };
    let steps = steps(&said).map_err(gap)?;
    if let [Step::Filter(filter)] = &steps[..]
        && pattern.is_none()
    {
        let expression = self::filter(filter, place.owner).map_err(gap)?;
        out.add(&*place.path, one("cel", text(expression)));
        return Ok(());
    }
    let mut walk = Walk { path: place.path.clone(), at: PathType::Message(place.owner) };
    for (index, step) in steps.iter().enumerate() {
        match (step, walk.at) {
            (Step::Filter(inside), PathType::List(single)) => {
                if pattern.is_some() || index + 1 < steps.len() {
                    return Err(gap("what follows a filter has no counterpart".to_owned()));
                }
                let Single::Message(inner) = single else {
                    return Err(gap("a filter over scalars has no counterpart".to_owned()));
                };
                let expression = filter(inside, inner).map_err(gap)?;
                out.add(walk.path, one("any", one("cel", text(expression))));
                return Ok(());
            }
            (Step::Any, PathType::List(single)) => {
                let test = element(&steps[index + 1..], single, pattern.as_ref(), key)?;
                out.add(
                    walk.path,
                    one(
                        "any",
                        test.ok_or_else(|| gap("a list of this has no counterpart".to_owned()))?,
                    ),
                );
                return Ok(());
            }
            _ => walk = walk.step(step).map_err(gap)?,
        }
    }
    let test = last_test(walk.at, pattern.as_ref(), key, &gap)?;
    out.add(walk.path, test);
    Ok(())
}

/// The test of what a path leads to.
fn last_test(
    at: PathType<'_>,
    pattern: Option<&Node>,
    key: &str,
    gap: &dyn Fn(String) -> Gap,
) -> Result<Node, Gap> {
    Ok(match (at, pattern) {
        (PathType::Field { single, presence }, Some(pattern)) => {
            patterns::field(pattern, single, presence, key)?
        }
        (PathType::Message(_), Some(pattern)) => {
            let Some(json) = present(pattern, "equalToJson") else {
                return Err(gap("only equalToJson of a message has a counterpart".to_owned()));
            };
            one("equals", super::body::document(json, key)?)
        }
        (PathType::List(single), Some(pattern)) => match present(pattern, "absent") {
            Some(absent) if absent.is_truthy() => one("len", number(0)),
            _ => one("any", patterns::field(pattern, single, true, key)?),
        },
        (PathType::Map(_), Some(_)) => {
            return Err(gap("a pattern over a map has no counterpart".to_owned()));
        }
        (PathType::List(_), None) => one("len", one("gte", number(1))),
        (_, None) => one("exists", truth(true)),
    })
}

/// The type of what is at a path.
#[derive(Clone, Copy)]
enum PathType<'s> {
    Message(MessageType<'s>),
    List(Single<'s>),
    Map(Single<'s>),
    Field { single: Single<'s>, presence: bool },
}

struct Walk<'s> {
    path: String,
    at: PathType<'s>,
}

impl<'s> Walk<'s> {
    fn step(self, step: &Step) -> Result<Self, String> {
        let of = |single: Single<'s>, presence: bool| match single {
            Single::Message(inner) => PathType::Message(inner),
            single => PathType::Field { single, presence },
        };
        match (self.at, step) {
            (PathType::Message(owner), Step::Name(name)) => {
                let field: Field<'s> = owner
                    .field(name)
                    .ok_or_else(|| format!("{} has no field {name}", owner.full_name()))?;
                let at = match field.kind() {
                    Kind::One(single) => of(single, field.has_presence()),
                    Kind::List(single) => PathType::List(single),
                    Kind::Map { value, .. } => PathType::Map(value),
                };
                Ok(Self { path: format!("{}.{}", self.path, field.name()), at })
            }
            (PathType::List(single), Step::Index(index)) => {
                Ok(Self { path: format!("{}[{index}]", self.path), at: of(single, true) })
            }
            (PathType::Map(single), Step::Name(name)) => {
                Ok(Self { path: entry(&self.path, name)?, at: of(single, true) })
            }
            _ => Err("the path has no counterpart".to_owned()),
        }
    }
}

/// The test of an element of a list, of which a path leads on.
fn element(
    steps: &[Step],
    single: Single<'_>,
    pattern: Option<&Node>,
    key: &str,
) -> Result<Option<Node>, Gap> {
    let Some(pattern) = pattern else { return Ok(None) };
    match (steps, single) {
        ([], single) => Ok(Some(patterns::field(pattern, single, true, key)?)),
        ([Step::Name(name)], Single::Message(owner)) => {
            let Some(field) = owner.field(name) else { return Ok(None) };
            let Kind::One(single) = field.kind() else { return Ok(None) };
            let value = format!("this.{}", field.name());
            let expression = patterns::expression(pattern, single, &value, key)?;
            Ok(Some(one("cel", text(expression))))
        }
        _ => Ok(None),
    }
}

/// The path of a template: `$.a.b[0]`.
pub(super) fn plain_path(said: &str, place: &BodyPlace<'_>) -> Result<String, String> {
    let mut walk = Walk { path: place.path.clone(), at: PathType::Message(place.owner) };
    for step in steps(said)? {
        walk = walk.step(&step)?;
    }
    Ok(walk.path)
}

fn steps(said: &str) -> Result<Vec<Step>, String> {
    let no = |what: &str| Err(format!("{what} in {said} has no counterpart"));
    let mut rest = said.trim();
    rest = match rest.strip_prefix('$') {
        Some(rest) => rest,
        None => return no("a path that does not begin with $"),
    };
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if rest.starts_with("..") {
            return no("a deep scan");
        }
        if let Some(after) = rest.strip_prefix('.') {
            if after.starts_with('[') {
                rest = after;
                continue;
            }
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let name = &after[..end];
            if name == "*" {
                steps.push(Step::Any);
            } else if name.is_empty() || name.contains(['(', ')', ' ']) {
                return no("a function");
            } else {
                steps.push(Step::Name(name.to_owned()));
            }
            rest = &after[end..];
            continue;
        }
        let Some(inside) = rest.strip_prefix('[') else { return no("a sign") };
        if let Some(filter) = inside.strip_prefix("?(") {
            let Some(end) = end_of_filter(filter) else { return no("a filter without its end") };
            steps.push(Step::Filter(filter[..end].to_owned()));
            rest = filter[end..].trim_start_matches(')');
            rest = match rest.strip_prefix(']') {
                Some(rest) => rest,
                None => return no("a filter without its end"),
            };
            continue;
        }
        let Some(end) = inside.find(']') else { return no("a bracket without its end") };
        let index = inside[..end].trim();
        steps.push(match index.parse() {
            Ok(index) => Step::Index(index),
            Err(_) if index == "*" => Step::Any,
            Err(_) => {
                let name =
                    index.strip_prefix(['\'', '"']).and_then(|name| name.strip_suffix(['\'', '"']));
                match name {
                    Some(name) => Step::Name(name.to_owned()),
                    None => return no("an index"),
                }
            }
        });
        rest = &inside[end + 1..];
    }
    Ok(steps)
}

/// Where the bracket ends that a filter is in.
fn end_of_filter(filter: &str) -> Option<usize> {
    let mut depth = 0;
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in filter.char_indices() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') if depth == 0 => return Some(at),
            (None, ')') => depth -= 1,
            _ => {}
        }
    }
    None
}

/// A filter as an expression over `this`.
fn filter(said: &str, owner: MessageType<'_>) -> Result<String, String> {
    let mut reader = Filter { rest: said.trim(), whole: said, owner, depth: 0 };
    let made = reader.either()?;
    match reader.rest.trim().is_empty() {
        true => Ok(made),
        false => Err(format!("{} in the filter {said} has no counterpart", reader.rest.trim())),
    }
}

struct Filter<'f> {
    rest: &'f str,
    whole: &'f str,
    owner: MessageType<'f>,
    depth: usize,
}

/// How deep a filter may nest.
const FILTER_DEPTH_MAX: usize = 16;

impl Filter<'_> {
    fn take(&mut self, sign: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn no<T>(&self) -> Result<T, String> {
        Err(format!("the filter {} has no counterpart", self.whole))
    }

    fn either(&mut self) -> Result<String, String> {
        let mut parts = vec![self.both()?];
        while self.take("||") {
            parts.push(self.both()?);
        }
        Ok(parts.join(" || "))
    }

    fn both(&mut self) -> Result<String, String> {
        let mut parts = vec![self.single()?];
        while self.take("&&") {
            parts.push(self.single()?);
        }
        Ok(parts.join(" && "))
    }

    fn single(&mut self) -> Result<String, String> {
        self.depth += 1;
        if self.depth > FILTER_DEPTH_MAX {
            return self.no();
        }
        let made = if self.take("!") {
            format!("!({})", self.single()?)
        } else if self.take("(") {
            let inner = self.either()?;
            if !self.take(")") {
                return self.no();
            }
            format!("({inner})")
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(made)
    }

    fn comparison(&mut self) -> Result<String, String> {
        if !self.take("@") {
            return self.no();
        }
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || "._".contains(c)));
        let (path, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        let mut owner = self.owner;
        let mut value = "this".to_owned();
        let mut field = None;
        for name in path.split('.').filter(|name| !name.is_empty()) {
            if let Some(Kind::One(Single::Message(inner))) =
                field.map(|field: Field<'_>| field.kind())
            {
                owner = inner;
            }
            let found = owner.field(name);
            let found =
                found.ok_or_else(|| format!("{} has no field {name}", owner.full_name()))?;
            value = format!("{value}.{}", found.name());
            field = Some(found);
        }
        let Some(field) = field else { return self.no() };
        let sign =
            ["==", "!=", "<=", ">=", "=~", "<", ">"].into_iter().find(|sign| self.take(sign));
        let Some(sign) = sign else { return self.exists(field, &value) };
        let Kind::One(single) = field.kind() else { return self.no() };
        if sign == "=~" {
            return self.fits(single, &value);
        }
        let wanted = self.literal()?;
        if wanted.value == Tree::Null {
            return self.no();
        }
        Ok(format!("{value} {sign} {}", cel::scalar(single, &wanted)?))
    }

    /// Something is there, which is not the default of a field without presence.
    fn exists(&self, field: Field<'_>, value: &str) -> Result<String, String> {
        Ok(match field.kind() {
            Kind::One(Single::Message(_)) => format!("has({value})"),
            Kind::One(_) if field.has_presence() => format!("has({value})"),
            Kind::One(Single::Scalar(Scalar::String)) => format!("{value} != \"\""),
            Kind::One(Single::Scalar(Scalar::Bool)) => value.to_owned(),
            Kind::One(single @ (Single::Scalar(_) | Single::Enum(_))) => {
                format!("{value} != {}", cel::scalar(single, &number(0))?)
            }
            Kind::List(_) | Kind::Map { .. } => format!("size({value}) > 0"),
        })
    }

    /// `=~ /pattern/i`, which has to fit all of the text.
    fn fits(&mut self, single: Single<'_>, value: &str) -> Result<String, String> {
        if !matches!(single, Single::Scalar(Scalar::String)) || !self.take("/") {
            return self.no();
        }
        let Some(end) = self.rest.rfind('/') else { return self.no() };
        let pattern = self.rest[..end].replace("\\/", "/");
        self.rest = &self.rest[end + 1..];
        let flags = if self.take("i") { "(?i)" } else { "" };
        let pattern = Pattern::of_java(&format!("{flags}{pattern}"))?;
        pattern.is_match("")?;
        Ok(format!("{value}.matches({})", cel::quote(pattern.re2())))
    }

    fn literal(&mut self) -> Result<Node, String> {
        self.rest = self.rest.trim_start();
        let Some(open) = self.rest.chars().next() else { return self.no() };
        if open == '\'' || open == '"' {
            let mut out = String::new();
            let mut chars = self.rest[1..].char_indices();
            while let Some((at, c)) = chars.next() {
                match c {
                    '\\' => out.extend(chars.next().map(|(_, c)| c)),
                    c if c == open => {
                        self.rest = &self.rest[at + 2..];
                        return Ok(text(out));
                    }
                    c => out.push(c),
                }
            }
            return self.no();
        }
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        Ok(match word {
            "true" | "false" => truth(word == "true"),
            "null" => Node::new(Tree::Null),
            word => match (word.parse::<i64>(), word.parse::<f64>()) {
                (Ok(integer), _) => number(integer),
                (_, Ok(float)) => Node::new(Tree::Number(Number::Float(float))),
                _ => return self.no(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_step_by_step() {
        let name = |name: &str| Step::Name(name.to_owned());
        let check = |said, expected: Result<Vec<Step>, &str>| {
            let expected = expected.map_err(|what| format!("{what} in {said} has no counterpart"));
            assert_eq!(steps(said), expected);
        };
        check("$.a['b c'][0]", Ok(vec![name("a"), name("b c"), Step::Index(0)]));
        check("$.a[*].b", Ok(vec![name("a"), Step::Any, name("b")]));
        check("$[?(@.a == ')')]", Ok(vec![Step::Filter("@.a == ')'".to_owned())]));
        check("$.[?(@.a)]", Ok(vec![Step::Filter("@.a".to_owned())]));
        check("$..a", Err("a deep scan"));
        check("$.a.length()", Err("a function"));
        check("a", Err("a path that does not begin with $"));
    }
}
