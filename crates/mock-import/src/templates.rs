//! Templates of other programs as templates of rules.
//!
//! | GripMock, which is `text/template` of Go | here |
//! |---|---|
//! | `{{.Request.a.b}}` | `{{request.a.b}}` |
//! | `{{.Headers.x}}`, `{{index .Headers "x-y"}}` | `{{metadata.x-y}}` |
//! | `{{(index .Requests 0).a}}`, `{{len .Requests}}` | `{{request.items[0].a}}`, `{{request.count}}` |
//! | `{{.MessageIndex}}` | `{{stream.index}}` |
//! | `{{.Request.a \| upper}}`, `lower` | `{{cel: request.a.upperAscii()}}` |
//! | `{{uuid}}` | `{{utils.uuid()}}` |
//!
//! | WireMock, which is Handlebars | here |
//! |---|---|
//! | `{{jsonPath request.body '$.a.b'}}` | `{{request.a.b}}` |
//! | `{{request.path.NAME}}`, `{{request.query.NAME}}` | the field that it is |
//! | `{{request.headers.X}}` | `{{metadata.x}}` |
//! | `{{randomValue type='UUID'}}` | `{{utils.uuid()}}` |
//!
//! Everything else has no counterpart.

use tidewire_mock::document::{Node, ObjectMember, Tree};

use crate::finding::Gap;

/// How the inside of braces is said here.
pub(crate) type Translate<'t> = &'t dyn Fn(&str) -> Result<String, String>;

/// A text with its templates.
pub(crate) fn text(text: &str, translate: Translate<'_>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once("{{") {
        out.push_str(before);
        let (triple, inside) = match inside.strip_prefix('{') {
            Some(inside) => (true, inside),
            None => (false, inside),
        };
        let end = if triple { "}}}" } else { "}}" };
        let Some((expression, after)) = inside.split_once(end) else {
            return Err("braces that do not end".to_owned());
        };
        let expression = expression.trim().trim_start_matches('-').trim_end_matches('-').trim();
        out.push_str("{{");
        out.push_str(&translate(expression)?);
        out.push_str("}}");
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// A value with the templates of its texts; what cannot be said is left out, and told.
pub(crate) fn value(
    node: &Node,
    key: &str,
    translate: Translate<'_>,
    gaps: &mut Vec<Gap>,
) -> Option<Node> {
    let value = match &node.value {
        Tree::Text(inside) if inside.contains("{{") => match text(inside, translate) {
            Ok(text) => Tree::Text(text),
            Err(why) => {
                gaps.push(Gap::new(node.place, key, format!("{why}; it is left out")));
                return None;
            }
        },
        Tree::List(items) => {
            let items = items
                .iter()
                .enumerate()
                .filter_map(|(at, item)| value(item, &format!("{key}[{at}]"), translate, gaps));
            Tree::List(items.collect())
        }
        Tree::Object(members) => {
            let members = members.iter().filter_map(|member| {
                let key = format!("{key}.{}", member.key);
                let inner = value(&member.value, &key, translate, gaps)?;
                Some(ObjectMember { value: inner, ..member.clone() })
            });
            Tree::Object(members.collect())
        }
        other => other.clone(),
    };
    Some(Node { value, place: node.place })
}

/// An expression of GripMock.
pub(crate) fn of_go(expression: &str) -> Result<String, String> {
    let no = || Err(format!("the template {{{{{expression}}}}} has no counterpart"));
    if let Some((first, function)) = expression.split_once('|') {
        let function = match function.trim() {
            "upper" => "upperAscii",
            "lower" => "lowerAscii",
            _ => return no(),
        };
        return match request_path(first.trim()) {
            Some(path) => Ok(format!("cel: {path}.{function}()")),
            None => no(),
        };
    }
    if let Some(path) = request_path(expression) {
        return Ok(path);
    }
    if let Some(name) = expression.strip_prefix(".Headers.") {
        return if is_name(name) { Ok(format!("metadata.{name}")) } else { no() };
    }
    let words: Vec<_> = expression.split_whitespace().collect();
    match words[..] {
        [".MessageIndex"] => Ok("stream.index".to_owned()),
        ["uuid"] => Ok("utils.uuid()".to_owned()),
        ["len", ".Requests"] => Ok("request.count".to_owned()),
        ["index", ".Headers", name] => {
            let name = name.trim_matches(['"', '`']);
            let is_header = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
            if is_header { Ok(format!("metadata.{name}")) } else { no() }
        }
        ["upper", path] | ["lower", path] => {
            let function = if words[0] == "upper" { "upperAscii" } else { "lowerAscii" };
            request_path(path).map_or_else(no, |path| Ok(format!("cel: {path}.{function}()")))
        }
        _ => no(),
    }
}

/// `.Request.a.b`, or `(index .Requests 0).a`.
fn request_path(expression: &str) -> Option<String> {
    if let Some(path) = expression.strip_prefix(".Request.") {
        return path.split('.').all(is_name).then(|| format!("request.{path}"));
    }
    let (index, path) = expression.strip_prefix("(index .Requests ")?.split_once(").")?;
    let index: usize = index.trim().parse().ok()?;
    path.split('.').all(is_name).then(|| format!("request.items[{index}].{path}"))
}

fn is_name(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_of_go_are_said_here_or_told() {
        let check = |from, expected: Result<&str, &str>| {
            let made = text(from, &of_go);
            let made = made.as_ref().map(String::as_str).map_err(String::as_str);
            assert_eq!(made, expected, "{from}");
        };
        check("Hello {{.Request.name}}!", Ok("Hello {{request.name}}!"));
        check("{{ .Request.a.b | upper }}", Ok("{{cel: request.a.b.upperAscii()}}"));
        check("{{index .Headers \"x-user\"}}", Ok("{{metadata.x-user}}"));
        check(
            "{{(index .Requests 1).value}} of {{len .Requests}}",
            Ok("{{request.items[1].value}} of {{request.count}}"),
        );
        check(
            "{{faker.Person.Name}}",
            Err("the template {{faker.Person.Name}} has no counterpart"),
        );
        check("{{.Request.a", Err("braces that do not end"));
    }
}
