//! Methods of a schema, by the names that stubs have for them and by their routes of REST.

use buffa::Message as _;
use tidewire_proto::http::{HttpRule, Template};
use tidewire_schema::Schema;
use tidewire_service::Method;

/// A method at a verb and a path.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) method: Method,
    /// `GET`; `*` is any.
    pub(crate) verb: String,
    pub(crate) template: Template,
    /// `*`, a field of the request, or empty.
    pub(crate) body: String,
    /// A field of the reply, or empty.
    pub(crate) response_body: String,
}

/// All methods of a schema.
#[derive(Debug)]
pub(crate) struct Methods {
    all: Vec<Method>,
    routes: Vec<Route>,
}

impl Methods {
    pub(crate) fn new(schema: &Schema) -> Self {
        let interfaces = schema.services().filter_map(|name| schema.interface(name).ok().flatten());
        let all: Vec<_> = interfaces.flat_map(|one| one.methods().to_vec()).collect();
        let routes = all.iter().flat_map(|method| routes_of(schema, method)).collect();
        Self { all, routes }
    }

    pub(crate) fn all(&self) -> &[Method] {
        &self.all
    }

    pub(crate) fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// The method of a service, which may be named without its package where only one has the name.
    ///
    /// # Errors
    /// None or several.
    pub(crate) fn find(&self, service: &str, method: &str) -> Result<&Method, String> {
        let of = |method: &Method| method.service == service;
        let is_end =
            |full: &str| full.strip_suffix(service).is_some_and(|before| before.ends_with('.'));
        let exact: Vec<_> = self.all.iter().filter(|one| of(one)).collect();
        let of_service: Vec<_> = match exact.is_empty() {
            false => exact,
            true => self.all.iter().filter(|one| is_end(&one.service)).collect(),
        };
        let mut services: Vec<_> = of_service.iter().map(|one| &*one.service).collect();
        services.dedup();
        match services[..] {
            [] => return Err(format!("the schema has no service {service}")),
            [_] => {}
            _ => {
                let all = services.join(", ");
                return Err(format!("{service} is the end of several services: {all}"));
            }
        }
        let found = of_service.iter().find(|one| one.method == method).copied();
        found.ok_or_else(|| format!("{} has no method {method}", services[0]))
    }
}

fn routes_of(schema: &Schema, method: &Method) -> Vec<Route> {
    let pool = schema.pool();
    let descriptor = pool.service_by_name(&method.service);
    let descriptor = descriptor.and_then(|service| service.method(&method.method));
    let options = descriptor.and_then(|method| method.options());
    let options = options.map(|options| options.encode_to_vec()).unwrap_or_default();
    // Annotations that make no sense are told by who serves them.
    let rules = HttpRule::decode(&options).unwrap_or_default();
    rules
        .into_iter()
        .filter_map(|rule| {
            let template = Template::parse(&rule.template).ok()?;
            let HttpRule { verb, body, response_body, .. } = rule;
            Some(Route { method: method.clone(), verb, template, body, response_body })
        })
        .collect()
}
