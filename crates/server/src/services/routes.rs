//! Which plain HTTP service a request is for.
//!
//! Templates are `/echo/{text}` (one segment) and `/files/{*path}` (the rest); a literal segment
//! wins over a named one. What a name matched is percent-decoded; a part that is not UTF-8 then is
//! the caller's error. Two templates that match the same paths are refused at start.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::{Method, Uri};
use percent_encoding::percent_decode_str;
use tidewire_service::{Error, PathParams, Service, without_prefix};

/// All plain HTTP services of a server.
#[derive(Default)]
pub(crate) struct Routes {
    routes: matchit::Router<Route>,
    pub(super) fallback: Option<Arc<dyn Service>>,
}

struct Route {
    names: Vec<Arc<str>>,
    target: RouteTarget,
}

pub(super) enum RouteTarget {
    /// A service a verb.
    Verbs(Vec<(Method, Arc<dyn Service>)>),
    /// One service for everything below a prefix of this length, which it does not see.
    Mount(Arc<dyn Service>, usize),
}

/// What [`Routes::find`] came to.
pub(crate) enum RouteMatch<'a> {
    /// The service of a verb, and the named parts of the path.
    Service(&'a Arc<dyn Service>, PathParams),
    /// What is mounted there, and the URI that it sees if that differs.
    Mounted(&'a Arc<dyn Service>, Option<Box<Uri>>),
    /// The path is known, the verb is not; these are.
    WrongVerb(String),
    /// No template matches.
    Nothing,
}

impl Routes {
    /// Adds a service for a verb and a template.
    pub(crate) fn add(
        &mut self,
        verb: Method,
        template: &str,
        service: Arc<dyn Service>,
    ) -> Result<(), RouteError> {
        if let Ok(found) = self.routes.at_mut(template)
            && let RouteTarget::Verbs(verbs) = &mut found.value.target
            && found.params.iter().all(|(name, value)| {
                value == format!("{{{name}}}") || value == format!("{{*{name}}}")
            })
        {
            if verbs.iter().any(|(known, _)| *known == verb) {
                return Err(RouteError::new(template, &format!("{verb} is registered already")));
            }
            verbs.push((verb, service));
            return Ok(());
        }
        self.insert(template, RouteTarget::Verbs(vec![(verb, service)]))
    }

    /// Adds a route.
    pub(super) fn insert(&mut self, template: &str, target: RouteTarget) -> Result<(), RouteError> {
        if !template.starts_with('/') {
            return Err(RouteError::new(template, "a route starts with /"));
        }
        let route = Route { names: names(template), target };
        self.routes.insert(template, route).map_err(|e| RouteError::new(template, &e.to_string()))
    }

    /// Finds the service for a request.
    ///
    /// # Errors
    /// When a named part of the path is not UTF-8 after percent-decoding.
    pub(crate) fn find(&self, verb: &Method, uri: &Uri) -> Result<RouteMatch<'_>, Error> {
        let Ok(matched) = self.routes.at(uri.path()) else {
            return Ok(match &self.fallback {
                Some(service) => RouteMatch::Mounted(service, None),
                None => RouteMatch::Nothing,
            });
        };
        let route = matched.value;
        match &route.target {
            RouteTarget::Mount(service, prefix) => {
                Ok(RouteMatch::Mounted(service, Some(Box::new(without_prefix(uri, *prefix)))))
            }
            RouteTarget::Verbs(verbs) => {
                let Some(service) = service_for(verbs, verb) else {
                    return Ok(RouteMatch::WrongVerb(allowed(verbs)));
                };
                let mut params = PathParams::default();
                for (name, (_, raw)) in route.names.iter().zip(matched.params.iter()) {
                    params.push(Arc::clone(name), decoded(name, raw)?.into_owned());
                }
                Ok(RouteMatch::Service(service, params))
            }
        }
    }
}

/// `HEAD` is answered by the service for `GET`; the connection leaves the body out.
fn service_for<'a>(
    verbs: &'a [(Method, Arc<dyn Service>)],
    verb: &Method,
) -> Option<&'a Arc<dyn Service>> {
    let named = |wanted: &Method| verbs.iter().find(|(known, _)| known == wanted);
    let found = named(verb).or_else(|| (verb == Method::HEAD).then(|| named(&Method::GET))?);
    found.map(|(_, service)| service)
}

fn allowed(verbs: &[(Method, Arc<dyn Service>)]) -> String {
    let names: Vec<_> = verbs.iter().map(|(verb, _)| verb.as_str()).collect();
    names.join(", ")
}

/// The names of a template's parts, in order: `/a/{b}/{*c}` gives `b`, `c`.
fn names(template: &str) -> Vec<Arc<str>> {
    let parts = template.split('{').skip(1).filter_map(|part| part.split_once('}'));
    parts.map(|(name, _)| Arc::from(name.trim_start_matches('*'))).collect()
}

fn decoded<'a>(name: &str, raw: &'a str) -> Result<Cow<'a, str>, Error> {
    percent_decode_str(raw).decode_utf8().map_err(|_| {
        Error::invalid_argument(format!("path part {name} is not UTF-8 after percent-decoding"))
    })
}

/// A route that cannot be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteError(String);

impl RouteError {
    pub(crate) fn new(template: &str, why: &str) -> Self {
        Self(format!("route {template}: {why}"))
    }
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RouteError {}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_service::{Call, Reply};

    fn service() -> Arc<dyn Service> {
        Arc::new(async |_: Call| Ok(Reply::text("ok")))
    }

    fn check(routes: &Routes, verb: Method, path: &str, expected: &str) {
        let uri: Uri = path.parse().unwrap();
        let found = match routes.find(&verb, &uri) {
            Ok(RouteMatch::Service(_, params)) => {
                let params: Vec<_> = params.iter().map(|(k, v)| format!("{k}={v}")).collect();
                format!("found {}", params.join(","))
            }
            Ok(RouteMatch::Mounted(_, uri)) => {
                format!("found  {}", uri.map_or_else(String::new, |uri| uri.to_string()))
            }
            Ok(RouteMatch::WrongVerb(allow)) => format!("wrong verb, {allow}"),
            Ok(RouteMatch::Nothing) => "nothing".to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(found.trim(), expected, "{verb} {path}");
    }

    #[test]
    fn requests_find_their_route() {
        let mut routes = Routes::default();
        routes.add(Method::GET, "/echo/{text}", service()).unwrap();
        routes.add(Method::PUT, "/echo/{text}", service()).unwrap();
        routes.add(Method::GET, "/echo/health", service()).unwrap();
        routes.add(Method::GET, "/files/{*path}", service()).unwrap();
        routes.mount("/app/", service()).unwrap();
        check(&routes, Method::GET, "/echo/a%20b", "found text=a b");
        check(&routes, Method::HEAD, "/echo/x?q=1", "found text=x");
        check(&routes, Method::GET, "/echo/health", "found");
        check(&routes, Method::POST, "/echo/x", "wrong verb, GET, PUT");
        check(&routes, Method::GET, "/files/a/b", "found path=a/b");
        check(&routes, Method::GET, "/app", "found  /");
        check(&routes, Method::GET, "/app/x/y?q=1", "found  /x/y?q=1");
        check(&routes, Method::GET, "/apple", "nothing");
        check(
            &routes,
            Method::GET,
            "/echo/%ff",
            "invalid_argument: path part text is not UTF-8 after percent-decoding",
        );
    }

    #[test]
    fn routes_that_exclude_each_other_are_refused() {
        let mut routes = Routes::default();
        routes.add(Method::GET, "/a/{b}", service()).unwrap();
        let again = routes.add(Method::GET, "/a/{b}", service()).unwrap_err().to_string();
        assert_eq!(again, "route /a/{b}: GET is registered already");
        assert!(routes.add(Method::GET, "/a/{other}", service()).is_err());
        assert!(routes.add(Method::GET, "a", service()).is_err());
    }
}
