//! What a message has to be, as conditions of a rule: by the schema, field by field.
//!
//! | a stub says | the rule |
//! |---|---|
//! | a scalar | its literal; `exists: false` for the default of a field without presence |
//! | exactly a message, a map, a list | `equals` |
//! | a part of a message, a map | a condition for each path in it |
//! | a part of a list | `any` for each element |
//! | a pattern | `regex`; of an enum the names that fit |
//!
//! Two tests of one path are one: `not: {any_of: [{not: A}, {not: B}]}`.

use tidewire_mock::document::{Node, Number, Tree};
use tidewire_schema::{Field, Kind, MessageType, Scalar, Single};

use crate::cel;
use crate::finding::Gap;
use crate::nodes::{Members, integer, list, number, object, one, scalar_text, text, truth};
use crate::regexes::Pattern;

/// How a value is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// It is this.
    Exactly,
    /// It is this, with the elements of the list in any order.
    AnyOrder,
    /// It has this in it, in any order.
    Part,
    /// It has this in it; a list begins with these.
    Prefix,
    /// Texts fit patterns of Go.
    GoPattern,
    /// Texts fit patterns of `path.Match` of Go.
    GoGlob,
}

/// The conditions of a stub.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conditions {
    pub(crate) list: Members,
}

impl Conditions {
    /// Adds a test; a second one of a path has to hold as well.
    pub(crate) fn add(&mut self, path: impl Into<String>, test: Node) {
        let path = path.into();
        match self.list.iter_mut().find(|(known, _)| *known == path) {
            Some((_, before)) if *before == test => {}
            Some((_, before)) => *before = both(before.clone(), test),
            None => self.list.push((path, test)),
        }
    }
}

/// Why a stub is left out.
const ANY_ORDER: &str = "lists in any order within what is compared as a whole";

/// Whether there is a list in it of which the order could be another one.
fn has_order(node: &Node) -> bool {
    match &node.value {
        Tree::List(items) => items.len() > 1 || items.iter().any(has_order),
        Tree::Object(members) => members.iter().any(|member| has_order(&member.value)),
        _ => false,
    }
}

/// Both tests hold.
pub(crate) fn both(a: Node, b: Node) -> Node {
    one("not", one("any_of", list(vec![one("not", a), one("not", b)])))
}

/// All tests hold; there is one at least.
pub(crate) fn all(tests: Vec<Node>) -> Option<Node> {
    match tests.len() {
        0 | 1 => tests.into_iter().next(),
        _ => {
            let tests = tests.into_iter().map(|test| one("not", test)).collect();
            Some(one("not", one("any_of", list(tests))))
        }
    }
}

pub(crate) fn absent() -> Node {
    one("exists", truth(false))
}

pub(crate) fn either(a: Node, b: Node) -> Node {
    one("any_of", list(vec![a, b]))
}

/// Compares messages, for one program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matcher {
    /// Whether a field with presence that is not set counts as its default.
    pub(crate) unset_is_default: bool,
}

impl Matcher {
    /// The conditions of the members of an object that stands for a message.
    pub(crate) fn members(
        self,
        owner: MessageType<'_>,
        path: &str,
        key: &str,
        wanted: &Node,
        how: Comparison,
        out: &mut Conditions,
    ) -> Result<(), Gap> {
        if !wanted.is_object() {
            let why = format!("{} in place of an object of fields", wanted.kind());
            return Err(Gap::new(wanted.place, key, why));
        }
        for member in wanted.members() {
            let key = format!("{key}.{}", member.key);
            let gap = |why: String| Gap::new(member.place, &key, why);
            let Some(field) = owner.field(&member.key) else {
                let why = format!("{} has no field {}", owner.full_name(), member.key);
                return Err(gap(why));
            };
            let path = format!("{path}.{}", field.name());
            self.field(field, &path, &key, &member.value, how, out)?;
        }
        Ok(())
    }

    /// The conditions of one field.
    pub(crate) fn field(
        self,
        field: Field<'_>,
        path: &str,
        key: &str,
        wanted: &Node,
        how: Comparison,
        out: &mut Conditions,
    ) -> Result<(), Gap> {
        let gap = |why: String| Gap::new(wanted.place, key, why);
        if wanted.value == Tree::Null {
            out.add(path, absent());
            return Ok(());
        }
        match field.kind() {
            Kind::One(Single::Message(inner)) => self.message(inner, path, key, wanted, how, out),
            Kind::One(single) => {
                let presence = field.has_presence();
                let test = self.scalar(single, presence, wanted, how).map_err(gap)?;
                out.add(path, test);
                Ok(())
            }
            Kind::List(single) => {
                let Tree::List(items) = &wanted.value else {
                    return Err(gap(format!("{} in place of a list", wanted.kind())));
                };
                if how == Comparison::Prefix {
                    return self.prefix(single, items, path, key, out);
                }
                if let Some(test) = self.list(single, items, how).map_err(gap)? {
                    out.add(path, test);
                }
                Ok(())
            }
            Kind::Map { value, .. } => {
                if !wanted.is_object() {
                    return Err(gap(format!("{} in place of an object", wanted.kind())));
                }
                if how == Comparison::AnyOrder && has_order(wanted) {
                    return Err(gap(ANY_ORDER.to_owned()));
                }
                if matches!(how, Comparison::Exactly | Comparison::AnyOrder) {
                    let is_empty = wanted.members().is_empty();
                    out.add(path, if is_empty { absent() } else { one("equals", wanted.clone()) });
                    return Ok(());
                }
                for member in wanted.members() {
                    let key = format!("{key}.{}", member.key);
                    let gap = |why: String| Gap::new(member.place, &key, why);
                    let path = entry(path, &member.key).map_err(gap)?;
                    match value {
                        Single::Message(inner) => {
                            self.message(inner, &path, &key, &member.value, how, out)?;
                        }
                        single => {
                            let test = self.element(single, &member.value, how).map_err(gap)?;
                            out.add(path, test);
                        }
                    }
                }
                Ok(())
            }
        }
    }

    fn message(
        self,
        inner: MessageType<'_>,
        path: &str,
        key: &str,
        wanted: &Node,
        how: Comparison,
        out: &mut Conditions,
    ) -> Result<(), Gap> {
        let is_exact = matches!(how, Comparison::Exactly | Comparison::AnyOrder);
        let name = inner.full_name();
        match &wanted.value {
            Tree::Object(_) if how == Comparison::AnyOrder && has_order(wanted) => {
                if is_free(name) {
                    return Err(Gap::new(wanted.place, key, ANY_ORDER.to_owned()));
                }
                // Each field by itself, since `equals` of a message has the order of its lists.
                out.add(path, one("exists", truth(true)));
                self.members(inner, path, key, wanted, how, out)?;
                let is_said = |field: &Field<'_>| {
                    [field.name(), field.json_name()].iter().any(|name| wanted.get(name).is_some())
                };
                for field in inner.fields().filter(|field| !is_said(field)) {
                    out.add(format!("{path}.{}", field.name()), absent());
                }
                Ok(())
            }
            Tree::Object(members) if is_exact => {
                let mut test = one("equals", wanted.clone());
                if members.is_empty() {
                    test = either(absent(), test);
                }
                out.add(path, test);
                Ok(())
            }
            Tree::Object(_) if is_free(name) => {
                let why = format!("a part of a {name} has no counterpart");
                Err(Gap::new(wanted.place, key, why))
            }
            Tree::Object(_) => self.members(inner, path, key, wanted, how, out),
            Tree::Text(_) | Tree::Date(_) if name == "google.protobuf.Timestamp" && is_exact => {
                out.add(path, text(scalar_text(wanted).unwrap_or_default()));
                Ok(())
            }
            Tree::List(_) if how == Comparison::AnyOrder && has_order(wanted) => {
                Err(Gap::new(wanted.place, key, ANY_ORDER.to_owned()))
            }
            _ if is_exact && name.starts_with("google.protobuf.") => {
                out.add(path, one("equals", wanted.clone()));
                Ok(())
            }
            _ => {
                let why = format!("{} in place of a {name}", wanted.kind());
                Err(Gap::new(wanted.place, key, why))
            }
        }
    }

    /// A test of a field that holds one scalar.
    fn scalar(
        self,
        single: Single<'_>,
        presence: bool,
        wanted: &Node,
        how: Comparison,
    ) -> Result<Node, String> {
        match pattern_of(wanted, how)? {
            Some(pattern) => self.pattern(single, presence, &pattern),
            None => self.literal(single, presence, wanted),
        }
    }

    /// A test of a scalar that has to fit a pattern.
    pub(crate) fn pattern(
        self,
        single: Single<'_>,
        presence: bool,
        pattern: &Pattern,
    ) -> Result<Node, String> {
        let unset_fits = |default: &str| {
            Ok::<_, String>((!presence || self.unset_is_default) && pattern.is_match(default)?)
        };
        match single {
            Single::Scalar(Scalar::String) => Ok(pattern.test()),
            Single::Scalar(Scalar::Bytes) => Err("a pattern over base64 of bytes".to_owned()),
            Single::Message(_) => Err("a pattern over a message".to_owned()),
            Single::Scalar(Scalar::Bool) => {
                if pattern.is_of_go() {
                    return Err("a pattern fits no bool in GripMock".to_owned());
                }
                match (pattern.is_match("true")?, pattern.is_match("false")?) {
                    (true, true) => {
                        Ok(one("any_of", list(vec![absent(), truth(true), truth(false)])))
                    }
                    (true, false) => Ok(truth(true)),
                    (false, true) => Ok(either(absent(), truth(false))),
                    (false, false) => Err("the pattern fits neither true nor false".to_owned()),
                }
            }
            Single::Scalar(_) => {
                let test = pattern.test();
                Ok(if unset_fits("0")? { either(absent(), test) } else { test })
            }
            Single::Enum(of) => {
                let mut names = Vec::new();
                for (name, _) in of.values() {
                    if pattern.is_match(name)? {
                        names.push(text(name));
                    }
                }
                if names.is_empty() {
                    return Err(format!("the pattern fits no value of {}", of.full_name()));
                }
                let zero = of.name_of(0).unwrap_or_default();
                let test = one("in", list(names));
                Ok(if unset_fits(zero)? { either(absent(), test) } else { test })
            }
        }
    }

    /// A test for exactly this scalar.
    pub(crate) fn literal(
        self,
        single: Single<'_>,
        presence: bool,
        wanted: &Node,
    ) -> Result<Node, String> {
        let Literal { node, is_default } = literal(single, wanted)?;
        Ok(match (is_default, presence) {
            (true, false) => absent(),
            (true, true) if self.unset_is_default => either(absent(), node),
            _ => node,
        })
    }

    /// A test of an element of a list, or of a value of a map.
    fn element(self, single: Single<'_>, wanted: &Node, how: Comparison) -> Result<Node, String> {
        match single {
            Single::Message(_) if how == Comparison::AnyOrder && has_order(wanted) => {
                Err(ANY_ORDER.to_owned())
            }
            Single::Message(inner) => match how {
                Comparison::Exactly | Comparison::AnyOrder => Ok(one("equals", wanted.clone())),
                _ => Ok(one("cel", text(cel::part(inner, "this", wanted, how)?))),
            },
            single => match pattern_of(wanted, how)? {
                // Elements are never unset.
                Some(pattern) => self.pattern(single, true, &pattern),
                None => Ok(literal(single, wanted)?.node),
            },
        }
    }

    /// The conditions of the first elements of a list.
    fn prefix(
        self,
        single: Single<'_>,
        items: &[Node],
        path: &str,
        key: &str,
        out: &mut Conditions,
    ) -> Result<(), Gap> {
        for (at, item) in items.iter().enumerate() {
            let path = format!("{path}[{at}]");
            let key = format!("{key}[{at}]");
            match single {
                Single::Message(inner) => {
                    self.message(inner, &path, &key, item, Comparison::Prefix, out)?;
                }
                single => {
                    let gap = |why: String| Gap::new(item.place, &key, why);
                    out.add(path, literal(single, item).map_err(gap)?.node);
                }
            }
        }
        Ok(())
    }

    fn list(
        self,
        single: Single<'_>,
        items: &[Node],
        how: Comparison,
    ) -> Result<Option<Node>, String> {
        let count = || number(i128::try_from(items.len()).unwrap_or(i128::MAX));
        if items.is_empty() {
            return Ok((how != Comparison::Part).then(|| one("len", number(0))));
        }
        if how == Comparison::Exactly {
            return Ok(Some(one("equals", list(items.to_vec()))));
        }
        let mut tests = Vec::new();
        let mut alternatives = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let test = self.element(single, item, how)?;
            alternatives.push(test.clone());
            let same = |other: &&Node| other.value == item.value;
            if items[..at].iter().any(|other| same(&other)) {
                continue;
            }
            match items.iter().filter(same).count() {
                1 => tests.push(one("any", test)),
                times => tests.push(one("cel", text(cel::count(single, item, how, times)?))),
            }
        }
        if matches!(how, Comparison::AnyOrder | Comparison::GoPattern | Comparison::GoGlob) {
            tests.insert(0, one("len", count()));
        }
        if matches!(how, Comparison::GoPattern | Comparison::GoGlob) && alternatives.len() > 1 {
            tests.push(one("all", one("any_of", list(alternatives))));
        }
        Ok(all(tests))
    }
}

/// The pattern that a text is, where texts are patterns.
fn pattern_of(wanted: &Node, how: Comparison) -> Result<Option<Pattern>, String> {
    let Tree::Text(text) = &wanted.value else { return Ok(None) };
    Ok(match how {
        Comparison::GoPattern => Some(Pattern::of_go(text)?),
        Comparison::GoGlob => Some(Pattern::of_go_glob(text)?),
        Comparison::Exactly | Comparison::AnyOrder | Comparison::Part | Comparison::Prefix => None,
    })
}

/// Messages whose fields are not what JSON has.
fn is_free(name: &str) -> bool {
    let free = ["Struct", "Value", "ListValue", "Any", "FieldMask", "Duration"];
    name.strip_prefix("google.protobuf.").is_some_and(|name| free.contains(&name))
}

/// The path of an entry of a map.
pub(crate) fn entry(path: &str, key: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(is_plain) {
        return Ok(format!("{path}.{key}"));
    }
    match key.contains(['"', '\\', ']']) {
        true => Err(format!("a path cannot say the key {key:?}")),
        false => Ok(format!("{path}[\"{key}\"]")),
    }
}

/// A scalar as a rule says it.
pub(crate) struct Literal {
    pub(crate) node: Node,
    pub(crate) is_default: bool,
}

/// A scalar of JSON for a field.
pub(crate) fn literal(single: Single<'_>, wanted: &Node) -> Result<Literal, String> {
    let wrong = |what: &str| Err(format!("{} in place of {what}", wanted.kind()));
    let made = |node: Node, is_default: bool| Ok(Literal { node, is_default });
    match single {
        Single::Message(inner) => wrong(inner.full_name()),
        Single::Enum(of) => {
            let number = match &wanted.value {
                Tree::Text(name) => of.number_of(name),
                _ => integer(wanted).and_then(|number| i32::try_from(number).ok()),
            };
            let Some(number) = number else {
                let value = scalar_text(wanted).unwrap_or_default();
                return Err(format!("{} has no value {value}", of.full_name()));
            };
            let node = of.name_of(number).map_or_else(|| self::number(number), text);
            made(node, number == 0)
        }
        Single::Scalar(Scalar::String | Scalar::Bytes) => match &wanted.value {
            Tree::Text(value) | Tree::Date(value) => made(text(value.clone()), value.is_empty()),
            _ => wrong("text"),
        },
        Single::Scalar(Scalar::Bool) => match &wanted.value {
            Tree::Bool(value) => made(truth(*value), !*value),
            _ => wrong("a boolean"),
        },
        Single::Scalar(Scalar::Double | Scalar::Float) => match &wanted.value {
            Tree::Number(value) => made(Node::new(Tree::Number(*value)), value.as_f64() == 0.0),
            Tree::Text(value) if value.parse::<f64>().is_ok() => {
                let value: f64 = value.parse().unwrap_or_default();
                made(Node::new(Tree::Number(Number::Float(value))), value == 0.0)
            }
            _ => wrong("a number"),
        },
        Single::Scalar(_) => match integer(wanted) {
            Some(value) => made(number(value), value == 0),
            None => wrong("an integer"),
        },
    }
}

/// All of a message has to be this: one condition where nothing of it is known elsewhere.
pub(crate) fn whole(wanted: &Node) -> Node {
    one(
        "equals",
        match wanted.is_object() {
            true => wanted.clone(),
            false => object(Vec::new()),
        },
    )
}
