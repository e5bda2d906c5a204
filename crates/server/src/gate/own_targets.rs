//! What a server answers of itself, by the names and paths that rules of access and gates know.

/// The service that whoever probes asks, without credentials.
pub(crate) const HEALTH: &str = "grpc.health.v1.Health";

/// The services of reflection, of both editions.
pub(crate) const REFLECTION: [&str; 2] =
    ["grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];

/// Where the docs page is.
pub(crate) const DOCS_PATH: &str = "/docs";

/// Whether a path, or a template of one, is that of the docs page or below it.
pub(crate) fn is_of_docs(path: &str) -> bool {
    path.strip_prefix(DOCS_PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Where the OpenAPI document is.
pub(crate) const DOCUMENT: &str = "/openapi.json";
