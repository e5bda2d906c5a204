//! Making and reading trees.

use tidewire_mock::document::{Node, Number, ObjectMember, Position, Tree};

/// Members of an object in order.
pub(crate) type Members = Vec<(String, Node)>;

pub(crate) fn text(text: impl Into<String>) -> Node {
    Node::new(Tree::Text(text.into()))
}

pub(crate) fn number(number: impl Into<i128>) -> Node {
    Node::new(Tree::Number(Number::Integer(number.into())))
}

pub(crate) fn truth(value: bool) -> Node {
    Node::new(Tree::Bool(value))
}

pub(crate) fn list(items: Vec<Node>) -> Node {
    Node::new(Tree::List(items))
}

pub(crate) fn object(members: Members) -> Node {
    let place = Position::default();
    let members = members.into_iter().map(|(key, value)| ObjectMember { key, place, value });
    Node::new(Tree::Object(members.collect()))
}

/// An object of one member.
pub(crate) fn one(key: &str, value: Node) -> Node {
    object(vec![(key.to_owned(), value)])
}

/// A member that is there and not null.
pub(crate) fn present<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    node.get(key).filter(|node| node.value != Tree::Null)
}

/// The first of several spellings of a key.
pub(crate) fn any_of<'n>(node: &'n Node, keys: &[&str]) -> Option<&'n Node> {
    keys.iter().find_map(|key| present(node, key))
}

/// Text, or a scalar as text.
pub(crate) fn scalar_text(node: &Node) -> Option<String> {
    Some(match &node.value {
        Tree::Text(text) | Tree::Date(text) => text.clone(),
        Tree::Bool(value) => value.to_string(),
        Tree::Number(Number::Integer(number)) => number.to_string(),
        Tree::Number(Number::Float(number)) => number.to_string(),
        _ => return None,
    })
}

/// An integer, also where it is written as text.
pub(crate) fn integer(node: &Node) -> Option<i128> {
    match &node.value {
        Tree::Number(Number::Integer(number)) => Some(*number),
        #[expect(clippy::cast_possible_truncation, reason = "it is a whole number in range")]
        Tree::Number(Number::Float(number)) if number.fract() == 0.0 && number.abs() < 1e15 => {
            Some(*number as i128)
        }
        Tree::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// JSON with comments, with blanks in their place; lines stay where they are.
pub(crate) fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut in_text = false;
    while let Some(c) = rest.next() {
        match (in_text, c, rest.peek()) {
            (true, '\\', Some(_)) => {
                out.push(c);
                out.extend(rest.next());
            }
            (_, '"', _) => {
                in_text = !in_text;
                out.push(c);
            }
            (false, '/', Some('/')) => {
                while rest.peek().is_some_and(|c| *c != '\n') {
                    rest.next();
                    out.push(' ');
                }
                out.push(' ');
            }
            (false, '/', Some('*')) => {
                out.push(' ');
                let mut before = ' ';
                for c in rest.by_ref() {
                    out.push(if c == '\n' { '\n' } else { ' ' });
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
            }
            // Tabs indent JSON, and never YAML.
            (false, '\t', _) => out.push(' '),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_become_blanks_and_texts_stay() {
        let check = |text, expected| assert_eq!(without_comments(text), expected);
        check("{\"a\": \"http://x\"} // b\n", "{\"a\": \"http://x\"}     \n");
        check("{/* a\nb */\"c\":1}", "{    \n    \"c\":1}");
        check(r#"{"a": "\"//"}"#, r#"{"a": "\"//"}"#);
    }
}
