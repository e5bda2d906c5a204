//! Rule files as text to trees: YAML 1.2 with its core schema, dates and merge keys, and JSON.
//!
//! The library below gives events with places; what a plain scalar means is decided here, as the
//! YAML library of JavaScript decides it: `007` is 7, `1_000`, `yes` and `off` are text, `0x1F` is
//! 31, `2024-01-02` is a date. A key that occurs twice, a second document and a tag that nobody
//! knows are faults. JSON is checked as JSON and read as the YAML that it is.
//!
//! Bounded: values nest 64 deep, and aliases may make a file ten times what was written at most
//! (10,000 values are free), so that no file can take the memory of the machine.

use std::collections::HashMap;

use base64::Engine;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use crate::value::node::{Node, Number, ObjectMember, Position, Tree};

/// How deep values of a rule file may nest.
pub(crate) const DEPTH_MAX: usize = 64;

/// How many values aliases may add to a file that has fewer than a tenth of them itself.
const ALIASED_MAX: usize = 10_000;

/// What is wrong with the text of a file, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Where.
    pub place: Position,
    /// What, for people.
    pub message: String,
}

fn fault<T>(place: Position, message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { place, message: message.into() })
}

/// Reads YAML; `None` for a file without a document.
///
/// # Errors
/// What is not YAML, or beyond what rule files may be.
pub fn parse(text: &str) -> Result<Option<Node>, Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    Reader { parser: Parser::new_from_str(text), anchors: HashMap::new(), read: 0, aliased: 0 }
        .document()
}

/// Reads JSON, and nothing that only YAML would take.
///
/// # Errors
/// What is not JSON.
pub fn parse_json(text: &str) -> Result<Option<Node>, Fault> {
    let checked: serde_json::Value = serde_json::from_str(text).map_err(|error| {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let place =
            Position { line: number(error.line()), column: number(error.column()), file: 0 };
        let told = error.to_string();
        let message = told.rsplit_once(" at line ").map_or(&*told, |(message, _)| message);
        Fault { place, message: format!("not valid JSON: {message}") }
    })?;
    // JSON writes what is beyond 16 bits as two halves, which YAML does not know; then nothing has
    // a place.
    Ok(Some(parse(text).ok().flatten().unwrap_or_else(|| Node::from(&checked))))
}

struct Reader<'t> {
    parser: Parser<'t, saphyr_parser::StrInput<'t>>,
    anchors: HashMap<usize, (Node, usize)>,
    /// How many values were written, and how many aliases added.
    read: usize,
    aliased: usize,
}

impl<'t> Reader<'t> {
    fn document(mut self) -> Result<Option<Node>, Fault> {
        let mut root = None;
        loop {
            let (event, place) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(root),
                Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
                Event::DocumentStart(_) if root.is_some() => {
                    return fault(place, "a second document in one file; write one file a method");
                }
                Event::DocumentStart(_) => {
                    let (event, place) = self.next()?;
                    let empty = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, 0, None) if text.is_empty());
                    let value = self.value(event, place, 0)?.0;
                    root = (!empty).then_some(value);
                }
                _ => return fault(place, "unexpected content"),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Position), Fault> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, place(&span.start))),
            Some(Err(error)) => {
                fault(place(error.marker()), format!("not valid YAML: {}", error.info()))
            }
            None => Ok((Event::StreamEnd, Position::default())),
        }
    }

    /// The value that begins with an event, and how many values it has.
    fn value(
        &mut self,
        event: Event<'t>,
        at: Position,
        depth: usize,
    ) -> Result<(Node, usize), Fault> {
        if depth > DEPTH_MAX {
            return fault(at, format!("values nest more than {DEPTH_MAX} deep"));
        }
        self.read += 1;
        let (value, anchor, size) = match event {
            Event::Alias(id) => {
                let Some((node, size)) = self.anchors.get(&id) else {
                    return fault(at, "an alias of itself");
                };
                self.aliased += size;
                let most = ALIASED_MAX.max(self.read.saturating_mul(10));
                if self.aliased > most {
                    let why = format!(
                        "aliases add more than {most} values: {ALIASED_MAX}, or ten times what is \
                         written before, are the limit"
                    );
                    return fault(at, why);
                }
                return Ok((Node { place: at, value: node.value.clone() }, *size));
            }
            Event::Scalar(text, style, anchor, tag) => {
                (scalar(&text, style, tag.as_deref(), at)?, anchor, 1)
            }
            Event::SequenceStart(anchor, tag) => {
                known_tag(tag.as_deref(), "seq", at)?;
                let (items, size) = self.items(depth)?;
                (Tree::List(items), anchor, size)
            }
            Event::MappingStart(anchor, tag) => {
                known_tag(tag.as_deref(), "map", at)?;
                let (members, size) = self.members(depth)?;
                (Tree::Object(members), anchor, size)
            }
            _ => return fault(at, "a value is missing"),
        };
        let node = Node { value, place: at };
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
        Ok((node, size))
    }

    fn items(&mut self, depth: usize) -> Result<(Vec<Node>, usize), Fault> {
        let mut items = Vec::new();
        let mut size = 1;
        loop {
            let (event, at) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok((items, size));
            }
            let (item, more) = self.value(event, at, depth + 1)?;
            items.push(item);
            size += more;
        }
    }

    fn members(&mut self, depth: usize) -> Result<(Vec<ObjectMember>, usize), Fault> {
        let mut members = Vec::<ObjectMember>::new();
        let mut merged = Vec::new();
        let mut size = 1;
        let mut seen = std::collections::HashSet::new();
        loop {
            let (event, at) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let is_merge =
                matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<");
            let key = self.value(event, at, depth + 1)?.0;
            let (event, place) = self.next()?;
            let (value, more) = self.value(event, place, depth + 1)?;
            size += more;
            if is_merge {
                merge(value, &mut merged)?;
                continue;
            }
            let key = key_text(&key)?;
            if !seen.insert(key.clone()) {
                return fault(at, format!("the key {key} occurs twice"));
            }
            members.push(ObjectMember { key, place: at, value });
        }
        for member in merged {
            if seen.insert(member.key.clone()) {
                members.push(member);
            }
        }
        Ok((members, size))
    }
}

fn place(marker: &Marker) -> Position {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Position { line: number(marker.line()), column: number(marker.col() + 1), file: 0 }
}

/// What `<<` brings: the members of an object, or of a list of them.
fn merge(value: Node, merged: &mut Vec<ObjectMember>) -> Result<(), Fault> {
    match value.value {
        Tree::Object(members) => merged.extend(members),
        Tree::List(items) => {
            for item in items {
                merge(item, merged)?;
            }
        }
        _ => return fault(value.place, "what << merges has to be an object"),
    }
    Ok(())
}

/// A key as JavaScript spells it.
fn key_text(key: &Node) -> Result<String, Fault> {
    match &key.value {
        Tree::List(_) | Tree::Object(_) => {
            fault(key.place, "a key that is a list or an object; quote what holds {{ }}")
        }
        _ => Ok(crate::value::view::View::Rule(key).text().into_owned()),
    }
}

fn known_tag(tag: Option<&Tag>, own: &str, at: Position) -> Result<(), Fault> {
    match tag {
        None => Ok(()),
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == own => Ok(()),
        Some(tag) => fault(at, format!("unknown tag {}{}", tag.handle, tag.suffix)),
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>, at: Position) -> Result<Tree, Fault> {
    let Some(tag) = tag else {
        return Ok(match style {
            ScalarStyle::Plain => plain(text),
            _ => Tree::Text(text.to_owned()),
        });
    };
    let wrong = || fault(at, format!("`{text}` is no !!{}", tag.suffix));
    match &*tag.suffix {
        _ if !tag.is_yaml_core_schema() => {
            // `!` alone says that it is text.
            match tag.handle.is_empty() && tag.suffix == "!" {
                true => Ok(Tree::Text(text.to_owned())),
                false => fault(at, format!("unknown tag {}{}", tag.handle, tag.suffix)),
            }
        }
        "str" => Ok(Tree::Text(text.to_owned())),
        "binary" => {
            let plain: String = text.split_whitespace().collect();
            match base64::engine::general_purpose::STANDARD.decode(plain) {
                Ok(bytes) => Ok(Tree::Bytes(bytes)),
                Err(_) => wrong(),
            }
        }
        "null" | "bool" | "int" | "float" | "timestamp" => match (plain(text), &*tag.suffix) {
            (tree @ Tree::Null, "null")
            | (tree @ Tree::Bool(_), "bool")
            | (tree @ Tree::Number(Number::Integer(_)), "int")
            | (tree @ Tree::Number(_), "float")
            | (tree @ Tree::Date(_), "timestamp") => Ok(tree),
            _ => wrong(),
        },
        _ => fault(at, format!("unknown tag !!{}", tag.suffix)),
    }
}

/// What a scalar without quotes means.
fn plain(text: &str) -> Tree {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Tree::Null,
        "true" | "True" | "TRUE" => return Tree::Bool(true),
        "false" | "False" | "FALSE" => return Tree::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return Tree::Number(Number::Float(f64::NAN)),
        _ => {}
    }
    match text.as_bytes()[0] {
        b'0'..=b'9' | b'+' | b'-' | b'.' => {}
        _ => return Tree::Text(text.to_owned()),
    }
    match number(text) {
        Some(number) => Tree::Number(number),
        None if is_date(text) => Tree::Date(text.to_owned()),
        None => Tree::Text(text.to_owned()),
    }
}

fn number(text: &str) -> Option<Number> {
    let (minus, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if matches!(digits, ".inf" | ".Inf" | ".INF") {
        return Some(Number::Float(if minus { f64::NEG_INFINITY } else { f64::INFINITY }));
    }
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'b', ..] => (2, &digits[2..]),
        [b'0', b'o', ..] => (8, &digits[2..]),
        [b'0', b'x', ..] => (16, &digits[2..]),
        _ => (10, digits),
    };
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return None;
    }
    if digits.chars().all(|c| c.is_digit(radix)) {
        return Some(match i128::from_str_radix(digits, radix) {
            Ok(integer) => Number::Integer(if minus { -integer } else { integer }),
            Err(_) => Number::Float(text.parse().ok()?),
        });
    }
    let is_float = radix == 10
        && digits.bytes().any(|b| b.is_ascii_digit())
        && digits
            .bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    // Rust reads what YAML does: `.5`, `5.`, `1e3`.
    is_float.then(|| text.parse().ok()).flatten().map(Number::Float)
}

/// `2024-01-02`, and points in time of the forms of YAML 1.1.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        bytes.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    if bytes.len() == 10 {
        return digits(0..4)
            && bytes[4] == b'-'
            && digits(5..7)
            && bytes[7] == b'-'
            && digits(8..10);
    }
    let Some((day, time)) = text.split_once(['T', 't', ' ']) else { return false };
    let mut parts = day.split('-');
    let is_number = |part: Option<&str>, lengths: &[usize]| {
        part.is_some_and(|part| {
            lengths.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit())
        })
    };
    let is_day = is_number(parts.next(), &[4])
        && is_number(parts.next(), &[1, 2])
        && is_number(parts.next(), &[1, 2])
        && parts.next().is_none();
    let clock = time.trim_start().split(['Z', 'z', '+', '-', ' ']).next().unwrap_or_default();
    let mut parts = clock.split([':', '.']);
    is_day
        && is_number(parts.next(), &[1, 2])
        && is_number(parts.next(), &[2])
        && is_number(parts.next(), &[2])
        && clock.matches(':').count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        let fault = parse(text).unwrap_err();
        format!("{} {}", fault.place, fault.message)
    }

    #[test]
    fn plain_scalars_mean_what_they_mean_to_javascript() {
        use Number::{Float, Integer};
        for (text, tree) in [
            ("007", Tree::Number(Integer(7))),
            ("0x1F", Tree::Number(Integer(31))),
            ("0o17", Tree::Number(Integer(15))),
            ("-5", Tree::Number(Integer(-5))),
            ("9007199254740993", Tree::Number(Integer(9_007_199_254_740_993))),
            ("1.10", Tree::Number(Float(1.1))),
            ("1e3", Tree::Number(Float(1000.0))),
            (".inf", Tree::Number(Float(f64::INFINITY))),
            ("1_000", Tree::Text("1_000".into())),
            ("yes", Tree::Text("yes".into())),
            ("1.2.3", Tree::Text("1.2.3".into())),
            ("-", Tree::Text("-".into())),
            ("~", Tree::Null),
            ("True", Tree::Bool(true)),
            ("2024-01-02", Tree::Date("2024-01-02".into())),
            ("2023-11-14T22:13:20Z", Tree::Date("2023-11-14T22:13:20Z".into())),
            ("12:30", Tree::Text("12:30".into())),
        ] {
            assert_eq!(plain(text), tree, "{text}");
        }
    }

    #[test]
    fn faults_name_line_and_column() {
        assert!(
            told("responses: [\n").starts_with("2:1 not valid YAML"),
            "{}",
            told("responses: [\n")
        );
        assert_eq!(told("a: 1\nb: 2\na: 3\n"), "3:1 the key a occurs twice");
        assert!(told("---\na: 1\n---\nb: 1\n").starts_with("3:1 a second document"));
        assert!(told("a: !mine []\n").contains("unknown tag !mine"));
        assert!(told("match:\n\trequest: {}\n").starts_with("2:"));
        let json = parse_json("{\"responses\": [,]}").unwrap_err();
        assert_eq!((json.place.line, json.place.column), (1, 16));
        assert!(parse_json("// note\n{}").is_err() && parse_json("").is_err());
    }

    #[test]
    fn merge_keys_aliases_and_empty_files_are_read() {
        let node = parse("a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\n").unwrap().unwrap();
        let d = node.get("d").unwrap();
        assert_eq!(d.get("b").unwrap().value, Tree::Number(Number::Integer(1)));
        assert_eq!(d.get("c").unwrap().value, Tree::Number(Number::Integer(3)));
        assert_eq!(parse("# nothing\n").unwrap(), None);
        assert_eq!(parse("").unwrap(), None);
        assert!(parse("a: {{b}}\n").is_err());
        let json = parse_json("{\"a\": \"\\ud83d\\ude00\"}").unwrap().unwrap();
        assert_eq!(json.get("a").unwrap().as_text(), Some("😀"));
    }

    #[test]
    fn a_file_of_nested_aliases_is_refused() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let list = vec![format!("*a{}", level - 1); 10].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{list}]\n"));
        }
        assert!(told(&text).contains("aliases add more than 10000 values"), "{}", told(&text));
        let nine = |levels: usize| {
            let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
            for level in 1..levels {
                let list = vec![format!("*a{}", level - 1); 9].join(", ");
                text.push_str(&format!("a{level}: &a{level} [{list}]\n"));
            }
            text
        };
        assert!(parse(&nine(4)).is_ok());
        assert!(told(&nine(5)).starts_with("5:"), "{}", told(&nine(5)));
        let deep = "[".repeat(5000);
        assert!(parse(&deep).is_err());
    }
}
