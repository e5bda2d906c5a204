//! Text with `{{ expressions }}` in it, parsed once and rendered for each call.
//!
//! An expression is a path ([`path`](crate::value::path)), a call of a function or arithmetic over
//! them. It gives text; what is not there gives none. Nothing that was rendered is read as a
//! template again, so a request cannot put expressions in.
//!
//! | function | gives |
//! |---|---|
//! | `utils.now()` | milliseconds since 1970 |
//! | `utils.uuid()` | a UUID |
//! | `utils.random(min = 0, max = 1)` | a number from min up to max |
//! | `utils.format("%s…", a, b)` | the text with each `%s` replaced |
//! | `cel: EXPRESSION` | what an expression of CEL gives ([`formula`](crate::template::formula)); alone in a text it keeps its type |
//!
//! What wishmock does with what is none of these is kept: a call of a function that nobody knows
//! gives its own source, one that fails leaves the braces as they are.
//!
//! Bounded: an expression nests 16 deep, and all text of one answer together is 64 MiB at most.

pub(crate) mod formula;
pub(crate) mod value_template;

use std::borrow::Cow;
use std::sync::Arc;

use crate::random::Random;
use crate::template::formula::Formula;
use crate::value::eval_context::{EvalContext, millis};
use crate::value::javascript;
use crate::value::node::{Node, Number, Tree};
use crate::value::path::{Path, Root};
use crate::value::view::View;

/// How much text one answer may be made of.
pub(crate) const RENDERED_BYTES_MAX: usize = 64 << 20;

const DEPTH_MAX: usize = 16;

const FUNCTIONS: [&str; 4] = ["utils.now", "utils.uuid", "utils.random", "utils.format"];

/// Text with expressions in it.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
enum Part {
    Text(String),
    /// An expression, and the braces that it stood in.
    Expression(Expression, String),
    /// What `{{cel: …}}` says, and its text.
    Formula(Arc<Formula>, String),
}

#[derive(Debug, Clone, PartialEq)]
enum Expression {
    Path(Path),
    Text(String),
    Number(Number),
    Bool(bool),
    Now,
    Uuid,
    Random(Vec<Self>),
    Format(Vec<Self>),
    Arithmetic(Box<Self>, char, Box<Self>),
    /// It stays as it was written, braces and all.
    Verbatim,
}

/// What rendering needs beside the context, and what it has used up.
#[derive(Debug)]
pub(crate) struct RenderState<'r> {
    pub(crate) random: &'r mut Random,
    pub(crate) now_millis: u64,
    /// How much text may still be made.
    pub(crate) bytes_left: usize,
    /// How many steps expressions of CEL may still take.
    pub(crate) steps_left: u64,
}

/// Why a template gives nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RenderError {
    /// The answer would have been larger than [`RENDERED_BYTES_MAX`].
    TooLarge,
    /// An expression of CEL has no value: its text, and why.
    Formula(String, String),
}

impl Template {
    /// Parses text; `None` where it has no expression. `formula` compiles what `{{cel: …}}` says.
    pub(crate) fn parse(text: &str, formula: &mut dyn FnMut(&str) -> Formula) -> Option<Self> {
        let mut parts = Vec::new();
        // An expression alone keeps the type of its value, also where YAML ends it with a new line.
        let text = match text.trim() {
            alone if alone.starts_with(CEL) && cel_end(alone) == Some(alone.len()) => alone,
            _ => text,
        };
        let mut plain = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("{{") {
            let inside = &rest[start + 2..];
            if let Some(end) =
                rest[start..].starts_with(CEL).then(|| cel_end(&rest[start..])).flatten()
            {
                plain.push_str(&rest[..start]);
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                let source = rest[start + CEL.len()..start + end - 2].trim();
                parts.push(Part::Formula(Arc::new(formula(source)), source.to_owned()));
                rest = &rest[start + end..];
                continue;
            }
            let end = inside.find('}').filter(|end| *end > 0 && inside[*end..].starts_with("}}"));
            let Some(end) = end else {
                plain.push_str(&rest[..=start]);
                rest = &rest[start + 1..];
                continue;
            };
            plain.push_str(&rest[..start]);
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            let source = &rest[start..start + 2 + end + 2];
            parts.push(Part::Expression(expression(inside[..end].trim(), 0), source.to_owned()));
            rest = &rest[start + 2 + end + 2..];
        }
        if parts.is_empty() {
            return None;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Some(Self { parts })
    }

    /// The paths that it looks at.
    pub(crate) fn paths(&self) -> Vec<&Path> {
        let mut paths = Vec::new();
        for part in &self.parts {
            if let Part::Expression(expression, _) = part {
                expression.paths(&mut paths);
            }
        }
        paths
    }

    /// Whether its value may depend on what was called before.
    pub(crate) fn looks_back(&self) -> bool {
        let formulas = self.parts.iter().any(|part| match part {
            Part::Formula(formula, _) => formula.looks_back(),
            _ => false,
        });
        formulas || self.paths().iter().any(|path| matches!(path.root, Root::State | Root::Attempt))
    }

    /// What calls nothing, gives nothing or stays as it is, and was probably not meant.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        for part in &self.parts {
            match part {
                Part::Text(_) => {}
                Part::Formula(formula, _) => {
                    if let Formula::Broken(why) = &**formula {
                        doubts.push(format!("the expression has no value: {why}"));
                    }
                }
                Part::Expression(expression, source) => expression.doubts(source, &mut doubts),
            }
        }
        doubts
    }

    /// Its value for a call: text, unless it is an expression of CEL and nothing else.
    pub(crate) fn value(
        &self,
        eval: &EvalContext<'_>,
        rendering: &mut RenderState<'_>,
    ) -> Result<Tree, RenderError> {
        match &self.parts[..] {
            [Part::Formula(formula, source)] => {
                let json = rendering.formula(formula, source, eval)?;
                Ok(Node::from(&json).value)
            }
            _ => self.render(eval, rendering).map(Tree::Text),
        }
    }

    /// Its text for a call.
    pub(crate) fn render(
        &self,
        eval: &EvalContext<'_>,
        rendering: &mut RenderState<'_>,
    ) -> Result<String, RenderError> {
        let mut out = String::new();
        for part in &self.parts {
            let text = match part {
                Part::Formula(formula, source) => {
                    Cow::Owned(match rendering.formula(formula, source, eval)? {
                        serde_json::Value::String(text) => text,
                        serde_json::Value::Null => String::new(),
                        other => other.to_string(),
                    })
                }
                Part::Text(text) => Cow::Borrowed(text.as_str()),
                Part::Expression(expression, source) => {
                    let value = expression.value(eval, rendering);
                    value.map_or(Cow::Borrowed(source.as_str()), |value| value.text())
                }
            };
            rendering.spend(text.len())?;
            out.push_str(&text);
        }
        Ok(out)
    }
}

impl RenderState<'_> {
    fn spend(&mut self, bytes: usize) -> Result<(), RenderError> {
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(RenderError::TooLarge)?;
        Ok(())
    }

    fn formula(
        &mut self,
        formula: &Formula,
        source: &str,
        eval: &EvalContext<'_>,
    ) -> Result<serde_json::Value, RenderError> {
        let json = formula
            .value(eval, self.now_millis, &mut self.steps_left)
            .map_err(|why| RenderError::Formula(source.to_owned(), why))?;
        self.spend(bytes_of(&json))?;
        Ok(json)
    }
}

/// How much text is in a value.
fn bytes_of(json: &serde_json::Value) -> usize {
    match json {
        serde_json::Value::String(text) => text.len(),
        serde_json::Value::Array(items) => items.iter().map(bytes_of).sum(),
        serde_json::Value::Object(members) => {
            members.iter().map(|(key, value)| key.len() + bytes_of(value)).sum()
        }
        _ => 0,
    }
}

/// How an expression of CEL begins.
const CEL: &str = "{{cel:";

/// Where `{{cel: …}}` ends: at the first `}}` that stands neither in quotes nor in its own braces.
fn cel_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0_usize;
    let mut escaped = false;
    let inside = text.get(CEL.len()..)?;
    for (index, c) in inside.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '{') => depth += 1,
            (None, '}') if depth > 0 => depth -= 1,
            (None, '}') if inside[index..].starts_with("}}") => return Some(CEL.len() + index + 2),
            _ => {}
        }
    }
    None
}

impl Expression {
    /// What of it was probably not meant; `source` is the text with its braces.
    fn doubts(&self, source: &str, doubts: &mut Vec<String>) {
        match self {
            Self::Verbatim => doubts.push(format!(
                "{source} stays as it is: it calls an unknown function; {{{{cel: …}}}} has more"
            )),
            Self::Text(own) if own.contains('(') => doubts.push(format!(
                "there is no function {}, so {source} gives its own text{}",
                own.split('(').next().unwrap_or_default(),
                crate::body::meant(own.split('(').next().unwrap_or_default(), &FUNCTIONS)
            )),
            Self::Path(path) if path.root == Root::Unknown => {
                let inside = source.trim_matches(['{', '}']).trim();
                let first = inside.split(['.', '[']).next().unwrap_or_default();
                let function = format!("utils.{first}");
                let meant = match FUNCTIONS.contains(&&*function) {
                    true => format!("; did you mean {{{{{function}()}}}}?"),
                    false => crate::body::meant(first, &crate::value::path::ROOTS),
                };
                doubts.push(format!("{source} gives nothing: nothing is called {first}{meant}"));
            }
            Self::Random(parts) | Self::Format(parts) => {
                parts.iter().for_each(|part| part.doubts_within(source, doubts));
            }
            Self::Arithmetic(left, _, right) => {
                left.doubts_within(source, doubts);
                right.doubts_within(source, doubts);
            }
            _ => {}
        }
    }

    /// The same of an argument, where text may have parentheses.
    fn doubts_within(&self, source: &str, doubts: &mut Vec<String>) {
        if !matches!(self, Self::Text(_)) {
            self.doubts(source, doubts);
        }
    }

    fn paths<'e>(&'e self, paths: &mut Vec<&'e Path>) {
        match self {
            Self::Path(path) => paths.push(path),
            Self::Random(arguments) | Self::Format(arguments) => {
                arguments.iter().for_each(|one| one.paths(paths));
            }
            Self::Arithmetic(left, _, right) => {
                left.paths(paths);
                right.paths(paths);
            }
            _ => {}
        }
    }

    /// Its value; `None` where it fails.
    fn value<'s>(
        &'s self,
        eval: &EvalContext<'s>,
        rendering: &mut RenderState<'_>,
    ) -> Option<View<'s>> {
        Some(match self {
            Self::Path(path) => path.resolve(eval).in_template(),
            Self::Text(text) => View::Text(Cow::Borrowed(text)),
            Self::Number(number) => View::Number(*number),
            Self::Bool(value) => View::Bool(*value),
            Self::Now => millis(rendering.now_millis),
            Self::Uuid => View::Text(Cow::Owned(rendering.random.uuid())),
            Self::Random(arguments) => {
                let mut bounds = [0.0, 1.0];
                for (bound, argument) in bounds.iter_mut().zip(arguments) {
                    let value = argument.value(eval, rendering)?;
                    if !matches!(value, View::Missing) {
                        *bound = value.number().map_or(f64::NAN, Number::as_f64);
                    }
                }
                let [min, max] = bounds;
                View::Number(Number::Float(rendering.random.unit() * (max - min) + min))
            }
            Self::Format(arguments) => {
                let mut values = Vec::new();
                for argument in arguments {
                    values.push(argument.value(eval, rendering)?);
                }
                View::Text(Cow::Owned(format(&values, rendering.bytes_left)?))
            }
            Self::Arithmetic(left, operator, right) => {
                let left = left.value(eval, rendering)?;
                let right = right.value(eval, rendering)?;
                arithmetic(&left, *operator, &right)
            }
            Self::Verbatim => return None,
        })
    }
}

/// The text with each `%s` replaced by the next value, and by nothing when there are no more.
fn format(values: &[View<'_>], bytes_max: usize) -> Option<String> {
    let (template, rest) = values.split_first()?;
    let is_text = matches!(template, View::Text(_))
        || matches!(template, View::Field(tidewire_schema::Value::String(_)));
    if !is_text {
        return None;
    }
    let mut out = String::new();
    let mut values = rest.iter();
    let template = template.text();
    let mut pieces = template.split("%s");
    out.push_str(pieces.next()?);
    for piece in pieces {
        if let Some(value) = values.next() {
            out.push_str(&value.text());
        }
        out.push_str(piece);
        if out.len() > bytes_max {
            return None;
        }
    }
    Some(out)
}

/// Numbers are calculated with; `+` puts texts together. What is not a number gives nothing.
fn arithmetic<'a>(left: &View<'_>, operator: char, right: &View<'_>) -> View<'a> {
    let numbers = match (left, right) {
        (View::Missing, _) | (_, View::Missing) => None,
        _ => left.number().zip(right.number()),
    };
    let Some((a, b)) = numbers else {
        return match operator {
            '+' if !left.is_absent() && !right.is_absent() => {
                View::Text(Cow::Owned(format!("{}{}", left.text(), right.text())))
            }
            _ => View::Missing,
        };
    };
    if let (Number::Integer(a), Number::Integer(b)) = (a, b) {
        let exact = match operator {
            '+' => a.checked_add(b),
            '-' => a.checked_sub(b),
            '*' => a.checked_mul(b),
            '%' => a.checked_rem(b),
            _ => (b != 0 && a % b == 0).then(|| a / b),
        };
        if let Some(exact) = exact {
            return View::Number(Number::Integer(exact));
        }
    }
    let a = a.as_f64();
    let b = b.as_f64();
    View::Number(Number::Float(match operator {
        '+' => a + b,
        '-' => a - b,
        '*' => a * b,
        '%' => a % b,
        _ => a / b,
    }))
}

fn expression(source: &str, depth: usize) -> Expression {
    if depth > DEPTH_MAX {
        return Expression::Verbatim;
    }
    if let Some((left, operator, right)) = arithmetic_parts(source) {
        let operand = |text: &str| argument(text, depth + 1);
        return Expression::Arithmetic(Box::new(operand(left)), operator, Box::new(operand(right)));
    }
    match source.contains('(') {
        true => call(source, depth),
        false => Expression::Path(Path::new(source)),
    }
}

/// The last operator outside of quotes and parentheses that has a space on both sides, a sum before
/// a product.
fn arithmetic_parts(source: &str) -> Option<(&str, char, &str)> {
    let mut sum = None;
    let mut product = None;
    for (index, c) in outside(source) {
        let is_spaced =
            source[..index].ends_with(' ') && source[index + c.len_utf8()..].starts_with(' ');
        match c {
            '+' | '-' if is_spaced => sum = Some(index),
            '*' | '/' | '%' if is_spaced => product = Some(index),
            _ => {}
        }
    }
    let index = sum.or(product)?;
    let left = source[..index].trim();
    let right = source[index + 1..].trim();
    let operator = source[index..].chars().next()?;
    (is_operand(left) && is_operand(right)).then_some((left, operator, right))
}

/// Whether it may stand beside an operator: a path with a root, a number, text, a call.
fn is_operand(text: &str) -> bool {
    let is_path = || Path::new(text).root != Root::Unknown && !text.contains(['(', '?', '|', '&']);
    !text.is_empty()
        && (literal(text).is_some()
            || arithmetic_parts(text).is_some()
            || text.contains('(')
            || is_path())
}

/// The characters that stand neither in quotes nor in parentheses.
fn outside(source: &str) -> impl Iterator<Item = (usize, char)> {
    let mut quote = None;
    let mut depth = 0_usize;
    source.char_indices().filter(move |(_, c)| match (quote, *c) {
        (Some(open), c) => {
            if c == open {
                quote = None;
            }
            false
        }
        (None, '"' | '\'') => {
            quote = Some(*c);
            false
        }
        (None, '(') => {
            depth += 1;
            false
        }
        (None, ')') => {
            depth = depth.saturating_sub(1);
            false
        }
        (None, _) => depth == 0,
    })
}

/// A call of a function; anything else yields its own source.
fn call(source: &str, depth: usize) -> Expression {
    let own = || Expression::Text(source.to_owned());
    let Some((name, rest)) = source.split_once('(') else { return own() };
    let Some(inside) = rest.strip_suffix(')') else { return own() };
    let is_name = !name.is_empty()
        && name.split('.').all(|part| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        });
    if !is_name {
        return own();
    }
    let arguments = || -> Vec<Expression> {
        let mut parts = Vec::new();
        let mut start = 0;
        for (index, _) in outside(inside).filter(|(_, c)| *c == ',') {
            parts.push(&inside[start..index]);
            start = index + 1;
        }
        parts.push(&inside[start..]);
        if inside.trim().is_empty() {
            parts.clear();
        }
        parts.into_iter().map(|part| argument(part.trim(), depth + 1)).collect()
    };
    match name {
        "utils.now" => Expression::Now,
        "utils.uuid" => Expression::Uuid,
        "utils.random" => Expression::Random(arguments()),
        "utils.format" => Expression::Format(arguments()),
        // A method of a value, which fails without it.
        _ if name.starts_with("request.") || name.starts_with("metadata.") => Expression::Verbatim,
        _ => own(),
    }
}

fn argument(text: &str, depth: usize) -> Expression {
    literal(text).unwrap_or_else(|| expression(text, depth))
}

/// Text in quotes, a number, a truth.
fn literal(text: &str) -> Option<Expression> {
    for quote in ['"', '\''] {
        let inside = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        if let Some(inside) = inside.filter(|inside| !inside.contains(quote)) {
            return Some(Expression::Text(inside.to_owned()));
        }
    }
    match text {
        "true" | "false" => return Some(Expression::Bool(text == "true")),
        _ => {}
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if are_digits(whole) && are_digits(part) {
        return javascript::read(text).map(Expression::Number);
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn render(text: &str) -> String {
        let headers: tidewire_service::Headers = [("x-a", "7")]
            .map(|(k, v)| (k.parse().unwrap(), v.parse().unwrap()))
            .into_iter()
            .collect();
        let state = HashMap::new();
        let eval = EvalContext {
            request: crate::value::eval_context::Request::Many(&[]),
            headers: &headers,
            message: None,
            item: Some(crate::value::eval_context::ItemIndex { index: 1, total: 3 }),
            state: &state,
            attempt: 2,
            timeout_ms: None,
            vars: None,
        };
        let mut random = Random::new(1);
        let mut rendering = RenderState {
            random: &mut random,
            now_millis: 1_700_000_000_000,
            bytes_left: 10_000,
            steps_left: 0,
        };
        let mut formula = |_: &str| unreachable!("there is no expression of CEL here");
        match Template::parse(text, &mut formula) {
            Some(template) => template.render(&eval, &mut rendering).unwrap(),
            None => text.to_owned(),
        }
    }

    #[test]
    fn expressions_give_text() {
        for (template, text) in [
            ("a {{metadata.X-A}} b", "a 7 b"),
            ("{{stream.index + 1}} of {{stream.total}}", "2 of 3"),
            ("{{stream.index * 10 + attempt - 1}}", "11"),
            ("{{metadata.x-a / 2}}", "3.5"),
            ("{{utils.now()}}", "1700000000000"),
            ("{{utils.format('%s has %s', \"a,b\", 5)}}", "a,b has 5"),
            ("{{utils.format('%s', utils.format('<%s>', 'in'))}}", "<in>"),
            ("{{utils.format('f(%s)', 'x(y)')}}", "f(x(y))"),
            ("<{{request.name || 'x'}}>", "<>"),
            ("<{{'literal'}}>", "<>"),
            ("<{{5}}>", "<>"),
            ("a{{}}b", "a{{}}b"),
            ("a{{ }}b", "ab"),
            ("{{{request.name}}}", "}"),
            ("a {{request.name b", "a {{request.name b"),
            ("{{upper(request.name)}}", "upper(request.name)"),
            ("{{request.name.toUpperCase()}}", "{{request.name.toUpperCase()}}"),
            ("{{utils.format()}}", "{{utils.format()}}"),
            ("{{utils.random(5, 5)}}", "5"),
        ] {
            assert_eq!(render(template), text, "{template}");
        }
    }

    #[test]
    fn an_expression_that_nests_too_deep_stays_as_it_is() {
        let deep = format!("{{{{{}'x'{}}}}}", "utils.format('%s', ".repeat(40), ")".repeat(40));
        assert_eq!(render(&deep), deep);
    }
}
