//! An address as a mapping has it, in segments: a text, a template or a pattern.

use tidewire_mock::document::{Node, Position};
use tidewire_proto::http::decode;
use tidewire_service::Method;

use crate::finding::Gap;
use crate::nodes::{present, scalar_text};
use crate::regexes::Pattern;

/// A segment of an address as a mapping has it.
pub(super) enum PathPart {
    Text(String),
    Parameter(String),
    Pattern(String),
}

/// An address as a mapping has it.
pub(super) struct Address {
    pub(super) key: &'static str,
    pub(super) place: Position,
    pub(super) segments: Vec<PathPart>,
    /// Whether more segments may follow.
    pub(super) is_open: bool,
    /// Whether a part of a pattern before that may be several segments.
    pub(super) spans: bool,
    pub(super) query: Option<Vec<(String, String)>>,
}

impl Address {
    /// Adds the segments of a pattern.
    fn add_pattern(&mut self, pattern: &str) {
        let parts = pattern_segments(pattern);
        let last = parts.len().saturating_sub(1);
        for (at, part) in parts.into_iter().enumerate() {
            let inner = part.trim_end_matches(')');
            let ends_open = [".*", ".+"]
                .iter()
                .any(|end| inner.strip_suffix(end).is_some_and(|before| !before.ends_with('\\')));
            self.is_open |= at == last && ends_open;
            self.spans |= has_slash(&part) || (at < last && ends_open);
            self.segments.push(match literal_of_pattern(&part) {
                Some(text) => PathPart::Text(text),
                None => PathPart::Pattern(part),
            });
        }
    }

    /// Whether it is one of a method over gRPC, `/shop.v1.Cart/GetPrice`, as patterns may be.
    pub(super) fn is_of_grpc(&self, method: &Method) -> bool {
        match &self.segments[..] {
            [service, name] => can_be(service, &method.service) && can_be(name, &method.method),
            [one] => self.is_open && can_be(one, &method.service),
            _ => false,
        }
    }
}

/// The address of a mapping.
///
/// # Errors
/// There is none, or it is a pattern over path and query.
pub(super) fn address(request: &Node) -> Result<Address, Gap> {
    let keys = ["url", "urlPath", "urlPathTemplate", "urlPathPattern", "urlPattern"];
    let found = keys.iter().find_map(|key| present(request, key).map(|node| (*key, node)));
    let Some((key, node)) = found else {
        return Err(Gap::new(request.place, "request.url", "a mapping without an address"));
    };
    let said = scalar_text(node).unwrap_or_default();
    let mut address = Address {
        key,
        place: node.place,
        segments: Vec::new(),
        is_open: false,
        spans: false,
        query: None,
    };
    let gap = |why: String| Gap::new(node.place, format!("request.{key}"), why);
    match key {
        "url" | "urlPath" => {
            let (path, query) = match said.split_once('?') {
                Some((path, query)) if key == "url" => (path, query),
                _ => (&*said, ""),
            };
            for segment in path.trim_start_matches('/').split('/') {
                let plain = decode(segment, true).map_err(|why| gap(why.to_owned()))?;
                address.segments.push(PathPart::Text(plain.into_owned()));
            }
            if key == "url" {
                let mut pairs = Vec::new();
                for pair in query.split('&').filter(|pair| !pair.is_empty()) {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    let plain = |part: &str| {
                        let part = part.replace('+', " ");
                        decode(&part, true)
                            .map(|part| part.into_owned())
                            .map_err(|why| gap(why.to_owned()))
                    };
                    pairs.push((plain(name)?, plain(value)?));
                }
                address.query = Some(pairs);
            }
        }
        "urlPathTemplate" => {
            for segment in said.trim_start_matches('/').split('/') {
                let name = segment.strip_prefix('{').and_then(|one| one.strip_suffix('}'));
                address.segments.push(match name {
                    Some(name) => PathPart::Parameter(name.to_owned()),
                    None => PathPart::Text(segment.to_owned()),
                });
            }
        }
        _ => {
            let pattern = said.trim_start_matches('^').trim_end_matches('$');
            if key == "urlPattern" && pattern.contains("\\?") {
                return Err(gap(
                    "a pattern over path and query; use urlPathPattern and queryParameters"
                        .to_owned(),
                ));
            }
            address.add_pattern(pattern.trim_start_matches('/'));
        }
    }
    Ok(address)
}

/// The parts of a pattern between slashes that are in no group and no class.
fn pattern_segments(pattern: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    let mut in_class = false;
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '/' if depth == 0 && !in_class => {
                parts.push(String::new());
                continue;
            }
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => depth += 1,
            ')' if !in_class => depth -= 1,
            _ => {}
        }
        let part = parts.last_mut().expect("one is there from the beginning");
        part.push(c);
        if c == '\\' {
            part.extend(chars.next());
        }
    }
    parts
}

/// Whether a part of a pattern names a slash, outside of classes.
fn has_slash(pattern: &str) -> bool {
    let mut in_class = false;
    pattern.chars().any(|c| {
        match c {
            '[' => in_class = true,
            ']' => in_class = false,
            _ => {}
        }
        c == '/' && !in_class
    })
}

/// The text that a pattern is, where it has no sign of a pattern.
fn literal_of_pattern(pattern: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                let c = chars.next()?;
                if c.is_ascii_alphanumeric() {
                    return None;
                }
                out.push(c);
            }
            '.' | '*' | '+' | '?' | '[' | '(' | '{' | '|' | '^' | '$' => return None,
            c => out.push(c),
        }
    }
    Some(out)
}

/// Patterns of a segment that every segment fits.
pub(super) const ANYTHING: [&str; 7] = [".*", ".+", "[^/]+", "[^/]*", "([^/]+)", "(.*)", "(.+)"];

/// Whether a part of an address can be this text.
pub(super) fn can_be(part: &PathPart, text: &str) -> bool {
    match part {
        PathPart::Text(part) => part == text,
        PathPart::Parameter(_) => false,
        PathPart::Pattern(pattern) => {
            Pattern::of_java(pattern).and_then(|one| one.is_match(text)).unwrap_or(false)
        }
    }
}
