//! Which binding a request is for: a tree of path segments.
//!
//! ```text
//! at each segment:  a literal  before  *  before  **        (then back up and try the next)
//! of several **:    the one with the longest end
//! at the end:       this verb, then GET for HEAD, then "*"
//! ```
//!
//! A part after the last colon of a path is a custom verb where some template has that verb, and
//! part of the last segment where that finds nothing. Plain HTTP routes are in the tree too, as
//! targets that lead elsewhere, so that the more specific of two wins whoever owns it.

use std::borrow::Cow;

use foldhash::{HashMap, HashMapExt};
use http::Method;
use percent_encoding::percent_decode_str;

use tidewire_proto::http::{Segment, Template};

/// Finds targets by verb and path.
#[derive(Debug)]
pub(crate) struct Router<T> {
    nodes: Vec<Node<T>>,
    custom_verbs: Vec<String>,
}

/// The verb of a route; `None` is any.
pub(crate) type Verb = Option<Method>;

#[derive(Debug)]
struct Node<T> {
    literals: HashMap<String, usize>,
    any: Option<usize>,
    /// Routes that end here.
    here: Vec<Entry<T>>,
    /// Routes that take all that is left but for an end; the longest end is first.
    rest: Vec<Rest<T>>,
}

/// Routes with the same segments after a `**`.
#[derive(Debug)]
struct Rest<T> {
    end: Vec<Segment>,
    entries: Vec<Entry<T>>,
}

#[derive(Debug)]
struct Entry<T> {
    verb: Verb,
    custom: Option<String>,
    target: T,
}

/// What [`Router::find`] came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RouteMatch<'a, T> {
    /// The target.
    Target(&'a T),
    /// The path is known, the verb is not; these are.
    WrongVerb(Vec<Method>),
    /// No template matches.
    Nothing,
}

impl<T> Node<T> {
    fn new() -> Self {
        Self { literals: HashMap::new(), any: None, here: Vec::new(), rest: Vec::new() }
    }

    fn with_end(&mut self, end: &[Segment]) -> &mut Vec<Entry<T>> {
        // Longer ends first, and of one length those with more literals.
        let rank = |end: &[Segment]| {
            let literals = end.iter().filter(|segment| matches!(segment, Segment::Literal(_)));
            (end.len(), literals.count())
        };
        let at = match self.rest.iter().position(|known| known.end == end) {
            Some(at) => at,
            None => {
                let at = self.rest.partition_point(|known| rank(&known.end) >= rank(end));
                self.rest.insert(at, Rest { end: end.to_vec(), entries: Vec::new() });
                at
            }
        };
        &mut self.rest[at].entries
    }
}

impl<T> Router<T> {
    pub(crate) fn new() -> Self {
        Self { nodes: vec![Node::new()], custom_verbs: Vec::new() }
    }

    /// Adds a route; gives back the target that already answers exactly the same requests.
    pub(crate) fn add(&mut self, verb: Verb, template: &Template, target: T) -> Result<(), &T> {
        let rest = template.segments.iter().position(|segment| *segment == Segment::Rest);
        let (path, end) = match rest {
            Some(rest) => (&template.segments[..rest], Some(&template.segments[rest + 1..])),
            None => (&template.segments[..], None),
        };
        let mut node = 0;
        for segment in path {
            node = self.child(node, segment);
        }
        if let Some(custom) = &template.verb
            && !self.custom_verbs.contains(custom)
        {
            self.custom_verbs.push(custom.clone());
        }
        let node = &mut self.nodes[node];
        let entries = match end {
            Some(end) => node.with_end(end),
            None => &mut node.here,
        };
        let same = |e: &Entry<T>| e.verb == verb && e.custom == template.verb;
        if let Some(taken) = entries.iter().position(same) {
            return Err(&entries[taken].target);
        }
        entries.push(Entry { verb, custom: template.verb.clone(), target });
        Ok(())
    }

    fn child(&mut self, node: usize, segment: &Segment) -> usize {
        let next = self.nodes.len();
        let child = match segment {
            Segment::Literal(text) => {
                *self.nodes[node].literals.entry(text.clone()).or_insert(next)
            }
            Segment::Any | Segment::Rest => *self.nodes[node].any.get_or_insert(next),
        };
        if child == next {
            self.nodes.push(Node::new());
        }
        child
    }

    /// Finds the target of a request.
    pub(crate) fn find(&self, verb: &Method, path: &str) -> RouteMatch<'_, T> {
        let mut search = Search { nodes: &self.nodes, verb, custom: None, allowed: Vec::new() };
        let path = path.strip_prefix('/').unwrap_or(path);
        if let Some((before, custom)) = self.custom_verb(path) {
            search.custom = Some(custom);
            if let Some(target) = search.walk(0, non_empty(before)) {
                return RouteMatch::Target(target);
            }
            search.custom = None;
        }
        match search.walk(0, non_empty(path)) {
            Some(target) => RouteMatch::Target(target),
            None if search.allowed.is_empty() => RouteMatch::Nothing,
            None => RouteMatch::WrongVerb(in_order(search.allowed)),
        }
    }

    fn custom_verb<'p>(&self, path: &'p str) -> Option<(&'p str, &'p str)> {
        if self.custom_verbs.is_empty() {
            return None;
        }
        let (before, verb) = path.rsplit_once(':')?;
        self.custom_verbs.iter().any(|known| known == verb).then_some((before, verb))
    }
}

/// A path without segments is not a segment at all, rather than an empty one.
fn non_empty(path: &str) -> Option<&str> {
    Some(path).filter(|path| !path.is_empty())
}

struct Search<'a, 'r, T> {
    nodes: &'a [Node<T>],
    verb: &'r Method,
    custom: Option<&'r str>,
    allowed: Vec<Method>,
}

impl<'a, T> Search<'a, '_, T> {
    /// Matches what is left of the path below a node; no deeper than the longest template.
    fn walk(&mut self, node: usize, rest: Option<&str>) -> Option<&'a T> {
        let node = &self.nodes[node];
        let Some(rest) = rest else {
            return self.choose(&node.here).or_else(|| self.choose_end(&node.rest, None));
        };
        let (segment, after) = match rest.split_once('/') {
            Some((segment, after)) => (segment, Some(after)),
            None => (rest, None),
        };
        if let Some(&child) = node.literals.get(&*decoded(segment))
            && let Some(target) = self.walk(child, after)
        {
            return Some(target);
        }
        if let Some(child) = node.any.filter(|_| !segment.is_empty())
            && let Some(target) = self.walk(child, after)
        {
            return Some(target);
        }
        self.choose_end(&node.rest, Some(rest))
    }

    /// Chooses among routes that take all that is left of the path but for their end.
    fn choose_end(&mut self, all: &'a [Rest<T>], left: Option<&str>) -> Option<&'a T> {
        all.iter().filter(|rest| ends(left, &rest.end)).find_map(|rest| self.choose(&rest.entries))
    }

    fn choose(&mut self, entries: &'a [Entry<T>]) -> Option<&'a T> {
        let here = || entries.iter().filter(|entry| entry.custom.as_deref() == self.custom);
        let of = |verb: Option<&Method>| here().find(|entry| entry.verb.as_ref() == verb);
        let found = of(Some(self.verb))
            .or_else(|| (self.verb == Method::HEAD).then(|| of(Some(&Method::GET)))?)
            .or_else(|| of(None));
        if let Some(entry) = found {
            return Some(&entry.target);
        }
        let verbs: Vec<_> = here().filter_map(|entry| entry.verb.clone()).collect();
        self.allowed.extend(verbs);
        None
    }
}

/// Whether what is left of a path ends with these segments.
fn ends(left: Option<&str>, end: &[Segment]) -> bool {
    let mut segments = left.into_iter().flat_map(|left| left.rsplit('/'));
    end.iter().rev().all(|wanted| match (wanted, segments.next()) {
        (Segment::Literal(text), Some(segment)) => decoded(segment) == **text,
        (Segment::Any | Segment::Rest, Some(segment)) => !segment.is_empty(),
        (_, None) => false,
    })
}

fn in_order(mut verbs: Vec<Method>) -> Vec<Method> {
    verbs.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    verbs.dedup();
    verbs
}

fn decoded(segment: &str) -> Cow<'_, str> {
    if segment.contains('%') {
        return percent_decode_str(segment).decode_utf8().unwrap_or(Cow::Borrowed(segment));
    }
    Cow::Borrowed(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router(routes: &[(&str, &'static str)]) -> Router<&'static str> {
        let mut router = Router::new();
        for (verb, template) in routes {
            let verb = (*verb != "*").then(|| verb.parse().unwrap());
            router.add(verb, &Template::parse(template).unwrap(), *template).unwrap();
        }
        router
    }

    fn check(router: &Router<&'static str>, verb: &str, path: &str, expected: &str) {
        let found = match router.find(&verb.parse().unwrap(), path) {
            RouteMatch::Target(template) => (*template).to_owned(),
            RouteMatch::WrongVerb(verbs) => format!("wrong verb {verbs:?}"),
            RouteMatch::Nothing => "nothing".to_owned(),
        };
        assert_eq!(found, expected, "{verb} {path}");
    }

    #[test]
    fn the_more_specific_template_wins() {
        let router = router(&[
            ("GET", "/v1/contacts/{id}"),
            ("GET", "/v1/contacts/me"),
            ("POST", "/v1/contacts/{id}"),
            ("GET", "/v1/{name=contacts/*/notes/*}"),
            ("GET", "/v1/{rest=**}"),
            ("GET", "/v1/contacts:page"),
            ("POST", "/v1/contacts/{id}:archive"),
            ("*", "/any"),
            ("GET", "/"),
        ]);
        check(&router, "GET", "/v1/contacts/7", "/v1/contacts/{id}");
        check(&router, "GET", "/v1/contacts/me", "/v1/contacts/me");
        check(&router, "GET", "/v1/contacts/m%65", "/v1/contacts/me");
        check(&router, "POST", "/v1/contacts/me", "/v1/contacts/{id}");
        check(&router, "GET", "/v1/contacts/7/notes/8", "/v1/{name=contacts/*/notes/*}");
        check(&router, "GET", "/v1/contacts/7/other", "/v1/{rest=**}");
        check(&router, "GET", "/v1/contacts/", "/v1/{rest=**}");
        check(&router, "GET", "/v1", "/v1/{rest=**}");
        check(&router, "GET", "/v1/contacts:page", "/v1/contacts:page");
        check(&router, "POST", "/v1/contacts/7:archive", "/v1/contacts/{id}:archive");
        check(&router, "GET", "/v1/contacts/7:archive", "/v1/contacts/{id}");
        check(&router, "GET", "/v1/contacts/a:b", "/v1/contacts/{id}");
        check(&router, "GET", "/v1/contacts%3Apage", "/v1/{rest=**}");
        check(&router, "HEAD", "/v1/contacts/7", "/v1/contacts/{id}");
        check(&router, "DELETE", "/v1/contacts/7", "wrong verb [GET, POST]");
        check(&router, "OPTIONS", "/any", "/any");
        check(&router, "GET", "/", "/");
        check(&router, "GET", "/nothing", "nothing");
        check(&router, "GET", "//", "nothing");
    }

    #[test]
    fn what_follows_a_double_star_is_found_at_the_end() {
        let router = router(&[
            ("GET", "/v1/{name=docs/**}"),
            ("GET", "/v1/{parent=docs/**}/{collection}"),
            ("GET", "/v1/{parent=docs/**}/list"),
            ("GET", "/v1/{parent=docs/**}/a/{b}"),
            ("POST", "/v1/{parent=docs/**}:run"),
            ("GET", "/{any=**}/x"),
        ]);
        check(&router, "GET", "/v1/docs", "/v1/{name=docs/**}");
        check(&router, "GET", "/v1/docs/1", "/v1/{parent=docs/**}/{collection}");
        check(&router, "GET", "/v1/docs/1/2/3", "/v1/{parent=docs/**}/{collection}");
        check(&router, "GET", "/v1/docs/1/list", "/v1/{parent=docs/**}/list");
        check(&router, "GET", "/v1/docs/1/l%69st", "/v1/{parent=docs/**}/list");
        check(&router, "GET", "/v1/docs/a/1", "/v1/{parent=docs/**}/a/{b}");
        check(&router, "GET", "/v1/docs/1/", "/v1/{name=docs/**}");
        check(&router, "POST", "/v1/docs/1/2:run", "/v1/{parent=docs/**}:run");
        check(&router, "GET", "/x", "/{any=**}/x");
        check(&router, "GET", "/a/b/x", "/{any=**}/x");
        check(&router, "GET", "/a/b/y", "nothing");
        check(&router, "GET", "/", "nothing");
        check(&router, "POST", "/a/x", "wrong verb [GET]");
    }

    #[test]
    fn templates_that_match_the_same_requests_exclude_each_other() {
        let mut router = router(&[("GET", "/v1/{name=shelves/*}")]);
        let mut add = |verb: Method, template: &'static str| {
            let parsed = Template::parse(template).unwrap();
            router.add(Some(verb), &parsed, template).map_err(|taken| *taken)
        };
        assert_eq!(add(Method::GET, "/v1/shelves/{id}"), Err("/v1/{name=shelves/*}"));
        assert_eq!(add(Method::PUT, "/v1/shelves/{id}"), Ok(()));
        assert_eq!(add(Method::GET, "/v1/shelves/{id}:check"), Ok(()));
        assert_eq!(add(Method::GET, "/v1/shelves/{id=**}"), Ok(()));
        assert_eq!(add(Method::GET, "/v1/shelves/**"), Err("/v1/shelves/{id=**}"));
        assert_eq!(add(Method::GET, "/v1/shelves/{id=**}/x"), Ok(()));
        assert_eq!(add(Method::GET, "/v1/shelves/**/x"), Err("/v1/shelves/{id=**}/x"));
    }

    #[test]
    fn no_template_and_no_path_is_too_odd() {
        const PIECES: [&str; 12] =
            ["/", "/", "a", "{", "}", "=", "*", "**", ":", ".", "%2F", "{b}"];
        let mut random = 88_172_645_463_325_252_u64;
        let mut text = || {
            let mut text = String::from("/");
            for _ in 0..random % 8 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                text.push_str(PIECES[usize::try_from(random % 12).unwrap()]);
            }
            random = random.wrapping_mul(3) | 1;
            text
        };
        let mut router = Router::new();
        let mut templates = Vec::new();
        for _ in 0..50_000 {
            if let Ok(template) = Template::parse(&text())
                && router.add(Some(Method::GET), &template, templates.len()).is_ok()
            {
                templates.push(template);
            }
        }
        assert!(templates.len() > 50, "{}", templates.len());
        for _ in 0..50_000 {
            let path = text();
            if let RouteMatch::Target(index) = router.find(&Method::GET, &path) {
                for variable in &templates[*index].variables {
                    let _ = templates[*index].capture(variable, &path);
                }
            }
        }
    }
}
