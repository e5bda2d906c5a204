//! When a rule applies: a path, and what has to be there.
//!
//! An object with operators is a test; anything else is compared as text. Operators of one object
//! are looked at in this order, and all but the last two rows decide alone:
//!
//! | operator | true when |
//! |---|---|
//! | `not` | the test in it is not |
//! | `exists` | something is there, or nothing is |
//! | `regex`, `flags` | the text matches as in JavaScript |
//! | `contains` | the text has this part, or the list this element |
//! | `in` | the text is in the list |
//! | `startsWith`, `endsWith`, `glob` | the text does |
//! | `any_of` | one of the tests is |
//! | `any`, `all`, `none` | one, every, no element of the list passes the test |
//! | `len` | the length of a list or of text passes the test |
//! | `equals` | it is this, as JSON sees it: a message with all its fields, a list, a value |
//! | `like` | the same, and each `***` in a text of it is any text, or any value where it stands alone |
//! | `cel` | the expression is true of `this`, which is what is at the path |
//! | `gt` `gte` `lt` `lte` | all of them hold of the number; beside a time as RFC 3339 has it, of the time; beside `90s`, of the duration |
//! | `eq` `ne` | both hold of the text |

pub(crate) mod index;
pub(crate) mod pattern;

use std::cmp::Ordering;

use serde_json::Value as Json;
use tidewire_schema::Schema;
use tidewire_validate::{Expression, NameType, parse_timestamp};

use crate::condition::pattern::Pattern;
use crate::template::formula;
use crate::value::eval_context::{EvalContext, SESSION_HEADER};
use crate::value::javascript;
use crate::value::node::{Node, Number, Position, Tree};
use crate::value::path::{Path, Root};
use crate::value::seconds;
use crate::value::view::View;

/// A path, and what has to be there.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) path: Path,
    pub(crate) test: Test,
    /// The path as it was written.
    pub(crate) key: String,
    /// What is expected, as it was written.
    pub(crate) expected: Node,
}

/// What has to hold of a value.
#[derive(Debug)]
pub(crate) enum Test {
    /// Its text is this.
    Equals(String),
    /// Never true: a date, a pattern that does not compile.
    Never,
    /// Always true: an object of operators that says nothing.
    Always,
    Not(Box<Self>),
    Exists(bool),
    Regex(Box<Pattern>),
    Contains {
        part: String,
        element: String,
    },
    In(Vec<String>),
    StartsWith(String),
    EndsWith(String),
    AnyOf(Vec<Self>),
    Elements(Quantity, Box<Self>),
    Length(Box<Self>),
    /// It is what this JSON says.
    Same(Json),
    /// It is what this JSON says, with anything in the place of [`ANYTHING`].
    Like(Json),
    /// An expression is true; what is absent is this to it.
    Cel(Box<Expression>, Json),
    All(Vec<Comparison>),
}

/// Of how many elements a test has to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantity {
    Any,
    All,
    None,
}

/// A comparison of numbers or texts.
#[derive(Debug)]
pub(crate) enum Comparison {
    Greater(Option<Number>),
    GreaterOrEqual(Option<Number>),
    Less(Option<Number>),
    LessOrEqual(Option<Number>),
    Equal(String),
    NotEqual(String),
    /// It is a point in time that is on these sides of this one.
    Time(&'static [Ordering], i128),
    /// It is a duration that is on these sides of this one.
    Duration(&'static [Ordering], i128),
}

/// The operators that wishmock knows.
pub(crate) const OPERATORS: [&str; 12] =
    ["not", "exists", "regex", "flags", "contains", "in", "gt", "gte", "lt", "lte", "eq", "ne"];

/// The operators that only we know.
pub(crate) const MORE_OPERATORS: [&str; 11] = [
    "equals",
    "like",
    "startsWith",
    "endsWith",
    "glob",
    "any_of",
    "any",
    "all",
    "none",
    "len",
    "cel",
];

/// What a test is compiled with: who is told what is wrong, and what `this` is in an expression.
pub(crate) struct TestContext<'m> {
    pub(crate) note: &'m mut dyn FnMut(Position, String),
    pub(crate) schema: &'m Schema,
    pub(crate) this: PathTarget,
}

/// What is known of what a path leads to.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathTarget {
    /// The type of a message.
    pub(crate) message: Option<String>,
    /// What it is where nothing is there.
    pub(crate) absent: Json,
    /// The same of the elements of a list.
    pub(crate) element: Option<Box<Self>>,
}

impl TestContext<'_> {
    /// A test of something else than what the path leads to.
    fn test_of(&mut self, this: PathTarget, expected: &Node) -> Box<Test> {
        let whole = std::mem::replace(&mut self.this, this);
        let test = Test::new(expected, self);
        self.this = whole;
        Box::new(test)
    }

    /// A test of an element of the list.
    fn test_of_element(&mut self, expected: &Node) -> Box<Test> {
        let element = self.this.element.as_deref().cloned().unwrap_or_default();
        self.test_of(element, expected)
    }
}

impl Condition {
    /// A condition; what is wrong with it is told to `making`, and it then never holds.
    pub(crate) fn new(
        path: Path,
        key: &str,
        expected: &Node,
        making: &mut TestContext<'_>,
    ) -> Self {
        let test = Test::new(expected, making);
        Self { path, test, key: key.to_owned(), expected: expected.clone() }
    }

    /// Whether it holds.
    pub(crate) fn holds(&self, eval: &EvalContext<'_>) -> bool {
        self.test.holds(&self.path.resolve(eval))
    }

    /// Whether it asks for a session.
    pub(crate) fn is_of_session(&self) -> bool {
        matches!(&self.path.root, Root::Metadata(Some(name)) if name == SESSION_HEADER)
    }

    /// What is there, and what was wanted.
    pub(crate) fn miss(&self, eval: &EvalContext<'_>) -> String {
        let actual = self.path.resolve(eval);
        let wanted =
            crate::value::view::short(crate::value::view::plain_json(&self.expected).to_string());
        match actual.is_absent() {
            true => format!("{} is absent, wanted {wanted}", self.key),
            false => {
                format!(
                    "{} is {}, wanted {wanted}",
                    self.key,
                    crate::value::view::short(actual.for_people())
                )
            }
        }
    }

    /// The text that it wants, where it only wants a text; a time and a duration may be written
    /// otherwise.
    pub(crate) fn literal(&self) -> Option<&str> {
        match &self.test {
            Test::Equals(text)
                if parse_timestamp(text).is_none() && !seconds::is_spelled_otherwise(text) =>
            {
                Some(text)
            }
            _ => None,
        }
    }
}

impl Test {
    pub(crate) fn new(expected: &Node, making: &mut TestContext<'_>) -> Self {
        if !expected.is_object() {
            return match expected.value {
                Tree::Date(_) => {
                    let why = "a date that is not quoted equals no text; quote it".to_owned();
                    (making.note)(expected.place, why);
                    Self::Never
                }
                _ => Self::Equals(View::Rule(expected).text().into_owned()),
            };
        }
        let text = |node: &Node| View::Rule(node).text().into_owned();
        for (name, make) in DECIDING {
            if let Some(operand) = expected.get(name) {
                return make(operand, expected, making);
            }
        }
        let mut comparisons = Vec::new();
        for member in expected.members() {
            let number = || View::Rule(&member.value).number().filter(|n| n.as_f64().is_finite());
            let spelled = || View::Rule(&member.value).spelled().into_owned();
            if let Some((sides, at)) = sides(&member.key).zip(View::Rule(&member.value).time()) {
                comparisons.push(Comparison::Time(sides, at));
                continue;
            }
            if let Some((sides, long)) =
                sides(&member.key).zip(View::Rule(&member.value).duration())
            {
                comparisons.push(Comparison::Duration(sides, long));
                continue;
            }
            if sides(&member.key).is_some() && number().is_none() {
                let why = format!(
                    "{} wants a number, a time or a duration: it is never true of {}",
                    member.key,
                    member.value.kind()
                );
                (making.note)(member.value.place, why);
            }
            comparisons.push(match member.key.as_str() {
                "gt" => Comparison::Greater(number()),
                "gte" => Comparison::GreaterOrEqual(number()),
                "lt" => Comparison::Less(number()),
                "lte" => Comparison::LessOrEqual(number()),
                "eq" => Comparison::Equal(spelled()),
                "ne" => Comparison::NotEqual(spelled()),
                _ => continue,
            });
        }
        if comparisons.is_empty() {
            return match expected.get("flags") {
                Some(_) => Self::Always,
                None => Self::Equals(text(expected)),
            };
        }
        Self::All(comparisons)
    }

    /// Whether it holds of a value.
    pub(crate) fn holds(&self, actual: &View<'_>) -> bool {
        match self {
            Self::Equals(text) => actual.equals(text),
            Self::Never => false,
            Self::Always => true,
            Self::Not(test) => !test.holds(actual),
            Self::Exists(wanted) => actual.is_absent() != *wanted,
            Self::Regex(pattern) => pattern.matches(&actual.readable()),
            Self::Contains { part, element } => match actual.elements() {
                Some(elements) => elements.iter().any(|one| {
                    one.spelled() == *element || one.other_text().as_ref() == Some(element)
                }),
                None => actual.readable().contains(part.as_str()),
            },
            Self::In(texts) => texts.iter().any(|text| actual.equals(text)),
            Self::StartsWith(text) => actual.readable().starts_with(text.as_str()),
            Self::EndsWith(text) => actual.readable().ends_with(text.as_str()),
            Self::AnyOf(tests) => tests.iter().any(|test| test.holds(actual)),
            Self::Elements(quantity, test) => {
                let elements = actual.elements().unwrap_or_default();
                let mut hold = elements.iter().map(|one| test.holds(one));
                match quantity {
                    Quantity::Any => hold.any(|holds| holds),
                    Quantity::All => hold.all(|holds| holds),
                    Quantity::None => !hold.any(|holds| holds),
                }
            }
            Self::Length(test) => test.holds(&match actual.elements() {
                Some(elements) => View::count(elements.len()),
                None => View::count(actual.text().encode_utf16().count()),
            }),
            Self::Same(wanted) => actual.is_same(wanted),
            Self::Like(wanted) => actual.is_like(wanted),
            Self::Cel(expression, absent) => {
                let mut this = |_| Some(formula::this(actual, absent));
                let gives = expression.evaluate(&mut this, 0, &mut { Expression::STEPS });
                gives == Ok(Json::Bool(true))
            }
            Self::All(comparisons) => comparisons.iter().all(|one| one.holds(actual)),
        }
    }
}

impl Comparison {
    fn holds(&self, actual: &View<'_>) -> bool {
        let is = |wanted: Option<Number>, orders: &[Ordering]| {
            let order = actual.number().zip(wanted).and_then(|(a, b)| javascript::compare(a, b));
            order.is_some_and(|order| orders.contains(&order))
        };
        use Ordering::{Equal, Greater, Less};
        match self {
            Self::Greater(wanted) => is(*wanted, &[Greater]),
            Self::GreaterOrEqual(wanted) => is(*wanted, &[Greater, Equal]),
            Self::Less(wanted) => is(*wanted, &[Less]),
            Self::LessOrEqual(wanted) => is(*wanted, &[Less, Equal]),
            Self::Equal(text) => actual.equals(text),
            Self::NotEqual(text) => !actual.equals(text),
            Self::Time(sides, at) => {
                actual.time().is_some_and(|actual| sides.contains(&actual.cmp(at)))
            }
            Self::Duration(sides, long) => {
                actual.duration().is_some_and(|actual| sides.contains(&actual.cmp(long)))
            }
        }
    }
}

/// On which sides of a point in time another is, by an operator that asks for an order.
fn sides(operator: &str) -> Option<&'static [Ordering]> {
    use Ordering::{Equal, Greater, Less};
    Some(match operator {
        "gt" => &[Greater],
        "gte" => &[Greater, Equal],
        "lt" => &[Less],
        "lte" => &[Less, Equal],
        _ => return None,
    })
}

type Make = fn(operand: &Node, whole: &Node, making: &mut TestContext<'_>) -> Test;

/// The operators that decide alone, in the order in which they are looked for.
const DECIDING: [(&str, Make); 16] = [
    ("not", |operand, _, making| Test::Not(Box::new(Test::new(operand, making)))),
    ("exists", |operand, _, _| Test::Exists(operand.is_truthy())),
    ("regex", |operand, whole, making| {
        let text = |node: &Node| View::Rule(node).text().into_owned();
        let flags = whole.get("flags").map(text).unwrap_or_default();
        if operand.as_text().is_none() {
            let why = format!("the pattern is {}; quote it", operand.kind());
            (making.note)(operand.place, why);
        }
        match Pattern::new(&text(operand), &flags) {
            Ok(pattern) => Test::Regex(Box::new(pattern)),
            Err(why) => {
                (making.note)(operand.place, format!("the pattern never matches: {why}"));
                Test::Never
            }
        }
    }),
    ("contains", |operand, _, _| Test::Contains {
        part: View::Rule(operand).text().into_owned(),
        element: View::Rule(operand).spelled().into_owned(),
    }),
    ("in", |operand, _, making| {
        if !matches!(operand.value, Tree::List(_)) {
            (making.note)(
                operand.place,
                format!("`in` wants a list and is {}: it is never true", operand.kind()),
            );
        }
        Test::In(operand.items().iter().map(|one| View::Rule(one).spelled().into_owned()).collect())
    }),
    ("startsWith", |operand, _, _| Test::StartsWith(View::Rule(operand).text().into_owned())),
    ("endsWith", |operand, _, _| Test::EndsWith(View::Rule(operand).text().into_owned())),
    ("glob", |operand, _, making| glob(operand, making)),
    ("any_of", |operand, _, making| {
        Test::AnyOf(operand.items().iter().map(|one| Test::new(one, making)).collect())
    }),
    ("any", |operand, _, making| Test::Elements(Quantity::Any, making.test_of_element(operand))),
    ("all", |operand, _, making| Test::Elements(Quantity::All, making.test_of_element(operand))),
    ("none", |operand, _, making| Test::Elements(Quantity::None, making.test_of_element(operand))),
    ("len", |operand, _, making| {
        let this = PathTarget { absent: 0.into(), ..PathTarget::default() };
        Test::Length(making.test_of(this, operand))
    }),
    ("equals", |operand, _, _| Test::Same(crate::value::view::plain_json(operand))),
    ("like", |operand, _, _| Test::Like(crate::value::view::plain_json(operand))),
    ("cel", cel),
];

/// `*` is any text, `?` one character.
fn glob(operand: &Node, making: &mut TestContext<'_>) -> Test {
    let mut pattern = String::from("^");
    for c in View::Rule(operand).text().chars() {
        match c {
            '*' => pattern.push_str("[^]*"),
            '?' => pattern.push_str("[^]"),
            c if c.is_ascii_punctuation() => pattern.extend(['\\', c]),
            c => pattern.push(c),
        }
    }
    pattern.push('$');
    match Pattern::new(&pattern, "u") {
        Ok(pattern) => Test::Regex(Box::new(pattern)),
        Err(why) => {
            (making.note)(operand.place, why);
            Test::Never
        }
    }
}

/// An expression over what the path leads to.
fn cel(operand: &Node, _: &Node, making: &mut TestContext<'_>) -> Test {
    let text = View::Rule(operand).text();
    let this = making.this.message.as_deref().map_or(NameType::Unknown, NameType::Message);
    match Expression::compile(making.schema, &[("this", this)], &text) {
        Ok(expression) if expression.is_truth() => {
            Test::Cel(Box::new(expression), making.this.absent.clone())
        }
        Ok(_) => {
            let why = "the expression is never true: it gives no boolean".to_owned();
            (making.note)(operand.place, why);
            Test::Never
        }
        Err(why) => {
            (making.note)(operand.place, format!("the expression is never true: {why}"));
            Test::Never
        }
    }
}
