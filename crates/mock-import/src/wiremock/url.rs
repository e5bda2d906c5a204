//! Which methods a request of WireMock is for, and what its address says of their messages.

use tidewire_mock::document::Node;
use tidewire_proto::http::{Segment, Variable};
use tidewire_schema::{Field, Kind, MessageType, Schema, Single};
use tidewire_service::Method;

use super::address::{ANYTHING, Address, PathPart, address, can_be};
use super::{MATCHER, patterns};
use crate::finding::{Findings, Gap};
use crate::matching::{Conditions, absent, all};
use crate::methods::{Methods, Route};
use crate::nodes::{list, number, one, present, scalar_text, text, truth};
use crate::regexes::Pattern;

/// A method that a mapping is for.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) method: Method,
    /// None over gRPC.
    pub(super) route: Option<Route>,
    pub(super) conditions: Conditions,
    /// What path parameters are called in the mapping, and the fields that they are.
    pub(super) parameters: Vec<(String, String)>,
    /// Whether the query is exactly what the address says.
    pub(super) has_exact_query: bool,
    /// The parameters of that query.
    query: Vec<(String, String)>,
}

impl Target {
    fn new(method: &Method, route: Option<&Route>) -> Self {
        Self {
            method: method.clone(),
            route: route.cloned(),
            conditions: Conditions::default(),
            parameters: Vec::new(),
            has_exact_query: false,
            query: Vec::new(),
        }
    }

    /// Whether another target of the same method says nothing more.
    fn is_all_of(&self, other: &Self) -> bool {
        let is_plain = self.conditions.list.is_empty() && other.conditions.list.is_empty();
        is_plain && self.method.path == other.method.path && self.route.is_none()
    }

    /// What it is for, as findings name it: `GET of shop.v1.Cart/GetPrice`.
    pub(super) fn binding(&self) -> String {
        binding(&self.method, self.route.as_ref())
    }

    /// The fields that the path has.
    pub(super) fn path_fields(&self) -> Vec<&str> {
        let variables = self.route.iter().flat_map(|route| &route.template.variables);
        variables.map(|variable| variable.field.as_str()).collect()
    }
}

fn binding(method: &Method, route: Option<&Route>) -> String {
    let name = method.path.trim_start_matches('/');
    match route {
        Some(route) => format!("{} of {name}", route.verb),
        None => name.to_owned(),
    }
}

/// What a mapping is for.
pub(super) struct Targets {
    pub(super) fit: Vec<Target>,
    /// What would fit too, and why it cannot be said.
    pub(super) gaps: Vec<(String, Gap)>,
}

/// The methods that a request is for, over gRPC and by their REST bindings.
pub(super) fn targets(
    request: &Node,
    schema: &Schema,
    methods: &Methods,
    findings: &mut Findings,
) -> Result<Targets, Gap> {
    let verb = present(request, "method").and_then(scalar_text).unwrap_or_else(|| "ANY".to_owned());
    let verb = verb.to_uppercase();
    let address = address(request)?;
    let is_post = verb == "POST" || verb == "ANY";
    if let [PathPart::Text(service), PathPart::Text(method)] = &address.segments[..]
        && let Ok(found) = methods.find(service, method)
        && (service.contains('.') || *found.service == **service)
        && is_post
    {
        return Ok(Targets { fit: vec![Target::new(found, None)], gaps: Vec::new() });
    }
    let of_grpc = methods.all().iter().filter(|method| is_post && address.is_of_grpc(method));
    let mut fit: Vec<_> = of_grpc.map(|method| Target::new(method, None)).collect();
    let mut gaps = Vec::new();
    for route in methods.routes() {
        if verb != "ANY" && route.verb != "*" && route.verb != verb {
            continue;
        }
        match target(route, request, &address, schema) {
            // Its rules answer all protocols already.
            Ok(Some(target)) if fit.iter().any(|one| one.is_all_of(&target)) => {}
            Ok(Some(target)) => fit.push(target),
            Ok(None) => {}
            Err(gap) => gaps.push((binding(&route.method, Some(route)), route.verb.clone(), gap)),
        }
    }
    let key = format!("request.{}", address.key);
    if fit.is_empty() && gaps.is_empty() {
        let why = format!("no method has a REST binding for this {verb}");
        return Err(Gap::new(address.place, key, why));
    }
    let is_exact = address.segments.iter().all(|one| matches!(one, PathPart::Text(_)));
    if is_exact && !fit.is_empty() {
        fit = winners(fit);
        // Another route takes these requests.
        let is_taken = |verb: &str| {
            let mut verbs = fit.iter().filter_map(|target| target.route.as_ref());
            verbs.any(|route| route.verb == verb || route.verb == "*")
        };
        gaps.retain(|(_, verb, _)| !is_taken(verb));
    }
    if address.spans {
        let why = "a part of the pattern that may be several segments of a path is one here";
        findings.at(address.place, key, why);
    }
    Ok(Targets { fit, gaps: gaps.into_iter().map(|(of, _, gap)| (of, gap)).collect() })
}

/// Of the routes that an address without patterns fits, those that take it: for each verb the one
/// with the most literals.
fn winners(fit: Vec<Target>) -> Vec<Target> {
    let verb_of = |target: &Target| target.route.as_ref().map(|route| route.verb.clone());
    let literals = |target: &Target| {
        let segments = target.route.iter().flat_map(|route| &route.template.segments);
        segments.filter(|segment| matches!(segment, Segment::Literal(_))).count()
    };
    let takes = |target: &Target, verb: &Option<String>| {
        let own = verb_of(target);
        own == *verb || own.as_deref() == Some("*")
    };
    let is_winner = |at: usize| {
        fit.iter().map(verb_of).any(|verb| {
            let rivals = fit.iter().enumerate().filter(|(_, one)| takes(one, &verb));
            let best = rivals.max_by_key(|(index, one)| (literals(one), usize::MAX - index));
            best.is_some_and(|(index, _)| index == at)
        })
    };
    let kept: Vec<bool> = (0..fit.len()).map(is_winner).collect();
    fit.into_iter().zip(kept).filter_map(|(target, is_kept)| is_kept.then_some(target)).collect()
}

/// The method of a route, where an address can be of it.
fn target(
    route: &Route,
    request: &Node,
    address: &Address,
    schema: &Schema,
) -> Result<Option<Target>, Gap> {
    let Some(input) = schema.message_type(&route.method.input) else { return Ok(None) };
    let mut target = Target::new(&route.method, Some(route));
    let gap = |why: String| Gap::new(address.place, format!("request.{}", address.key), why);
    let mut wanted: Vec<&PathPart> = address.segments.iter().collect();
    let mut last = None;
    if let Some(verb) = route.template.verb.as_deref() {
        last = without_verb(wanted.last().copied(), verb);
        if last.is_none() {
            return Ok(None);
        }
    }
    if let Some(last) = &last {
        wanted.pop();
        wanted.push(last);
    }
    let segments = &route.template.segments;
    let has_rest = segments.contains(&Segment::Rest);
    let more = segments.len().checked_sub(wanted.len());
    let is_long_enough = has_rest || more.is_some_and(|more| more == 0 || address.is_open);
    if !is_long_enough {
        return Ok(None);
    }
    if has_rest {
        return rest(target, route, &wanted, input, &gap);
    }
    for (at, segment) in segments.iter().enumerate() {
        // What follows an open end may be anything.
        let Some(wanted) = wanted.get(at) else { continue };
        if let Segment::Literal(text) = segment {
            if !can_be(wanted, text) {
                return Ok(None);
            }
            continue;
        }
        let of = |variable: &&Variable| variable.segments.contains(&at);
        let Some(variable) = route.template.variables.iter().find(of) else { continue };
        if variable.segments.len() > 1 {
            continue;
        }
        let Some(place) = field(input, &variable.field) else { return Ok(None) };
        match wanted {
            PathPart::Text(text) => {
                let node = crate::nodes::text(text.as_str());
                let test = exact(place.single, place.presence, &node).map_err(gap)?;
                target.conditions.add(place.path, test);
            }
            PathPart::Parameter(name) => {
                target.parameters.push((name.clone(), place.path.clone()));
                let parameters = present(request, "pathParameters");
                if let Some(pattern) = parameters.and_then(|all| present(all, name)) {
                    let key = format!("request.pathParameters.{name}");
                    let test = patterns::field(pattern, place.single, place.presence, &key)?;
                    target.conditions.add(place.path, test);
                }
            }
            PathPart::Pattern(pattern) => {
                if !ANYTHING.contains(&&**pattern) {
                    let pattern = Pattern::of_java(pattern).map_err(gap)?;
                    let test =
                        MATCHER.pattern(place.single, place.presence, &pattern).map_err(gap)?;
                    target.conditions.add(place.path, test);
                }
            }
        }
    }
    whole_variables(&mut target, route, &wanted, input, &gap)?;
    if let Some(query) = &address.query {
        target.has_exact_query = true;
        target.query.clone_from(query);
    }
    Ok(Some(target))
}

/// The last segment of an address without the verb that a template wants there.
fn without_verb(last: Option<&PathPart>, verb: &str) -> Option<PathPart> {
    let end = format!(":{verb}");
    match last? {
        PathPart::Text(text) => Some(PathPart::Text(text.strip_suffix(&end)?.to_owned())),
        PathPart::Pattern(pattern) if ANYTHING.contains(&&**pattern) => {
            Some(PathPart::Pattern(pattern.clone()))
        }
        PathPart::Pattern(pattern) => {
            Some(PathPart::Pattern(pattern.strip_suffix(&end)?.to_owned()))
        }
        PathPart::Parameter(_) => None,
    }
}

/// Variables of several segments.
fn whole_variables(
    target: &mut Target,
    route: &Route,
    wanted: &[&PathPart],
    input: MessageType<'_>,
    gap: &dyn Fn(String) -> Gap,
) -> Result<(), Gap> {
    for variable in route.template.variables.iter().filter(|one| one.segments.len() > 1) {
        let Some(place) = field(input, &variable.field) else { continue };
        let mut texts = Vec::new();
        let mut is_free = true;
        for at in variable.segments.clone() {
            match wanted.get(at) {
                Some(PathPart::Text(text)) => texts.push(text.as_str()),
                Some(PathPart::Pattern(pattern)) if ANYTHING.contains(&&**pattern) => {}
                None => {}
                Some(_) => is_free = false,
            }
        }
        if is_free && texts.is_empty() {
            continue;
        }
        if texts.len() < variable.segments.len() {
            return Err(gap(format!("a pattern over a part of {}", variable.field)));
        }
        let node = text(texts.join("/"));
        let test = exact(place.single, place.presence, &node).map_err(gap)?;
        target.conditions.add(place.path, test);
    }
    Ok(())
}

/// A template with `**`: only addresses without patterns.
fn rest(
    mut target: Target,
    route: &Route,
    wanted: &[&PathPart],
    input: MessageType<'_>,
    gap: &dyn Fn(String) -> Gap,
) -> Result<Option<Target>, Gap> {
    let segments = &route.template.segments;
    let mut texts = Vec::new();
    for (at, one) in wanted.iter().enumerate() {
        let PathPart::Text(text) = one else {
            let mut before = segments.iter().zip(wanted).take(at);
            let can_fit = before.all(|(segment, part)| match segment {
                Segment::Literal(text) => can_be(part, text),
                _ => true,
            });
            return match (can_fit, one) {
                (true, PathPart::Pattern(_)) => {
                    Err(gap("a pattern over a path of any length".to_owned()))
                }
                _ => Ok(None),
            };
        };
        texts.push(text.as_str());
    }
    let at_rest = segments.iter().position(|one| *one == Segment::Rest).unwrap_or(0);
    let after = segments.len() - at_rest - 1;
    if texts.len() < at_rest + after {
        return Ok(None);
    }
    let fits = |segment: &Segment, text: &str| match segment {
        Segment::Literal(wanted) => wanted == text,
        _ => !text.is_empty(),
    };
    let ends = texts.len() - after;
    let is_fit = segments[..at_rest].iter().zip(&texts).all(|(one, text)| fits(one, text))
        && segments[at_rest + 1..].iter().zip(&texts[ends..]).all(|(one, text)| fits(one, text));
    if !is_fit {
        return Ok(None);
    }
    let path = format!("/{}", texts.join("/"));
    for variable in &route.template.variables {
        let Some(place) = field(input, &variable.field) else { continue };
        let node = text(route.template.capture(variable, &path));
        let test = exact(place.single, place.presence, &node).map_err(gap)?;
        target.conditions.add(place.path, test);
    }
    Ok(Some(target))
}

/// A field by its path in the request.
pub(super) struct FieldPlace<'s> {
    pub(super) path: String,
    pub(super) single: Single<'s>,
    pub(super) presence: bool,
    pub(super) is_list: bool,
}

/// The field that `contact.id` leads to.
pub(super) fn field<'s>(owner: MessageType<'s>, dotted: &str) -> Option<FieldPlace<'s>> {
    let mut path = "request".to_owned();
    let mut owner = owner;
    let mut parts = dotted.split('.').peekable();
    while let Some(part) = parts.next() {
        let field: Field<'s> = owner.field(part)?;
        path = format!("{path}.{}", field.name());
        let (single, is_list) = match field.kind() {
            Kind::One(single) => (single, false),
            Kind::List(single) => (single, true),
            Kind::Map { .. } => return None,
        };
        match (parts.peek(), single) {
            (None, single) => {
                let presence = field.has_presence();
                return Some(FieldPlace { path, single, presence, is_list });
            }
            (Some(_), Single::Message(inner)) if !is_list => owner = inner,
            _ => return None,
        }
    }
    None
}

/// A test for a text of an address, which may be a number or a truth.
pub(super) fn exact(single: Single<'_>, presence: bool, node: &Node) -> Result<Node, String> {
    use tidewire_schema::Scalar;
    let said = scalar_text(node).unwrap_or_default();
    let node = match single {
        Single::Scalar(Scalar::Bool) => match said.as_str() {
            "true" => truth(true),
            "false" => truth(false),
            _ => return Err(format!("{said} in place of a boolean")),
        },
        Single::Message(inner) if inner.full_name().starts_with("google.protobuf.") => {
            return Ok(text(said));
        }
        _ => text(said),
    };
    MATCHER.literal(single, presence, &node)
}

/// The conditions of query parameters.
pub(super) fn query(request: &Node, schema: &Schema, target: &mut Target) -> Result<(), Gap> {
    let Some(input) = schema.message_type(&target.method.input) else { return Ok(()) };
    let parameters = present(request, "queryParameters");
    if target.route.is_none() {
        return match parameters.filter(|all| !all.members().is_empty()) {
            Some(all) => Err(Gap::new(all.place, "request.queryParameters", "gRPC has no query")),
            None => Ok(()),
        };
    }
    for member in parameters.map_or(&[][..], Node::members) {
        let key = format!("request.queryParameters.{}", member.key);
        let Some(place) = field(input, &member.key) else {
            let why = format!("{} has no field {}", input.full_name(), member.key);
            return Err(Gap::new(member.place, key, why));
        };
        let test = match place.is_list {
            false => patterns::field(&member.value, place.single, place.presence, &key)?,
            true => of_list(&member.value, place.single, &key)?,
        };
        target.conditions.add(place.path, test);
    }
    if target.has_exact_query {
        exact_query(request, input, target)?;
    }
    Ok(())
}

fn of_list(pattern: &Node, single: Single<'_>, key: &str) -> Result<Node, Gap> {
    let several = |name: &str| present(pattern, name).map(|all| all.items().to_vec());
    let (items, is_all) = match (several("hasExactly"), several("includes")) {
        (Some(items), _) => (items, true),
        (None, Some(items)) => (items, false),
        (None, None) => {
            if present(pattern, "absent").is_some_and(Node::is_truthy) {
                return Ok(one("len", number(0)));
            }
            return Ok(one("any", patterns::field(pattern, single, true, key)?));
        }
    };
    let mut tests = Vec::new();
    if is_all {
        tests.push(one("len", number(i128::try_from(items.len()).unwrap_or(i128::MAX))));
    }
    for item in &items {
        tests.push(one("any", patterns::field(item, single, true, key)?));
    }
    all(tests).ok_or_else(|| Gap::new(pattern.place, key, "a list of no patterns"))
}

/// `url` says all of the query: what it does not name is not there.
fn exact_query(request: &Node, input: MessageType<'_>, target: &mut Target) -> Result<(), Gap> {
    let place = present(request, "url").map_or(request.place, |url| url.place);
    let gap = |why: String| Gap::new(place, "request.url", why);
    let mut by_name: Vec<(String, Vec<String>)> = Vec::new();
    for (name, value) in target.query.clone() {
        match by_name.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => by_name.push((name, vec![value])),
        }
    }
    let mut known: Vec<String> = target.path_fields().into_iter().map(str::to_owned).collect();
    for (name, values) in by_name {
        let Some(place) = field(input, &name) else {
            return Err(gap(format!("{} has no field {name}", input.full_name())));
        };
        let test = if place.is_list {
            let items = values.iter().map(|value| text(value.as_str())).collect();
            one("equals", list(items))
        } else {
            let last = values.last().cloned().unwrap_or_default();
            exact(place.single, place.presence, &text(last)).map_err(gap)?
        };
        target.conditions.add(place.path, test);
        known.push(name);
    }
    let body = target.route.as_ref().map(|route| route.body.clone()).unwrap_or_default();
    if body == "*" {
        return Ok(());
    }
    known.push(body);
    for field in input.fields() {
        let is_known = known.iter().any(|name| {
            let first = name.split('.').next().unwrap_or(name);
            first == field.name() || first == field.json_name()
        });
        if !is_known {
            let test = match field.kind() {
                Kind::One(_) => absent(),
                _ => one("len", number(0)),
            };
            // A map has no length.
            let test = if matches!(field.kind(), Kind::Map { .. }) { absent() } else { test };
            target.conditions.add(format!("request.{}", field.name()), test);
        }
    }
    Ok(())
}
