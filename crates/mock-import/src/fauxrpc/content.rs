//! Expressions of FauxRPC: conditions over `req`, and messages with `gen` for what is made up.

use tidewire_mock::document::{Node, Tree};
use tidewire_schema::{Kind, MessageType, Schema, Single};
use tidewire_service::Method;

use crate::cel::quote;
use crate::finding::Gap;
use crate::nodes::{Members, list, object, scalar_text, text, truth};

/// How deep values of an expression may nest.
const DEPTH_MAX: usize = 32;

/// A condition over `this`.
pub(super) fn condition(method: &Method, node: &Node) -> Result<String, String> {
    if method.kind.client_streams() {
        return Err(
            "a condition of a method with a stream of requests, of which req is empty".to_owned()
        );
    }
    let said = scalar_text(node).unwrap_or_default();
    rename(&said, method, "this")
}

/// `body` and `fake` of an expression that is a message.
pub(super) fn body(
    schema: &Schema,
    method: &Method,
    node: &Node,
    key: &str,
    gaps: &mut Vec<Gap>,
) -> Result<Members, Gap> {
    let said = scalar_text(node).unwrap_or_default();
    let mut reader = Reader { method, node, gaps, is_made: false };
    let output = schema.message_type(&method.output);
    let made = reader.value(said.trim(), key, 0, output);
    let is_made = reader.is_made;
    let Some(made) = made else {
        let why = "the whole message is made up";
        return Err(Gap::new(node.place, key, why));
    };
    if !is_made {
        return Ok(vec![("body".to_owned(), without_nulls(made))]);
    }
    let mut members = vec![("body".to_owned(), made)];
    members.push(("fake".to_owned(), truth(true)));
    Ok(members)
}

/// A message without what is not set.
fn without_nulls(node: Node) -> Node {
    let Tree::Object(members) = node.value else { return node };
    let kept = members.into_iter().filter(|one| one.value.value != Tree::Null);
    let kept = kept.map(|one| (one.key, without_nulls(one.value)));
    object(kept.collect())
}

struct Reader<'r> {
    method: &'r Method,
    node: &'r Node,
    gaps: &'r mut Vec<Gap>,
    /// Whether anything is made up.
    is_made: bool,
}

impl Reader<'_> {
    /// A message, of what is between its braces.
    fn message(
        &mut self,
        inside: &str,
        key: &str,
        depth: usize,
        owner: Option<MessageType<'_>>,
    ) -> Node {
        let mut members = Vec::new();
        let mut numbers = Vec::new();
        for part in split(inside, ',') {
            let Some(at) = positions(part, ':').first().copied() else { continue };
            let value = &part[at + 1..];
            let name = part[..at].trim();
            let name = literal(name).unwrap_or_else(|| name.to_owned());
            let key = format!("{key}.{name}");
            let field = owner.and_then(|owner| owner.field(&name));
            numbers.extend(field.map(|field| field.number()));
            let inner = field.and_then(|field| match field.kind() {
                Kind::One(Single::Message(inner)) => Some(inner),
                _ => None,
            });
            if let Some(value) = self.value(value, &key, depth + 1, inner) {
                members.push((name, value));
            }
        }
        // What the expression does not name is not set, even where the rest is made up.
        for field in owner.into_iter().flat_map(MessageType::fields) {
            if !numbers.contains(&field.number()) {
                members.push((field.name().to_owned(), Node::new(Tree::Null)));
            }
        }
        object(members)
    }

    /// A list, of what is between its brackets; none if any of it is made up.
    fn list(&mut self, inside: &str, key: &str, depth: usize) -> Option<Node> {
        let mut items = Vec::new();
        let before = std::mem::take(&mut self.is_made);
        for (at, part) in split(inside, ',').iter().enumerate() {
            items.extend(self.value(part, &format!("{key}[{at}]"), depth + 1, None));
        }
        if self.is_made {
            let why = "an element is made up, so the whole list is";
            self.gaps.push(Gap::new(self.node.place, key, why));
            return None;
        }
        self.is_made = before;
        Some(list(items))
    }

    /// A value; none for what is made up.
    fn value(
        &mut self,
        said: &str,
        key: &str,
        depth: usize,
        owner: Option<MessageType<'_>>,
    ) -> Option<Node> {
        let said = said.trim();
        if depth < DEPTH_MAX
            && let Some(inside) = enclosed(said, '{', '}')
        {
            return Some(self.message(inside, key, depth, owner));
        }
        if depth < DEPTH_MAX
            && let Some(inside) = enclosed(said, '[', ']')
        {
            return self.list(inside, key, depth);
        }
        if said == "gen" {
            self.is_made = true;
            return None;
        }
        if said == "fake_uuid()" {
            return Some(text("{{utils.uuid()}}"));
        }
        if let Some(plain) = literal(said) {
            // Braces of a text are no template there.
            return Some(match plain.contains("{{") {
                true => text(format!("{{{{cel: {}}}}}", quote(&plain))),
                false => text(plain),
            });
        }
        if said == "true" || said == "false" {
            return Some(truth(said == "true"));
        }
        if !said.is_empty() && said.parse::<f64>().is_ok() {
            return Some(text(said));
        }
        let streams = self.method.kind.client_streams();
        let renamed = match (streams, rename(said, self.method, "request")) {
            (false, Ok(renamed)) => Ok(renamed),
            (_, Err(why)) => Err(why),
            (true, Ok(renamed)) if renamed == said => Ok(renamed),
            (true, Ok(_)) => Err("req of a stream of requests is empty".to_owned()),
        };
        match renamed {
            Ok(renamed) => Some(Node {
                value: Tree::Text(format!("{{{{cel: {renamed}}}}}")),
                place: self.node.place,
            }),
            Err(why) => {
                self.is_made = true;
                let why = format!("{why}; it is made from the schema");
                self.gaps.push(Gap::new(self.node.place, key, why));
                None
            }
        }
    }
}

/// An expression with the names that rules have for what a call is.
///
/// # Errors
/// Functions that rules do not have.
fn rename(said: &str, method: &Method, request: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = said;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        if let Some(length) = text_length(rest) {
            out.push_str(&rest[..length]);
            rest = &rest[length..];
            before = '"';
            continue;
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if c.is_ascii_alphabetic() || c == '_' {
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let word = &rest[..length];
            rest = &rest[length..];
            // A field, and what follows a number such as `1u`.
            if before == '.' || before.is_ascii_digit() {
                out.push_str(word);
            } else {
                match word {
                    "req" => out.push_str(request),
                    "service" => out.push_str(&quote(&method.service)),
                    "method" => out.push_str(&quote(&method.method)),
                    "procedure" => {
                        out.push_str(&quote(&format!("{}.{}", method.service, method.method)));
                    }
                    "gen" => return Err("gen within an expression".to_owned()),
                    _ if word.starts_with("fake_") || word.starts_with("gen_") => {
                        return Err(format!("the function {word} has no counterpart"));
                    }
                    _ => out.push_str(word),
                }
            }
            before = 'a';
            continue;
        }
        out.push(c);
        if !c.is_whitespace() {
            before = c;
        }
        rest = &rest[c.len_utf8()..];
    }
    Ok(out)
}

/// How many bytes the text of CEL has that an expression begins with.
fn text_length(said: &str) -> Option<usize> {
    let is_raw = said.starts_with(['r', 'R']) && said[1..].starts_with(['"', '\'']);
    let prefix = usize::from(is_raw);
    let rest = &said[prefix..];
    for quote in ["\"\"\"", "'''", "\"", "'"] {
        let Some(inside) = rest.strip_prefix(quote) else { continue };
        let mut at = 0;
        while at < inside.len() {
            if inside[at..].starts_with(quote) {
                return Some(prefix + quote.len() + at + quote.len());
            }
            let c = inside[at..].chars().next().map_or(1, char::len_utf8);
            let escapes = inside[at..].starts_with('\\') && !is_raw;
            at += c;
            if escapes {
                at += inside[at..].chars().next().map_or(0, char::len_utf8);
            }
        }
        return Some(said.len());
    }
    None
}

/// The text that an expression is, where it is nothing else and has no escapes.
fn literal(said: &str) -> Option<String> {
    let is_text = said.starts_with(['"', '\'']) && text_length(said) == Some(said.len());
    let inside = said.get(1..said.len().checked_sub(1)?)?;
    let is_plain =
        !inside.contains('\\') && !said.starts_with("\"\"\"") && !said.starts_with("'''");
    (is_text && is_plain && said.len() > 1).then(|| inside.to_owned())
}

/// What is between two brackets that enclose all of an expression.
fn enclosed(said: &str, open: char, close: char) -> Option<&str> {
    let inside = said.strip_prefix(open)?.strip_suffix(close)?;
    // The first bracket has to be closed by the last one.
    let depths = depths(inside);
    (depths.end == 0 && !depths.is_below).then_some(inside)
}

struct Depths {
    end: i32,
    is_below: bool,
}

fn depths(said: &str) -> Depths {
    let mut depth = 0;
    let mut is_below = false;
    walk(said, &mut |_, c| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        is_below |= depth < 0;
    });
    Depths { end: depth, is_below }
}

/// Goes through an expression, past its texts.
fn walk(said: &str, each: &mut dyn FnMut(usize, char)) {
    let mut at = 0;
    while at < said.len() {
        if let Some(length) = text_length(&said[at..]) {
            at += length;
            continue;
        }
        let Some(c) = said[at..].chars().next() else { break };
        each(at, c);
        at += c.len_utf8();
    }
}

/// Where a sign stands that no bracket encloses.
fn positions(said: &str, sign: char) -> Vec<usize> {
    let mut depth = 0;
    let mut found = Vec::new();
    walk(said, &mut |at, c| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 && c == sign {
            found.push(at);
        }
    });
    found
}

/// The parts between signs that no bracket encloses.
fn split(said: &str, sign: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut begin = 0;
    for at in positions(said, sign) {
        parts.push(&said[begin..at]);
        begin = at + sign.len_utf8();
    }
    parts.push(&said[begin..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use tidewire_service::{Spec, StreamKind};

    use super::*;

    fn method() -> Method {
        Method::from(std::sync::Arc::new(Spec::dynamic(
            "a.B",
            "C",
            StreamKind::Unary,
            ["a.In", "a.Out"],
        )))
    }

    #[test]
    fn names_are_those_of_rules_and_texts_and_fields_stay() {
        let check = |said, expected: Result<&str, &str>| {
            let made = rename(said, &method(), "this");
            assert_eq!(made.as_deref().map_err(|why| why.as_str()), expected, "{said}");
        };
        check("req.pet_id == 1", Ok("this.pet_id == 1"));
        check(
            "x.req == 'req' && req.req == r'\\req'",
            Ok("x.req == 'req' && this.req == r'\\req'"),
        );
        check("method == \"C\" || service == 's'", Ok("\"C\" == \"C\" || \"a.B\" == 's'"));
        check("fake_int() == 1", Err("the function fake_int has no counterpart"));
    }

    #[test]
    fn a_message_is_read_member_by_member() {
        let node = text(
            "{'id': req.id, \"name\": gen, 'tags': ['a', req.b], 'in': {'x': 1, 'y': gen}, 'c': req.a ? 'x:y' : 'z', 'u': fake_uuid()}",
        );
        let mut gaps = Vec::new();
        let schema = Schema::from_descriptors(Vec::new()).unwrap();
        let made = body(&schema, &method(), &node, "cel_content", &mut gaps).unwrap();
        let body = &made[0].1;
        let shown = |key: &str| body.get(key).and_then(Node::as_text);
        assert_eq!(shown("id"), Some("{{cel: request.id}}"));
        assert_eq!(shown("name"), None);
        assert_eq!(shown("c"), Some("{{cel: request.a ? 'x:y' : 'z'}}"));
        assert_eq!(shown("u"), Some("{{utils.uuid()}}"));
        assert_eq!(body.get("tags").unwrap().items().len(), 2);
        assert_eq!(body.get("in").unwrap().members().len(), 1);
        assert_eq!(made[1].0, "fake");
        assert!(gaps.is_empty());
    }
}
