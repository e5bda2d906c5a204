//! What is wrong or odd about REST bindings, all of it, for tools such as `tidewire check`.
//!
//! A server that starts says the first fault and stops; here each binding is made for itself, by
//! the same code. Beside faults there are oddities, which a server serves all the same:
//!
//! | written | why it is odd |
//! |---|---|
//! | `get` or `delete` with `body` | clients and proxies drop such a body |
//! | a query under another verb than `get` | no cache and no retry knows that it changes nothing |
//! | `get` for a method that is not a query | whoever prefetches or retries runs the command |

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use http::Method;
use tidewire_service::Interface;

use crate::annotation::Rule;
use crate::binding::{Binding, Fault, try_bindings};
use crate::error::RestError;
use crate::options::RestOptions;
use crate::origin::Origin;
use crate::router::Router;
use crate::schemas::Schemas;
use tidewire_proto::Position;
use tidewire_proto::http::Template;

/// Something that is wrong or odd about a REST binding.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestFinding {
    /// Whether a server refuses to start with it; if not, it is odd only.
    pub is_fault: bool,
    /// The file, as it is imported.
    pub file: String,
    /// Line and column of the annotation, from 1; there when the descriptors have source info.
    pub place: Option<Position>,
    /// The template at fault and the place in it, from 0, to find it below `place`.
    pub template: Option<(String, usize)>,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// What to do next.
    pub help: Option<String>,
}

/// All that is wrong or odd about the REST bindings of services that one server is to serve.
///
/// # Errors
/// When the descriptors of a service do not decode.
pub fn check_rest(interfaces: &[Interface]) -> Result<Vec<RestFinding>, RestError> {
    let mut schemas = Schemas::default();
    let mut findings = Vec::new();
    let mut router = Router::new();
    let mut routes: Vec<(String, Origin)> = Vec::new();
    let mut odd = Vec::new();
    let mut got = HashSet::new();
    let options = Arc::new(RestOptions::default());
    for interface in interfaces.iter().enumerate() {
        let schema = schemas.of(interface.1).map_err(RestError::of_schema)?;
        for made in try_bindings(&schema, interface, &options) {
            let (binding, rule) = match made {
                Ok(made) => made,
                Err(fault) => {
                    findings.push(of_fault(fault));
                    continue;
                }
            };
            if binding.verb == Some(Method::GET) {
                got.insert(binding.method.path.clone());
            }
            odd.extend(oddity(&binding, &rule));
            let at = routes.len();
            if let Err(taken) = router.add(binding.verb.clone(), &binding.template, at) {
                let (route, origin): &(String, Origin) = &routes[*taken];
                let message =
                    format!("{} matches the same requests as {route} of {origin}", binding.route());
                let help = "change the path or the verb of one of them";
                findings.push(RestFinding { is_fault: true, ..finding(&binding, message, help) });
                continue;
            }
            routes.push((binding.route(), binding.origin.clone()));
        }
    }
    // A query that has a `get` may have other verbs beside it.
    let kept = |odd: &OddBinding| odd.unless_got.as_ref().is_none_or(|path| !got.contains(path));
    findings.extend(odd.into_iter().filter(kept).map(|odd| odd.finding));
    Ok(findings)
}

/// What a server serves all the same.
struct OddBinding {
    finding: RestFinding,
    /// The method whose `get` would make it right.
    unless_got: Option<Cow<'static, str>>,
}

fn of_fault(fault: Fault) -> RestFinding {
    let parsed = fault.template.as_ref().map(|text| Template::parse(text));
    let why = match &parsed {
        Some(Err(error)) => error.why(),
        _ => &fault.why,
    };
    let offset = |text: &str| match Template::parse(text) {
        Err(error) => error.column() - 1,
        Ok(template) => {
            let last = |field: &str| field.rsplit('.').next().unwrap_or_default().to_owned();
            let named = |field: &str| fault.why.contains(&format!("no field {};", last(field)));
            let wrong = template.variables.iter().find(|variable| named(&variable.field));
            wrong.and_then(|wrong| text.find(&format!("{{{}", wrong.field))).map_or(0, |at| at + 1)
        }
    };
    RestFinding {
        is_fault: true,
        file: fault.origin.file().to_owned(),
        place: fault.origin.place(),
        message: match &fault.template {
            Some(template) => format!("path {template:?}: {why}"),
            None => why.to_owned(),
        },
        template: fault.template.as_ref().map(|text| (text.clone(), offset(text))),
        help: Some("see the comments of google/api/http.proto".to_owned()),
    }
}

fn oddity(binding: &Binding, rule: &Rule) -> Option<OddBinding> {
    let verb = binding.verb.as_ref()?;
    let method = &binding.method;
    let route = binding.route();
    let odd =
        |message, help| OddBinding { finding: finding(binding, message, help), unless_got: None };
    if matches!(*verb, Method::GET | Method::DELETE) && !rule.body.is_empty() {
        let message = format!("{route} has a `body`, which clients and proxies drop");
        let help = "remove `body`: fields that are not in the path come from the query";
        return Some(odd(message, help));
    }
    if *verb == Method::GET && !method.is_query() {
        let message = format!("{route} calls {}, which is not declared a query", method.method);
        let help = "add `option idempotency_level = NO_SIDE_EFFECTS;`, or use another verb if it \
                    changes something";
        return Some(odd(message, help));
    }
    if *verb != Method::GET && method.is_query() {
        let message = format!("{route} calls {}, which is a query", method.method);
        let help = "bind it to `get`, so that caches know that it changes nothing, or remove \
                    `idempotency_level` if it does";
        return Some(OddBinding { unless_got: Some(method.path.clone()), ..odd(message, help) });
    }
    None
}

fn finding(binding: &Binding, message: String, help: &str) -> RestFinding {
    RestFinding {
        is_fault: false,
        file: binding.origin.file().to_owned(),
        place: binding.origin.place(),
        template: Some((binding.template.text.clone(), 0)),
        message,
        help: Some(help.to_owned()),
    }
}
