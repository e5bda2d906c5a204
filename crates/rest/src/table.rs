//! All REST bindings of a server, and plain routes beside them.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::Method;
use tidewire_service::{Interface, Spec};

use crate::binding::{Binding, bindings};
use crate::describe::Describe;
use crate::error::RestError;
use crate::field::list;
use crate::openapi;
use crate::options::RestOptions;
use crate::router::{self, Router};
use crate::schemas::Schemas;
use tidewire_proto::http::{Segment, Template};

/// The REST bindings of a server.
pub struct Rest {
    router: Router<Target>,
    bindings: Vec<Arc<Binding>>,
    options: Arc<RestOptions>,
    /// Made when it is first asked for.
    document: OnceLock<Bytes>,
}

#[derive(Debug)]
enum Target {
    /// A binding by its index.
    Binding(usize),
    /// A plain route, as its template.
    Plain(String),
    /// The OpenAPI document.
    Document,
}

/// What [`Rest::find`] came to.
#[derive(Debug)]
pub enum RestMatch<'a> {
    /// A method.
    Binding(&'a Arc<Binding>),
    /// The OpenAPI document; see [`Rest::document`].
    Document,
    /// The path is known, the verb is not; these are.
    WrongVerb(Vec<Method>),
    /// Not REST: plain routes, mounts, or nothing.
    Elsewhere,
}

impl Rest {
    /// The bindings of all services, with plain routes (a verb, or none for a mount, and a
    /// template) to tell which of two is more specific.
    ///
    /// # Errors
    /// Annotations that do not fit their methods, and routes that exclude each other.
    pub fn new<'a>(
        interfaces: impl Iterator<Item = &'a Interface>,
        plain: impl Iterator<Item = (Option<&'a Method>, &'a str)>,
        options: RestOptions,
    ) -> Result<Self, RestError> {
        let mut rest = Self {
            router: Router::new(),
            bindings: Vec::new(),
            options: Arc::new(options),
            document: OnceLock::new(),
        };
        let mut schemas = Schemas::default();
        let mut names = Vec::new();
        for (place, interface) in interfaces.enumerate() {
            names.push(interface.name());
            if interface.descriptors().is_empty() {
                continue;
            }
            let schema = schemas.of(interface).map_err(RestError::of_schema)?;
            for binding in bindings(&schema, (place, interface), &rest.options)? {
                rest.add(binding)?;
            }
        }
        if let Some(name) = rest.options.services.keys().find(|name| !names.contains(&&***name)) {
            let known = list(names.iter().copied());
            return Err(RestError(format!(
                "rest.services: there is no service {name}; there is {known}"
            )));
        }
        if !rest.bindings.is_empty() {
            for (verb, template) in plain {
                rest.add_plain(verb, template)?;
            }
            if rest.options.openapi == Some(true) {
                rest.add_document();
            }
        }
        Ok(rest)
    }

    fn add(&mut self, binding: Binding) -> Result<(), RestError> {
        let target = Target::Binding(self.bindings.len());
        if let Err(taken) = self.router.add(binding.verb.clone(), &binding.template, target) {
            let taken = match taken {
                Target::Binding(index) => {
                    let taken = &self.bindings[*index];
                    format!("{} at {}", taken.route(), taken.origin)
                }
                Target::Plain(template) => format!("the plain route {template}"),
                Target::Document => "the OpenAPI document".to_owned(),
            };
            return Err(RestError(format!(
                "{taken} and {} at {} match the same requests; change one of them",
                binding.route(),
                binding.origin
            )));
        }
        self.bindings.push(Arc::new(binding));
        Ok(())
    }

    fn add_plain(&mut self, verb: Option<&Method>, template: &str) -> Result<(), RestError> {
        let mount = verb.is_none();
        for template in plain_templates(template, mount) {
            let target = Target::Plain(template.text.clone());
            if let Err(Target::Binding(index)) = self.router.add(verb.cloned(), &template, target) {
                let taken = &self.bindings[*index];
                return Err(RestError(format!(
                    "{} at {} and the plain route {} match the same requests; change one of them",
                    taken.route(),
                    taken.origin,
                    template.text
                )));
            }
        }
        Ok(())
    }

    /// A route of the application at the same path stays.
    fn add_document(&mut self) {
        let segments = vec![Segment::Literal("openapi.json".to_owned())];
        let text = "/openapi.json".to_owned();
        let template = Template { text, segments, variables: Vec::new(), verb: None };
        let _ = self.router.add(Some(Method::GET), &template, Target::Document);
    }

    /// The OpenAPI document as JSON, made when it is first asked for. For a large schema that takes
    /// longer than a thread that serves may: see [`has_document`](Self::has_document).
    /// `describe` says what descriptors do not.
    pub fn document(&self, describe: &dyn Describe) -> Bytes {
        let make = || Bytes::from(openapi::document(&self.bindings, &self.options, describe));
        self.document.get_or_init(make).clone()
    }

    /// Whether the document was made.
    pub fn has_document(&self) -> bool {
        self.document.get().is_some()
    }

    /// The methods that are bound to paths, with the template of each.
    pub fn routes(&self) -> impl Iterator<Item = (&Spec, &str)> {
        self.bindings.iter().map(|binding| (&**binding.method(), &*binding.template.text))
    }

    /// How requests are read and errors are printed.
    pub fn options(&self) -> &RestOptions {
        &self.options
    }

    /// Finds what a request is for.
    pub fn find(&self, verb: &Method, path: &str) -> RestMatch<'_> {
        if self.bindings.is_empty() {
            return RestMatch::Elsewhere;
        }
        match self.router.find(verb, path) {
            router::RouteMatch::Target(Target::Binding(index)) => {
                RestMatch::Binding(&self.bindings[*index])
            }
            router::RouteMatch::Target(Target::Document) => RestMatch::Document,
            router::RouteMatch::Target(Target::Plain(_)) | router::RouteMatch::Nothing => {
                RestMatch::Elsewhere
            }
            router::RouteMatch::WrongVerb(verbs) => RestMatch::WrongVerb(verbs),
        }
    }
}

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.bindings).finish()
    }
}

/// Our templates for one of a plain route or a mount; none where it matches part of a segment,
/// which has no counterpart here: REST bindings go before such a route.
fn plain_templates(template: &str, mount: bool) -> Vec<Template> {
    let path = template.trim_start_matches('/');
    let path = if mount { path.trim_end_matches('/') } else { path };
    let mut segments = Vec::new();
    for part in path.split('/').filter(|_| !path.is_empty()) {
        segments.push(match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(name) if name.starts_with('*') => Segment::Rest,
            Some(_) => Segment::Any,
            None if part.contains(['{', '}']) => return Vec::new(),
            None => Segment::Literal(part.to_owned()),
        });
    }
    if mount && segments.is_empty() {
        // The fallback: asked when nothing else matches.
        return Vec::new();
    }
    let text = template.to_owned();
    let exact = Template { text, segments, variables: Vec::new(), verb: None };
    if !mount {
        return vec![exact];
    }
    let mut below = exact.clone();
    below.segments.push(Segment::Rest);
    vec![exact, below]
}
